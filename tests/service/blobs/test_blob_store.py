"""Files in a folder and at URLs of fsspec; the tests of files run on each kind of place."""

from __future__ import annotations

import asyncio
import secrets
import stat
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
import pytest
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]

from webdata_nb.service.blobs import (
    THREADS,
    Blob,
    BlobStore,
    LocalFolder,
    checked_name,
    open_blob_store,
)
from webdata_nb.service.creatives.enrich import RETENTION_S, FileStore
from webdata_nb.service.errors import BlobsUnavailable, MissingDriver
from webdata_nb.service.settings import InvalidSetting, blobs_url

PASSWORD = "hunter2-of-the-test"
PLACES = ("default", "file", "memory", "local")


def url_of(place: str, folder: Path) -> str | None:
    """Return the URL of a new place; `local` is a folder through fsspec."""
    if place == "default":
        return None
    if place == "memory":
        return f"memory://{secrets.token_hex(8)}"
    return f"{place}://{folder / 'shared files'}"


@pytest.fixture(params=PLACES)
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BlobStore]:
    """Open an empty place of each kind."""
    async with open_blob_store(url_of(request.param, tmp_path), tmp_path) as opened:
        yield opened


async def test_files_are_replaced_and_read(blobs: BlobStore) -> None:
    assert await blobs.read("a/b") is None
    for data in (b"first", b"second", b""):
        await blobs.write("a/b", data)
        blob = await blobs.read("a/b")
        assert blob is not None
        assert blob.data == data
        assert abs(blob.modified_at - time.time()) < 60


async def test_old_files_of_one_folder_are_deleted(blobs: BlobStore) -> None:
    names = [f"old/{n}/{m}" for n in range(3) for m in range(3)]
    for name in [*names, "other/1"]:
        await blobs.write(name, b"x")
    now = time.time()
    assert await blobs.delete_older("old", before=now - 60) == 0
    assert await blobs.delete_older("old", before=now + 60) == 9
    assert await blobs.delete_older("old", before=now + 60) == 0
    assert await blobs.delete_older("nowhere", before=now + 60) == 0
    assert [await blobs.read(name) for name in names] == [None] * 9
    assert await blobs.read("other/1") is not None


async def test_files_below_a_folder_are_listed_and_deleted(blobs: BlobStore) -> None:
    names = {f"some/{n}/{m}" for n in range(3) for m in range(3)} | {"some/other"}
    for name in [*names, "someone/1", "1"]:
        await blobs.write(name, b"x")
    listed = await blobs.list_folder("some")
    assert sorted(each.name for each in listed) == sorted(names)
    assert all(abs(each.modified_at - time.time()) < 60 for each in listed)
    below = {each.name for each in await blobs.list_folder("some/1")}
    assert below == {"some/1/0", "some/1/1", "some/1/2"}
    assert await blobs.list_folder("nowhere") == []
    for name in ("some/1/1", "some/other", "some/1/1", "nowhere"):
        await blobs.delete(name)
    names -= {"some/1/1", "some/other"}
    assert {each.name for each in await blobs.list_folder("some")} == names
    assert await blobs.read("some/1/1") is None
    assert await blobs.read("someone/1") is not None


def test_files_of_others_are_not_listed_and_drafts_are(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    folder.write("a/b", b"x")
    (tmp_path / "a" / ".nfs0001").write_bytes(b"x")
    draft = tmp_path / "a" / "c-draft-0a1b2c3d"  # of a killed write
    draft.write_bytes(b"half")
    assert {each.name for each in folder.list_folder("a")} == {"a/b", "a/c-draft-0a1b2c3d"}
    folder.delete("a/c-draft-0a1b2c3d")
    assert not draft.exists()


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "a/../b",
        "/etc/passwd",
        "",
        "a//b",
        "a/",
        "a.b",
        "a\\b",
        "a\x00",
        "%2e%2e/x",
        "a" * 501,
    ],
)
async def test_names_cannot_leave_the_folder(blobs: BlobStore, name: str) -> None:
    with pytest.raises(ValueError, match="consists of"):
        checked_name(name)
    for call in (blobs.write(name, b"x"), blobs.delete(name), blobs.list_folder(name)):
        with pytest.raises(BlobsUnavailable):
            await call


