"""Parts 4 and 8: what a caller may send, at both ends of every bound."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from webdata_nb.contract import limits
from webdata_nb.contract.requests import (
    CrawlRequest,
    CreativesRequest,
    ScrapeOptions,
    SearchRequest,
)

SEARCH: dict[str, Any] = {"query": "lighthouse"}
CRAWL: dict[str, Any] = {"url": "http://site.test/"}
CREATIVES: dict[str, Any] = {"advertiser_id": "AR1"}
BASE: dict[type[BaseModel], dict[str, Any]] = {
    SearchRequest: SEARCH,
    CrawlRequest: CRAWL,
    CreativesRequest: CREATIVES,
    ScrapeOptions: {},
}

# Part 8, from the document and not from `limits`.
BOUNDS = [
    (SearchRequest, "num_results", 1, 50),
    (CrawlRequest, "max_pages", 1, 1000),
    (CrawlRequest, "max_depth", 1, 10),
    (CrawlRequest, "concurrency", 1, 10),
    (CreativesRequest, "limit", 1, 40),
    (CreativesRequest, "timeout_ms", 5_000, 90_000),
    (ScrapeOptions, "timeout", 1, 300_000),
    (ScrapeOptions, "wait_for", 1, 300_000),
]


def refused(model: type[BaseModel], **changes: Any) -> list[str]:
    """Return the paths of the refused fields."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate({**BASE[model], **changes})
    return [".".join(map(str, error["loc"])) for error in caught.value.errors()]


def taken(model: type[BaseModel], **changes: Any) -> Any:
    return model.model_validate({**BASE[model], **changes})


@pytest.mark.parametrize(("model", "field", "low", "high"), BOUNDS)
def test_bounds_at_both_ends(model: type[BaseModel], field: str, low: int, high: int) -> None:
    for value in (low, high, float(low), float(high)):
        number = getattr(taken(model, **{field: value}), field)
        assert number == value
        assert type(number) is int
    for value in (low - 1, high + 1, -1, low + 0.5, float("inf"), float("nan"), 10**30):
        assert refused(model, **{field: value})[0].startswith(field)


@pytest.mark.parametrize(("model", "field", "low"), [bound[:3] for bound in BOUNDS])
def test_only_a_number_is_a_number(model: type[BaseModel], field: str, low: int) -> None:
    texts = [] if field == "wait_for" else [str(low), "10"]
    wrong: list[Any] = [*texts, True, False, [low], {}]
    for value in wrong:
        assert refused(model, **{field: value})[0].startswith(field)


@pytest.mark.parametrize(
    ("model", "field"),
    [
        (SearchRequest, "safe_search"),
        (SearchRequest, "only_main_content"),
        (SearchRequest, "mobile"),
        (CrawlRequest, "allow_external_links"),
        (CrawlRequest, "respect_robots_txt"),
        (CrawlRequest, "filter_faceted_urls"),
        (CreativesRequest, "skip_details"),
        (CreativesRequest, "should_download_assets"),
        (CreativesRequest, "should_download_previews"),
        (CreativesRequest, "ocr"),
    ],
)
def test_only_a_boolean_is_a_boolean(model: type[BaseModel], field: str) -> None:
    for value in (True, False):
        assert getattr(taken(model, **{field: value}), field) is value
    wrong: list[Any] = [0, 1, "true", "yes", []]
    for value in wrong:
        assert refused(model, **{field: value}) == [field]


@pytest.mark.parametrize("model", BASE)
def test_unknown_fields_are_refused(model: type[BaseModel]) -> None:
    assert refused(model, num_result=3) == ["num_result"]


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ("scrape_options", "format"),
        ("scrape_options.format_options", "json"),
        ("scrape_options.format_options.markdown", "modus"),
        ("scrape_options.format_options.screenshot", "depth"),
        ("scrape_options.extract", "prompts"),
    ],
)
def test_unknown_fields_are_refused_at_every_depth(outer: str, inner: str) -> None:
    value: dict[str, Any] = {inner: 1, **({"prompt": "p"} if "extract" in outer else {})}
    *above, last = outer.split(".")
    body: dict[str, Any] = {last: value}
    for name in reversed(above):
        body = {name: body}
    assert refused(CrawlRequest, **body) == [f"{outer}.{inner}"]


