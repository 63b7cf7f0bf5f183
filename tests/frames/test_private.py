"""What the cache keeps is for its owner alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from webdata_nb.toolkit.cache import result_cache
from webdata_nb.toolkit.cache.result_cache import CacheKey, PartialListing
from webdata_nb.toolkit.frames import schemas, storage

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
KEY = CacheKey("search", "0" * 32)


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(root: Path) -> dict[str, int]:
    return {
        str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*")
    }


def fill(root: Path) -> None:
    """Write a file of each kind."""
    table = schemas.SCHEMAS["search"].empty_table()
    snapshot = result_cache.put(root, KEY, table, {}, now=datetime.now(UTC))
    storage.write_atomically(snapshot.path.with_name("receipt-x.parquet"), b"", owner_only=True)
    result_cache.write_job_ref(
        root, "http://x", "", result_cache.JobRef("j", "crawl", "s", "d", ())
    )
    result_cache.CancelToken.create(root)
    PartialListing.of(root, KEY).append({"a": 1})
    result_cache.touch_marker(root, "mark")


def test_files_and_folders_are_private(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    fill(root)
    found = modes(tmp_path)
    assert len(found) > 12
    wrong = {
        name: oct(mode)
        for name, mode in found.items()
        if mode != (storage.FOLDER_MODE if (tmp_path / name).is_dir() else storage.FILE_MODE)
    }
    assert wrong == {}


def test_user_file_has_default_mode(tmp_path: Path) -> None:
    storage.write_atomically(tmp_path / "mine.parquet", pa.py_buffer(b"data"))
    assert modes(tmp_path) == {"mine.parquet": 0o644}


def test_parent_folder_of_cache_is_unchanged(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    storage.make_folder(tmp_path / "a" / "b" / "c", tmp_path / "a")
    assert modes(tmp_path) == {"a": 0o700, "a/b": 0o700, "a/b/c": 0o700}
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
