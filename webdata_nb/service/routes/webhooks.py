"""Lists, counts, tests and replays webhook deliveries.

`operations` are the webhooks of the OpenAPI document; the service does not serve these routes.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Body, Header
from starlette.responses import Response

from webdata_nb.contract import events, limits, paths
from webdata_nb.contract.events import (
    DELIVERY_HEADER,
    EVENT_HEADERS,
    EVENT_ID_HEADER,
    SIGNATURE_HEADERS,
    WebhookA,
    WebhookB,
)
from webdata_nb.contract.replies import DeliveryList, ReplayReply, WebhookStats, WebhookTestReply
from webdata_nb.contract.requests import WebhookTest
from webdata_nb.service.routes.jobs import check_kind, time_of
from webdata_nb.service.routes.routing import (
    AccountId,
    CallerDep,
    Cursor,
    DeliveryId,
    JobFilter,
    ListLimit,
    StateDep,
    error_responses,
    examples,
    list_cursor,
    read_list_cursor,
    scopes,
    strict_router,
)
from webdata_nb.service.store.records import Delivery
from webdata_nb.service.webhooks.schedule import POLICIES, is_acknowledged

STATES: Final = ("pending", "delivered", "failed")


router: Final = strict_router("webhooks")


@router.get(
    paths.WEBHOOK_DELIVERIES,
    summary="List webhook deliveries of your jobs",
    response_model=DeliveryList,
)
@scopes("read")
async def list_deliveries(
    state: StateDep,
    account_id: AccountId,
    job_id: JobFilter = None,
    limit: ListLimit = limits.JOBS_LISTED_DEFAULT,
    cursor: Cursor = None,
) -> Response:
    """List deliveries of the account's jobs, newest first, with payload and outcome.

    Only the host of an endpoint is shown, because its URL may contain a token.
    """
    deliveries = await state.webhooks.outbox.deliveries(
        account_id, job_id=job_id, limit=limit + 1, before=read_list_cursor(cursor)
    )
    reply: dict[str, Any] = {
        "success": True,
        "deliveries": [delivery_fields(delivery) for delivery in deliveries[:limit]],
    }
    if len(deliveries) > limit:
        reply["cursor"] = list_cursor(deliveries[limit - 1])
    return _json(reply)


@router.post(
    paths.WEBHOOK_REPLAY,
    summary="Send an ended delivery again",
    response_model=ReplayReply,
    responses=error_responses(404),
)
@scopes("search", "crawl")
async def replay_delivery(state: StateDep, caller: CallerDep, delivery_id: DeliveryId) -> Response:
    """Send an acknowledged or failed delivery again, as a new delivery.

    The key needs the scope that starts jobs of its job's kind.
    """
    outbox, account_id = state.webhooks.outbox, caller.account_id
    await check_kind(state, caller, (await outbox.delivery(account_id, delivery_id)).job_id)
    replay = await outbox.replay(account_id, delivery_id, now=state.store.now())
    state.webhooks.wake()
    return _json({"success": True, "delivery": delivery_fields(replay)})


@router.get(
    paths.WEBHOOK_STATS,
    summary="Count webhook deliveries of your jobs",
    response_model=WebhookStats,
)
@scopes("read")
async def get_webhook_stats(state: StateDep, account_id: AccountId) -> Response:
    """Count the deliveries of the account's jobs by state and by event."""
    counts = await state.webhooks.outbox.counts(account_id)
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


@router.post(
    paths.WEBHOOK_TEST,
    summary="Send one signed test delivery now",
    response_model=WebhookTestReply,
)
@scopes("search", "crawl")
async def test_webhook(
    state: StateDep, test_request: Annotated[WebhookTest, examples("testWebhook")]
) -> Response:
    """Send a signed test delivery to an endpoint and return its reply."""
    webhooks = state.webhooks
    await webhooks.check(test_request.webhook_url, {})
    policy = POLICIES[webhooks.profile]
    started = time.monotonic()
    outcome = await webhooks.sender.post(
        test_request.webhook_url,
        events.test_payload(datetime.now(UTC)),
        event_id=str(uuid.uuid4()),
        secret=test_request.webhook_secret,
        policy=policy,
        context={},
    )
    return _json(
        {
            "success": is_acknowledged(policy, outcome),
            "event": events.TEST,
            "status_code": outcome.status,
            "error": outcome.text,
            "elapsed_ms": round((time.monotonic() - started) * 1000, 3),
        }
    )


def delivery_fields(delivery: Delivery) -> dict[str, Any]:
    """Return the reply's fields of a delivery; only the host of its URL is shown."""
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
        "created_at": time_of(delivery.created_at),
        "next_attempt_at": time_of(delivery.due_at) if pending else None,
        "ended_at": time_of(delivery.ended_at),
        "payload": orjson.Fragment(delivery.body),
    }


def _json(reply: dict[str, Any]) -> Response:
    return Response(orjson.dumps(reply, option=orjson.OPT_UTC_Z), media_type="application/json")


_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Acknowledged. The webhook guide lists the replies that count."},
    "default": {"description": "Not acknowledged: retried a limited number of times."},
}
_Event = Annotated[
    str,
    Header(
        alias=EVENT_HEADERS[0],
        description=f"Name of the event; `{EVENT_HEADERS[1]}` has the same value.",
    ),
]
_SentAt = Annotated[
    int, Header(alias=DELIVERY_HEADER, description="Time of the attempt, in Unix seconds.")
]
_EventId = Annotated[
    str,
    Header(
        alias=EVENT_ID_HEADER,
        description="Id of the event, the same in every attempt and replay.",
    ),
]
_Signature = Annotated[
    str | None,
    Header(
        alias=SIGNATURE_HEADERS[0],
        description="`sha256=` and the HMAC-SHA256 of the body in hexadecimal, keyed with the "
        f"job's `webhook_secret`; absent without one. `{SIGNATURE_HEADERS[1]}` has the same value.",
    ),
]

operations: Final = APIRouter(tags=["webhooks"])


@operations.post(
    "jobEnded",
    operation_id="jobEnded",
    summary="A job has ended",
    responses=_RESPONSES,
    openapi_extra={"security": []},
)
def job_ended(
    body: Annotated[WebhookA | WebhookB, Body()],
    event: _Event,
    sent_at: _SentAt,
    event_id: _EventId,
    signature: _Signature = None,
) -> None:
    """Sent to `webhook_url` once a job is completed, failed or cancelled.

    The service uses one of two profiles: A names the event after the job's state, B after its
    kind, with counts in `data`.
    """


@operations.post(
    "pageDone",
    operation_id="pageDone",
    summary="A page of a crawl is final",
    responses=_RESPONSES,
    openapi_extra={"security": []},
)
def page_done(
    body: WebhookB,
    event: _Event,
    sent_at: _SentAt,
    event_id: _EventId,
    signature: _Signature = None,
) -> None:
    """Sent for each page of a crawl if the service has profile B and page events enabled."""
