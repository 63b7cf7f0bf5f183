"""Reads the pages of an earlier crawl, from which an incremental crawl takes unchanged ones.

What selected the pages may differ between both crawls. What a page is requested with, and how it is
read, may not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

import orjson
from msgspec.structs import replace
from pydantic import ValidationError

from webdata_nb import __version__
from webdata_nb.contract.requests import CrawlRequest, ExtendedCrawlRequest, ScrapeOptions
from webdata_nb.service.crawl.facets import hash64
from webdata_nb.service.crawl.journal import CrawlResult, decode_entry, has_validators
from webdata_nb.service.pages import PageVisit
from webdata_nb.service.store.job_context import JobContext
from webdata_nb.service.store.records import JobRecord, StoredVisit
from webdata_nb.service.web.request import Validators

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
    fields = {name: earlier.request[name] for name in _READING if name in earlier.request}
    try:
        before = ExtendedCrawlRequest.model_validate(fields)
    except ValidationError:
        return "its options are those of an earlier release"
    if before.source.file is not None or before.source.web_archive is not None:
        return "it is of an archive, whose pages were requested by others"
    options, options_before = request.scrape_options, before.scrape_options
    for name in ScrapeOptions.model_fields:
        if name != "timeout" and getattr(options, name) != getattr(options_before, name):
            return f"its {name} differ"
    if request.filter_faceted_urls != before.filter_faceted_urls:
        return "its filter_faceted_urls differs"
    if _grades_anchors(request) != _grades_anchors(before):
        return "its crawl_strategy differs"
    for name in _SESSION_SETTINGS:
        if session.get(name) != earlier.context.get(name):
            return f"the setting {name} of its session differs"
    return ""


def _grades_anchors(request: CrawlRequest) -> bool:
    return request.crawl_strategy == "bff"


_SHARES: Final = 1 << 64
# Decoding a larger row would block the event loop for long.
MAX_ROW_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class EarlierPage:
    """A page of an earlier crawl.

    `row` and `result` are those of its entry. `source` is the page from which values were
    extracted, as a JSON string. `row_bytes` is the size of the row as JSON.
    """

    row: Mapping[str, Any] = field(repr=False)
    result: CrawlResult = field(repr=False)
    source: bytes = field(default=b"", repr=False)
    row_bytes: int = 0

    @property
    def size(self) -> int:
        """An estimate of its memory in bytes."""
        return self.row_bytes + len(self.source) + len(self.result.text or "")

    @property
    def validators(self) -> Validators:
        """The validators of a conditional request."""
        return Validators(self.result.final_url, self.result.etag, self.result.last_modified)


@dataclass(frozen=True, slots=True)
class UnchangedPage:
    """A page that the site calls unchanged, and the visit in which it did."""

    earlier: EarlierPage
    visit: PageVisit


class EarlierPages:
    """The pages of one earlier crawl; those of no crawl without a job id.

    `recheck` is the share of the unchanged pages that are fetched in full nevertheless. With
    `audits`, only pages with facts for an audit are taken.
    """

    def __init__(
        self,
        context: JobContext,
        job_id: str = "",
        visits: Mapping[str, StoredVisit] | None = None,
        recheck: float = 0.0,
        *,
        audits: bool = False,
    ) -> None:
        self._context, self._job_id, self._recheck = context, job_id, recheck
        self._audits = audits
        self._visits = visits or {}

    @classmethod
    async def load(cls, context: JobContext, request: ExtendedCrawlRequest) -> Self:
        """Return the pages that a request names; none of a crawl that was made differently."""
        base = request.base
        if base is None:
            return cls(context)
        earlier = await context.earlier_job(base.job_id)
        if earlier is None or difference(earlier, request, context.job.context):
            return cls(context)
        stored = await context.visits(base.job_id)
        visits = {
            each.url: each for each in stored if has_validators(each.visit, release=__version__)
        }
        return cls(context, base.job_id, visits, base.recheck, audits=request.audit)

    async def page(self, url: str) -> EarlierPage | None:
        """Return the page of a URL; None without one about which the site can be asked."""
        visit = self._visits.get(url)
        if visit is None:
            return None
        stored = await self._context.whole_entry(self._job_id, visit.ordinal)
        if stored is None or stored.page is None or len(stored.page) > MAX_ROW_BYTES:
            return None
        row = orjson.loads(stored.page)  # noqa: TID251 - our own record
        result = decode_entry(stored.journal, visit.visit)
        # A row that JSON does not keep as it is would not be that of a full crawl.
        is_whole = row["success"] and not row["error"] and result.kind == "page"
        if not is_whole or orjson.dumps(row) != stored.page:
            return None
        if self._audits and not {"status", "audit"} <= result.facts.keys():
            return None
        if not self._audits:
            result = replace(result, facts={})
        return EarlierPage(row, result, stored.source, len(stored.page))

    def is_rechecked(self, url: str) -> bool:
        """Whether an unchanged page is fetched in full: a random choice that a restart repeats."""
        number = hash64(f"{self._context.job.id} {url}".encode())
        return number < self._recheck * _SHARES
