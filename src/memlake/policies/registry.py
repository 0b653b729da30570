"""The core's registry of policies: names, capabilities and options. It is read once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

__all__ = ["Capabilities", "Entry", "Option", "default_policy", "entries", "policies_with"]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """The capabilities of a policy's pools.

    Attributes:
        several_devices: one pool over several devices, and a `placement` among them.
        host_memory: a pool whose memory is on the host (`location`).
        spill: host memory for requests that do not fit on the devices.
        sharing: buffers that can be exported to other processes.
        preallocation: the pool can allocate memory in advance, because it keeps freed memory.
        reuse_rules: rules for the reuse of freed memory by other streams.
        peers: access for devices other than the pool's own.
        driver_release: the driver applies the release threshold, not memlake.
        in_pytorch: PyTorch has this allocator, and ``PYTORCH_ALLOC_CONF`` configures it there.
        virtual_memory: its pools need devices with virtual memory management.
        approximate: the figures on the emulator differ from those on a GPU. Its driver time is not modelled, and
            comparisons include it only if it is named.
    """

    several_devices: bool
    host_memory: bool
    spill: bool
    sharing: bool
    preallocation: bool
    reuse_rules: bool
    peers: bool
    driver_release: bool
    in_pytorch: bool
    approximate: bool
    virtual_memory: bool


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option in the text of a policy.

    Attributes:
        key: its name in the text.
        kind: ``"flag"``, ``"size"``, ``"mib"`` (a size written in MiB), ``"count"``, ``"number"``, ``"divisions"``
            or ``"word"`` (one of a few words).
        value: a description of the allowed values.
        default: the default as text; a description if no text sets it, so that the option must be left out.
        help: its effect, in one line.
    """

    key: str
    kind: str
    value: str
    default: str
    help: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One policy.

    Attributes:
        name: its name.
        summary: the policy in one line.
        capabilities: the capabilities of its pools.
        options: its options, in the order of its text.
    """

    name: str
    summary: str
    capabilities: Capabilities
    options: tuple[Option, ...]


@cache
def entries() -> dict[str, Entry]:
    """Returns every policy by its name, in the order of tables; the first is the default."""
    from memlake import _native

    return {
        policy["name"]: Entry(
            name=policy["name"],
            summary=policy["summary"],
            capabilities=Capabilities(**policy["capabilities"]),
            options=tuple(Option(**option) for option in policy["options"]),
        )
        for policy in _native.policies()
    }


def default_policy() -> str:
    """Returns the name of the default policy of pools."""
    return next(iter(entries()))


def policies_with(capability: str) -> str:
    """Returns the names of the policies with a capability for a message, such as ``'"lake" or "driver"'``."""
    names = [f'"{entry.name}"' for entry in entries().values() if getattr(entry.capabilities, capability)]
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