def test_defaults() -> None:
    search, crawl, creatives = taken(SearchRequest), taken(CrawlRequest), taken(CreativesRequest)
    assert (search.num_results, search.engine, search.language) == (10, "engine_one", "en")
    assert (search.formats, search.only_main_content) == (("markdown",), True)
    assert (search.safe_search, search.country) == (False, None)
    assert (crawl.max_pages, crawl.max_depth, crawl.concurrency) == (100, 10, 5)
    assert (crawl.crawl_strategy, crawl.allow_external_links) == ("bfs", False)
    assert (crawl.respect_robots_txt, crawl.filter_faceted_urls) == (True, False)
    options = crawl.scrape_options
    assert (options.formats, options.only_main_content, options.timeout) == (
        ("markdown",),
        True,
        30_000,
    )
    assert (creatives.limit, creatives.skip_details, creatives.region) == (40, True, "anywhere")


@pytest.mark.parametrize("field", ["query"])
@pytest.mark.parametrize("value", ["", " ", "\t\n", "x" * (limits.QUERY_LENGTH[1] + 1), 7, None])
def test_blank_query_is_rejected(field: str, value: Any) -> None:
    assert refused(SearchRequest, **{field: value}) == [field]


def test_longest_query_is_accepted() -> None:
    query = "x" * limits.QUERY_LENGTH[1]
    assert taken(SearchRequest, query=query).query == query


def test_formats() -> None:
    every = [
        "markdown",
        "html",
        "raw_html",
        "links",
        "images",
        "headings",
        "structured_data",
        "screenshot",
    ]
    assert taken(SearchRequest, formats=every).formats == tuple(every)
    assert taken(SearchRequest, formats=[]).formats == ()
    assert taken(SearchRequest, formats=["links", "links"]).formats == ("links",)
    assert refused(SearchRequest, formats=["markdown", "json"]) == ["formats.1"]
    assert refused(SearchRequest, formats="markdown") == ["formats"]
    assert refused(SearchRequest, formats=["Markdown"]) == ["formats.0"]


@pytest.mark.parametrize(
    ("model", "field", "good", "wrong"),
    [
        (SearchRequest, "engine", "engine_three", "engine_four"),
        (CrawlRequest, "crawl_strategy", "bff", "BFS"),
        (SearchRequest, "language", "pt-BR", "english!"),
        (SearchRequest, "country", "us", "usa"),
        (CreativesRequest, "date_range", "last_30_days", "last_31_days"),
        (CreativesRequest, "date_range", "2026-01-01..2026-01-31", "2026-01-01"),
        (CreativesRequest, "advertiser_id", "AR17828074650563772417", "AR 1"),
    ],
)
def test_choices_of_the_contract(model: type[BaseModel], field: str, good: str, wrong: str) -> None:
    assert getattr(taken(model, **{field: good}), field) == good
    assert refused(model, **{field: wrong}) == [field]


def test_a_country_is_lower_case() -> None:
    assert taken(SearchRequest, country="DE").country == "de"


@pytest.mark.parametrize(
    "url", ["http://site.test", "HTTPS://Site.test/a?b#c", " http://site.test/ ", "http://[::1]/"]
)
def test_absolute_urls(url: str) -> None:
    assert taken(CrawlRequest, url=url).url == url.strip()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "site.test",
        "//site.test",
        "/path",
        "ftp://site.test",
        "http://",
        "http:///x",
        "http://[::1",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://x/" + "a" * 2083,
        7,
        None,
    ],
)
def test_invalid_urls_are_rejected(url: Any) -> None:
    assert refused(CrawlRequest, url=url) == ["url"]


@pytest.mark.parametrize("field", ["include_paths", "exclude_paths"])
def test_patterns(field: str) -> None:
    assert getattr(taken(CrawlRequest, **{field: ["/a/**", "/a/**"]}), field) == ("/a/**",)
    assert refused(CrawlRequest, **{field: [" "]}) == [field]
    assert refused(CrawlRequest, **{field: ["/x"] * 201}) == [field]
    assert refused(CrawlRequest, **{field: "/x"}) == [field]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "x"},
        {"content-length": "1"},
        {"Cookie": "a=b"},
        {"a b": "c"},
        {"": "c"},
        {"X": "line\r\nbreak"},
        {"X": "\0"},
        {"X": "y" * 8193},
        {f"X-{n}": "y" for n in range(51)},
        {"X": 1},
        [],
    ],
)
def test_invalid_headers_are_rejected(headers: Any) -> None:
    assert refused(SearchRequest, headers=headers)[0].startswith("headers")


