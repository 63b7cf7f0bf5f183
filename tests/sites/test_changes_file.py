"""The file of changes: appended, shared, killed, and never one of something else."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import filelock
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import webdata_nb
from tests.api.test_docstrings import columns
from tests.sites.crawl_model import version, visit
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.frames import frame, storage
from webdata_nb.toolkit.sites.changes_file import CHANGES_SCHEMA, ChangesFile, changes_table
from webdata_nb.toolkit.sites.comparison import KnownSite, compare

CHECKOUT = Path(__file__).resolve().parents[3]


def texts(count: int, number: int) -> list[str]:
    return [f"{page} {number}" for page in range(count)]


def crawl(file: ChangesFile, name: str, number: int, count: int = 3) -> int:
    """Run the crawl with a number, in which each page has another title; return the changes."""
    pages = [version(f"/{name}/{p}", text) for p, text in enumerate(texts(count, number))]
    known, seen = file.known(name), visit(number, *pages)
    if known is None:
        file.commit(name, CHANGES_SCHEMA.empty_table(), KnownSite.of_first(seen))
        return 0
    comparison = compare(known, seen)
    file.commit(name, changes_table(comparison.changes), comparison.known)
    return len(comparison.changes)


def opened(path: Path, *names: str) -> ChangesFile:
    file = ChangesFile(path)
    for name in names:
        file.lock_path(name)
    return file


def test_a_file_collects_changes_with_their_types(tmp_path: Path) -> None:
    file = opened(tmp_path / "changes.parquet", "w")
    file.check()
    assert crawl(file, "w", 1) == 0
    first = pd.read_parquet(file.path)
    assert first.columns.tolist() == CHANGES_SCHEMA.names
    assert str(first["old_at"].dtype) == "datetime64[us, UTC]"
    assert [crawl(file, "w", number) for number in (2, 3)] == [3, 3]
    stored = pd.read_parquet(file.path)
    assert stored["old"].tolist() == [*texts(3, 1), *texts(3, 2)]
    assert stored["new"].tolist() == [*texts(3, 2), *texts(3, 3)]
    assert first.dtypes.equals(stored.dtypes) or len(first) == 0


def test_the_columns_told_are_those_of_the_schema() -> None:
    empty = frame.build(CHANGES_SCHEMA.empty_table())
    documented = {name: dtype for name, dtype in columns(webdata_nb.watch_df) if name}
    assert documented == {name: str(dtype) for name, dtype in empty.dtypes.items()}


def test_without_a_change_the_file_stays_as_it_is(tmp_path: Path) -> None:
    file = opened(tmp_path / "changes.parquet", "w")
    crawl(file, "w", 1)
    before = file.path.stat()
    assert crawl(file, "w", 1) == 0
    after = file.path.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_what_is_known_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = opened(tmp_path / "changes.parquet", "w")
    others: dict[str, tuple[str, str] | str] = {
        "/b": "failed:timeout",
        "/c": ("failed:http_404", "gone"),
        "/d": "duplicate",
    }
    page = version("/a", None, final="/a?x", price="1\n2", name="\N{SNOWMAN}")
    known = KnownSite.of_first(visit(1, page, others=others, whole=False))
    file.commit("w", CHANGES_SCHEMA.empty_table(), known)
    assert file.known("w") == known
    assert known.unread == {"/b": "older", "/c": "awaited", "/d": "copy"}
    assert file.known("other") is None


def test_several_watches_share_a_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "changes.parquet"
    names = ["one", "two", "three"]

    def watch(name: str) -> int:
        file = opened(path, name)
        return sum(crawl(file, name, number) for number in range(6))

    with ThreadPoolExecutor(len(names)) as pool:
        assert list(pool.map(watch, names)) == [15, 15, 15]
    stored = pd.read_parquet(path)
    assert stored["url"].str.split("/").str[1].value_counts().to_dict() == dict.fromkeys(names, 15)
    assert not stored.duplicated(["url", "new"]).any()


def test_a_lock_that_is_not_released_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = opened(tmp_path / "changes.parquet", "w")
    crawl(file, "w", 1)
    before = file.path.read_bytes()
    known = file.known("w")
    assert known is not None
    lock = tmp_path / ".changes.parquet.watch" / "append.lock"
    with (
        filelock.FileLock(lock),
        pytest.raises(TimeoutError, match=r"another process has held .*append\.lock.* for 0\.1 s"),
    ):
        file.commit("w", CHANGES_SCHEMA.empty_table(), known, wait_s=0.1)
    assert file.path.read_bytes() == before
    assert crawl(file, "w", 2) == 3


def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    link = tmp_path / "changes.parquet"
    link.symlink_to(tmp_path / "data" / "real.parquet")
    crawl(opened(link, "w"), "w", 1)
    crawl(opened(tmp_path / "data" / "real.parquet", "w"), "w", 2)
    assert link.is_symlink()
    assert len(pd.read_parquet(link)) == 3


@pytest.mark.parametrize("content", [b"no Parquet", b"", None])
def test_a_file_of_something_else_is_refused_and_kept(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "mine.parquet"
    if content is None:
        pd.DataFrame({"a": [1]}).to_parquet(path)
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    file = ChangesFile(path)
    for use in (file.check, lambda: crawl(opened(path, "w"), "w", 1)):
        with pytest.raises(InvalidArgument, match=r"out (cannot be read as a|must be a new file)"):
            use()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "own",
    [
        [],
        {"kind": "changes/1"},
        {"kind": "changes/2", "states": {}},
        {"kind": "changes/1", "states": {"w": "../w-0123abcd.parquet"}},
        {"kind": "changes/1", "states": {"w": "/etc/w-0123abcd.parquet"}},
        {"kind": "changes/1", "states": {"w": 7}},
    ],
)
def test_a_file_that_names_files_elsewhere_is_refused(tmp_path: Path, own: Any) -> None:
    path = tmp_path / "changes.parquet"
    path.write_bytes(storage.encode(CHANGES_SCHEMA.empty_table(), own=own, attrs={}))
    with pytest.raises(InvalidArgument, match="is something else"):
        ChangesFile(path).check()


def test_a_watch_without_its_state_starts_anew_with_a_warning(tmp_path: Path) -> None:
    file = opened(tmp_path / "changes.parquet", "w")
    crawl(file, "w", 1)
    crawl(file, "w", 2)
    moved = opened(tmp_path / "moved.parquet", "w")
    file.path.rename(moved.path)
    with pytest.warns(UserWarning, match="the watch starts anew"):
        assert crawl(moved, "w", 3) == 0
    assert crawl(moved, "w", 4) == 3
    assert len(pd.read_parquet(moved.path)) == 6


def replace_state(file: ChangesFile, own: Any, **values: Any) -> None:
    """Replace what is known of a site by one page with these values."""
    [state] = file.path.with_name(f".{file.path.name}.watch").glob("w-*.parquet")
    document = storage.ParquetDocument(state.read_bytes())
    [row] = document.read().slice(0, 1).to_pylist()
    table = pa.Table.from_pylist([{**row, **values}], schema=document.schema)
    state.write_bytes(storage.encode(table, own=document.own if own is None else own, attrs={}))


@pytest.mark.parametrize(
    ("own", "values"),
    [
        ([], {}),
        (7, {}),
        ({"kind": "known site/1", "job_id": "j", "at": None, "is_whole": True}, {}),
        (None, {"values": "[]"}),
        (None, {"values": "{"}),
        (None, {"values": None}),
    ],
)
def test_a_damaged_state_starts_the_watch_anew(
    tmp_path: Path, own: Any, values: dict[str, Any]
) -> None:
    file = opened(tmp_path / "changes.parquet", "w")
    crawl(file, "w", 1)
    replace_state(file, own, **values)
    with pytest.warns(UserWarning, match="the watch starts anew"):
        assert crawl(file, "w", 2) == 0
    assert crawl(file, "w", 3) == 3


@pytest.mark.parametrize("metadata", [b"[]", b"7", b"{", b"null"])
@pytest.mark.parametrize("key", [b"webdata", b"PANDAS_ATTRS"])
def test_a_file_with_strange_metadata_is_refused(
    tmp_path: Path, key: bytes, metadata: bytes
) -> None:
    path = tmp_path / "changes.parquet"
    pq.write_table(CHANGES_SCHEMA.empty_table().replace_schema_metadata({key: metadata}), path)
    with pytest.raises(InvalidArgument, match=r"out (cannot be read as a|must be a new file)"):
        ChangesFile(path).check()


# Kills itself before the nth change of a file in the folder, in a fork for each n.
KILLED = """
import os, signal, sys
from pathlib import Path
from tests.sites.test_changes_file import crawl, opened

