"""Defines which options of a crawl exclude each other, and why. Pure.

Service and toolkit check the same table: the service the options of a request, the toolkit those
of a call as well, such as `stream`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Conflict(NamedTuple):
    """Options of which none goes with any of `others`."""

    options: tuple[str, ...]
    others: tuple[str, ...]
    reason: str


_ARCHIVES: Final = ("archive", "as_of")
_PARTITIONS: Final = ("lazy", "a Dask executor", "partition")

CONFLICTS: Final = (
    Conflict(("archive",), ("as_of",), "each says where the pages come from"),
    Conflict(
        _ARCHIVES,
        ("headers", "cookies", "check_links", "since", "a WARC file as out"),
        "the pages come from an archive, and nothing is requested from their site",
    ),
    Conflict(
        (*_ARCHIVES, "since"),
        ("a browser",),
        "pages are read as the site sent them. A browser loads them with render, wait_for, "
        'mobile, mobile_device and the format "screenshot"',
    ),
    Conflict(
        (*_ARCHIVES, "since"),
        ("rights", "a purpose"),
        "what a site declares about its pages now is not read with pages of an earlier time",
    ),
    Conflict(
        ("a WARC file as out",),
        ("since", "a purpose", "check_links"),
        "the file has the responses of all pages of the crawl, and no others",
    ),
    Conflict(
        ("urls",),
        (
            *("max_pages", "max_depth", "crawl_strategy", "include_paths", "exclude_paths"),
            *("sitemap", "llms_txt", "audit", "check_links", "filter_faceted_urls"),
            *("allow_external_links", "respect_nofollow"),
        ),
        "the pages of a list are read as they are, and no link is followed",
    ),
    Conflict(
        ("a purpose",),
        ("respect_robots_txt=False",),
        "robots.txt is where most sites say what their pages may be used for",
    ),
    # Of calls
    Conflict(("audit",), ("stream", "lazy"), "an audit compares all pages of a crawl in one frame"),
    Conflict(
        ("archive", "since", "a WARC file as out"),
        _PARTITIONS,
        "files and crawls that this machine knows are not there on others",
    ),
    Conflict(
        ("more than 1,000 pages", "a WARC file as out"),
        ("a list", *_PARTITIONS, "executor"),
        "one crawl writes its rows or responses to out",
    ),
    Conflict(
        ("a WARC file as out",),
        ("stream", "more than 1,000 pages"),
        "the rows are in one frame, when the file is complete",
    ),
)


def conflict_of(options: Mapping[str, object]) -> str:
    """Return why options exclude each other, as a sentence; "" if they do not.

    Examples
    --------
    >>> conflict_of({"since": "last", "as_of": "2024-06-01"})[:38]
    'as_of and since cannot be combined: th'
    >>> conflict_of({"since": "last", "stream": True})
    ''
    """
    used = {name for name, value in options.items() if value is not None and value is not False}
    for conflict in CONFLICTS:
        first = next((name for name in conflict.options if name in used), None)
        other = next((name for name in conflict.others if name in used), None)
        if first is not None and other is not None:
            return f"{first} and {other} cannot be combined: {conflict.reason}"
    return ""
