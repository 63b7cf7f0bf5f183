"""Stores the parts of a call in a directory or at an fsspec URL, with a manifest.

The directory holds `part-000000.parquet` and so on, one for each partition of the inputs; the
manifest `_manifest.json`, which says to which call they belong; and `_figures.json`, a copy of the
figures of the parts, so that a repeated call need not open each part.
"""

from __future__ import annotations

import re
import secrets
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
from webdata_nb.frames import parquet, remote
from webdata_nb.suggestions import format_value

FORMAT: Final = 1
_MANIFEST: Final = "_manifest.json"
_FIGURES: Final = "_figures.json"
_PART: Final = re.compile(r"part-(\d{6})\.parquet")
_FOREIGN: Final = re.compile(r".*\.parquet|job_id=.*")
_THREADS: Final = 16
# Where a file appears only when it is complete.
_OBJECT_STORES: Final = frozenset(
    {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory", "oss", "r2"}
)


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


class PartDataset:
    """The files of one call; it pickles, and every process opens them by itself."""

    def __init__(self, target: Path | str) -> None:
        self.target = target
        self._system, self._path = remote.file_system(str(target))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.target,)

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
        data = self._read(_MANIFEST)
        if data is None:
            return None
        try:
            return Manifest(**orjson.loads(data))
        except (ValueError, TypeError):
            raise InvalidArgument(
                f"out: {_MANIFEST} in {format_value(str(self.target))} is not of this version of "
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
        foreign = sorted(name for name in self._names() if _FOREIGN.fullmatch(name))
        if foreign:
            raise InvalidArgument(
                f"out must be a directory without other parts: {format_value(str(self.target))} "
                f"has {foreign[0]} and no {_MANIFEST}; name another one"
            )
        self._write(_MANIFEST, orjson.dumps(asdict(manifest)), exclusive=True)
        return self.read_manifest() or manifest

    # ------------------------------------------------------------------------------------- parts

    def numbers(self) -> set[int]:
        """Return the numbers of the parts that exist."""
        matches = map(_PART.fullmatch, self._names())
        return {int(match[1]) for match in matches if match is not None}

    def has_part(self, number: int) -> bool:
        """Return whether a part exists."""
        self._system.invalidate_cache()
        return bool(self._system.exists(self._file(_part_name(number))))

    def write_part(
        self, number: int, table: pa.Table, figures: Mapping[str, Any], run_id: str
    ) -> None:
        """Write a part, which appears whole or not at all."""
        data = parquet.encode(table, own={"run_id": run_id, "part": number}, attrs=figures)
        self._write(_part_name(number), bytes(memoryview(data)))

    def read_part(self, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of a part."""
        data = self._system.cat_file(self._file(_part_name(number)))
        return parquet.ParquetDocument(data).read(columns)

    def read_parts(self, numbers: Sequence[int]) -> pa.Table:
        """Return the rows of several parts, in this order."""
        with ThreadPoolExecutor(_THREADS) as threads:
            return pa.concat_tables(threads.map(self.read_part, numbers))

    def figures(self, numbers: set[int], known: Mapping[int, Any]) -> dict[int, dict[str, Any]]:
        """Return the figures of parts: the known ones, the stored copies, or those of the files."""
        stored = {number: known[number] for number in numbers & known.keys()}
        if missing := numbers - stored.keys():
            data = self._read(_FIGURES)
            copies = {} if data is None else orjson.loads(data)
            stored |= {n: copies[str(n)] for n in missing if str(n) in copies}
        missing = numbers - stored.keys()
        with ThreadPoolExecutor(_THREADS) as threads:
            stored |= dict(zip(missing, threads.map(self._figures_of, missing), strict=True))
        return {number: stored[number] for number in sorted(stored)}

    def write_figures(self, figures: Mapping[int, Any]) -> None:
        """Store a copy of the figures; without it, a repeated call reads those of each part."""
        with suppress(OSError):
            self._write(_FIGURES, orjson.dumps(dict(figures), option=orjson.OPT_NON_STR_KEYS))

    def _figures_of(self, number: int) -> dict[str, Any]:
        with self._system.open(self._file(_part_name(number)), "rb") as file:
            metadata = pq.read_schema(file).metadata or {}
        figures: dict[str, Any] = orjson.loads(metadata[b"PANDAS_ATTRS"])["webdata"]
        return figures

    # ------------------------------------------------------------------------------------- files

    def _file(self, name: str) -> str:
        return f"{self._path.rstrip('/')}/{name}"

    def _names(self) -> list[str]:
        self._system.invalidate_cache()  # a cached listing would miss files of other processes
        try:
            entries = self._system.ls(self._path, detail=False)
        except FileNotFoundError:
            return []
        return [entry.rstrip("/").rpartition("/")[2] for entry in entries]

    def _read(self, name: str) -> bytes | None:
        try:
            data: bytes = self._system.cat_file(self._file(name))
        except FileNotFoundError:
            return None
        return data

    def _write(self, name: str, data: bytes, *, exclusive: bool = False) -> None:
        """Write a file; an `exclusive` one stays as it is where it exists."""
        protocol = self._system.protocol
        protocols = {protocol} if isinstance(protocol, str) else set(protocol)
        if "file" in protocols:
            self._write_local(Path(self._file(name)), data, exclusive=exclusive)
        elif protocols & _OBJECT_STORES:
            with suppress(FileExistsError):
                mode = "create" if exclusive else "overwrite"
                self._system.pipe_file(self._file(name), data, mode=mode)
        elif exclusive and self._system.exists(self._file(name)):
            return
        else:
            temporary = self._file(f".{name}.{secrets.token_hex(4)}{parquet.TEMPORARY}")
            self._system.makedirs(self._path, exist_ok=True)
            self._system.pipe_file(temporary, data)
            self._system.mv(temporary, self._file(name))

    @staticmethod
    def _write_local(path: Path, data: bytes, *, exclusive: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not exclusive:
            parquet.write_atomically(path, data)
            return
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        parquet.write_atomically(draft, data)
        with suppress(FileExistsError):
            path.hardlink_to(draft)
        draft.unlink()


def _part_name(number: int) -> str:
    return f"part-{number:06d}.parquet"
