"""Defines the signals about the use of a page, and the notations that they are written in. Pure.

These are dictionaries of structured fields (RFC 9651, 4.2.2), the values of Content-Usage,
Content-Signal and robots directives, and the path patterns of robots.txt, tdmrep.json and RSL
licences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote_to_bytes

from webdata_nb.contract.choices import PURPOSES, Purpose
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import canonical_url, split_url
from webdata_nb.service.crawl.robots_rules import (
    RobotsRule,
    encode_pattern,
    encoded_path,
    path_and_query,
)

Statement = Literal["allowed", "refused"]
Verdict = Literal["allowed", "refused", "unknown"]
Says: TypeAlias = Mapping[Purpose, Statement]
"""What a signal says of each purpose; a purpose that it does not name is unknown."""

# A row lists so many signals at most; all of them count towards its verdicts.
MAX_LISTED: Final = 32
MAX_LINE_CHARACTERS: Final = 300
# Control characters, and halves of surrogate pairs.
_UNSTORABLE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")


def refuses(*purposes: Purpose) -> Says:
    """Return the statement that refuses some purposes."""
    return dict.fromkeys(purposes, "refused")


def allows(*purposes: Purpose) -> Says:
    """Return the statement that allows some purposes."""
    return dict.fromkeys(purposes, "allowed")


def combine(statements: Iterable[Says]) -> dict[Purpose, Statement]:
    """Combine statements: for each purpose the most restrictive one counts."""
    combined: dict[Purpose, Statement] = {}
    for says in statements:
        for purpose, statement in says.items():
            if combined.get(purpose) != "refused":
                combined[purpose] = statement
    return combined


@dataclass(frozen=True, slots=True)
class RightsSignal:
    """One declaration about the use of a page.

    Attributes
    ----------
    name
        ``robots``, ``content-signal``, ``content-usage``, ``rsl``, ``robots-tag``, ``tdm`` or
        ``license``.
    source
        The URL of the file or page that has it.
    line
        The line, header or element.
    read_at
        When the source was read, in ISO 8601.
    says
        What it says of each purpose.
    line_number
        The number of the line in a file, from 1.
    problem
        Why it could not be read, or not as a whole.
    """

    name: str
    source: str
    line: str
    read_at: str
    says: Says = field(default_factory=dict)
    line_number: int | None = None
    problem: str = ""

    @property
    def rule(self) -> str:
        """The line and where it is, for receipts and messages."""
        number = "" if self.line_number is None else f", line {self.line_number}"
        return f"{self.quote} ({self.source}{number})"

    @property
    def quote(self) -> str:
        """The beginning of the line, without characters that not every store accepts."""
        return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", self.line[:MAX_LINE_CHARACTERS])

    def as_json(self) -> dict[str, Any]:
        """Return the signal as it is in a row."""
        return {
            "signal": self.name,
            "source": self.source,
            "line": self.quote,
            "line_number": self.line_number,
            "read_at": self.read_at,
            "says": dict(self.says),
            "problem": self.problem or None,
        }


@dataclass(frozen=True, slots=True)
class PageRights:
    """All signals about the use of one page, and whether robots.txt allows its fetch."""

    signals: tuple[RightsSignal, ...] = ()
    robots_allowed: bool = True

    def __add__(self, signals: Iterable[RightsSignal]) -> PageRights:
        return replace(self, signals=(*self.signals, *signals))

    @property
    def verdicts(self) -> dict[Purpose, Verdict]:
        """What all signals together say of each purpose; unknown where none says anything."""
        combined = combine(signal.says for signal in self.signals)
        return {purpose: combined.get(purpose, "unknown") for purpose in PURPOSES}

    def refusal(self, purpose: Purpose | None) -> str | None:
        """Return the first rule that refuses a purpose; None where no rule does."""
        rules = (s.rule for s in self.signals if purpose and s.says.get(purpose) == "refused")
        return next(rules, None)

    def as_json(self) -> dict[str, Any]:
        """Return the value of a row; the signals that say something come first."""
        listed = sorted(self.signals, key=lambda signal: not signal.says)[:MAX_LISTED]
        return {
            "verdicts": self.verdicts,
            "robots_allowed": self.robots_allowed,
            "signals": [signal.as_json() for signal in listed],
        }


MAX_FIELD_CHARACTERS: Final = 16 * 1024
_KEY: Final = re.compile(r"[a-z*][a-z0-9_.*-]*")
_TOKEN: Final = re.compile(r"[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*")
_DISPLAY: Final = re.compile(r'%"((?:[\x20\x21\x23\x24\x26-\x7e]|%[0-9a-f]{2})*)"')
_OTHER_ITEM: Final = re.compile(
    r"-?[0-9]{1,12}\.[0-9]{1,3}(?![0-9.])|-?[0-9]{1,15}(?![0-9.])"  # decimal, integer
    r'|"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"'  # string
    r"|:[A-Za-z0-9+/=]*:|\?[01]|@-?[0-9]{1,15}(?![0-9.])"  # byte sequence, boolean, date
)
_SPACES: Final = re.compile(r" *")
_WHITE_SPACE: Final = re.compile(r"[ \t]*")


class _MalformedFieldError(ValueError):
    """The text is no dictionary."""


def parse_dictionary(text: str) -> dict[str, str | None] | None:
    """Return the members of a dictionary: tokens as text, all other values as None.

    Returns None where the text is no dictionary: a field that is malformed anywhere has no
    members at all. Of members with one key the last counts.

    Examples
    --------
    >>> parse_dictionary("train-ai=n, search=y;q=1")
    {'train-ai': 'n', 'search': 'y'}
    >>> parse_dictionary("train-ai=n, train-ai")
    {'train-ai': None}
    >>> parse_dictionary("Train-AI=n") is None
    True
    """
    if len(text) > MAX_FIELD_CHARACTERS or not text.isascii():
        return None
    try:
        return dict(_Scanner(text.strip(" ")).members())
    except _MalformedFieldError:
        return None


class _Scanner:
    """Reads one dictionary from its start to its end."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def members(self) -> Iterator[tuple[str, str | None]]:
        """Yield keys and values; raises `_MalformedFieldError`."""
        while self._at < len(self._text):
            key = self._take(_KEY)
            value = self._member() if self._skip("=") else None
            self._parameters()
            yield key, value
            self._take(_WHITE_SPACE)
            if self._at < len(self._text):
                if not self._skip(","):
                    raise _MalformedFieldError
                self._take(_WHITE_SPACE)
                if self._at == len(self._text):
                    raise _MalformedFieldError

    def _member(self) -> str | None:
        if not self._skip("("):
            return self._item()
        while True:
            self._take(_SPACES)
            if self._skip(")"):
                return None
            self._item()
            self._parameters()
            if self._text[self._at : self._at + 1] not in {" ", ")"}:
                raise _MalformedFieldError

    def _item(self) -> str | None:
        if token := _TOKEN.match(self._text, self._at):
            self._at = token.end()
            return token[0]
        if display := _DISPLAY.match(self._text, self._at):
            self._at = display.end()
            try:
                unquote_to_bytes(display[1]).decode()
            except UnicodeDecodeError:
                raise _MalformedFieldError from None
            return None
        self._take(_OTHER_ITEM)
        return None

    def _parameters(self) -> None:
        while self._skip(";"):
            self._take(_SPACES)
            self._take(_KEY)
            if self._skip("="):
                self._item()

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise _MalformedFieldError
        self._at = match.end()
        return match[0]

    def _skip(self, character: str) -> bool:
        found = self._text.startswith(character, self._at)
        self._at += found
        return found


