"""Stores the rows of a long crawl in Parquet files of a folder or URL, with a manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa

from webdata_nb.toolkit.frames import parquet, schemas
from webdata_nb.toolkit.frames.dataset_folder import DatasetFolder

# Readers of datasets ignore files whose names begin so.
MANIFEST: Final = "_webdata_crawl.json"
VERSION: Final = 1
_PART: Final = "part-{:05d}.parquet"


@dataclass(frozen=True, slots=True)
class CrawlManifest:
    """What a folder has the rows of.

    Attributes
    ----------
    digest
        The digest of the request and of the service that it was sent to.
    idempotency_key
        The key of the start: the start of a killed process is found again by it.
    job_id
        The job, once its start was answered.
    receipt
        The receipt of the finished crawl; None before.
    """

    digest: str
    idempotency_key: str
    job_id: str | None = None
    receipt: Mapping[str, Any] | None = None


class CrawlParts:
    """The files of one long crawl: `part-00000.parquet` and on, in the order of the rows."""

    def __init__(self, target: Path | str) -> None:
        self._folder = DatasetFolder.at(target)

    def manifest(self) -> CrawlManifest | None:
        """Return the manifest; None without one, or where another release wrote it."""
        data = self._folder.read_if_exists(MANIFEST)
        if data is None:
            return None
        values = orjson.loads(data)
        if values.pop("version") != VERSION:
            return None
        return CrawlManifest(**values)

    def write_manifest(self, manifest: CrawlManifest) -> None:
        """Replace the manifest."""
        values = {
            "version": VERSION,
            "digest": manifest.digest,
            "idempotency_key": manifest.idempotency_key,
            "job_id": manifest.job_id,
            "receipt": manifest.receipt,
        }
        self._folder.write(MANIFEST, orjson.dumps(values))

    def is_empty(self) -> bool:
        """Return whether there are no Parquet files."""
        return not self._folder.names("*.parquet")

    def count(self) -> int:
        """Return the number of parts that are there without a gap."""
        names = set(self._folder.names("part-*.parquet"))
        return next(number for number in range(len(names) + 1) if _PART.format(number) not in names)

    def write(self, number: int, table: pa.Table, attrs: Mapping[str, Any]) -> None:
        """Write one part atomically."""
        data = parquet.encode(table, own={}, attrs=attrs)
        self._folder.write(_PART.format(number), bytes(memoryview(data)))

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Return some columns of all parts."""
        tables = [self._read_part(number, columns) for number in range(self.count())]
        if not tables:  # such as of a site that disallows its start page
            schema = schemas.SCHEMAS["crawl"]
            return pa.schema([schema.field(name) for name in columns]).empty_table()
        return pa.concat_tables(tables)

    def clear(self) -> None:
        """Delete the parts and the manifest."""
        for name in (*self._folder.names("part-*.parquet"), *self._folder.names(MANIFEST)):
            self._folder.delete(name)

    def _read_part(self, number: int, columns: Sequence[str]) -> pa.Table:
        data = self._folder.read(_PART.format(number))
        return parquet.ParquetDocument(data).read(columns)
