"""Following a job to its end: stream, polls, outages, deadlines and cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from tests.client import fake
from tests.client.fake import BREAK, KEY, Service, status
from webdata_nb import errors
from webdata_nb.contract.events import Done, Progress
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.contract.replies import CrawlStatus
from webdata_nb.toolkit.client import job_wait, transport
from webdata_nb.toolkit.client.client import Client
from webdata_nb.toolkit.client.job_wait import PollPacing, poll_after, wait


def event(name: str, number: int, **data: Any) -> bytes:
    text = orjson.dumps(data).decode()
    return f"id: {number}\nevent: {name}\ndata: {text}\n\n".encode()


def progress(job_id: str, completed: int) -> bytes:
    data = {"job_id": job_id, "type": "crawl", "status": "running", "completed": completed}
    return event("progress", completed, **data, total=3)


def done(job_id: str, outcome: str = "completed") -> bytes:
    return event("done", 99, job_id=job_id, status=outcome)


class Listener(list[Progress]):
    """Collects what is reported, and lets a test wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.reported = asyncio.Event()

    def __call__(self, step: Progress) -> None:
        self.append(step)
        self.reported.set()

    def counts(self) -> list[int]:
        return [each.completed for each in self]


# ------------------------------------------------------------------------------------------ stream


async def test_stream_reports_progress_and_end(service: Service, client: Client) -> None:
    job_id, listener = service.job(), Listener()
    page = event("page", 1, job_id=job_id, position=0, url="u", success=True)
    service.events.extend([progress(job_id, 1), page, b": idle\n\n", progress(job_id, 2)])
    service.events.append(done(job_id, "failed"))
    assert (await wait(client, "crawl", job_id, report=listener)).status is JobStatus.FAILED
    assert listener.counts() == [1, 2]
    assert [each.route for each in service.seen] == ["GET events"]


async def test_broken_stream_resumes(service: Service, client: Client) -> None:
    job_id, listener = service.job(), Listener()
    service.events.extend([progress(job_id, 1), BREAK, progress(job_id, 2), BREAK, done(job_id)])
    assert (await wait(client, "crawl", job_id, report=listener)).status is JobStatus.COMPLETED
    assert listener.counts() == [1, 2]
    opened = [each.headers.get("Last-Event-ID") for each in service.requests("GET events")]
    assert opened == [None, "1", "2"]


async def test_a_stream_with_nothing_more_to_send_is_not_opened_again(
    service: Service, client: Client
) -> None:
    """A service may answer 204 to the id of the last row, also where `done` was lost."""
    job_id, listener = service.job(3), Listener()
    service.on("GET events", status(204))
    assert (await wait(client, "crawl", job_id, report=listener)).status is JobStatus.COMPLETED
    assert [each.route for each in service.seen] == ["GET events", "GET crawl"]
    assert client.offers_events


async def test_the_events_of_a_job_end_with_done_after_204(
    service: Service, client: Client
) -> None:
    service.on("GET events", status(204))
    job_id = service.job(3)
    events = [each async for each in job_wait.events(client, "crawl", job_id)]
    assert [type(each) for each in events] == [Progress, Done]


async def test_unstable_stream_falls_back_to_polling(service: Service, client: Client) -> None:
    job_id, listener = service.job(3), Listener()
    assert (await wait(client, "crawl", job_id, report=listener)).status is JobStatus.COMPLETED
    assert len(service.requests("GET events")) == transport.REOPENED + 1
    assert listener.counts() == [3]


async def test_the_events_of_a_job_survive_a_broken_stream_and_an_outage(
    service: Service, client: Client
) -> None:
    job_id = service.job(3)
    service.events.extend([progress(job_id, 1), *[BREAK] * (transport.REOPENED + 1)])
    service.on("GET crawl", *[status(500, Retry_After="0")] * 6)
    events = [each async for each in job_wait.events(client, "crawl", job_id)]
    assert [getattr(each, "completed", None) for each in events] == [1, 3, None]
    assert isinstance(events[-1], Done)


