"""Defines the field types of requests, with their checks and JSON schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    WithJsonSchema,
    field_validator,
)

from webdata_nb.contract import limits
from webdata_nb.contract.choices import FORMATS, Format

# Country codes: ISO 3166-1 alpha-2


_TABLE: Final = """
ad ae af ag ai al am ao aq ar as at au aw ax az ba bb bd be bf bg bh bi bj bl bm bn bo bq br bs
bt bv bw by bz ca cc cd cf cg ch ci ck cl cm cn co cr cu cv cw cx cy cz de dj dk dm do dz ec ee
eg eh er es et fi fj fk fm fo fr ga gb gd ge gf gg gh gi gl gm gn gp gq gr gs gt gu gw gy hk hm
hn hr ht hu id ie il im in io iq ir is it je jm jo jp ke kg kh ki km kn kp kr kw ky kz la lb lc
li lk lr ls lt lu lv ly ma mc md me mf mg mh mk ml mm mn mo mp mq mr ms mt mu mv mw mx my mz na
nc ne nf ng ni nl no np nr nu nz om pa pe pf pg ph pk pl pm pn pr ps pt pw py qa re ro rs ru rw
sa sb sc sd se sg sh si sj sk sl sm sn so sr ss st sv sx sy sz tc td tf tg th tj tk tl tm tn to
tr tt tv tw tz ua ug um us uy uz va vc ve vg vi vn vu wf ws ye yt za zm zw
"""
CODES: Final = frozenset(_TABLE.split())
# Common codes outside the standard: reserved for the United Kingdom, used for Kosovo.
ALIASES: Final[Mapping[str, str]] = MappingProxyType({"uk": "gb", "xk": "xk"})


def country_code(value: str) -> str:
    """Return a country code in lower case; raises `ValueError` for an unknown one.

    Examples
    --------
    >>> country_code("DE"), country_code("uk")
    ('de', 'gb')
    """
    code = value.lower()
    if code in CODES or code in ALIASES:
        return ALIASES.get(code, code)
    raise ValueError('must be a two-letter country code of ISO 3166-1, such as "us", "gb" or "de"')


# The first captures of the Wayback Machine.
FIRST_YEAR: Final = 1996
# RFC 9110 token; the connection's own headers are not the caller's to set.
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_SENDABLE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_FORBIDDEN_HEADERS: Final = frozenset(
    {
        "host",
        "connection",
        "content-length",
        "transfer-encoding",
        "upgrade",
        "te",
        "trailer",
        "keep-alive",
        "proxy-authorization",
        "cookie",
    }
)


# Fields of requests whose values no message, receipt or file shows.
WEBHOOK_FIELDS: Final = frozenset({"webhook_url", "webhook_secret"})
SECRET_FIELDS: Final = frozenset({"headers", "cookies"}) | WEBHOOK_FIELDS
_USER_AGENT_LENGTH: Final = 500
_WILDCARDS: Final = re.compile(r"\*+")
_PRODUCT: Final = re.compile(r"[A-Za-z_-]+(?:[/ ]|$)")
# NUL ends a text in PostgreSQL, and a lone surrogate has no UTF-8.
_UNSTORABLE: Final = re.compile(r"[\x00\ud800-\udfff]")


def _check_storable(value: Any) -> None:
    if isinstance(value, str) and _UNSTORABLE.search(value):
        raise ValueError("must not contain NUL or half of a surrogate pair")
    if isinstance(value, dict):
        for name, each in value.items():
            _check_storable(name)
            _check_storable(each)
    elif isinstance(value, list | tuple):
        for each in value:
            _check_storable(each)


class Strict(BaseModel):
    """A request: immutable, no unknown fields, no coercion, nothing that cannot be stored."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        # A nested model checks its own fields.
        if not isinstance(value, BaseModel):
            _check_storable(value)
        return value


