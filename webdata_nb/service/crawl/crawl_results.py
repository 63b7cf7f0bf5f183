"""Stores the results of a crawl: rows, journal, receipt and the state of a long one."""

from __future__ import annotations

import asyncio
import logging
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http import HTTPStatus
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import msgspec
import orjson

from webdata_nb import __version__
from webdata_nb.contract import outcomes
from webdata_nb.contract.archives import distance_text
from webdata_nb.contract.outcomes import LINK_OUTCOMES
from webdata_nb.contract.requests import ExtendedCrawlRequest
from webdata_nb.contract.url_keys import canonical_key, site_of
from webdata_nb.page.content.page_source import ConversionOptions
from webdata_nb.service import ledger
from webdata_nb.service.crawl.discovery import URLS_PER_STEP
from webdata_nb.service.crawl.earlier_pages import UnchangedPage
from webdata_nb.service.crawl.frontier import anchor_grades
from webdata_nb.service.crawl.journal import (
    ClaimCheck,
    CrawlResult,
    CrawlTarget,
    StateReader,
    UnusableState,
    decode_entry,
    encode_entry,
)
from webdata_nb.service.crawl.link_check import UNVISITED, CheckedLinks
from webdata_nb.service.crawl.page_fetcher import PageAccess
from webdata_nb.service.crawl.plan import CrawlPlan, PlanEffects
from webdata_nb.service.crawl.scope import OUT_OF_SCOPE
from webdata_nb.service.crawl.sitemaps import SitemapSeeds
from webdata_nb.service.errors import CreditsUsedUp, JobFailure, JobRequeued, NotIndexed
from webdata_nb.service.pages import PageVisit, source_of_values
from webdata_nb.service.runtime.event_loop import run_cooperatively, wait_at_most
from webdata_nb.service.runtime.steps import Steps
from webdata_nb.service.store.job_context import JobContext
from webdata_nb.service.store.page_contents import share_content
from webdata_nb.service.store.records import (
    Checkpoint,
    CommitBatch,
    CrawlState,
    JournalEntry,
    UrlOutcome,
)
from webdata_nb.service.web.fetch import is_header_value

if TYPE_CHECKING:
    from webdata_nb.service.models.extraction import Extractor

# Reads what a crawl stores of the visit of a page beside its row: validators and facts. Pure.


# A page may change again within the second of its Last-Modified, and keep it (RFC 9110, 8.8.2.2).
_RESOLUTION: Final = timedelta(seconds=1)
_MAX_CHARACTERS: Final = 1024
# One entity tag; some servers leave out the quotes. A "*" or a list would match other versions too.
_ENTITY_TAG: Final = re.compile(r'(?:W/)?(?:"[^"]*"|[^",*\s]+)')


def validators_of(visit: PageVisit) -> tuple[str, str]:
    """Return ETag and Last-Modified of a page that was fetched.

    Both are empty where the reply has none that can be relied on.
    """
    headers = {name.lower(): value for name, value in reversed(visit.headers)}
    modified = headers.get("last-modified", "")
    if modified:
        # The page must not have changed since, and have the same Last-Modified.
        changed_at = _time(modified) if is_header_value(modified) else None
        date = headers.get("date")
        sent_at = (_time(date) if date else None) or visit.fetched_at
        if changed_at is None or sent_at - changed_at < _RESOLUTION:
            return "", ""
    etag = headers.get("etag", "")
    if not _ENTITY_TAG.fullmatch(etag) or not is_header_value(etag):
        etag = ""
    is_usable = not visit.rendered and visit.error is None
    if not is_usable or max(len(etag), len(modified)) > _MAX_CHARACTERS:
        return "", ""
    return etag, modified


@lru_cache(maxsize=64)
def _time(text: str) -> datetime | None:
    """Return the time of an HTTP date; None if it is malformed.

    Replies of one second have the same Date, and files of one release the same Last-Modified.
    """
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return at if at.tzinfo is not None else None


