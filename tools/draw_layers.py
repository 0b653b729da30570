"""Draws the layers through which an allocation goes, from Python to the driver and back."""

from __future__ import annotations

from dataclasses import dataclass

from drawing import BLUE, Drawing

BACK = "#2c7a3f"
LEFT, WIDTH, TOP, HEIGHT, STEP = 310, 300, 44, 46, 72


@dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes:
        name: what is in it.
        places: its files or folders in the repository.
        more: what is behind them, outside the repository.
        allocate: what it does with a request.
        close: what it does with a buffer that is closed.
        returns: what it returns to the layer above it.
    """

    name: str
    places: tuple[str, ...]
    allocate: tuple[str, ...]
    close: tuple[str, ...]
    returns: str = ""
    more: str = ""
    fill: str = "#e4f0e6"


LAYERS = (
    Layer(
        "memlake.Pool, Buffer",
        ("src/memlake/pool/pool.py",),
        ('parses "10MiB";', "raises OutOfMemory"),
        ("with block, close() or dropped", "fails while NumPy views exist"),
        fill="#eef4fb",
    ),
    Layer(
        "bindings",
        ("bindings/bind_allocation.cpp",),
        ("converts Python objects to values;", "releases the GIL if it may wait"),
        ("first tries without waiting",),
        "Buffer",
        fill="#f4f4f4",
    ),
    Layer(
        "LivePool, Lease",
        ("core/runtime/",),
        ("takes the lock; numbers the stream", "(default stream: no driver call)"),
        ("frees in the order of a stream",),
        "Lease, or a Shortage",
    ),
    Layer(
        "Pool",
        ("core/pool/",),
        ("calls its space to round and find,", "waits for events if needed, counts"),
        ("if another stream used it: pending", "until that stream has passed"),
        "Block*",
    ),
    Layer(
        "LakeSpace: plan, then act",
        ("core/policies/lake/",),
        ("best fit; grow; or a plan:", "move chunks, borrow first parts"),
        ("merges free neighbours; ends a view:", "lent parts are free at home again"),
        "served, wait, or no memory",
    ),
    Layer(
        "owners: chunk, reservation, mapping",
        ("core/vmm/",),
        ("one object per driver call,", "its destructor makes the undo call"),
        ("unmap the second mappings after", "their stream has passed"),
        "owners, or an error",
        fill="#fbeee4",
    ),
    Layer(
        "the driver",
        ("core/driver/",),
        ("counts calls, models their time,", "fails them on request of a test"),
        ("cuMemUnmap; the memory stays", "held until trim() or the pool closes"),
        "CUresult",
        ", then libcuda.so.1 or the emulator",
        "#f7e6e6",
    ),
)


def draw_layers() -> Drawing:
    """Draws all layers, what goes down on the left and what comes back on the right."""
    drawing = Drawing(900, 560)
    middle = LEFT + WIDTH / 2
    for x, text, fill, anchor in (
        (290, "allocate", BLUE, "end"),
        (330, "the layers", "#000", "start"),
        (650, "close", BACK, "start"),
    ):
        drawing.text(x, 28, text, font_size=15, font_weight="bold", fill=fill, text_anchor=anchor)
    for number, layer in enumerate(LAYERS):
        top = TOP + number * STEP
        drawing.rect(LEFT, top, WIDTH, HEIGHT, rx=6, fill=layer.fill, stroke="#444", stroke_width=1.2)
        drawing.text(middle, top + 20, layer.name, text_anchor="middle", font_weight="bold")
        where = ", ".join(layer.places) + layer.more
        drawing.text(middle, top + 37, where, text_anchor="middle", font_size=11, fill="#555")
        for place, line in enumerate(layer.allocate):
            drawing.text(LEFT - 14, top + 19 + 17 * place, line, text_anchor="end", fill=BLUE)
        for place, line in enumerate(layer.close):
            drawing.text(LEFT + WIDTH + 14, top + 19 + 17 * place, line, fill=BACK)
        if layer.returns:
            drawing.arrow(f"M{LEFT + 90},{top - STEP + HEIGHT} v{STEP - HEIGHT - 4}", BLUE)
            drawing.arrow(f"M{LEFT + 210},{top} v{-(STEP - HEIGHT - 4)}", BACK)
            drawing.text(LEFT + 222, top - 9, layer.returns, font_size=11, fill=BACK)
    says = "Data is passed down as values, results come back as return values; no layer calls a layer above it."
    drawing.text(middle, 548, says, text_anchor="middle", fill="#555")
    return drawing
