"""The cache's files: immutable, found by what was asked, and a miss where anything is in doubt."""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.frames.test_rows import CRAWLED
from webdata_nb.toolkit.cache import result_cache
from webdata_nb.toolkit.cache.result_cache import CacheKey, Snapshot
from webdata_nb.toolkit.frames import frame, rows, schemas, storage
from webdata_nb.toolkit.frames.rows import dumps

NOW = datetime(2026, 11, 20, 10, 0, 0, 123456, UTC)
DAY_S = 86_400.0
TABLE = rows.to_table("crawl", [CRAWLED])
ATTRS: dict[str, Any] = {"job_id": "j", "subject": "https://site.test/", "timings": {"job_s": 0.5}}


def cache_key(**params: Any) -> CacheKey:
    return CacheKey.of("crawl", base_url="http://s.test", identity="me", params=params)


KEY = cache_key(url="https://site.test/")


def put(root: Path, at: datetime = NOW, key: CacheKey = KEY) -> Snapshot:
    return result_cache.put(root, key, TABLE, ATTRS, now=at)


def newest(
    root: Path, now: datetime = NOW, ttl_s: float | None = DAY_S, key: CacheKey = KEY
) -> Snapshot | None:
    return result_cache.newest(root, key, now=now, ttl_s=ttl_s)


def test_snapshot_round_trip(tmp_path: Path) -> None:
    written = put(tmp_path)
    found = newest(tmp_path)
    assert found is not None
    assert (found.path, found.at, found.attrs) == (written.path, NOW, ATTRS)
    assert found.table.schema.equals(schemas.SCHEMAS["crawl"], check_metadata=True)
    fresh, cached = frame.build(TABLE, attrs=ATTRS), frame.build(found.table, attrs=found.attrs)
    assert fresh.equals(cached)
    pd.testing.assert_frame_equal(fresh, cached)
    assert fresh.attrs == cached.attrs


def test_file_with_another_order_of_columns_is_a_miss(tmp_path: Path) -> None:
    other = TABLE.select(sorted(TABLE.column_names, reverse=True))
    result_cache.put(tmp_path, KEY, other, ATTRS, now=NOW)
    assert newest(tmp_path) is None