MIN_SECONDS: Final = 1.0
# The fields that a page's facts have beside its outlinks, whose URLs the journal has already.
_OF_LINKS: Final = frozenset({"anchors", "rels"})


def facts_of_visit(visit: PageVisit, *, audits: bool) -> dict[str, Any]:
    """Return what the journal stores of a visit; empty fields are left out.

    So is a short time, which would be another one at each visit of an unchanged page. Without an
    audit, the facts are a status other than that of nearly every page.
    """
    if not audits:
        is_usual = visit.status in (None, HTTPStatus.OK)
        return {} if is_usual else {"status": visit.status}
    audit = {} if visit.scraped is None else visit.scraped.audit
    facts = {
        "status": visit.status,
        "redirects": visit.redirects,
        "seconds": round(visit.fetch_s, 1) if visit.fetch_s >= MIN_SECONDS else None,
        "audit": audit,
    }
    return {name: value for name, value in facts.items() if value}


def facts_of_unchanged(facts: Mapping[str, Any], visit: PageVisit) -> dict[str, Any]:
    """Return what the journal stores of an unchanged page, from the facts of an earlier visit."""
    if not facts:
        return {}
    redirects = {"redirects": visit.redirects} if visit.redirects else {}
    return {"status": facts["status"], **redirects, "audit": facts["audit"]}


def page_facts(entry: JournalEntry, seeds: frozenset[str] | None) -> dict[str, Any]:
    """Return the facts of a journal entry, by the names of `contract.replies.PageFacts`.

    `seeds` are the keys of the pages that the sitemaps list, None if the crawl read none.
    """
    result = decode_entry(entry.journal)
    url, facts = result.url, result.facts
    audit = facts.get("audit", {})
    declared = {name: value for name, value in audit.items() if name not in _OF_LINKS}
    site = site_of(result.final_url)
    texts: Sequence[str | None] = audit.get("anchors") or ()
    if len(texts) != len(result.links):  # without an audit
        texts = [None] * len(result.links)
    rels = audit.get("rels") or {str(index): "nofollow" for index in result.nofollow_links}
    return {
        "url": url,
        "final_url": result.final_url,
        "position": entry.position,
        "result": result.kind,
        "reason": result.reason,
        "error": result.detail,
        "status_code": facts.get("status", HTTPStatus.OK if result.kind == "page" else None),
        "fetch_seconds": facts.get("seconds"),
        "redirects": [
            {"url": hop, "status_code": status} for hop, status in facts.get("redirects", ())
        ],
        "canonical": result.canonical,
        "content_hash": result.content_hash,
        "in_sitemap": None if seeds is None else canonical_key(url) in seeds,
        "links": [
            {
                "url": link,
                "text": text,
                "rel": rels.get(str(index)),
                "internal": site_of(link) == site,
            }
            for index, (link, text) in enumerate(zip(result.links, texts, strict=True))
        ],
        "sketch": b64encode(result.sketch).decode() if audit else "",
        "audit": declared or None,
    }


# Results and rows of visits

# Error messages may quote the page, so the receipt stores only their beginning.
MAX_DETAIL_CHARACTERS: Final = 500
# The fields at the begin of a row, and those of its page's measures.
_BEGIN: Final = ("url", "title", "status", "status_code", "success", "error", "depth")
_MEASURES: Final = ("quality", "content_hash")
# The members that belong to a visit: its times, what was declared then, and the distance of a
# capture from the date of the crawl.
OF_VISIT: Final = ("time_taken", "fetched_at", "rights", "capture_distance_s")
_SCORE: Final = "crawl_score"


