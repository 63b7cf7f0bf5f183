"""Who may come in."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from time import time
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from tests.service.conftest import Api, open_service
from tests.service.job_stores import store_of
from tests.service.routes.teams import member
from webdata_nb.contract import paths
from webdata_nb.service.encryption import key_hash
from webdata_nb.service.http.middleware import MAX_BODY_BYTES, Gate, local_callers


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic {token}", "Bearer é"]
)
async def test_without_the_token_everything_is_401(api: Api, header: str | None) -> None:
    value = (header or "").format(token=api.lifetime.token).encode()
    headers = [(b"Authorization", value)] if header is not None else []
    del api.http.headers["Authorization"]
    for path in ("/v1/jobs", "/v1/nowhere", "/v1/data-api-weights/public", "/local/hello"):
        response = await api.http.get(path, headers=headers)
        assert response.status_code == 401
        assert response.json() == {"detail": "missing or invalid bearer credential"}
        assert response.headers["www-authenticate"] == "Bearer"


async def test_health_needs_no_key_and_shows_no_detail(api: Api) -> None:
    del api.http.headers["Authorization"]
    for path in ("/healthz", "/readyz"):
        assert await api.get(path) == {"status": "ok"}


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"Host": "127.0.0.1:8000"}, True),
        ({"Host": "localhost:8000"}, True),
        ({"Host": "[::1]:8000"}, True),
        ({"Host": "evil.test"}, False),
        ({"Host": "127.0.0.1.evil.test"}, False),
        ({"Host": ""}, False),
        ({"Host": "127.0.0.1:8000", "Origin": "http://127.0.0.1:8000"}, True),
        ({"Host": "127.0.0.1:8000", "Origin": "http://127.0.0.1:9000"}, False),
        ({"Host": "127.0.0.1:8000", "Origin": "http://evil.test"}, False),
        ({"Host": "127.0.0.1:8000", "Origin": "null"}, False),
        ({"Host": "127.0.0.1:8000", "Sec-Fetch-Site": "cross-site"}, False),
        ({"Host": "127.0.0.1:8000", "Sec-Fetch-Site": "same-site"}, False),
        ({"Host": "127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"}, True),
    ],
)
async def test_a_web_page_cannot_call_the_local_service(
    api: Api, headers: dict[str, str], allowed: bool
) -> None:
    response = await api.http.get("/v1/jobs", headers=headers)
    assert response.status_code == (200 if allowed else 403)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
async def test_only_json_bodies_are_read(api: Api, kind: str) -> None:
    response = await api.http.post(
        "/v1/crawl", content=b'{"url": "http://x/"}', headers={"Content-Type": kind}
    )
    assert response.status_code == 415


async def test_large_bodies_are_413_whether_declared_or_not(api: Api) -> None:
    large = b'{"url": "' + b"x" * MAX_BODY_BYTES + b'"}'

    async def chunks() -> object:
        for start in range(0, len(large), 65536):
            yield large[start : start + 65536]

    json = {"Content-Type": "application/json"}
    for content in (large, chunks()):
        response = await api.http.post("/v1/crawl", content=content, headers=json)  # type: ignore[arg-type]
        assert response.status_code == 413
        assert "larger than" in response.json()["detail"]


@pytest.mark.parametrize(
    ("size", "expect", "bytes_read"),
    [
        (MAX_BODY_BYTES + 1, "", MAX_BODY_BYTES + 1),
        (100 * MAX_BODY_BYTES, "", 16 * MAX_BODY_BYTES),
        (MAX_BODY_BYTES + 1, "100-continue", 0),
    ],
)
async def test_refused_bodies_are_read_before_the_reply(
    api: Api, size: int, expect: str, bytes_read: int
) -> None:
    """A proxy that is still sending answers 502 when the connection is closed."""
    unread, statuses = size, list[int]()

    async def receive() -> Message:
        nonlocal unread
        body = b"x" * min(unread, 65536)
        unread -= len(body)
        return {"type": "http.request", "body": body, "more_body": unread > 0}

    async def send(message: Message) -> None:
        nonlocal bytes_read
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
            bytes_read -= size - unread

    headers = {"host": "127.0.0.1", "content-length": str(size)}
    if expect:
        headers["expect"] = expect
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/v1/crawl", "headers": raw}
    await api.running.app(scope, receive, send)
    assert (statuses, bytes_read) == ([413], 0)


async def test_a_team_service_knows_accounts_by_their_keys(tmp_path: Path) -> None:
    async with store_of(tmp_path) as store:
        for name in ("alice", "bob"):
            await store.accounts.ensure(name, name, now=time())
            await store.accounts.add_key(
                f"k-{name}", name, "laptop", key_hash(f"key-{name}"), now=time()
            )
    async with open_service(tmp_path, mode="team") as api:
        mine = {"Authorization": "Bearer key-alice"}
        job_id = await api.start_job("search", {"query": "q", "formats": []}, headers=mine)
        assert [job["job_id"] for job in (await api.get("/v1/jobs", headers=mine))["jobs"]] == [
            job_id
        ]
        others = {"Authorization": "Bearer key-bob"}
        assert (await api.get("/v1/jobs", headers=others))["jobs"] == []
        seen = [
            (await api.http.get(f"/v1/search/{which}", headers=others)).content
            for which in (job_id, "unknown")
        ]
        assert seen == [b'{"detail":"no such job"}'] * 2
        await api.post(f"/v1/jobs/{job_id}/cancel", status=404, headers=others)
        # The local service's own token opens nothing here, and its control calls are not there.
        await api.get("/v1/jobs", status=401)
        await api.get("/local/hello", status=404, headers=mine)


@pytest.mark.both_stores
@pytest.mark.parametrize(("end", "status"), [("key", 401), ("suspension", 403)])
async def test_stream_ends_with_the_key_that_opened_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, status: int
) -> None:
    monkeypatch.setattr("webdata_nb.service.routes.results.KEEPALIVE_S", 0.1)
    headers = await member(tmp_path, "alice")
    networks = ("127.0.0.1/32",)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        site = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        async with open_service(tmp_path, "team", allow_networks=networks) as api:
            job_id = await api.start_job("crawl", {"url": site}, headers=headers)
            sent: list[bytes] = []
            begun = asyncio.Event()

            async def receive() -> Message:
                await asyncio.Event().wait()
                raise AssertionError

            async def send(message: Message) -> None:
                sent.append(message.get("body", b""))
                if sent[-1]:
                    begun.set()

            request = api.http.build_request("GET", f"/v1/crawl/{job_id}/events", headers=headers)
            scope = {
                "type": "http",
                "method": "GET",
                "path": request.url.path,
                "query_string": b"",
                "headers": [(name.lower(), value) for name, value in request.headers.raw],
            }
            stream = asyncio.ensure_future(api.running.app(scope, receive, send))
            async with asyncio.timeout(30):
                await begun.wait()
                async with store_of(tmp_path) as store:
                    if end == "key":
                        await store.accounts.end_key("key_alice", at=store.now())
                    else:
                        await store.accounts.suspend("alice", now=store.now())
                await stream
            assert b"".join(sent).endswith(b": the key is not valid any more\n\n")
            await api.get(paths.USAGE, status, headers=headers)


def basic(text: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


@pytest.fixture
async def page() -> AsyncIterator[httpx.AsyncClient]:
    """A gate whose application answers any request with its method, for the key `secret`."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(scope["state"]["account_id"])(scope, receive, send)

    gate = Gate(app, caller_of=local_callers("secret", "alice"), loopback_only=False)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(gate), base_url="http://team.example"
    ) as http:
        yield http


