"""Files by name, in a folder or at a URL, with a deadline for each call."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Final, Protocol, TypeVar
from urllib.parse import unquote

from webdata_nb.service.errors import BlobsUnavailable, MissingDriver
from webdata_nb.service.runtime.work_threads import run_on_thread

# No dots: a name cannot leave its folder.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*")
_MAX_NAME_CHARS: Final = 500
# No downloaded file is larger; what others put there is not read.
MAX_BLOB_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Blob:
    """The content of a file, and when it was written in Unix seconds."""

    data: bytes
    modified_at: float


@dataclass(frozen=True, slots=True)
class ListedBlob:
    """A file of a listing, and when it was written in Unix seconds."""

    name: str
    modified_at: float


class BlobBackend(Protocol):
    """Stores files by name; its methods block, and raise what the place raises."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file in place of an earlier one."""

    def read(self, name: str) -> Blob | None:
        """Return a file; None if there is none."""

    def delete(self, name: str) -> None:
        """Delete a file, if there is one."""

    def delete_older(self, folder: str, *, before: float) -> int:
        """Delete the files below a folder that were written before; return their number."""

    def list_folder(self, folder: str) -> list[ListedBlob]:
        """Return the files below a folder, those that others put there only if their names fit."""


def is_valid_name(name: str) -> bool:
    """Whether a name of a file or folder cannot be another path."""
    return len(name) <= _MAX_NAME_CHARS and _NAME.fullmatch(name) is not None


def checked_name(name: str) -> str:
    """Return a name of a file or folder; raises `ValueError` if it may be another path.

    Examples
    --------
    >>> checked_name("creatives/0a1b")
    'creatives/0a1b'
    """
    if not is_valid_name(name):
        raise ValueError("a name of a file consists of letters, digits, '_', '-' and '/'")
    return name


