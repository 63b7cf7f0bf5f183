"""Defines the filters of creatives, their sources, and the client that the sources share.

Filters are an advertiser, a region and days; regions are countries of ISO 3166-1, found by code,
name or Google's numeric id. The client sends requests with spacing, retries and the deadline of the
call.
"""

from __future__ import annotations

import asyncio
import difflib
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, urlsplit

import msgspec

from webdata_nb.contract.requests import CreativesRequest
from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.pacing.retry_policies import AD_SOURCE_ATTEMPTS
from webdata_nb.page.content.page_source import FetchedResponse
from webdata_nb.page.errors import BadInput, FetchError
from webdata_nb.page.urls import host_and_port
from webdata_nb.service.errors import (
    EgressDenied,
    SourceAccessDenied,
    SourceBusy,
    SourceError,
    SourceOverdemand,
    SourceRefused,
    SourceTimeout,
)
from webdata_nb.service.foreign_services import ErrorReply, has_error, is_error, read_error
from webdata_nb.service.web.fetch import Fetcher, FetchLimits, FetchRequest
from webdata_nb.service.web.polite_fetcher import OVERLOAD_STATUS
from webdata_nb.service.web.request import retry_after_s
from webdata_nb.service.web.throttle import HostThrottle

ANYWHERE: Final = "anywhere"
_MAX_SUGGESTIONS: Final = 3
_MAX_DIGITS: Final = 20
_GOOGLE_BASE: Final = 2000
# The only country whose Google id is not 2000 plus its ISO number.
_GOOGLE_EXCEPTIONS: Final = {"IM": 20340}


@dataclass(frozen=True, slots=True)
class GeoRegion:
    """A country of ISO 3166-1."""

    alpha_2: str
    numeric: int
    name: str

    @property
    def google_id(self) -> int:
        """Google's id: 2000 plus the ISO number, except for the Isle of Man."""
        return _GOOGLE_EXCEPTIONS.get(self.alpha_2, _GOOGLE_BASE + self.numeric)


def parse_region(text: str) -> GeoRegion | None:
    """Return the country with a code or name; None for "anywhere".

    Raises
    ------
    BadInput
        No country has this name; the message suggests similar names.
    """
    name = _normalize(text)
    if name == ANYWHERE:
        return None
    country = _by_name().get(name)
    if country is None:
        names = sorted({*_by_name(), ANYWHERE})
        similar = difflib.get_close_matches(name, names, n=_MAX_SUGGESTIONS, cutoff=0.6)
        hint = f"; similar: {', '.join(map(_display_name, similar))}" if similar else ""
        raise BadInput(
            f'must be "anywhere", an ISO 3166 code such as "DE", or the name of a country{hint}',
            loc=("body", "region"),
        )
    return country


def alpha_2_of_google_id(google_id: int) -> str:
    """Return the ISO code of one of Google's ids, or the id as text if it is unknown."""
    return _by_google_id().get(google_id, str(google_id))


@cache
def regions() -> tuple[GeoRegion, ...]:
    """Return all countries, sorted by code."""
    return tuple(country for country, _ in _countries_with_names())


@cache
def _countries_with_names() -> tuple[tuple[GeoRegion, tuple[str, ...]], ...]:
    text = (files(__package__) / "countries.tsv").read_text("utf-8")
    countries: list[tuple[GeoRegion, tuple[str, ...]]] = []
    for line in text.splitlines():
        alpha_2, alpha_3, numeric, name, other_names = line.split("\t")
        country = GeoRegion(alpha_2, int(numeric), name)
        countries.append((country, (alpha_2, alpha_3, name, *filter(None, other_names.split("|")))))
    return tuple(countries)


@cache
def _by_name() -> dict[str, GeoRegion]:
    return {
        _normalize(name): country for country, names in _countries_with_names() for name in names
    }


@cache
def _by_google_id() -> dict[int, str]:
    return {country.google_id: country.alpha_2 for country in regions()}


