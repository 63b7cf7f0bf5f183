"""Site crawls: each site is a job of its own, and links to other sites are handed over."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Api, open_service
from tests.service.job_stores import store_of
from tests.service.routes.teams import member
from tests.site.document import document, prose
from tests.site.server import Site
from tests.site.several_sites import SeveralSites, expected_rows, linked_sites
from webdata_nb.contract import limits, paths
from webdata_nb.contract.states import TERMINAL
from webdata_nb.service.crawl import state_record
from webdata_nb.service.store.sql.connection import Transaction
from webdata_nb.service.store.sql.consistency import find_contradictions
from webdata_nb.service.store.sql.store import SqlStore


async def start(api: Api, urls: Sequence[str], **options: Any) -> dict[str, Any]:
    headers = options.pop("headers", {})
    body = {"urls": list(urls), "max_pages": 1000, **options}
    reply = await api.http.post(paths.SITE_CRAWLS, json=body, headers=headers)
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


async def wait_for_state(
    api: Api, started: dict[str, Any], is_reached: Callable[[dict[str, Any]], bool], **options: Any
) -> dict[str, Any]:
    path = paths.fill(paths.SITE_CRAWL, site_crawl_id=started["site_crawl_id"])
    async with asyncio.timeout(200):
        while True:
            status = await api.get(path, **options)
            if is_reached(status):
                return dict(status)
            await asyncio.sleep(0.02)


async def wait_for_end(api: Api, started: dict[str, Any], **options: Any) -> dict[str, Any]:
    return await wait_for_state(api, started, _has_ended, **options)


def _has_ended(status: dict[str, Any]) -> bool:
    return set(status["states"]) <= TERMINAL


def _has_rows(count: int, status: dict[str, Any]) -> bool:
    return _has_ended(status) or sum(job["completed_pages"] for job in status["jobs"]) >= count


def _are_last_parked(status: dict[str, Any]) -> bool:
    return all(job["is_parked"] for job in status["jobs"][2:])


async def rows_of(api: Api, started: dict[str, Any], **options: Any) -> list[list[str]]:
    found = []
    for job in started["jobs"]:
        job_id = job["job_id"]
        status = await api.get(f"/v1/crawl/{job_id}", params={"per_page": 1000}, **options)
        found.append([row["url"] for row in status["data"]])
    return found


def expected(web: SeveralSites, max_pages: int = 1000) -> list[list[str]]:
    return expected_rows(web.links, web.starts, max_pages=max_pages)


@pytest.mark.both_stores
async def test_pages_that_only_other_sites_link_to_are_rows(tmp_path: Path) -> None:
    with linked_sites(3, pages=30, seed=4) as web:
        async with open_service(tmp_path) as api:
            started = await start(api, web.starts)
            assert [job["url"] for job in started["jobs"]] == list(web.starts)
            status = await wait_for_end(api, started)
            rows = await rows_of(api, started)
            alone = [
                row["url"]
                for url in web.starts
                for row in (await api.run_job("crawl", url=url, max_pages=1000))["data"]
            ]
    assert status["states"] == {"completed": 3}
    assert rows == expected(web)
    assert len(set(alone)) < sum(map(len, rows)) - 5
    counts = Counter(url for site in rows for url in site)
    assert set(counts.values()) == {1}


@pytest.mark.slow
@pytest.mark.both_stores
@pytest.mark.parametrize("seed", range(3))
async def test_rows_of_random_sites_with_legs_and_restarts(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LEG_PAGES", 12)
    rng = random.Random(seed)
    count, max_pages = rng.randint(3, 6), rng.choice([9, 25, 1000])
    pages, foreign = rng.randint(20, 50), rng.choice([0.05, 0.2, 0.5])
    with linked_sites(count, pages=pages, seed=seed, foreign=foreign) as web:
        wanted = expected(web, max_pages)
        total = sum(map(len, wanted))
        moments = sorted(rng.sample(range(2, total), 3))
        async with open_service(tmp_path, slots=2) as api:
            started = await start(api, web.starts, max_pages=max_pages)
        for number, moment in enumerate(moments):
            # Of one restart the records are unusable, so that the journals are replayed.
            version = state_record.VERSION + (number == 1)
            with monkeypatch.context() as patch:
                patch.setattr(state_record, "VERSION", version)
                async with open_service(tmp_path, slots=rng.choice([1, 2, 6])) as api:
                    await wait_for_state(api, started, partial(_has_rows, moment))
        async with open_service(tmp_path) as api:
            status = await wait_for_end(api, started)
            rows = await rows_of(api, started)
        async with store_of(tmp_path) as store:
            problems = await problems_of(store)
    assert status["states"] == {"completed": count}
    assert rows == wanted
    # A restart fetches again at most the pages in flight.
    assert len(web.hits()) <= total + len(moments) * 5 * min(count, 6)
    assert problems == []


async def problems_of(store: SqlStore) -> list[str]:
    """Return the contradictions between counters and rows, and between credits and ledger."""

    def find(transaction: Transaction) -> list[str]:
        return [each for found in find_contradictions(transaction) for each in found.problems]

    return await store.database.query(find)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["dfs", "bff"])
async def test_other_strategies_find_the_same_pages(tmp_path: Path, strategy: str) -> None:
    with linked_sites(4, pages=30, seed=11) as web:
        async with open_service(tmp_path) as api:
            first, second = [
                await start(api, web.starts, crawl_strategy=strategy, concurrency=concurrency)
                for concurrency in (1, 8)
            ]
            for each in (first, second):
                await wait_for_end(api, each)
            rows, again = [await rows_of(api, each) for each in (first, second)]
    assert rows == again
    assert list(map(sorted, rows)) == list(map(sorted, expected(web)))


async def test_a_url_that_several_sites_hand_over_is_one(tmp_path: Path) -> None:
    with ExitStack() as stack:
        first, second, third = [stack.enter_context(Site()) for _ in range(3)]
        hidden = third.at("/hidden")
        for number, site in enumerate((first, second)):
            site.page("/", document(f"Start {number}", links=[hidden, third.at("/")]))
        third.page("/", document("Third", links=[first.at("/"), second.at("/back")]))
        third.page("/hidden", document("Hidden", links=[first.at("/found"), hidden]))
        second.page("/back", document("Back", text=prose("back", 50)))
        first.page("/found", document("Found", text=prose("found", 50)))
        urls = [first.at("/"), second.at("/"), third.at("/")]
        async with open_service(tmp_path) as api:
            started = await start(api, urls)
            status = await wait_for_end(api, started)
            rows = await rows_of(api, started)
            receipts = [
                await api.get(f"/v1/crawl/{job['job_id']}/receipt") for job in started["jobs"]
            ]
            third_rows = await api.get(f"/v1/crawl/{started['jobs'][2]['job_id']}")
    assert rows == [
        [urls[0], first.at("/found")],
        [urls[1], second.at("/back")],
        [urls[2], hidden],
    ]
    assert (len(third.hits("/hidden")), len(third.hits("/"))) == (1, 1)
    # Every URL that was handed over, also those that their crawl had found itself.
    assert status["handed_over"] == 5
    outcomes = [
        {entry["url"]: (entry["outcome"], entry["detail"]) for entry in receipt["data"]}
        for receipt in receipts
    ]
    assert outcomes[0][hidden] == outcomes[1][hidden] == ("handed_over", urls[2])
    assert outcomes[2][hidden] == ("fetched", "")
    assert [row["depth"] for row in third_rows["data"]] == [0, 1]


@pytest.mark.both_stores
async def test_a_site_that_fails_or_whose_budget_is_used_up_holds_up_no_other(
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        sites = [stack.enter_context(Site()) for _ in range(3)]
        refusing = sites[1]
        refusing.robots("User-agent: *\nDisallow: /")
        large = sites[2]
        for site in (sites[0], large):
            links = [other.at(path) for other in sites for path in ("/", "/only")]
            links += [f"/{number}" for number in range(6)] if site is large else []
            site.page("/", document(f"Start {site.port}", links=links))
            site.page("/only", document(f"Only {site.port}", text=prose(str(site.port), 50)))
        for number in range(6):
            large.page(f"/{number}", document(str(number), text=prose(f"n{number}", 50)))
        async with open_service(tmp_path) as api:
            started = await start(api, [site.at("/") for site in sites], max_pages=4)
            status = await wait_for_end(api, started)
            rows = await rows_of(api, started)
    assert [job["status"] for job in status["jobs"]] == ["completed", "failed", "completed"]
    assert "robots" in status["jobs"][1]["error"]
    assert rows[0] == [sites[0].at("/"), sites[0].at("/only")]
    assert rows[1] == []
    assert rows[2] == [large.at("/"), large.at("/only"), large.at("/0"), large.at("/1")]


async def test_a_start_page_that_redirects_to_another_site_of_the_call(tmp_path: Path) -> None:
    with Site() as old, Site() as new:
        old.redirect("/", new.at("/home"))
        new.page("/", document("New", links=[old.at("/moved"), old.at("/own")]))
        new.page("/home", document("Home", links=["/deep"], text=prose("home", 50)))
        new.page("/deep", document("Deep", text=prose("deep", 50)))
        old.redirect("/moved", new.at("/target"))
        new.page("/target", document("Target", text=prose("target", 50)))
        old.page("/own", document("Own", text=prose("own", 50)))
        async with open_service(tmp_path) as api:
            started = await start(api, [old.at("/"), new.at("/")])
            await wait_for_end(api, started)
            rows = await rows_of(api, started)
            receipt = await api.get(f"/v1/crawl/{started['jobs'][0]['job_id']}/receipt")
    assert rows == [
        [old.at("/own")],
        [new.at("/"), new.at("/home"), new.at("/deep"), new.at("/target")],
    ]
    outcomes = {entry["url"]: entry["outcome"] for entry in receipt["data"]}
    assert (outcomes[old.at("/")], outcomes[new.at("/home")]) == ("redirect", "handed_over")
    assert (outcomes[old.at("/moved")], outcomes[new.at("/target")]) == ("scope", "handed_over")


@pytest.mark.parametrize("external", [False, True])
async def test_external_links_leave_the_sites_of_the_call_to_their_crawls(
    tmp_path: Path, external: bool
) -> None:
    with Site() as first, Site() as second, Site() as outside:
        first.page("/", document("First", links=[second.at("/a"), outside.at("/b")]))
        second.page("/", document("Second", text=prose("second", 50)))
        second.page("/a", document("A", text=prose("a", 50)))
        outside.page("/b", document("B", text=prose("b", 50)))
        async with open_service(tmp_path) as api:
            started = await start(
                api, [first.at("/"), second.at("/")], allow_external_links=external
            )
            await wait_for_end(api, started)
            rows = await rows_of(api, started)
    assert rows == [
        [first.at("/"), *([outside.at("/b")] if external else [])],
        [second.at("/"), second.at("/a")],
    ]


@pytest.mark.both_stores
async def test_cancel_of_one_and_of_all(tmp_path: Path) -> None:
    mine, other = await member(tmp_path, "alice", monthly=9000), await member(tmp_path, "bob")
    with linked_sites(4, pages=24, seed=3, foreign=0.4) as web:
        held = [web.sites[number].hold("/p1") for number in (0, 1)]
        async with open_service(tmp_path, "team", networks=("127.0.0.0/8",)) as api:
            started = await start(api, web.starts, headers=mine)
            path = paths.fill(paths.SITE_CRAWL, site_crawl_id=started["site_crawl_id"])
            await wait_for_state(api, started, _are_last_parked, headers=mine)
            for each in ("", "/cancel"):
                method = "POST" if each else "GET"
                reply = await api.http.request(method, path + each, headers=other)
                assert reply.status_code == 404
            usage = await api.get("/v1/usage", headers=mine)
            assert usage["active"] == 4
            # The others have nothing to wait for but the first two.
            first = started["jobs"][0]["job_id"]
            await api.post(f"/v1/jobs/{first}/cancel", headers=mine)
            parked = started["jobs"][3]["job_id"]
            await api.post(f"/v1/jobs/{parked}/cancel", headers=mine)
            held[0].release()
            held[1].release()
            status = await wait_for_end(api, started, headers=mine)
            assert [job["status"] for job in status["jobs"]] == [
                "cancelled", "completed", "completed", "cancelled",
            ]  # fmt: skip
            cancelled = await api.post(path + "/cancel", headers=mine)
            assert cancelled["cancelled"] == [first, parked]
            with web.sites[2].hold("/p1"):
                second = await start(api, web.starts, headers=mine)
                path = paths.fill(paths.SITE_CRAWL, site_crawl_id=second["site_crawl_id"])
                cancelled = await api.post(path + "/cancel", headers=mine)
            assert (await api.get(path, headers=mine))["states"] == {"cancelled": 4}
            assert len(cancelled["cancelled"]) == 4
            rows = await rows_of(api, second, headers=mine)
            usage = await api.get("/v1/usage", headers=mine)
            rows += await rows_of(api, started, headers=mine)
        async with store_of(tmp_path) as store:
            assert await problems_of(store) == []
    assert (usage["used"], usage["reserved"], usage["active"]) == (sum(map(len, rows)), 0, 0)


async def test_all_jobs_start_or_none(tmp_path: Path) -> None:
    poor = await member(tmp_path, "alice", monthly=250)
    busy = await member(tmp_path, "bob", concurrency=3)
    urls = [f"http://127.0.0.1:{port}/" for port in (65533, 65534, 65535)]
    body = {"urls": urls, "max_pages": 100}
    async with open_service(tmp_path, "team", networks=("127.0.0.0/8",)) as api:
        reply = await api.http.post(paths.SITE_CRAWLS, json=body, headers=poor)
        assert (reply.status_code, reply.json()["code"]) == (429, "quota")
        assert "may cost 300 credits and 250 are left; 0 of" in reply.json()["detail"]
        assert (await api.get(paths.JOBS, headers=poor))["jobs"] == []
        usage = await api.get("/v1/usage", headers=poor)
        assert (usage["reserved"], usage["monthly_left"], usage["active"]) == (0, 250, 0)
        with Site() as site, site.hold("/"):
            job_id = await api.start_job("crawl", {"url": site.at("/")}, headers=busy)
            reply = await api.http.post(paths.SITE_CRAWLS, json=body, headers=busy)
            assert (reply.status_code, reply.json()["code"]) == (429, "concurrency")
            assert "1 active of 3" in reply.json()["detail"]
            await api.post(f"/v1/jobs/{job_id}/cancel", headers=busy)
        more = {**body, "urls": [*urls, "http://127.0.0.1:65532/"]}
        reply = await api.http.post(paths.SITE_CRAWLS, json=more, headers=busy)
        assert reply.status_code == 422
        assert "has 4 sites, and the plan of the account allows 3 jobs" in reply.text
        key = {**busy, paths.IDEMPOTENCY_KEY: "one"}
        first = await api.post(paths.SITE_CRAWLS, body, headers=key)
        assert await api.post(paths.SITE_CRAWLS, body, headers=key) == first
        reply = await api.http.post(paths.SITE_CRAWLS, json={**body, "max_pages": 7}, headers=key)
        assert reply.status_code == 409
        assert len((await api.get(paths.JOBS, headers=busy))["jobs"]) == 4


async def test_refused_starts(api: Api) -> None:
    one, two = "http://a.invalid/", "http://b.invalid/"
    for body, problem in [
        ({"max_pages": 5}, "urls"),
        ({"urls": [one, two], "max_pages": 0}, "max_pages"),
        ({"urls": [one], "max_pages": 5}, "must be a list of 2 to 100 URLs"),
        ({"urls": [one] * 101, "max_pages": 5}, "must be a list of 2 to 100 URLs"),
        ({"urls": one, "max_pages": 5}, "urls"),
        ({"urls": [one, "ftp://x/"], "max_pages": 5}, "absolute http"),
        ({"urls": [one, two], "url": one, "max_pages": 5}, "url"),
        ({"urls": [one, two], "max_pages": 100_001}, "from 1 to 100000"),
        (
            {"urls": [two, one, "https://www.A.invalid:443/x"], "max_pages": 5},
            "entries 1 and 2 are of one site",
        ),
        ({"urls": [two, "http://127.0.0.1:1/"], "max_pages": 5, "max_depth": 0}, "max_depth"),
        (
            {"urls": [one, two], "max_pages": 5, "scrape_options": {"include_tags": ["a["]}},
            "include_tags",
        ),
    ]:
        reply = await api.http.post(paths.SITE_CRAWLS, json=body)
        assert reply.status_code == 422, body
        assert problem in reply.text, (body, reply.text)
    assert (await api.get(paths.JOBS))["jobs"] == []
    unknown = paths.fill(paths.SITE_CRAWL, site_crawl_id="nothing")
    await api.get(unknown, status=404)