def _integral(value: Any) -> Any:
    """JSON has one number type, so 10.0 is a whole number; "10" and true are not numbers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _between(bounds: tuple[int, int]) -> Callable[[int], int]:
    low, high = bounds

    def check(value: int) -> int:
        if not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return value

    return check


def user_agent(value: str) -> str:
    """Check the User-Agent that the service sends to web sites.

    Raises
    ------
    ValueError
        It cannot be sent, or has no product name for robots.txt.
    """
    if not (value.isascii() and value.isprintable() and value == value.strip()):
        raise ValueError("must be printable ASCII without spaces at its ends")
    if len(value) > _USER_AGENT_LENGTH or not _PRODUCT.match(value):
        raise ValueError('must begin with a product name, such as "ExampleBot/1.0", and be short')
    return value


def proxy_url(value: str) -> str:
    """Return `value` if it is the URL of a proxy; no message repeats it or its password.

    Raises
    ------
    ValueError
        It is not the URL of an HTTP proxy.
    """
    if len(value) > limits.URL_LENGTH:
        raise ValueError(f"must be at most {limits.URL_LENGTH} characters")
    try:
        parts = urlsplit(value)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ValueError("must be a proxy's URL: http://host:port or https://host:port")
    return value


def http_url(value: str) -> str:
    """Return `value` if it is an absolute http or https URL with a host."""
    if len(value) > limits.URL_LENGTH:
        raise ValueError(f"must be at most {limits.URL_LENGTH} characters")
    url = value.strip()
    try:
        parts = urlsplit(url)
        has_blank = re.search(r"\s", parts.netloc) is not None
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and not has_blank
        port = parts.port  # checked only on access
    except ValueError:
        is_valid, port = False, None
    # urlsplit drops control characters.
    if not is_valid or re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", url):
        raise ValueError("must be an absolute http:// or https:// URL")
    if port == 0:
        raise ValueError("must be an http:// or https:// URL with a port other than 0")
    return url


def _query(value: str) -> str:
    low, high = limits.QUERY_LENGTH
    if not value.strip():
        raise ValueError("must contain at least one character that is not a space")
    if len(value) > high:
        raise ValueError(f"must be {low} to {high} characters long")
    return value


def _language(value: str) -> str:
    if len(value) > limits.LANGUAGE_LENGTH:
        raise ValueError(f"must be at most {limits.LANGUAGE_LENGTH} characters")
    if not re.fullmatch(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", value):
        raise ValueError('must be a language code such as "en" or "pt-BR"')
    return value


def _headers(value: dict[str, str]) -> dict[str, str]:
    _pairs(value)
    for name in value:
        if name.lower() in _FORBIDDEN_HEADERS:
            raise ValueError(f"the header {name!r} belongs to the connection and cannot be set")
    return value


def _pairs(value: dict[str, str]) -> dict[str, str]:
    if len(value) > limits.HEADERS:
        raise ValueError(f"must have at most {limits.HEADERS} entries")
    if sum(len(name) + len(text) for name, text in value.items()) > limits.HEADERS_SIZE:
        raise ValueError(
            f"must have at most {limits.HEADERS_SIZE} characters in all, names and values"
        )
    for name, text in value.items():
        if len(name) > limits.HEADER_NAME_LENGTH or not _TOKEN.fullmatch(name):
            raise ValueError(
                f"{name[:40]!r} is not a valid name (1 to {limits.HEADER_NAME_LENGTH} letters, "
                "digits and !#$%&'*+-.^_`|~)"
            )
        if len(text) > limits.HEADER_LENGTH or not _SENDABLE.fullmatch(text):
            raise ValueError(
                f"the value of {name!r} must be at most {limits.HEADER_LENGTH} characters of "
                "Latin-1 without line breaks or control characters"
            )
    return value


def _cookies(value: dict[str, str]) -> dict[str, str]:
    _pairs(value)
    for name, text in value.items():
        if re.search(r'[;,\s"\\]', text) or not text.isascii():
            raise ValueError(
                f"the cookie {name!r} must be ASCII without spaces, quotes, commas, semicolons "
                "or backslashes"
            )
    return value


def _unique(value: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(value))


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _max_entries(entries: int, unit: str) -> Callable[[Any], Any]:
    """Return a check of a list's length that runs before the checks of its entries."""

    def check(value: Any) -> Any:
        if isinstance(value, list | tuple) and len(value) > entries:
            raise ValueError(f"must have at most {entries} {unit}")
        return value

    return check


