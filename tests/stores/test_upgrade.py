"""A database of the first release, with data in it, opened by this one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from webdata_nb.contract.states import JobStatus
from webdata_nb.service.store.accounts import Accounts
from webdata_nb.service.store.queries import migrations, schema_version
from webdata_nb.service.store.sqlite import SqliteStore

DATA = """
INSERT INTO account VALUES ('a1', 'alice', 1.0);
INSERT INTO api_key VALUES ('k1', 'a1', 'laptop', 'the hash', 1.0, NULL);
INSERT INTO job VALUES ('j1', 'a1', 'crawl', 'completed', 'https://x.test/',
  '{"url": "https://x.test/", "scrape_options": {"headers": {"X-Key": "plain"}}}', '{}',
  2.0, 3.0, 4.0, NULL, NULL, 1, 1, 1, 1, NULL, '{}');
INSERT INTO job VALUES ('j2', 'a1', 'search', 'running', 'q', '{"query": "q"}', '{}',
  5.0, 6.0, NULL, 'a dead worker', 7.0, 1, 0, 0, 0, NULL, '{}');
INSERT INTO entry VALUES ('j1', 0, 0, 'https://x.test/', 1, '{"url": "https://x.test/"}', '{}');
INSERT INTO receipt (job_id, url, outcome) VALUES ('j1', 'https://x.test/', 'fetched');
"""


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """Write the file as the first release did."""
    path = tmp_path / "jobs.sqlite"
    number, script = next(iter(migrations()))
    assert number == 1
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"{script}; {DATA}; PRAGMA user_version = 1;")
    return path


async def test_everything_of_the_first_release_is_still_there(first: Path) -> None:
    async with SqliteStore(first) as store:
        assert await Accounts(store).owner("the hash", now=10.0) == "a1"
        crawl = await store.job("a1", "j1")
        assert (crawl.state, crawl.published) == (JobStatus.COMPLETED, 1)
        assert crawl.request["scrape_options"] == {"headers": {"X-Key": "plain"}}
        rows = await store.pages("a1", "j1", start=0, count=10)
        assert [orjson.loads(row) for row in rows] == [{"url": "https://x.test/"}]
        assert (await store.receipt("j1", examples=1)).counts == {"fetched": 1}
        [(claimed, _)] = await store.claim("a worker", lease_s=15.0, now=10.0)
        assert claimed.id == "j2"
    with closing(sqlite3.connect(first)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (schema_version(),)
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
