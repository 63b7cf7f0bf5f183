"""The webhooks of the document: what a job's endpoint is sent. No route of the service's own."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Header

from webdata_nb.contract.events import (
    DELIVERY_HEADER,
    EVENT_HEADERS,
    EVENT_ID_HEADER,
    SIGNATURE_HEADERS,
    WebhookA,
    WebhookB,
)

_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Acknowledged. Which answers count as such, the guide of webhooks says."},
    "default": {"description": "Not acknowledged: attempted again, a bounded number of times."},
}
_Event = Annotated[
    str,
    Header(
        alias=EVENT_HEADERS[0],
        description=f"Name of the event; `{EVENT_HEADERS[1]}` says the same.",
    ),
]
_SentAt = Annotated[
    int, Header(alias=DELIVERY_HEADER, description="When the attempt was sent, in Unix seconds.")
]
_EventId = Annotated[
    str,
    Header(
        alias=EVENT_ID_HEADER,
        description="Id of the event, in every attempt and replay: drop what came before.",
    ),
]
_Signature = Annotated[
    str | None,
    Header(
        alias=SIGNATURE_HEADERS[0],
        description="`sha256=` and the HMAC-SHA256 of the body in hexadecimal, keyed with the "
        f"job's `webhook_secret`; absent without one. `{SIGNATURE_HEADERS[1]}` says the same.",
    ),
]

router = APIRouter(tags=["webhooks"])


@router.post(
    "jobEnded",
    operation_id="jobEnded",
    summary="A job has ended",
    responses=_ANSWERS,
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

    The service follows one of two profiles: A names the event after the job's state, B after its
    kind, with the counts in `data`.
    """


@router.post(
    "pageDone",
    operation_id="pageDone",
    summary="A page of a crawl is there",
    responses=_ANSWERS,
    openapi_extra={"security": []},
)
def page_done(
    body: WebhookB,
    event: _Event,
    sent_at: _SentAt,
    event_id: _EventId,
    signature: _Signature = None,
) -> None:
    """Sent for each page of a crawl, by a service of profile B that is set to tell of pages."""
