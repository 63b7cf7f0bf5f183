"""Tests every source of creatives with one suite, against stubs of the real services."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from tests.service.creatives.stubs import (
    LOOKUP,
    SEARCH,
    SUGGEST,
    TOKEN,
    GoogleStub,
    MetaStub,
    google_id,
    meta_error,
)
from tests.site.server import Site
from webdata_nb.contract.local import Creatives, SourceName
from webdata_nb.contract.replies import Creative
from webdata_nb.page.content.page_source import FetchedResponse
from webdata_nb.page.errors import BadInput
from webdata_nb.service.creatives import google, sample, source
from webdata_nb.service.creatives.google import urls_in
from webdata_nb.service.creatives.listing import SourceFactory
from webdata_nb.service.creatives.source import (
    AdCreative,
    BadCursor,
    CallDeadline,
    CreativesQuery,
    CreativesSource,
    SourceFetchers,
    parse_region,
)
from webdata_nb.service.errors import (
    MissingSetting,
    SourceAccessDenied,
    SourceBusy,
    SourceError,
    SourceRefused,
    SourceTimeout,
)
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher
from webdata_nb.service.web.throttle import HostThrottle


@dataclass(frozen=True, slots=True)
class SourceSetup:
    """A source, one of its advertisers, and the stub that serves it."""

    source: CreativesSource
    advertiser: str
    stub: Any = None


@pytest.fixture
async def fetchers() -> AsyncIterator[SourceFetchers]:
    async with Fetcher(EgressPolicy("local"), user_agent="test/1") as opened:
        yield SourceFetchers(opened, opened)


MakeSetup = Callable[..., SourceSetup]


@pytest.fixture
def make_setup(site: Site, fetchers: SourceFetchers) -> MakeSetup:
    """Return a function that creates a source; `seconds` is the deadline of its calls."""

    def setup_of(name: SourceName, seconds: float = 30.0, **options: Any) -> SourceSetup:
        factory = SourceFactory(HostThrottle(), delay_s=0.0, overload_pause_s=0.01, **options)
        deadline = CallDeadline.after(seconds)
        if name == "sample":
            settings = Creatives(source="sample")
            return SourceSetup(
                factory.create(settings, fetchers, deadline), sample.advertiser_ids()[0]
            )
        if name == "meta_ad_library":
            stub: GoogleStub | MetaStub = MetaStub(site)
            settings = Creatives(source="meta_ad_library", key=TOKEN, url=stub.home)
        else:
            stub = GoogleStub(site)
            settings = Creatives(source=name, terms=google.TERMS, url=stub.home)
        return SourceSetup(factory.create(settings, fetchers, deadline), stub.advertiser, stub)

    return setup_of


@pytest.fixture(params=["sample", "google_ads_transparency", "meta_ad_library"])
def source_setup(request: pytest.FixtureRequest, make_setup: MakeSetup) -> SourceSetup:
    return make_setup(request.param)


@pytest.fixture(params=["google_ads_transparency", "meta_ad_library"])
def remote_setup(request: pytest.FixtureRequest, make_setup: MakeSetup) -> SourceSetup:
    return make_setup(request.param)


async def list_all(source_setup: SourceSetup, **filters: Any) -> list[AdCreative]:
    creatives: list[AdCreative] = []
    cursor: str | None = None
    while True:
        query = CreativesQuery(source_setup.advertiser, limit=10, cursor=cursor, **filters)
        page = await source_setup.source.list_page(query)
        assert len(page.creatives) <= 10
        creatives += page.creatives
        cursor = page.cursor
        if cursor is None:
            return creatives


# --- all sources


async def test_pages_contain_each_creative_once(source_setup: SourceSetup) -> None:
    creatives = await list_all(source_setup)
    assert len(creatives) == (25 if source_setup.stub else 45)
    assert len({each.creative_id for each in creatives}) == len(creatives)
    assert {each.advertiser_id for each in creatives} == {source_setup.advertiser}
    assert all(each.error is None and each.preview_url for each in creatives)


async def test_times_are_iso_in_utc(source_setup: SourceSetup) -> None:
    for each in await list_all(source_setup):
        for time in filter(None, (each.first_shown, each.last_shown)):
            assert datetime.fromisoformat(time).tzinfo == UTC


async def test_first_shown_is_not_after_last_shown(source_setup: SourceSetup) -> None:
    for each in await list_all(source_setup):
        if each.first_shown and each.last_shown:
            assert each.first_shown <= each.last_shown


async def test_filters_are_sent_to_source(source_setup: SourceSetup) -> None:
    filters = {"first_day": date(2026, 1, 1), "last_day": date(2026, 1, 31)}
    await list_all(source_setup, region=parse_region("NO"), **filters)
    if source_setup.source.name == "google_ads_transparency":
        filters_sent = source_setup.stub.searches[-1]["3"]
        assert filters_sent["13"] == {"1": [source_setup.advertiser]}
        assert (filters_sent["8"], filters_sent["6"], filters_sent["7"]) == (
            [2578],
            20260101,
            20260131,
        )
    if source_setup.source.name == "meta_ad_library":
        params = source_setup.stub.searches[-1]
        assert params["ad_reached_countries"] == '["NO"]'
        assert params["ad_delivery_date_min"] == "2026-01-01"
        assert params["ad_delivery_date_max"] == "2026-01-31"


async def test_expired_cursor_is_bad_cursor(source_setup: SourceSetup) -> None:
    with pytest.raises(BadCursor, match="from the first page again"):
        await source_setup.source.list_page(
            CreativesQuery(source_setup.advertiser, cursor="c3RhbGU=")
        )


async def test_malformed_advertiser_id_is_refused(source_setup: SourceSetup) -> None:
    with pytest.raises(BadInput):
        await source_setup.source.list_page(CreativesQuery("not-an-id"))


async def test_details_have_known_names(source_setup: SourceSetup) -> None:
    first = (
        await source_setup.source.list_page(CreativesQuery(source_setup.advertiser, limit=1))
    ).creatives[0]
    detailed = await source_setup.source.with_details(first)
    assert detailed.creative_id == first.creative_id
    assert {*detailed.details} <= {*Creative.model_fields} - {*AdCreative.__dataclass_fields__}
    assert {"regions", "asset_urls"} <= {*detailed.details}


async def test_find_advertisers_by_name(source_setup: SourceSetup) -> None:
    advertisers = await source_setup.source.find_advertisers("Fulmar", limit=5)
    assert advertisers
    assert all(each.advertiser_id and "Fulmar" in each.name for each in advertisers)
    assert len(await source_setup.source.find_advertisers("Fulmar", limit=1)) == 1


async def test_file_on_other_host_is_not_downloaded(source_setup: SourceSetup, site: Site) -> None:
    foreign = site.page("/secret.png", "x").replace("127.0.0.1", "localhost")
    with pytest.raises(SourceError):
        await source_setup.source.download(foreign)
    assert "/secret.png" not in site.paths


# --- remote sources


async def test_unreadable_row_has_error(remote_setup: SourceSetup) -> None:
    rows = remote_setup.stub.rows
    rows[3] = "not a row"
    rows[4] = {**rows[4], "6": {"1": "soon"}, "ad_delivery_start_time": "soon"}
    rows[6] = {**rows[6], "6": {"1": "1" * 18}, "ad_delivery_start_time": "9" * 18}
    creatives = await list_all(remote_setup)
    assert len(creatives) == 25
    assert [number for number, each in enumerate(creatives) if each.error] == [3, 4, 6]
    assert creatives[4].creative_id == (rows[4].get("2") or rows[4].get("id"))


@pytest.mark.parametrize("odd", [5, {"a": 1}, "x"])
async def test_lists_of_an_unknown_format_are_errors_of_the_source(
    remote_setup: SourceSetup, site: Site, odd: object
) -> None:
    for path in (SEARCH, SUGGEST, "/v23.0/ads_archive"):
        site.page(path, lambda _request: web.json_response({"1": odd, "data": odd}))
    for name in ("fulmar", "fulmar.test"):
        with pytest.raises(SourceError, match="unknown format"):
            await remote_setup.source.find_advertisers(name, limit=5)


@pytest.mark.parametrize("field", ["5", "8", "17", "22"])
@pytest.mark.parametrize("odd", [[], {}, [[]], [5], "x", "9" * 5000, True])
async def test_details_of_an_unknown_format_are_an_error_or_left_out(
    make_setup: MakeSetup, site: Site, field: str, odd: object
) -> None:
    site_setup = make_setup("google_ads_transparency")
    site.page(LOOKUP, lambda _request: web.json_response({"1": {"1": "AR1", field: odd}}))
    try:
        found = await site_setup.source.with_details(AdCreative("AR1", "CR1"))
    except SourceError as error:
        assert "unknown format" in str(error)  # noqa: PT017 - either is right
    else:
        assert found.format is None


@pytest.mark.parametrize("url", ["https://[", "https://[::1", "https://a\u2100b/"])
async def test_preview_whose_url_is_no_url_is_left_out(
    make_setup: MakeSetup, site: Site, url: str
) -> None:
    site_setup = make_setup("google_ads_transparency")
    site_setup.stub.rows[0]["3"] = {"3": {"2": f'<img src="{url}">'}}
    site_setup.stub.rows[1]["3"] = {"1": {"4": url}}
    site_setup.stub.rows[2]["3"] = {"1": {"4": site.page("/a.js", f'x("{url}")')}}
    for creative in (await list_all(site_setup))[:3]:
        assert creative.error is None
        assert await site_setup.source.picture_url(creative) is None


async def test_half_an_emoji_in_a_row_is_replaced(remote_setup: SourceSetup) -> None:
    rows = remote_setup.stub.rows
    rows[0] = {**rows[0], "12": "Fulmar \ud83d", "page_name": "Fulmar \ud83d"}
    creatives = await list_all(remote_setup)
    assert len(creatives) == 25
    assert creatives[0].advertiser_name == "Fulmar \ufffd"


async def test_overloaded_source_is_retried(remote_setup: SourceSetup) -> None:
    remote_setup.stub.fault = lambda number: too_many_requests("0") if number == 1 else None
    assert len(await list_all(remote_setup)) == 25


async def test_source_is_not_retried_before_retry_after(remote_setup: SourceSetup) -> None:
    remote_setup.stub.fault = lambda _number: too_many_requests("120")
    with pytest.raises(SourceBusy) as caught:
        await list_all(remote_setup)
    assert caught.value.retry_after_s == 120
    assert len(remote_setup.stub.searches) == 1


def too_many_requests(seconds: str) -> web.Response:
    return web.Response(status=429, headers={"Retry-After": seconds})


@pytest.mark.parametrize(
    "blocking_reply",
    [
        lambda: web.Response(status=302, headers={"Location": "https://sorry.invalid/sorry"}),
        lambda: web.Response(status=200, text="<html>unusual traffic</html>"),
        lambda: web.Response(status=403, text="no"),
    ],
    ids=["sorry", "page", "forbidden"],
)
async def test_blocking_reply_is_source_refused(
    remote_setup: SourceSetup, blocking_reply: Callable[[], web.Response]
) -> None:
    remote_setup.stub.fault = lambda _number: blocking_reply()
    with pytest.raises(SourceAccessDenied, match="blocks"):
        await list_all(remote_setup)


async def test_server_error_is_retried(remote_setup: SourceSetup) -> None:
    remote_setup.stub.fault = lambda number: web.Response(status=500) if number == 2 else None
    assert len(await list_all(remote_setup)) == 25
    remote_setup.stub.fault = lambda _number: web.Response(status=500)
    with pytest.raises(SourceError, match="500"):
        await list_all(remote_setup)


@pytest.mark.parametrize("name", ["google_ads_transparency", "meta_ad_library"])
async def test_silent_source_is_source_slow(
    make_setup: MakeSetup, site: Site, name: SourceName
) -> None:
    source_setup = make_setup(name, seconds=0.3)
    path = "/v23.0/ads_archive" if source_setup.source.name.startswith("meta") else google_path()
    site.page(path, "{}", delay=5.0)
    with pytest.raises(SourceTimeout, match="timeout_ms"):
        await source_setup.source.list_page(CreativesQuery(source_setup.advertiser))


def google_path() -> str:
    return "/anji/_/rpc/SearchService/SearchCreatives?authuser="


@pytest.mark.parametrize("body", ["[]", '{"1": 5}', '{"data": 5}', "", "nonsense"])
async def test_unknown_format_is_error(remote_setup: SourceSetup, body: str) -> None:
    remote_setup.stub.fault = lambda _number: web.Response(text=body)
    expected_empty = remote_setup.source.name.startswith("google") and body == '{"data": 5}'
    if expected_empty:
        assert await list_all(remote_setup) == []
        return
    with pytest.raises(SourceError):
        await list_all(remote_setup)


@pytest.mark.parametrize(("size", "count"), [(1000, 0), (2 * 1024 * 1024, 1)])
async def test_large_reply_is_parsed_in_thread(
    remote_setup: SourceSetup, monkeypatch: pytest.MonkeyPatch, size: int, count: int
) -> None:
    parse_json, event_loop_thread = source._parse_json, threading.current_thread()
    parsed_in_thread: list[bool] = []

    def recording_parse(fetched: FetchedResponse) -> Any:
        parsed_in_thread.append(threading.current_thread() is not event_loop_thread)
        return parse_json(fetched)

    monkeypatch.setattr(source, "_parse_json", recording_parse)
    remote_setup.stub.rows[0]["99"] = "x" * size
    assert len(await list_all(remote_setup)) == 25
    assert sum(parsed_in_thread) == count


# --- Google


async def test_google_requires_accepted_terms(fetchers: SourceFetchers) -> None:
    settings = Creatives(source="google_ads_transparency")
    with pytest.raises(MissingSetting, match=r"adstransparency\.google\.com/terms"):
        SourceFactory().create(settings, fetchers, CallDeadline.after(5))


async def test_google_requests_are_one_second_apart() -> None:
    assert SourceFactory().delay_s == 1.0


async def test_google_details(make_setup: MakeSetup) -> None:
    source_setup = make_setup("google_ads_transparency")
    first = (
        await source_setup.source.list_page(CreativesQuery(source_setup.advertiser, limit=1))
    ).creatives[0]
    assert first.format == "text"
    assert first.days_shown == 30
    assert first.preview_url is not None
    assert first.preview_url.endswith("/simgad/0.png?a=1&b=2")
    detailed = await source_setup.source.with_details(first)
    assert detailed.details["regions"] == ["NO", "IM", "999999"]
    assert detailed.details["asset_urls"] == [first.preview_url]


async def test_google_picture_url_in_script(make_setup: MakeSetup, site: Site) -> None:
    source_setup = make_setup("google_ads_transparency")
    picture = site.page("/simgad/hidden.png", "picture")
    escaped = picture.replace(":", "\\x3a").replace("/", "\\/")
    site.page("/content-9.js", f'evil("https://elsewhere.invalid/a.png");show("{escaped}")')
    creative = (await list_all(source_setup))[9]
    assert creative.preview_url is not None
    assert creative.preview_url.endswith("/content-9.js")
    assert await source_setup.source.picture_url(creative) == picture
    assert await source_setup.source.download(picture) == b"picture"


def test_urls_in_script_are_decoded() -> None:
    script = r"""a('https:\/\/x.test\/a\x3fb\u003d1');b("https://y.test/c.png?d&amp;e")"""
    assert list(urls_in(script)) == ["https://x.test/a?b=1", "https://y.test/c.png?d&e"]


async def test_google_advertisers_of_domain(make_setup: MakeSetup) -> None:
    source_setup = make_setup("google_ads_transparency")
    [advertiser] = await source_setup.source.find_advertisers("fulmar.example", limit=5)
    assert (advertiser.advertiser_id, advertiser.ads_min) == (source_setup.advertiser, 25)
    assert source_setup.stub.searches[-1]["3"] == {"12": {"1": "fulmar.example", "2": True}}


async def test_google_creative_ids_are_kept(make_setup: MakeSetup) -> None:
    creatives = await list_all(make_setup("google_ads_transparency"))
    assert [each.creative_id for each in creatives] == list(map(google_id, range(25)))


# --- Meta


async def test_meta_requires_token(fetchers: SourceFetchers) -> None:
    with pytest.raises(MissingSetting, match="WEBDATA_META_AD_LIBRARY_KEY"):
        SourceFactory().create(Creatives(source="meta_ad_library"), fetchers, CallDeadline.after(5))


async def test_meta_token_does_not_leak(make_setup: MakeSetup, site: Site) -> None:
    source_setup = make_setup("meta_ad_library")
    values: Iterable[Any] = [*await list_all(source_setup), source_setup.source, *site.paths]
    assert not [each for each in values if TOKEN in repr(each)]
    source_setup.stub.fault = lambda _number: meta_error(190, f"token {TOKEN} expired")
    with pytest.raises(SourceAccessDenied) as caught:
        await list_all(source_setup)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "error"),
    [(190, SourceAccessDenied), (10, SourceAccessDenied), (613, SourceBusy), (1, SourceError)],
)
async def test_meta_error_codes(make_setup: MakeSetup, code: int, error: type[SourceError]) -> None:
    source_setup = make_setup("meta_ad_library", seconds=5)
    source_setup.stub.fault = lambda _number: meta_error(code, "no")
    with pytest.raises(error) as caught:
        await list_all(source_setup)
    assert type(caught.value) is error


async def test_meta_rows(make_setup: MakeSetup) -> None:
    even, odd = (await list_all(make_setup("meta_ad_library")))[:2]
    assert (even.last_shown, even.days_shown) == (None, None)
    assert (odd.first_shown, odd.days_shown) == ("2026-01-05T00:00:00Z", 10)
    assert odd.details["headline"] == "Night boat"
    assert odd.details["impressions_max"] == 1999
    assert odd.details["regions"] == ["FO", "DK"]


def meta_refusal(status: int, error: dict[str, Any]) -> web.Response:
    return web.json_response({"error": error}, status=status)


async def test_meta_is_asked_for_half_where_it_is_too_much_data(make_setup: MakeSetup) -> None:
    source_setup = make_setup("meta_ad_library")
    stub = source_setup.stub
    text = "Please reduce the amount of data you're asking for, then retry your request"

    def refuse(_number: int, most: int = 10) -> web.Response | None:
        if int(stub.searches[-1]["limit"]) <= most:
            return None
        return meta_refusal(500, {"code": 1, "message": text})

    stub.fault = refuse
    query = CreativesQuery(source_setup.advertiser, limit=40)
    page = await source_setup.source.list_page(query)
    assert (len(page.creatives), page.cursor is None) == (10, False)
    assert [search["limit"] for search in stub.searches] == ["40", "20", "10"]
    stub.fault = partial(refuse, most=0)
    with pytest.raises(SourceRefused, match="even for one ad: choose a shorter date_range") as got:
        await source_setup.source.list_page(query)
    assert text in str(got.value)


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_meta_code_counts_more_than_the_status(make_setup: MakeSetup, status: int) -> None:
    source_setup = make_setup("meta_ad_library", seconds=5)
    error = {"code": 190, "message": f"Session has expired for {TOKEN}"}
    source_setup.stub.fault = lambda _number: meta_refusal(status, error)
    with pytest.raises(
        SourceAccessDenied, match=r"Session has expired for .*renew the token"
    ) as got:
        await list_all(source_setup)
    assert TOKEN not in str(got.value)
    assert len(source_setup.stub.searches) == 1
    error = {"code": 100, "message": "Invalid parameter: ad_reached_countries"}
    with pytest.raises(SourceError, match="Invalid parameter: ad_reached_countries"):
        await list_all(source_setup)


async def test_refusal_quotes_the_source(remote_setup: SourceSetup) -> None:
    remote_setup.stub.fault = lambda _number: web.json_response({"detail": "bad day"}, status=418)
    with pytest.raises(SourceRefused, match=r'it refuses the request \(status 418\); .*"bad day"'):
        await list_all(remote_setup)
    remote_setup.stub.fault = lambda _number: web.json_response({"error": "low disk"}, status=500)
    with pytest.raises(SourceError, match=r'it failed \(status 500\); it says "low disk"'):
        await list_all(remote_setup)