class LocalFolder(BlobBackend):
    """A `BlobBackend` in a folder; files are written atomically."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(self, name: str, data: bytes) -> None:
        path = self._path(name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A valid name: a sweep lists and deletes what a kill leaves.
        draft = path.with_name(f"{path.name}-draft-{secrets.token_hex(4)}")
        try:
            with os.fdopen(
                os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
            ) as file:
                file.write(data)
            draft.replace(path)
        except BaseException:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise

    def read(self, name: str) -> Blob | None:
        try:
            with self._path(name).open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_size > MAX_BLOB_BYTES:
                    raise OSError("the file is too large")
                return Blob(file.read(), status.st_mtime)
        except FileNotFoundError:
            return None

    def delete(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def delete_older(self, folder: str, *, before: float) -> int:
        deleted = 0
        for path in _files_below(self._path(folder)):
            with suppress(FileNotFoundError):  # another process deletes as well
                if path.stat().st_mtime < before:
                    path.unlink()
                    deleted += 1
        return deleted

    def list_folder(self, folder: str) -> list[ListedBlob]:
        listed = []
        for path in _files_below(self._path(folder)):
            name = path.relative_to(self._root).as_posix()
            with suppress(FileNotFoundError):  # another process deletes
                if is_valid_name(name):
                    listed.append(ListedBlob(name, path.stat().st_mtime))
        return listed

    def _path(self, name: str) -> Path:
        return self._root / checked_name(name)


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        for name in names:
            yield Path(parent, name)


_LOCK_S: Final = 30.0


class RemoteFolder(BlobBackend):
    """A `BlobBackend` at a URL of fsspec.

    Object stores show a file when it is complete. Elsewhere a reader may see a part of a file that
    is being written.

    Raises
    ------
    MissingDriver
        fsspec, or the library for this kind of URL, is not installed.
    """

    def __init__(self, url: str) -> None:
        scheme = url.partition("://")[0]
        try:
            fsspec = import_module("fsspec")
        except ImportError:
            raise MissingDriver(
                "--blobs (WEBDATA_BLOBS) at a URL other than file:/// needs fsspec: "
                'pip install "webdata_nb[blobs]"'
            ) from None
        try:
            fsspec.get_filesystem_class(scheme)
        except ValueError:
            raise MissingDriver(
                f"--blobs (WEBDATA_BLOBS): fsspec knows no {scheme}:// URLs"
            ) from None
        except ImportError:
            known = import_module("fsspec.registry").known_implementations
            reason = known.get(scheme, {}).get("err", "")
            raise MissingDriver(
                f"--blobs (WEBDATA_BLOBS): {scheme}:// URLs need another library: {reason}"
            ) from None
        self._system, root = fsspec.core.url_to_fs(url)
        self._root = root.rstrip("/")
        self._lock = Lock()

    def write(self, name: str, data: bytes) -> None:
        path = self._path(name)
        with self._one_at_a_time():
            try:
                self._system.pipe_file(path, data)
            except FileNotFoundError:  # file systems need the folder first
                self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
                self._system.pipe_file(path, data)

    def read(self, name: str) -> Blob | None:
        path = self._path(name)
        with self._one_at_a_time():
            self._system.invalidate_cache()  # another process may have written it
            try:
                size = self._system.info(path)["size"]
                if size is not None and size > MAX_BLOB_BYTES:
                    raise OSError("the file is too large")
                return Blob(self._system.cat_file(path), self._modified_at(path))
            except FileNotFoundError:
                return None

    def delete(self, name: str) -> None:
        with self._one_at_a_time(), suppress(FileNotFoundError):
            self._system.rm_file(self._path(name))

    def delete_older(self, folder: str, *, before: float) -> int:
        deleted = 0
        for path in self._paths_below(folder):
            with self._one_at_a_time(), suppress(FileNotFoundError):
                if self._modified_at(path) < before:
                    self._system.rm_file(path)
                    deleted += 1
        return deleted

    def list_folder(self, folder: str) -> list[ListedBlob]:
        listed = []
        for path in self._paths_below(folder):
            name = path.removeprefix(f"{self._root}/")
            with self._one_at_a_time(), suppress(FileNotFoundError):
                if is_valid_name(name):
                    listed.append(ListedBlob(name, self._modified_at(path)))
        return listed

    def _paths_below(self, folder: str) -> Iterator[str]:
        self._system.invalidate_cache()  # another process writes and deletes as well
        for _, _, files in self._system.walk(self._path(folder), detail=True):
            for info in list(files.values()):
                yield str(info["name"])

    def _path(self, name: str) -> str:
        return f"{self._root}/{checked_name(name)}"

    def _modified_at(self, path: str) -> float:
        modified = self._system.modified(path)
        return float((modified if modified.tzinfo else modified.replace(tzinfo=UTC)).timestamp())

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        """Lock file systems that are not made for threads, such as those over FTP."""
        if self._system.async_impl:
            yield
            return
        if not self._lock.acquire(timeout=_LOCK_S):
            raise TimeoutError
        try:
            yield
        finally:
            self._lock.release()


T = TypeVar("T")
THREADS: Final = 4
CALL_S: Final = 30.0
SWEEP_S: Final = 600.0
_CHECK: Final = b"webdata_nb writes, reads and deletes this file at its start"


class BlobStore:
    """Files by name, for any task of one event loop.

    Parameters
    ----------
    backend
        Where the files are.
    place
        What a message calls that place: a URL may have a password.

    Raises
    ------
    BlobsUnavailable
        From every method: the place fails, or does not answer in time.
    """

    def __init__(self, backend: BlobBackend, place: str, *, call_s: float = CALL_S) -> None:
        self._backend, self._place, self._call_s = backend, place, call_s
        self._threads = asyncio.Semaphore(THREADS)

    async def write(self, name: str, data: bytes) -> None:
        """Write a file in place of an earlier one."""
        await self._run("written", partial(self._backend.write, name, data))

    async def read(self, name: str) -> Blob | None:
        """Return a file; None if there is none."""
        return await self._run("read", partial(self._backend.read, name))

    async def delete_older(self, folder: str, *, before: float) -> int:
        """Delete the files below a folder that were written before; return their number."""
        delete = partial(self._backend.delete_older, folder, before=before)
        return await self._run("deleted", delete, deadline_s=SWEEP_S)

    async def delete(self, name: str) -> None:
        """Delete a file, if there is one."""
        await self._run("deleted", partial(self._backend.delete, name))

    async def list_folder(self, folder: str) -> list[ListedBlob]:
        """Return the files below a folder."""
        listing = partial(self._backend.list_folder, folder)
        return await self._run("listed", listing, deadline_s=SWEEP_S)

    async def check(self) -> None:
        """Write, read and delete a small file."""
        name = f"check-{secrets.token_hex(8)}"
        await self.write(name, _CHECK)
        blob = await self.read(name)
        await self.delete(name)
        if blob is None or blob.data != _CHECK:
            raise BlobsUnavailable(f"files at {self._place} cannot be read after they are written")

    async def _run(
        self, action: str, call: Callable[[], T], *, deadline_s: float | None = None
    ) -> T:
        try:
            async with asyncio.timeout(deadline_s or self._call_s):
                await self._threads.acquire()
                running = run_on_thread(call)
                # A thread that does not return keeps its place.
                running.add_done_callback(lambda _: self._threads.release())
                return await asyncio.shield(running)
        except Exception as error:  # noqa: BLE001 - each kind of URL has its own errors
            # The text of a library may show the URL.
            raise BlobsUnavailable(
                f"files at {self._place} cannot be {action}: {_reason(error)}"
            ) from None


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    return type(error).__name__


@asynccontextmanager
async def open_blob_store(
    url: str | None, data_dir: Path, *, call_s: float = CALL_S
) -> AsyncIterator[BlobStore]:
    """Open the files at a URL, or in the data directory, and check that they can be used.

    Raises
    ------
    MissingDriver
        A library for this kind of URL is not installed.
    BlobsUnavailable
        A file cannot be written, read and deleted there.
    """
    if url is None:
        yield BlobStore(LocalFolder(data_dir), str(data_dir), call_s=call_s)
        return
    scheme, _, path = url.partition("://")
    if scheme == "file":
        folder = Path(unquote(path))
        store = BlobStore(LocalFolder(folder), str(folder), call_s=call_s)
    else:
        place = f"{scheme}://..."
        try:
            async with asyncio.timeout(call_s):
                remote = await asyncio.shield(run_on_thread(partial(RemoteFolder, url)))
        except MissingDriver:
            raise
        except Exception as error:  # noqa: BLE001 - each kind of URL has its own errors
            raise BlobsUnavailable(f"{place} cannot be opened: {_reason(error)}") from None
        store = BlobStore(remote, place, call_s=call_s)
    await store.check()
    yield store
