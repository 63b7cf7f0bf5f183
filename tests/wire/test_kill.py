"""kill -9 of the service in the middle of a crawl: nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.service.search.stubs import Result, stubs
from tests.site.document import document
from tests.site.graphs import link_tree
from tests.site.server import Site
from tests.wire.kills import connected, crawl_and_kill, duration, instants, kill, rows_after
from tests.wire.waiting import TIMEOUT_S, processes_on, until
from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.paths import LEASE_HEADER
from webdata_nb.settings import Provider, Settings
from webdata_nb.toolkit import local
from webdata_nb.toolkit.client.client import Client

pytestmark = pytest.mark.slow

CONCURRENCY = 4


@pytest.mark.parametrize("after", [0, 1, 7, 30])
async def test_a_killed_service_finishes_its_crawl(local_settings: Settings, after: int) -> None:
    with Site(seed=after, latency=0.02) as site:
        paths = link_tree(site, depth=3, fanout=4)
        start = {"url": site.at("/tree"), "concurrency": CONCURRENCY, "max_pages": 60}
        async with connected(local_settings) as (client, _):
            job_id = (await client.start_crawl(start)).job_id
            before = await rows_after(client, job_id, after)
            kill(local_settings)
        await until(lambda: not processes_on(local_settings.data_dir))
        async with connected(local_settings) as (client, _):
            ended = await rows_after(client, job_id, 1000)
        assert ended.status == "completed"
        assert [row["url"] for row in ended.data] == [site.at(path) for path in paths[:60]]
        # A row once seen is there for ever, as it was.
        assert ended.data[: len(before.data)] == before.data
        fetched_paths = [hit.path for hit in site.requests if hit.path != "/robots.txt"]
        assert len(fetched_paths) - len(set(fetched_paths)) <= CONCURRENCY


async def test_a_killed_depth_first_crawl_goes_on_in_its_order(local_settings: Settings) -> None:
    with Site(seed=3, latency=0.04) as site:
        # The children of a page have one digit: depth first is the order of the alphabet.
        paths = sorted(link_tree(site, depth=3, fanout=4))
        start = {
            "url": site.at("/tree"), "concurrency": CONCURRENCY, "max_pages": 60,
            "crawl_strategy": "dfs",
        }  # fmt: skip
        job_id, rows = "", list[dict[str, object]]()
        for _ in range(3):
            async with connected(local_settings) as (client, _service):
                job_id = job_id or (await client.start_crawl(start)).job_id
                status = await rows_after(client, job_id, len(rows) + 12)
                assert status.data[: len(rows)] == rows
                rows = status.data
                kill(local_settings)
            await until(lambda: not processes_on(local_settings.data_dir))
        async with connected(local_settings) as (client, _service):
            ended = await rows_after(client, job_id, 1000)
        assert ended.status == "completed"
        assert [row["url"] for row in ended.data] == [site.at(path) for path in paths[:60]]
        assert ended.data[: len(rows)] == rows
        fetched_paths = site.paths
        assert len(fetched_paths) - len(set(fetched_paths)) <= 3 * CONCURRENCY


@pytest.mark.smoke
async def test_rows_of_a_crawl_do_not_depend_on_how_often_it_was_killed(
    local_settings: Settings,
) -> None:
    with Site(seed=1, latency=0.02) as site:
        paths = link_tree(site, depth=3, fanout=3)
        start = {"url": site.at("/tree"), "concurrency": CONCURRENCY}
        job_id, seen = "", 0
        for _ in range(3):
            async with connected(local_settings) as (client, _service):
                job_id = job_id or (await client.start_crawl(start)).job_id
                status = await rows_after(client, job_id, seen + 8)
                seen = len(status.data)
                kill(local_settings)
            await until(lambda: not processes_on(local_settings.data_dir))
        async with connected(local_settings) as (client, _service):
            ended = await rows_after(client, job_id, 1000)
        assert [row["url"] for row in ended.data] == [site.at(path) for path in paths]
        assert ended.receipt is not None
        assert ended.receipt.counts == {"fetched": len(paths)}


@pytest.mark.parametrize("held", ["/more.xml", "/one"])
async def test_a_service_killed_while_it_reads_sitemaps_or_after_has_the_same_seeds(
    local_settings: Settings, held: str
) -> None:
    with Site() as site:
        for path, links in {"/": ["/linked"], "/linked": [], "/one": [], "/two": []}.items():
            site.page(path, document(f"Page {path}", links=links))
        site.robots("Sitemap: /more.xml\n")
        site.page("/more.xml", f"<urlset><url><loc>{site.at('/one')}</loc></url></urlset>")
        site.page("/sitemap.xml", f"<urlset><url><loc>{site.at('/two')}</loc></url></urlset>")
        gate = site.hold(held)
        async with connected(local_settings) as (client, _):
            job_id = (await client.start_crawl({"url": site.url, "sitemap": True})).job_id
            await asyncio.to_thread(site.wait_for, held, timeout=TIMEOUT_S)
            if held == "/one":  # a page is requested before the one before it is stored
                await rows_after(client, job_id, 1)
            kill(local_settings)
        await until(lambda: not processes_on(local_settings.data_dir))
        gate.release()
        if held == "/one":
            # The seeds were stored with the start page: what the site says now is too late.
            site.page("/sitemap.xml", f"<urlset><url><loc>{site.url}never</loc></url></urlset>")
        async with connected(local_settings) as (client, _):
            ended = await rows_after(client, job_id, 1000)
    paths = ["/", "/linked", "/one", "/two"]
    assert [row["url"] for row in ended.data] == [site.at(path) for path in paths]
    assert ended.receipt is not None
    assert ended.receipt.counts == {"fetched": 4}
    assert [len(site.hits(path)) for path in ("/", "/more.xml", "/sitemap.xml")] == (
        [1, 1, 1] if held == "/one" else [2, 2, 1]
    )


async def test_kills_at_random_instants_leave_the_rows_exact(local_settings: Settings) -> None:
    # The short version of `python -m benchmarks.kills service`.
    with Site() as site:
        paths = link_tree(site, depth=2, fanout=14)
        start: dict[str, object] = {"url": site.at("/tree"), "concurrency": 10, "max_pages": 200}
        longest = await duration(local_settings, start)
        for after_s, workers in instants(4, longest, seed=4):
            killed = await crawl_and_kill(
                local_settings, site, start, after_s=after_s, workers=workers
            )
            killed.check([site.at(path) for path in paths[:200]], concurrency=10)


async def test_a_killed_service_keeps_the_ranks_of_its_search(local_settings: Settings) -> None:
    with Site() as site:
        stub = stubs()["searxng"]
        stub.served = [Result(site.at(f"/page/{n}"), f"Page {n}", "") for n in range(1, 8)]
        for number in range(1, 8):
            site.page(f"/page/{number}", f"<title>P</title><main><p>Text {number}.</p></main>")
        gate = site.hold("/page/4")
        searching = replace(
            local_settings,
            engines=dict.fromkeys(ENGINES, ("searxng",)),
            providers={"searxng": Provider(stub.on(site))},
        )
        service = await local.ensure(searching)
        lease = {LEASE_HEADER: service.lease_id}
        async with Client(
            service.base_url, service.token, trust_env=False, headers=lease
        ) as client:
            job_id = (await client.start_search({"query": "q", "num_results": 7})).job_id
            await asyncio.to_thread(site.wait_for, "/page/4", timeout=TIMEOUT_S)
            before = await client.search_status(job_id)
            kill(searching)
        await service.close()
        await until(lambda: not processes_on(searching.data_dir))
        gate.release()
        stub.served.reverse()
        async with connected(searching) as (client, _):
            ended = await client.search_status(job_id)
            async with asyncio.timeout(TIMEOUT_S):
                while not ended.status.terminal:
                    ended = await client.search_status(job_id, wait_s=5)
    assert (ended.status, len(stub.requests)) == ("completed", 1)
    assert [(row["rank"], row["url"], row["id"]) for row in ended.data] == [
        (row["rank"], row["url"], row["id"]) for row in before.data
    ]
    assert [row["rank"] for row in ended.data] == list(range(1, 8))
    assert all(row["scraped"] for row in ended.data)
    assert ended.fallback_chain == before.fallback_chain
