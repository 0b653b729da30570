"""Draws how `lake` gathers free chunks: from a pool that runs on the emulator, before and after a request."""

from __future__ import annotations

from dataclasses import dataclass

import memlake
from drawing import BLUE, GREEN, INK, SOFT, Drawing
from memlake.policies import LakeOptions

UNIT = 2 * 2**20
LEFT, WIDTH, HEIGHT = 25, 25, 48
BEFORE, AFTER = 62, 218
FREE, USED, PART = "#cfe4f6", "#7d8996", "#f7dcc8"
# Blocks in the order in which they are asked for, in units: lake gives the highest addresses first. A name is a block
# that is closed again; None is a block that stays. Both parts of the pair lie on one chunk.
BLOCKS: list[tuple[str | None, int] | tuple[tuple[str | None, int], tuple[str | None, int]]] = [
    (None, 3),
    ("E", 3),
    ((None, 3), ("D", 1)),
    ("C", 2),
    (None, 4),
    ("B", 3),
    (None, 3),
    ("A", 4),
]
WANTED = 12
ROOM = 12
"""So many units of addresses without memory are drawn below the lowest chunk."""
ATTEMPTS = [
    ("best fit", "a free run of the", "lane; no driver", "call"),
    ("ordered", "a run of a stream", "that is ordered", "before this one"),
    ("grow", "new chunks at the", "lower end, while", "the budget allows"),
    ("other lanes", "pending memory;", "runs of all lanes,", "behind a wait"),
    ("move", "whole free chunks;", "new ones for the", "missing bytes"),
    ("parts", "of chunks in use;", "only at the levels", "whole and prefix"),
    ("spill", "host memory, if", "the pool has", 'spill="host"'),
    ("refuse", "name the reason;", "nothing in use", "has changed"),
]
MOVE = 4
"""The place of the attempt that the picture shows."""


@dataclass(frozen=True)
class Scene:
    """A pool at one moment. Places and sizes are in units, from the lowest address that is drawn.

    Attributes:
        chunks: place and size of each mapped chunk, by its handle.
        used: places and sizes of the blocks in use.
        free: how many units are free.
        largest: the largest free block.
    """

    chunks: dict[int, tuple[int, int]]
    used: list[tuple[int, int]]
    free: int
    largest: int


def gather() -> tuple[Scene, Scene, tuple[int, int], dict[int, str]]:
    """Runs the program; returns both moments, the place and size of the new block, and the names of chunks.

    Raises:
        AssertionError: if the pool does something else than the picture says.
    """
    total = sum(sum(size for _, size in _parts(entry)) for entry in BLOCKS)
    with (
        memlake.emulate(memory=total * UNIT, granularity=UNIT, backing="none") as (gpu,),
        memlake.Pool(gpu, LakeOptions(aliasing="none")) as pool,
    ):
        kept, named = _fill(pool)
        lowest = min(entry.address for entry in memlake.emulator.ledger().mappings) - ROOM * UNIT
        names = {handle: name for name, handle in _chunks_of(named).items()}
        for buffer in named.values():
            buffer.close()
        before = _scene(pool, lowest)
        moves = _moves(pool)
        new = pool.allocate(WANTED * UNIT)
        after = _scene(pool, lowest)
        place = (new.address - lowest) // UNIT
        moved = {names[handle] for handle in names if before.chunks[handle] != after.chunks[handle]}
        assert len(moved) == _moves(pool) - moves
        assert moved == {"B", "C", "E"}, moved
        assert set(before.used) <= set(after.used)
        for buffer in (new, *kept):
            buffer.close()
        return before, after, (place, WANTED), names


def _moves(pool: memlake.Pool) -> int:
    return int(pool.stats().policy_counters["moved_chunks"])


def _parts(entry: object) -> tuple[tuple[str | None, int], ...]:
    return entry if isinstance(entry[1], tuple) else (entry,)  # type: ignore[index, return-value]