def to_crawl_result(visit: PageVisit, *, grade_anchors: bool) -> CrawlResult:
    """Convert a visit for the plan; `grade_anchors` where the strategy weighs links."""
    if visit.stopped is not None:
        return CrawlResult("stopped", visit.final_url, reason=visit.stopped, hops=visit.hops)
    if visit.error is not None:
        is_archived = visit.error.kind != outcomes.NOT_ARCHIVED
        return CrawlResult(
            "failed" if is_archived else "not_archived",
            visit.final_url,
            reason=visit.error.kind,
            detail=str(visit.error)[:MAX_DETAIL_CHARACTERS],
            hops=visit.hops,
            was_requested=not isinstance(visit.error, NotIndexed),
            is_unanswered=visit.status is None,
        )
    scraped, (etag, last_modified) = visit.scraped, validators_of(visit)
    if scraped is None:
        return CrawlResult(
            "page",
            visit.final_url,
            hops=visit.hops,
            etag=etag,
            last_modified=last_modified,
            release=__version__,
        )
    check: ClaimCheck = ""
    if visit.claimed_hash is not None:
        check = "verified" if scraped.content_hash == visit.claimed_hash else "contradicted"
    links = scraped.outlinks
    return CrawlResult(
        "page",
        visit.final_url,
        content_hash=scraped.content_hash,
        links=tuple([link.url for link in links]),
        anchor_grades=anchor_grades(link.anchor for link in links) if grade_anchors else "",
        nofollow_links=tuple([index for index, link in enumerate(links) if link.nofollow]),
        nofollow_page="nofollow" in scraped.robots,
        canonical=scraped.canonical,
        sketch=scraped.sketch,
        shape=scraped.shape,
        hops=visit.hops,
        check=check,
        low_confidence=outcomes.low_confidence_kind(scraped.quality.get("reason")),
        etag=etag,
        last_modified=last_modified,
        release=__version__,
    )


def unchanged_result(page: UnchangedPage) -> CrawlResult:
    """Return the result of a page that the site calls unchanged."""
    earlier, visit = page.earlier.result, page.visit
    facts = facts_of_unchanged(earlier.facts, visit)
    return msgspec.structs.replace(earlier, hops=visit.hops, check="unchanged", facts=facts)


def with_distance(result: CrawlResult, captured_at: datetime, distance_s: float) -> CrawlResult:
    """Add the time of a capture, and its distance from the date of the crawl, to the detail.

    Examples
    --------
    >>> page = CrawlResult("page", "http://a.test/")
    >>> with_distance(page, datetime(2024, 5, 30, 12), -129_600.0).detail
    'captured 2024-05-30 12:00, 1.5 days before'
    """
    if result.kind not in {"page", "failed"}:
        return result
    capture_text = f"captured {captured_at:%Y-%m-%d %H:%M}, {distance_text(distance_s)}"
    detail = f"{result.detail}; {capture_text}" if result.detail else capture_text
    return msgspec.structs.replace(result, detail=detail)


def row_of_visit(
    visit: PageVisit,
    target: CrawlTarget,
    content: Mapping[str, Any],
    *,
    capture_distance_s: float | None = None,
) -> dict[str, Any]:
    """Return the row of one crawled page (contract, 2.4, with our extra columns).

    `content` has the page's formats and its metadata, and `error` where the extraction failed. It
    is empty for a page without data. The metadata of best first has the page's score as
    `crawl_score`.
    """
    scraped = visit.scraped
    error = str(visit.error) if visit.error else content.get("error")
    page = {
        "url": visit.url,
        "title": None if scraped is None else scraped.title,
        "status": "failed" if error else "completed",
        "status_code": visit.status,
        "success": error is None,
        "error": error,
        "depth": target.depth,
    }
    measures = {
        "quality": None if scraped is None else scraped.quality,
        "content_hash": None if scraped is None else scraped.content_hash,
    }
    if not content:
        metadata = {"final_url": visit.final_url, "status_code": visit.status}
        error_kind = visit.error.kind if visit.error else None
        content = {"metadata": {**metadata, "error_kind": error_kind}}
    return _row(visit, target, page, measures, content, capture_distance_s=capture_distance_s)


