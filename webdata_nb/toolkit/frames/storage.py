"""Writes and reads files in folders of this machine and at URLs such as `s3://` with fsspec.

A file appears whole or not at all. Folders of this machine need no fsspec. What the cache writes
is for its owner only.
"""

from __future__ import annotations

import os
import re
import secrets
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from webdata_nb.errors import InvalidArgument, MissingExtra, WebdataError
from webdata_nb.suggestions import format_path
from webdata_nb.toolkit.frames import schemas

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
TEMPORARY: Final = ".tmp"


def make_folder(path: Path, root: Path) -> None:
    """Make a folder and its missing parents up to `root`.

    An existing root keeps its mode, since it may be shared.

    Raises
    ------
    OSError
        A folder cannot be made.
    """
    try:
        path.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        if not path.is_dir():
            raise
    except FileNotFoundError:
        missing = [path, *path.parents]
        for folder in reversed(missing[: missing.index(root) + 1]):
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


@contextmanager
def atomic_file(
    path: Path, *, durable: bool = True, owner_only: bool = False
) -> Iterator[IO[bytes]]:
    """Open a temporary file for the block; sync it to the disk if `durable`, and rename it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    mode = FILE_MODE if owner_only else 0o666  # reduced by the umask
    try:
        with open(temporary, "xb", opener=partial(os.open, mode=mode)) as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_atomically(
    path: Path, data: pa.Buffer | bytes, *, durable: bool = True, owner_only: bool = False
) -> None:
    """Write a file as `atomic_file` does."""
    with atomic_file(path, durable=durable, owner_only=owner_only) as file:
        file.write(data)


_SCHEME_SEPARATOR: Final = "://"


def is_remote(target: object) -> bool:
    """Return whether a target is a URL rather than a path."""
    return isinstance(target, str) and _SCHEME_SEPARATOR in target


def check_url(url: str) -> None:
    """Check that a URL can be written, before anything is sent.

    Raises
    ------
    MissingExtra
        fsspec, or the library for this kind of URL, is not installed.
    InvalidArgument
        fsspec does not support this kind of URL.
    """
    protocol = url.partition(_SCHEME_SEPARATOR)[0]
    try:
        _fsspec().get_filesystem_class(protocol)
    except ValueError:
        raise InvalidArgument(f"out: fsspec does not support {protocol}:// URLs") from None
    except ImportError as error:
        raise MissingExtra(
            f"{protocol}:// URLs need a library that is not installed: {error}"
        ) from None


def write_url(url: str, data: pa.Buffer | bytes, options: Mapping[str, Any] | None = None) -> None:
    """Write a file. Most object stores show it only when it is complete."""
    try:
        with _fsspec().open(url, "wb", **dict(options or {})) as file:
            file.write(memoryview(data))
    except (ValueError, ImportError):
        check_url(url)
        raise


def _fsspec() -> Any:
    try:
        return import_module("fsspec")
    except ImportError:
        raise MissingExtra(
            "writing to a URL needs fsspec: pip install 'webdata_nb[remote]', or name a local file"
        ) from None


_LOCAL: Final = frozenset({"file", "local"})
# Where a file appears only when it is complete.
_OBJECT_STORES: Final = frozenset(
    {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory", "oss", "r2"}
)


@contextmanager
def folder_errors(out: Path | str) -> Iterator[None]:
    """Turn an error of the file system into an `InvalidArgument` that names `out`."""
    try:
        yield
    except WebdataError:
        raise
    except Exception as error:  # noqa: BLE001 - each file system has errors of its own
        raise InvalidArgument(
            f"out: {format_path(out)} cannot be read and written: {type(error).__name__}: {error}"
        ) from None


class DatasetFolder(ABC):
    """The files of one folder, by their names; it pickles, and each process opens it by itself.

    Attributes
    ----------
    target
        The path or URL.
    """

    def __init__(self, target: Path | str) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.target,)

    @staticmethod
    def at(target: Path | str) -> DatasetFolder:
        """Return the folder at a path or URL; nothing is created.

        Raises
        ------
        MissingExtra
            The URL needs fsspec, which is not installed.
        """
        is_local = not is_remote(target) or urlsplit(str(target)).scheme in _LOCAL
        return _LocalDataset(target) if is_local else _RemoteDataset(target)

    @abstractmethod
    def names(self, pattern: str) -> list[str]:
        """Return the names of the files that match a pattern; none where there is no folder."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return a file.

        Raises
        ------
        FileNotFoundError
            There is none of this name.
        """

    @abstractmethod
    def open(self, name: str) -> IO[bytes]:
        """Open a file, of which parts are read."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Return whether a file exists."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write or replace a file."""

    @abstractmethod
    def write_exclusive(self, name: str, data: bytes) -> bool:
        """Write a file unless it exists, and return whether this call wrote it.

        Of several writers at the same time, one writes the file. On a file system without exclusive
        creation, which is neither local nor an object store, a later writer may replace it.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, where it exists."""

    def read_if_exists(self, name: str) -> bytes | None:
        """Return a file; None if there is none of this name."""
        try:
            return self.read(name)
        except FileNotFoundError:
            return None


class _LocalDataset(DatasetFolder):
    """Writes under a temporary name, and renames."""

    def __init__(self, target: Path | str) -> None:
        super().__init__(target)
        is_url = is_remote(target)
        self._path = Path(url2pathname(urlsplit(str(target)).path) if is_url else target)

    def names(self, pattern: str) -> list[str]:
        if not self._path.is_dir():
            return []
        return [path.name for path in self._path.iterdir() if fnmatchcase(path.name, pattern)]

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def open(self, name: str) -> IO[bytes]:
        return (self._path / name).open("rb")

    def exists(self, name: str) -> bool:
        return (self._path / name).exists()

    def write(self, name: str, data: bytes) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path / name, data)

    def write_exclusive(self, name: str, data: bytes) -> bool:
        draft = f".{name}.{secrets.token_hex(4)}"
        self.write(draft, data)
        try:
            (self._path / name).hardlink_to(self._path / draft)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            try:
                with (self._path / name).open("xb") as file:
                    file.write(data)
            except FileExistsError:
                return False
            return True
        finally:
            self.delete(draft)
        return True

    def delete(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)


class _RemoteDataset(DatasetFolder):
    """Writes under a temporary name and renames, except to object stores."""

    def __init__(self, target: Path | str) -> None:
        super().__init__(target)
        self._system, self._path = _fsspec().core.url_to_fs(str(target).rstrip("/"))
        protocol = self._system.protocol
        protocols = {protocol} if isinstance(protocol, str) else set(protocol)
        self._is_object_store = bool(protocols & _OBJECT_STORES)

    def names(self, pattern: str) -> list[str]:
        self._system.invalidate_cache()  # a cached listing would miss files of other processes
        try:
            entries = self._system.ls(self._path, detail=False)
        except FileNotFoundError:
            return []
        names = [str(entry).rstrip("/").rpartition("/")[2] for entry in entries]
        return [name for name in names if fnmatchcase(name, pattern)]

    def read(self, name: str) -> bytes:
        return bytes(self._system.cat_file(self._file(name)))

    def open(self, name: str) -> IO[bytes]:
        file: IO[bytes] = self._system.open(self._file(name), "rb")
        return file

    def exists(self, name: str) -> bool:
        self._system.invalidate_cache()
        return bool(self._system.exists(self._file(name)))

    def write(self, name: str, data: bytes) -> None:
        if self._is_object_store:
            self._system.pipe_file(self._file(name), data)
            return
        self._system.makedirs(self._path, exist_ok=True)
        temporary = self._file(f".{name}.{secrets.token_hex(4)}{TEMPORARY}")
        try:
            self._system.pipe_file(temporary, data)
            self._system.mv(temporary, self._file(name))
        except BaseException:
            with suppress(Exception):
                self._system.rm_file(temporary)
            raise

    def write_exclusive(self, name: str, data: bytes) -> bool:
        if not self._is_object_store:
            self._system.makedirs(self._path, exist_ok=True)
        try:
            self._system.pipe_file(self._file(name), data, mode="create")
        except FileExistsError:
            return False
        except (TypeError, ValueError, NotImplementedError):  # no exclusive creation
            if self.exists(name):
                return False
            self.write(name, data)
        return True

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._system.rm_file(self._file(name))

    def _file(self, name: str) -> str:
        return f"{self._path}/{name}"


# Writes and reads Parquet files with the receipt in their metadata, and datasets of such files.
#
# A dataset is a directory or an fsspec URL. One of a call with many inputs holds
# `part-000000.parquet` and so on, one for each partition of the inputs; the manifest
# `_manifest.json`, which says to which call they belong; and `_figures.json`, a copy of the
# figures of the parts, so that a repeated call need not open each part. One of a long crawl holds
# its rows in their order, with a manifest of its own. One of a batched call is partitioned by job.


# pandas reads this key as `attrs` of the frame, polars and DuckDB show it as metadata.
_ATTRS: Final = b"PANDAS_ATTRS"
_OWN: Final = b"webdata"
_ROWS_PER_GROUP: Final = 1024
_ROWS_PER_GROUP_WITH_IMAGES: Final = 64
# Below this size, threads cost more CPU time than they save.
_MIN_BYTES_FOR_THREADS: Final = 1024 * 1024


def encode(table: pa.Table, *, own: Mapping[str, Any], attrs: Mapping[str, Any]) -> pa.Buffer:
    """Encode `table` as a Parquet file with both mappings as JSON in its metadata."""
    metadata = {_OWN: orjson.dumps(own), _ATTRS: orjson.dumps({"webdata": attrs})}
    sink = pa.BufferOutputStream()
    # For a single row, the set-up of zstd takes longer than everything else.
    is_single = table.num_rows == 1
    images = not is_single and any(
        schemas.kind(field) == schemas.PNG and table[field.name].null_count < table.num_rows
        for field in table.schema
    )
    pq.write_table(
        table.replace_schema_metadata(metadata),
        sink,
        compression="snappy" if is_single else "zstd",
        compression_level=None if is_single else 3,
        write_page_index=True,
        row_group_size=_ROWS_PER_GROUP_WITH_IMAGES if images else _ROWS_PER_GROUP,
    )
    return sink.getvalue()


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
        stored = self._file.schema_arrow
        self.schema: pa.Schema = stored.remove_metadata()
        metadata = stored.metadata or {}
        self.own: dict[str, Any] = _mapping(orjson.loads(metadata.get(_OWN, b"{}")))
        self.attrs: dict[str, Any] = receipt_of(metadata)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the table, or the given columns in their order."""
        wanted = self.schema.names if columns is None else list(columns)
        table = self._file.read(columns=wanted, use_threads=self._large)
        return table.select(wanted).replace_schema_metadata(None)


