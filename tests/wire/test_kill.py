"""kill -9 of the service in the middle of a crawl: nothing is lost, nothing comes twice."""

from __future__ import annotations

import pytest

from tests.site.graphs import link_tree
from tests.site.server import Site
from tests.wire.kills import connected, crawl_and_kill, duration, instants, kill, rows_after
from tests.wire.waiting import processes_on, until
from webdata_nb.settings import Settings

CONCURRENCY = 4


@pytest.mark.parametrize("after", [0, 1, 7, 30])
async def test_a_killed_service_finishes_its_crawl(chosen: Settings, after: int) -> None:
    with Site(seed=after, latency=0.02) as site:
        paths = link_tree(site, depth=3, fanout=4)
        start = {"url": site.at("/tree"), "concurrency": CONCURRENCY, "max_pages": 60}
        async with connected(chosen) as (client, _):
            job_id = (await client.start_crawl(start)).job_id
            before = await rows_after(client, job_id, after)
            kill(chosen)
        await until(lambda: not processes_on(chosen.data_dir))
        async with connected(chosen) as (client, _):
            ended = await rows_after(client, job_id, 1000)
        assert ended.status == "completed"
        assert [row["url"] for row in ended.data] == [site.at(path) for path in paths[:60]]
        # A row once seen is there for ever, as it was.
        assert ended.data[: len(before.data)] == before.data
        asked = [hit.path for hit in site.requests if hit.path != "/robots.txt"]
        assert len(asked) - len(set(asked)) <= CONCURRENCY


async def test_rows_of_a_crawl_do_not_depend_on_how_often_it_was_killed(
    chosen: Settings,
) -> None:
    with Site(seed=1, latency=0.02) as site:
        paths = link_tree(site, depth=3, fanout=3)
        start = {"url": site.at("/tree"), "concurrency": CONCURRENCY}
        job_id, seen = "", 0
        for _ in range(3):
            async with connected(chosen) as (client, _service):
                job_id = job_id or (await client.start_crawl(start)).job_id
                status = await rows_after(client, job_id, seen + 8)
                seen = len(status.data)
                kill(chosen)
            await until(lambda: not processes_on(chosen.data_dir))
        async with connected(chosen) as (client, _service):
            ended = await rows_after(client, job_id, 1000)
        assert [row["url"] for row in ended.data] == [site.at(path) for path in paths]
        assert ended.receipt is not None
        assert ended.receipt.counts == {"fetched": len(paths)}


async def test_kills_at_random_instants_leave_the_rows_exact(chosen: Settings) -> None:
    # The short version of `python -m benchmarks.kills`.
    with Site() as site:
        paths = link_tree(site, depth=2, fanout=14)
        start: dict[str, object] = {"url": site.at("/tree"), "concurrency": 10, "max_pages": 200}
        longest = await duration(chosen, start)
        for after_s, workers in instants(4, longest, seed=4):
            killed = await crawl_and_kill(chosen, site, start, after_s=after_s, workers=workers)
            killed.check([site.at(path) for path in paths[:200]], concurrency=10)
