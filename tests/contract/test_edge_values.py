"""Values at the limits of the contract, each of which was once handled wrongly."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.contract.test_requests import refused, taken
from tests.contract.test_signature import BODY, GOOD, SECRET
from webdata_nb.contract import paths
from webdata_nb.contract.events import sign, verify_signature
from webdata_nb.contract.requests import (
    CrawlRequest,
    CreativesRequest,
    ScrapeOptions,
    SearchRequest,
)


@pytest.mark.parametrize("job_id", ["", ".", ".."])
def test_invalid_path_segment_is_rejected(job_id: str) -> None:
    with pytest.raises(ValueError, match="segment"):
        paths.fill(paths.JOB_CANCEL, job_id=job_id)


@pytest.mark.parametrize(
    "url",
    [
        "http://exam\nple.com/",
        "http://exam\tple.com/",
        "http://a b/",
        "http://site.test:99999/",
        "http://site.test:x/",
        "http://site.test/\x00",
        "http://\ud800.test/",
    ],
)
def test_urls_that_parsers_repair_are_rejected(url: str) -> None:
    assert refused(CrawlRequest, url=url) == ["url"]


@pytest.mark.parametrize("value", ["", " ", "10", "1e3"])
def test_quoted_number_is_not_a_selector(value: str) -> None:
    assert refused(ScrapeOptions, wait_for=value) == ["wait_for"]


@pytest.mark.parametrize("value", [0, True, 300_001, []])
def test_error_of_wait_for_has_the_field_path(value: Any) -> None:
    assert refused(ScrapeOptions, wait_for=value) == ["wait_for"]


def test_wait_for_is_number_or_selector() -> None:
    assert taken(ScrapeOptions, wait_for=10.0).wait_for == 10
    assert taken(ScrapeOptions, wait_for="#ready > p").wait_for == "#ready > p"


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (SearchRequest, {"extract": {"schema_": {}}}),
        (CreativesRequest, {"start_urls": "https://ads.test/advertiser/AR2"}),
    ],
)
def test_python_field_names_are_not_accepted(model: Any, body: dict[str, Any]) -> None:
    refused(model, **body)


@pytest.mark.parametrize(
    "value", ["2026-02-30..2026-03-01", "2026-13-01..2026-13-02", "2026-02-02..2026-02-01"]
)
def test_invalid_date_range_is_rejected(value: str) -> None:
    assert refused(CreativesRequest, date_range=value) == ["date_range"]


def test_header_value_beyond_latin_1_is_rejected() -> None:
    assert refused(SearchRequest, headers={"X": "Ж"}) == ["headers"]
    taken(SearchRequest, headers={"X": "ä"})


@pytest.mark.parametrize("text", ["a\x00b", "\ud800"])
def test_text_with_surrogates_or_nul_is_rejected(text: str) -> None:
    with pytest.raises(ValidationError):
        taken(SearchRequest, query=text)
    with pytest.raises(ValidationError):
        taken(SearchRequest, extract={"prompt": text})


@pytest.mark.parametrize("other", [sign(BODY, "other"), GOOD])
@pytest.mark.parametrize("last", [True, False])
def test_two_signature_headers(other: str, last: bool) -> None:
    values = [other, GOOD] if last else [GOOD, other]
    headers = dict(zip(("x-service-signature", "X-Service-Signature"), values, strict=True))
    assert not verify_signature(BODY, headers, SECRET)
