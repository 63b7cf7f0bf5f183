"""What a user can do with the cache."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cache.test_snapshots import ATTRS, TABLE
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.cache import management, result_cache
from webdata_nb.toolkit.cache.result_cache import CacheKey
from webdata_nb.toolkit.frames import rows
from webdata_nb.toolkit.frames.schemas import TableName


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEBDATA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def keep(root: Path, op: TableName, age: timedelta) -> Path:
    key = CacheKey.of(op, base_url="http://s.test", identity="me", params={"age": str(age)})
    table = TABLE if op == "crawl" else rows.to_table(op, [{}, {}])
    return result_cache.put(root, key, table, ATTRS, now=datetime.now(UTC) - age).path


def test_unused_cache_is_empty_and_may_not_exist(root: Path) -> None:
    assert management.path() == root
    assert management.size() == 0
    assert management.clear() == 0
    listing = management.ls()
    assert len(listing) == 0
    assert {str(name): str(dtype) for name, dtype in listing.dtypes.items()} == {
        "op": "str",
        "subject": "str",
        "at": "datetime64[us, UTC]",
        "rows": "Int32",
        "bytes": "Int64",
        "file": "str",
    }
    assert not root.exists()


def test_listing_is_newest_first(root: Path) -> None:
    old = keep(root, "search", timedelta(hours=2))
    new = keep(root, "crawl", timedelta(hours=1))
    listing = management.ls()
    assert listing["file"].tolist() == [str(new), str(old)]
    assert listing["op"].tolist() == ["crawl", "search"]
    assert listing["rows"].tolist() == [1, 2]
    assert listing["subject"].tolist() == [ATTRS["subject"]] * 2
    assert "2 results, 0.0 MB in" in listing.attrs["webdata"]["line"]
    assert listing["bytes"].sum() == management.size() == sum(p.stat().st_size for p in (old, new))


def test_damaged_file_is_listed_without_its_metadata(root: Path) -> None:
    path = keep(root, "crawl", timedelta(0))
    path.write_bytes(b"broken")
    listing = management.ls()
    assert listing["rows"].isna().all()
    assert listing["bytes"].tolist() == [6]


def test_clear_by_kind_and_age(root: Path) -> None:
    keep(root, "search", timedelta(hours=2))
    snapshot = keep(root, "search", timedelta(minutes=1))
    crawled = keep(root, "crawl", timedelta(hours=2))
    mine = root / "v1" / "search" / "notes.txt"
    mine.write_text("mine")
    assert management.clear("search", older_than=3600) == 1
    assert sorted(management.ls()["file"]) == sorted([str(snapshot), str(crawled)])
    assert management.clear() == 2
    assert management.size() == 0
    assert mine.read_text() == "mine"
    assert not crawled.parent.exists()


def test_clear_rejects_invalid_arguments(root: Path) -> None:
    path = keep(root, "crawl", timedelta(0))
    with pytest.raises(InvalidArgument, match="search, crawl, creatives"):
        management.clear("jobs")
    with pytest.raises(InvalidArgument, match="older_than"):
        management.clear(older_than=-1)
    assert path.exists()
