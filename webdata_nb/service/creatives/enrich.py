"""Adds details, files and OCR text to listed creatives; a failure becomes an error of its row.

Downloaded files are stored by the hash of their content, in one folder per account. A file is
returned only to the account that downloaded it, and expires like every raw result.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import io
import math
import os
import re
import shutil
import signal
import time
import warnings
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from PIL import Image, UnidentifiedImageError

from webdata_nb.contract import limits
from webdata_nb.contract.requests import CreativesRequest
from webdata_nb.page.errors import ApplicationError, BadInput, PageError, ScrapeError
from webdata_nb.service.blobs import BlobStore
from webdata_nb.service.creatives.ocr_process import OcrText, layout_text
from webdata_nb.service.creatives.source import AdCreative, CallDeadline, CreativesSource
from webdata_nb.service.errors import BlobsUnavailable, MissingSetting, SourceError
from webdata_nb.service.runtime.fair_scheduler import FairSemaphore
from webdata_nb.service.runtime.process import (
    KILL_SIGNAL,
    MEMORY_LIMIT_EXIT,
    available_processors,
    python_command,
    python_environment,
)

RETENTION_S: Final = limits.RETENTION_HOURS * 3600.0
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_FOLDER: Final = "creatives"
# Raster formats that every browser shows and that cannot run code; SVG can contain scripts.
_IMAGE_MIMES: Final = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "GIF": "image/gif",
    "WEBP": "image/webp",
}
_OTHER_MIME: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class ImageType:
    """The media type of a file and, for a picture, its size in pixels."""

    mime: str
    width: int | None = None
    height: int | None = None


def detect_image_type(data: bytes) -> ImageType:
    """Detect a file's type from its header, without decoding it; no server's claim is trusted."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # size warnings concern decoding only
            with Image.open(io.BytesIO(data), formats=tuple(_IMAGE_MIMES)) as image:
                return ImageType(_IMAGE_MIMES[image.format or ""], *image.size)
    except (UnidentifiedImageError, OSError, ValueError, KeyError, Image.DecompressionBombError):
        return ImageType(_OTHER_MIME)


@dataclass(frozen=True, slots=True)
class FileStore:
    """The downloaded files of all accounts."""

    blobs: BlobStore

    async def put(self, account_id: str, data: bytes) -> dict[str, Any]:
        """Store a file and return its hash, media type, size in bytes and size in pixels.

        Its retention counts from the last call that returned it.
        """
        sha256, image = await asyncio.to_thread(_describe, data)
        await self.blobs.write(_name(account_id, sha256), data)
        return {
            "sha256": sha256,
            "mime": image.mime,
            "bytes": len(data),
            "width": image.width,
            "height": image.height,
        }

    async def get(self, account_id: str, sha256: str) -> bytes | None:
        """Return a file of an account; None if there is none with that hash, or it has expired."""
        if not _SHA256.fullmatch(sha256):
            return None
        blob = await self.blobs.read(_name(account_id, sha256))
        if blob is None or time.time() - blob.modified_at > RETENTION_S:
            return None
        # Where files do not appear at once, this one may still be written.
        is_complete = await asyncio.to_thread(_has_hash, blob.data, sha256)
        return blob.data if is_complete else None

    async def delete_account(self, account_id: str) -> int:
        """Delete all files of an account and return their count."""
        return await self.blobs.delete_older(_account_folder(account_id), before=math.inf)

    async def delete_expired(self, now: float) -> int:
        """Delete expired files and return their count."""
        return await self.blobs.delete_older(_FOLDER, before=now - RETENTION_S)


def _describe(data: bytes) -> tuple[str, ImageType]:
    return hashlib.sha256(data).hexdigest(), detect_image_type(data)


def _has_hash(data: bytes, sha256: str) -> bool:
    return hashlib.sha256(data).hexdigest() == sha256


def _name(account_id: str, sha256: str) -> str:
    return f"{_account_folder(account_id)}/{sha256[:2]}/{sha256}"


def _account_folder(account_id: str) -> str:
    # An account id may contain characters that a file name must not.
    return f"{_FOLDER}/{hashlib.sha256(account_id.encode()).hexdigest()[:32]}"


MAX_CONCURRENT: Final = 4
MAX_ASSETS: Final = limits.CREATIVE_FILES
# Time that is reserved for writing the reply.
RESERVE_S: Final = 0.25
_TIMED_OUT: Final = "not done within timeout_ms"
_NO_PICTURE: Final = "the preview is a page, not a picture"

