"""What a call adds to its creatives: details, files, text. What fails is told in the row."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from webdata_nb.contract import limits
from webdata_nb.contract.requests import CreativesRequest
from webdata_nb.service.creatives.files import FileStore
from webdata_nb.service.creatives.ocr import Readers
from webdata_nb.service.creatives.source import Creative, Source
from webdata_nb.service.creatives.source_client import CallDeadline
from webdata_nb.service.errors import ApplicationError, BadInput, PageError, SourceError

AT_ONCE: Final = 4
MOST_ASSETS: Final = limits.CREATIVE_FILES
# Left of the call's time to write its answer.
RESERVE_S: Final = 0.25
_LATE: Final = "not done within timeout_ms"
_NO_PICTURE: Final = "the preview is a page, not a picture"

Row = dict[str, Any]


@dataclass(slots=True)
class Done:
    """What a call did for its rows, counted for the bill."""

    details: int = 0
    assets: int = 0
    ocr: int = 0

    @property
    def units(self) -> dict[str, int]:
        """Return what is charged, by operation: the listing once, the rest by what succeeded."""
        more = {"details": self.details, "assets": self.assets, "ocr": self.ocr}
        return {"creatives": 1, **{name: count for name, count in more.items() if count}}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request asks for beyond the listing."""

    details: bool
    assets: bool
    previews: bool
    ocr: bool

    @classmethod
    def by(cls, request: CreativesRequest) -> Wanted:
        """Return the wishes of a request; assets are named by the details."""
        assets = request.should_download_assets
        details = not request.skip_details or assets
        return cls(details, assets, request.should_download_previews, request.ocr)

    @property
    def anything(self) -> bool:
        """Whether there is work at all."""
        return self.details or self.assets or self.previews or self.ocr


@dataclass(frozen=True, slots=True)
class Enricher:
    """Works on the rows of one call until they are done or the time is over."""

    source: Source
    wanted: Wanted
    files: FileStore
    readers: Readers
    account_id: str
    deadline: CallDeadline
    engine: str = ""
    done: Done = field(default_factory=Done)
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def rows(self, creatives: Sequence[Creative]) -> list[Row]:
        """Return what enrichment adds to each creative, in their order."""
        if not self.wanted.anything:
            return [{} for _ in creatives]
        works = [_Work(self, creative) for creative in creatives]
        tasks = [asyncio.create_task(work.run()) for work in works if not work.creative.error]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=max(0.0, self.deadline.remaining_s - RESERVE_S))
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, Exception):
                raise outcome
        return [work.told() for work in works]


class _Work:
    """One creative on its way: steps still to come, what was found, what failed."""

    def __init__(self, by: Enricher, creative: Creative) -> None:
        self._by, self.creative = by, creative
        self._found: Row = {}
        self._errors: list[str] = []
        steps = {
            "details": self._details,
            "assets": self._assets,
            "previews": self._preview,
            "ocr": self._text,
        }
        self._steps: dict[str, Callable[[], Awaitable[None]]] = {
            name: step for name, step in steps.items() if getattr(by.wanted, name)
        }
        self._pictures: dict[str, bytes] = {}

    async def run(self) -> None:
        """Take every step; one that fails does not keep the next from being tried."""
        async with self._by.turns:
            for name, step in list(self._steps.items()):
                try:
                    await step()
                except (SourceError, PageError, BadInput) as error:
                    self._errors.append(f"{name}: {error}")
                del self._steps[name]

    def told(self) -> Row:
        """Return the row's additions; steps without time are errors of the row."""
        late = [] if self.creative.error else [f"{name}: {_LATE}" for name in self._steps]
        errors = [*filter(None, [self.creative.error]), *self._errors, *late]
        found = {**self._found}
        if self._by.wanted.details:
            found = {**self.creative.details, **found}
            if self.creative.format is not None:
                found["format"] = self.creative.format
        return {**found, "error": "; ".join(errors)} if errors else found

    async def _details(self) -> None:
        self.creative = await self._by.source.detailed(self.creative)
        self._by.done.details += 1

    async def _assets(self) -> None:
        kept, failed = [], []
        urls = self.creative.details.get("asset_urls", [])
        for url in urls[:MOST_ASSETS]:
            try:
                kept.append({"url": url, **await self._keep(await self._file(url))})
            except (ApplicationError, OSError) as error:
                failed.append(str(error))
                kept.append({"url": url, "error": str(error)})
            self._found["assets"] = kept
        self._found["assets"] = kept
        self._by.done.assets += len(kept) - len(failed)
        if len(urls) > MOST_ASSETS:
            raise SourceError(f"{len(urls)} files, of which {MOST_ASSETS} were downloaded")
        if failed:
            raise SourceError(f"{len(failed)} of {len(kept)} failed, first: {failed[0]}")

    async def _preview(self) -> None:
        url, picture = await self._picture()
        self._found["preview"] = {"url": url, **await self._keep(picture)}
        self._by.done.assets += 1

    async def _text(self) -> None:
        _, picture = await self._picture()
        read = await self._by.readers.read(picture, self._by.engine)
        self._found |= {"text": read.text, "text_confidence": read.confidence}
        known = self.creative.details
        for name, value in (("headline", read.headline), ("description", read.description)):
            if value is not None and known.get(name) is None:
                self._found[name] = value
        self._by.done.ocr += 1

    async def _picture(self) -> tuple[str, bytes]:
        url = await self._by.source.picture_url(self.creative)
        if url is None:
            raise SourceError(_NO_PICTURE)
        return url, await self._file(url)

    async def _file(self, url: str) -> bytes:
        if url not in self._pictures:
            self._pictures[url] = await self._by.source.file(url)
        return self._pictures[url]

    async def _keep(self, data: bytes) -> Row:
        return await asyncio.to_thread(self._by.files.put, self._by.account_id, data)


def row_of(creative: Creative, position: int, added: Row) -> Row:
    """Return a creative as the contract's row; what is not known is left out."""
    told: Row = {
        "position": position,
        "advertiser_id": creative.advertiser_id,
        "creative_id": creative.creative_id,
        "preview_url": creative.preview_url,
        "advertiser_name": creative.advertiser_name,
        "format": creative.format,
        "first_shown": creative.first_shown,
        "last_shown": creative.last_shown,
        "days_shown": creative.days_shown,
        "political": creative.political,
        "error": creative.error,
    }
    return {name: value for name, value in {**told, **added}.items() if value is not None}
