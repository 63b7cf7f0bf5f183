"""Reads receipts, and packs those of ended jobs.

The receipt of an ended job does not change any more. Its entries are moved into compressed blocks
in the order of their URLs, a slice in each transaction. Until all are moved, the rest follows the
blocks in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import orjson

from webdata_nb.contract.replies import Receipt
from webdata_nb.service.compression import zstd
from webdata_nb.service.errors import StoreDamaged
from webdata_nb.service.store.records import UrlOutcome
from webdata_nb.service.store.sql.connection import SqlRow, Transaction

# A block is read and decompressed as a whole.
BLOCK_ENTRIES: Final = 1000
# Fewer entries stay as they are.
MIN_ENTRIES: Final = 50
# Small receipts share a transaction.
MAX_JOBS: Final = 50
_OPTIONS: Final[Mapping[int, int]] = {
    zstd.CompressionParameter.compression_level: 6,
    zstd.CompressionParameter.checksum_flag: 1,
}


def read_receipt(transaction: Transaction, job_id: str, examples: int) -> Receipt:
    """Return the counts of a job's receipt, with up to `examples` URLs of each outcome."""
    counts = receipt_counts(transaction.rows("receipt_counts", job_id=job_id))
    urls: dict[str, list[str]] = {}
    if examples:
        reader = ReceiptReader(transaction, job_id)
        for outcome in counts:
            entries = reader.page(start=0, count=examples, outcome=outcome)
            urls[outcome] = [entry.url for entry in entries]
    return Receipt(counts=counts, examples=urls)


def receipt_counts(rows: Sequence[SqlRow]) -> dict[str, int]:
    """Return the counts of a receipt by outcome."""
    return {row["outcome"]: row["n"] for row in rows}


class ReceiptReader:
    """Reads the entries of a job's receipt in a transaction."""

    def __init__(self, transaction: Transaction, job_id: str) -> None:
        self._transaction, self._job_id = transaction, job_id
        rows = transaction.rows("receipt_blocks", job_id=job_id)
        self._counts: dict[int, dict[str, int]] = {
            row["number"]: orjson.loads(row["counts"]) for row in rows
        }
        self._blocks: dict[int, list[list[str]]] = {}

    def page(self, *, start: int, count: int, outcome: str | None = None) -> list[UrlOutcome]:
        """Return entries by URL, of all outcomes or of one, from entry `start`."""
        entries: list[UrlOutcome] = []
        for number, counts in self._counts.items():
            size = sum(counts.values()) if outcome is None else counts.get(outcome, 0)
            if start < size and len(entries) < count:
                stop = start + count - len(entries)
                entries += islice(self._entries(number, outcome), start, stop)
            start = max(0, start - size)
        if len(entries) < count:
            place = {"job_id": self._job_id, "limit": count - len(entries), "offset": start}
            if outcome is None:
                rows = self._transaction.rows("receipt_page", **place)
            else:
                rows = self._transaction.rows("receipt_page_of_outcome", outcome=outcome, **place)
            entries += map(_url_outcome, rows)
        return entries

    def entry(self, url: str) -> UrlOutcome | None:
        """Return the entry of a URL; None if the job never saw it."""
        place = {"job_id": self._job_id, "url": url}
        for row in self._transaction.rows("receipt_block_of_url", **place):
            for entry in self._entries(row["number"], None):
                if entry.url == url:
                    return entry
        rows = self._transaction.rows("receipt_entry", **place)
        return _url_outcome(rows[0]) if rows else None

    def _entries(self, number: int, outcome: str | None) -> Iterator[UrlOutcome]:
        if number not in self._blocks:
            place = {"job_id": self._job_id, "number": number}
            [row] = self._transaction.rows("receipt_block", **place)
            try:
                self._blocks[number] = orjson.loads(zstd.decompress(row["body"]))
            except (zstd.ZstdError, orjson.JSONDecodeError) as error:
                raise StoreDamaged(f"the receipt of job {self._job_id} is damaged") from error
        for entry in self._blocks[number]:
            if outcome is None or entry[1] == outcome:
                yield UrlOutcome(*entry)


def pack_slice(transaction: Transaction) -> bool:
    """Pack some entries of ended jobs; return whether there may be more to pack."""
    for _ in range(MAX_JOBS):
        job = transaction.row("unpacked_job")
        if job is None:
            return False
        job_id = job["id"]
        rows = transaction.rows("receipt_page", job_id=job_id, limit=BLOCK_ENTRIES, offset=0)
        if len(rows) >= MIN_ENTRIES:
            entries = [[row["url"], row["outcome"], row["detail"]] for row in rows]
            transaction.send(
                "add_receipt_block",
                job_id=job_id,
                first_url=rows[0]["url"],
                counts=orjson.dumps(Counter(row["outcome"] for row in rows)).decode(),
                body=zstd.compress(orjson.dumps(entries), options=_OPTIONS),
            )
            transaction.execute("delete_receipt", id=job_id, limit=len(rows))
        if len(rows) < BLOCK_ENTRIES:
            transaction.execute("mark_packed", job_id=job_id)
        if len(rows) >= MIN_ENTRIES:
            return True
    return True


def _url_outcome(row: SqlRow) -> UrlOutcome:
    return UrlOutcome(row["url"], row["outcome"], row["detail"])