@pytest.mark.parametrize(
    "cookies", [{"a": "b;c"}, {"a": "b c"}, {"a": "ü"}, {"a b": "c"}, {"a": '"b"'}, {"a": 1}]
)
def test_invalid_cookies_are_rejected(cookies: Any) -> None:
    assert refused(SearchRequest, cookies=cookies)[0].startswith("cookies")


def test_valid_headers_and_cookies_are_accepted() -> None:
    taken(SearchRequest, headers={"X-Trace": "a\tb"}, cookies={"session": "abc=="})


def test_extract_needs_schema_or_prompt() -> None:
    taken(SearchRequest, extract={"prompt": "the price"})
    schema = {"type": "object", "properties": {"price": {"type": "number"}}}
    request = taken(SearchRequest, extract={"schema": schema})
    assert request.model_dump(by_alias=True)["extract"]["schema"] == schema
    assert refused(SearchRequest, extract={"provider": "p"}) == ["extract"]
    assert refused(SearchRequest, extract={"prompt": ""}) == ["extract.prompt"]


@pytest.mark.parametrize(
    ("capture", "full_page", "agree"),
    [
        ("full_page", True, True),
        ("viewport", False, True),
        ("full_page", None, True),
        (None, True, True),
        ("full_page", False, False),
        ("viewport", True, False),
    ],
)
def test_capture_and_full_page_agree(capture: Any, full_page: Any, agree: bool) -> None:
    options = {"screenshot": {"capture": capture, "full_page": full_page}}
    if agree:
        taken(SearchRequest, format_options=options)
    else:
        assert refused(SearchRequest, format_options=options) == ["format_options.screenshot"]


@pytest.mark.parametrize(
    ("options", "agree"),
    [
        ({"mobile_device": "iPhone 15", "mobile": True}, True),
        ({"formats": ["markdown", "screenshot"]}, False),
        ({"wait_for": 100}, False),
        ({"wait_for": "#app"}, False),
    ],
)
def test_browser_options_conflict_with_render_false(options: dict[str, Any], agree: bool) -> None:
    for render in (True, "auto", None):
        taken(CrawlRequest, scrape_options={**options, "render": render})
    if agree:
        taken(CrawlRequest, scrape_options={**options, "render": False})
    else:
        named = refused(CrawlRequest, scrape_options={**options, "render": False})
        assert named == ["scrape_options"]


@pytest.mark.parametrize("name", ["url", "startUrls"])
def test_an_advertiser_by_id_or_by_url(name: str) -> None:
    url = "https://ads.test/advertiser/AR9?region=DE"
    assert CreativesRequest.model_validate({name: url}).advertiser == "AR9"
    assert CreativesRequest.model_validate({name: url, "advertiser_id": "AR9"}).advertiser == "AR9"
    for wrong in ({}, {name: url, "advertiser_id": "AR8"}, {name: "https://ads.test/"}):
        with pytest.raises(ValidationError):
            CreativesRequest.model_validate(wrong)


def test_start_urls_is_another_name_of_url() -> None:
    url = "https://ads.test/advertiser/AR9"
    assert CreativesRequest.model_validate({"startUrls": [url]}).url == url
    for wrong in ({"startUrls": [url, url]}, {"startUrls": url, "url": url + "1"}):
        with pytest.raises(ValidationError):
            CreativesRequest.model_validate(wrong)


def test_an_error_does_not_show_the_value() -> None:
    with pytest.raises(ValidationError) as caught:
        taken(SearchRequest, webhook_secret=["sk-secret"], headers={"X": "sk-secret\n"})
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (
            SearchRequest,
            {
                "query": "q",
                "num_results": 7,
                "formats": ["links"],
                "format_options": {"markdown": {"mode": "full"}, "screenshot": {"width": 800}},
                "headers": {"X-A": "b"},
                "extract": {"schema": {"type": "object"}, "model": "m"},
                "webhook_url": "https://hook.test/",
            },
        ),
        (
            CrawlRequest,
            {
                "url": "http://site.test/",
                "max_pages": 3,
                "include_paths": ["/a/*"],
                "scrape_options": {
                    "wait_for": ".ready",
                    "include_tags": ["main"],
                    "render": "auto",
                },
            },
        ),
        (CreativesRequest, {"advertiser_id": "AR1", "cursor": "c", "date_range": "yesterday"}),
    ],
)
def test_request_round_trips(model: type[BaseModel], body: dict[str, Any]) -> None:
    request = model.model_validate(body)
    assert request.model_dump(mode="json", by_alias=True, exclude_unset=True) == body
    assert model.model_validate_json(request.model_dump_json(by_alias=True)) == request
