"""What is asked of lake's figures: the bars each trace must meet, and how far a figure may drift from the table."""

from collections.abc import Iterator, Mapping
from typing import Any

LARGEST_FIT = 1.01
"""Of the live peak, unless expandable segments need more."""
LONG_MS = 1000.0
"""Where expandable segments pay more than this, lake may pay a quarter, else a half."""
WARM_MS = 1.0
"""Of driver time per step after the first third, with room."""

Row = Mapping[str, Any]


def bars(row: Row) -> dict[str, bool | None]:
    """Which bars the figures of one trace meet; None where a bar does not apply."""
    lake, peer = row["lake"], row["expandable"]
    share = 0.25 if peer["driver_ms"] > LONG_MS else 0.5
    return {
        "fit": lake["fit"] <= max(LARGEST_FIT, peer["fit"]),
        "driver_ms": lake["driver_ms"] <= share * peer["driver_ms"],
        "held": lake["held"] <= peer["held"],
        "warm": None if lake["warm_ms_per_step"] is None else lake["warm_ms_per_step"] <= WARM_MS,
        "quiet": None if lake["calls_after_step_3"] is None else lake["calls_after_step_3"] == 0,
        "host_waits": lake["host_waits"] < max(peer["retries"], 1) and lake["runs_with_lag"] >= peer["runs_with_lag"],
    }


def misses(table: Mapping[str, Row]) -> list[str]:
    """Each bar that is missed, with its trace."""
    return [f"{name}: {bar}" for name, row in table.items() for bar, is_met in bars(row).items() if is_met is False]


def worse(now: Mapping[str, Row], before: Mapping[str, Row]) -> Iterator[str]:
    """A sentence for each figure of lake that is worse than in the table by more than its tolerance."""
    for name, row in now.items():
        if name not in before:
            continue
        old, new = before[name]["lake"], row["lake"]
        allowed = {
            "fit": old["fit"] + 0.004,
            "driver_ms": old["driver_ms"] * 1.1,
            "held": old["held"] + 0.002,
            "warm_ms_per_step": None if old["warm_ms_per_step"] is None else old["warm_ms_per_step"] * 1.1 + 0.05,
            "calls_after_step_3": old["calls_after_step_3"],
            "host_waits": old["host_waits"],
        }
        for figure, most in allowed.items():
            if most is not None and new[figure] > most:
                yield f"{name}: {figure} was {old[figure]:g} and is {new[figure]:g}"
        for bar, is_met in bars(row).items():
            if is_met is False and bars(before[name])[bar]:
                yield f"{name}: the bar of {bar} was met and is missed"


def markdown(table: Mapping[str, Row]) -> str:
    """The table for people; a figure that misses its bar is bold."""
    head = "| trace | fit | exp. | driver ms | exp. | of it | held | exp. | warm ms/step | waits | retries |"
    lines = [head, "|---" + "|---:" * 10 + "|"]
    for name, row in table.items():
        lake, peer, met = row["lake"], row["expandable"], bars(row)

        def shown(text: str, bar: str, met: Mapping[str, bool | None] = met) -> str:
            return f"**{text}**" if met[bar] is False else text

        warm = "-" if lake["warm_ms_per_step"] is None else f"{lake['warm_ms_per_step']:.2f}"
        cells = [
            name,
            shown(f"{lake['fit']:.4f}", "fit"),
            f"{peer['fit']:.4f}",
            shown(f"{lake['driver_ms']:.0f}", "driver_ms") + ("" if lake["runs_at_1.02"] else " (at its fit)"),
            f"{peer['driver_ms']:.0f}" + ("" if peer["runs_at_1.02"] else " (at its fit)"),
            f"{lake['driver_ms'] / peer['driver_ms']:.2f}",
            shown(f"{lake['held']:.4f}", "held"),
            f"{peer['held']:.4f}",
            shown(warm, "warm"),
            shown(f"{lake['host_waits']}" + ("" if lake["runs_with_lag"] else " (runs out)"), "host_waits"),
            f"{peer['retries']}" + ("" if peer["runs_with_lag"] else " (runs out)"),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