Row = dict[str, Any]


@dataclass(slots=True)
class EnrichmentCounts:
    """Counts the successful enrichments of a call, which are charged."""

    details: int = 0
    assets: int = 0
    ocr: int = 0

    @property
    def units(self) -> dict[str, int]:
        """Charged units by operation; the listing itself is one."""
        enrichments = {"details": self.details, "assets": self.assets, "ocr": self.ocr}
        return {"creatives": 1, **{name: count for name, count in enrichments.items() if count}}


@dataclass(frozen=True, slots=True)
class EnrichmentOptions:
    """The enrichments that a request selects."""

    details: bool
    assets: bool
    previews: bool
    ocr: bool

    @classmethod
    def of_request(cls, request: CreativesRequest) -> EnrichmentOptions:
        """Return the options of a request; assets require details, which name their URLs."""
        assets = request.should_download_assets
        details = not request.skip_details or assets
        return cls(details, assets, request.should_download_previews, request.ocr)

    @property
    def any(self) -> bool:
        """Whether any enrichment is selected."""
        return self.details or self.assets or self.previews or self.ocr


@dataclass(frozen=True, slots=True)
class Enricher:
    """Enriches the creatives of one call until its deadline."""

    source: CreativesSource
    options: EnrichmentOptions
    files: FileStore
    ocr_pool: OcrPool
    account_id: str
    deadline: CallDeadline
    ocr_engine: str = ""
    counts: EnrichmentCounts = field(default_factory=EnrichmentCounts)
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT))

    async def enrich(self, creatives: Sequence[AdCreative]) -> list[Row]:
        """Return the additional fields of each creative, in the same order."""
        if not self.options.any:
            return [{} for _ in creatives]
        enrichments = [_CreativeEnrichment(self, creative) for creative in creatives]
        tasks = [
            asyncio.create_task(enrichment.run())
            for enrichment in enrichments
            if not enrichment.creative.error
        ]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=max(0.0, self.deadline.remaining_s - RESERVE_S))
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        return [enrichment.fields() for enrichment in enrichments]


class _CreativeEnrichment:
    """Enriches one creative: holds its pending steps, new fields and errors."""

    def __init__(self, enricher: Enricher, creative: AdCreative) -> None:
        self._enricher, self.creative = enricher, creative
        self._fields: Row = {}
        self._errors: list[str] = []
        steps = {
            "details": self._add_details,
            "assets": self._add_assets,
            "previews": self._add_preview,
            "ocr": self._add_text,
        }
        self._pending: dict[str, Callable[[], Awaitable[None]]] = {
            name: step for name, step in steps.items() if getattr(enricher.options, name)
        }
        self._downloads: dict[str, bytes] = {}

    async def run(self) -> None:
        """Run every step; a failed step does not prevent the next one."""
        async with self._enricher.slots:
            for name, step in list(self._pending.items()):
                try:
                    await step()
                except (SourceError, PageError, BadInput, BlobsUnavailable) as error:
                    self._errors.append(f"{name}: {error}")
                del self._pending[name]

    def fields(self) -> Row:
        """Return the additional fields of the row, with an error for each unfinished step."""
        creative = self.creative
        unfinished = [] if creative.error else [f"{name}: {_TIMED_OUT}" for name in self._pending]
        errors = [*filter(None, [creative.error]), *self._errors, *unfinished]
        fields = dict(self._fields)
        if self._enricher.options.details:
            fields = {**creative.details, **fields}
            if creative.format is not None:
                fields["format"] = creative.format
        return {**fields, "error": "; ".join(errors)} if errors else fields

    async def _add_details(self) -> None:
        self.creative = await self._enricher.source.with_details(self.creative)
        self._enricher.counts.details += 1

    async def _add_assets(self) -> None:
        assets: list[Row] = []
        errors: list[str] = []
        urls = self.creative.details.get("asset_urls", [])
        for url in urls[:MAX_ASSETS]:
            try:
                assets.append({"url": url, **await self._store(await self._download(url))})
            except ApplicationError as error:
                errors.append(str(error))
                assets.append({"url": url, "error": str(error)})
            # Assets that are stored before the deadline stay in the row.
            self._fields["assets"] = assets
        self._fields["assets"] = assets
        self._enricher.counts.assets += len(assets) - len(errors)
        if len(urls) > MAX_ASSETS:
            raise SourceError(f"{len(urls)} files, of which {MAX_ASSETS} were downloaded")
        if errors:
            raise SourceError(f"{len(errors)} of {len(assets)} failed, first: {errors[0]}")

    async def _add_preview(self) -> None:
        url, picture = await self._picture()
        self._fields["preview"] = {"url": url, **await self._store(picture)}
        self._enricher.counts.assets += 1

    async def _add_text(self) -> None:
        _, picture = await self._picture()
        ocr_text = await self._enricher.ocr_pool.read(picture, self._enricher.ocr_engine)
        self._fields |= {"text": ocr_text.text, "text_confidence": ocr_text.confidence}
        details = self.creative.details
        parts = (("headline", ocr_text.headline), ("description", ocr_text.description))
        for name, value in parts:
            if value is not None and details.get(name) is None:
                self._fields[name] = value
        self._enricher.counts.ocr += 1

    async def _picture(self) -> tuple[str, bytes]:
        url = await self._enricher.source.picture_url(self.creative)
        if url is None:
            raise SourceError(_NO_PICTURE)
        return url, await self._download(url)

    async def _download(self, url: str) -> bytes:
        if url not in self._downloads:
            self._downloads[url] = await self._enricher.source.download(url)
        return self._downloads[url]

    async def _store(self, data: bytes) -> Row:
        return await self._enricher.files.put(self._enricher.account_id, data)