folder, count = Path(sys.argv[1]), 0

def kill_before(limit):
    def hook(event, arguments):
        global count
        if event in {"open", "os.rename", "os.remove"} and str(folder) in str(arguments[0]):
            count += 1
            if count == limit:
                os.kill(os.getpid(), signal.SIGKILL)
    return hook

limit = 0
while True:
    limit += 1
    path = folder / f"{limit}.parquet"
    crawl(opened(path, "w"), "w", 1)
    crawl(opened(path, "w"), "w", 2)
    child = os.fork()
    if not child:
        sys.addaudithook(kill_before(limit))
        crawl(opened(path, "w"), "w", 3)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
print(limit)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs os.fork")
def test_a_kill_at_any_point_loses_and_repeats_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=CHECKOUT, check=True, timeout=60
    )
    points = int(done.stdout)
    assert points > 5
    committed = set()
    for point in range(1, points + 1):
        file = opened(tmp_path / f"{point}.parquet", "w")
        committed.add(len(pd.read_parquet(file.path)))
        crawl(file, "w", 3)
        assert pd.read_parquet(file.path)["new"].tolist() == [*texts(3, 2), *texts(3, 3)]
        states = list(file.path.with_name(f".{file.path.name}.watch").glob("w-*.parquet"))
        assert len(states) <= 2
        crawl(file, "w", 4)
        assert len(pd.read_parquet(file.path)) == 9
    assert committed == {3, 6}
