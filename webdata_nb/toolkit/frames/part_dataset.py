"""Stores the parts of a call in a directory or at an fsspec URL, with a manifest.

The directory holds `part-000000.parquet` and so on, one for each partition of the inputs; the
manifest `_manifest.json`, which says to which call they belong; and `_figures.json`, a copy of the
figures of the parts, so that a repeated call need not open each part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_path
from webdata_nb.toolkit.frames import parquet
from webdata_nb.toolkit.frames.dataset_folder import DatasetFolder

FORMAT: Final = 1
_MANIFEST: Final = "_manifest.json"
_FIGURES: Final = "_figures.json"
_PART: Final = re.compile(r"part-(\d{6})\.parquet")
_FOREIGN: Final = re.compile(r".*\.parquet|job_id=.*")
_THREADS: Final = 16


@dataclass(frozen=True, slots=True)
class Manifest:
    """The call that the parts of a directory belong to.

    `run_id` is random; the jobs' idempotency keys derive from it. `fingerprint` is a hash of the
    requests, salted with `run_id`. Neither depends on an API key.
    """

    format: int
    run_id: str
    fingerprint: str
    op: str
    inputs: int
    partition: int

    @property
    def parts(self) -> int:
        """The number of partitions."""
        return -(-self.inputs // self.partition)

    def inputs_of(self, number: int) -> int:
        """Return the number of inputs of a partition."""
        return min(self.partition, self.inputs - number * self.partition)


class PartDataset:
    """The files of one call; it pickles, and every process opens them by itself."""

    def __init__(self, target: Path | str) -> None:
        self.target = target
        self._folder = DatasetFolder.at(target)

    # ---------------------------------------------------------------------------------- manifest

    def read_manifest(self) -> Manifest | None:
        """Return the manifest; None where there is none.

        Raises
        ------
        InvalidArgument
            The file is damaged, or of another version.
        OSError
            The directory cannot be read.
        """
        data = self._folder.read_if_exists(_MANIFEST)
        if data is None:
            return None
        try:
            return Manifest(**orjson.loads(data))
        except (ValueError, TypeError):
            raise InvalidArgument(
                f"out: {_MANIFEST} in {format_path(self.target)} is not of this version of "
                "webdata_nb: name another directory"
            ) from None

    def create(self, manifest: Manifest) -> Manifest:
        """Write the manifest, which also shows that files can be written; return the stored one.

        That is another one where another process was faster.

        Raises
        ------
        InvalidArgument
            The directory has files of something else.
        OSError
            The directory cannot be written.
        """
        foreign = sorted(name for name in self._folder.names("*") if _FOREIGN.fullmatch(name))
        if foreign:
            raise InvalidArgument(
                f"out must be a directory without other parts: {format_path(self.target)} "
                f"has {foreign[0]} and no {_MANIFEST}; name another one"
            )
        self._folder.write_exclusive(_MANIFEST, orjson.dumps(asdict(manifest)))
        return self.read_manifest() or manifest

    # ------------------------------------------------------------------------------------- parts

    def numbers(self) -> set[int]:
        """Return the numbers of the parts that exist."""
        matches = map(_PART.fullmatch, self._folder.names("*"))
        return {int(match[1]) for match in matches if match is not None}

    def has_part(self, number: int) -> bool:
        """Return whether a part exists."""
        return self._folder.exists(_part_name(number))

    def write_part(
        self, number: int, table: pa.Table, figures: Mapping[str, Any], run_id: str
    ) -> None:
        """Write a part atomically."""
        data = parquet.encode(table, own={"run_id": run_id, "part": number}, attrs=figures)
        self._folder.write(_part_name(number), bytes(memoryview(data)))

    def read_part(self, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of a part."""
        return parquet.ParquetDocument(self._folder.read(_part_name(number))).read(columns)

    def read_parts(self, numbers: Sequence[int]) -> pa.Table:
        """Return the rows of several parts, in this order."""
        with ThreadPoolExecutor(_THREADS) as threads:
            return pa.concat_tables(threads.map(self.read_part, numbers))

    def figures(self, numbers: set[int]) -> dict[int, dict[str, Any]]:
        """Return the figures of parts: the stored copies, or those of the files."""
        data = self._folder.read_if_exists(_FIGURES) if numbers else None
        copies = {} if data is None else orjson.loads(data)
        found = {number: copies[str(number)] for number in numbers if str(number) in copies}
        missing = numbers - found.keys()
        with ThreadPoolExecutor(_THREADS) as threads:
            found |= dict(zip(missing, threads.map(self.figures_of, missing), strict=True))
        return {number: found[number] for number in sorted(found)}

    def write_figures(self, figures: Mapping[int, Any]) -> None:
        """Store a copy of the figures; without it, a repeated call reads those of each part."""
        with suppress(OSError):
            data = orjson.dumps(dict(figures), option=orjson.OPT_NON_STR_KEYS)
            self._folder.write(_FIGURES, data)

    def figures_of(self, number: int) -> dict[str, Any]:
        """Return the figures of a part, from its file."""
        with self._folder.open(_part_name(number)) as file:
            metadata = pq.read_schema(file).metadata or {}
        figures: dict[str, Any] = orjson.loads(metadata[b"PANDAS_ATTRS"])["webdata"]
        return figures


def _part_name(number: int) -> str:
    return f"part-{number:06d}.parquet"