def test_file_layout(tmp_path: Path) -> None:
    path = put(tmp_path).path
    assert path.parent == tmp_path / "v1" / "crawl" / KEY.digest
    assert len(KEY.digest) == 32
    stamp, _, check = path.stem.partition("-")
    assert stamp == "20261120T100000123456Z"
    assert len(check) == 6
    assert (tmp_path / "v1" / ".gitignore").read_text() == "*\n"
    tag = (tmp_path / "v1" / "CACHEDIR.TAG").read_text()
    assert tag.startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_shared_directory_is_not_tagged(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    put(tmp_path)
    assert (tmp_path / ".gitignore").read_text() == "mine\n"
    assert {path.name for path in tmp_path.iterdir()} == {".gitignore", "v1"}


def test_other_programs_read_file_and_receipt(tmp_path: Path) -> None:
    path = put(tmp_path).path
    df = pd.read_parquet(path)
    assert df.attrs == {"webdata": ATTRS}
    assert df["metadata"][0] == dumps(CRAWLED["metadata"])
    assert list(df["links"][0]) == CRAWLED["links"]
    assert pq.read_schema(path).field("metadata").metadata == {b"webdata.type": b"json"}


def test_every_part_changes_the_key() -> None:
    def digest(**changed: Any) -> str:
        parts: dict[str, Any] = {
            "base_url": "http://s.test",
            "identity": "me",
            "params": {"url": "u", "headers": {"X-Key": "1"}},
        }
        return CacheKey.of(changed.pop("op", "crawl"), **parts | changed).digest

    different = {
        digest(),
        digest(op="search"),
        digest(base_url="http://t.test"),
        digest(identity="you"),
        digest(params={"url": "u"}),
        digest(params={"url": "u", "headers": {"X-Key": "2"}}),
        digest(params={"url": "u", "max_pages": 5, "headers": {"X-Key": "1"}}),
    }
    assert len(different) == 7
    assert digest() == digest(base_url="http://s.test/")
    assert digest() == digest(params={"headers": {"X-Key": "1"}, "url": "u"})


def test_newest_snapshot_within_ttl_wins(tmp_path: Path) -> None:
    put(tmp_path, NOW - timedelta(hours=30))
    young = put(tmp_path, NOW - timedelta(hours=2))
    old = put(tmp_path, NOW - timedelta(hours=20))
    assert newest(tmp_path) == young
    young.path.unlink()
    assert newest(tmp_path) == old
    assert newest(tmp_path, ttl_s=3600) is None
    assert newest(tmp_path, ttl_s=0) is None
    old.path.unlink()
    assert newest(tmp_path) is None
    assert newest(tmp_path, ttl_s=None) is not None


def test_file_from_future_is_a_miss(tmp_path: Path) -> None:
    put(tmp_path, NOW + timedelta(hours=1))
    assert newest(tmp_path) is None
    put(tmp_path, NOW + timedelta(seconds=5))
    assert newest(tmp_path) is not None


def test_other_key_is_a_miss(tmp_path: Path) -> None:
    put(tmp_path)
    assert newest(tmp_path, key=cache_key(url="https://other.test/")) is None
    assert newest(tmp_path / "nowhere") is None


@pytest.mark.parametrize("position", [0, 4, 100, -1, -5, -200, -1000])
def test_altered_byte_is_a_miss(tmp_path: Path, position: int) -> None:
    path = put(tmp_path).path
    data = bytearray(path.read_bytes())
    data[position] ^= 0x01
    path.write_bytes(data)
    assert newest(tmp_path) is None


@pytest.mark.parametrize("kept", [0, 1, 100, -1])
def test_truncated_file_falls_back_to_older_one(tmp_path: Path, kept: int) -> None:
    older = put(tmp_path, NOW - timedelta(hours=1))
    path = put(tmp_path).path
    path.write_bytes(path.read_bytes()[:kept])
    assert newest(tmp_path) == older


def test_misplaced_file_is_a_miss(tmp_path: Path) -> None:
    path = put(tmp_path).path
    other = cache_key(url="https://other.test/")
    other.folder(tmp_path).mkdir(parents=True)
    path.rename(other.folder(tmp_path) / path.name)
    assert newest(tmp_path, key=other) is None


def test_file_of_other_schema_is_a_miss(tmp_path: Path) -> None:
    own = {"schema": "crawl/1", "digest": KEY.digest}
    retyped = TABLE.set_column(0, "url", pa.array([5]))
    data = storage.encode(retyped, own=own, attrs=ATTRS)
    folder = KEY.folder(tmp_path)
    folder.mkdir(parents=True)
    check = result_cache._checksum(data)
    storage.write_atomically(folder / f"20261120T100000000000Z-{check}.parquet", data)
    assert newest(tmp_path) is None


def test_foreign_files_are_ignored(tmp_path: Path) -> None:
    path = put(tmp_path).path
    (path.parent / "notes.parquet").write_bytes(b"mine")
    (path.parent / "99990101T000000000000Z-zzzzzz.parquet").mkdir()
    assert newest(tmp_path) is not None
    assert next(found for found, _ in result_cache.all_files(tmp_path)) == path


def test_failed_write_leaves_no_file(tmp_path: Path) -> None:
    target = tmp_path / "there"
    target.mkdir()
    with pytest.raises(OSError, match="there"):
        storage.write_atomically(target, b"data")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_orphaned_temporary_files_are_removed(tmp_path: Path) -> None:
    folder = put(tmp_path).path.parent
    old, young = folder / ".a.parquet.1.tmp", folder / ".b.parquet.2.tmp"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    assert result_cache.sweep(tmp_path) == 1
    assert (old.exists(), young.exists()) == (False, True)
    assert newest(tmp_path) is not None


def test_marker_time(tmp_path: Path) -> None:
    assert result_cache.marker_time(tmp_path, "crawled") is None
    before = datetime.now(UTC) - timedelta(seconds=2)
    result_cache.touch_marker(tmp_path, "crawled")
    made = result_cache.marker_time(tmp_path, "crawled")
    assert made is not None
    assert before < made < before + timedelta(minutes=5)
    assert list(result_cache.all_files(tmp_path)) == []


def test_concurrent_readers_never_see_partial_file(tmp_path: Path) -> None:
    put(tmp_path)

    def write(number: int) -> int:
        put(tmp_path, NOW + timedelta(microseconds=number))
        return 0

    def read(_: int) -> int:
        return int(newest(tmp_path) is None)

    with ThreadPoolExecutor(4) as pool:
        writing = pool.map(write, range(1, 30))
        misses = sum(pool.map(read, range(120)))
        assert sum(writing) == 0
    assert misses == 0


def _write_for_ever(root: str) -> None:
    number = 0
    while True:
        number += 1
        put(Path(root), NOW + timedelta(microseconds=number))


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="kill -9 is POSIX")
def test_killed_writer_leaves_valid_files(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    for _ in range(2):
        writer = spawn.Process(target=_write_for_ever, args=(str(tmp_path),), daemon=True)
        writer.start()
        deadline = time.monotonic() + 60
        while len(list(result_cache.all_files(tmp_path))) < 5 and time.monotonic() < deadline:
            time.sleep(0.01)
        writer.kill()
        writer.join()
        writer.close()
    found = list(result_cache.all_files(tmp_path))
    assert len(found) >= 5
    for path, at in found:
        assert result_cache._read(path, at, KEY) is not None


def put_list(root: Path, count: int, at: datetime = NOW) -> tuple[Path, list[CacheKey]]:
    table = rows.to_table("crawl", [{**CRAWLED, "title": f"page {n}"} for n in range(count)])
    keys = [cache_key(url=f"https://site.test/{n}") for n in range(count)]
    pages = [(key, {**ATTRS, "subject": f"page {n}"}) for n, key in enumerate(keys)]
    return result_cache.put_list(root, pages, table, now=at), keys


def test_pages_of_a_list_share_a_file_and_are_found_each(tmp_path: Path) -> None:
    shared, keys = put_list(tmp_path, 3)
    assert list(tmp_path.rglob("*.parquet")) == [shared]
    with result_cache.lists_read_once():
        found = [newest(tmp_path, key=key) for key in keys]
    for number, page in enumerate(found):
        assert page is not None
        assert (page.path, page.at) == (shared, NOW)
        assert page.table["title"].to_pylist() == [f"page {number}"]
        assert page.attrs == {**ATTRS, "subject": f"page {number}"}
        assert page.table.schema.equals(schemas.SCHEMAS["crawl"], check_metadata=True)
    # A later result of one of them, in a file of its own, replaces that one alone.
    put(tmp_path, NOW + timedelta(seconds=1), keys[1])
    later = newest(tmp_path, NOW + timedelta(seconds=2), key=keys[1])
    assert later is not None
    assert later.path != shared


def test_shared_file_goes_with_its_last_page(tmp_path: Path) -> None:
    shared, keys = put_list(tmp_path, 3)
    other, _ = put_list(tmp_path, 2, NOW + timedelta(seconds=1))
    entries = [path for path, at in result_cache.all_files(tmp_path) if at == NOW]
    assert sum(map(result_cache.size_of, entries)) == pytest.approx(
        shared.stat().st_size + sum(path.stat().st_size for path in entries), abs=3
    )
    assert result_cache.remove(tmp_path, entries[:2]) == 2
    assert shared.is_file()
    assert result_cache.remove(tmp_path, entries) == 1
    assert not shared.exists()
    assert other.is_file()
    assert newest(tmp_path, key=keys[2]) is None


@pytest.mark.parametrize("damage", ["entry", "shared", "gone", "misplaced"])
def test_damaged_page_of_a_list_is_a_miss(tmp_path: Path, damage: str) -> None:
    shared, keys = put_list(tmp_path, 2)
    entry = next(keys[0].folder(tmp_path).iterdir())
    if damage == "entry":
        entry.write_bytes(entry.read_bytes()[:-1])
    elif damage == "shared":
        shared.write_bytes(shared.read_bytes()[:-1])
    elif damage == "gone":
        shared.unlink()
    else:
        next(keys[1].folder(tmp_path).iterdir()).rename(entry.with_name("moved"))
        entry.rename(keys[1].folder(tmp_path) / entry.name)
    assert newest(tmp_path, key=keys[damage == "misplaced"]) is None
