"""Shows the findings of an audit: as a page, and as a figure."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.display import plots
from webdata_nb.toolkit.display.audit_report import ReportRow, report_html
from webdata_nb.toolkit.frames import exports, frame, series, storage
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.sites.audit import FINDING_COLUMNS
from webdata_nb.toolkit.sites.issues import issue_kinds
from webdata_nb.toolkit.sites.pages import listed_urls

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def audit_report(findings: pd.DataFrame, path: str | Path) -> Path:
    """Write the findings of an audit as one HTML page, for people without Python.

    The page has no scripts and loads nothing: it can be sent and kept. It lists the kinds with
    their counts, and up to 500 findings of each.

    Parameters
    ----------
    findings
        What `audit_df` returned, also a part of it.
    path
        The file; its directory must exist.

    Returns
    -------
    pathlib.Path
        The file, which appears complete or not at all.

    Raises
    ------
    InvalidArgument
        `findings` has other columns or values, or the file cannot be there.

    Examples
    --------
    >>> findings = audit_df(crawl_df(start_url, max_pages=5, audit=True))
    >>> audit_report(findings, "audit.html").name
    'audit.html'
    """
    _require_findings(findings)
    target = arguments.check_file_path("path", path)
    exports.require_suffix("path", path, (".html", ".htm"))
    meanings = {kind.name: kind.meaning for kind in issue_kinds().values()}
    text = report_html(
        _report_rows(findings), meanings, subject=series.subject(findings), pages=_pages(findings)
    )
    storage.write_atomically(target, text.encode())
    return target


def plot_audit(findings: pd.DataFrame) -> Figure:
    """Draw how many findings of each kind an audit has, coloured by severity.

    Needs the extra `plot`.

    Parameters
    ----------
    findings
        What `audit_df` returned, also a part of it.

    Returns
    -------
    matplotlib.figure.Figure
        A notebook shows it when it is the last value of a cell; `savefig` writes it to a file.
        Its `alt_text` describes it.

    Raises
    ------
    InvalidArgument
        `findings` has other columns or values.
    MissingExtra
        matplotlib is not installed.

    Examples
    --------
    >>> findings = audit_df(crawl_df(start_url, max_pages=5, audit=True))
    >>> plot_audit(findings).axes[0].get_xlabel()
    'findings'
    """
    _require_findings(findings)
    rows = _report_rows(findings)
    counts = Counter((row.issue, row.severity) for row in rows)
    order = [(issue, severity, count) for (issue, severity), count in counts.items()]
    subject = series.subject(findings)
    title = f"Audit of {subject}" if subject else "Site audit"
    pages = _pages(findings)
    of_pages = "" if pages is None else f", {pages:,} pages"
    return plots.audit_figure(order, f"{title}: {len(rows):,} findings{of_pages}")


def _require_findings(findings: object) -> None:
    frame.require_frame(findings)
    columns = getattr(findings, "columns", ())
    if missing := [name for name in FINDING_COLUMNS if name not in columns]:
        raise InvalidArgument(
            f"findings must be what audit_df returned, with {missing[0]}; "
            f"it is {format_value(findings)}"
        )


def _report_rows(findings: pd.DataFrame) -> list[ReportRow]:
    columns = [frame.column_values(findings[name]) for name in FINDING_COLUMNS]
    rows = (_report_row(*values) for values in zip(*columns, strict=True))
    order = {name: place for place, name in enumerate(issue_kinds())}
    return sorted(rows, key=lambda row: order.get(row.issue, len(order)))


def _report_row(*values: Any) -> ReportRow:
    *texts, found_on, count = values
    issue, severity, url, evidence = ("" if text is None else str(text) for text in texts)
    number = count if isinstance(count, int) else 0
    return ReportRow(issue, severity, url, evidence, listed_urls(found_on), number)


def _pages(findings: pd.DataFrame) -> int | None:
    """Return how many pages were audited, if the findings say so."""
    receipt = findings.attrs.get(frame.ATTRS)
    pages = receipt.get("pages") if isinstance(receipt, dict) else None
    return pages if isinstance(pages, int) else None