def creative_row(creative: AdCreative, position: int, enrichment: Row) -> Row:
    """Return a creative as a row of the reply, without unknown values."""
    row: Row = {
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
        **enrichment,
    }
    return {name: value for name, value in row.items() if value is not None}


# Recognizes the text of pictures in child processes, with tesseract or rapidocr.


# Limits for hostile pictures: most need 0.2 s with tesseract and 2 s with rapidocr.
CPU_SECONDS: Final = 15
MEMORY_BYTES: Final = 1536 * 1024 * 1024
TIMEOUT_S: Final = 60.0
_MODULE: Final = "webdata_nb.service.creatives.ocr_process"


def find_engine() -> str:
    """Return the OCR engine to use: tesseract's path, or `rapidocr`.

    Raises
    ------
    MissingSetting
        Neither is installed.
    """
    if program := shutil.which("tesseract"):
        return program
    if importlib.util.find_spec("rapidocr") and importlib.util.find_spec("onnxruntime"):
        return "rapidocr"
    raise MissingSetting(
        "ocr needs tesseract (on Debian: apt-get install tesseract-ocr) or the extra: "
        'pip install "webdata_nb[ocr]", on the machine of the service'
    )


@dataclass(frozen=True, slots=True)
class OcrPool:
    """Runs OCR in one process per picture, with at most one process per core."""

    cpu_seconds: int = CPU_SECONDS
    memory_bytes: int = MEMORY_BYTES
    slots: FairSemaphore = field(default_factory=lambda: FairSemaphore(available_processors()))

    async def read(self, picture: bytes, engine: str) -> OcrText:
        """Return the text of a picture.

        Raises
        ------
        ScrapeError
            The data is not a picture, or OCR exceeded a limit; `kind` says which.
        """
        async with self.slots:
            process = await self._start(engine)
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    output, _ = await process.communicate(picture)
            except TimeoutError:
                raise ScrapeError("cpu_limit", f"OCR took over {TIMEOUT_S:.0f} s") from None
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        if hasattr(os, "killpg"):
                            os.killpg(process.pid, KILL_SIGNAL)
                        else:
                            process.kill()
                    await process.communicate()
        try:
            reply: dict[str, Any] = orjson.loads(output)  # noqa: TID251 - written by the OCR process
        except orjson.JSONDecodeError:
            if process.returncode is not None and -process.returncode in {
                getattr(signal, "SIGXCPU", 0),
                KILL_SIGNAL,
            }:
                raise ScrapeError("cpu_limit", "OCR of the picture took too much time") from None
            if process.returncode == MEMORY_LIMIT_EXIT:
                raise ScrapeError(
                    "memory_limit", "OCR of the picture needs too much memory"
                ) from None
            raise ScrapeError("worker_died", "the OCR process died") from None
        if "error" in reply:
            raise ScrapeError("parse", str(reply["error"]))
        return layout_text(reply["lines"])

    async def _start(self, engine: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *python_command(_MODULE, engine, str(self.cpu_seconds), str(self.memory_bytes)),
            env=python_environment(OMP_THREAD_LIMIT="1"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # allows killing the process group with tesseract in it
        )
