"""What is asked of lake's figures: the bars each trace must meet, and how far a figure may drift from the table."""

from collections.abc import Iterator, Mapping
from typing import Any

LARGEST_FIT = 1.01
"""Of the live peak, unless expandable segments need more."""
LARGEST_COLD = 2.0
"""Driver time of the first third of the steps, over that of expandable segments, where both run at 1.02x."""
LARGEST_LATE = 0.25
"""Driver time of the other steps, over that of expandable segments; or LATE_MS per step."""
LATE_MS = 1.0
WARM_MS = 1.0
"""Of driver time per step after the first third, with room, beyond the new memory that the growing live peak needs."""

LEVELS = ("lake", "whole", "prefix")
"""The columns of lake: without aliasing, and at the two levels above."""

Row = Mapping[str, Any]


def bars(row: Row) -> dict[str, bool | None]:
    """Which bars the figures of one trace meet; None where a bar does not apply."""
    lake, peer = row["lake"], row["expandable"]
    both_run = lake["runs_at_1.02"] and peer["runs_at_1.02"]
    return {
        "fit": lake["fit"] <= max(LARGEST_FIT, peer["fit"]),
        "fit_whole": row["whole"]["fit"] <= max(LARGEST_FIT, peer["fit"]),
        "fit_prefix": row["prefix"]["fit"] <= max(LARGEST_FIT, peer["fit"]),
        "cold": lake["cold_ms"] <= LARGEST_COLD * peer["cold_ms"] if both_run else None,
        "late": None
        if lake["warm_ms_per_step"] is None or not both_run
        else lake["late_ms"] <= max(LARGEST_LATE * peer["late_ms"], LATE_MS * lake["late_steps"]),
        "longest": lake["longest_ms"] <= peer["longest_ms"] if both_run else None,
        "held": lake["held"] <= peer["held"],
        "warm": None if lake["warm_ms_per_step"] is None else lake["warm_ms_per_step"] <= WARM_MS,
        "quiet": None if lake["calls_after_step_3"] is None else lake["calls_after_step_3"] == 0,
        "host_waits": lake["host_waits"] < max(peer["retries"], 1) and lake["runs_with_lag"] >= peer["runs_with_lag"],
        "host_waits_prefix": row["prefix"]["host_waits"] < max(peer["retries"], 1)
        and row["prefix"]["runs_with_lag"] >= peer["runs_with_lag"],
    }


def misses(table: Mapping[str, Row]) -> list[str]:
    """Each bar that is missed, with its trace."""
    return [f"{name}: {bar}" for name, row in table.items() for bar, is_met in bars(row).items() if is_met is False]


def worse(now: Mapping[str, Row], before: Mapping[str, Row]) -> Iterator[str]:
    """A sentence for each figure of lake that is worse than in the table by more than its tolerance."""
    for name, row in now.items():
        if name not in before:
            continue
        for level in LEVELS:
            old, new = before[name][level], row[level]
            for figure, most in _allowed(old).items():
                if most is not None and new[figure] > most:
                    yield f"{name}: {figure} of {level} was {old[figure]:g} and is {new[figure]:g}"
        for bar, is_met in bars(row).items():
            if is_met is False and bars(before[name])[bar]:
                yield f"{name}: the bar of {bar} was met and is missed"


def _allowed(old: Row) -> dict[str, float | None]:
    return {
        "fit": old["fit"] + 0.004,
        "cold_ms": old["cold_ms"] * 1.1,
        "late_ms": old["late_ms"] * 1.1 + 1,
        "longest_ms": old["longest_ms"] * 1.1,
        "handles": old["handles"] * 1.1,
        "held": old["held"] + 0.002,
        "warm_ms_per_step": None if old["warm_ms_per_step"] is None else old["warm_ms_per_step"] * 1.1 + 0.05,
        "calls_after_step_3": old["calls_after_step_3"],
        "host_waits": old["host_waits"],
    }


def markdown(table: Mapping[str, Row]) -> str:
    """The table for people; a figure that misses its bar is bold."""
    head = (
        "| trace | fit, none | whole | prefix | exp. | cold ms | exp. | late ms | exp. | longest ms | exp. | handles "
        "| exp. | held | exp. | warm ms/step | waits, none | prefix | retries |"
    )
    lines = [head, "|---" + "|---:" * 18 + "|"]
    for name, row in table.items():
        lake, prefix, peer, met = row["lake"], row["prefix"], row["expandable"], bars(row)

        def shown(text: str, bar: str, met: Mapping[str, bool | None] = met) -> str:
            return f"**{text}**" if met[bar] is False else text

        def waited(figures: Row, count: str) -> str:
            return f"{figures[count]}" + ("" if figures["runs_with_lag"] else " (runs out)")

        warm = "-" if lake["warm_ms_per_step"] is None else f"{lake['warm_ms_per_step']:.2f}"
        cells = [
            name,
            shown(f"{lake['fit']:.4f}", "fit"),
            shown(f"{row['whole']['fit']:.4f}", "fit_whole"),
            shown(f"{prefix['fit']:.4f}", "fit_prefix"),
            f"{peer['fit']:.4f}",
            shown(f"{lake['cold_ms']:.0f}", "cold") + ("" if lake["runs_at_1.02"] else " (at its fit)"),
            f"{peer['cold_ms']:.0f}" + ("" if peer["runs_at_1.02"] else " (at its fit)"),
            shown(f"{lake['late_ms']:.0f}", "late"),
            f"{peer['late_ms']:.0f}",
            shown(f"{lake['longest_ms']:.1f}", "longest"),
            f"{peer['longest_ms']:.1f}",
            f"{lake['handles']}",
            f"{peer['handles']}",
            shown(f"{lake['held']:.4f}", "held"),
            f"{peer['held']:.4f}",
            shown(warm, "warm"),
            shown(waited(lake, "host_waits"), "host_waits"),
            shown(waited(prefix, "host_waits"), "host_waits_prefix"),
            waited(peer, "retries"),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
