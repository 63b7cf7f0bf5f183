"""Runs the calls of a place for files on threads, each with a deadline."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote

from webdata_nb.service.blobs.backend import Blob, BlobBackend, ListedBlob
from webdata_nb.service.blobs.folder import LocalFolder
from webdata_nb.service.blobs.remote import RemoteFolder
from webdata_nb.service.errors import BlobsUnavailable, MissingDriver
from webdata_nb.service.runtime.work_threads import run_on_thread

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
        store = BlobStore(await _open_remote(url, place, call_s), place, call_s=call_s)
    await store.check()
    yield store


async def _open_remote(url: str, place: str, call_s: float) -> RemoteFolder:
    try:
        async with asyncio.timeout(call_s):
            return await asyncio.shield(run_on_thread(partial(RemoteFolder, url)))
    except MissingDriver:
        raise
    except Exception as error:  # noqa: BLE001 - each kind of URL has its own errors
        raise BlobsUnavailable(f"{place} cannot be opened: {_reason(error)}") from None
