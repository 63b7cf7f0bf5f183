"""Audits the pages of a crawl: `audit_df`."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from webdata_nb.toolkit.frames import frame, schemas, series
from webdata_nb.toolkit.sites.checks import check_contents, check_indexing, check_links, check_texts
from webdata_nb.toolkit.sites.issues import issue_kinds
from webdata_nb.toolkit.sites.pages import AuditFinding, AuditSite, pages_of

if TYPE_CHECKING:
    import pandas as pd

_CHECKS: Final = (check_links, check_texts, check_contents, check_indexing)
_SCHEMA: Final = pa.schema(
    [
        pa.field("issue", schemas.TEXT),
        pa.field("severity", schemas.TEXT),
        pa.field("url", schemas.TEXT),
        pa.field("evidence", schemas.TEXT),
        pa.field("found_on", schemas.TEXTS),
        pa.field("count", pa.int32()),
    ]
)
FINDING_COLUMNS: Final = tuple(_SCHEMA.names)


def audit_df(df: pd.DataFrame) -> pd.DataFrame:
    """Find what is wrong with a site: broken links, doubled titles, conflicting directives.

    The guide lists all kinds of findings with their thresholds and sources.

    Parameters
    ----------
    df
        A frame of `crawl_df` with `audit=True`.

    Returns
    -------
    pandas.DataFrame
        One row for each finding, errors first. Without findings it is empty, with these types.

        ======== ====== ==========================================================
        column   dtype  meaning
        ======== ====== ==========================================================
        issue    str    the kind, such as `broken_page`
        severity str    `error`, `warning` or `notice`
        url      str    the page to repair, or where the links lead to
        evidence str    what was found: an error, a text, another URL
        found_on object list of the first 20 pages that link to `url`
        count    Int32  pages that link to it, pages of the group, or elements
        ======== ====== ==========================================================

    Raises
    ------
    InvalidArgument
        The frame was not crawled with `audit=True`, or a file has changed its values.

    Examples
    --------
    >>> findings = audit_df(crawl_df(start_url, max_pages=5, audit=True))
    >>> sorted(set(findings["severity"]) - {"error", "warning", "notice"})
    []
    """
    site = AuditSite(pages_of(df))
    order = {name: place for place, name in enumerate(issue_kinds())}
    findings = sorted(
        chain.from_iterable(check(site) for check in _CHECKS),
        key=lambda finding: order[finding.issue],
    )
    attrs = {
        "kind": "audit",
        "subject": series.subject(df),
        "pages": len(df),
        "line": frame.receipt_line(df),
    }
    backend: frame.DtypeBackend = "pyarrow" if frame.is_arrow_backed(df) else "pandas"
    return frame.build(_to_table(findings), attrs=attrs, dtype_backend=backend)


def _to_table(findings: list[AuditFinding]) -> pa.Table:
    kinds = issue_kinds()
    columns: dict[str, list[Any]] = {
        "issue": [each.issue for each in findings],
        "severity": [kinds[each.issue].severity for each in findings],
        "url": [each.url for each in findings],
        "evidence": [each.evidence for each in findings],
        "found_on": [list(each.found_on) for each in findings],
        "count": [each.count for each in findings],
    }
    return pa.table(columns, schema=_SCHEMA)
