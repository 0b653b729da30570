"""The metadata of a part of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["metadata_of_part"]


def metadata_of_part(metadata: dict[str, Any], start: int, rows: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Returns the metadata of a part of a trace. Only a snapshot has metadata that depends on the rows.

    Args:
        metadata: that of the whole trace.
        start: the first row of the part. Rows before it are there because they are live at `start`.
        rows: the row of the whole trace that each row of the part was.
    """
    if type(metadata.get("num_carried")) is not int:
        return metadata
    num_added = int(np.count_nonzero(rows < start))
    own = rows[num_added:]
    shortages = metadata.get("shortages")
    kept = []
    for one in shortages if isinstance(shortages, list) else ():
        if isinstance(one, dict) and type(one.get("row")) is int:
            place = int(np.searchsorted(own, one["row"]))
            if place < len(own) and own[place] == one["row"]:
                kept.append(one | {"row": num_added + place})
    inside = int(np.count_nonzero(own < metadata["num_carried"]))
    part: dict[str, Any] = {"shortages": kept, "num_carried": num_added + inside}
    history = metadata.get("history")
    if num_added and isinstance(history, dict) and history.get("kind") == "complete":
        part["history"] = history | {"kind": "warm", "reason": f"the part begins at row {start} of its trace"}
    return metadata | part