def _normalize(text: str) -> str:
    """Return a name without case, accents and repeated spaces."""
    decomposed = unicodedata.normalize("NFKD", text)
    unaccented = "".join(char for char in decomposed if not unicodedata.combining(char))
    return " ".join(unaccented.casefold().split())


def _display_name(name: str) -> str:
    country = _by_name().get(name)
    return name if country is None else f"{country.name} ({country.alpha_2})"


def midnight(day: date) -> str:
    """Return the beginning of a day, UTC."""
    return f"{day.isoformat()}T00:00:00Z"


DayRange = tuple[date | None, date | None]

# First and last day of each preset, in days before today.
_PRESETS: Final = {"yesterday": (1, 1), "last_7_days": (7, 1), "last_30_days": (30, 1)}
_DAY: Final = r"\d{4}-\d{2}-\d{2}"


@dataclass(frozen=True, slots=True)
class CreativesFilters:
    """The filters of a listing. `date_range` is the text of the request, such as a preset."""

    advertiser_id: str
    region: GeoRegion | None
    region_code: str
    date_range: str | None

    def cursor_fields(self, source: str) -> Mapping[str, Any]:
        """Return the values that a cursor is bound to."""
        return {
            "source": source,
            "advertiser": self.advertiser_id,
            "region": self.region_code,
            "range": self.date_range,
        }


def parse_filters(request: CreativesRequest) -> CreativesFilters:
    """Return the filters of a request, including the region and days in its `url`.

    Raises
    ------
    BadInput
        An unknown region, or a URL that disagrees with a field.
    """
    in_url = _parse_url(request.url)
    in_field = request.region if "region" in request.model_fields_set else None
    region = parse_region(in_field or in_url.get("region") or ANYWHERE)
    if in_field and "region" in in_url and parse_region(in_url["region"]) != region:
        raise BadInput(
            "region and the region in url disagree: send one of them", loc=("body", "region")
        )
    range_in_url = in_url.get("date_range")
    if request.date_range and range_in_url and request.date_range != range_in_url:
        raise BadInput(
            "date_range and the dates in url disagree: send one of them",
            loc=("body", "date_range"),
        )
    code = region.alpha_2 if region else ANYWHERE
    return CreativesFilters(request.advertiser, region, code, request.date_range or range_in_url)


def _parse_url(url: str | None) -> dict[str, str]:
    """Parse the filters in the URL of a transparency page, as the page's own controls write it."""
    query = parse_qs(urlsplit(url).query) if url else {}
    filters: dict[str, str] = {}
    if region := (query.get("region") or query.get("country") or [""])[0]:
        filters["region"] = ANYWHERE if region.upper() == "ALL" else region
    preset = (query.get("preset-date") or [""])[0].strip().lower().replace(" ", "_")
    if preset in _PRESETS:
        filters["date_range"] = preset
    start, end = (query.get(name, [""])[0] for name in ("start-date", "end-date"))
    if re.fullmatch(_DAY, start) and re.fullmatch(_DAY, end):
        filters["date_range"] = f"{start}..{end}"
    return filters


def days_of_range(date_range: str | None, today: date) -> DayRange:
    """Return the first and the last day of a range; preset ranges end yesterday.

    Raises
    ------
    BadInput
        An invalid date, or a range that ends before it begins.
    """
    if date_range is None:
        return None, None
    if date_range in _PRESETS:
        first, last = _PRESETS[date_range]
        return today - timedelta(days=first), today - timedelta(days=last)
    first_text, _, last_text = date_range.partition("..")
    try:
        days = date.fromisoformat(first_text), date.fromisoformat(last_text)
    except ValueError:
        raise BadInput("contains an invalid date", loc=("body", "date_range")) from None
    if days[0] > days[1]:
        raise BadInput("must not end before it begins", loc=("body", "date_range"))
    return days


