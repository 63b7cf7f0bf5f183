"""Parquet files that appear whole or not at all, with the receipt among their metadata."""

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

from webdata_nb.frames import private_files, schemas

# pandas reads this key as `attrs` of the frame, polars and DuckDB show it as metadata.
_ATTRS: Final = b"PANDAS_ATTRS"
_OWN: Final = b"webdata"
_ROWS_PER_GROUP: Final = 1024
_ROWS_PER_GROUP_WITH_IMAGES: Final = 64
# Below this, threads cost more processor time than they save in waiting.
_THREADS_FROM: Final = 1024 * 1024
TEMPORARY: Final = ".tmp"


def encode(table: pa.Table, *, own: Mapping[str, Any], attrs: Mapping[str, Any]) -> pa.Buffer:
    """Return `table` as the bytes of a Parquet file that carries both mappings as JSON."""
    metadata = {_OWN: orjson.dumps(own), _ATTRS: orjson.dumps({"webdata": attrs})}
    images = any(schemas.kind(field) == schemas.PNG for field in _filled(table))
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


def _filled(table: pa.Table) -> list[pa.Field[Any]]:
    return [field for field in table.schema if table[field.name].null_count < table.num_rows]


class Document:
    """A Parquet file in memory: what it says of itself at once, columns when they are asked for.

    Attributes
    ----------
    schema
        The columns, without the file's metadata.
    own, attrs
        Both mappings that `encode` was given.
    """

    def __init__(self, data: bytes) -> None:
        self._file = pq.ParquetFile(pa.BufferReader(data))
        self._large = len(data) >= _THREADS_FROM
        self.schema = self._file.schema_arrow.remove_metadata()
        metadata = self._file.schema_arrow.metadata or {}
        self.own: dict[str, Any] = orjson.loads(metadata.get(_OWN, b"{}"))
        self.attrs: dict[str, Any] = orjson.loads(metadata.get(_ATTRS, b"{}")).get("webdata", {})

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the table, or some of its columns in the order asked for."""
        wanted = self.schema.names if columns is None else list(columns)
        table = self._file.read(columns=wanted, use_threads=self._large)
        return table.select(wanted).replace_schema_metadata(None)


def write_atomically(
    path: Path, data: pa.Buffer | bytes, *, durable: bool = True, owner_only: bool = False
) -> None:
    """Write `data` beside `path`, force it to the disk if `durable`, and rename it into place."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    mode = private_files.FILE if owner_only else 0o666  # less what the umask takes
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
