"""GPUs by name: the memory that CUDA reports for each, from a public report."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

from memlake.errors import ConfigError
from memlake.units import Size, format_bytes, parse_bytes

__all__ = ["CONTEXT_RESERVE", "GPUS", "Gpu", "close_gpus", "find_gpu"]

CONTEXT_RESERVE = 512 * 2**20
"""The CUDA context of one process takes so much of a GPU. docs/reference/capacities.md has the reports behind it."""


@dataclass(frozen=True)
class Gpu:
    """A GPU.

    Attributes:
        name: the name on the command line.
        total: the memory that CUDA reports, as PyTorch's error message in the source prints it.
        source: the public report, as ``owner/repository#number`` on GitHub.
    """

    name: str
    total: str
    source: str

    @property
    def nbytes(self) -> int:
        """The memory that CUDA reports, in bytes, rounded down."""
        return parse_bytes(self.total, round_down=True)

    def usable(self, reserve: Size | None = None) -> int:
        """Returns the bytes that remain for an allocator.

        Args:
            reserve: what to subtract for the context. None: `CONTEXT_RESERVE`.

        Raises:
            ConfigError: if the reserve is not a size, or the GPU has no more than that.
        """
        kept = CONTEXT_RESERVE if reserve is None else parse_bytes(reserve, what="reserve", round_down=True)
        if kept >= self.nbytes:
            raise ConfigError(
                f"reserve {format_bytes(kept)} leaves nothing of the {self.total} of {self.name}; "
                "hint: give a smaller one"
            )
        return self.nbytes - kept


# Where public reports differ, the smallest number is taken. docs/reference/capacities.md has the same table.
GPUS = (
    Gpu("h100-nvl", "93.00GiB", "ali-vilab/VACE#56"),
    Gpu("h100-80gb", "79.11GiB", "vllm-project/vllm#27508"),
    Gpu("a100-80gb", "79.15GiB", "vllm-project/vllm#4408"),
    Gpu("a100-40gb", "39.50GiB", "TianheWu/CoSeR#10"),
    Gpu("6000-ada", "44.43GiB", "DINGYANB/MTVCrafter#21"),
    Gpu("l40", "44.40GiB", "QwenLM/Qwen3-VL#2097"),
    Gpu("v100-32gb", "31.74GiB", "liucongg/ChatGLM-Finetuning#73"),
    Gpu("5090", "31.36GiB", "TrajectoryCrafter/TrajectoryCrafter#20"),
    Gpu("3090", "23.70GiB", "GaoLii/DSP#10"),
    Gpu("4090", "23.61GiB", "pinokiofactory/flux-webui#11"),
    Gpu("a30", "23.53GiB", "google/RB-Modulation#5"),
    Gpu("a4000", "15.61GiB", "DengKaiCQ/VGGT-Long#6"),
    Gpu("t4", "14.56GiB", "AlphaGPU/leetgpu-challenges#52"),
    Gpu("a2000-12gb", "11.53GiB", "vllm-project/vllm#12030"),
    Gpu("2080ti", "10.76GiB", "JDAI-CV/image-captioning#11"),
    Gpu("3080-10gb", "9.78GiB", "zai-org/CogVideo#34"),
    Gpu("3070", "7.78GiB", "akshitac8/OW-DETR#46"),
)

_BY_NAME = {gpu.name.replace("-", ""): gpu for gpu in GPUS}
_BY_NAME["h100"] = _BY_NAME["h10080gb"]
# Words of the full names that do not tell two GPUs of the table apart.
_WITHOUT_MEANING = re.compile(r"nvidia|geforce|tesla|quadro|rtx|sxm\d?|pcie|hbm\d?|[\s_-]+")


def find_gpu(name: object) -> Gpu | None:
    """Returns a GPU by its name: ``"a100-80gb"``, ``"NVIDIA A100-SXM4-80GB"``, ``"4090"``; None if it is unknown."""
    return _BY_NAME.get(_key(name)) if isinstance(name, str) and len(name) <= 60 else None


def close_gpus(name: str) -> list[str]:
    """Returns the names of up to three GPUs that resemble an unknown name, the most similar first."""
    key = _key(name[:60])
    if not key:
        return []
    whole = [gpu.name for known, gpu in _BY_NAME.items() if known.startswith(key)]
    close = [_BY_NAME[found].name for found in get_close_matches(key, list(_BY_NAME), 3)]
    return list(dict.fromkeys(whole or close))[:3]


def _key(name: str) -> str:
    return _WITHOUT_MEANING.sub("", name.strip().lower())
