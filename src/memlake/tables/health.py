"""The table of a machine's health, as `memlake doctor` prints it: all findings, then the advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlake.tables.page import Page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memlake.hardware import Finding, Health

__all__ = ["page_of"]


def page_of(health: Health) -> Page:
    """Returns all findings, then the advice."""
    page = Page()
    rows = [(finding.topic, finding.name, finding.state, finding.value) for finding in health.findings]
    page.table(("topic", "what", "state", "found"), rows, left=4)
    page.line()
    for where, advice in _advice(health.findings):
        page.paragraph(f"{where}: {advice}")
    page.paragraph(health.sentence)
    return page


def _advice(findings: tuple[Finding, ...]) -> Iterator[tuple[str, str]]:
    """Yields each advice once, with the name of its finding; a feature has the devices without it in front."""
    topics_of: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        if finding.advice:
            topics_of.setdefault((finding.name, finding.advice), []).append(finding.topic)
    for (name, advice), topics in topics_of.items():
        yield f"{', '.join(topics)}: {name}" if topics[0].startswith("device ") else name, advice
