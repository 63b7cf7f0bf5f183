"""Every endpoint against a real server, and what each kind of trouble becomes."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import socket
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from tests.client import fake
from tests.client.fake import KEY, Service, status
from tests.wire.waiting import until
from webdata_nb import errors
from webdata_nb.toolkit.client import transport
from webdata_nb.toolkit.client.client import Client
from webdata_nb.toolkit.client.transport import environment_proxy

SEARCH = {"query": "lighthouse", "num_results": 3}


# --------------------------------------------------------------------------------------- endpoints


async def test_a_search_from_start_to_rows(service: Service, client: Client) -> None:
    reply = await client.start_search(SEARCH)
    assert (reply.status, reply.message) == ("started", "go")
    found = await client.search_status(reply.job_id)
    assert [row["url"] for row in found.data] == [f"http://site.test/{n}" for n in range(3)]
    assert found.model_extra == {"a_field_of_tomorrow": 1}
    start = service.requests("POST search")[0]
    assert start.body == SEARCH
    assert start.headers["Authorization"] == f"Bearer {KEY}"
    assert start.headers["Content-Type"] == "application/json"
    assert len(start.headers["Idempotency-Key"]) == 32


async def test_a_plain_status_call_is_the_contracts(service: Service, client: Client) -> None:
    job_id = service.job(1, kind="search")
    await client.search_status(job_id)
    await client.search_status(job_id, include_data=False)
    assert [each.query for each in service.requests("GET search")] == [
        {},
        {"include_data": "false"},
    ]


async def test_a_crawl_is_paged(client: Client) -> None:
    reply = await client.start_crawl({"url": "http://site.test", "max_pages": 5})
    page = await client.crawl_status(reply.job_id, page=2, per_page=2)
    assert [row["markdown"] for row in page.data] == ["# 2", "# 3"]
    assert (page.page, page.per_page, page.total_results) == (2, 2, 5)


async def test_job_control(service: Service, client: Client) -> None:
    running, ended = service.job(0, "running"), service.job(0)
    service.jobs[ended].status = "failed"
    assert (await client.cancel(running)).status == "cancelled"
    assert (await client.cancel(running)).success
    with pytest.raises(errors.WrongState) as caught:
        await client.cancel(ended)
    assert (caught.value.status, caught.value.detail) == (400, "the job is failed")
    assert (await client.retry(ended)).started in service.jobs


async def test_lists(service: Service, client: Client) -> None:
    ids = [service.job() for _ in range(3)]
    first = await client.jobs(limit=2)
    rest = await client.jobs(limit=2, cursor=first.cursor)
    assert [job.job_id for job in [*first.jobs, *rest.jobs]] == ids
    (weight,) = await client.weights()
    assert (weight.platform, weight.operation, weight.weight) == ("crawl", "page", 1.5)


async def test_export_comes_in_pieces(service: Service, client: Client) -> None:
    job_id = service.job(7)
    pieces = [piece async for piece in client.export("crawl", job_id, "zip")]
    assert b"".join(pieces) == b'{"format":"zip","rows":7}'
    service.on("GET export", status(410))
    with pytest.raises(errors.Expired):
        await anext(client.export("crawl", job_id, "csv"))


async def test_an_export_that_breaks_off_is_an_error(service: Service, client: Client) -> None:
    service.on("GET export", fake.truncate)
    with pytest.raises(errors.ConnectionFailed, match="broke off"):
        async for _ in client.export("crawl", service.job(7), "json"):
            pass


# ------------------------------------------------------------------------------- status to error


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, errors.InvalidRequest),
        (401, errors.AuthError),
        (402, errors.QuotaExhausted),
        (403, errors.PermissionDenied),
        (404, errors.NotFound),
        (405, errors.NotSupported),
        (406, errors.NotSupported),
        (409, errors.ServiceError),
        (410, errors.Expired),
        (413, errors.InvalidRequest),
        (422, errors.InvalidRequest),
        (501, errors.NotSupported),
        (505, errors.ServiceFault),
    ],
)
async def test_each_status_has_its_error(
    service: Service, client: Client, code: int, error: type[errors.ServiceError]
) -> None:
    service.on("GET search", status(code))
    with pytest.raises(errors.ServiceError) as caught:
        await client.search_status("j")
    assert type(caught.value) is error
    assert (caught.value.status, caught.value.detail) == (code, f"status {code}")
    assert len(service.seen) == 1


async def test_a_422_names_its_fields(service: Service, client: Client) -> None:
    problems = [
        {"loc": ["body", "scrape_options", "timeout"], "msg": "too long", "type": "value_error"},
        {"loc": ["body"], "msg": "odd", "type": "odd_body"},
    ]
    service.on("POST crawl", status(422, {"detail": problems}))
    with pytest.raises(errors.InvalidRequest, match=r"scrape_options\.timeout: too long") as caught:
        await client.start_crawl({})
    assert caught.value.fields == (("scrape_options.timeout", "too long"), ("body", "odd"))
    assert caught.value.types == ("value_error", "odd_body")


@pytest.mark.parametrize(
    ("message", "ending"),
    [
        ("is gone", "url: is gone; it is 'htp'"),
        ("must be one of http, https", "it is 'htp': did you mean 'http'?"),
        ("must be one of ", "it is 'htp'"),
    ],
)
async def test_a_422_suggests_a_value_only_where_there_are_choices(
    service: Service, client: Client, message: str, ending: str
) -> None:
    problem = {"loc": ["body", "url"], "msg": message, "type": "value_error"}
    service.on("POST crawl", status(422, {"detail": [problem]}))
    with pytest.raises(errors.InvalidRequest) as caught:
        await client.start_crawl({"url": "htp"})
    assert str(caught.value).endswith(ending)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'{"error": "of a relative"}', "of a relative"),
        (b'{"message": {"code": 7}}', '{"code":7}'),
        (b'"just a text"', "just a text"),
        (b"plain\n words", "plain words"),
        (b"<html>a proxy's page</html>", ""),
        (b"\xff\xfe" * 100_000, None),
        (b"", ""),
        (b'{"detail": null}', ""),
        (b"[1, 2]", ""),
    ],
)
async def test_any_error_body_is_read(
    service: Service, client: Client, body: bytes, detail: str | None
) -> None:
    service.on("GET search", fake.text(body, 404))
    with pytest.raises(errors.NotFound) as caught:
        await client.search_status("j")
    assert detail is None or caught.value.detail == detail
    assert len(caught.value.detail) <= 500


async def test_a_redirect_is_not_followed(service: Service, client: Client) -> None:
    service.on("GET search", status(307, Location=f"{service.base_url}/v1/elsewhere"))
    with pytest.raises(errors.BadAnswer, match="redirects are not followed"):
        await client.search_status("j")
    assert len(service.seen) == 1


# --------------------------------------------------------------------------------- broken answers


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"job_id": "j"}, "status"),
        ({"job_id": "j", "status": "asleep"}, "status"),
        ({"job_id": "j", "status": "running", "data": {}}, "data"),
        ({"job_id": "j", "status": "running", "data": [{}, "row"]}, "data.1"),
        ([], None),
    ],
)
async def test_a_reply_that_breaks_the_contract_names_the_field(
    service: Service, client: Client, body: Any, field: str | None
) -> None:
    service.on("GET search", status(200, body))
    with pytest.raises(errors.BadAnswer) as caught:
        await client.search_status("j")
    assert caught.value.field == field
    assert "asleep" not in str(caught.value)


async def test_replies_are_read_leniently(service: Service, client: Client) -> None:
    body = {
        "job_id": "j",
        "status": "queued",
        "data": None,
        "time_taken": None,
        "total_results": 2.0,
    }
    service.on("GET search", status(200, body))
    reply = await client.search_status("j")
    assert (reply.status, reply.data, reply.total_results) == ("started", [], 2)


async def test_half_an_emoji_in_a_row_is_replaced(service: Service, client: Client) -> None:
    row = rb'{"url": "http://a/", "title": "Cut \ud83d", "markdown": null, "score": NaN}'
    reply = rb'{"job_id": "j", "status": "completed", "data": [' + row + rb"]}"
    service.on("GET search", fake.text(reply, content_type="application/json"))
    status = await client.search_status("j")
    assert [(each["title"], each["score"]) for each in status.data] == [("Cut \ufffd", None)]


async def test_wrong_types_of_fields_that_nothing_depends_on_are_left_out(
    service: Service, client: Client
) -> None:
    odd = {"job_id": 7, "total_results": "many", "fallback_chain": [{}], "error": {"code": 5}}
    service.on("GET search", status(200, {"status": "Failed", **odd}))
    reply = await client.search_status("j")
    assert (reply.job_id, reply.status, reply.error) == ("7", "failed", '{"code":5}')
    assert reply.stated("total_results") is None
    assert reply.fallback_chain == []


@pytest.mark.parametrize("body", [b"<html>log in</html>", b"", b"[" * 100_000, b'{"a": nil}'])
async def test_an_answer_that_is_no_json(service: Service, client: Client, body: bytes) -> None:
    service.on("GET search", *[fake.text(body)] * 3)
    with pytest.raises(errors.BadAnswer, match="no JSON"):
        await client.search_status("j")


@pytest.mark.parametrize("job_id", ["", ".", "..", "\ud800"])
async def test_an_id_that_would_lead_elsewhere_is_not_sent(
    service: Service, client: Client, job_id: str
) -> None:
    for call in (client.cancel, client.retry, client.search_status, client.crawl_status):
        with pytest.raises(errors.InvalidArgument, match="id of a job"):
            await call(job_id)
    assert not service.seen


# ----------------------------------------------------------------------------------------- trouble


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        status(500),
        status(502),
        status(503),
        status(503, Retry_After="0"),
        status(429, Retry_After="0"),
        fake.reset,
        fake.truncate,
        fake.truncate_silently,
    ],
)
async def test_reads_survive_passing_trouble(
    service: Service, client: Client, fault: fake.Fault
) -> None:
    job_id = service.job(50)
    service.on("GET crawl", fault, fault)
    assert len((await client.crawl_status(job_id)).data) == 50
    assert len(service.seen) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (status(500, Retry_After="0"), errors.ServiceFault),
        (status(429, Retry_After="0"), errors.RateLimited),
        (fake.reset, errors.ConnectionFailed),
    ],
)
async def test_lasting_trouble_is_raised_after_five_attempts(
    service: Service, client: Client, fault: fake.Fault, error: type[Exception]
) -> None:
    service.on("GET crawl", *[fault] * 9)
    with pytest.raises(error):
        await client.crawl_status("j")
    assert len(service.seen) == 5


async def test_an_unreachable_service(unused_port: int) -> None:
    async with Client(f"http://127.0.0.1:{unused_port}", KEY) as client:
        with pytest.raises(errors.ConnectionFailed, match="ConnectError"):
            await client.search_status("j")


@pytest.fixture
def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


@pytest.mark.slow
async def test_a_service_that_never_answers_is_given_up(service: Service) -> None:
    gate = fake.Gate()
    service.on("GET crawl", *[gate] * 5)
    async with Client(service.base_url, KEY, timeout_s=0.1) as client:
        with pytest.raises(errors.ConnectionFailed, match=r"(Read|Connect)Timeout"):
            await client.crawl_status(service.job())
    gate.open.set()


async def test_no_request_before_the_time_that_the_service_named(
    service: Service, client: Client
) -> None:
    service.on("GET crawl", status(503, Retry_After="1"))
    await client.crawl_status(service.job())
    first, second = service.seen
    assert second.at - first.at >= 1.0


async def test_a_wait_holds_for_every_client_of_the_key(
    service: Service, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    service.on("POST search", status(429, Retry_After="1"))
    caplog.set_level("INFO", "webdata_nb")
    waiting = asyncio.create_task(client.start_search(SEARCH))
    await until(lambda: "again in" in caplog.text)
    async with Client(service.base_url, KEY) as other:
        await asyncio.gather(waiting, other.start_search(SEARCH))
    refused, *later = service.seen
    assert len(later) == 2
    assert all(each.at - refused.at >= 1.0 for each in later)


# ------------------------------------------------------------------------------------------ starts


async def test_starts_queue_while_the_plan_is_full(service: Service, client: Client) -> None:
    full = status(429, Retry_After="0", X_Concurrency_Limit="2", X_Concurrency_Active="2")
    # Queueing uses up no attempt: the trouble after it is survived as well.
    service.on("POST search", *[full] * 8, status(503, Retry_After="0"))
    reply = await client.start_search(SEARCH)
    assert reply.job_id in service.jobs
    assert len(service.requests("POST search")) == 10
    assert len({each.headers["Idempotency-Key"] for each in service.seen}) == 1


async def test_the_code_of_a_429_tells_credits_from_a_full_plan(
    service: Service, client: Client
) -> None:
    """Neither the words nor the headers say which it is; an older service sends no code."""
    full = status(429, {"detail": "wait", "code": "concurrency"}, Retry_After="0")
    service.on("POST search", *[full] * 8)
    assert (await client.start_search(SEARCH)).job_id in service.jobs
    service.on("POST search", status(429, {"detail": "wait", "code": "quota"}, Retry_After="1"))
    with pytest.raises(errors.QuotaExhausted):
        await client.start_search(SEARCH)


async def test_queued_request_fails_after_the_queue_timeout(service: Service) -> None:
    full = status(429, Retry_After="0", X_Concurrency_Limit="2", X_Concurrency_Active="2")
    service.on("POST search", *[full] * 20)
    async with Client(service.base_url, KEY, queue_timeout_s=0.3) as client:
        with pytest.raises(errors.RateLimited) as caught:
            await client.start_search(SEARCH)
    assert (caught.value.limit, caught.value.active, caught.value.retry_after) == (2, 2, 0)
    assert len(service.jobs) == 0


async def test_a_full_plan_hinders_neither_reading_nor_cancelling(
    service: Service, client: Client
) -> None:
    job_id = service.job(0, "running", "running")
    full = status(429, Retry_After="200", X_Concurrency_Limit="2", X_Concurrency_Active="2")
    service.on("POST search", full)
    queued = asyncio.create_task(client.start_search(SEARCH))
    await service.arrived.wait()
    async with asyncio.timeout(60):
        await client.crawl_status(job_id)
        await client.cancel(job_id)
    queued.cancel()
    with pytest.raises(asyncio.CancelledError):
        await queued


async def test_an_empty_account_is_told_at_once(service: Service, client: Client) -> None:
    headers = {"X_Concurrency_Limit": "2", "X_Concurrency_Active": "0", "Retry_After": "60"}
    service.on("POST search", status(429, {"detail": "credits used up"}, **headers))
    with pytest.raises(errors.QuotaExhausted, match="credits used up"):
        await client.start_search(SEARCH)
    assert len(service.seen) == 1


async def test_a_lost_answer_to_a_start_makes_no_second_job(
    service: Service, client: Client
) -> None:
    service.on("POST search", *[fake.lose_answer] * 2)
    reply = await client.start_search(SEARCH)
    assert list(service.jobs) == [reply.job_id]
    assert len(service.requests("POST search")) == 3


@pytest.mark.quirks("no keys")
async def test_a_lost_answer_of_a_service_without_keys_is_an_unknown_outcome(
    service: Service, client: Client
) -> None:
    service.on("POST search", fake.lose_answer)
    with pytest.raises(errors.UnknownOutcome) as caught:
        await client.start_search(SEARCH, idempotency_key="mine")
    assert caught.value.idempotency_key == "mine"
    assert len(service.requests("POST search")) == len(service.jobs) == 1


@pytest.mark.quirks("no keys")
async def test_a_fault_of_a_service_without_keys_is_not_tried_again(
    service: Service, client: Client
) -> None:
    service.on("POST search", status(500))
    with pytest.raises(errors.ServiceFault):
        await client.start_search(SEARCH)
    assert len(service.requests("POST search")) == 1


@pytest.mark.quirks("no keys")
async def test_a_start_that_was_never_sent_or_refused_is_sent_again_anywhere(
    service: Service, client: Client
) -> None:
    service.on("POST search", status(503, Retry_After="0"), status(429, Retry_After="0"))
    await client.start_search(SEARCH)
    assert len(service.jobs) == 1


async def test_a_fault_on_a_start_is_tried_again_under_its_key(
    service: Service, client: Client
) -> None:
    service.on("POST search", status(502), status(500))
    await client.start_search(SEARCH)
    assert len({each.headers["Idempotency-Key"] for each in service.requests("POST search")}) == 1
    assert len(service.jobs) == 1


@pytest.mark.parametrize("call", [Client.start_search, Client.start_crawl])
async def test_a_start_cancelled_on_its_way_leaves_no_job_running(
    service: Service, client: Client, call: Callable[[Client, dict[str, Any]], Awaitable[object]]
) -> None:
    gate = fake.Gate()
    service.on("POST search", gate)
    service.on("POST crawl", gate)
    starting = asyncio.ensure_future(call(client, SEARCH))
    await gate.reached.wait()
    starting.cancel()
    await asyncio.sleep(0)
    gate.open.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert [job.status for job in service.jobs.values()] == ["cancelled"]


async def test_a_start_that_takes_too_long_leaves_no_job_running(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "LATE_REPLY_S", 60.0)
    gate = fake.Gate()
    service.on("POST crawl", gate)

    async def start() -> None:
        async with asyncio.timeout(0.2):
            await client.start_crawl({})

    starting = asyncio.ensure_future(start())
    await gate.reached.wait()
    asyncio.get_running_loop().call_later(0.4, gate.open.set)
    with pytest.raises(TimeoutError):
        await starting
    assert [job.status for job in service.jobs.values()] == ["cancelled"]


@pytest.mark.parametrize("key", ["", "x" * 256, "line\nbreak", "ключ"])
async def test_an_idempotency_key_that_cannot_be_sent(client: Client, key: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="idempotency_key"):
        await client.start_search(SEARCH, idempotency_key=key)


@pytest.mark.parametrize("body", [{"query": object()}, {"query": "\ud800"}, {1: 2}])
async def test_a_body_that_is_no_json_is_refused_before_it_is_sent(
    service: Service, client: Client, body: dict[str, Any]
) -> None:
    with pytest.raises(errors.InvalidArgument, match="JSON"):
        await client.start_search(body)
    assert not service.seen


# ------------------------------------------------------------------------------------------ secrets


async def test_the_key_is_never_shown(
    service: Service, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    service.on("GET search", status(401, {"detail": f"unknown key {KEY}"}))
    service.on("GET crawl", status(500), fake.reset)
    await client.crawl_status(service.job())
    with pytest.raises(errors.AuthError) as caught:
        await client.search_status("j")
    report = "".join(traceback.format_exception(caught.value)) + caught.value.detail
    assert "unknown key ***" in report
    for text in (report, caplog.text, repr(client), repr(vars(client))):
        assert KEY not in text


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
def test_a_key_that_no_header_can_carry(key: str) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        Client("http://service.test", key)
    assert key not in str(caught.value)


async def test_a_key_pasted_with_a_line_break_works(service: Service) -> None:
    async with Client(service.base_url + "/", f" {KEY}\n") as client:
        await client.weights()


async def test_a_service_without_keys_of_its_own_gets_none(service: Service) -> None:
    async with Client(service.base_url, "") as client:
        with pytest.raises(errors.AuthError, match="WEBDATA_API_KEY"):
            await client.weights()
    assert "Authorization" not in service.seen[0].headers


async def test_headers_of_the_session_go_along(service: Service) -> None:
    async with Client(service.base_url, KEY, headers={"X-Webdata-Lease": "L1"}) as client:
        await client.start_search(SEARCH)
    assert service.seen[0].headers["X-Webdata-Lease"] == "L1"


@pytest.mark.slow
def test_a_client_belongs_to_one_loop() -> None:
    client = Client("http://127.0.0.1:9", KEY)

    async def use() -> None:
        with pytest.raises(errors.ConnectionFailed):
            await client.weights()
        await client.aclose()

    asyncio.run(use())
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(client.weights())


async def test_a_start_may_come_with_its_result(service: Service, client: Client) -> None:
    reply: dict[str, Any] = {
        "success": True,
        "job_id": "j",
        "status": "started",
        "message": None,
        "result": {"job_id": "j", "status": "completed", "fallback_chain": None, "data": [{}]},
    }

    async def at_once(_request: web.Request, _handler: fake.Handler) -> web.StreamResponse:
        return web.json_response(reply)

    service.faults["POST search"].append(at_once)
    started = await client.start_search(SEARCH, wait_s=1)
    assert started.result is not None
    assert (started.result.status, started.result.data) == ("completed", [{}])
    assert service.requests("POST search")[0].query == {"wait": "1"}
    # A service that does not know it answers as ever.
    assert (await client.start_search(SEARCH, wait_s=1)).result is None


# ---------------------------------------------------------------------- proxies of the environment


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name.upper()}_PROXY", raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    "no_proxy", ["127.0.0.1", "*", "other.test, 127.0.0.0/8", "{host}", "http://{host}"]
)
@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "http://127.0.0.1:9", "http://[broken"])
async def test_no_proxy_is_honoured(
    service: Service, environment: pytest.MonkeyPatch, proxy: str, no_proxy: str
) -> None:
    environment.setenv("ALL_PROXY", proxy)
    environment.setenv("NO_PROXY", no_proxy.format(host=service.base_url.rpartition("/")[2]))
    client = Client(service.base_url, KEY)
    assert (await client.start_search(SEARCH)).status == "started"
    await client.aclose()


@pytest.mark.parametrize(
    ("variable", "value", "error", "text"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:9", errors.MissingExtra, 'pip install "httpx[socks]"'),
        ("http_proxy", "socks5h://127.0.0.1:9", errors.MissingExtra, "HTTP_PROXY names a SOCKS"),
        ("HTTP_PROXY", "http://user:secret@[::1", errors.InvalidArgument, "HTTP_PROXY must be"),
        ("HTTP_PROXY", "http://host:99999", errors.InvalidArgument, "HTTP_PROXY must be"),
        ("all_proxy", "ftp://host:1", errors.InvalidArgument, "ALL_PROXY must be"),
        ("ALL_PROXY", "socks5://host:port", errors.InvalidArgument, "ALL_PROXY must be"),
    ],
)
def test_unusable_proxy_of_the_environment_is_one_sentence(
    environment: pytest.MonkeyPatch,
    variable: str,
    value: str,
    error: type[errors.WebdataError],
    text: str,
) -> None:
    environment.setenv(variable, value)
    has_package = error is errors.InvalidArgument
    environment.setattr(importlib.util, "find_spec", lambda _name: has_package or None)
    with pytest.raises(error) as raised:
        Client("http://data.example.com", KEY)
    assert text in str(raised.value)
    assert "NO_PROXY" in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("variables", "proxy"),
    [
        ({"https_proxy": "proxy.test:8080"}, "http://proxy.test:8080"),
        ({"HTTPS_PROXY": "http://a.test", "ALL_PROXY": "http://b.test"}, "http://a.test"),
        ({"HTTP_PROXY": "http://a.test", "ALL_PROXY": "http://b.test"}, "http://b.test"),
        ({"HTTP_PROXY": "ftp://of.another.scheme"}, None),
        ({"ALL_PROXY": "http://b.test", "NO_PROXY": ".example.com"}, None),
        ({"ALL_PROXY": "http://b.test", "NO_PROXY": "*.example.com"}, None),
        ({"ALL_PROXY": "http://b.test", "no_proxy": "data.example.com:443"}, None),
        ({"ALL_PROXY": "http://b.test", "no_proxy": "ample.com"}, "http://b.test"),
        ({"ALL_PROXY": "http://b.test", "no_proxy": "data.example.com:8"}, "http://b.test"),
        ({"ALL_PROXY": ""}, None),
    ],
)
def test_proxy_of_the_environment(
    environment: pytest.MonkeyPatch, variables: dict[str, str], proxy: str | None
) -> None:
    for name, value in variables.items():
        environment.setenv(name, value)
    assert environment_proxy("https://data.example.com/api") == proxy
