"""Parses and checks the values of settings, from any source."""

from __future__ import annotations

import functools
import getpass
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

from webdata_nb import caller
from webdata_nb.contract import variables
from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.fields import http_url, proxy_url, user_agent
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import closest, closest_url, did_you_mean, format_value, quoted

CACHE_BYTES: Final = 10 * 2**30
PROGRESS_KINDS: Final = ("bar", "html", "log", "panel", "marimo")
TRACEBACKS: Final = ("short", "full")
LOG_LEVELS: Final = ("debug", "info", "warning", "error", "critical")
_TRUE_WORDS: Final = frozenset({"1", "on", "yes", "true"})
_FALSE_WORDS: Final = frozenset({"0", "off", "no", "false"})


_NAMES_OF: Final = "engines[{!r}] must be a list of provider names"
_V = TypeVar("_V")


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


# Folders


def user_directory(parent: Path) -> Path | None:
    """Create a private directory of this user in a shared one; None if another user has it."""
    directory = parent / f"webdata-{os.getuid() if os.name != 'nt' else getpass.getuser()}"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        status = directory.lstat()
    except OSError:
        return None
    return directory if stat.S_ISDIR(status.st_mode) and is_private(status) else None


def is_private(status: os.stat_result) -> bool:
    """Whether only this user has access; on Windows, the user's directories are private."""
    if os.name == "nt":
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


@functools.cache
def temporary_home() -> Path:
    """Return a folder for a user without a home directory, and warn once.

    Raises
    ------
    ValueError
        No temporary directory can be written.
    """
    reason = "this user has no home directory (HOME is not set)"
    try:
        directory = user_directory(Path(tempfile.gettempdir()))
    except OSError:
        directory = None
    if directory is None:
        raise ValueError(
            f"{reason} and no temporary directory: set WEBDATA_HOME to a directory that can be "
            "written"
        )
    home = directory / "home"
    caller.warn(
        f"{reason}: results and the data of the local service are kept in the temporary directory "
        f"{home}. Set WEBDATA_HOME to a directory that can be written."
    )
    return home


# Values from any source


def folder_check(name: str) -> Callable[[object], Path | None]:
    """Return a check of a folder, which need not exist; it returns an absolute path."""

    def check(path: object) -> Path | None:
        if path is None:
            return None
        if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
            raise ValueError(f"{name} must be a path; it is {format_value(path)}")  # noqa: TRY004
        try:
            return Path(path).expanduser().absolute()
        except RuntimeError as error:
            raise ValueError(f"the folder {str(path)!r} has no known place: {error}") from None

    return check


def text_check(name: str) -> Callable[[object], str | None]:
    """Return a check of a setting that is any text."""
    return lambda value: None if value is None else _text(name, value)


def check_base_url(value: str | None) -> str | None:
    """Return the address of a service without a slash at its end."""
    if value is None:
        return None
    text = _text("base_url (WEBDATA_BASE_URL)", value)
    try:
        url = http_url(text).rstrip("/")
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
    if value is not None:
        _text("user_agent (WEBDATA_USER_AGENT)", value)
    try:
        return None if value is None else user_agent(value)
    except ValueError as error:
        raise ValueError(f"user_agent (WEBDATA_USER_AGENT) {error}") from None


def check_proxy(value: str | None) -> str | None:
    """Check the address of a proxy."""
    if value is not None and not isinstance(value, str):
        raise ValueError(f"proxy (WEBDATA_PROXY) must be a string; it is a {type(value).__name__}")
    try:
        return None if value is None else proxy_url(value)
    except ValueError as error:
        raise ValueError(f"proxy (WEBDATA_PROXY) {error}") from None


def check_provider_url(entry: str, value: str | None) -> None:
    """Check the address of a provider."""
    try:
        if value is not None:
            http_url(value)
    except ValueError as error:
        suggestion = did_you_mean(closest_url(value))
        raise ValueError(f"{entry}: url {error}; it is {format_value(value)}{suggestion}") from None


def check_ca_bundle(value: str | None) -> str | None:
    """Return the bundle as a path that means the same in the service's folder."""
    path = folder_check("ca_bundle (WEBDATA_CA_BUNDLE)")(value)
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


def check_engine(name: object, providers: object) -> tuple[str, ...]:
    """Return the provider names of an engine."""
    if name not in ENGINES:
        suggestion = did_you_mean(quoted(closest(name, ENGINES)))
        raise ValueError(
            f"engines must be named {', '.join(ENGINES)}; not {format_value(name)}{suggestion}"
        )
    # A text is not a list of letters.
    names = variables.split_names(providers) if isinstance(providers, str) else providers
    if isinstance(names, Mapping) or not isinstance(names, Iterable):
        problem = f"{_NAMES_OF.format(name)}; it is {format_value(providers)}"
        raise ValueError(problem)  # noqa: TRY004 - as of other settings
    listed = tuple(names)
    if wrong := [each for each in listed if not isinstance(each, str) or not each.strip()]:
        raise ValueError(f"{_NAMES_OF.format(name)}; one is {format_value(wrong[0])}")
    return tuple(each.strip().lower() for each in listed)


class CheckedEntries(dict[str, _V]):
    """A setting with entries, each of which is checked when it is set.

    `check` returns the value of an entry as it is kept, from its name and what was given.
    """

    def __init__(self, check: Callable[[str, Any], _V], entries: Mapping[str, Any]) -> None:
        self._check = check
        self.update(entries)

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def update(self, *entries: Any, **named: Any) -> None:
        """Set all entries, or none if one is not allowed."""
        try:
            new = dict(*entries, **named)
            checked = {name: self._check(name, value) for name, value in new.items()}
        except (ValueError, TypeError) as error:
            raise InvalidArgument(str(error)) from None
        super().update(checked)

    def setdefault(self, name: str, value: Any = None) -> _V:
        """Set an entry that is not there yet, and return it."""
        if name not in self:
            self[name] = value
        return self[name]

    # `|` returns a plain dict.
    def __ior__(self, entries: Any) -> Self:  # type: ignore[misc,override]
        self.update(entries)
        return self

    def __reduce__(self) -> tuple[type, tuple[dict[str, _V]]]:
        return dict, (dict(self),)