def _patterns(value: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in value:
        if not pattern.strip() or len(pattern) > limits.URL_LENGTH:
            raise ValueError(
                f"each pattern must be 1 to {limits.URL_LENGTH} characters, such as /docs/**"
            )
        if len(_WILDCARDS.findall(pattern)) > limits.PATTERN_WILDCARDS:
            raise ValueError(
                f"each pattern must have at most {limits.PATTERN_WILDCARDS} wildcards (* or **)"
            )
        if (why := _no_match_reason(pattern)) is not None:
            raise ValueError(f"{pattern[:80]!r} matches no page: {why}")
    _check_total_size(value, limits.PATTERNS_SIZE)
    return value


def _no_match_reason(pattern: str) -> str | None:
    """Return why no path can match a pattern; None if one may match."""
    if re.match(r"[a-z][a-z0-9+.-]*:/|//", pattern.strip(), re.IGNORECASE):
        return "a pattern is of the path alone, such as /docs/**, without scheme and host"
    if "#" in pattern:
        return "what follows # is no part of a page's address"
    bracket = pattern.rfind("[")
    if bracket > pattern.rfind("]"):
        return "a [ has no ]; a pattern knows * and **, and takes every other character as it is"
    return None


def _selectors(value: tuple[str, ...]) -> tuple[str, ...]:
    for selector in value:
        _selector(selector, "each entry must be a CSS selector such as article or .content")
    _check_total_size(value, limits.SELECTORS_SIZE)
    return value


def _selector(value: str, rule: str) -> None:
    if not value.strip():
        raise ValueError(rule)
    if len(value) > limits.SELECTOR_LENGTH:
        raise ValueError(f"a CSS selector must be at most {limits.SELECTOR_LENGTH} characters")


def _check_total_size(value: tuple[str, ...], size: int) -> None:
    if sum(map(len, value)) > size:
        raise ValueError(f"must have at most {size} characters in all entries together")


def _schema(value: dict[str, Any]) -> dict[str, Any]:
    if len(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) > limits.SCHEMA_SIZE:
        raise ValueError(f"must be at most {limits.SCHEMA_SIZE} characters as compact JSON")
    return value


_WAIT: Final = "must be milliseconds as a number, or a CSS selector such as .ready"


def _wait(value: Any) -> Any:
    """Return milliseconds or a selector; a number in quotes is neither."""
    if isinstance(value, str):
        _selector(value, _WAIT)
        if re.fullmatch(r"[\d.eE+\s-]+", value):
            raise ValueError(_WAIT)
        return value
    value = _integral(value)
    if isinstance(value, bool) or not isinstance(value, int):
        # pydantic does not treat a TypeError as a validation error.
        raise ValueError(_WAIT)  # noqa: TRY004 - see above
    return _between(limits.SCRAPE_TIMEOUT_MS)(value)


def whole(bounds: tuple[int, int]) -> tuple[BeforeValidator, AfterValidator, WithJsonSchema]:
    """Return the checks and the JSON schema of a whole number within `bounds`."""
    low, high = bounds
    schema = WithJsonSchema({"type": "integer", "minimum": low, "maximum": high})
    return BeforeValidator(_integral), AfterValidator(_between(bounds)), schema


def _bounded_number(
    bounds: tuple[float, float], what: str = "a number"
) -> tuple[BeforeValidator, WithJsonSchema]:
    """Return the check and the JSON schema of a number within `bounds`, which is no boolean."""
    low, high = bounds

    def check(value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not low <= value <= high:
            raise ValueError(f"must be {what} from {low:g} to {high:g}")
        return float(value)

    schema = WithJsonSchema({"type": "number", "minimum": low, "maximum": high})
    return BeforeValidator(check), schema


def _job_id(value: str) -> str:
    if not _UUID.fullmatch(value):
        raise ValueError("must be the id of a job, a UUID")
    return value


def _text_schema(**schema: Any) -> WithJsonSchema:
    """Return the JSON schema of a text."""
    return WithJsonSchema({"type": "string", **schema})


def _pairs_schema(value: str) -> WithJsonSchema:
    """Return the JSON schema of headers or cookies."""
    return WithJsonSchema(
        {
            "type": "object",
            "maxProperties": limits.HEADERS,
            "propertyNames": {"pattern": _NAME, "maxLength": limits.HEADER_NAME_LENGTH},
            "additionalProperties": {
                "type": "string",
                "maxLength": limits.HEADER_LENGTH,
                "pattern": value,
            },
        }
    )


def _list_schema(max_items: int, **item: Any) -> WithJsonSchema:
    """Return the JSON schema of a list of texts."""
    return WithJsonSchema(
        {"type": "array", "items": {"type": "string", **item}, "maxItems": max_items}
    )


_UUID: Final = re.compile("^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_NAME: Final = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"


Flag = StrictBool
HttpUrl = Annotated[
    str,
    AfterValidator(http_url),
    _text_schema(format="uri", minLength=1, maxLength=limits.URL_LENGTH),
]
StoredJobId = Annotated[
    str, AfterValidator(_job_id), _text_schema(format="uuid", pattern=_UUID.pattern, maxLength=36)
]
Recheck = Annotated[float, *_bounded_number(limits.RECHECK)]
UserAgent = Annotated[str, AfterValidator(user_agent), _text_schema(maxLength=_USER_AGENT_LENGTH)]
ProxyUrl = Annotated[str, AfterValidator(proxy_url), _text_schema(maxLength=limits.URL_LENGTH)]
Query = Annotated[
    str,
    AfterValidator(_query),
    _text_schema(minLength=limits.QUERY_LENGTH[0], maxLength=limits.QUERY_LENGTH[1], pattern=r"\S"),
]
Country = Annotated[
    str, AfterValidator(country_code), _text_schema(pattern="^[A-Za-z]{2}$", maxLength=2)
]
Language = Annotated[
    str,
    AfterValidator(_language),
    _text_schema(pattern="^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$", maxLength=limits.LANGUAGE_LENGTH),
]
Headers = Annotated[
    dict[str, str], AfterValidator(_headers), _pairs_schema(r"^[\t\x20-\x7e\x80-\xff]*$")
]
Cookies = Annotated[
    dict[str, str], AfterValidator(_cookies), _pairs_schema(r"^[!#-+\x2d-:<-\[\]-~]*$")
]
Formats = Annotated[
    tuple[Format, ...],
    BeforeValidator(_as_tuple),
    BeforeValidator(_max_entries(limits.FORMATS, "formats")),
    AfterValidator(_unique),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "string", "enum": list(FORMATS)},
            "maxItems": limits.FORMATS,
        }
    ),
]
Patterns = Annotated[
    tuple[str, ...],
    BeforeValidator(_as_tuple),
    BeforeValidator(_max_entries(limits.PATTERNS, "patterns")),
    AfterValidator(_patterns),
    AfterValidator(_unique),
    _list_schema(limits.PATTERNS, minLength=1, maxLength=limits.URL_LENGTH, pattern=r"\S"),
]
Selectors = Annotated[
    tuple[str, ...],
    BeforeValidator(_as_tuple),
    BeforeValidator(_max_entries(limits.SELECTORS, "selectors")),
    AfterValidator(_selectors),
    AfterValidator(_unique),
    _list_schema(
        limits.SELECTORS,
        format="css-selector",
        minLength=1,
        maxLength=limits.SELECTOR_LENGTH,
        pattern=r"\S",
    ),
]
ExtractSchema = Annotated[
    dict[str, Any],
    AfterValidator(_schema),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": True,
            "description": (
                f"A JSON Schema of at most {limits.SCHEMA_SIZE} characters as compact JSON, "
                f"{limits.SCHEMA_FIELDS} fields, {limits.SCHEMA_DEPTH} levels and "
                f"{limits.SCHEMA_CHOICES_TOTAL} enum values."
            ),
        }
    ),
]
DeviceName = Annotated[str, Field(min_length=1, max_length=limits.DEVICE_LENGTH)]
WebhookSecret = Annotated[str, Field(min_length=1, max_length=limits.WEBHOOK_SECRET_LENGTH)]
NumResults = Annotated[int, *whole(limits.NUM_RESULTS)]
MaxPages = Annotated[int, *whole(limits.MAX_PAGES)]
ExtendedMaxPages = Annotated[int, *whole(limits.EXTENDED_MAX_PAGES)]
MaxDepth = Annotated[int, *whole(limits.MAX_DEPTH)]
Concurrency = Annotated[int, *whole(limits.CONCURRENCY)]
CreativesLimit = Annotated[int, *whole(limits.CREATIVES_LIMIT)]
TimeoutMs = Annotated[int, *whole(limits.TIMEOUT_MS)]
ScrapeTimeoutMs = Annotated[int, *whole(limits.SCRAPE_TIMEOUT_MS)]
WaitFor = Annotated[
    int | str,
    BeforeValidator(_wait),
    WithJsonSchema(
        {
            "anyOf": [
                {
                    "type": "integer",
                    "minimum": limits.SCRAPE_TIMEOUT_MS[0],
                    "maximum": limits.SCRAPE_TIMEOUT_MS[1],
                },
                {
                    "type": "string",
                    "format": "css-selector",
                    "minLength": 1,
                    "maxLength": limits.SELECTOR_LENGTH,
                },
            ]
        }
    ),
]
ScreenshotSide = Annotated[int, *whole(limits.SCREENSHOT_SIDE)]