def unchanged_row(page: UnchangedPage, target: CrawlTarget) -> dict[str, Any]:
    """Return the row of a page that the site calls unchanged: the earlier one, at its new place."""
    row, visit = dict(page.earlier.row), page.visit
    begin = {name: row.pop(name) for name in _BEGIN} | {"depth": target.depth}
    measures = {name: row.pop(name) for name in _MEASURES}
    metadata = {name: value for name, value in row["metadata"].items() if name != _SCORE}
    transfer = {
        "redirects": [{"url": url, "status_code": status} for url, status in visit.redirects],
        "fetched_at": visit.fetched_at.isoformat(),
    }
    content = {name: value for name, value in row.items() if name not in OF_VISIT}
    content["metadata"] = metadata | transfer
    return _row(visit, target, begin, measures, content)


def _row(
    visit: PageVisit,
    target: CrawlTarget,
    page: Mapping[str, Any],
    measures: Mapping[str, Any],
    content: Mapping[str, Any],
    *,
    capture_distance_s: float | None = None,
) -> dict[str, Any]:
    if target.score is not None:
        content = {**content, "metadata": {**content["metadata"], _SCORE: target.score}}
    row = {
        **page,
        "time_taken": round(visit.elapsed_s, 6),
        **measures,
        "fetched_at": visit.fetched_at,
    }
    if visit.rights is not None:
        row["rights"] = visit.rights
    if capture_distance_s is not None:
        row["capture_distance_s"] = capture_distance_s
    return row | {name: value for name, value in content.items() if name not in page}


def embed_json(formats: Mapping[str, Any]) -> dict[str, Any]:
    """Mark formats that are encoded as JSON already, so that they are copied unchanged."""
    return {
        name: orjson.Fragment(value) if isinstance(value, bytes) else value
        for name, value in formats.items()
    }


log: Final = logging.getLogger(__name__)

# More text of a page would not improve the local index.
MAX_INDEXED_CHARACTERS: Final = 100_000
# Leftover URLs that one transaction stores.
OUTCOMES_PER_BATCH: Final = 5000
# The state is stored again after so many pages, and earlier when the crawl has grown by this share:
# an attempt after a kill replays no more.
STATE_PAGES: Final = 10_000
STATE_SHARE: Final = 0.2
# Pages that come within this time of the last commit share the next one, up to a number. Readers of
# a running job look ten times a second.
COMMIT_INTERVAL_S: Final = 0.1
MAX_PAGES_TOGETHER: Final = 16


