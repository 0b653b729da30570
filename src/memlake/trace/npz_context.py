"""The members of a trace file for the context of the trace: stacks, labels and annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from memlake.trace.context import Annotation, Context, Label
from memlake.trace.stacks import Stacks

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

__all__ = ["COLUMNS", "TEXTS", "context_from", "context_members"]

LABELS = ("user_metadata", "compile_context", "category", "pool_id")
COLUMNS = (
    "stack",
    "stack_starts",
    "stack_frames",
    "frame_file",
    "frame_line",
    "frame_name",
    *(f"label_{name}" for name in LABELS),
)
TEXTS = ("frame_texts", "labels", "annotations")


def context_members(context: Context) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Returns the arrays of a context, and the values of its JSON texts."""
    stacks = context.stacks
    labels = {name: label for name, label in context.labels.items() if name in LABELS}
    columns = {
        "stack": context.stack,
        "stack_starts": stacks.starts,
        "stack_frames": stacks.frames,
        "frame_file": stacks.filename,
        "frame_line": stacks.line,
        "frame_name": stacks.name,
        **{f"label_{name}": label.number for name, label in labels.items()},
    }
    texts = {
        "frame_texts": list(stacks.texts),
        "labels": {name: list(label.texts) for name, label in labels.items()},
        "annotations": [[one.name, one.stage, one.device, one.time] for one in context.annotations],
    }
    return columns, texts


def context_from(arrays: Mapping[str, npt.NDArray[Any]], texts: Mapping[str, Any]) -> Context | None:
    """Makes the context of the members of a file; None if the file has no stacks.

    Raises:
        ValueError: if the members contradict each other.
    """
    if "stack" not in arrays:
        return None
    missing = [name for name in COLUMNS[:6] if name not in arrays]
    if missing:
        raise ValueError(f"there are stacks, but no {', '.join(missing)}")
    stacks = Stacks(
        arrays["stack_starts"],
        arrays["stack_frames"],
        arrays["frame_file"],
        arrays["frame_line"],
        arrays["frame_name"],
        _strings(texts.get("frame_texts", []), "frame_texts"),
    )
    named = texts.get("labels", {})
    if not isinstance(named, dict):
        raise ValueError("labels must be a JSON object")
    labels = {
        name: Label(_numbers(arrays[f"label_{name}"], name), _strings(named.get(name), f"label {name}"))
        for name in LABELS
        if f"label_{name}" in arrays
    }
    return Context(_numbers(arrays["stack"], "stack"), stacks, labels, _annotations(texts.get("annotations", [])))


def _numbers(array: npt.NDArray[Any], name: str) -> npt.NDArray[np.uint32]:
    if len(array) and (int(array.min()) < 0 or int(array.max()) >= 2**32):
        raise ValueError(f"a number of {name} has more than 32 bits")
    return array.astype(np.uint32)


def _strings(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"{name} must be a JSON list of strings")
    return tuple(value)


def _annotations(value: Any) -> tuple[Annotation, ...]:
    if not isinstance(value, list):
        raise ValueError("annotations must be a JSON list")
    for entry in value:
        if not isinstance(entry, list) or [type(part) for part in entry] != [str, str, int, int]:
            raise ValueError("an annotation must have a name, a stage, a device and a time")
    return tuple(Annotation(*entry) for entry in value)
