"""Every text, list and object of a request is bounded, in its schema and in the guide."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from webdata_nb.contract import limits
from webdata_nb.contract.local import SessionSettings, StopRequest
from webdata_nb.contract.requests import (
    CapturesRequest,
    CrawlRequest,
    CreativesRequest,
    ExtendedCrawlRequest,
    NoParameters,
    ScrapeOptions,
    SearchRequest,
    WebhookTest,
)

REQUESTS: list[type[BaseModel]] = [
    SearchRequest,
    CrawlRequest,
    CreativesRequest,
    CapturesRequest,
    ExtendedCrawlRequest,
    WebhookTest,
    NoParameters,
]
INTERNAL: list[type[BaseModel]] = [SessionSettings, StopRequest]
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "limits.md"
TABLE = {
    ("size of a body, bytes",): limits.BODY_BYTES,
    ("levels of nesting",): limits.BODY_DEPTH,
    ("list entries and object fields in all",): limits.BODY_VALUES,
    ("`query`", "characters"): limits.QUERY_LENGTH[1],
    ("`url`, `startUrls`, `webhook_url`", "characters"): limits.URL_LENGTH,
    ("`webhook_secret`", "characters"): limits.WEBHOOK_SECRET_LENGTH,
    ("`pages` of `POST /v1/verify`", "pages"): limits.PAGES_TO_VERIFY,
    ("`urls`", "pages"): limits.PAGE_URLS,
    ("`job_id` of `base`", "characters"): 36,
    ("`path`, `version`, `warc` of the local service", "characters"): limits.URL_LENGTH,
    ("`formats`", "entries"): limits.FORMATS,
    ("`language`", "characters"): limits.LANGUAGE_LENGTH,
    ("`country`", "characters"): 2,
    ("`include_paths`, `exclude_paths`", "entries of each"): limits.PATTERNS,
    ("`include_paths`, `exclude_paths`", "characters of one entry"): limits.URL_LENGTH,
    (
        "`include_paths`, `exclude_paths`",
        "characters of all entries of one list",
    ): limits.PATTERNS_SIZE,
    (
        "`include_paths`, `exclude_paths`",
        "wildcards (`*` or `**`) of one entry",
    ): limits.PATTERN_WILDCARDS,
    ("`include_tags`, `exclude_tags`", "entries of each"): limits.SELECTORS,
    (
        "`include_tags`, `exclude_tags`, `wait_for`",
        "characters of one CSS selector",
    ): limits.SELECTOR_LENGTH,
    (
        "`include_tags`, `exclude_tags`",
        "characters of all entries of one list",
    ): limits.SELECTORS_SIZE,
    ("`headers`, `cookies`", "entries of each"): limits.HEADERS,
    ("`headers`, `cookies`", "characters of a name"): limits.HEADER_NAME_LENGTH,
    ("`headers`, `cookies`", "characters of a value"): limits.HEADER_LENGTH,
    (
        "`headers`, `cookies`",
        "characters of all names and values of one object",
    ): limits.HEADERS_SIZE,
    ("`mobile_device`", "characters"): limits.DEVICE_LENGTH,
    ("`extract.prompt`", "characters"): limits.PROMPT_LENGTH,
    ("`extract.provider`", "characters"): limits.PROVIDER_LENGTH,
    ("`extract.model`", "characters"): limits.MODEL_LENGTH,
    ("`extract.schema`", "characters as compact JSON"): limits.SCHEMA_SIZE,
    ("`extract.schema`", "fields, references followed"): limits.SCHEMA_FIELDS,
    ("`extract.schema`", "levels"): limits.SCHEMA_DEPTH,
    ("`extract.schema`", "characters of a property's name"): limits.SCHEMA_NAME_LENGTH,
    ("`extract.schema`", "`enum` values of one field"): limits.SCHEMA_CHOICES,
    ("`extract.schema`", "`enum` values of all fields"): limits.SCHEMA_CHOICES_TOTAL,
    ("`advertiser_id`", "characters"): limits.ADVERTISER_ID_LENGTH,
    ("`region`", "characters"): limits.REGION_LENGTH,
    ("`cursor`", "characters"): limits.CURSOR_LENGTH,
    ("`date_range`", "characters"): limits.DATE_RANGE_LENGTH,
    ("`as_of`, `start`, `end`", "characters"): limits.TIME_LENGTH,
    ("`limit` of `POST /v1/captures`", "captures"): limits.CAPTURES_LISTED[1],
    ("`Idempotency-Key`", "characters"): limits.IDEMPOTENCY_KEY_LENGTH,
}


def unbounded(schema: Any, at: str = "") -> Iterator[str]:
    """Yield the places of a JSON Schema that bound neither length nor count."""
    if isinstance(schema, list):
        for index, each in enumerate(schema):
            yield from unbounded(each, f"{at}/{index}")
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "string" and not {"maxLength", "enum", "const"} & schema.keys():
        yield at
    if schema.get("type") == "array" and "maxItems" not in schema:
        yield at
    free = schema.get("type") == "object" and schema.get("additionalProperties", True)
    if free and "maxProperties" not in schema:
        yield at
    for name, each in schema.items():
        if name not in {"default", "examples"}:
            yield from unbounded(each, f"{at}/{name}")


@pytest.mark.parametrize("model", [*REQUESTS, *INTERNAL])
def test_no_field_is_without_a_bound(model: type[BaseModel]) -> None:
    # A schema to extract by is bounded by its size as JSON, for which JSON Schema has no word.
    found = [at for at in unbounded(model.model_json_schema()) if "/schema/" not in at]
    # One engine has one name, of three.
    assert [at for at in found if not at.endswith("/properties/engines")] == []


def bounded_fields() -> set[str]:
    """Return the names of all fields of requests that are texts, lists or free objects."""
    found = set[str]()

    def look(schema: Any) -> None:
        if isinstance(schema, list):
            for each in schema:
                look(each)
        if isinstance(schema, dict):
            for name, each in schema.get("properties", {}).items():
                if re.search(r"maxLength|maxItems|maxProperties", str(each)):
                    found.add(name)
            for each in schema.values():
                look(each)

    for model in REQUESTS:
        look(model.model_json_schema())
    return found


def test_guide_states_every_limit() -> None:
    rows = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in GUIDE.read_text().splitlines()
        if line.startswith("|") and re.search(r"[\d,]+ \|$", line)
    ]
    assert dict(zip((row[:-1] for row in rows), (row[-1] for row in rows), strict=True)) == {
        name: f"{limit:,}" for name, limit in TABLE.items()
    }


def test_guide_names_every_bounded_field() -> None:
    named = {part.rpartition(".")[2] for part in re.findall(r"`([\w.-]+)`", GUIDE.read_text())}
    assert bounded_fields() <= named


def message(model: type[BaseModel], body: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(body)
    [error] = caught.value.errors()
    return str(error["msg"])


@pytest.mark.parametrize(
    ("field", "value", "names"),
    [
        ("include_paths", ["/a"] * (limits.PATTERNS + 1), limits.PATTERNS),
        ("exclude_paths", ["/a"] * 100_000, limits.PATTERNS),
        ("include_paths", ["/" + "a" * limits.URL_LENGTH], limits.URL_LENGTH),
        ("include_paths", [f"/{n}" + "a" * 1000 for n in range(17)], limits.PATTERNS_SIZE),
        ("include_paths", ["/" + "a*" * 17], limits.PATTERN_WILDCARDS),
        ("exclude_paths", ["/" + "**/" * 17], limits.PATTERN_WILDCARDS),
    ],
)
def test_patterns_are_bounded(field: str, value: Any, names: int) -> None:
    assert str(names) in message(CrawlRequest, {"url": "http://a.test/", field: value})


@pytest.mark.parametrize("field", ["include_paths", "exclude_paths"])
def test_patterns_at_their_limits_are_accepted(field: str) -> None:
    patterns = [f"/{n:03}" + "*a" * 16 + "a" * 44 for n in range(limits.PATTERNS)]
    CrawlRequest.model_validate({"url": "http://a.test/", field: patterns})


@pytest.mark.parametrize(
    ("field", "value", "names"),
    [
        ("include_tags", ["a"] * (limits.SELECTORS + 1), limits.SELECTORS),
        ("exclude_tags", ["a" + ",a" * 225_000], limits.SELECTOR_LENGTH),
        ("include_tags", [f".c{n:03}" + "a" * 990 for n in range(17)], limits.SELECTORS_SIZE),
        ("wait_for", "a" * (limits.SELECTOR_LENGTH + 1), limits.SELECTOR_LENGTH),
        ("formats", ["markdown"] * (limits.FORMATS + 1), limits.FORMATS),
        ("mobile_device", "x" * (limits.DEVICE_LENGTH + 1), limits.DEVICE_LENGTH),
        ("headers", {f"X-{n}": "y" for n in range(51)}, limits.HEADERS),
        ("headers", {"X" * (limits.HEADER_NAME_LENGTH + 1): "y"}, limits.HEADER_NAME_LENGTH),
        ("headers", {f"X-{n}": "y" * 8000 for n in range(5)}, limits.HEADERS_SIZE),
        ("cookies", {f"c{n}": "y" * 8000 for n in range(5)}, limits.HEADERS_SIZE),
        ("cookies", {"c": "y" * (limits.HEADER_LENGTH + 1)}, limits.HEADER_LENGTH),
        ("extract", {"prompt": "x" * (limits.PROMPT_LENGTH + 1)}, limits.PROMPT_LENGTH),
        (
            "extract",
            {"schema": {"type": "object", "description": "x" * limits.SCHEMA_SIZE}},
            limits.SCHEMA_SIZE,
        ),
    ],
)
def test_scrape_options_are_bounded(field: str, value: Any, names: int) -> None:
    assert str(names) in message(ScrapeOptions, {field: value})


def test_schema_at_its_limits_is_accepted() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": list(range(1000))}}}
    assert ScrapeOptions.model_validate({"extract": {"schema": schema}})
