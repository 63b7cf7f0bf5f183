"""Writes Parquet datasets that are partitioned by job, to a directory or an fsspec URL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from webdata_nb.toolkit.frames import parquet, remote
from webdata_nb.toolkit.frames.dataset_folder import DatasetFolder

if TYPE_CHECKING:
    import pyarrow as pa


def write_part(
    target: Path | str, job_id: str, number: int, table: pa.Table, attrs: Mapping[str, Any]
) -> None:
    """Write one part: `target/job_id=.../part-00000.parquet`.

    pyarrow, pandas, polars and DuckDB read such a dataset as one table. The first part replaces
    all older files of the partition, so that a job's rows are never stored twice.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    partition, name = f"job_id={quote(job_id, safe='')}", f"part-{number:05d}.parquet"
    data = parquet.encode(table, own={}, attrs=attrs)
    root = str(target).rstrip("/")
    folder = DatasetFolder.at(
        f"{root}/{partition}" if remote.is_url(target) else Path(root, partition)
    )
    for old in folder.names("part-*.parquet") if number == 0 else ():
        folder.delete(old)
    folder.write(name, bytes(memoryview(data)))
