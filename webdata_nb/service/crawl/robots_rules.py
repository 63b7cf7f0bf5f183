"""What a robots.txt says to one crawler: RFC 9309, read and matched as Google's parser does. Pure.

Reading never fails: whatever is no rule is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final
from urllib.parse import quote

# Eight times the longest URL that old browsers took; the rest of a longer line is passed over.
LINE: Final = 8 * 2083 - 1
# Enough for any site that splits its sitemap index; more are somebody's mistake.
SITEMAPS: Final = 100
_LINES: Final = re.compile(r"\r\n|\r|\n")
_BARE: Final = re.compile(r"(\S+)[ \t]+(\S+)")
_TOKEN: Final = re.compile(r"[A-Za-z_-]*")
_NAMED: Final = re.compile(r"compatible;\s*([A-Za-z_-]+)", re.IGNORECASE)
_SECONDS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_INDEX: Final = "/index.htm"
# The spellings that Google's parser forgives, since so many sites depend on them.
_AGENT: Final = ("user-agent", "useragent", "user agent")
_DISALLOW: Final = ("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw")
_SITEMAP: Final = ("sitemap", "site-map")
_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F)))


def product_token(user_agent: str) -> str:
    """Return the name by which robots.txt files address the sender of this User-Agent.

    Examples
    --------
    >>> product_token("webdata_nb/1.0")
    'webdata_nb'
    >>> product_token("Mozilla/5.0 (compatible; ExampleBot/2.1; +https://example.org/bot)")
    'ExampleBot'
    """
    named = _NAMED.search(user_agent)
    return named[1] if named else _token(user_agent.strip())


@dataclass(frozen=True, slots=True)
class Rule:
    """A path pattern: `*` matches anything, `$` at the end ends the path."""

    pattern: str
    allow: bool

    @property
    def weight(self) -> tuple[int, bool]:
        """What decides between two rules: the longer pattern, then the one that allows."""
        return len(self.pattern), self.allow

    def matches(self, path: str) -> bool:
        """Tell whether `path` begins with the pattern; linear, whatever the pattern."""
        anchored = self.pattern.endswith("$")
        head, *pieces = (self.pattern[:-1] if anchored else self.pattern).split("*")
        if not path.startswith(head):
            return False
        if not pieces:
            return not anchored or path == head
        return _follow(path, len(head), pieces, anchored=anchored)


def _follow(path: str, at: int, pieces: list[str], *, anchored: bool) -> bool:
    """Tell whether the pieces follow each other from `at`; the first place of each is the best."""
    last = pieces.pop() if anchored else ""
    for piece in pieces:
        found = path.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return not anchored or (len(path) - len(last) >= at and path.endswith(last))


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """The rules of one file for one crawler, weightiest first, and what else the file says."""

    rules: tuple[Rule, ...] = ()
    delay_s: float | None = None
    sitemaps: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, token: str) -> RobotsRules:
        """Read a file for the crawler named `token`."""
        reading = _Reading(token.lower())
        for line in _LINES.split(text.removeprefix("\ufeff")):
            if (pair := _pair(line[:LINE])) is not None:
                reading.take(*pair)
        return reading.result()

    def allows(self, url: str) -> bool:
        """Tell whether `url`, percent-encoded as it will be sent, may be fetched."""
        path = _path(url)
        return next((rule.allow for rule in self.rules if rule.matches(path)), True)


class _Reading:
    """A file half read. Groups that name the crawler outweigh those for everybody (`*`)."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._own, self._all = _Group(), _Group()
        self._named = False
        self._current: list[_Group] = []
        self._open = True
        self._sitemaps: list[str] = []

    def take(self, key: str, value: str) -> None:
        """Take one line. Lines that are no rule do not end a list of agents."""
        if key.startswith(_AGENT):
            self._agent(value)
        elif key.startswith("allow"):
            self._rule(value, allow=True)
        elif key.startswith(_DISALLOW):
            self._rule(value, allow=False)
        elif key.startswith("crawl-delay") and _SECONDS.fullmatch(value):
            for group in self._current:
                group.delay_s = float(value)
        elif key.startswith(_SITEMAP) and value and len(self._sitemaps) < SITEMAPS:
            self._sitemaps.append(value)

    def result(self) -> RobotsRules:
        """Return what was read."""
        group = self._own if self._named else self._all
        rules = sorted(set(group.rules), key=attrgetter("weight", "pattern"), reverse=True)
        sitemaps = tuple(dict.fromkeys(self._sitemaps))
        return RobotsRules(tuple(rules), group.delay_s, sitemaps)

    def _agent(self, value: str) -> None:
        if not self._open:
            self._current, self._open = [], True
        if value[:1] == "*" and not value[1:2].strip():
            self._current.append(self._all)
        elif _token(value).lower() == self._token:
            self._named = True
            self._current.append(self._own)

    def _rule(self, value: str, *, allow: bool) -> None:
        self._open = self._open and not self._current
        if value:  # an empty pattern matches nothing
            for rule in _rules(_encoded(value), allow=allow):
                for group in self._current:
                    group.rules.append(rule)


class _Group:
    """What one file says to one kind of crawler, however many groups say it."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.delay_s: float | None = None


def _rules(pattern: str, *, allow: bool) -> Iterator[Rule]:
    yield Rule(pattern, allow)
    slash = pattern.rfind("/")
    if allow and slash >= 0 and pattern.startswith(_INDEX, slash):
        # Who allows a folder's index page means the folder's own address too.
        yield Rule(f"{pattern[: slash + 1]}$", allow=True)


def _pair(line: str) -> tuple[str, str] | None:
    """Return a line's key in lower case and its value; a missing colon is forgiven."""
    text = line.partition("#")[0].strip()
    key, colon, value = text.partition(":")
    if not colon:
        bare = _BARE.fullmatch(text)
        if bare is None:
            return None
        key, value = bare.groups()
    key = key.strip().lower()
    return (key, value.strip()) if key else None


def _token(text: str) -> str:
    found = _TOKEN.match(text)
    return found[0] if found else ""


def _encoded(pattern: str) -> str:
    """Percent-encode as URLs are; what is encoded already stays, in upper case."""
    encoded = pattern if pattern.isascii() else quote(pattern, safe=_PRINTABLE)
    return _ESCAPE.sub(lambda escape: escape[0].upper(), encoded)


def _path(url: str) -> str:
    """Return path and query, the part that rules are about."""
    after = url.partition("#")[0].partition("//")[2]
    cut = re.search(r"[/?;]", after)
    found = after[cut.start() :] if cut else ""
    path = found if found.startswith("/") else f"/{found}"
    return _ESCAPE.sub(lambda escape: escape[0].upper(), path)
