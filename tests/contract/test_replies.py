"""Part 2, the stream's events and the webhooks: read leniently, nothing lost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from webdata_nb.contract import events, replies
from webdata_nb.contract.outcomes import JobStatus

EXAMPLES: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (
        replies.StartReply,
        {"success": True, "job_id": "j", "status": "started", "message": "q"},
    ),
    (
        replies.SearchStatus,
        {
            "success": True,
            "job_id": "j",
            "status": "running",
            "query": "q",
            "engine_requested": "engine_one",
            "engine_used": "engine_two",
            "provider_used": "p",
            "fallback_used": True,
            "fallback_chain": [
                {"provider": "p", "status": "ok", "results_count": 2, "elapsed_ms": 12.5}
            ],
            "total_results": 2,
            "completed_results": 1,
            "time_taken": 0.5,
            "data": [{"id": "r1", "url": "u", "rank": 1, "anything": [1]}],
        },
    ),
    (
        replies.CrawlStatus,
        {
            "success": True,
            "job_id": "j",
            "status": "completed",
            "total_pages": 1,
            "completed_pages": 1,
            "total_results": 1,
            "page": 1,
            "per_page": 100,
            "data": [{"markdown": "#", "depth": 0}],
            "receipt": {"counts": {"fetched": 1}, "examples": {"robots": ["u"]}},
        },
    ),
    (
        replies.CreativesReply,
        {
            "success": True,
            "source": "partner_ads_transparency",
            "operation": "creatives",
            "advertiser_id": "AR1",
            "region": "anywhere",
            "total_results": 1,
            "time_taken": 1.0,
            "creatives": [{"position": 1, "creative_id": "CR1"}],
            "cursor": "c",
        },
    ),
    (replies.CancelReply, {"success": True, "message": "m", "job_id": "j"}),
    (replies.CancelReply, {"success": True, "job_id": "j", "status": "cancelled"}),
    (
        replies.RetryReply,
        {
            "success": True,
            "message": "m",
            "original_job_id": "j",
            "new_job_id": "k",
            "type": "search",
        },
    ),
    (replies.RetryReply, {"success": True, "job_id": "k", "status": "pending"}),
    (
        replies.SearchExport,
        {"query": "q", "results": [{"url": "u", "title": "t", "snippet": "s", "success": True}]},
    ),
    (replies.Weight, {"platform": "search", "operation": "scrape", "weight": 2.0}),
    (
        events.Progress,
        {"job_id": "j", "type": "crawl", "status": "running", "completed": 1, "total": 2},
    ),
    (events.Ranked, {"job_id": "j", "position": 0, "rank": 1, "url": "u"}),
    (events.PageDone, {"job_id": "j", "position": 0, "url": "u", "success": False}),
    (events.Done, {"job_id": "j", "status": "failed", "error": "e"}),
    (
        events.WebhookA,
        {
            "event": "job.failed",
            "job_id": "j",
            "job_type": "search",
            "status": "failed",
            "total_pages": 2,
            "completed_pages": 1,
        },
    ),
    (
        events.WebhookB,
        {
            "event": "crawl.completed",
            "job_id": "j",
            "status": "completed",
            "timestamp": "2026-01-01T00:00:00Z",
            "data": {"total_pages": 2},
        },
    ),
]


@pytest.mark.parametrize(("model", "body"), EXAMPLES)
def test_reply_round_trips(model: type[BaseModel], body: dict[str, Any]) -> None:
    reply = model.model_validate(body)
    assert reply.model_dump(mode="json", exclude_unset=True) == body
    assert model.model_validate_json(reply.model_dump_json()) == model.model_validate(body)


@pytest.mark.parametrize(("model", "body"), EXAMPLES)
def test_unknown_fields_are_kept(model: type[BaseModel], body: dict[str, Any]) -> None:
    reply = model.model_validate({**body, "of_tomorrow": {"a": [1]}})
    assert reply.model_extra == {"of_tomorrow": {"a": [1]}}
    assert reply.model_dump(mode="json", exclude_unset=True)["of_tomorrow"] == {"a": [1]}


@pytest.mark.parametrize(("model", "body"), EXAMPLES)
def test_reply_is_frozen(model: type[BaseModel], body: dict[str, Any]) -> None:
    reply = model.model_validate(body)
    with pytest.raises(ValidationError):
        setattr(reply, next(iter(body)), None)


def test_a_retry_names_the_new_job_in_both_variants() -> None:
    assert replies.RetryReply(success=True, new_job_id="k", original_job_id="j").started == "k"
    assert replies.RetryReply(success=True, job_id="k").started == "k"


def test_rows_of_a_search_and_of_a_crawl() -> None:
    row = {"id": "r", "url": "u", "rank": 1, "links": ["a"], "extract": [1], "later": 1}
    assert replies.SearchItem.model_validate(row).model_extra == {"later": 1}
    for missing in ("id", "url", "rank"):
        with pytest.raises(ValidationError, match=missing):
            replies.SearchItem.model_validate({k: v for k, v in row.items() if k != missing})
    page = {"url": "u", "fetched_at": "2026-01-01T00:00:00Z", "quality": {"x": 1}}
    assert replies.CrawlPage.model_validate(page).fetched_at == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (JobStatus.COMPLETED, "job.completed"),
        (JobStatus.FAILED, "job.failed"),
        (JobStatus.CANCELLED, "job.cancelled"),
    ],
)
def test_names_of_the_terminal_events(status: JobStatus, name: str) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    crawl = events.WebhookJob("j", "crawl", status, "http://site.test/", total=1, completed=1)
    search = events.WebhookJob("j", "search", status, "query", total=1, completed=1)
    assert events.job_ended(events.Profile.A, crawl, at).event == name
    assert events.job_ended(events.Profile.B, crawl, at).event == "crawl.completed"
    assert events.job_ended(events.Profile.B, search, at).event == "search.completed"


@pytest.mark.parametrize(
    ("usage", "cost", "reserved", "unlimited"),
    [
        ({}, None, None, False),
        ({"credits": 2, "credits_reserved": None, "credits_unlimited": True}, 2.0, None, True),
        ({"credits": 2.5, "credits_reserved": 10}, 2.5, 10.0, False),
        ({"credits": {"used": 2}, "credits_reserved": "some"}, None, None, False),
        ({"credits": True, "credits_reserved": [1], "credits_unlimited": 1}, None, None, False),
    ],
)
@pytest.mark.parametrize(
    ("model", "named"),
    [
        (replies.CrawlStatus, {}),
        (replies.SearchStatus, {}),
        (events.Progress, {"type": "crawl"}),
    ],
)
def test_credits_accept_only_finite_numbers(
    model: type[events.Cost],
    named: dict[str, object],
    usage: dict[str, object],
    cost: float | None,
    reserved: float | None,
    *,
    unlimited: bool,
) -> None:
    reply = model.model_validate({"job_id": "j", "status": "running", **named, **usage})
    assert (reply.credits, reply.credits_reserved) == (cost, reserved)
    assert reply.credits_unlimited is unlimited
