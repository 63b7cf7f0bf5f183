"""Faults on the way: every row arrives once, or an error says that some did not."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.api.receipts import SITE
from tests.client.fake import (
    KEY,
    Fault,
    Service,
    reset,
    status,
    truncate,
    truncate_silently,
)
from webdata_nb import connect
from webdata_nb.errors import IncompleteResult
from webdata_nb.toolkit.api import Session
from webdata_nb.toolkit.jobs import sources

FAULTS: dict[str, Callable[[], Fault]] = {
    "500": lambda: status(500),
    "429": lambda: status(429, Retry_After="0"),
    "503": lambda: status(503, Retry_After="0"),
    "reset": lambda: reset,
    "truncated": lambda: truncate,
    "truncated JSON": lambda: truncate_silently,
}


@pytest.fixture
async def faulty() -> AsyncIterator[Service]:
    async with Service().running() as service:
        yield service


@pytest.fixture
async def session(faulty: Service) -> AsyncIterator[Session]:
    async with connect(base_url=faulty.base_url, api_key=KEY) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
async def test_transient_error_on_page_of_rows_loses_no_row(
    faulty: Service, session: Session, fault: str
) -> None:
    async def sometimes(request: Any, handler: Any) -> Any:
        return await handler(request)

    # The third request of status is a page of rows; so are those that follow.
    faulty.on("GET crawl", sometimes, sometimes, FAULTS[fault](), sometimes, FAULTS[fault]())
    df = await session.acrawl_df(SITE, max_pages=250)
    assert df["url"].tolist() == [f"http://site.test/{n}" for n in range(250)]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["500", "reset", "truncated"])
async def test_permanent_error_never_gives_short_frame(
    faulty: Service, session: Session, fault: str
) -> None:
    async def succeed(request: Any, handler: Any) -> Any:
        return await handler(request)

    async def on_page_two(request: Any, handler: Any) -> Any:
        if request.query.get("page") == "2":
            return await FAULTS[fault]()(request, handler)
        return await handler(request)

    faulty.on("GET crawl", succeed, *[on_page_two] * 30)
    with pytest.raises(IncompleteResult) as raised:
        await session.acrawl_df(SITE, max_pages=250)
    assert (raised.value.expected, raised.value.arrived) == (250, 50)
    assert len(raised.value.frame) == 50


async def test_polling_downloads_each_row_once(faulty: Service, session: Session) -> None:
    df = await session.acrawl_df(SITE, max_pages=1000)
    assert len(df) == 1000
    queries = [each.query for each in faulty.requests("GET crawl")]
    assert [query for query in queries if query.get("include_data") == "false"]
    pages = [query["page"] for query in queries if query.get("per_page") == f"{sources.ROWS}"]
    assert pages == [str(page) for page in range(1, 1000 // sources.ROWS + 1)]


WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from webdata_nb.toolkit.cache import result_cache
from webdata_nb.toolkit.frames import rows
question = result_cache.CacheKey.of("crawl", base_url="x", identity="y", params={})
table = rows.to_table("crawl", [{"url": f"u{n}", "markdown": "m" * 2000} for n in range(300)])
print("ready", flush=True)
while True:
    result_cache.put(Path(sys.argv[1]), question, table, {"n": 1}, now=datetime.now(UTC))
    print("put", flush=True)
"""


@pytest.mark.slow
def test_killed_writer_leaves_complete_files(tmp_path: Path) -> None:
    for run in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(2 + run):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    files = list(tmp_path.rglob("*.parquet"))
    assert len(files) >= 3
    assert {pq.read_table(file).num_rows for file in files} == {300}


PLACES = """
import asyncio, hashlib, os, sys, threading
import pandas as pd
from webdata_nb import acrawl_df, connect, crawl_df
URL = "https://site.test/"
connect(base_url=sys.argv[1], api_key=sys.argv[2])

def summary(df):
    return hashlib.sha256(df.to_json().encode()).hexdigest()[:12], str(df.dtypes.to_dict())

def call():
    return summary(crawl_df(URL, max_pages=25, cache=False))

async def inside():
    return call()

async def awaited():
    return summary(await acrawl_df(URL, max_pages=25, cache=False))

def in_thread():
    got = []
    thread = threading.Thread(target=lambda: got.append(call()))
    thread.start(); thread.join()
    return got[0]

def after_fork():
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, repr(call()).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    return eval(os.read(reader, 65536))

def uv():
    import uvloop
    return uvloop.run(inside())

def in_trio():
    import trio
    return trio.run(inside)

def in_loop():
    return asyncio.run(inside())

def in_await():
    return asyncio.run(awaited())

places = {each.__name__: each for each in (call, in_loop, in_await, in_thread, uv, in_trio)}
places["after_fork"] = after_fork
got = {name: place() for name, place in places.items()}
assert len(set(got.values())) == 1, got
print("same", len(got))
"""


@pytest.mark.slow
async def test_same_frame_from_every_calling_context(faulty: Service) -> None:
    command = [sys.executable, "-W", "ignore", "-c", PLACES, faulty.base_url, KEY]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert out.decode().strip() == "same 7", err.decode()
