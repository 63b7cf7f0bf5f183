"""Writes the table of findings into the guide's page on audits, from their only definition.

Run it after a change of the kinds, from the checkout::

    python -m docs.website.audit_kinds
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from webdata_nb.toolkit.sites.audit import issue_kinds

PAGE: Final = Path(__file__).resolve().parents[1] / "guide" / "audit.md"
_START: Final = "| issue | severity | meaning | of | source |\n"


def table() -> str:
    """Return the table of all kinds."""
    rows = (
        f"| `{kind.name}` | {kind.severity} | {kind.meaning} | {kind.subject} | {kind.source} |\n"
        for kind in issue_kinds().values()
    )
    return f"{_START}|---|---|---|---|---|\n{''.join(rows)}"


def with_table(page: str) -> str:
    """Return a page with the table in place of the one that it has."""
    before, start, rest = page.partition(_START)
    after = rest[rest.index("\n\n") :] if "\n\n" in rest else "\n"
    return before + (table().rstrip("\n") + after if start else "")


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
