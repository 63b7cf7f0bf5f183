"""Page options of crawls: passed directly, in `scrape_options`, and the forms of `extract`."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import re
from collections.abc import Callable
from typing import Any, Literal, cast

import pytest
from pydantic import BaseModel

from tests.api.receipts import SITE
from tests.wire_service import KEY, WireService
from webdata_nb.contract import paths
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit import api, session
from webdata_nb.toolkit.api import Session, connect
from webdata_nb.toolkit.cache.result_cache import CacheKey
from webdata_nb.toolkit.requests.inputs import JobSpec, extract_request
from webdata_nb.toolkit.requests.options import CrawlPageOptions, ScrapeOptionsDict


class Offer(BaseModel):
    """An offer."""

    price: float
    currency: str | None = None


class Product(BaseModel):
    """A product with offers."""

    name: str
    offers: list[Offer]


class NotPydantic:
    """A class without a schema."""


# One pair per option: as an argument, and as an entry of scrape_options.
PAIRS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"formats": ["links"]}, {"formats": ["links"]}),
    ({"only_main_content": False}, {"only_main_content": False}),
    ({"wait_for": "#main"}, {"wait_for": "#main"}),
    ({"page_timeout": 9000}, {"timeout": 9000}),
    ({"mobile": True}, {"mobile": True}),
    ({"mobile_device": "iPhone 15"}, {"mobile_device": "iPhone 15"}),
    ({"include_tags": ["main"]}, {"include_tags": ["main"]}),
    ({"exclude_tags": [".ad"]}, {"exclude_tags": [".ad"]}),
    ({"extract": {"name": str}}, {"extract": {"name": str}}),
    ({"headers": {"X-A": "1"}}, {"headers": {"X-A": "1"}}),
    ({"cookies": {"a": "b"}}, {"cookies": {"a": "b"}}),
    ({"render": "auto"}, {"render": "auto"}),
    (
        {"format_options": {"markdown": {"mode": "full"}}},
        {"format_options": {"markdown": {"mode": "full"}}},
    ),
]


# The page options that are entries of `scrape_options` alone in a crawl.
GROUPED = sorted(
    ScrapeOptionsDict.__annotations__.keys() - CrawlPageOptions.__annotations__.keys() - {"timeout"}
)


@pytest.mark.parametrize(("direct", "entries"), PAIRS)
@pytest.mark.parametrize("local", [True, False])
def test_both_forms_are_one_request(
    direct: dict[str, Any], entries: dict[str, Any], local: bool
) -> None:
    first = JobSpec.crawl(SITE, **direct)
    second = JobSpec.crawl(SITE, scrape_options=cast("ScrapeOptionsDict", entries))
    assert first == second
    assert first.body == second.body
    assert first.params(local=local) == second.params(local=local)


def test_every_page_option_of_the_signature_is_tested() -> None:
    tested = {name for direct, _ in PAIRS for name in direct}
    names = {name for name in inspect.signature(api.scrape_df).parameters if name in tested}
    assert names == tested
    entries = {entry for _, entries in PAIRS for entry in entries}
    assert entries == ScrapeOptionsDict.__annotations__.keys()


def test_forms_are_merged() -> None:
    spec = JobSpec.crawl(SITE, formats=["links"], scrape_options={"mobile": True})
    assert spec.body["scrape_options"] == {"formats": ["links"], "mobile": True}
    assert "links" in spec.columns


def test_request_without_page_options_is_unchanged() -> None:
    assert JobSpec.crawl(SITE, formats=None).body == {"url": SITE}
    assert JobSpec.crawl(SITE, scrape_options={}).body == {"url": SITE, "scrape_options": {}}


@pytest.mark.parametrize(
    ("spec", "local", "digest"),
    [
        (JobSpec.crawl(SITE), True, "ac0f51fad6ceb318b8628f0b677984e8"),
        (JobSpec.crawl(SITE), False, "7c1a9037e323a29b335e2ad64b368c45"),
        (
            JobSpec.crawl(SITE, scrape_options={"formats": ["links"]}),
            True,
            "23fc8baaee3bd018cdbb37255b30ec59",
        ),
        (JobSpec.crawl(SITE, formats=["links"]), False, "e7390dca8908e5f85c2580db28930d95"),
        (
            JobSpec.search("q", extract={"schema": {"type": "object"}}),
            False,
            "1926fc6fa349798ed15d25550adb1d4e",
        ),
    ],
)
def test_cache_keys_are_those_of_earlier_versions(spec: JobSpec, local: bool, digest: str) -> None:
    params = spec.params(local=local)
    key = CacheKey.of(spec.op, base_url="https://a.test", identity="me", params=params)
    assert key.digest == digest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"formats": ["links"], "scrape_options": {"formats": ["markdown"]}},
            r'formats= and scrape_options\["formats"\] are the same option: pass one of them',
        ),
        (
            {"page_timeout": 5000, "scrape_options": {"timeout": 5000}},
            r'page_timeout= and scrape_options\["timeout"\] are the same option',
        ),
        ({"formats": ["pdf"]}, r"^formats "),
        ({"page_timeout": -1}, r"^page_timeout "),
        ({"scrape_options": {"timeout": -1}}, r"^scrape_options\.timeout "),
        ({"extract": {"prompt": 5}}, r"^extract"),
        ({"render": False, "wait_for": 10}, r"^render false"),
        ({"render": False, "scrape_options": {"wait_for": 10}}, r"^scrape_options: render false"),
        ({"render": "x"}, r"^render must be True, False or 'auto'; it is 'x'"),
        ({"extract": 5}, r"^extract must be a pydantic class, .* it is 5"),
        ({"extract": {"prompt": "x", "shema": {}}}, r"^extract\.shema is not an option: did you"),
        ({"scrape_options": ["formats"]}, r"^scrape_options must be a dictionary"),
        ({"scrape_options": {"page_timeout": 5}}, r"^scrape_options\.page_timeout is not an"),
    ],
)
def test_wrong_page_options_are_named_as_passed(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        JobSpec.crawl(SITE, **options)


@pytest.mark.parametrize("function", [api.crawl_df, api.crawl_job, api.watch_df, api.acrawl_df])
@pytest.mark.parametrize(
    ("option", "form"),
    [
        *((name, f'scrape_options={{"{name}": ...}}') for name in GROUPED),
        ("page_timeout", 'scrape_options={"timeout": ...}'),
        ("user_agent", 'scrape_options={"headers": ...}'),
        ("purpose", 'rights="..."'),
    ],
)
async def test_an_option_of_a_dict_as_an_argument_is_refused_with_its_form(
    function: Callable[..., Any], option: str, form: str
) -> None:
    name = function.__name__
    message = f"{name}() got an unexpected keyword argument {option!r}: give it as {form}"
    with pytest.raises(TypeError, match=re.escape(message)):
        await asyncio.to_thread(lambda: _awaited(function(SITE, **{option: 1})))


def test_the_size_of_partitions_of_crawls_is_refused() -> None:
    with pytest.raises(TypeError, match="a crawl is a partition of its own"):
        api.crawl_df([SITE], executor="dask", out="parts", partition=4)  # type: ignore[call-overload]


def _awaited(result: Any) -> Any:
    return asyncio.run(result) if inspect.iscoroutine(result) else result


# Extraction


@pytest.mark.parametrize(
    ("extract", "request_value"),
    [
        (None, None),
        ({"prompt": "the name"}, {"prompt": "the name"}),
        ({}, {}),
        (
            {"schema": {"type": "object"}, "model": "m"},
            {"schema": {"type": "object"}, "model": "m"},
        ),
        (
            {"schema": {"a": str}, "model": None},
            {
                "schema": {"type": "object", "properties": {"a": {"type": "string"}}},
                "model": None,
            },
        ),
        (
            {"schema": {"name": "string"}, "prompt": "p"},
            {"schema": {"name": "string"}, "prompt": "p"},
        ),
        ({"schema": Offer, "prompt": "p"}, {"schema": Offer.model_json_schema(), "prompt": "p"}),
        (Product, {"schema": Product.model_json_schema()}),
        ({"type": "object"}, {"schema": {"type": "object"}}),
        (
            {"name": str, "price": float, "model": str},
            {
                "schema": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "price": {"type": "number"},
                        "model": {"type": "string"},
                    },
                }
            },
        ),
        (
            {"model": str},
            {"schema": {"type": "object", "properties": {"model": {"type": "string"}}}},
        ),
        (
            {"price": {"type": "number", "minimum": 0}},
            {
                "schema": {
                    "type": "object",
                    "properties": {"price": {"type": "number", "minimum": 0}},
                }
            },
        ),
    ],
)
def test_forms_of_extract(extract: Any, request_value: Any) -> None:
    assert extract_request(extract) == request_value


def test_types_of_fields() -> None:
    schema = extract_request(
        {
            "day": dt.date,
            "kind": Literal["a", "b"],
            "tags": [str],
            "maker": {"name": str, "type": str},
            "offers": list[Offer],
            "best": Offer,
        }
    )["schema"]
    assert schema["properties"]["day"] == {"type": "string", "format": "date"}
    assert schema["properties"]["kind"]["enum"] == ["a", "b"]
    assert schema["properties"]["tags"]["items"] == {"type": "string"}
    assert list(schema["properties"]["maker"]["properties"]) == ["name", "type"]
    assert schema["properties"]["offers"]["items"] == {"$ref": "#/$defs/Offer"}
    assert list(schema["$defs"]) == ["Offer"]


@pytest.mark.parametrize(
    ("extract", "message"),
    [
        (NotPydantic, "extract must be a pydantic class, .* it is the class NotPydantic"),
        ({"price": float, "name": "str"}, r"extract\['name'\] must be a type .* it is 'str'"),
        ({"price": float, "name": NotPydantic}, r"extract\['name'\] must be a type .*NotPydantic"),
        ({"price": float, "tags": [str, int]}, r"extract\['tags'\] must be a list of one type"),
    ],
)
def test_wrong_types_are_named(extract: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        JobSpec.crawl(SITE, extract=extract)


# Functions


FUNCTIONS: list[tuple[Callable[..., Any], str]] = [
    (api.crawl_df, SITE),
    (api.scrape_df, SITE),
]


@pytest.mark.parametrize(("function", "url"), FUNCTIONS)
def test_call_in_other_form_is_answered_by_cache(
    service: WireService, monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], url: str
) -> None:
    monkeypatch.setenv("WEBDATA_BASE_URL", service.url)
    monkeypatch.setenv("WEBDATA_API_KEY", KEY)
    first = function(url, scrape_options={"formats": ["links"]})
    second = function(url, formats=["links"])
    assert "links" in second.columns
    assert second.equals(first)
    assert second.attrs["webdata"]["cache"] == "hit"
    session.default_connection().close()


async def test_every_form_of_a_crawl_takes_page_options(
    service: WireService, connected: Session
) -> None:
    entries = {"timeout": 9000}
    options: dict[str, Any] = {"formats": ["links"], "scrape_options": entries, "cache": False}
    await connected.acrawl_df(SITE, **options)
    async for _ in connected.crawl_df(SITE, stream=True, **options):
        pass
    await connected.ascrape_df(SITE, **options)
    del options["cache"]
    await connected.acrawl_job(SITE, **options)
    bodies = service.posted(paths.CRAWL)
    assert len(bodies) == 4
    wanted = {"formats": ["links"], "timeout": 9000}
    assert [body["scrape_options"] for body in bodies] == [wanted] * 4


@pytest.mark.usefixtures("connected")
def test_omitted_options_are_not_sent(service: WireService) -> None:
    api.crawl_df(SITE, cache=False)
    api.search_df("q", cache=False)
    assert service.posted(paths.CRAWL) == [{"url": SITE}]
    assert service.posted(paths.SEARCH) == [{"query": "q"}]


def test_estimate_and_history_take_methods_of_a_session(
    service: WireService, connected: Session
) -> None:
    service.weights = [{"platform": "crawl", "operation": "page", "weight": 2}]
    cost = api.estimate(connected.crawl_df, SITE, max_pages=5)
    assert cost.credits == 10
    connected.crawl_df(SITE, max_pages=5)
    assert len(api.history_df(connected.acrawl_df, SITE, max_pages=5)) > 0
    assert api.estimate(connected.crawl_df, SITE, max_pages=5).cached == 1
    other = connect(base_url="http://other.test", api_key=KEY)
    assert len(api.history_df(other.crawl_df, SITE, max_pages=5)) == 0


def test_signatures_show_defaults_of_the_service() -> None:
    crawl = inspect.signature(api.crawl_df).parameters
    assert crawl["max_pages"].default == 100
    assert crawl["formats"].default == ("markdown",)
    assert inspect.signature(api.scrape_df).parameters["page_timeout"].default == 30
    assert crawl["timeout"].default is None
    assert crawl["scrape_options"].default is None
    assert inspect.signature(api.search_df).parameters["num_results"].default == 10
    assert inspect.signature(api.scrape_df).parameters["respect_robots_txt"].default is True
    assert inspect.signature(api.creatives_df).parameters["limit"].default is None
    assert inspect.signature(Session.crawl_df).parameters["max_pages"].default == 100