def _fill(pool: memlake.Pool) -> tuple[list[memlake.Buffer], dict[str, memlake.Buffer]]:
    kept, named = [], {}
    for entry in BLOCKS:
        parts = _parts(entry)
        # One chunk for both parts: it is made for a block of their size, which is closed at once.
        pool.allocate(sum(size for _, size in parts) * UNIT).close()
        for name, size in parts:
            buffer = pool.allocate(size * UNIT)
            if name is None:
                kept.append(buffer)
            else:
                named[name] = buffer
    return kept, named


def _chunks_of(named: dict[str, memlake.Buffer]) -> dict[str, int]:
    mappings = memlake.emulator.ledger().mappings
    found = {}
    for name, buffer in named.items():
        inside = [one for one in mappings if one.address <= buffer.address < one.address + one.size]
        assert len(inside) == 1
        found[name] = inside[0].handle
    return found


def _scene(pool: memlake.Pool, lowest: int) -> Scene:
    def units(address: int, size: int) -> tuple[int, int]:
        return (address - lowest) // UNIT, size // UNIT

    stats = pool.stats()
    mappings = memlake.emulator.ledger().mappings
    blocks = [block for segment in pool.snapshot().segments for block in segment.blocks]
    return Scene(
        chunks={one.handle: units(one.address, one.size) for one in mappings},
        used=[units(block.address, block.nbytes) for block in blocks if block.state == "live"],
        free=stats.free // UNIT,
        largest=stats.largest_contiguous // UNIT,
    )


def draw_gather() -> Drawing:
    """Runs the program and draws it."""
    before, after, (place, size), names = gather()
    end = max(begin + length for begin, length in before.chunks.values())
    moved = [handle for handle in names if before.chunks[handle] != after.chunks[handle]]
    inside = [handle for handle in names if place <= after.chunks[handle][0] < place + size]
    stays = next(names[handle] for handle in inside if handle not in moved)
    drawing = Drawing(2 * LEFT + max(end * WIDTH, 950), 556)
    _draw_before(drawing, before, size)
    _draw_range(drawing, BEFORE, before, names, end)
    _draw_range(drawing, AFTER, after, names, end, new=(place, size))
    for handle in moved:
        start, stop = (_middle(scene.chunks[handle]) for scene in (before, after))
        low, high = BEFORE + HEIGHT + 4, AFTER - 4
        drawing.arrow(f"M{start:g},{low} C{start:g},{low + 55} {stop:g},{high - 55} {stop:g},{high}", BLUE)
    says = f"lake unmaps {_listed(moved, names, 'and')} and maps them below {stays}"
    drawing.text(LEFT + end * WIDTH, AFTER - 22, says, fill=BLUE, font_weight="bold", text_anchor="end")
    frame = (LEFT + place * WIDTH - 3, AFTER - 3, size * WIDTH + 6, HEIGHT + 6)
    drawing.rect(*frame, fill="none", stroke=GREEN, stroke_width=4)
    done = f"After: a block of {size} contiguous units; no byte was copied, and no block in use has changed its address"
    drawing.text(LEFT + place * WIDTH, AFTER + 70, done, fill=GREEN, font_weight="bold")
    _write(
        drawing,
        312,
        20,
        f"{stays} stays, because it lies right above the new addresses. A block in use lies on most of chunk D, so D "
        "cannot move; its free part stays free.",
        f"Each chunk has one mapping at a time (aliasing: none). If a stream may still use "
        f"{_listed(moved, names, 'or')}, the host waits for it before the move.",
    )
    _draw_attempts(drawing)
    return drawing


def _draw_before(drawing: Drawing, before: Scene, wanted: int) -> None:
    title = (
        f"Before: {before.free} units are free, at most {before.largest} of them side by side, and a request needs "
        f"{wanted}"
    )
    drawing.text(LEFT, 28, title, font_size=16, font_weight="bold", fill=INK)
    _write(
        drawing,
        48,
        20,
        "One address range, low addresses on the left. A framed box is a chunk: memory that the driver creates and "
        "maps as a whole.",
    )