@pytest.mark.parametrize("code", [404, 405, 406, 501])
async def test_service_without_stream_is_polled_from_then_on(
    service: Service, client: Client, code: int
) -> None:
    service.on("GET events", *[status(code)] * 2)
    for _ in range(2):
        job_id, listener = service.job(3, "running", "completed"), Listener()
        assert (await wait(client, "crawl", job_id, report=listener)).status is JobStatus.COMPLETED
        assert listener[-1].status is JobStatus.COMPLETED
    assert len(service.requests("GET events")) == 1


@pytest.mark.parametrize(
    "answer",
    [
        fake.text(b"<html>", content_type="text/html"),
        fake.text(b"event: done\ndata: {}\n\n", content_type="text/event-stream"),
        status(500, Retry_After="301"),
    ],
    ids=["no stream", "breaks the contract", "fails"],
)
async def test_invalid_stream_falls_back_to_polling(
    service: Service, client: Client, answer: fake.Fault
) -> None:
    service.on("GET events", answer)
    assert (
        await wait(client, "search", service.job(kind="search"), report=Listener())
    ).status == "completed"


async def test_wait_for_unknown_job_raises_not_found(client: Client) -> None:
    with pytest.raises(errors.NotFound) as caught:
        await wait(client, "crawl", "nobody", report=Listener())
    assert "attach" in caught.value.__notes__[0]
    assert client.offers_events


# ------------------------------------------------------------------------------------------- polls


@pytest.mark.quirks("no events")
async def test_polls_request_no_rows(service: Service, client: Client) -> None:
    job_id = service.job(1000, "started", "pending", "running", "completed")
    listener = Listener()
    assert (await wait(client, "crawl", job_id, report=listener)).status is JobStatus.COMPLETED
    polls = service.requests("GET crawl")
    assert len(polls) >= 4
    assert {each.query["include_data"] for each in polls} == {"false"}
    last = listener[-1]
    assert (last.job_id, last.type, last.completed, last.total) == (job_id, "crawl", 1000, 1000)


@pytest.mark.quirks("no events")
async def test_search_polls_request_no_rows(service: Service, client: Client) -> None:
    job_id = service.job(5, "running", "completed", kind="search")
    listener = Listener()
    await wait(client, "search", job_id, report=listener)
    assert listener.counts() == [0] * (len(listener) - 1) + [5]
    assert {each.query["include_data"] for each in service.requests("GET search")} == {"false"}


@pytest.mark.quirks("no events")
async def test_failures_by_kind_come_from_receipt(service: Service, client: Client) -> None:
    receipt = {"counts": {"fetched": 5, "failed:timeout": 2, "robots": 1}}
    job_id, listener = service.job(), Listener()
    body = {"job_id": job_id, "status": "completed", "receipt": receipt, "time_taken": 7.5}
    service.on("GET crawl", status(200, body), status(200, body))
    await wait(client, "crawl", job_id, report=listener)
    assert (listener[-1].failed, listener[-1].elapsed) == ({"timeout": 2}, 7.5)