# draft-ietf-aipref-vocab-08, 6.1 and 6.2.
_USAGE_LABELS: Final[dict[str, Purpose]] = {
    "train-ai": "ai-train",
    "ai-use": "ai-input",
    "search": "search",
}
_PREFERENCES: Final[dict[str | None, Statement]] = {"y": "allowed", "n": "refused"}
# contentsignals.org
_CONTENT_SIGNALS: Final[tuple[Purpose, ...]] = ("search", "ai-input", "ai-train")
_ANSWERS: Final[dict[str, Statement]] = {"yes": "allowed", "no": "refused"}
_DIRECTIVES: Final[dict[str, Says]] = {
    "noai": refuses("ai-input", "ai-train"),
    "noimageai": refuses("ai-input", "ai-train"),
    "noindex": refuses("search"),
    "none": refuses("search"),
}
# Directives of X-Robots-Tag that have a value of their own behind a colon.
_WITH_VALUE: Final = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")


def content_usage(value: str) -> Says:
    """Return what a Content-Usage value says (draft-ietf-aipref-vocab-08, 6.5).

    Labels and values of other versions of the draft say nothing.

    Examples
    --------
    >>> content_usage("train-ai=n, search=y, genai=n")
    {'ai-train': 'refused', 'search': 'allowed'}
    """
    members = parse_dictionary(value) or {}
    return {
        purpose: _PREFERENCES[members[label]]
        for label, purpose in _USAGE_LABELS.items()
        if members.get(label) in _PREFERENCES
    }


