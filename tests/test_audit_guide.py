"""The guide's table of findings is that of their definition."""

from __future__ import annotations

from docs.website.audit_kinds import PAGE, table, with_table


def test_the_guide_lists_all_kinds_of_findings() -> None:
    page = PAGE.read_text("utf-8")
    assert table() in page
    assert with_table(page) == page, "run python -m docs.website.audit_kinds"
