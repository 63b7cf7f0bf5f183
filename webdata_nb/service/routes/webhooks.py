"""The endpoints that show what became of webhooks: deliveries, stats, a test, a replay."""

from __future__ import annotations

import base64
import binascii
import time
import uuid
from collections import Counter
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from webdata_nb.contract import limits, notices, paths
from webdata_nb.contract.requests import WebhookTest
from webdata_nb.service.errors import BadInput
from webdata_nb.service.routes.problems import json_body, validated
from webdata_nb.service.routes.replies import whole
from webdata_nb.service.routes.starts import account_of
from webdata_nb.service.store.outbox import Delivery
from webdata_nb.service.webhooks.callbacks import Webhooks
from webdata_nb.service.webhooks.schedule import RULES, acknowledged

STATES: Final = ("pending", "delivered", "failed")


def routes(webhooks: Webhooks) -> list[Route]:
    """Return the inspection routes."""

    async def deliveries(request: Request) -> Response:
        low, high = limits.JOBS_LISTED
        limit = whole(request, "limit", default=limits.JOBS_LISTED_DEFAULT, low=low, high=high)
        found = await webhooks.outbox.listing(
            account_of(request),
            job_id=request.query_params.get("job_id"),
            limit=limit + 1,
            before=_read_cursor(request.query_params.get("cursor")),
        )
        reply: dict[str, Any] = {
            "success": True,
            "deliveries": [shown(each) for each in found[:limit]],
        }
        if len(found) > limit:
            reply["cursor"] = _cursor(found[limit - 1])
        return _json(reply)

    async def replay(request: Request) -> Response:
        delivery_id = request.path_params["delivery_id"]
        again = await webhooks.outbox.replay(account_of(request), delivery_id, now=time.time())
        webhooks.wake()
        return _json({"success": True, "delivery": shown(again)})

    async def stats(request: Request) -> Response:
        counts = await webhooks.outbox.stats(account_of(request))
        states, events = Counter[str](), Counter[str]()
        for count in counts:
            states[count.state] += count.deliveries
            events[count.event] += count.deliveries
        return _json(
            {
                "success": True,
                "total": states.total(),
                **{state: states[state] for state in STATES},
                "attempts": sum(count.attempts for count in counts),
                "by_event": dict(sorted(events.items())),
            }
        )

    async def test(request: Request) -> Response:
        wanted = validated(WebhookTest, await json_body(request), at="body")
        await webhooks.check(wanted.webhook_url, {})
        rules = RULES[webhooks.profile]
        started = time.monotonic()
        outcome = await webhooks.sender.post(
            wanted.webhook_url,
            notices.trial(datetime.now(UTC)),
            event_id=str(uuid.uuid4()),
            secret=wanted.webhook_secret,
            rules=rules,
            context={},
        )
        return _json(
            {
                "success": acknowledged(rules, outcome),
                "event": notices.TEST,
                "status_code": outcome.status,
                "error": outcome.text,
                "elapsed_ms": round((time.monotonic() - started) * 1000, 3),
            }
        )

    return [
        Route(paths.WEBHOOK_DELIVERIES, deliveries, methods=["GET"]),
        Route(paths.WEBHOOK_REPLAY, replay, methods=["POST"]),
        Route(paths.WEBHOOK_STATS, stats, methods=["GET"]),
        Route(paths.WEBHOOK_TEST, test, methods=["POST"]),
    ]


def shown(delivery: Delivery) -> dict[str, Any]:
    """Return a delivery for its owner; of the URL, which may hold a token, the host alone."""
    pending = delivery.state == "pending"
    return {
        "delivery_id": delivery.id,
        "event_id": delivery.event_id,
        "job_id": delivery.job_id,
        "event": delivery.event,
        "endpoint": delivery.endpoint,
        "status": delivery.state,
        "attempts": delivery.attempts,
        "replay": delivery.replay,
        "status_code": delivery.status,
        "error": delivery.error,
        "created_at": _time(delivery.created_at),
        "next_attempt_at": _time(delivery.due_at) if pending else None,
        "ended_at": _time(delivery.ended_at),
        "payload": orjson.Fragment(delivery.body),
    }


def _json(reply: dict[str, Any]) -> Response:
    return Response(orjson.dumps(reply, option=orjson.OPT_UTC_Z), media_type="application/json")


def _time(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)


def _cursor(delivery: Delivery) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([delivery.created_at, delivery.id])).decode()


def _read_cursor(text: str | None) -> tuple[float, str] | None:
    if text is None:
        return None
    try:
        at, delivery_id = orjson.loads(base64.urlsafe_b64decode(text))
        return float(at), str(delivery_id)
    except (ValueError, TypeError, binascii.Error):
        raise BadInput("not a cursor of this listing", loc=("query", "cursor")) from None
