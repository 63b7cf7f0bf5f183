"""Decides whether the pages of an earlier crawl can be those of another request. Pure.

What selects pages may differ. What a page is requested with, and how it is read, may not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from webdata_nb.contract.requests import CrawlRequest, ExtendedCrawlRequest, ScrapeOptions
from webdata_nb.service.store.records import JobRecord

_READING: Final = (
    "url",
    "urls",
    "source",
    "scrape_options",
    "filter_faceted_urls",
    "crawl_strategy",
)
# Settings of a session that change what a site sends, or what is extracted from it.
_SESSION_SETTINGS: Final = ("user_agent", "proxy", "llm")


def difference(earlier: JobRecord, request: CrawlRequest, session: Mapping[str, Any]) -> str:
    """Return why the pages of an earlier crawl cannot be used, as a clause; "" if they can.

    `session` has the settings of the session that the request comes from.
    """
    if earlier.kind != "crawl":
        return "it is not a crawl"
    if earlier.locked:
        return "no key of this service opens its secrets"
    if not earlier.state.terminal:
        return f"it is {earlier.state.value}"
    return next(_differences(earlier, request, session), "")


def _differences(
    earlier: JobRecord, request: CrawlRequest, session: Mapping[str, Any]
) -> Iterator[str]:
    fields = {name: earlier.request[name] for name in _READING if name in earlier.request}
    try:
        before = ExtendedCrawlRequest.model_validate(fields)
    except ValidationError:
        yield "its options are those of an earlier release"
        return
    if before.source.file is not None or before.source.web_archive is not None:
        yield "it is of an archive, whose pages were requested by others"
        return
    options, options_before = request.scrape_options, before.scrape_options
    for name in ScrapeOptions.model_fields:
        if name != "timeout" and getattr(options, name) != getattr(options_before, name):
            yield f"its {name} differ"
    if request.filter_faceted_urls != before.filter_faceted_urls:
        yield "its filter_faceted_urls differs"
    if _grades_anchors(request) != _grades_anchors(before):
        yield "its crawl_strategy differs"
    for name in _SESSION_SETTINGS:
        if session.get(name) != earlier.context.get(name):
            yield f"the setting {name} of its session differs"


def _grades_anchors(request: CrawlRequest) -> bool:
    return request.crawl_strategy == "bff"
