"""What jobs may cost, and did."""

from __future__ import annotations

from typing import Any

import pytest

from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.contract.requests import CrawlRequest, SearchRequest
from webdata_nb.service import ledger
from webdata_nb.service.pages import render_options

EMPTY = b'<html><body><div id="root"></div><script src="/app.js"></script></body></html>'
SCHEMA = {"schema": {"type": "object", "properties": {"a": {"type": "string"}}}}


@pytest.mark.parametrize(
    ("request_", "cost"),
    [
        (SearchRequest(query="q", formats=()), 1),
        (SearchRequest(query="q", num_results=7), 8),
        (SearchRequest.model_validate({"query": "q", "num_results": 7, "extract": SCHEMA}), 36),
        (CrawlRequest(url="http://x/", max_pages=30), 30),
        (
            CrawlRequest.model_validate(
                {"url": "http://x/", "max_pages": 3, "scrape_options": {"extract": SCHEMA}}
            ),
            15,
        ),
        (
            CrawlRequest.model_validate(
                {"url": "http://x/", "max_pages": 3, "scrape_options": {"render": "auto"}}
            ),
            9,
        ),
    ],
)
def test_max_charges_are_those_of_complete_success(
    request_: SearchRequest | CrawlRequest, cost: int
) -> None:
    assert sum(charge.credits for charge in ledger.max_charges(request_)) == cost


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"render": True},
        {"render": "auto"},
        {"render": False},
        {"render": False, "mobile": True},
        {"render": False, "mobile_device": "Pixel 7"},
        {"wait_for": 10},
        {"wait_for": ".ready"},
        {"mobile": True},
        {"mobile": False},
        {"mobile_device": "Pixel 7"},
        {"formats": ["screenshot"]},
    ],
)
def test_rendering_is_reserved_if_a_page_may_need_it(options: dict[str, Any]) -> None:
    wanted = CrawlRequest.model_validate({"url": "http://x/", "scrape_options": options})
    chosen = wanted.scrape_options
    look = render_options(
        chosen.formats,
        chosen.format_options,
        mobile=chosen.mobile,
        mobile_device=chosen.mobile_device,
        wait_for=chosen.wait_for,
        render=chosen.render,
    )
    assert chosen.may_render == bool(look.needs_browser(EMPTY))


def test_jobs_are_charged_by_their_rows() -> None:
    rows = {"page": 3, "page,extract": 2, "page,extract,render": 1, "": 4}
    spent = ledger.final_charges("crawl", JobStatus.CANCELLED, rows, any_row=True)
    assert {charge.operation: charge.units for charge in spent} == {
        "page": 6,
        "extract": 3,
        "render": 1,
    }


@pytest.mark.parametrize(
    ("state", "any_row", "units"),
    [
        (JobStatus.COMPLETED, False, 1),
        (JobStatus.CANCELLED, True, 1),
        (JobStatus.CANCELLED, False, 0),
        (JobStatus.FAILED, False, 0),
    ],
)
def test_discovery_is_charged_for_rows_or_completion(
    state: JobStatus, any_row: bool, units: int
) -> None:
    spent = ledger.final_charges("search", state, {"": 2} if any_row else {}, any_row=any_row)
    assert sum(charge.units for charge in spent) == units
