"""Builds the receipt of a frame of changes from that of its crawl."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from webdata_nb.toolkit.frames.receipt import shorten
from webdata_nb.toolkit.frames.watch.comparison import ChangeKind, Comparison, KnownSite

_FIRST: Final = "first crawl: there is nothing to compare with"


def watch_receipt(
    crawl: Mapping[str, Any],
    known: KnownSite | None,
    comparison: Comparison | None,
    file: Path | None,
) -> dict[str, Any]:
    """Return the receipt of a call.

    Parameters
    ----------
    crawl
        The receipt of its crawl.
    known, comparison
        What was known before, and the comparison with it; None for the first crawl.
    file
        The file of changes, if any.
    """
    text = _FIRST
    counts: dict[str, int] = {}
    if known is not None and comparison is not None:
        counts = _page_counts(comparison)
        text = f"{_text(counts, comparison)} since {_time(known.at)}"
    return {
        **crawl,
        "kind": "changes",
        "counts": {"rows": 0 if comparison is None else len(comparison.changes)},
        "changes": {
            "since": known and known.at.isoformat(),
            "since_job": known and known.job_id,
            "pages": counts,
        },
        "file": None if file is None else str(file),
        "line": f"watch {shorten(str(crawl.get('subject')))}: {text}; {crawl.get('line')}",
    }


def _page_counts(comparison: Comparison) -> dict[str, int]:
    kinds: tuple[ChangeKind, ...] = ("changed", "added", "removed")
    urls = {kind: {c.url for c in comparison.changes if c.change == kind} for kind in kinds}
    counts: dict[str, int] = {kind: len(found) for kind, found in urls.items()}
    return {**counts, "kept": comparison.kept, "first_read": comparison.first_read}


def _text(counts: Mapping[str, int], comparison: Comparison) -> str:
    changed = ", ".join(
        _counted(counts[kind], kind) for kind in ("changed", "added", "removed") if counts[kind]
    )
    parts = [changed or "no change"]
    if counts["kept"]:
        parts.append(f"{counts['kept']} not read, which keep their values")
    if counts["first_read"]:
        parts.append(f"{counts['first_read']} read for the first time")
    if not comparison.sees_unlinked:
        parts.append("pages that were not seen may be removed or not")
    return ", ".join(parts)


def _counted(count: int, kind: str) -> str:
    return f"{count:,} page{'' if count == 1 else 's'} {kind}"


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
