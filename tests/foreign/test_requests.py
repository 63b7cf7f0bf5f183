"""What the toolkit asks a service of another maker: no more than it needs, and nothing runs on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.foreign.service import KEY, Fields, ForeignService, Variant
from webdata_nb import errors
from webdata_nb.toolkit.api import Session, connect

START = "https://site.test/"
STRICT = (Variant(), Variant(refusal=400, error_body="empty", names_field=False))
LENIENT = Variant(strict=False)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBDATA_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def service(request: pytest.FixtureRequest) -> Iterator[ForeignService]:
    with ForeignService(getattr(request, "param", None)) as running:
        yield running


@pytest.fixture
def session(service: ForeignService) -> Iterator[Session]:
    with connect(base_url=service.url, api_key=KEY) as made:
        yield made


each_strict = pytest.mark.parametrize("service", STRICT, ids=("422", "400"), indirect=True)


@each_strict
def test_a_refused_parameter_is_sent_once(service: ForeignService, session: Session) -> None:
    session.search_df("boats", num_results=2, formats=[])
    session.crawl_df(START)
    assert sorted(service.refused) == ["include_data", "include_data", "wait", "wait"]
    session.search_df("ships", num_results=2, formats=[])
    session.crawl_df(f"{START}b")
    with connect(base_url=service.url, api_key=KEY) as other:
        other.crawl_df(f"{START}c")
    assert len(service.refused) == 4


@each_strict
def test_a_service_without_pages_is_asked_for_them_once(
    service: ForeignService, session: Session
) -> None:
    service.variant = replace(service.variant, paging="first")
    service.site_pages = 45
    for name in "abc":
        assert len(session.crawl_df(START + name)) == 45
    assert sorted(service.refused) in (
        ["include_data", "page", "per_page"],
        ["include_data", "page", "page"],  # of the service that names none
    )


@each_strict
def test_a_wrong_request_is_not_blamed_on_a_parameter(
    service: ForeignService, session: Session
) -> None:
    service.answers_starts = False
    with pytest.raises(errors.InvalidRequest) as caught:
        session.search_df("boats", formats=[])
    assert "wait" not in str(caught.value)
    service.answers_starts, count = True, len(service.requests)
    session.search_df("ships", formats=[])
    assert "wait" in service.requests[count][2]
    assert not service.running


@each_strict
@pytest.mark.parametrize("kind", ["search", "crawl"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_job_that_cannot_be_read_is_cancelled(
    service: ForeignService, session: Session, kind: str, stream: bool
) -> None:
    service.unreadable = True
    call: Callable[..., Any] = session.search_df if kind == "search" else session.crawl_df
    with pytest.raises(errors.InvalidRequest) as caught:
        list(call(START, stream=stream))
    (job,) = service.jobs.values()
    assert job.status == "cancelled"
    if not stream:
        assert "was cancelled, since its state cannot be read" in caught.value.__notes__[0]


def test_a_reply_without_a_readable_status_cancels_the_job(
    service: ForeignService, session: Session
) -> None:
    service.alter = lambda reply: {**reply, "status": ["?"]} if "data" in reply else reply
    with pytest.raises(errors.BadAnswer, match="'status'"):
        session.crawl_df(START)
    assert not service.running


# ---------------------------------------------------------------------------------------- types


def as_texts(reply: Fields) -> Fields:
    """Send numbers as texts, texts in capitals, and a text where an object is due."""
    counts = {name: str(value) for name, value in reply.items() if type(value) is int}
    status = {"status": reply["status"].upper()} if "status" in reply else {}
    odd = {"time_taken": "3 s", "message": {"text": "go"}, "engine_used": 1, "fallback_chain": [{}]}
    return {**reply, **counts, **status, **odd, "receipt": "none", "success": "yes"}


def test_harmless_types_are_read(service: ForeignService, session: Session) -> None:
    service.alter = as_texts
    service.site_pages = 60
    assert len(session.crawl_df(START)) == 60
    assert len(session.search_df("boats", num_results=3)) == 3
    assert len(session.creatives_df("AR1")) == 5
    session.crawl_job(START).cancel().retry().wait()


def test_only_what_is_needed_is_required(service: ForeignService, session: Session) -> None:
    needed = {"job_id", "status", "data", "creatives", "cursor", "new_job_id"}
    service.alter = lambda reply: {name: reply[name] for name in needed & reply.keys()}
    service.site_pages = 60
    assert session.crawl_df(START)["url"].nunique() == 60
    assert session.search_df("boats", num_results=3)["rank"].tolist() == [1, 2, 3]
    assert len(session.creatives_df("AR1")) == 5
    session.crawl_job(START).cancel().retry().wait()
    session.search_job("boats").cancel().retry().wait()


def test_creatives_without_an_id_are_not_one(service: ForeignService, session: Session) -> None:
    service.alter = lambda reply: {
        **reply,
        "creatives": [
            {"preview_url": f"{START}{row['creative_id']}"} for row in reply["creatives"]
        ],
    }
    assert len(session.creatives_df("AR1")) == 5


# ---------------------------------------------------------------------------------------- bytes

ROWS = 1000
PAGINGS = {
    "pages": Variant(),
    "pages, not strict": LENIENT,
    "pages of a fixed size": Variant(paging="fixed", page_size=100),
    "pages of a fixed size, not strict": Variant(paging="fixed", page_size=100, strict=False),
    "first page": Variant(paging="first"),
    "first page, not strict": Variant(paging="first", strict=False),
}


@pytest.mark.parametrize(
    "service",
    [
        pytest.param(variant, id=name, marks=[pytest.mark.slow] if "pages" in name else [])
        for name, variant in PAGINGS.items()
    ],
    indirect=True,
)
def test_rows_arrive_once(service: ForeignService, session: Session) -> None:
    """A job of 1,000 rows that takes 30 status replies sends 5 % more than the rows at most."""
    service.site_pages, service.steps, service.row_bytes = ROWS, 30, 600
    if service.variant.paging == "first":
        service.steps = 1  # each reply has the first page, so that only their number counts
    assert len(session.crawl_df(START)) == ROWS
    (job,) = service.jobs.values()
    rows = len(json.dumps(service._rows(job)))
    assert sum(service.sent_bytes.values()) / rows < 1.05


@pytest.mark.parametrize("strict", [True, False])
def test_rows_in_the_last_status_reply_are_not_read_again(strict: bool) -> None:
    variant = Variant(paging="whole", strict=strict, page_size=ROWS)
    with (
        ForeignService(variant) as service,
        connect(base_url=service.url, api_key=KEY) as session,
    ):
        service.site_pages, service.steps, service.row_bytes = ROWS, 0, 600
        assert len(session.crawl_df(START)) == ROWS
        rows = len(json.dumps(service._rows(next(iter(service.jobs.values())))))
        assert sum(service.sent_bytes.values()) / rows < 1.05
