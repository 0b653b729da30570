"""What is asked of lake's figures: the bars each trace must meet, and how far a figure may drift from the table."""

from collections.abc import Iterator, Mapping
from typing import Any

LARGEST_FIT = 1.01
"""Of the live peak, unless expandable segments need more."""
LARGEST_COLD = 2.0
"""Driver time of the first third of the steps, over that of expandable segments."""
LARGEST_LATE = 0.25
"""Driver time of the other steps, over that of expandable segments; or LATE_MS per step."""
LATE_MS = 1.0
WARM_MS = 1.0
"""Of driver time per step after the first third, with room."""

Row = Mapping[str, Any]


def bars(row: Row) -> dict[str, bool | None]:
    """Which bars the figures of one trace meet; None where a bar does not apply."""
    lake, whole, peer = row["lake"], row["lake_whole"], row["expandable"]
    return {
        "fit": lake["fit"] <= max(LARGEST_FIT, peer["fit"]),
        "fit_whole": whole["fit"] <= max(LARGEST_FIT, peer["fit"]),
        "cold": whole["cold_ms"] <= LARGEST_COLD * peer["cold_ms"],
        "late": None
        if lake["warm_ms_per_step"] is None
        else whole["late_ms"] <= max(LARGEST_LATE * peer["late_ms"], LATE_MS * whole["late_steps"]),
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
            "cold_ms": old["cold_ms"] * 1.1,
            "late_ms": old["late_ms"] * 1.1 + 1,
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
    head = (
        "| trace | fit, whole | fit | exp. | cold ms | exp. | late ms | exp. | handles | exp. | held | exp. "
        "| warm ms/step | waits | retries |"
    )
    lines = [head, "|---" + "|---:" * 14 + "|"]
    for name, row in table.items():
        lake, whole, peer, met = row["lake"], row["lake_whole"], row["expandable"], bars(row)

        def shown(text: str, bar: str, met: Mapping[str, bool | None] = met) -> str:
            return f"**{text}**" if met[bar] is False else text

        warm = "-" if lake["warm_ms_per_step"] is None else f"{lake['warm_ms_per_step']:.2f}"
        cells = [
            name,
            shown(f"{whole['fit']:.4f}", "fit_whole"),
            shown(f"{lake['fit']:.4f}", "fit"),
            f"{peer['fit']:.4f}",
            shown(f"{whole['cold_ms']:.0f}", "cold") + ("" if whole["runs_at_1.02"] else " (at its fit)"),
            f"{peer['cold_ms']:.0f}" + ("" if peer["runs_at_1.02"] else " (at its fit)"),
            shown(f"{whole['late_ms']:.0f}", "late"),
            f"{peer['late_ms']:.0f}",
            f"{whole['handles']}",
            f"{peer['handles']}",
            shown(f"{lake['held']:.4f}", "held"),
            f"{peer['held']:.4f}",
            shown(warm, "warm"),
            shown(f"{lake['host_waits']}" + ("" if lake["runs_with_lag"] else " (runs out)"), "host_waits"),
            f"{peer['retries']}" + ("" if peer["runs_with_lag"] else " (runs out)"),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
