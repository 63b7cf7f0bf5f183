"""Checks calls with `as_of`: crawls of a site as a web archive captured it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.requests.inputs import Input, dated_inputs
from webdata_nb.toolkit.requests.options import CrawlDfOptions, DatedOptions

_REASONS: Final = {
    "since": "it asks a site what has changed, and as_of does not ask the site",
    "recheck": "it asks a site what has changed, and as_of does not ask the site",
    "archive": "it names a file that has the pages, and as_of a web archive",
    "a WARC file as out": "it has what a site sent, and as_of does not ask the site",
}


def dated_crawl_inputs(
    url: str | Sequence[str],
    options: CrawlDfOptions,
    dated: DatedOptions,
    others: Mapping[str, object],
    *,
    lazy: bool,
) -> Sequence[Input]:
    """Return the crawls of a call with `as_of`; `others` are options that it excludes.

    Raises
    ------
    InvalidArgument
        An option is not allowed with `as_of`; nothing was sent.
    """
    for name, value in others.items():
        if value:
            raise InvalidArgument(
                f"{name} is not possible with as_of: {_REASONS[name]}; leave one of them out"
            )
    return dated_inputs(url, options, dated, lazy=lazy)
