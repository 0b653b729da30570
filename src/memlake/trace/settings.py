"""The settings of the job that a trace was recorded of: its allocator, its version of PyTorch, its accelerator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memlake.errors import ConfigError
from memlake.policies import CachingOptions, ExpandableOptions, TorchOptions, policy
from memlake.trace.torch_version import TorchVersions

if TYPE_CHECKING:
    from memlake.policies import Options

__all__ = ["JobSettings", "policy_of_settings"]

_OLD_NAME, _NEW_NAME, _NPU_NAME = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NPU_ALLOC_CONF"
# torch 2.9 introduced the new name but ignores expandable_segments under it (pytorch/pytorch issue 183387), so only
# later versions are told the new name alone.
_READS_NEW_NAME = (2, 10)
_KNOWS_NEW_NAME = (2, 9)
_HAS_EXPANDABLE = (2, 1)
# Ascend documents these options for torch_npu (hiascend.com, "PYTORCH_NPU_ALLOC_CONF", since CANN 8.0.RC1): with
# expandable segments the other two must have their defaults.
_OF_NPU = frozenset({"max_split_size_mb", "garbage_collection_threshold", "expandable_segments"})


@dataclass(frozen=True)
class JobSettings:
    """What is known of the job's own allocator.

    Attributes:
        policy: PyTorch's allocator with the options that the job ran under; None for a trace that is no snapshot of
            PyTorch.
        torch: the versions of PyTorch that may have written the snapshot.
        accelerator: ``"cuda"``, or ``"npu"`` for a snapshot of torch_npu, whose allocator differs from PyTorch's.
        memlake: the configuration of memlake if it was PyTorch's allocator (`memlake.torch`), else empty. Then `policy`
            is None: the job did not run under an allocator of PyTorch.
        trouble: why the settings in the file could not be used, so that `policy` has the defaults; empty if they could.
    """

    policy: TorchOptions | None = None
    torch: TorchVersions = field(default_factory=TorchVersions)
    accelerator: str = "cuda"
    trouble: str = ""
    memlake: str = ""

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> JobSettings:
        """Reads the settings from the metadata of a trace."""
        if metadata.get("source") != "PyTorch snapshot":
            return cls()
        versions = TorchVersions.from_metadata(metadata.get("torch"))
        accelerator = "npu" if metadata.get("accelerator") == "npu" else "cuda"
        is_expandable = metadata.get("is_expandable") is True
        if memlake := _memlake_in(metadata.get("allocator_settings")):
            return cls(None, versions, accelerator, memlake=memlake)
        try:
            return cls(policy_of_settings(metadata.get("allocator_settings"), is_expandable), versions, accelerator)
        except ConfigError as error:
            options = ExpandableOptions() if is_expandable else CachingOptions()
            return cls(options, versions, accelerator, str(error))

    def can_set(self, options: Options) -> bool:
        """Whether an environment variable can make the job's PyTorch use these options."""
        if not isinstance(options, TorchOptions):
            return False
        if self.accelerator != "npu":
            return True
        names = [part.partition(":")[0] for part in options.to_torch().split(",")]
        is_alone = names == ["expandable_segments"] or not isinstance(options, ExpandableOptions)
        return is_alone and _OF_NPU.issuperset(names)

    def line_for(self, options: Options) -> str:
        """Returns the assignment that makes the job's PyTorch use these options, such as ``"NAME=VALUE"``.

        torch before 2.9 reads only ``PYTORCH_CUDA_ALLOC_CONF``. Later versions read it, too, so it is the name if the
        version is not known. torch_npu reads ``PYTORCH_NPU_ALLOC_CONF``, which has fewer options.

        Raises:
            ConfigError: if PyTorch has no such allocator, or torch_npu does not document such options.
        """
        if not isinstance(options, TorchOptions):
            raise ConfigError(f"PyTorch has no allocator {options.name}")
        if not self.can_set(options):
            raise ConfigError(f"torch_npu does not document the options {options.to_torch()}")
        name = _NEW_NAME if self.torch.is_from(_READS_NEW_NAME) else _OLD_NAME
        return f"{_NPU_NAME if self.accelerator == 'npu' else name}={options.to_torch()}"

    def note_for(self, options: Options) -> str:
        """Returns what a reader must know about `line_for`, for parentheses; empty if there is nothing."""
        if self.accelerator == "npu":
            needs = "Ascend HDK 23.0.0 or later; " if isinstance(options, ExpandableOptions) else ""
            return f"{needs}an estimate, because torch_npu's allocator differs from PyTorch's"
        if isinstance(options, ExpandableOptions) and self.torch.is_before(_HAS_EXPANDABLE):
            return "in torch 2.1 or later"
        if not self.torch.is_before(_KNOWS_NEW_NAME) and not self.torch.is_from(_READS_NEW_NAME):
            return f"torch 2.10 and later also read {_NEW_NAME}"
        return ""


def policy_of_settings(settings: object, is_expandable: bool = False) -> TorchOptions:
    """Returns PyTorch's allocator with the options of a snapshot's ``allocator_settings``.

    Args:
        settings: the settings; if they are no mapping, the defaults are used.
        is_expandable: whether the snapshot shows expandable segments. Old snapshots have no settings.

    Raises:
        ConfigError: if PyTorch would refuse the options.
    """
    if not isinstance(settings, Mapping):
        settings = {}
    chosen = _from_text(settings)
    for name in ("max_split_size", "garbage_collection_threshold"):
        if _is_positive(value := settings.get(name)):  # -1 means no maximum
            chosen[name] = value
    divisions = settings.get("roundup_power2_divisions")
    if isinstance(divisions, Mapping):
        numbers = [divisions.get(str(2**power)) for power in range(16)]
        chosen["roundup_power2_divisions"] = [number if _is_positive(number) else 0 for number in numbers]
    options = ExpandableOptions if settings.get("expandable_segments") or is_expandable else CachingOptions
    return options(**chosen)


def _memlake_in(settings: object) -> str:
    """Returns the configuration that memlake's shim adds to PyTorch's own text, as its last part; empty if none."""
    if not isinstance(settings, Mapping):
        return ""
    for name in (_OLD_NAME, _NEW_NAME):
        text = settings.get(name)
        if isinstance(text, str):
            _, found, memlake = f",{text}".rpartition(",memlake:")
            if found and "," not in memlake:
                return memlake.replace(";", ",")
    return ""


def _from_text(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that only the text of the environment variable names, not the settings beside it."""
    for name in (_OLD_NAME, _NEW_NAME, _NPU_NAME):
        text = settings.get(name)
        if isinstance(text, str) and text.strip():
            try:
                options = policy(text)
            except ConfigError:  # for instance a key that a later PyTorch has
                return {}
            if isinstance(options, TorchOptions):
                names = ("max_non_split_rounding", "large_segment_size", "memory_fraction")
                default = type(options)()
                return {
                    name: getattr(options, name) for name in names if getattr(options, name) != getattr(default, name)
                }
    return {}


def _is_positive(value: object) -> bool:
    return type(value) in (int, float) and value > 0  # type: ignore[operator]  # it is a number
