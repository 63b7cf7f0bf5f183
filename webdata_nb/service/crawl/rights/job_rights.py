"""Collects the signals about the pages of one job, and reads the files that they are in.

The files (tdmrep.json and RSL licences) are requested once for a job, as robots.txt is, without
its headers and cookies. They are stored with the journal, so that a resumed crawl uses the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from webdata_nb.contract.choices import PURPOSES
from webdata_nb.page.content.parsed_page import PageDeclaration
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import canonical_url, url_origin
from webdata_nb.service.crawl.rights import rsl
from webdata_nb.service.crawl.rights.page_signals import (
    TDM_PATH,
    Headers,
    LicenseReference,
    PageSignals,
    RobotsUsage,
    TdmFile,
    parse_tdm_file,
)
from webdata_nb.service.crawl.rights.rsl import RslDocument, parse_rsl
from webdata_nb.service.crawl.rights.signal import PageRights, RightsSignal, refuses
from webdata_nb.service.crawl.robots import JobRobots, PinnedFiles, current_time
from webdata_nb.service.crawl.sitemaps import fetch_file
from webdata_nb.service.runtime.event_loop import run_cooperatively
from webdata_nb.service.web.fetch import FetchLimits, FetchRequest
from webdata_nb.service.web.polite_fetcher import ResponseSource

TIMEOUT_S: Final = 20.0
# Licences that a job reads for the pages of one site; further ones count as refusals.
MAX_LICENSES: Final = 50
LIMITS: Final = FetchLimits(wire_bytes=rsl.MAX_BYTES, decoded_bytes=rsl.MAX_BYTES, redirects=5)


class RightsFile(Struct, frozen=True):
    """A file as it was read, or why it could not be."""

    body: bytes
    problem: str
    read_at: str


class JobRights(PinnedFiles[RightsFile]):
    """The signals about the pages of one job."""

    def __init__(
        self, fetcher: ResponseSource, robots: JobRobots, token: str, snapshots: Mapping[str, bytes]
    ) -> None:
        super().__init__(RightsFile, "rights:", snapshots)
        self._fetcher, self._robots, self._token = fetcher, robots, token
        self._usage: dict[str, RobotsUsage] = {}
        self._tdm_files: dict[str, TdmFile] = {}
        self._licenses: dict[str, RslDocument] = {}
        self._licenses_by_site: dict[str, set[str]] = {}

    async def site_rights(self, url: str) -> PageRights:
        """Return what is known of a page before it is requested: robots.txt and tdmrep.json."""
        site = url_origin(url)
        if (usage := self._usage.get(site)) is None:
            reply, rules = await self._robots.reply(url), await self._robots.rules(url)
            usage = self._usage[site] = RobotsUsage.of_file(
                f"{site}/robots.txt", reply.read_at, reply.rules, reply.refusal, rules
            )
        rule = await run_cooperatively((await self._robots.rules(url)).match_in_steps(url))
        signals = list(usage.signals(url, rule))
        source = f"{site}{TDM_PATH}"
        file = await self._file(source, self._read)
        if not file.problem:  # a site without a readable file does not implement the protocol
            if source not in self._tdm_files:
                self._tdm_files[source] = parse_tdm_file(file.body)
            signals += self._tdm_files[source].signals(url, source, file.read_at)
        for line in usage.licenses:
            reference = LicenseReference(line.value, usage.license_line(line), usage.source)
            signals += await self._license_signals(url, reference)
        is_allowed = not usage.refusal and (rule is None or rule.allow)
        return PageRights(tuple(signals), is_allowed)

    async def page_rights(
        self,
        url: str,
        headers: Headers,
        declarations: Sequence[PageDeclaration],
        read_at: datetime,
    ) -> PageRights:
        """Return what is known of a page that was read; `url` is its final one."""
        page = PageSignals(url, read_at.isoformat(timespec="seconds"), self._token)
        rights = await self.site_rights(url)
        rights += page.of_headers(headers)
        # A licence inside the page may be large.
        rights += await asyncio.to_thread(tuple, page.of_declarations(declarations))
        for reference in page.licenses(headers, declarations):
            rights += await self._license_signals(url, reference)
        return rights

    def header_rights(self, url: str, headers: Headers) -> PageRights:
        """Return what the headers of a page say, before its body is read."""
        page = PageSignals(url, current_time(), self._token)
        return PageRights(tuple(page.of_headers(headers)))

    async def _license_signals(
        self, url: str, reference: LicenseReference
    ) -> Iterable[RightsSignal]:
        try:
            source = canonical_url(reference.url)
        except FetchError:
            return [reference.unread(current_time(), "it is no absolute http or https URL")]
        known = self._licenses_by_site.setdefault(url_origin(url), set())
        if source not in known and len(known) >= MAX_LICENSES:
            problem = f"not read: the crawl had read {MAX_LICENSES} licences of this site"
            return [reference.unread(current_time(), problem, refuses(*PURPOSES))]
        known.add(source)
        file = await self._file(source, self._read)
        async with self._locks.setdefault(source, asyncio.Lock()):
            if source not in self._licenses:
                self._licenses[source] = (
                    RslDocument(problem=f"it could not be read: {file.problem}")
                    if file.problem
                    else await asyncio.to_thread(parse_rsl, file.body)
                )
        return self._licenses[source].signals(url, source, reference.line, file.read_at)

    async def _read(self, url: str) -> RightsFile:
        request = FetchRequest(url, limits=LIMITS)
        with self._fetcher.deadline(TIMEOUT_S) as deadline:
            # Pages may hold their place in the host's queue while they wait for this file.
            fetched, problem = await fetch_file(self._fetcher, request, deadline, queued=False)
        return RightsFile(b"" if fetched is None else fetched.body, problem, current_time())