async def test_accounts_read_only_their_own_files(blobs: BlobStore) -> None:
    files = FileStore(blobs)
    stored = await files.put("alice", b"a picture")
    assert await files.get("alice", stored["sha256"]) == b"a picture"
    assert await files.get("bob", stored["sha256"]) is None
    assert await files.get("../alice", stored["sha256"]) is None
    for wrong in ("0" * 64, "../x", stored["sha256"].upper(), ""):
        assert await files.get("alice", wrong) is None


async def test_files_expire(blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FileStore(blobs)
    stored = await files.put("alice", b"a picture")
    written_at = time.time()
    assert await files.delete_expired(written_at + RETENTION_S - 60) == 0
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: written_at + RETENTION_S + 60)
        assert await files.get("alice", stored["sha256"]) is None
    assert await files.get("alice", stored["sha256"]) == b"a picture"
    assert await files.delete_expired(written_at + RETENTION_S + 60) == 1


async def test_part_of_a_file_is_not_returned(blobs: BlobStore) -> None:
    files = FileStore(blobs)
    data = secrets.token_bytes(1000)
    sha256 = (await files.put("alice", data))["sha256"]
    [name] = [call for call in _names(blobs) if call.endswith(sha256)]
    await blobs.write(name, data[:500])
    assert await files.get("alice", sha256) is None
    await files.put("alice", data)
    assert await files.get("alice", sha256) == data


def _names(blobs: BlobStore) -> list[str]:
    """Return the names of the files that can be read."""
    backend: Any = blobs._backend
    root = backend._root
    if isinstance(root, Path):
        return [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    return [path.removeprefix(f"{root}/") for path in backend._system.find(root)]


@pytest.mark.parametrize("place", ["file", "memory", "local"])
async def test_two_processes_share_a_place(place: str, tmp_path: Path) -> None:
    url = url_of(place, tmp_path)
    async with (
        open_blob_store(url, tmp_path / "1") as one,
        open_blob_store(url, tmp_path / "2") as two,
    ):
        stored = await FileStore(one).put("alice", b"a picture")
        assert await FileStore(two).get("alice", stored["sha256"]) == b"a picture"
        await asyncio.gather(*(FileStore(each).put("alice", b"x" * 99) for each in (one, two) * 20))


async def test_the_check_of_the_start_leaves_nothing(blobs: BlobStore) -> None:
    await blobs.check()
    assert _names(blobs) == []


def test_files_appear_whole_and_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = LocalFolder(tmp_path)
    folder.write("a/b", b"first")
    path = tmp_path / "a" / "b"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="full"):
        folder.write("a/b", b"second")
    assert folder.read("a/b") == Blob(b"first", path.stat().st_mtime)
    assert list(path.parent.iterdir()) == [path]


class Failing(MemoryFileSystem):  # type: ignore[misc]
    """A file system over a network, with a password in its URL, that fails as it is told."""

    protocol = "failing"
    cachable = False
    on_call: Callable[[], None]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.rpartition("@")[2].strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        return {"password": path}

    def __init__(self, password: str = "") -> None:
        super().__init__()
        self.password = password

    def pipe_file(self, *_: object, **__: object) -> None:
        Failing.on_call()


@pytest.fixture
def failing() -> str:
    fsspec.register_implementation("failing", Failing, clobber=True)
    return f"failing://user:{PASSWORD}@host/folder"


def refuse() -> None:
    raise PermissionError(13, f"refused failing://user:{PASSWORD}@host")


def raise_other() -> None:
    raise RuntimeError(f"no route for {PASSWORD}")


