"""Parses and checks the values of settings, from any source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from webdata_nb.contract import variables
from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.fields import http_url, proxy_url, user_agent
from webdata_nb.suggestions import closest, closest_url, did_you_mean, format_value, quoted

CACHE_BYTES: Final = 10 * 2**30
PROGRESS_KINDS: Final = ("bar", "html", "log", "panel", "marimo")
TRACEBACKS: Final = ("short", "full")
LOG_LEVELS: Final = ("debug", "info", "warning", "error", "critical")
_TRUE_WORDS: Final = frozenset({"1", "on", "yes", "true"})
_FALSE_WORDS: Final = frozenset({"0", "off", "no", "false"})


# Variables


def parse_boolean(name: str, text: str) -> bool:
    """Parse the word of a variable that is on or off."""
    word = text.lower()
    if word not in _TRUE_WORDS | _FALSE_WORDS:
        raise ValueError(f"{name} must be 1, on, yes, true or 0, off, no, false; it is {text!r}")
    return word in _TRUE_WORDS


def parse_progress(_name: str, text: str) -> str | bool:
    """Parse on, off or the name of a kind of bar."""
    word = text.lower()
    return word in _TRUE_WORDS if word in _TRUE_WORDS | _FALSE_WORDS else word


def parse_number(name: str, text: str) -> float:
    """Parse a number of seconds."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number of seconds; it is {text!r}") from None


def parse_bytes(name: str, text: str) -> int:
    """Parse a number of bytes."""
    if not text.isdecimal():
        raise ValueError(f"{name} must be a whole number of bytes; it is {text!r}")
    return int(text)


# Values from any source


def check_folder(path: Path | str | None) -> Path | None:
    """Return an absolute path; it need not exist."""
    return None if path is None else Path(path).expanduser().absolute()


def check_base_url(value: str | None) -> str | None:
    """Return the address of a service without a slash at its end."""
    if value is None:
        return None
    try:
        url = http_url(_text("base_url (WEBDATA_BASE_URL)", value)).rstrip("/")
    except ValueError as error:
        suggestion = did_you_mean(closest_url(value))
        raise ValueError(
            f"base_url (WEBDATA_BASE_URL) {error}; it is {format_value(value)}{suggestion}"
        ) from None
    parts = urlsplit(url)
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(
            "base_url (WEBDATA_BASE_URL) must have no user name, query or fragment: "
            "a key goes into api_key (WEBDATA_API_KEY)"
        )
    return url


def check_user_agent(value: str | None) -> str | None:
    """Check the user agent of the local service."""
    try:
        return None if value is None else user_agent(value)
    except ValueError as error:
        raise ValueError(f"user_agent (WEBDATA_USER_AGENT) {error}") from None


def check_proxy(value: str | None) -> str | None:
    """Check the address of a proxy."""
    try:
        return None if value is None else proxy_url(value)
    except ValueError as error:
        raise ValueError(f"proxy (WEBDATA_PROXY) {error}") from None


def check_ca_bundle(value: str | None) -> str | None:
    """Return the bundle as a path that means the same in the service's folder."""
    path = check_folder(value)
    if path is None:
        return None
    if not path.is_file():
        raise ValueError(
            f"ca_bundle (WEBDATA_CA_BUNDLE) must be a file of certificates (PEM): {path} is none"
        )
    return str(path)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string; it is {format_value(value)}")  # noqa: TRY004
    return value


def choice_check(
    name: str, allowed: Sequence[str], *, also: str = ""
) -> Callable[[str | None], str | None]:
    """Return a check of a setting with a list of values."""

    def check(value: str | None) -> str | None:
        if value is None or (isinstance(value, str) and value.lower() in allowed):
            return None if value is None else value.lower()
        suggestion = did_you_mean(quoted(closest(value, allowed)))
        words = ", ".join(map(repr, allowed))
        raise ValueError(
            f"{name} must be {also}one of {words}; it is {format_value(value)}{suggestion}"
        )

    return check


_PROGRESS: Final = choice_check(
    "progress (WEBDATA_PROGRESS)", PROGRESS_KINDS, also="True, False, None or "
)


def check_progress(value: str | bool | None) -> str | bool | None:
    """Return a boolean or the name of a kind of bar."""
    return value if isinstance(value, bool) else _PROGRESS(value)


def flag_check(name: str) -> Callable[[object], bool | None]:
    """Return a check of a setting that is True or False."""

    def check(value: object) -> bool | None:
        if value is None or isinstance(value, bool):
            return value
        raise ValueError(f"{name} must be True or False; it is {format_value(value)}")

    return check


def check_ttl(value: float | None) -> float | None:
    """Check a number of seconds."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ValueError(
            f"ttl (WEBDATA_TTL) must be a number of seconds from 0; it is {format_value(value)}"
        )
    return value


def check_cache_bytes(value: object) -> int:
    """Check the maximum size of the cache."""
    if value is None:
        return CACHE_BYTES
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(
            "cache_bytes (WEBDATA_CACHE_BYTES) must be a whole number of bytes from 0; "
            f"it is {format_value(value)}"
        )
    return value


def check_engines(engines: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the provider names of each engine."""
    if unknown := sorted(set(engines) - set(ENGINES)):
        suggestion = did_you_mean(quoted(closest(unknown[0], ENGINES)))
        raise ValueError(
            f"engines must be named {', '.join(ENGINES)}; not {', '.join(unknown)}{suggestion}"
        )
    # tuple() would split a text into letters.
    return {
        name: variables.split_names(providers) if isinstance(providers, str) else tuple(providers)
        for name, providers in engines.items()
    }