def _write(drawing: Drawing, top: int, step: int, *lines: str) -> None:
    for number, line in enumerate(lines):
        drawing.text(LEFT, top + step * number, line, fill=SOFT)


def _draw_range(
    drawing: Drawing, top: int, scene: Scene, names: dict[int, str], end: int, new: tuple[int, int] | None = None
) -> None:
    drawing.rect(LEFT, top, end * WIDTH, HEIGHT, fill="url(#hole)", stroke="#999")
    others = [used for used in scene.used if used != new]
    for place, size in scene.chunks.values():
        is_part = any(begin < place + size and place < begin + length for begin, length in others)
        drawing.rect(LEFT + place * WIDTH, top, size * WIDTH, HEIGHT, fill=PART if is_part else FREE)
    for place, size in others:
        drawing.rect(LEFT + place * WIDTH, top, size * WIDTH, HEIGHT, fill=USED)
        _label(drawing, top, (place, size), "in use", "#fff")
    for handle, (place, size) in scene.chunks.items():
        drawing.rect(LEFT + place * WIDTH, top, size * WIDTH, HEIGHT, fill="none", stroke="#222", stroke_width=2)
        used = sum(length for begin, length in others if place <= begin < place + size)
        if handle in names:
            free = (place, size - used)
            _label(drawing, top, free, names[handle] + (" free" if new is None and free[1] > 2 else ""), INK)
    _label_holes(drawing, top, scene, end)


def _label_holes(drawing: Drawing, top: int, scene: Scene, end: int) -> None:
    taken = sorted(scene.chunks.values())
    place = 0
    for begin, length in [*taken, (end, 0)]:
        if begin > place:
            text = "addresses without memory" if begin - place > 8 else "hole" if place else ""
            _label(drawing, top, (place, begin - place), text, "#555", weight="normal")
        place = begin + length


def _label(drawing: Drawing, top: int, where: tuple[int, int], text: str, fill: str, weight: str = "bold") -> None:
    if text:
        drawing.text(_middle(where), top + 29, text, text_anchor="middle", fill=fill, font_weight=weight)


def _middle(where: tuple[int, int]) -> float:
    return LEFT + (where[0] + where[1] / 2) * WIDTH


def _listed(handles: list[int], names: dict[int, str], word: str) -> str:
    known = sorted(names[handle] for handle in handles)
    return f"{', '.join(known[:-1])} {word} {known[-1]}"


def _draw_attempts(drawing: Drawing) -> None:
    drawing.text(LEFT, 386, "The attempts for a request, in order", font_size=16, font_weight="bold", fill=INK)
    width, step, top = 112, 119.5, 400
    for number, (name, *lines) in enumerate(ATTEMPTS):
        x = LEFT + number * step
        if number:
            drawing.add(
                "path", d=f"M{x - step + width:g},{top + 46} h{step - width:g}", stroke="#555", stroke_width=1.5
            )
        is_shown = number == MOVE
        colours = (
            {"fill": "#e3efe5", "stroke": GREEN, "stroke_width": 2}
            if is_shown
            else {"fill": "#f4f4f4", "stroke": "#555"}
        )
        drawing.rect(x, top, width, 92, rx=6, **colours)
        middle = x + width / 2
        drawing.text(middle, top + 22, f"{number + 1} {name}", text_anchor="middle", font_weight="bold", fill=INK)
        for place, line in enumerate(lines):
            drawing.text(middle, top + 42 + 15 * place, line, text_anchor="middle", font_size=10.5, fill="#333")
    _write(
        drawing,
        520,
        18,
        f"Most requests end at step 1. The picture above is step {MOVE + 1}. A plan (steps 5 to 7) makes all its "
        "driver calls before it hands out the block;",
        "if one of them fails, no block in use has changed.",
    )
