"""Finds the closest valid value for a wrong one, and formats values and counts for messages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

_MAX_CHARS: Final = 80
_MAX_PATH: Final = 300
_MAX_ITEMS: Final = 8
_SIMILARITY: Final = 0.6
_MISSING: Final = ("NAType", "NaTType")  # types of pandas
# What stands before the host: a scheme with a typo, or with too few slashes or no colon.
_SCHEME: Final = re.compile(r"([A-Za-z]{2,6})(?::/{0,3}|/{2,3})(?=[^/:\s])")
_HOST: Final = re.compile(
    r"(?:[\w-]+\.)+[A-Za-z]{2,}|localhost|\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:]+\]"
)
_LOCAL: Final = re.compile(r"(?:localhost|[\d.]+)(?::\d+)?(?:[/?#]|$)")
_CREDENTIALS: Final = re.compile(r"^(\s*(?:[A-Za-z]+:/+)?)[^/?#@\s]*@")


# Arguments of other calls and other versions, by the argument of `crawl_df` that has them.
_GROUPED: Final[Mapping[str, str]] = {
    **{
        name: f'scrape_options={{"{name}": ...}}'
        for name in (
            *("headers", "cookies", "mobile", "mobile_device", "wait_for", "include_tags"),
            *("exclude_tags", "format_options"),
        )
    },
    "page_timeout": 'scrape_options={"timeout": ...}',
    "purpose": 'rights="..."',
    "source": 'as_of={"date": ..., "source": ...}',
    "max_distance": 'as_of={"date": ..., "max_distance": ...}',
    "archive": 'as_of={"source": ...}',
    "recheck": 'since={"base": ..., "recheck": ...}',
    "batch_rows": "stream=500",
    "partition": "executor=... alone: a crawl is a partition of its own",
}


def unknown_argument(name: str, names: Sequence[str]) -> str:
    """Return what to give instead of an argument that a function does not have; "" if unknown.

    Examples
    --------
    >>> unknown_argument("header", ["url", "scrape_options"])
    ': give it as scrape_options={"headers": ...}'
    >>> unknown_argument("max_page", ["url", "max_pages"])
    ": did you mean 'max_pages'?"
    """
    grouped = [each for each, form in _GROUPED.items() if form.partition("=")[0] in names]
    suggestion = name if name in grouped else closest(name, [*names, *grouped])
    if suggestion in grouped and suggestion not in names:
        return f": give it as {_GROUPED[suggestion]}"
    return did_you_mean(quoted(suggestion))


def _normalized(name: str) -> str:
    """Return a name as the table of synonyms spells it; flags of a command have hyphens."""
    return name.lower().lstrip("-").replace("-", "_").replace(" ", "_")


@cache
def _synonyms() -> dict[str, str]:
    """Return what others call options and values, by our names."""
    import tomllib  # noqa: PLC0415 - of a mistake only

    return tomllib.loads(Path(__file__).with_name("synonyms.toml").read_text("utf-8"))


def closest(value: object, choices: Iterable[str]) -> str | None:
    """Return the choice that is most similar to `value`, in spelling or in meaning; None without.

    Examples
    --------
    >>> closest("num_result", ["num_results", "engine"])
    'num_results'
    >>> closest("limit", ["url", "max_pages"])
    'max_pages'
    """
    by_lower = {choice.lower(): choice for choice in choices}
    if str(value).lower() not in by_lower:
        word = _normalized(str(value))
        by_name = {_normalized(choice): choice for choice in by_lower.values()}
        synonyms = (
            by_name[meaning]
            for meanings, words in _synonyms().items()
            if word in words.split()
            for meaning in meanings.split()
            if meaning in by_name
        )
        if (synonym := next(synonyms, None)) is not None:
            return synonym
    matches = difflib.get_close_matches(str(value).lower(), by_lower, n=1, cutoff=_SIMILARITY)
    if matches:
        return by_lower[matches[0]]
    parts = (choice for choice in by_lower if str(value).lower() in choice.split("_"))
    return next((by_lower[part] for part in parts), None)


def did_you_mean(suggestion: str | None) -> str:
    """Return the end of a message that names a suggestion; "" without one."""
    return "" if suggestion is None else f": did you mean {suggestion}?"


def quoted(value: str | None) -> str | None:
    """Return the repr of a suggestion; None without one."""
    return None if value is None else repr(value)


def closest_url(value: object) -> str | None:
    """Return the http or https URL that `value` was probably meant to be; None for any other text.

    Examples
    --------
    >>> closest_url("example.com/docs")
    'https://example.com/docs'
    >>> closest_url("htps:/example.com")
    'https://example.com'
    """
    if not isinstance(value, str):
        return None
    text = value.strip()
    scheme = "http" if _LOCAL.match(text) else "https"
    if (typed := _SCHEME.match(text)) is not None:
        rest = text[typed.end() :]
        # The colon of `localhost:8000` is not that of a scheme.
        if not (typed[0].endswith(":") and re.match(r"\d+(?:[/?#]|$)", rest)):
            scheme_match = closest(typed[1], ("http", "https"))
            if scheme_match is None:
                return None
            scheme, text = scheme_match, rest
    url = f"{scheme}://{text.lstrip('/')}"
    try:
        host, _ = urlsplit(url).hostname or "", urlsplit(url).port
    except ValueError:
        return None
    return url if _HOST.fullmatch(f"[{host}]" if ":" in host else host) else None


def format_value(value: Any) -> str:
    """Return a value as a message shows it: short, on one line, without a password.

    A mapping may hold headers or cookies, so that only its keys are shown.
    """
    if isinstance(value, Mapping):
        return f"a dict with {', '.join(map(repr, list(value)[:_MAX_ITEMS])) or 'no keys'}"
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        more = ", ..." if len(value) > _MAX_ITEMS else ""
        return f"[{', '.join(format_value(item) for item in value[:_MAX_ITEMS])}{more}]"
    if isinstance(value, str):
        value = _CREDENTIALS.sub(r"\1***@", value)
    name = type(value).__name__
    if value is None or isinstance(value, str | bool | int | float) or name in _MISSING:
        text = repr(value)
    else:
        text = f"a {'DataFrame' if is_frame(value) else name}"
        if (columns := getattr(value, "columns", None)) is not None:
            more = ", ..." if len(columns) > _MAX_ITEMS else ""
            text += f" with {', '.join(map(str, columns[:_MAX_ITEMS])) or 'no columns'}{more}"
    return text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS - 1]}…"


def counted(number: int, noun: str) -> str:
    """Return a number of things.

    Examples
    --------
    >>> counted(1, "page"), counted(1200, "page")
    ('1 page', '1,200 pages')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def is_frame(value: object) -> bool:
    """Return whether a value is a DataFrame, without the import of pandas."""
    return any(each.__name__ == "DataFrame" for each in type(value).__mro__)


def format_path(path: object) -> str:
    """Return a path or URL as a message shows it: without a password, and with its end.

    Examples
    --------
    >>> format_path("s3://key:secret@host/pages.parquet")
    "'s3://***@host/pages.parquet'"
    """
    text = _CREDENTIALS.sub(r"\1***@", str(path))
    return repr(text if len(text) <= _MAX_PATH else f"…{text[1 - _MAX_PATH :]}")
