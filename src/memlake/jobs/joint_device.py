"""The device of a job whose question names none: what its files tell or imply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.errors import ConfigError
from memlake.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlake.jobs.answer import Rank
    from memlake.replaying.capacity import Capacity

__all__ = ["joint_device"]


def joint_device(ranks: Sequence[Rank[Capacity | None]]) -> tuple[int, str]:
    """Returns the size of the device and where it comes from, as a sentence.

    Files that tell what the device had for PyTorch may differ a little, because other programs and libraries take
    different amounts; the smallest counts. Else it is the largest size that a file implies.

    Raises:
        ConfigError: if no file tells or implies a size.
    """
    told = {rank.file.title: rank.facts.capacity for rank in ranks if rank.facts.capacity is not None}
    if told:
        title = min(told, key=lambda title: told[title])
        size = told[title]
        return size, f"The files give the size of the device: {format_bytes(size)}, the smallest of them ({title})."
    implied = {rank.file.title: rank.result.nbytes for rank in ranks if rank.result is not None}
    if not implied:
        raise ConfigError(
            "how much memory has the device? The files do not tell; say it with capacity (on the command line "
            '--capacity), for instance "80GiB"'
        )
    title = max(implied, key=lambda title: implied[title])
    size = implied[title]
    return size, (
        f"The files do not tell the size of the device: the answers are for {format_bytes(size)}, the most that a file "
        f"implies ({title}). Name another size, or a GPU, with --capacity."
    )
