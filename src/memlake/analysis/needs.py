"""Needs: what a job needs beside memory, and the settings of PyTorch that are known to break it."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from memlake.errors import ConfigError
from memlake.policies import ExpandableOptions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memlake.policies import Options

__all__ = ["NEEDS", "Need", "chosen_needs"]


@dataclass(frozen=True)
class Need:
    """Something that a job needs and that a setting may break. Each is known to be broken by expandable segments.

    Attributes:
        name: the name on the command line.
        reason: what goes wrong with expandable segments, as the reports say.
        sources: the public reports, as ``owner/repository#number`` on GitHub.
    """

    name: str
    reason: str
    sources: tuple[str, ...]

    def rules_out(self, options: Options) -> bool:
        """Whether these options are known to break what the job needs."""
        return isinstance(options, ExpandableOptions)

    @property
    def sentence(self) -> str:
        """The rule as text."""
        return f"{self.name} rules out expandable_segments:True: {self.reason} ({', '.join(self.sources)})."


# docs/reference/capacities.md has the same table.
NEEDS = {
    need.name: need
    for need in (
        Need(
            "ipc",
            "legacy CUDA IPC handles cannot be made of such memory",
            ("vllm-project/vllm#42609", "pytorch/torchtitan#3865", "pytorch/pytorch#186213"),
        ),
        Need(
            "nccl-registration",
            "NCCL aborts, or maps only the first of the handles that a buffer consists of",
            ("NVIDIA/nccl#1820", "NVIDIA/nccl#2332"),
        ),
        Need(
            "cuda-graphs",
            "a job with captured graphs hung until its watchdog ended it",
            ("pytorch/torchtitan#3306",),
        ),
        Need("wsl", "the first allocation fails with an unknown error of the driver", ("pytorch/pytorch#192330",)),
    )
}


def chosen_needs(names: Iterable[str] | str) -> tuple[Need, ...]:
    """Returns needs by their names, each once.

    Raises:
        ConfigError: if a name is unknown.
    """
    given = [names] if isinstance(names, str) else list(names)
    for name in given:
        if name not in NEEDS:
            close = get_close_matches(str(name), list(NEEDS), 1)
            meant = f"did you mean {close[0]}? " if close else ""
            raise ConfigError(f"there is no need {str(name)[:60]!r}; {meant}known: {', '.join(NEEDS)}")
    return tuple(NEEDS[name] for name in dict.fromkeys(given))