class ResultStore:
    """Stores what one crawl found out.

    Parameters
    ----------
    context, request
        The job and its request.
    plan
        Decides which results become rows.
    access
        Has files to store with the job.
    options
        How each page is converted.
    extractor
        Extracts data from pages; None extracts none.
    checks_links
        Whether links to other sites are checked at the end: their outcomes are stored then.
    """

    def __init__(
        self,
        context: JobContext,
        request: ExtendedCrawlRequest,
        plan: CrawlPlan,
        access: PageAccess,
        options: ConversionOptions,
        extractor: Extractor | None,
        *,
        checks_links: bool,
    ) -> None:
        self._context, self._request, self._plan, self._access = context, request, plan, access
        self._options, self._extractor, self._checks_links = options, extractor, checks_links
        captures = request.source.web_archive
        self._as_of = None if captures is None else datetime.fromisoformat(captures.as_of)
        # What the job states beside its counts.
        self._outcome: dict[str, Any] = dict(context.job.outcome)
        # The rows of the state that is stored.
        self._stored_rows = 0
        # What the next commit writes, and its task.
        self._uncommitted: list[CommitBatch] = []
        self._next_commit: asyncio.Task[None] | None = None
        self._must_commit = asyncio.Event()
        self._last_commit_at = -COMMIT_INTERVAL_S

    # At the start

    async def load(self, checked_links: CheckedLinks) -> dict[int, CrawlResult]:
        """Continue the plan from the state that is stored.

        Returns the results of the targets stored since, by ordinal, and adds the links checked.
        """
        next_ordinal = 0
        state = await self._context.crawl_state()
        if state is not None:
            try:
                await run_cooperatively(self._plan.restore(StateReader(state.state)))
            except UnusableState as error:
                log.warning("job %s: %s; its journal is replayed", self._context.job.id, error)
            else:
                self._stored_rows = self._plan.rows
                next_ordinal = state.next_ordinal
        stored: dict[int, CrawlResult] = {}
        for entry in await self._context.journal(start=next_ordinal):
            result = decode_entry(entry.journal, entry.visit)
            if result.kind in LINK_OUTCOMES:
                checked_links.add(entry.ordinal, result)
            else:
                # The plan needs neither the text nor the facts.
                stored[entry.ordinal] = msgspec.structs.replace(result, text=None, facts={})
        return stored

    async def state_signature_agent(self, agent: str) -> None:
        """Store with which identity the requests for pages are signed."""
        self._outcome["signature_agent"] = agent
        await self._context.commit(CommitBatch(outcome=self._outcome))

    # Pages

    async def encode(
        self, target: CrawlTarget, outcome: PageVisit | UnchangedPage | CrawlResult
    ) -> tuple[CrawlResult, JournalEntry]:
        """Return the result of a target, and its journal entry with the row."""
        if isinstance(outcome, UnchangedPage):
            # The earlier page is taken as that of this visit.
            result = unchanged_result(outcome)
            charged = ledger.page_operations(rendered=False, extracted=False)
            entry = encode_entry(target, result, charged=charged)
            row = unchanged_row(outcome, target)
            return result, await self._with_row(entry, row, outcome.earlier.source)
        if isinstance(outcome, PageVisit):
            return await self._encode_visit(target, outcome)
        return outcome, encode_entry(target, outcome)

    async def _encode_visit(
        self, target: CrawlTarget, visit: PageVisit
    ) -> tuple[CrawlResult, JournalEntry]:
        result = to_crawl_result(visit, grade_anchors=self._plan.uses_link_weights)
        distance_s = None
        if self._as_of is not None and visit.status is not None:
            distance_s = (visit.fetched_at - self._as_of).total_seconds()
            result = with_distance(result, visit.fetched_at, distance_s)
        row, charged = None, tuple[str, ...]()
        if not visit.stopped and result.kind != "not_archived":
            scraped, content = visit.scraped, dict[str, Any]()
            if scraped is not None and self._extractor is not None:
                formats = self._request.scrape_options.formats
                content = await self._extractor.apply(scraped.formats, scraped.metadata, formats)
            elif scraped is not None:
                content = {**embed_json(scraped.formats), "metadata": scraped.metadata}
            row = row_of_visit(visit, target, content, capture_distance_s=distance_s)
            extracted = bool(content.get("extract"))
            charged = ledger.page_operations(rendered=visit.rendered, extracted=extracted)
        text: str | None = None  # for the local index, unless the row has Markdown to index
        if visit.scraped is not None and "markdown" not in self._options.formats:
            text = visit.scraped.text[:MAX_INDEXED_CHARACTERS] or None
        facts = facts_of_visit(visit, audits=self._request.audit)
        result = msgspec.structs.replace(result, text=text, facts=facts)
        entry = encode_entry(target, result, charged=charged)
        if row is not None:
            entry = await self._with_row(entry, row, source_of_values(visit.scraped))
        return result, entry

    async def _with_row(
        self, entry: JournalEntry, row: Mapping[str, Any], source: bytes
    ) -> JournalEntry:
        return await share_content(
            self._context.job, entry, row, of_visit=OF_VISIT, source=source, shares_journal=True
        )

    # Transactions

    async def commit(
        self,
        effects: PlanEffects,
        entry: JournalEntry | None,
        seeds: SitemapSeeds | None,
    ) -> None:
        """Store an entry, the rows and outcomes that became final, and the files read for them.

        Entries that come shortly after each other are stored together. `seeds` are those of the
        start page, which are stored with it or not at all.
        """
        published = tuple((target.ordinal, position) for target, position in effects.rows)
        # The receipt does not keep the outcome of a link that is checked later.
        outcomes = [
            each
            for each in effects.outcomes
            if not self._checks_links or each.outcome != OUT_OF_SCOPE or each.detail
        ]
        pinned_files = [*self._access.pop_unsaved()]
        if seeds is not None:
            outcomes += seeds.problems
            pinned_files.append(seeds.snapshot())
        counts, folder = dict(self._plan.low_confidence), self._plan.scope.folder
        stated = {
            **self._outcome,
            **({"low_confidence": counts} if counts else {}),
            **({"folder": folder} if folder else {}),
        }
        has_changed, self._outcome = stated != self._outcome, stated
        batch = CommitBatch(
            entries=() if entry is None else (entry,),
            published=published,
            url_outcomes=tuple(outcomes),
            pinned_files=tuple(pinned_files),
            total=self._plan.expected_rows,
            completed=self._plan.rows,
            outcome=stated if has_changed else None,
        )
        if self._context.lease.page_events:  # a webhook reports the counts of its own page
            await self._context.commit(batch)
            return
        self._uncommitted.append(batch)
        if self._next_commit is None:
            self._next_commit = asyncio.create_task(self._commit_together())
        is_replayed = entry is None  # no page is fetched meanwhile that could join it
        if is_replayed or self._plan.is_over or len(self._uncommitted) >= MAX_PAGES_TOGETHER:
            self._must_commit.set()
        await self._next_commit

    async def _commit_together(self) -> None:
        """Store all entries that come until the next commit is due, or until the last one."""
        wait_s = self._last_commit_at + COMMIT_INTERVAL_S - monotonic()
        await wait_at_most(self._must_commit, max(0.0, wait_s))
        batches, self._uncommitted, self._next_commit = self._uncommitted, [], None
        self._must_commit.clear()
        self._last_commit_at = monotonic()
        await self._context.commit(*batches)

    async def pass_checkpoint(self) -> None:
        """Pass a checkpoint, and store the state where it is due.

        Raises `JobRequeued` if other jobs wait, and `JobFailure` if the credits are used up.
        """
        rows, max_pages = self._plan.rows, self._request.row_limit
        state = None
        if rows - self._stored_rows >= min(STATE_PAGES, STATE_SHARE * rows):
            record = await run_cooperatively(self._plan.encode_state())
            state = CrawlState(record, self._plan.next_ordinal)
            self._stored_rows = rows
        checkpoint = Checkpoint(
            state,
            max_charges=ledger.checkpoint_charges(self._request, max_pages - rows),
            pinned_files=tuple(self._access.pop_unsaved()),
        )
        try:
            runs_on = await self._context.pass_checkpoint(checkpoint)
        except CreditsUsedUp as error:
            raise JobFailure(
                f"the crawl ended after {rows:,} of {max_pages:,} pages, because the account's "
                f"credits do not suffice for more: {error}"
            ) from None
        if not runs_on:
            raise JobRequeued(self._context.job.id)

    async def commit_leftovers(self, limit: int) -> list[str]:
        """Store the outcomes of the URLs that were discovered and not fetched, in batches.

        Each batch is a transaction of its own, so that other jobs can write in between. Returns the
        first `limit` ones to which the crawl only did not get.
        """
        outcomes, unvisited = self._plan.leftovers(), list[str]()
        while batch := await run_cooperatively(_take_batch(outcomes)):
            await self._context.commit(CommitBatch(url_outcomes=batch, total=self._plan.rows))
            unvisited_urls = (each.url for each in batch if each.outcome in UNVISITED)
            unvisited += islice(unvisited_urls, limit - len(unvisited))
        return unvisited


def _take_batch(outcomes: Iterator[UrlOutcome]) -> Steps[tuple[UrlOutcome, ...]]:
    batch: list[UrlOutcome] = []
    for outcome in islice(outcomes, OUTCOMES_PER_BATCH):
        if len(batch) % URLS_PER_STEP == 0:
            yield
        batch.append(outcome)
    return tuple(batch)
