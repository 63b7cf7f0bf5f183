"""Webhooks received here: verified, each once, up to the job's end; in sync and async code."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from tests.service.conftest import open_service
from tests.service.routes.test_search import magazine
from tests.site.server import Site
from webdata_nb import receive_webhooks, verify_signature
from webdata_nb.contract.events import sign
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.client.webhook_receiver import BODY_BYTES, Receiver

SECRET = "canary-of-the-receiver"


def event(number: int = 1, **fields: Any) -> dict[str, Any]:
    ended = {"event": "job.completed", "job_id": f"j{number}", "status": "completed"}
    return {**ended, **fields}


def posted(
    hooks: Receiver, payload: Any, *, event_id: str | None = None, family: str = "Service"
) -> int:
    """Send a signed event as a service does; return the answer's status."""
    body = orjson.dumps(payload)
    headers = {f"X-{family}-Signature": sign(body, hooks.secret)}
    if event_id is not None:
        headers["X-Webhook-Id"] = event_id
    return httpx.post(hooks.url, content=body, headers=headers).status_code


def test_a_script_iterates_up_to_the_end() -> None:
    with receive_webhooks(timeout=30) as hooks:
        page = event(event="crawl.page", status="running")
        assert posted(hooks, page, event_id="a") == 204
        assert posted(hooks, event(), event_id="b", family="Webhook") == 204
        got = list(hooks)
    assert [each.event for each in got] == ["crawl.page", "job.completed"]
    assert (got[1].job_id, got[1].status, got[1].terminal) == ("j1", "completed", True)


async def test_async_code_iterates_too() -> None:
    async with receive_webhooks(timeout=30) as hooks:
        await asyncio.to_thread(posted, hooks, event(event="crawl.completed", status="failed"))
        assert [each.status async for each in hooks] == ["failed"]


def test_a_copy_is_taken_and_dropped() -> None:
    with receive_webhooks(timeout=30) as hooks:
        page = event(event="crawl.page", status="running")
        assert [posted(hooks, page, event_id="same") for _ in range(3)] == [204] * 3
        assert [posted(hooks, page) for _ in range(2)] == [204] * 2
        posted(hooks, event(), event_id="last")
        assert [each.event for each in hooks] == ["crawl.page", "crawl.page", "job.completed"]


def test_what_is_not_signed_is_refused() -> None:
    with receive_webhooks(secret=SECRET, timeout=0.2) as hooks:
        body = orjson.dumps(event())
        assert httpx.post(hooks.url, content=body).status_code == 401
        wrong = {"X-Service-Signature": sign(body, "other")}
        assert httpx.post(hooks.url, content=body, headers=wrong).status_code == 401
        signature = sign(body, SECRET)
        stale = {"X-Service-Signature": signature, "X-Service-Delivery": "1000"}
        assert httpx.post(hooks.url, content=body, headers=stale).status_code == 401
        base = hooks.url.rpartition("/")[0]
        good = {"X-Service-Signature": signature}
        assert httpx.post(f"{base}/guess", content=body, headers=good).status_code == 404
        assert httpx.get(hooks.url).status_code == 405
        huge = b"x" * (BODY_BYTES + 1)
        signed = {"X-Service-Signature": sign(huge, SECRET)}
        assert httpx.post(hooks.url, content=huge, headers=signed).status_code == 413
        assert posted(hooks, ["no event"]) == 400
        with pytest.raises(TimeoutError, match=r"no webhook event arrived within timeout=0.2 s"):
            next(iter(hooks))


def test_other_jobs_are_passed_over() -> None:
    with receive_webhooks(job_id="j2", timeout=30) as hooks:
        assert posted(hooks, event(1)) == 204
        assert posted(hooks, event(2)) == 204
        assert [each.job_id for each in hooks] == ["j2"]


def test_nothing_shows_the_secret() -> None:
    hooks = receive_webhooks(secret=SECRET)
    assert SECRET not in repr(hooks)
    with pytest.raises(InvalidArgument, match="with"):
        _ = hooks.url
    with hooks:
        assert SECRET not in repr(hooks)
        assert hooks.url.rpartition("/")[2] not in repr(hooks)


def test_a_tunnels_address_stands_for_this_machines() -> None:
    with receive_webhooks(public_url="https://tunnel.example/") as hooks:
        assert hooks.url.startswith("https://tunnel.example/")
        assert not hooks.url.startswith("https://tunnel.example//")


def test_arguments_that_cannot_be_right() -> None:
    with pytest.raises(InvalidArgument, match="secret"):
        receive_webhooks(secret="")
    with pytest.raises(InvalidArgument, match="public_url"):
        receive_webhooks(public_url="tunnel.example")
    with receive_webhooks() as hooks:
        port = int(hooks.url.split(":")[2].partition("/")[0])
        with pytest.raises(InvalidArgument, match="listen"), receive_webhooks(port=port):
            pass


async def test_a_real_job_is_received(tmp_path: Path, site: Site) -> None:
    magazine(site)
    async with open_service(tmp_path / "data") as api, receive_webhooks(timeout=120) as hooks:
        body = {"webhook_url": hooks.url, "webhook_secret": hooks.secret}
        job_id = await api.start_job("crawl", {"url": site.url, **body})
        [got] = [each async for each in hooks]
    assert (got.job_id, got.event, got.payload["completed_pages"]) == (job_id, "job.completed", 4)


@pytest.mark.parametrize(
    ("sent", "verifies"),
    [
        (lambda now: str(int(now)), True),
        (lambda now: str(int(now) - 299), True),
        (lambda now: str(int(now) - 400), False),
        (lambda now: str(int(now) + 400), False),
        (lambda _: "", False),
        (lambda _: "-1", False),
        (lambda _: "1e9", False),
        (lambda _: "\u0663" * 10, False),
        (lambda _: "9" * 5000, False),
    ],
)
def test_a_delivery_of_another_time_does_not_verify(sent: Any, verifies: bool) -> None:
    body = b"{}"
    headers = {"x-webhook-signature": sign(body, SECRET), "x-service-delivery": sent(time.time())}
    assert verify_signature(body, headers, SECRET) is verifies
    assert verify_signature(body, {"X-Webhook-Signature": sign(body, SECRET)}, SECRET)
    assert not verify_signature(body, headers, "other")