class BadCursor(BadInput):
    """A cursor that cannot continue this listing; the message says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: list from the first page again", loc=("body", "cursor"))


@dataclass(frozen=True, slots=True)
class CreativesQuery:
    """Selects one page of an advertiser's creatives; `cursor` is the source's own."""

    advertiser_id: str
    region: GeoRegion | None = None
    first_day: date | None = None
    last_day: date | None = None
    limit: int = 40
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class AdCreative:
    """One advertisement. Times are ISO 8601 in UTC, and unknown values are None.

    `error` says why a row of the source could not be read.
    """

    advertiser_id: str
    creative_id: str
    preview_url: str | None = None
    advertiser_name: str | None = None
    format: str | None = None
    first_shown: str | None = None
    last_shown: str | None = None
    days_shown: int | None = None
    political: bool | None = None
    error: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreativesPage:
    """A page of creatives; `cursor` is the source's own, None on the last page."""

    creatives: tuple[AdCreative, ...]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Advertiser:
    """An advertiser that matches a name or domain; ad counts are None where unknown."""

    advertiser_id: str
    name: str
    region: str | None = None
    domain: str | None = None
    ads_min: int | None = None
    ads_max: int | None = None


class CreativesSource(Protocol):
    """A public source of creatives.

    Every method raises a `SourceError` if the source gives no usable reply, and `BadInput` if the
    source does not support the request.
    """

    @property
    def name(self) -> str:
        """The name that selects the source in the settings."""

    async def list_page(self, query: CreativesQuery) -> CreativesPage:
        """Return a page of creatives, newest first; raises `BadCursor` for an expired cursor."""

    async def with_details(self, creative: AdCreative) -> AdCreative:
        """Return the creative with all details that the source has, by the names of a reply."""

    async def picture_url(self, creative: AdCreative) -> str | None:
        """Return the URL of a picture of the creative; None if there is only an HTML page."""

    async def download(self, url: str) -> bytes:
        """Return a file that the source named in a creative; other URLs are refused."""

    async def find_advertisers(self, name_or_domain: str, *, limit: int) -> list[Advertiser]:
        """Return the advertisers that match a name or a domain, best match first."""


# Pause after an overload reply without Retry-After.
OVERLOAD_PAUSE_S: Final = 2.0
# Pause after a reply whose body says that there were too many requests.
_RATE_LIMIT_PAUSE_S: Final = 15.0
# Least seconds that the deadline must leave for another attempt.
_MIN_REMAINING_S: Final = 0.5
_MIB: Final = 1024 * 1024
FILE_LIMITS: Final = FetchLimits(wire_bytes=10 * _MIB, decoded_bytes=10 * _MIB, redirects=5)
_JSON_LIMITS: Final = FetchLimits(wire_bytes=10 * _MIB, decoded_bytes=40 * _MIB, redirects=0)
# Larger bodies are parsed in a thread, since parsing them would block the event loop.
_MAX_INLINE_JSON_BYTES: Final = _MIB


@dataclass(frozen=True, slots=True)
class CallDeadline:
    """The end of a call, on the monotonic clock."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> CallDeadline:
        """Return the deadline some seconds from now."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(0.0, self.at - time.monotonic())


@dataclass(frozen=True, slots=True)
class SourceFetchers:
    """The fetchers of a call.

    `api` requests the address in the settings, `files` the addresses that a source returns, under
    the same policy as pages.
    """

    api: Fetcher
    files: Fetcher


