"""Every row once or a loud error: pages, cursors, and services that go round in circles."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client import fake
from tests.client.fake import Service, status
from webdata_nb import errors
from webdata_nb.toolkit.client.client import Client
from webdata_nb.toolkit.client.paging import all_jobs, crawl_rows, creative_pages


async def collect_urls(
    client: Client, job_id: str, *, per_page: int = 10, total: int | None = None
) -> tuple[list[str], errors.IncompleteResult | None]:
    urls: list[str] = []
    try:
        async for rows in crawl_rows(client, job_id, per_page=per_page, total=total):
            assert rows
            urls += [row["url"] for row in rows]
    except errors.IncompleteResult as error:
        return urls, error
    return urls, None


def expected(rows: int) -> list[str]:
    return [f"http://site.test/{n}" for n in range(rows)]


@pytest.mark.parametrize(
    ("rows", "pages"), [(0, 1), (1, 1), (9, 1), (10, 1), (11, 2), (20, 2), (95, 10)]
)
async def test_every_row_once_in_order_and_no_page_too_many(
    service: Service, client: Client, rows: int, pages: int
) -> None:
    assert await collect_urls(client, service.job(rows)) == (expected(rows), None)
    assert [each.query["page"] for each in service.seen] == [str(n + 1) for n in range(pages)]


@pytest.mark.quirks("no total_results")
@pytest.mark.parametrize("rows", [0, 7, 20, 25])
async def test_a_service_that_does_not_count_is_read_to_an_empty_page(
    service: Service, client: Client, rows: int
) -> None:
    assert await collect_urls(client, service.job(rows)) == (expected(rows), None)


@pytest.mark.quirks("no page")
async def test_a_service_that_does_not_say_which_page_it_sends(
    service: Service, client: Client
) -> None:
    assert await collect_urls(client, service.job(25)) == (expected(25), None)


@pytest.mark.quirks("page ignored")
async def test_a_service_that_ignores_the_page_is_noticed(service: Service, client: Client) -> None:
    urls, error = await collect_urls(client, service.job(25))
    assert urls == expected(10)
    assert error is not None
    assert (error.expected, error.arrived, error.frame) == (25, 10, None)
    assert "ignores `page`" in str(error)


@pytest.mark.quirks("page ignored", "no page")
async def test_it_is_noticed_by_its_rows_as_well(service: Service, client: Client) -> None:
    urls, error = await collect_urls(client, service.job(25))
    assert urls == expected(10)
    assert error is not None
    assert "page 2 repeats page 1" in str(error)


@pytest.mark.quirks("page ignored", "no page", "no total_results")
async def test_it_is_noticed_without_any_count(service: Service, client: Client) -> None:
    urls, error = await collect_urls(client, service.job(10))
    assert urls == expected(10)
    assert error is not None
    assert error.expected is None


@pytest.mark.quirks("page ignored")
async def test_a_service_that_sends_all_at_once_needs_no_pages(
    service: Service, client: Client
) -> None:
    assert await collect_urls(client, service.job(7)) == (expected(7), None)
    assert len(service.seen) == 1


async def test_fewer_rows_than_counted_are_never_a_silent_end(
    service: Service, client: Client
) -> None:
    urls, error = await collect_urls(client, service.job(25), total=30)
    assert urls == expected(25)
    assert error is not None
    assert (error.expected, error.arrived) == (30, 25)
    assert "page 4 is empty" in str(error)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        status(500, Retry_After="0"),
        status(503, Retry_After="0"),
        status(429, Retry_After="0"),
        fake.reset,
        fake.truncate,
        fake.truncate_silently,
    ],
    ids=["500", "503", "429", "reset", "truncated", "truncated silently"],
)
async def test_trouble_on_any_page_loses_no_row(
    service: Service, client: Client, fault: fake.Fault
) -> None:
    async def pass_on(request: Any, handler: Any) -> Any:
        return await handler(request)

    service.on("GET crawl", fault, pass_on, fault, pass_on, fault)
    assert await collect_urls(client, service.job(30)) == (expected(30), None)


async def test_lasting_trouble_on_a_page_is_raised_not_swallowed(
    service: Service, client: Client
) -> None:
    async def pass_on(request: Any, handler: Any) -> Any:
        return await handler(request)

    service.on("GET crawl", pass_on, *[status(500, Retry_After="0")] * 5)
    with pytest.raises(errors.ServiceFault):
        await collect_urls(client, service.job(30))


async def test_creatives_follow_the_cursor(service: Service, client: Client) -> None:
    body = {"advertiser_id": "AR1", "limit": 1}
    ids = [
        row["creative_id"]
        async for reply in creative_pages(client, body)
        for row in reply.creatives
    ]
    assert ids == ["CR0", "CR1", "CR2"]
    assert [each.body.get("cursor") for each in service.seen] == [None, "1", "2"]


async def test_creatives_stop_at_the_rows_wanted(service: Service, client: Client) -> None:
    pages = [reply async for reply in creative_pages(client, {"advertiser_id": "AR1"}, max_rows=2)]
    assert len(pages) == len(service.seen) == 2
    assert [each.body["limit"] for each in service.seen] == [2, 1]


async def test_creatives_limit_is_never_raised(service: Service, client: Client) -> None:
    body = {"advertiser_id": "AR1", "limit": 1}
    pages = [reply async for reply in creative_pages(client, body, max_rows=50)]
    assert len(pages) == 3
    assert [each.body["limit"] for each in service.seen] == [1, 1, 1]


@pytest.mark.quirks("cursor loop")
async def test_a_repeated_cursor_is_noticed(service: Service, client: Client) -> None:
    pages = creative_pages(client, {"advertiser_id": "AR1"})
    arrived = [await anext(pages) for _ in range(3)]
    with pytest.raises(errors.IncompleteResult, match="repeats a cursor") as caught:
        await anext(pages)
    assert caught.value.arrived == len(arrived) == 3
    assert len(service.seen) <= 4 * len(arrived)  # it began again, but not for ever


async def test_creatives_survive_a_lost_answer(service: Service, client: Client) -> None:
    service.on("POST creatives", fake.lose_answer)
    assert len([1 async for _ in creative_pages(client, {"advertiser_id": "AR1"})]) == 3


async def test_all_jobs(service: Service, client: Client) -> None:
    ids = [service.job() for _ in range(1100)]
    assert [job.job_id for job in await all_jobs(client, newest=2000)] == ids
    assert [job.job_id for job in await all_jobs(client, newest=3)] == ids[:3]