@pytest.mark.parametrize("path", ["/operator", "/operator/", "/operator/jobs?account=a"])
async def test_browser_opens_the_operators_page_with_the_key_as_password(
    page: httpx.AsyncClient, path: str
) -> None:
    for user in ("", "anyone", "é"):
        answer = await page.get(path, headers=basic(f"{user}:secret"))
        assert (answer.status_code, answer.text) == (200, "alice")
        assert (await page.head(path, headers=basic(f"{user}:secret"))).status_code == 200
    assert (await page.post(path, headers={"Authorization": "Bearer secret"})).status_code == 200
    headers: Any
    for headers in (
        {},
        basic("u:wrong"),
        basic("secret"),
        basic("secret:"),
        {"Authorization": "Basic !"},
    ):
        answer = await page.get(path, headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (
            401,
            'Basic realm="webdata"',
        )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *((method, "/operator/jobs") for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS")),
        ("GET", "/v1/operator/jobs"),
        ("GET", "/operators"),
        ("GET", "/Operator/"),
        ("GET", "//operator/"),
        ("GET", "/v1/jobs"),
        ("GET", "/v1/jobs?/operator/"),
        ("GET", "/v1/..;/operator/"),
    ],
)
async def test_password_opens_nothing_else(page: httpx.AsyncClient, method: str, path: str) -> None:
    url = page.base_url.copy_with(raw_path=path.encode())
    answer = await page.request(method, url, headers=basic("anyone:secret"))
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
