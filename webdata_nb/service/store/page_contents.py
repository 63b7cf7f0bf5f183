"""Divides the row of a page into its content, which visits share, and what belongs to one visit.

Both are JSON objects. The content has the members of the row in their order, with null for those of
the visit; the row is the content's members with those of the visit in their places. The time in the
metadata belongs to the visit too. A content is stored compressed, with its scope, and its id is a
hash of the text, so no two scopes have a content in common.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from hashlib import blake2b
from threading import local
from typing import Any, Final

import msgspec
import orjson

from webdata_nb.service.compression import zstd
from webdata_nb.service.store.records import JobRecord, JournalEntry

# A smaller content costs more in its own table than it saves.
MIN_BYTES: Final = 512
# A larger content is compressed on another thread: a smaller one takes a millisecond.
LARGE_BYTES: Final = 256 * 1024
_LEVEL: Final = 3
_ID_BYTES: Final = 16
_of_thread: Final = local()
_METADATA: Final = "metadata"
# The time of the visit, in the metadata of a page.
_TIME: Final = "fetched_at"

_Members = dict[str, msgspec.Raw]
_MEMBERS: Final = msgspec.json.Decoder(_Members)


class DamagedContent(ValueError):
    """The content of a stored page is missing, or is not the one that its id names."""


async def share_content(
    job: JobRecord,
    entry: JournalEntry,
    row: Mapping[str, Any],
    *,
    of_visit: Collection[str],
    source: bytes = b"",
    shares_journal: bool,
) -> JournalEntry:
    """Return an entry with a row, of which what visits share becomes its content.

    A small row stays whole.

    Parameters
    ----------
    job, entry, row
        The job, the entry without its row, and the row.
    of_visit
        The names of the members that belong to the visit, where the row has them.
    source
        The page from which values were extracted, as a JSON string; empty without an extraction.
        It is stored beside the row and is no part of it.
    shares_journal
        Whether the journal is the same for each visit of an unchanged page, and is not read by
        statements.
    """
    visit: dict[str, Any] = {name: row[name] for name in of_visit if name in row}
    shared = {**row, **dict.fromkeys(visit)}
    metadata = row.get(_METADATA)
    if isinstance(metadata, Mapping) and _TIME in metadata:
        visit[_METADATA] = {_TIME: metadata[_TIME]}
        shared[_METADATA] = {**metadata, _TIME: None}
    fields: dict[str, Any] = {"scope": content_scope(job, entry.ordinal), "row": shared}
    if shares_journal:
        fields["journal"] = orjson.Fragment(entry.journal)
    if source:
        fields["source"] = orjson.Fragment(source)
    text = orjson.dumps(fields)
    if not visit or (not source and len(text) < MIN_BYTES):
        return replace(entry, page=orjson.dumps(row))
    entry = replace(
        entry, page=orjson.dumps(visit), journal=b"" if shares_journal else entry.journal
    )
    if len(text) < LARGE_BYTES:
        return with_content(entry, text)
    return await asyncio.to_thread(with_content, entry, text)


def content_scope(job: JobRecord, ordinal: int) -> str:
    """Return the entries that may share a content: those of an account.

    An entry of a job with its own headers or cookies shares with no other.
    """
    return f"{job.account_id} {job.id} {ordinal}" if job.is_private else job.account_id


def with_content(entry: JournalEntry, text: bytes) -> JournalEntry:
    """Return an entry with a text as its content, compressed."""
    # A new compressor would take a third of the time.
    compressor: zstd.ZstdCompressor | None = getattr(_of_thread, "compressor", None)
    if compressor is None:
        compressor = _of_thread.compressor = zstd.ZstdCompressor(_LEVEL)
    body = compressor.compress(text, zstd.ZstdCompressor.FLUSH_FRAME)
    return replace(entry, content_id=id_of(text), body=body, size=len(text))


def id_of(text: bytes) -> bytes:
    """Return the id of a content: a hash of its text."""
    return blake2b(text, digest_size=_ID_BYTES).digest()


def row_of(entry: JournalEntry) -> bytes:
    """Return the JSON of a row; that of a failed one if its content is damaged."""
    row, _ = row_and_journal(entry)
    return row


def row_and_journal(entry: JournalEntry) -> tuple[bytes, bytes | None]:
    """Return the JSON of a row and its journal; a failed row and None if its content is damaged."""
    try:
        whole = whole_entry(entry)
    except DamagedContent as error:
        return damaged_row(entry, error), None
    return whole.page or b"", whole.journal


def whole_entry(entry: JournalEntry) -> JournalEntry:
    """Return an entry that has all of its content itself; raises `DamagedContent`."""
    if entry.content_id is None:
        return entry
    content = _content_of(entry)
    shared, visit = _MEMBERS.decode(content["row"]), _MEMBERS.decode(entry.page or b"")
    if not visit.keys() <= shared.keys():
        raise DamagedContent("the stored page is damaged: its content belongs to another row")
    if _METADATA in visit:
        metadata = _MEMBERS.decode(shared[_METADATA]) | _MEMBERS.decode(visit[_METADATA])
        visit[_METADATA] = msgspec.Raw(msgspec.json.encode(metadata))
    return JournalEntry(
        entry.ordinal,
        entry.url,
        entry.success,
        journal=entry.journal or bytes(content.get("journal", b"")),
        page=msgspec.json.encode(shared | visit),
        position=entry.position,
        visit=entry.visit,
        source=bytes(content.get("source", b"")),
    )


def journal_of(entry: JournalEntry) -> bytes:
    """Return the journal of an entry; raises `DamagedContent`."""
    if entry.content_id is None or entry.journal:
        return entry.journal
    return bytes(_content_of(entry).get("journal", b""))


def _content_of(entry: JournalEntry) -> _Members:
    """Return the members of a content: scope, row, and where it has them journal and source."""
    return _MEMBERS.decode(content_text(entry.content_id, entry.body, entry.size, entry.text))


def damaged_row(entry: JournalEntry, error: DamagedContent) -> bytes:
    """Return the JSON of a row whose content is damaged: of a failed page."""
    reason = str(error)
    metadata = {"final_url": entry.url, "status_code": None, "error_kind": "damaged_content"}
    visit = orjson.loads(entry.page or b"{}")
    visit.pop(_METADATA, None)
    if "rank" in visit:  # a search's result, whose rank is not in the content
        result = {**visit, "success": False, "scraped": False}
        return orjson.dumps({**result, "error": reason, "metadata": metadata})
    row = {
        "url": entry.url,
        "title": None,
        "status": "failed",
        "status_code": None,
        "success": False,
        "error": reason,
        "depth": None,
        "time_taken": None,
        "quality": None,
        "content_hash": None,
        # With what the page may be used for, in crawls with rights.
        **visit,
        "metadata": metadata,
    }
    return orjson.dumps(row)


def content_text(
    content_id: bytes | None, body: bytes | None, size: int, text: bytes | None = None
) -> bytes:
    """Return the text of a content, decompressed without `text`; raises `DamagedContent`."""
    if text is None:
        if body is None:
            raise DamagedContent("the stored page is damaged: its content is missing")
        try:
            # A damaged header may announce any size.
            if zstd.get_frame_info(body).decompressed_size != size:
                raise DamagedContent("the stored page is damaged: its content has another size")
            text = zstd.decompress(body)
        except zstd.ZstdError as error:
            raise DamagedContent("the stored page is damaged: it cannot be decompressed") from error
    if id_of(text) != content_id:
        raise DamagedContent("the stored page is damaged: its content has another checksum")
    return text
