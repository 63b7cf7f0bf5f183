"""The files of a dataset: the same behaviour here and at fsspec URLs, and without fsspec."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

from tests import object_store
from webdata_nb.errors import MissingExtra
from webdata_nb.toolkit.frames import storage
from webdata_nb.toolkit.frames.storage import (
    FORMAT,
    CrawlManifest,
    CrawlParts,
    DatasetFolder,
    Manifest,
    PartDataset,
)

MANIFEST = Manifest(FORMAT, "run", "fingerprint", "search", 5, 2)


class RenamingFileSystem(LocalFileSystem):  # type: ignore[misc]
    """A file system that is neither local nor an object store to the package: files are renamed."""

    protocol = "renaming"


class RenamingWithoutExclusiveCreation(RenamingFileSystem):
    """As many file systems, it cannot create a file exclusively."""

    protocol = "overwriting"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite") -> None:
        if mode != "overwrite":
            raise NotImplementedError(mode)
        super().pipe_file(path, value)


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with object_store.running(tmp_path_factory.mktemp("s3") / "log") as url:
        yield url


@pytest.fixture(
    params=[
        "path",
        "file",
        "memory",
        "renaming",
        "overwriting",
        pytest.param("s3", marks=pytest.mark.slow),
    ]
)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | str]:
    kind = request.param
    if kind == "path":
        yield tmp_path / "some folder"
    elif kind == "memory":
        yield f"memory://{tmp_path.name}"
        fsspec.filesystem("memory").store.clear()
    elif kind == "s3":
        yield f"{request.getfixturevalue('bucket')}/{tmp_path.name}"
    else:
        for system in (RenamingFileSystem, RenamingWithoutExclusiveCreation):
            fsspec.register_implementation(system.protocol, system, clobber=True)
        yield f"{kind}://{tmp_path}/parts"


def test_files_are_written_read_listed_and_deleted(target: Path | str) -> None:
    folder = DatasetFolder.at(target)
    assert folder.names("*") == []
    assert folder.read_if_exists("a.bin") is None
    with pytest.raises(FileNotFoundError):
        folder.read("a.bin")
    assert not folder.exists("a.bin")
    for data in (b"one", b"two"):
        folder.write("a.bin", data)
        assert folder.read("a.bin") == data
    folder.write("b.bin", b"three")
    assert folder.exists("b.bin")
    assert sorted(folder.names("*")) == ["a.bin", "b.bin"]  # and no temporary file
    assert folder.names("b*") == ["b.bin"]
    with folder.open("b.bin") as file:
        file.seek(2)
        assert file.read() == b"ree"
    again = pickle.loads(pickle.dumps(folder))
    assert again.target == target
    assert again.read("a.bin") == b"two"
    folder.delete("a.bin")
    folder.delete("a.bin")
    assert folder.names("*") == ["b.bin"]


def test_second_writer_of_exclusive_file_loses(target: Path | str) -> None:
    assert DatasetFolder.at(target).write_exclusive("_manifest.json", b"first")
    assert not DatasetFolder.at(target).write_exclusive("_manifest.json", b"second")
    assert DatasetFolder.at(target).read("_manifest.json") == b"first"
    assert DatasetFolder.at(target).names("*") == ["_manifest.json"]


@pytest.mark.parametrize("kind", ["path", "file"])
def test_one_of_many_writers_wins(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "parts" if kind == "path" else f"{kind}://{tmp_path}/parts"
    with ThreadPoolExecutor(8) as threads:
        for number in range(20):
            name = f"file-{number}"
            texts = [f"writer {writer}".encode() for writer in range(8)]
            won = list(threads.map(DatasetFolder.at(target).write_exclusive, [name] * 8, texts))
            assert won.count(True) == 1
            assert DatasetFolder.at(target).read(name) == texts[won.index(True)]


def test_exclusive_file_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_self: Path, _target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refused)  # as on exFAT, which tests cannot mount
    folder = DatasetFolder.at(tmp_path)
    assert folder.write_exclusive("a", b"first")
    assert not folder.write_exclusive("a", b"second")
    assert folder.read("a") == b"first"
    assert folder.names("*") == ["a"]


def test_parts_of_batches_crawls_and_streams(target: Path | str) -> None:
    table = pa.table({"url": ["a", "b"]})
    parts = PartDataset(target)
    assert parts.create(MANIFEST) == MANIFEST
    assert parts.create(Manifest(FORMAT, "other", "f", "search", 5, 2)) == MANIFEST
    figures = {number: {"counts": {"rows": 2}, "number": number} for number in (0, 2)}
    for number in (2, 0):
        parts.write_part(number, table, figures[number], "run")
    assert parts.numbers() == {0, 2}
    assert parts.has_part(2)
    assert not parts.has_part(1)
    assert parts.figures({0, 2}) == figures
    parts.write_figures({0: figures[0]})  # of the other one, the file is read
    assert parts.figures({0, 2}) == figures
    assert parts.read_parts([0, 2]).num_rows == 4
    crawl = CrawlParts(f"{target}/crawl" if isinstance(target, str) else target / "crawl")
    assert crawl.manifest() is None
    crawl.write_manifest(CrawlManifest("digest", "key"))
    for number in range(2):
        crawl.write(number, table, {})
    assert crawl.count() == 2
    assert crawl.read(["url"]).num_rows == 4
    crawl.clear()
    assert (crawl.manifest(), crawl.is_empty()) == (None, True)
    streamed = f"{target}/stream" if isinstance(target, str) else target / "stream"
    for number in (0, 1, 0):  # the first part of a second loop replaces all
        storage.write_part(streamed, "job 1", number, table, {})
    partition = f"{streamed}/job_id=job%201"
    folder = DatasetFolder.at(partition if isinstance(target, str) else Path(partition))
    assert folder.names("*") == ["part-00000.parquet"]


def test_local_folder_needs_no_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    test_parts_of_batches_crawls_and_streams(tmp_path / "parts")
    with pytest.raises(MissingExtra, match="needs fsspec"):
        DatasetFolder.at("memory://parts")
