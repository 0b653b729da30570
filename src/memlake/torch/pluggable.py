"""The second door: PyTorch's pluggable allocator, for machines without a C++ compiler and without a prebuilt shim.

PyTorch gives such an allocator no statistics, no history and no private pools. Here ``torch.cuda.memory_*`` is answered
by memlake, and what cannot work says so instead of showing zeros: graphs, ``MemPool``, the history. Only the profiler
shows no memory in silence. A failed request is torch.OutOfMemoryError, never a null pointer. The door can only be used
before CUDA has started, and stays.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

from memlake.errors import ConfigError
from memlake.libraries import native_library
from memlake.torch.c_functions import address_of, core, counts_of, last_error

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["PluggableDoor"]

_HOOKS = {
    "set_init_fn": "memlake_torch_init",
    "set_reset_fn": "memlake_torch_empty_cache",
    "set_memory_fraction_fn": "memlake_torch_fraction",
    "set_base_alloc_fn": "memlake_torch_base",
    "set_record_stream_fn": "memlake_torch_record_stream",
}


class PluggableDoor:
    """memlake as PyTorch's pluggable allocator.

    Raises:
        ConfigError: if CUDA has started, or if a failed request could not be told to PyTorch.
    """

    def __init__(self, torch: ModuleType, configuration: str) -> None:
        if torch.cuda.is_initialized():
            raise ConfigError(
                "PyTorch's allocator can be exchanged without a compiler only before CUDA has started; call "
                "memlake.torch.install() at the beginning of the program, or install g++"
            )
        if core().memlake_torch_can_throw() != 1:
            raise ConfigError(
                f"this PyTorch ({torch.__version__}) cannot be told of a failed request without memlake's shim; "
                "install g++ 10 or newer, and memlake compiles it"
            )
        self._configuration = configuration.encode()
        self._fractions: dict[int, float] = {}
        os.environ["MEMLAKE_CONF"] = configuration  # the C functions read it when PyTorch makes its first request
        allocator = torch.cuda.memory.CUDAPluggableAllocator(
            native_library(), "memlake_torch_malloc_or_throw", "memlake_torch_free"
        )
        for hook, function in _HOOKS.items():
            getattr(allocator._allocator, hook)(address_of(function))
        torch.cuda.memory.change_current_allocator(allocator)
        self._answer_for(torch)

    def pool(self, device: int) -> int:
        """Returns the C handle of the device's pool, which is made if there is none.

        Raises:
            ConfigError: if it cannot be made.
        """
        handle: int | None = core().memlake_torch_pool(device, self._configuration)
        if handle is None or core().memlake_pool_count_by_size(handle) != 0:
            raise ConfigError(last_error())
        return handle

    def _answer_for(self, torch: ModuleType) -> None:
        """Replaces the functions of PyTorch that a pluggable allocator does not answer."""
        module = torch._C
        for prefix in ("_cuda_memoryStats", "_accelerator_getDeviceStats"):
            setattr(module, prefix, lambda device: counts_of(self.pool(device)).to_torch())
        for name in ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats"):
            setattr(module, name, lambda device: self._reset("peaks", device))
        for name in ("_cuda_resetAccumulatedMemoryStats", "_accelerator_resetAccumulatedStats"):
            setattr(module, name, lambda device: self._reset("totals", device))
        set_fraction = module._cuda_setMemoryFraction

        def keep_fraction(fraction: float, device: int) -> None:
            set_fraction(fraction, device)
            self._fractions[device] = fraction

        module._cuda_setMemoryFraction = keep_fraction
        module._cuda_getMemoryFraction = lambda device: self._fractions.get(device, 1.0)
        # torch.accelerator takes a pluggable allocator for one that has not started, and shows zeros.
        module._accelerator_isAllocatorInitialized = torch.cuda.is_initialized
        module._accelerator_emptyCache = core().memlake_torch_empty_cache
        for name, what in {
            "_cuda_memorySnapshot": "a snapshot",
            "_cuda_record_memory_history": "the history of the memory",
            "_cuda_record_memory_history_legacy": "the history of the memory",
            "_cuda_attach_out_of_memory_observer": "an observer of out-of-memory errors",
        }.items():
            setattr(module, name, _refusal(what))
        torch.cuda.CUDAGraph.capture_begin = _refusal("a CUDA graph")
        torch.cuda.MemPool.__init__ = _refusal("torch.cuda.MemPool")

    def _reset(self, what: str, device: int) -> None:
        if getattr(core(), f"memlake_pool_reset_{what}")(self.pool(device)) != 0:
            raise ConfigError(last_error())


def _refusal(what: str) -> Any:
    def refuse(*_arguments: Any, **_settings: Any) -> NoReturn:
        raise RuntimeError(
            f"memlake: {what} needs memlake's shim, and there is no C++ compiler here to make it; install g++ 10 or "
            "newer and start the program again"
        )

    return refuse
