"""One suite for every source, and what each outside one meets, against stubs of their shapes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pytest
from aiohttp import web

from tests.service.creatives.stubs import TOKEN, GoogleStub, MetaStub, google_id, meta_error
from tests.site.server import Site
from webdata_nb.contract.local import Creatives, SourceName
from webdata_nb.service.creatives import google, sample
from webdata_nb.service.creatives.cursor import BadCursor
from webdata_nb.service.creatives.google import urls_in
from webdata_nb.service.creatives.regions import region
from webdata_nb.service.creatives.source import DETAILS, Ask, Creative, Source
from webdata_nb.service.creatives.source_client import CallDeadline, SourceFetchers
from webdata_nb.service.creatives.sources import Sources
from webdata_nb.service.errors import (
    BadInput,
    MissingSetting,
    SourceAccessDenied,
    SourceBusy,
    SourceError,
    SourceTimeout,
)
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher
from webdata_nb.service.web.throttle import HostThrottle


@dataclass(frozen=True, slots=True)
class Setting:
    """A source with an advertiser that it knows, and the stub behind it."""

    source: Source
    advertiser: str
    stub: Any = None


@pytest.fixture
async def fetchers() -> AsyncIterator[SourceFetchers]:
    async with Fetcher(EgressPolicy("local"), user_agent="test/1") as opened:
        yield SourceFetchers(opened, opened)


Make = Callable[..., Setting]


@pytest.fixture
def make(site: Site, fetchers: SourceFetchers) -> Make:
    """Give a maker of each source; seconds are those that the call may take."""

    def made(name: SourceName, seconds: float = 30.0, **options: Any) -> Setting:
        sources = Sources(HostThrottle(), delay_s=0.0, overload_pause_s=0.01, **options)
        deadline = CallDeadline.after(seconds)
        if name == "sample":
            chosen = Creatives(source="sample")
            return Setting(sources.of(chosen, fetchers, deadline), sample.advertiser_ids()[0])
        if name == "meta_ad_library":
            stub: GoogleStub | MetaStub = MetaStub(site)
            chosen = Creatives(source="meta_ad_library", key=TOKEN, url=stub.home)
        else:
            stub = GoogleStub(site)
            chosen = Creatives(source=name, terms=google.TERMS, url=stub.home)
        return Setting(sources.of(chosen, fetchers, deadline), stub.advertiser, stub)

    return made


@pytest.fixture(params=["sample", "google_ads_transparency", "meta_ad_library"])
def setting(request: pytest.FixtureRequest, make: Make) -> Setting:
    return make(request.param)


@pytest.fixture(params=["google_ads_transparency", "meta_ad_library"])
def outside(request: pytest.FixtureRequest, make: Make) -> Setting:
    return make(request.param)


async def everything(setting: Setting, **filters: Any) -> list[Creative]:
    found: list[Creative] = []
    cursor: str | None = None
    while True:
        ask = Ask(setting.advertiser, limit=10, cursor=cursor, **filters)
        page = await setting.source.page(ask)
        assert len(page.creatives) <= 10
        found += page.creatives
        cursor = page.cursor
        if cursor is None:
            return found


# ------------------------------------------------------------------------ what every source does


async def test_pages_lead_to_the_end_and_give_nothing_twice(setting: Setting) -> None:
    found = await everything(setting)
    assert len(found) == (25 if setting.stub else 45)
    assert len({each.creative_id for each in found}) == len(found)
    assert {each.advertiser_id for each in found} == {setting.advertiser}
    assert all(each.error is None and each.preview_url for each in found)


async def test_times_are_iso_in_utc(setting: Setting) -> None:
    for each in await everything(setting):
        for told in filter(None, (each.first_shown, each.last_shown)):
            assert datetime.fromisoformat(told).tzinfo == UTC


async def test_an_end_does_not_come_before_its_beginning(setting: Setting) -> None:
    for each in await everything(setting):
        if each.first_shown and each.last_shown:
            assert each.first_shown <= each.last_shown


async def test_filters_are_passed_on(setting: Setting) -> None:
    filters = {"first_day": date(2026, 1, 1), "last_day": date(2026, 1, 31)}
    await everything(setting, region=region("NO"), **filters)
    if setting.source.name == "google_ads_transparency":
        where = setting.stub.searches[-1]["3"]
        assert where["13"] == {"1": [setting.advertiser]}
        assert (where["8"], where["6"], where["7"]) == ([2578], 20260101, 20260131)
    if setting.source.name == "meta_ad_library":
        asked = setting.stub.searches[-1]
        assert asked["ad_reached_countries"] == '["NO"]'
        assert asked["ad_delivery_date_min"] == "2026-01-01"
        assert asked["ad_delivery_date_max"] == "2026-01-31"


async def test_a_cursor_gone_by_is_told_apart(setting: Setting) -> None:
    with pytest.raises(BadCursor, match="without a cursor"):
        await setting.source.page(Ask(setting.advertiser, cursor="c3RhbGU="))


async def test_an_id_of_another_kind_is_refused(setting: Setting) -> None:
    with pytest.raises(BadInput):
        await setting.source.page(Ask("not-an-id"))


async def test_details_are_of_the_known_kinds(setting: Setting) -> None:
    first = (await setting.source.page(Ask(setting.advertiser, limit=1))).creatives[0]
    detailed = await setting.source.detailed(first)
    assert detailed.creative_id == first.creative_id
    assert {*detailed.details} <= {*DETAILS}
    assert {"regions", "asset_urls"} <= {*detailed.details}


async def test_who_a_name_may_mean(setting: Setting) -> None:
    found = await setting.source.advertisers("Fulmar", limit=5)
    assert found
    assert all(each.advertiser_id and "Fulmar" in each.name for each in found)
    assert len(await setting.source.advertisers("Fulmar", limit=1)) == 1


async def test_a_file_that_no_creative_named_is_not_fetched(setting: Setting, site: Site) -> None:
    foreign = site.page("/secret.png", "x").replace("127.0.0.1", "localhost")
    with pytest.raises(SourceError):
        await setting.source.file(foreign)
    assert "/secret.png" not in site.paths


# --------------------------------------------------------------------- what outside sources meet


async def test_a_broken_row_stays_a_row_with_its_error(outside: Setting) -> None:
    rows = outside.stub.rows
    rows[3] = "not a row"
    rows[4] = {**rows[4], "6": {"1": "soon"}, "ad_delivery_start_time": "soon"}
    found = await everything(outside)
    assert len(found) == 25
    assert [at for at, each in enumerate(found) if each.error] == [3, 4]
    assert found[4].creative_id == (rows[4].get("2") or rows[4].get("id"))


async def test_a_busy_source_is_asked_again_within_the_time(outside: Setting) -> None:
    outside.stub.fault = lambda number: busy("0") if number == 1 else None
    assert len(await everything(outside)) == 25


async def test_a_source_that_stays_busy_is_not_pressed(outside: Setting) -> None:
    outside.stub.fault = lambda _number: busy("120")
    with pytest.raises(SourceBusy) as caught:
        await everything(outside)
    assert caught.value.retry_after_s == 120
    assert len(outside.stub.searches) == 1


def busy(seconds: str) -> web.Response:
    return web.Response(status=429, headers={"Retry-After": seconds})


@pytest.mark.parametrize(
    "wall",
    [
        lambda: web.Response(status=302, headers={"Location": "https://sorry.invalid/sorry"}),
        lambda: web.Response(status=200, text="<html>unusual traffic</html>"),
        lambda: web.Response(status=403, text="no"),
    ],
    ids=["sorry", "page", "forbidden"],
)
async def test_a_wall_is_called_one(outside: Setting, wall: Callable[[], web.Response]) -> None:
    outside.stub.fault = lambda _number: wall()
    with pytest.raises(SourceAccessDenied, match="blocks"):
        await everything(outside)


async def test_a_source_that_fails_once_is_asked_again(outside: Setting) -> None:
    outside.stub.fault = lambda number: web.Response(status=500) if number == 2 else None
    assert len(await everything(outside)) == 25
    outside.stub.fault = lambda _number: web.Response(status=500)
    with pytest.raises(SourceError, match="500"):
        await everything(outside)


@pytest.mark.parametrize("name", ["google_ads_transparency", "meta_ad_library"])
async def test_a_source_that_says_nothing_is_slow(make: Make, site: Site, name: SourceName) -> None:
    setting = make(name, seconds=0.3)
    path = "/v23.0/ads_archive" if setting.source.name.startswith("meta") else google_path()
    site.page(path, "{}", delay=5.0)
    with pytest.raises(SourceTimeout, match="timeout_ms"):
        await setting.source.page(Ask(setting.advertiser))


def google_path() -> str:
    return "/anji/_/rpc/SearchService/SearchCreatives?authuser="


@pytest.mark.parametrize("body", ["[]", '{"1": 5}', '{"data": 5}', "", "nonsense"])
async def test_an_unknown_form_is_an_error_not_an_empty_list(outside: Setting, body: str) -> None:
    outside.stub.fault = lambda _number: web.Response(text=body)
    expected_empty = outside.source.name.startswith("google") and body == '{"data": 5}'
    if expected_empty:
        assert await everything(outside) == []
        return
    with pytest.raises(SourceError):
        await everything(outside)


# ------------------------------------------------------------------------------------ Google alone


async def test_google_wants_its_terms_accepted(fetchers: SourceFetchers) -> None:
    chosen = Creatives(source="google_ads_transparency")
    with pytest.raises(MissingSetting, match=r"adstransparency\.google\.com/terms"):
        Sources().of(chosen, fetchers, CallDeadline.after(5))


async def test_google_is_asked_once_a_second_at_most() -> None:
    assert Sources().delay_s == 1.0


async def test_googles_details(make: Make) -> None:
    setting = make("google_ads_transparency")
    first = (await setting.source.page(Ask(setting.advertiser, limit=1))).creatives[0]
    assert first.format == "text"
    assert first.days_shown == 30
    assert first.preview_url is not None
    assert first.preview_url.endswith("/simgad/0.png?a=1&b=2")
    detailed = await setting.source.detailed(first)
    assert detailed.details["regions"] == ["NO", "IM", "999999"]
    assert detailed.details["asset_urls"] == [first.preview_url]


async def test_the_picture_behind_a_script_is_found_and_nothing_is_run(
    make: Make, site: Site
) -> None:
    setting = make("google_ads_transparency")
    picture = site.page("/simgad/hidden.png", "picture")
    escaped = picture.replace(":", "\\x3a").replace("/", "\\/")
    site.page("/content-9.js", f'evil("https://elsewhere.invalid/a.png");show("{escaped}")')
    creative = (await everything(setting))[9]
    assert creative.preview_url is not None
    assert creative.preview_url.endswith("/content-9.js")
    found = await setting.source.picture_url(creative)
    assert found == picture
    assert await setting.source.file(picture) == b"picture"


def test_addresses_in_a_script_with_their_escapes_undone() -> None:
    script = r"""a('https:\/\/x.test\/a\x3fb\u003d1');b("https://y.test/c.png?d&amp;e")"""
    assert list(urls_in(script)) == ["https://x.test/a?b=1", "https://y.test/c.png?d&e"]


async def test_a_domain_is_resolved_by_who_advertises_for_it(make: Make) -> None:
    setting = make("google_ads_transparency")
    found = await setting.source.advertisers("fulmar.example", limit=5)
    assert [(each.advertiser_id, each.ads_min) for each in found] == [(setting.advertiser, 25)]
    assert setting.stub.searches[-1]["3"] == {"12": {"1": "fulmar.example", "2": True}}


async def test_the_ids_are_those_of_the_source(make: Make) -> None:
    found = await everything(make("google_ads_transparency"))
    assert [each.creative_id for each in found] == list(map(google_id, range(25)))


# -------------------------------------------------------------------------------------- Meta alone


async def test_meta_wants_a_token(fetchers: SourceFetchers) -> None:
    with pytest.raises(MissingSetting, match="WEBDATA_META_AD_LIBRARY_KEY"):
        Sources().of(Creatives(source="meta_ad_library"), fetchers, CallDeadline.after(5))


async def test_the_token_is_never_shown(make: Make, site: Site) -> None:
    setting = make("meta_ad_library")
    shown: Iterable[Any] = [*await everything(setting), setting.source, *site.paths]
    assert not [each for each in shown if TOKEN in repr(each)]
    setting.stub.fault = lambda _number: meta_error(190, f"token {TOKEN} expired")
    with pytest.raises(SourceAccessDenied) as caught:
        await everything(setting)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "error"),
    [(190, SourceAccessDenied), (10, SourceAccessDenied), (613, SourceBusy), (1, SourceError)],
)
async def test_metas_error_codes(make: Make, code: int, error: type[SourceError]) -> None:
    setting = make("meta_ad_library", seconds=5)
    setting.stub.fault = lambda _number: meta_error(code, "no")
    with pytest.raises(error) as caught:
        await everything(setting)
    assert type(caught.value) is error


async def test_metas_rows(make: Make) -> None:
    even, odd = (await everything(make("meta_ad_library")))[:2]
    assert (even.last_shown, even.days_shown) == (None, None)
    assert (odd.first_shown, odd.days_shown) == ("2026-01-05T00:00:00Z", 10)
    assert odd.details["headline"] == "Night boat"
    assert odd.details["impressions_max"] == 1999
    assert odd.details["regions"] == ["FO", "DK"]