def content_signal(value: str) -> Says:
    """Return what a Content-Signal value says; of a signal with two answers, "no" counts.

    Examples
    --------
    >>> content_signal("ai-train=no, search=yes")
    {'ai-train': 'refused', 'search': 'allowed'}
    """
    signals: list[Says] = []
    for part in value.lower().split(","):
        name, _, answer = (text.strip() for text in part.partition("="))
        if name in _CONTENT_SIGNALS and answer in _ANSWERS:
            signals.append({name: _ANSWERS[answer]})
    return combine(signals)


def robots_directives(value: str, token: str) -> Says:
    """Return what X-Robots-Tag or a robots meta tag says to the crawler named `token`.

    A name of a crawler before a colon holds for the directives behind it, to the next name.

    Examples
    --------
    >>> robots_directives("noindex, noai", "ExampleBot")
    {'search': 'refused', 'ai-input': 'refused', 'ai-train': 'refused'}
    >>> robots_directives("otherbot: noai", "ExampleBot")
    {}
    """
    found: list[Says] = []
    addressees, is_addressed = {token.lower(), "*", "robots"}, True
    for part in value.lower().split(","):
        name, colon, rest = (text.strip() for text in part.partition(":"))
        # A name has no spaces: the time in a date, behind its comma, is none.
        if colon and name not in _WITH_VALUE and len(name.split()) == 1:
            is_addressed, name = name in addressees, rest
        if is_addressed and name in _DIRECTIVES:
            found.append(_DIRECTIVES[name])
    return combine(found)


# Patterns of a length that no path has; longer ones match nothing.
MAX_PATTERN_CHARACTERS: Final = 4096


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A path with the wildcards of RFC 9309: `*` matches anything, `$` at the end ends the path.

    `host` limits it to one host and port; without one it holds for every host.
    """

    text: str
    host: str = ""

    @classmethod
    def of_path(cls, path: str) -> PathPattern:
        """Return the pattern of a path, which is no URL also where it begins with `//`."""
        return cls(encode_pattern(path))

    @classmethod
    def of_url(cls, url: str) -> PathPattern | None:
        """Return the pattern of a path or an absolute URL; None where it is neither."""
        if not url or (url.startswith("/") and not url.startswith("//")):
            return cls.of_path(url)
        try:
            url = canonical_url(url)
        except FetchError:
            return None
        return cls(encode_pattern(path_and_query(url)), split_url(url).authority)

    @property
    def length(self) -> int:
        """The longest pattern that matches a path is the one that counts."""
        return len(self.text)

    def matches(self, url: str) -> bool:
        """Return whether the pattern matches a canonical URL."""
        if len(self.text) > MAX_PATTERN_CHARACTERS:
            return False
        if self.host and self.host != split_url(url).authority:
            return False
        return RobotsRule(self.text, allow=True).matches(encoded_path(url))
