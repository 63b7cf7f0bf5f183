"""Divides the data of a page into its content, which visits share, and the parts of one visit.

A content is the text ``scope``, ``journal``, ``shared``, ``shared``, ..., one part in each line,
which JSON without indentation allows. If values were extracted from the page, its source is one
more line, which is no part of the row. It is stored compressed, and its id is a hash of the text.
The scope is the first line, so no two scopes have a content in common. The row of an entry is its
shared parts with the parts of the visit between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import chain, zip_longest
from typing import Final

import orjson

from webdata_nb.service.compression import zstd
from webdata_nb.service.store.records import (
    JobRecord,
    JournalEntry,
    NewContent,
    RowParts,
    StoredContent,
    StoredRow,
)

# A smaller content costs more in its own table than it saves.
MIN_BYTES: Final = 512
# A larger content is compressed and decompressed on another thread.
LARGE_BYTES: Final = 64 * 1024
_LEVEL: Final = 3
_ID_BYTES: Final = 16
_SEPARATOR: Final = b"\n"
_OBJECT: Final = b"{"


class DamagedContent(ValueError):
    """The content of a stored page is missing, or is not the one that its id names."""


async def share_content(
    job: JobRecord, entry: JournalEntry, row: RowParts, *, shares_journal: bool
) -> JournalEntry:
    """Return an entry with a row, of which the shared parts become its content.

    A small row stays whole. `shares_journal` says that the journal is the same for each visit of
    an unchanged page, and is not read by statements.
    """
    journal = entry.journal if shares_journal else b""
    source = (row.source,) if row.source else ()
    parts = (content_scope(job, entry.ordinal), journal, *row.shared, *source)
    is_small = not row.source and sum(map(len, parts)) < MIN_BYTES
    if is_small or not _is_divisible(parts, row.own):
        return replace(entry, page=row.json)
    text = _SEPARATOR.join(parts)
    if len(text) < LARGE_BYTES:
        content = new_content(text)
    else:
        content = await asyncio.to_thread(new_content, text)
    own = _SEPARATOR.join(row.own)
    return replace(entry, page=own, journal=b"" if journal else entry.journal, content=content)


def content_scope(job: JobRecord, ordinal: int) -> bytes:
    """Return the entries that may share a content: those of an account.

    An entry of a job with its own headers or cookies shares with no other.
    """
    scope = f"{job.account_id} {job.id} {ordinal}" if job.is_private else job.account_id
    return scope.encode()


def _is_divisible(parts: Sequence[bytes], own: Sequence[bytes]) -> bool:
    """Whether each part is a line, and at least one belongs to the visit."""
    return bool(own) and not any(_SEPARATOR in part for part in chain(parts, own))


def new_content(text: bytes) -> NewContent:
    """Compress the text of a content."""
    return NewContent(content_id(text), zstd.compress(text, _LEVEL), len(text))


def content_id(text: bytes) -> bytes:
    """Return the id of a content: a hash of its text."""
    return blake2b(text, digest_size=_ID_BYTES).digest()


def row_of(page: StoredRow) -> bytes:
    """Return the JSON of a row; that of a failed one if its content is damaged."""
    row, _ = row_and_journal(page)
    return row


def row_and_journal(page: StoredRow) -> tuple[bytes, bytes | None]:
    """Return the JSON of a row and its journal; a failed row and None if its content is damaged."""
    if page.content is None:
        return page.page, page.journal
    try:
        _, journal, *shared = _parts(page.content)
        return _whole_row(page.page, shared), page.journal or journal
    except DamagedContent as error:
        return damaged_row(page, error), None


def journal_of(page: StoredRow) -> bytes:
    """Return the journal of an entry; raises `DamagedContent`."""
    if page.content is None or page.journal:
        return page.journal
    return _parts(page.content)[1]


def source_json(page: StoredRow) -> bytes:
    """Return the source of a page from which values were extracted, as a JSON string.

    Empty if it is not stored. Raises `DamagedContent`.
    """
    if page.content is None:
        return b""
    parts, visit = _parts(page.content)[2:], page.page.split(_SEPARATOR)
    return parts[-1] if len(parts) == len(visit) + 2 else b""


def damaged_row(page: StoredRow, error: DamagedContent) -> bytes:
    """Return the JSON of a row whose content is damaged: of a failed page."""
    reason = str(error)
    metadata = {"final_url": page.url, "status_code": None, "error_kind": "damaged_content"}
    if page.page.startswith(_OBJECT):  # a search's result, whose rank is not in the content
        found, *_ = page.page.split(_SEPARATOR)
        result = {**orjson.loads(found + b"}"), "success": False, "scraped": False}
        return orjson.dumps({**result, "error": reason, "metadata": metadata})
    time_taken, visit, *_ = page.page.split(_SEPARATOR)
    row = {
        "url": page.url,
        "title": None,
        "status": "failed",
        "status_code": None,
        "success": False,
        "error": reason,
        "depth": None,
        "time_taken": orjson.loads(time_taken),
        "quality": None,
        "content_hash": None,
        # What the page may be used for follows in crawls with rights.
        **orjson.loads(b'{"fetched_at":%b}' % visit),
        "metadata": metadata,
    }
    return orjson.dumps(row)


def _whole_row(own: bytes, shared: list[bytes]) -> bytes:
    visit = own.split(_SEPARATOR)
    if len(shared) == len(visit) + 2:
        shared.pop()  # the source of the page
    if len(shared) != len(visit) + 1:
        raise DamagedContent("the stored page is damaged: its content belongs to another row")
    return b"".join(chain.from_iterable(zip_longest(shared, visit, fillvalue=b"")))


def _parts(content: StoredContent) -> list[bytes]:
    return content_text(content).split(_SEPARATOR)


def content_text(content: StoredContent) -> bytes:
    """Return the text of a content; raises `DamagedContent`."""
    text = _decompressed(content) if content.text is None else content.text
    if content_id(text) != content.id:
        raise DamagedContent("the stored page is damaged: its content has another checksum")
    return text


def _decompressed(content: StoredContent) -> bytes:
    body = content.body
    if body is None:
        raise DamagedContent("the stored page is damaged: its content is missing")
    try:
        # A damaged header may announce any size.
        if zstd.get_frame_info(body).decompressed_size != content.size:
            raise DamagedContent("the stored page is damaged: its content has another size")
        return zstd.decompress(body)
    except zstd.ZstdError as error:
        raise DamagedContent("the stored page is damaged: it cannot be decompressed") from error