@dataclass(frozen=True, slots=True)
class SourceClient:
    """Sends the requests of one call to one source.

    `delay_s` is the least time between the starts of two requests to one host, for all accounts.
    No message shows the `key`, and `key_advice` says what to do if it is not accepted.
    """

    source: str
    fetchers: SourceFetchers
    throttle: HostThrottle
    deadline: CallDeadline
    delay_s: float = 0.0
    overload_pause_s: float = OVERLOAD_PAUSE_S
    key: str = field(default="", repr=False)
    key_advice: str = ""

    async def fetch_json(self, request: FetchRequest) -> Any:
        """Return the body of a JSON reply that reports no error.

        Raises
        ------
        SourceBusy, SourceAccessDenied, SourceRefused, SourceTimeout, SourceError
            There is no such reply, even after retries.
        """
        fetched = await self._fetch_with_retries(self.fetchers.api, request, _JSON_LIMITS)
        if len(fetched.body) > _MAX_INLINE_JSON_BYTES:
            body = await asyncio.to_thread(_parse_json, fetched)
        else:
            body = _parse_json(fetched)
        if body is None:
            # Most replies without JSON block the client.
            redirects = HTTPStatus.MULTIPLE_CHOICES <= fetched.status < HTTPStatus.BAD_REQUEST
            is_page = fetched.body.lstrip()[:1] == b"<"
            if redirects or is_page or fetched.status == HTTPStatus.FORBIDDEN:
                raise SourceAccessDenied(
                    f"{self.source} blocks requests from this address (status {fetched.status}): "
                    "wait before trying again, and ask less often"
                )
            meaning = f"it sent something else than JSON (status {fetched.status})"
            raise SourceError(f"{self.source}: {self._read_error(fetched).explain(meaning)}")
        if fetched.status != HTTPStatus.OK or is_error(body):
            raise self._refusal(fetched, self._read_error(fetched))
        return body

    async def download(self, url: str) -> bytes:
        """Return a file; errors as for `fetch_json`."""
        request = FetchRequest(url, accept="image/*,*/*;q=0.5")
        fetched = await self._fetch_with_retries(self.fetchers.files, request, FILE_LIMITS)
        if fetched.status != HTTPStatus.OK:
            raise SourceError(f"the file could not be downloaded (status {fetched.status})")
        return fetched.body

    async def _fetch_with_retries(
        self, fetcher: Fetcher, request: FetchRequest, limits: FetchLimits
    ) -> FetchedResponse:
        attempt = 1
        while True:
            try:
                return await self._fetch(fetcher, request, limits)
            except SourceBusy as error:
                if (
                    attempt >= AD_SOURCE_ATTEMPTS
                    or error.retry_after_s + _MIN_REMAINING_S > self.deadline.remaining_s
                ):
                    raise
                await asyncio.sleep(error.retry_after_s)
            except _TransientFailure as failure:
                if (
                    attempt >= AD_SOURCE_ATTEMPTS
                    or self.deadline.remaining_s < _MIN_REMAINING_S + attempt
                ):
                    raise SourceError(str(failure)) from None
            attempt += 1

    async def _fetch(
        self, fetcher: Fetcher, request: FetchRequest, limits: FetchLimits
    ) -> FetchedResponse:
        remaining_s = self.deadline.remaining_s
        if remaining_s <= 0:
            raise self._timeout()
        try:
            host = host_and_port(request.url)
            async with asyncio.timeout(remaining_s):
                async with self.throttle.slot(host, delay_s=self.delay_s, max_wait_s=remaining_s):
                    fetched = await fetcher.fetch(
                        msgspec.structs.replace(
                            request,
                            limits=limits,
                            timeout_s=remaining_s,
                            follow_redirects=limits.redirects > 0,
                        )
                    )
        except TimeoutError:
            raise self._timeout() from None
        except FetchError as error:
            refuses = isinstance(error, EgressDenied)
            if refuses or error.kind in {"bad_url", "too_large", "redirects"}:
                raise SourceError(f"{self.source}: {error}") from None
            if error.kind == "timeout":
                raise self._timeout() from None
            raise _TransientFailure(f"{self.source}: {error}") from None
        # A reply may be an error of the source's API, unless it is a file.
        is_small = len(fetched.body) <= _MAX_INLINE_JSON_BYTES
        may_report = fetcher is self.fetchers.api and (
            fetched.status >= HTTPStatus.BAD_REQUEST or (is_small and has_error(fetched.body))
        )
        reported = self._read_error(fetched) if may_report else ErrorReply()
        if reported.known is not None and reported.kind != "transient":
            # The source works: it says what is wrong with this request.
            await self.throttle.report_success(host)
            raise self._refusal(fetched, reported)
        # Report a reply to the throttle; raises an error for a passing failure.
        status = fetched.status
        if status in OVERLOAD_STATUS:
            after_s = retry_after_s(fetched)
            wait_s = self.overload_pause_s if after_s is None else after_s
            await self.throttle.report_overload(host, wait_s)
            message = f"{self.source}: {reported.explain('it asks to wait')}"
            raise SourceBusy(message, retry_after_s=wait_s)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or reported.kind == "transient":
            await self.throttle.report_overload(host)
            meaning = f"it failed (status {status})"
            raise _TransientFailure(f"{self.source}: {reported.explain(meaning)}")
        await self.throttle.report_success(host)
        return fetched

    def _read_error(self, fetched: FetchedResponse) -> ErrorReply:
        return read_error(
            fetched.body, status=fetched.status, service=self.source, secrets=(self.key,)
        )

    def _refusal(self, fetched: FetchedResponse, error: ErrorReply) -> SourceError:
        """Return the error for a reply that says what is wrong with the request."""
        meaning = f"it refuses the request (status {fetched.status})"
        message = f"{self.source}: {error.explain(error.known.meaning if error.known else meaning)}"
        match error.kind:
            case "auth":
                advice = f"; {self.key_advice}" if self.key_advice else ""
                return SourceAccessDenied(f"{message}{advice}")
            case "rate_limited":
                after_s = retry_after_s(fetched)
                wait_s = _RATE_LIMIT_PAUSE_S if after_s is None else after_s
                return SourceBusy(message, retry_after_s=wait_s)
            case "too_much":
                return SourceOverdemand(message, status=fetched.status, reason=error.reason)
        return SourceRefused(message, status=fetched.status, reason=error.reason)

    def _timeout(self) -> SourceTimeout:
        return SourceTimeout(f"{self.source} did not answer within timeout_ms")


