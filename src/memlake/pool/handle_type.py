"""Handle types for exported memory: CUDA's names, and which of them memlake supports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.errors import ConfigError
from memlake.policies.registry import policies_with

if TYPE_CHECKING:
    from memlake.policies import Options

__all__ = ["is_shareable", "require_exportable", "require_handles"]

_REASONS = {
    "win32": 'it belongs to Windows, and memlake runs on Linux; use "posix_fd"',
    "win32_kmt": 'it belongs to Windows, and memlake runs on Linux; use "posix_fd"',
}


def is_shareable(handle_type: str | None, location: str, policy: Options) -> bool:
    """Whether buffers of a pool with this handle type can be exported.

    Raises:
        ConfigError: if the handle type is unknown, not supported, or not possible for such a pool.
    """
    if handle_type is None or handle_type == "none":
        return False
    if handle_type in ("posix_fd", "fabric"):
        require_exportable(location, policy)
        return True
    reason = _REASONS.get(handle_type) if isinstance(handle_type, str) else None
    if reason is not None:
        raise ConfigError(f"handle_type={handle_type!r} is not supported: {reason}")
    raise ConfigError(f'handle_type must be None, "none", "posix_fd" or "fabric", got {handle_type!r}')


def require_exportable(location: str, policy: Options) -> None:
    """Refuses pools whose memory cannot be exported.

    Another process cannot open host memory by a handle. CUDA's own pools have export functions of their own, which
    memlake does not use.

    Raises:
        ConfigError: if memory of such a pool cannot be exported.
    """
    if policy.capabilities.driver_release:
        raise ConfigError(
            f'the policy "{policy.name}" leaves memory to CUDA\'s own pools, whose sharing '
            "(cuMemPoolExportToShareableHandle) memlake does not offer: an importer there must free before the "
            "exporter does; use another policy for what is shared"
        )
    if not policy.capabilities.sharing:
        raise ConfigError(
            f'the policy "{policy.name}" has no memory that other processes may be given; '
            f"use {policies_with('sharing')}"
        )
    if location != "device":
        raise ConfigError(
            f"memory with location={location!r} cannot be given to other processes: the driver exports only memory of "
            "devices; make a pool on the device for what is shared"
        )


def require_handles(location: str, policy: Options) -> None:
    """Refuses pools that cannot allocate a buffer of a single handle.

    Raises:
        ConfigError: if the memory of such a pool has no handles of its own devices.
    """
    if not policy.capabilities.sharing:
        raise ConfigError(
            f'the policy "{policy.name}" leaves memory to CUDA\'s own pools, which have no handles; '
            f"use {policies_with('sharing')} for a buffer of a single handle"
        )
    if location != "device":
        raise ConfigError(
            f"memory with location={location!r} is not registered by its handle; make a pool on the device for buffers "
            "of a single handle"
        )
