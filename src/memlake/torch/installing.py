"""Installing memlake as PyTorch's CUDA allocator, and going back."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from memlake.errors import ConfigError
from memlake.policies import Options, resolve_policy
from memlake.pool.publish_switch import publish_if_asked
from memlake.torch.pluggable import PluggableDoor
from memlake.torch.sending import tell_receivers
from memlake.torch.shim import Shim
from memlake.torch.shim_file import MissingCompiler, find_shim
from memlake.torch.torch_build import TorchBuild, import_torch, installed_build
from memlake.units import Size, format_bytes, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from memlake.pool.arguments import Spill

__all__ = ["Installation", "install", "installation", "uninstall", "using"]

_MOST_DEVICES = 64
_ALL_DEVICES = 2**_MOST_DEVICES - 1
_MOST_ENTRIES = 100_000
"""Of a history whose own bound is not known: enough for some steps of a job, and some hundred MiB at most."""


@dataclass(frozen=True)
class Installation:
    """How memlake is installed.

    Attributes:
        policy: the policy with its options, as one text.
        limit: the most that memlake may hold of each device, as bytes or as a share such as ``"90%"``; None: no limit.
        spill: ``"host"``, or None.
        devices: the devices that memlake serves; None: all.
        door: ``"shim"``: memlake wraps PyTorch's allocator. ``"pluggable"``: it is PyTorch's pluggable allocator,
            without graphs, ``MemPool`` and history, because there was no compiler for the shim.
    """

    policy: str
    limit: str | None = None
    spill: Spill | None = None
    devices: tuple[int, ...] | None = None
    door: str = "shim"

    @classmethod
    def of(
        cls, policy: str | Options, limit: Size | None, spill: Spill | None, devices: Iterable[int] | None
    ) -> Installation:
        """Checks the arguments of `install`.

        Raises:
            ConfigError: if one is invalid.
        """
        if spill not in (None, "host"):
            raise ConfigError(f'spill must be "host" or None, got {spill!r}')
        text = resolve_policy(policy).configuration
        return cls(text, None if limit is None else _limit_text(limit), spill, _checked_devices(devices))

    @property
    def configuration(self) -> str:
        """The pools' configuration as one text, as `memlake.h` reads it."""
        keys = {"limit": self.limit, "spill": self.spill}
        return ",".join([self.policy, *(f"{key}:{value}" for key, value in keys.items() if value is not None)])


_lock = threading.RLock()
_shim: Shim | None = None
_installation: Installation | None = None


def install(
    policy: str | Options = "lake",
    *,
    limit: Size | None = None,
    devices: Iterable[int] | None = None,
    spill: Spill | None = None,
) -> None:
    """Makes memlake the allocator of PyTorch's CUDA tensors in this process.

    It can be called at any time, also after CUDA has started: tensors that exist keep their memory, and new ones get
    memory from memlake. Everything else of ``torch.cuda`` works as before. The private pools of graphs,
    ``torch.cuda.MemPool`` and cudagraph trees get memlake's memory, too, if they are made after the installation.

    The first call for a version of PyTorch compiles a small C++ library, which takes some seconds. It is kept in the
    user's cache (``$MEMLAKE_CACHE``, or ``~/.cache/memlake``).

    Args:
        policy: how memlake serves a request; see `memlake.policies`.
        limit: the most that memlake may hold of each device, in bytes or as a share such as ``"90%"``. None: no limit.
        devices: the devices to serve, by PyTorch's index. None: all. The others keep PyTorch's own allocator.
        spill: ``"host"``: what a device has no room for lies on the host; see `memlake.Pool`.

    Raises:
        ConfigError: if an argument is invalid, if this PyTorch is not supported, if another allocator is in use, or if
            memlake is installed with other settings. PyTorch then keeps the allocator that it had.
    """
    wanted = Installation.of(policy, limit, spill, devices)
    with _lock:
        _install(wanted)
    publish_if_asked()


def uninstall() -> None:
    """Gives PyTorch its own allocator back. Tensors with memlake's memory stay valid and are freed correctly.

    From now on ``torch.cuda``'s statistics are about PyTorch's own allocator. Without an installation nothing happens.

    Raises:
        ConfigError: if memlake is PyTorch's pluggable allocator, which stays (see `Installation.door`).
    """
    global _installation
    with _lock:
        if _installation is None:
            return
        if _shim is None:
            raise ConfigError(
                "PyTorch's pluggable allocator cannot be exchanged again; with a C++ compiler memlake uses its shim, "
                "which can be uninstalled"
            )
        _shim.uninstall()
        _installation = None


@contextlib.contextmanager
def using(
    policy: str | Options = "lake",
    *,
    limit: Size | None = None,
    devices: Iterable[int] | None = None,
    spill: Spill | None = None,
) -> Iterator[None]:
    """Installs memlake for a block; afterwards PyTorch has the allocator that it had before. See `install`."""
    wanted = Installation.of(policy, limit, spill, devices)
    with _lock:
        before = _installation
        uninstall()
        try:
            _install(wanted)
        except BaseException:
            if before is not None:
                _install(before)
            raise
    try:
        yield
    finally:
        with _lock:
            uninstall()
            if before is not None:
                _install(before)


def installation() -> Installation | None:
    """Returns how memlake is installed in this process; None: it is not."""
    return _installation