@pytest.mark.parametrize(
    ("on_call", "reason"),
    [
        (refuse, "Permission denied"),
        (raise_other, "RuntimeError"),
        (lambda: None, "cannot be read"),
    ],
)
async def test_start_fails_without_showing_the_password(
    failing: str, on_call: Callable[[], None], reason: str, tmp_path: Path
) -> None:
    Failing.on_call = staticmethod(on_call)
    with pytest.raises(BlobsUnavailable) as raised:
        async with open_blob_store(failing, tmp_path):
            pass
    assert reason in str(raised.value)
    assert "failing://..." in str(raised.value)
    assert PASSWORD not in repr(raised.value)
    assert PASSWORD not in "".join(traceback.format_exception(raised.value))


def wait_for(release: threading.Event) -> None:
    release.wait(60)


class HangingFolder(LocalFolder):
    """A folder of a file system that does not answer until it is released."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.release, self.calls = threading.Event(), 0

    def write(self, name: str, data: bytes) -> None:
        self.calls += 1
        self.release.wait(60)
        super().write(name, data)


async def test_calls_that_do_not_return_are_bounded(tmp_path: Path) -> None:
    folder = HangingFolder(tmp_path)
    blobs = BlobStore(folder, "a folder", call_s=0.2)
    calls = (blobs.write(f"{n}", b"x") for n in range(20))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(each, BlobsUnavailable) for each in outcomes)
    assert folder.calls == THREADS
    folder.release.set()
    patient = BlobStore(folder, "a folder")
    await patient.write("a", b"x")
    async with asyncio.timeout(60):
        await blobs._threads.acquire()
    await blobs.write("b", b"x")


async def test_call_that_does_not_return_has_a_deadline(failing: str, tmp_path: Path) -> None:
    release = threading.Event()
    Failing.on_call = staticmethod(partial(wait_for, release))
    try:
        with pytest.raises(BlobsUnavailable, match="no answer in time"):
            async with open_blob_store(failing, tmp_path, call_s=0.2):
                pass
    finally:
        release.set()


async def test_folder_that_cannot_be_written_fails_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BlobsUnavailable, match="Not a directory"):
        async with open_blob_store(f"file://{tmp_path}/file/folder", tmp_path):
            pass


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("gibberish://x", ["gibberish://"]),
        ("gcs://bucket/x", ["gcs://", "gcsfs"]),
    ],
)
async def test_missing_library_is_named(url: str, words: list[str], tmp_path: Path) -> None:
    with pytest.raises(MissingDriver) as raised:
        async with open_blob_store(url, tmp_path):
            pass
    assert all(word in str(raised.value) for word in words)


async def test_fsspec_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingDriver, match=r"webdata_nb\[blobs\]"):
        async with open_blob_store("s3://bucket", tmp_path):
            pass
    async with open_blob_store(f"file://{tmp_path}/files", tmp_path) as blobs:
        await blobs.write("a", b"x")


@pytest.mark.parametrize(
    "url",
    [
        "files",
        "/srv/files",
        "://x",
        "s3://",
        "file://",
        "file:///",
        "file://srv/files",
        f"simplecache::s3://user:{PASSWORD}@x",
        f"S3!://user:{PASSWORD}@x",
    ],
)
def test_wrong_urls_are_refused_without_showing_them(url: str) -> None:
    with pytest.raises(InvalidSetting) as raised:
        blobs_url(url)
    assert "--blobs (WEBDATA_BLOBS) takes" in str(raised.value)
    assert "file:///srv/webdata-files" in str(raised.value)
    assert PASSWORD not in str(raised.value)


def test_url_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBDATA_BLOBS", "s3://bucket/folder")
    assert blobs_url(None) == "s3://bucket/folder"
    assert blobs_url("memory://x") == "memory://x"
    monkeypatch.delenv("WEBDATA_BLOBS")
    assert blobs_url(None) is None