# Times of web archives


def utc_time(text: str) -> str:
    """Return a time in UTC, in the form `2024-06-01T00:00:00Z`; a day is its first moment.

    Raises
    ------
    ValueError
        It is no time, or one without captures.
    """
    try:
        at = datetime.fromisoformat(text)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("must be a date or time in ISO 8601, such as 2024-06-01") from None
    if at.year < FIRST_YEAR:
        raise ValueError(f"must be in {FIRST_YEAR} or later, when web archives begin")
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _past_time(text: str) -> str:
    at = utc_time(text)
    if datetime.fromisoformat(at) > datetime.now(UTC):
        raise ValueError("must be a date in the past")
    return at


_TIME_SCHEMA: Final = WithJsonSchema(
    {"type": "string", "format": "date-time", "maxLength": limits.TIME_LENGTH}
)
ArchiveTime = Annotated[
    str, Field(max_length=limits.TIME_LENGTH), AfterValidator(utc_time), _TIME_SCHEMA
]
PastTime = Annotated[
    str, Field(max_length=limits.TIME_LENGTH), AfterValidator(_past_time), _TIME_SCHEMA
]
CaptureDistance = Annotated[float, *_bounded_number(limits.CAPTURE_DISTANCE, "a number of days")]
CapturesListed = Annotated[int, *whole(limits.CAPTURES_LISTED)]
FilePath = Annotated[str, Field(min_length=1, max_length=limits.URL_LENGTH)]
PageUrls = Annotated[
    tuple[HttpUrl, ...],
    BeforeValidator(_as_tuple),
    BeforeValidator(_max_entries(limits.PAGE_URLS, "pages")),
    AfterValidator(_unique),
    _list_schema(limits.PAGE_URLS, format="uri", minLength=1, maxLength=limits.URL_LENGTH),
]