def _limit_text(limit: Size) -> str:
    if isinstance(limit, str) and limit.strip().endswith("%"):
        parse_bytes(limit, of=2**40, what="limit")
        return limit.strip()
    size = parse_bytes(limit, what="limit")
    if size == 0:
        raise ConfigError("a limit of 0 bytes leaves no memory for PyTorch; leave the limit out for no limit")
    return str(size)


def _checked_devices(devices: Iterable[int] | None) -> tuple[int, ...] | None:
    if devices is None:
        return None
    if not isinstance(devices, Iterable) or isinstance(devices, str):
        raise ConfigError(f"devices is a list of PyTorch's indices, such as [0], got {devices!r}")
    given = list(devices)
    if not given:
        raise ConfigError("devices is empty; leave it out to serve all devices")
    for device in given:
        if not isinstance(device, int) or not 0 <= device < _MOST_DEVICES:
            raise ConfigError(f"a device is PyTorch's index, from 0 to {_MOST_DEVICES - 1}, got {device!r}")
    return tuple(sorted(set(given)))


def _install(wanted: Installation) -> None:
    """pre: _lock is held."""
    global _installation
    if _installation is not None and replace(_installation, door="shim") == wanted:
        return
    if _installation is not None:
        raise ConfigError(
            f"memlake is installed already, as {_installation.configuration!r}; call memlake.torch.uninstall() first, "
            "or use `with memlake.torch.using(...)`"
        )
    build = installed_build()
    torch = import_torch()
    _require_own_allocator(torch)
    _require_room(torch, wanted)
    try:
        shim = _loaded_shim(build)
    except MissingCompiler as error:
        _installation = _install_pluggable(torch, wanted, str(error))
        return
    was_recording = _is_recording(torch)
    served = _ALL_DEVICES if wanted.devices is None else sum(1 << device for device in wanted.devices)
    shim.install(wanted.configuration, served)
    tell_receivers(torch)
    _installation = wanted
    if was_recording and not _is_recording(torch):
        _record_memlake_too(torch, shim)


def _is_recording(torch: ModuleType) -> bool:
    """Whether the present allocator records a history (`_record_memory_history`)."""
    return torch.cuda.is_initialized() and bool(getattr(torch._C, "_cuda_isHistoryEnabled", bool)())


def _record_memlake_too(torch: ModuleType, shim: Shim) -> None:
    """Adds memlake's memory to a history that was turned on before the installation."""
    with shim.history_apart():
        torch.cuda.memory._record_memory_history(max_entries=_MOST_ENTRIES)
    warnings.warn(
        "the memory history was turned on before memlake was installed, and its settings cannot be read; from here on "
        f"it has memlake's memory, too, with PyTorch's default settings and at most {_MOST_ENTRIES} entries; for other "
        "settings call torch.cuda.memory._record_memory_history(...) again",
        RuntimeWarning,
        stacklevel=4,
    )


def _require_room(torch: ModuleType, wanted: Installation) -> None:
    """Refuses a device that is not there, and a limit above the device, which would limit nothing.

    Before CUDA has started the devices are not asked: the first tensor of a device warns of such a limit.
    """
    if not torch.cuda.is_initialized():
        return
    count = torch.cuda.device_count()
    for device in wanted.devices or ():
        if device >= count:
            raise ConfigError(f"there is no device {device}: PyTorch has {count} here, counted from 0")
    if wanted.limit is None or wanted.limit.endswith("%"):
        return
    limit = int(wanted.limit)
    for device in range(count) if wanted.devices is None else wanted.devices:
        total = torch.cuda.get_device_properties(device).total_memory
        if limit > total:
            raise ConfigError(
                f"the limit of {format_bytes(limit)} is above the {format_bytes(total)} of device {device}, so it "
                'would limit nothing; give less, or a share such as "90%"'
            )


def _loaded_shim(build: TorchBuild) -> Shim:
    global _shim
    if _shim is None:
        _shim = Shim(find_shim(build), build)
    return _shim


def _install_pluggable(torch: ModuleType, wanted: Installation, reason: str) -> Installation:
    if wanted.devices is not None:
        raise ConfigError(f"devices= needs memlake's shim. {reason}")
    PluggableDoor(torch, wanted.configuration)  # PyTorch keeps it
    warnings.warn(
        f"memlake is PyTorch's pluggable allocator, without graphs, MemPool and history. {reason}",
        RuntimeWarning,
        stacklevel=4,
    )
    return replace(wanted, door="pluggable")


def _require_own_allocator(torch: ModuleType) -> None:
    if torch.cuda._is_in_bad_fork():
        raise ConfigError(
            "this process was forked from one that uses CUDA, and CUDA does not survive a fork; start the workers with "
            'multiprocessing\'s "spawn"'
        )
    name = torch.cuda.memory.get_allocator_backend()
    if name == "cudaMallocAsync":
        raise ConfigError(
            "PyTorch uses CUDA's own pool here; remove backend:cudaMallocAsync from PYTORCH_ALLOC_CONF (or "
            "PYTORCH_CUDA_ALLOC_CONF), and start the program again"
        )
    if name not in ("native", "memlake"):
        raise ConfigError(
            f"PyTorch's allocator is {name!r}, which another library has installed (as RMM does); memlake needs "
            "PyTorch's own one: remove that call of torch.cuda.memory.change_current_allocator"
        )