class _TransientFailure(Exception):
    """A failure that another attempt may avoid."""


def _parse_json(fetched: FetchedResponse) -> Any:
    text = fetched.body.lstrip().removeprefix(b")]}'").lstrip()
    with suppress(MalformedJson):
        return decode_json(text, content_type=fetched.header("content-type"))
    return None


def host_of(url: str) -> str:
    """Return a URL's host, in lower case."""
    return (urlsplit(url).hostname or "").lower()


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def parse_list(value: Any, source_name: str) -> list[Any]:
    """Return a JSON list, which may be missing. Raises `SourceError` for any other value."""
    if value and not isinstance(value, list):
        raise SourceError(f"{source_name} replied in an unknown format")
    return value or []


def read_creative(row: Any, parse: Callable[[Any], AdCreative], unread: AdCreative) -> AdCreative:
    """Parse one row; an unreadable row becomes `unread` with an error."""
    try:
        return parse(row)
    except (KeyError, TypeError, ValueError, OverflowError, OSError, AttributeError) as error:
        reason = f"the source's row could not be read ({type(error).__name__})"
        return replace(unread, error=reason)


def advertisers_of_ads(
    ads: Sequence[tuple[str, str]], *, domain: str | None = None
) -> list[Advertiser]:
    """Return the advertisers of ads, most ads first; `ads` has an id and a name for each ad."""
    counts = Counter(advertiser_id for advertiser_id, _ in ads if advertiser_id)
    first_names = dict(reversed(ads))
    return [
        Advertiser(advertiser_id, first_names[advertiser_id], domain=domain, ads_min=count)
        for advertiser_id, count in counts.most_common()
    ]


def parse_count(value: Any) -> int | None:
    """Return a count that JSON may hold as a number or as digits; None for any other value."""
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < _MAX_DIGITS else None