@pytest.mark.slow
@pytest.mark.quirks("no events")
async def test_outage_is_waited_out(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = service.job(1, "running", "completed")
    client.offers_events = False
    outage = [status(500, Retry_After="0")] * 12
    service.on("GET crawl", *outage)
    assert (await wait(client, "crawl", job_id, report=Listener())).status is JobStatus.COMPLETED
    monkeypatch.setattr(job_wait, "OUTAGE_S", 0.0)
    service.on("GET crawl", *outage)
    with pytest.raises(errors.ServiceFault) as caught:
        await wait(client, "crawl", job_id, report=Listener())
    assert job_id in caught.value.__notes__[0]


def test_poll_interval_adapts_to_job_length() -> None:
    assert [poll_after(s) for s in (0, 0.5, 1, 10, 49, 50, 3600)] == [0.1, 0.1, 0.1, 1, 4.9, 5, 5]
    elapsed, polls = 0.0, 0
    while elapsed < 600:
        elapsed += poll_after(elapsed)
        polls += 1
    assert polls < 200


def rows_sent(pacing: PollPacing, end_s: float, *, page: int = 1000, total: bool = True) -> float:
    """Simulate a crawl of 1,000 rows at an even rate; return how often its rows were sent.

    Each status reply has the rows so far, up to a page.
    """
    now_s = shares = 0.0
    while now_s < end_s:
        rows = int(1000 * now_s / end_s)
        shares += min(rows, page) / 1000
        reply = CrawlStatus.model_validate(
            {
                "job_id": "j",
                "status": "running",
                "completed_pages": rows,
                "data": [{}] * min(rows, page),
                **({"total_pages": 1000} if total else {}),
            }
        )
        pacing.note(now_s, reply)
        now_s += pacing.pause_s(now_s)
    if total:
        assert now_s < 1.2 * end_s
    return shares + min(1000, page) / 1000


@pytest.mark.parametrize("end_s", [5, 10, 30, 45, 60])
def test_rows_in_status_replies_are_sent_few_times(end_s: float) -> None:
    assert rows_sent(PollPacing(), end_s) <= 1.05
    assert rows_sent(PollPacing(), end_s, page=20) <= 0.1


@pytest.mark.parametrize("end_s", [5, 30, 300, 3600])
def test_a_wait_for_rows_never_more_than_doubles(end_s: float) -> None:
    # Above a minute, the end may come earlier than the service says.
    assert rows_sent(PollPacing(), max(end_s, 300)) < 2.6
    if end_s <= 60:
        assert rows_sent(PollPacing(), end_s, total=False) < 3


# --------------------------------------------------------------------------------- ends and cancel


@pytest.mark.quirks("no events")
async def test_deadline_leaves_job_running(service: Service, client: Client) -> None:
    job_id = service.job(1, *["running"] * 1000)
    with pytest.raises(errors.JobTimeout) as caught:
        await wait(client, "crawl", job_id, report=Listener(), deadline_s=0.2)
    assert (caught.value.job_id, caught.value.deadline_s) == (job_id, 0.2)
    assert service.jobs[job_id].status == "running"
    assert not service.requests("POST cancel")


@pytest.mark.parametrize("quirk", ["no events", ""])
async def test_cancelled_wait_cancels_job(quirk: str) -> None:
    async with Service(quirk).running() as service, Client(service.base_url, KEY) as client:
        job_id, listener = service.job(1, *["running"] * 1000), Listener()
        gate = fake.Gate()
        if not quirk:
            service.on("GET events", gate)
        task = asyncio.create_task(wait(client, "crawl", job_id, report=listener))
        await (listener.reported if quirk else gate.reached).wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert service.jobs[job_id].status == "cancelled"
        gate.open.set()


@pytest.mark.quirks("no events")
async def test_wait_may_be_cancelled_without_job(service: Service, client: Client) -> None:
    job_id, listener = service.job(1, *["running"] * 1000), Listener()
    task = asyncio.create_task(wait(client, "crawl", job_id, report=listener, cancel_remote=False))
    await listener.reported.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert service.jobs[job_id].status == "running"


async def test_clean_up_is_bounded_and_never_raises(
    service: Service, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    running, ended, gate = service.job(1, "running"), service.job(), fake.Gate()
    service.jobs[ended].status = "completed"
    service.on("POST cancel", gate)
    assert not await client.cancel_quietly(running, within_s=0.1)
    gate.open.set()
    assert f"job {running}: the service did not confirm the cancellation in 0.1 s" in caplog.text
    assert await client.cancel_quietly(ended)
    assert not await client.cancel_quietly("nobody")
    assert "job nobody could not be cancelled at the service: " in caplog.text
