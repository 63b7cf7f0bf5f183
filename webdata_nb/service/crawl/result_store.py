"""Stores the results of a crawl: rows, journal, receipt and the state of a long one."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final

import msgspec

from webdata_nb.contract.outcomes import LINK_OUTCOMES
from webdata_nb.contract.requests import ExtendedCrawlRequest
from webdata_nb.page.content.page_source import ConversionOptions
from webdata_nb.page.scrape.scraped import Scraped
from webdata_nb.service.crawl.access import PageAccess
from webdata_nb.service.crawl.checkpoint import StateReader, UnusableState
from webdata_nb.service.crawl.discovery import URLS_PER_STEP
from webdata_nb.service.crawl.earlier_pages import UnchangedPage
from webdata_nb.service.crawl.journal import CrawlResult, CrawlTarget, decode_entry, encode_entry
from webdata_nb.service.crawl.link_check import UNVISITED, CheckedLinks
from webdata_nb.service.crawl.page_result import (
    OF_VISIT,
    embed_json,
    row_of_visit,
    to_crawl_result,
    unchanged_result,
    unchanged_row,
    with_distance,
)
from webdata_nb.service.crawl.plan import CommittedTarget, CrawlPlan
from webdata_nb.service.crawl.scope import OUT_OF_SCOPE
from webdata_nb.service.crawl.sitemaps import SitemapSeeds
from webdata_nb.service.crawl.visit_record import VisitRecord, facts_of_unchanged, facts_of_visit
from webdata_nb.service.credits import tariff
from webdata_nb.service.errors import CreditsUsedUp, JobFailure, JobRequeued
from webdata_nb.service.models.extraction import Extractor
from webdata_nb.service.pages.page_pipeline import PageVisit, source_of_values
from webdata_nb.service.runtime.event_loop import run_cooperatively
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

log = logging.getLogger(__name__)

# More text of a page would not improve the local index.
MAX_INDEXED_CHARACTERS: Final = 100_000
# Leftover URLs that one transaction stores.
OUTCOMES_PER_BATCH: Final = 5000
# The state is stored again after so many pages, and earlier when the crawl has grown by this share:
# an attempt after a kill replays no more.
STATE_PAGES: Final = 10_000
STATE_SHARE: Final = 0.2


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

    # At the start

    async def load(self, checked_links: CheckedLinks) -> dict[int, tuple[str, CrawlResult]]:
        """Continue the plan from the state that is stored.

        Returns URL and result of the targets stored since, by ordinal, and adds the links checked.
        """
        stored: dict[int, tuple[str, CrawlResult]] = {}
        for entry in await self._context.journal(start=await self._load_state()):
            page = decode_entry(entry.journal)
            if page.result.kind in LINK_OUTCOMES:
                checked_links.add(page.url, entry)
                continue
            check = VisitRecord.decode(entry.visit).check
            stored[entry.ordinal] = page.url, msgspec.structs.replace(page.result, check=check)
        return stored

    async def _load_state(self) -> int:
        """Return the ordinal of the first entry that the state does not know."""
        stored = await self._context.crawl_state()
        if stored is None:
            return 0
        try:
            await run_cooperatively(self._plan.restore(StateReader(stored.state)))
        except UnusableState as error:
            log.warning("job %s: %s; its journal is replayed", self._context.job.id, error)
            return 0
        self._stored_rows = self._plan.rows
        return stored.next_ordinal

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
            return await self._encode_unchanged(target, outcome)
        if isinstance(outcome, PageVisit):
            return await self._encode_visit(target, outcome)
        journal = encode_entry(target, outcome, None)
        return outcome, JournalEntry(target.ordinal, target.url, success=False, journal=journal)

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
            content = await self._content(visit.scraped)
            row = row_of_visit(visit, target, content, capture_distance_s=distance_s)
            extracted = bool(content.get("extract"))
            charged = tariff.page_operations(rendered=visit.rendered, extracted=extracted)
        facts = facts_of_visit(visit, audits=self._request.audit)
        success = result.kind == "page"
        record = VisitRecord.of(visit, result.check) if success else VisitRecord()
        entry = JournalEntry(
            target.ordinal,
            target.url,
            success,
            encode_entry(target, result, self._text_to_index(visit), facts),
            charged=charged,
            visit=record.encode(),
        )
        if row is not None:
            entry = await self._with_row(entry, row, source_of_values(visit.scraped))
        return result, entry

    async def _encode_unchanged(
        self, target: CrawlTarget, page: UnchangedPage
    ) -> tuple[CrawlResult, JournalEntry]:
        """Take the earlier page as that of this visit."""
        result = unchanged_result(page)
        facts = facts_of_unchanged(page.earlier.facts, page.visit)
        entry = JournalEntry(
            target.ordinal,
            target.url,
            success=True,
            journal=encode_entry(target, result, page.earlier.indexed_text, facts),
            charged=tariff.page_operations(rendered=False, extracted=False),
            visit=msgspec.structs.replace(page.earlier.record, check=result.check).encode(),
        )
        row = unchanged_row(page, target)
        return result, await self._with_row(entry, row, page.earlier.source)

    async def _with_row(
        self, entry: JournalEntry, row: Mapping[str, Any], source: bytes
    ) -> JournalEntry:
        return await share_content(
            self._context.job, entry, row, of_visit=OF_VISIT, source=source, shares_journal=True
        )

    async def _content(self, scraped: Scraped | None) -> dict[str, Any]:
        """Return the formats and the metadata of a row."""
        if scraped is None:
            return {}
        if self._extractor is None:
            return {**embed_json(scraped.formats), "metadata": scraped.metadata}
        formats = self._request.scrape_options.formats
        return await self._extractor.apply(scraped.formats, scraped.metadata, formats)

    def _text_to_index(self, visit: PageVisit) -> str | None:
        """Return a page's text for the local index, unless its row has Markdown to index."""
        if visit.scraped is None or "markdown" in self._options.formats:
            return None
        return visit.scraped.text[:MAX_INDEXED_CHARACTERS]

    # Transactions

    async def commit(
        self,
        committed: Sequence[CommittedTarget],
        entry: JournalEntry | None,
        seeds: SitemapSeeds | None,
    ) -> None:
        """Store an entry, the rows and outcomes that became final, and the files read for them.

        `seeds` are those of the start page, which are stored with it or not at all.
        """
        published = tuple(
            (page.target.ordinal, page.position) for page in committed if page.position is not None
        )
        outcomes = [each for page in committed for each in page.outcomes if self._is_final(each)]
        pinned_files = [*self._access.pop_unsaved()]
        if seeds is not None:
            outcomes += seeds.problems
            pinned_files.append(seeds.snapshot())
        batch = CommitBatch(
            entries=() if entry is None else (entry,),
            published=published,
            url_outcomes=tuple(outcomes),
            pinned_files=tuple(pinned_files),
            total=self._plan.expected_rows,
            completed=self._plan.rows,
            outcome=self._changed_outcome(),
        )
        await self._context.commit(batch)

    def _changed_outcome(self) -> dict[str, Any] | None:
        """Return what the job states, with the rows of low confidence; None if that is stored."""
        counts = dict(self._plan.low_confidence)
        if counts == self._outcome.get("low_confidence", {}):
            return None
        self._outcome = {**self._outcome, "low_confidence": counts}
        return self._outcome

    def _is_final(self, outcome: UrlOutcome) -> bool:
        """Return whether the receipt keeps an outcome: not of a link that is checked later."""
        is_checked = outcome.outcome == OUT_OF_SCOPE and not outcome.detail
        return not (self._checks_links and is_checked)

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
            max_charges=tariff.checkpoint_charges(self._request, max_pages - rows),
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
