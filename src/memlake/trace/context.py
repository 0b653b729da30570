"""The context of a trace: which code made each row, and what the program said about it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from memlake.trace.columns import read_only
from memlake.trace.stacks import Stacks

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

__all__ = ["Annotation", "Context", "Label"]


@dataclass(frozen=True)
class Annotation:
    """The beginning or the end of a named part of the program, such as a step of the optimizer.

    Attributes:
        name: the name of the part.
        stage: ``"START"`` or ``"END"``, as PyTorch writes it.
        device: the number of the device.
        time: the time in microseconds, as in the trace.
    """

    name: str
    stage: str
    device: int
    time: int


@dataclass(frozen=True, eq=False)
class Label:
    """A text for each row.

    Attributes:
        number: the text of each row, as a place in `texts`. 0: the row has none.
        texts: the different texts; the first is empty.
    """

    number: npt.NDArray[np.uint32]
    texts: tuple[str, ...] = field(repr=False)

    def __getitem__(self, row: int) -> str:
        return self.texts[int(self.number[row])]


@dataclass(frozen=True, eq=False)
class Context:
    """Which code made each row of a trace, and what the program said about it.

    Attributes:
        stack: the stack of each row, as a place in `stacks`. 0: none was recorded.
        stacks: the different stacks.
        labels: texts for the rows, by name: ``user_metadata``, ``compile_context``, ``category`` and ``pool_id``, if
            the file has them.
        annotations: the parts of the program in the order of the file.
    """

    stack: npt.NDArray[np.uint32] = field(repr=False)
    stacks: Stacks = field(default_factory=Stacks)
    labels: Mapping[str, Label] = field(default_factory=dict, repr=False)
    annotations: tuple[Annotation, ...] = field(default=(), repr=False)

    def at_rows(self, rows: npt.NDArray[Any]) -> Context:
        """Returns the context of a trace that consists of these rows."""
        labels = {name: replace(label, number=read_only(label.number[rows])) for name, label in self.labels.items()}
        return replace(self, stack=read_only(self.stack[rows]), labels=labels)

    def check(self, num_rows: int) -> None:
        """Checks that the context fits a trace.

        Raises:
            ValueError: if it does not.
        """
        columns = [("stack", self.stack, len(self.stacks))]
        columns += [(name, label.number, len(label.texts)) for name, label in self.labels.items()]
        for name, column, end in columns:
            if len(column) != num_rows:
                raise ValueError(f"the context has {len(column)} rows of {name}, and the trace has {num_rows} rows")
            if len(column) and int(column.max()) >= end:
                raise ValueError(f"the context has no {name} {column.max()}")