def receipt_of(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """Return the receipt in the metadata of a Parquet file; empty in a file of something else."""
    attrs = _mapping(orjson.loads((metadata or {}).get(_ATTRS, b"{}")))
    return _mapping(attrs.get("webdata"))


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


FORMAT: Final = 1
_MANIFEST: Final = "_manifest.json"
_FIGURES: Final = "_figures.json"
_INPUT_PART: Final = re.compile(r"part-(\d{6})\.parquet")
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
            return msgspec.json.decode(data, type=Manifest)
        except ValueError:
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
        self._folder.write_exclusive(_MANIFEST, msgspec.json.encode(manifest))
        return self.read_manifest() or manifest

    # ------------------------------------------------------------------------------------- parts

    def numbers(self) -> set[int]:
        """Return the numbers of the parts that exist."""
        matches = map(_INPUT_PART.fullmatch, self._folder.names("*"))
        return {int(match[1]) for match in matches if match is not None}

    def has_part(self, number: int) -> bool:
        """Return whether a part exists."""
        return self._folder.exists(_part_name(number))

    def write_part(
        self, number: int, table: pa.Table, figures: Mapping[str, Any], run_id: str
    ) -> None:
        """Write a part atomically."""
        data = encode(table, own={"run_id": run_id, "part": number}, attrs=figures)
        self._folder.write(_part_name(number), bytes(memoryview(data)))

    def read_part(self, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of a part."""
        return ParquetDocument(self._folder.read(_part_name(number))).read(columns)

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
            return receipt_of(pq.read_schema(file).metadata)


def _part_name(number: int) -> str:
    return f"part-{number:06d}.parquet"


# Readers of datasets ignore files whose names begin so.
CRAWL_MANIFEST: Final = "_webdata_crawl.json"
_CRAWL_PART: Final = "part-{:05d}.parquet"


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
    version
        The form of the folder.
    """

    digest: str
    idempotency_key: str
    job_id: str | None = None
    receipt: dict[str, Any] | None = None
    version: Literal[1] = 1


class CrawlParts:
    """The files of one long crawl: `part-00000.parquet` and on, in the order of the rows."""

    def __init__(self, target: Path | str) -> None:
        self._folder = DatasetFolder.at(target)

    def manifest(self) -> CrawlManifest | None:
        """Return the manifest; None without one, or where another release wrote it."""
        data = self._folder.read_if_exists(CRAWL_MANIFEST)
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=CrawlManifest)
        except msgspec.ValidationError:
            return None

    def write_manifest(self, manifest: CrawlManifest) -> None:
        """Replace the manifest."""
        self._folder.write(CRAWL_MANIFEST, msgspec.json.encode(manifest))

    def is_empty(self) -> bool:
        """Return whether there are no Parquet files."""
        return not self._folder.names("*.parquet")

    def count(self) -> int:
        """Return the number of parts that are there without a gap."""
        names = set(self._folder.names("part-*.parquet"))
        return next(
            number for number in range(len(names) + 1) if _CRAWL_PART.format(number) not in names
        )

    def write(self, number: int, table: pa.Table, attrs: Mapping[str, Any]) -> None:
        """Write one part atomically."""
        data = encode(table, own={}, attrs=attrs)
        self._folder.write(_CRAWL_PART.format(number), bytes(memoryview(data)))

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Return some columns of all parts."""
        files = (self._folder.read(_CRAWL_PART.format(n)) for n in range(self.count()))
        tables = [ParquetDocument(data).read(columns) for data in files]
        if not tables:  # such as of a site that disallows its start page
            schema = schemas.SCHEMAS["crawl"]
            return pa.schema([schema.field(name) for name in columns]).empty_table()
        return pa.concat_tables(tables)

    def clear(self) -> None:
        """Delete the parts and the manifest."""
        for name in (*self._folder.names("part-*.parquet"), *self._folder.names(CRAWL_MANIFEST)):
            self._folder.delete(name)


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
    data = encode(table, own={}, attrs=attrs)
    root = str(target).rstrip("/")
    folder = DatasetFolder.at(f"{root}/{partition}" if is_remote(target) else Path(root, partition))
    for old in folder.names("part-*.parquet") if number == 0 else ():
        folder.delete(old)
    folder.write(name, bytes(memoryview(data)))
