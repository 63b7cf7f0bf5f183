"""The event stream of a search: `ranked` before pages are fetched, `page` when rows are final."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from tests.service.conftest import Api
from tests.site.server import Site
from webdata_nb.service.routes.results import StreamPosition


@dataclass(frozen=True, slots=True)
class StreamedEvent:
    """One event of a stream."""

    name: str
    id: str | None
    data: dict[str, Any]


async def stream_events(
    api: Api, job_id: str, last_event_id: str | None = None
) -> list[StreamedEvent]:
    headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
    answer = await api.http.get(f"/v1/search/{job_id}/events", headers=headers)
    assert answer.status_code == 200, answer.text
    events = []
    for block in answer.text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[0] != ":")
        if "event" in fields:
            events.append(
                StreamedEvent(fields["event"], fields.get("id"), json.loads(fields["data"]))
            )
    return events


def of_rows(events: list[StreamedEvent]) -> list[StreamedEvent]:
    return [event for event in events if event.name in {"ranked", "page"}]


async def until(api: Api, job_id: str, *, rows: int, completed: int) -> None:
    async with asyncio.timeout(60):
        while True:
            reply = await api.get(f"/v1/search/{job_id}")
            if len(reply["data"]) >= rows and reply["completed_results"] >= completed:
                return
            await asyncio.sleep(0.02)


async def crawled(api: Api, site: Site, pages: int = 4) -> None:
    links = "".join(f'<a href="/{n}">{n}</a>' for n in range(pages))
    site.page("/", f"<title>Home</title>{links}")
    for n in range(pages):
        site.page(f"/{n}", f"<title>Page {n}</title><main><p>Northern lights {n}.</p></main>")
    await api.run_job("crawl", url=site.url)
    site.forget()


async def test_a_result_is_ranked_first_and_a_page_once_its_row_is_final(
    api: Api, site: Site
) -> None:
    await crawled(api, site)
    site.page("/1", "gone", status=410)
    with site.hold("/2"):
        job_id = await api.start_job("search", {"query": "northern lights"})
        stream = asyncio.create_task(stream_events(api, job_id))
        await until(api, job_id, rows=4, completed=3)
        # The stream tells of what is final while another page is on its way.
        await asyncio.sleep(2.0)
    events = of_rows(await stream)
    rows = (await api.get(f"/v1/search/{job_id}"))["data"]
    assert [event.name for event in events] == ["ranked"] * 4 + ["page"] * 4
    for position, event in enumerate(events[:4]):
        url = rows[position]["url"]
        rank = {"job_id": job_id, "position": position, "rank": position + 1, "url": url}
        assert event.data == rank
    final = {event.data["position"]: event.data for event in events[4:]}
    assert [final[n]["success"] for n in range(4)] == [row["success"] for row in rows]
    assert [final[n]["url"] for n in range(4)] == [row["url"] for row in rows]
    assert sum(row["success"] for row in rows) == 3
    assert events[-1].data["url"] == site.at("/2")


async def test_the_stream_goes_on_behind_any_of_its_events(api: Api, site: Site) -> None:
    await crawled(api, site)
    site.page("/3", "gone", status=410)
    job_id = await api.start_job("search", {"query": "northern lights"})
    events = of_rows(await stream_events(api, job_id))
    assert len(events) == 8
    for number, event in enumerate(events, 1):
        again = of_rows(await stream_events(api, job_id, event.id))
        rest = sorted(
            ((each.name, each.data["position"]) for each in events[number:]), reverse=True
        )
        assert sorted(((e.name, e.data["position"]) for e in again), reverse=True) == rest
    assert [event.name for event in of_rows(await stream_events(api, job_id, "4"))] == ["page"] * 4


async def test_without_pages_to_fetch_rows_are_ranked_and_final_at_once(
    api: Api, site: Site
) -> None:
    await crawled(api, site, pages=2)
    job_id = await api.start_job("search", {"query": "northern lights", "formats": []})
    events = of_rows(await stream_events(api, job_id))
    assert [event.name for event in events] == ["ranked", "ranked", "page", "page"]
    assert all(event.data["success"] for event in events[2:])


async def test_rows_of_a_cancelled_search_are_final_as_they_are(api: Api, site: Site) -> None:
    await crawled(api, site, pages=2)
    with site.hold("/0"), site.hold("/1"):
        job_id = await api.start_job("search", {"query": "northern lights"})
        await until(api, job_id, rows=2, completed=0)
        await api.post(f"/v1/jobs/{job_id}/cancel")
        events = await stream_events(api, job_id)
    rows = (await api.get(f"/v1/search/{job_id}"))["data"]
    pages = [event.data for event in events if event.name == "page"]
    assert [(page["url"], page["success"]) for page in pages] == [
        (row["url"], row["success"]) for row in rows
    ]
    assert (events[-1].name, events[-1].data["status"]) == ("done", "cancelled")


async def test_invalid_event_id_is_rejected(api: Api) -> None:
    job_id = await api.start_job("search", {"query": "northern lights"})
    for wrong in ("x", "-1", "-end", "1-", "1-ende", "1.", "1.g", "1.00000000000000001", "1 2"):
        await api.get(f"/v1/search/{job_id}/events", status=422, headers={"Last-Event-ID": wrong})


def test_stream_position_round_trips() -> None:
    place = StreamPosition().announce(0).announce(1).finish(1)
    assert (place.id(), place.is_final(0), place.is_final(1)) == ("2.2", False, True)
    for position in (place, place.end(), StreamPosition().end()):
        assert StreamPosition.parse(position.id()) == position
    for each in (StreamPosition(), StreamPosition(7), place, StreamPosition(50, (1 << 50) - 1)):
        assert StreamPosition.parse(each.id()) == each


async def test_both_events_are_in_the_openapi_document(api: Api) -> None:
    document = (await api.http.get("/openapi.json")).json()
    described = document["paths"]["/v1/search/{job_id}/events"]["get"]["description"]
    assert all(f"`{name}`" in described for name in ("progress", "ranked", "page", "done"))
