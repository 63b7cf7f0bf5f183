"""Writes Parquet files atomically, with the receipt in their metadata, and reads them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from webdata_nb.toolkit.frames import private_files, schemas

# pandas reads this key as `attrs` of the frame, polars and DuckDB show it as metadata.
_ATTRS: Final = b"PANDAS_ATTRS"
_OWN: Final = b"webdata"
_ROWS_PER_GROUP: Final = 1024
_ROWS_PER_GROUP_WITH_IMAGES: Final = 64
# Below this size, threads cost more CPU time than they save.
_MIN_BYTES_FOR_THREADS: Final = 1024 * 1024
TEMPORARY: Final = ".tmp"


def encode(table: pa.Table, *, own: Mapping[str, Any], attrs: Mapping[str, Any]) -> pa.Buffer:
    """Encode `table` as a Parquet file with both mappings as JSON in its metadata."""
    metadata = {_OWN: orjson.dumps(own), _ATTRS: orjson.dumps({"webdata": attrs})}
    images = any(schemas.kind(field) == schemas.PNG for field in _non_empty_fields(table))
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata(metadata),
        sink,
        compression="zstd",
        compression_level=3,
        write_page_index=True,
        row_group_size=_ROWS_PER_GROUP_WITH_IMAGES if images else _ROWS_PER_GROUP,
    )
    return sink.getvalue()


def _non_empty_fields(table: pa.Table) -> list[pa.Field[Any]]:
    return [field for field in table.schema if table[field.name].null_count < table.num_rows]


class ParquetDocument:
    """A Parquet file in memory. Its metadata is read at once, its columns on request.

    Attributes
    ----------
    schema
        The columns, without the file's metadata.
    own, attrs
        The mappings that were passed to `encode`; empty in a file of something else.
    """

    def __init__(self, data: bytes) -> None:
        self._file = pq.ParquetFile(pa.BufferReader(data))
        self._large = len(data) >= _MIN_BYTES_FOR_THREADS
        self.schema = self._file.schema_arrow.remove_metadata()
        metadata = self._file.schema_arrow.metadata or {}
        self.own = _mapping(orjson.loads(metadata.get(_OWN, b"{}")))
        attrs = _mapping(orjson.loads(metadata.get(_ATTRS, b"{}")))
        self.attrs = _mapping(attrs.get("webdata"))

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the table, or the given columns in their order."""
        wanted = self.schema.names if columns is None else list(columns)
        table = self._file.read(columns=wanted, use_threads=self._large)
        return table.select(wanted).replace_schema_metadata(None)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def write_atomically(
    path: Path, data: pa.Buffer | bytes, *, durable: bool = True, owner_only: bool = False
) -> None:
    """Write a temporary file, sync it to the disk if `durable`, and rename it to `path`."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    mode = private_files.FILE_MODE if owner_only else 0o666  # reduced by the umask
    try:
        with open(temporary, "xb", opener=partial(os.open, mode=mode)) as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
