"""What a robots.txt says to one crawler: RFC 9309, read and matched as Google's parser does. Pure.

Reading never fails: whatever is no rule is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final
from urllib.parse import quote

from webdata_nb.service.runtime.steps import Steps, at_once

# Eight times the longest URL that old browsers took; the rest of a longer line is passed over.
MAX_LINE_CHARACTERS: Final = 8 * 2083 - 1
# Enough for any site that splits its sitemap index; more are somebody's mistake.
MAX_SITEMAPS: Final = 100
# Wildcards of one rule, and characters of all rules that have some: ten times what the largest
# sites write, and few enough to be tried one after the other.
MAX_WILDCARDS: Final = 100
MAX_WILDCARD_CHARACTERS: Final = 64 * 1024
LINES_PER_STEP: Final = 200
RULES_PER_STEP: Final = 32
_LINES: Final = re.compile(r"[^\r\n]+")
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
class RobotsRule:
    """A path pattern with wildcards: `*` matches anything, `$` at the end ends the path."""

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
    """The rules of one file for one crawler, and what else the file says.

    Attributes
    ----------
    prefixes
        Whether a path that begins with a key may be fetched: the rules without wildcards.
    patterns
        The rules with wildcards, weightiest first.
    delay_s
        The crawl-delay in seconds, None when there is none.
    sitemaps
        The sitemaps that the file names.
    """

    prefixes: Mapping[str, bool] = field(default_factory=dict)
    patterns: tuple[RobotsRule, ...] = ()
    delay_s: float | None = None
    sitemaps: tuple[str, ...] = ()
    _lengths: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        lengths = sorted(set(map(len, self.prefixes)), reverse=True)
        object.__setattr__(self, "_lengths", tuple(lengths))

    @classmethod
    def parse(cls, text: str, token: str) -> RobotsRules:
        """Read a file for the crawler named `token`."""
        return at_once(cls.parsing(text, token))

    @classmethod
    def parsing(cls, text: str, token: str) -> Steps[RobotsRules]:
        """Read a file in steps."""
        reading = _RobotsParser(token.lower())
        for number, line in enumerate(_LINES.finditer(text.removeprefix("\ufeff"))):
            if number % LINES_PER_STEP == 0:
                yield
            if (pair := _pair(line[0][:MAX_LINE_CHARACTERS])) is not None:
                reading.take(*pair)
        yield
        return reading.result()

    def allows(self, url: str) -> bool:
        """Tell whether `url`, percent-encoded as it will be sent, may be fetched."""
        return at_once(self.deciding(url))

    def deciding(self, url: str) -> Steps[bool]:
        """Tell in steps whether `url` may be fetched."""
        path = _path(url)
        best = self._prefix_of(path)
        for number, rule in enumerate(self.patterns):
            if number % RULES_PER_STEP == 0:
                yield
            if best is not None and rule.weight <= best:
                break
            if rule.matches(path):
                return rule.allow
        return True if best is None else best[1]

    def _prefix_of(self, path: str) -> tuple[int, bool] | None:
        """Return the weight of the longest prefix of a path among the rules."""
        for length in self._lengths:
            allow = self.prefixes.get(path[:length]) if length <= len(path) else None
            if allow is not None:
                return length, allow
        return None


class _RobotsParser:
    """A file half read. Groups that name the crawler outweigh those for everybody (`*`)."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._own, self._all = _AgentRules(), _AgentRules()
        self._named = False
        self._current: list[_AgentRules] = []
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
        elif key.startswith(_SITEMAP) and value and len(self._sitemaps) < MAX_SITEMAPS:
            self._sitemaps.append(value)

    def result(self) -> RobotsRules:
        """Return what was read."""
        group = self._own if self._named else self._all
        wild = [RobotsRule(*each) for each in group.rules.items() if _is_wild(each[0])]
        patterns = sorted(wild, key=attrgetter("weight", "pattern"), reverse=True)
        prefixes = {each: allow for each, allow in group.rules.items() if not _is_wild(each)}
        sitemaps = tuple(dict.fromkeys(self._sitemaps))
        return RobotsRules(prefixes, tuple(patterns), group.delay_s, sitemaps)

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
            for pattern in _patterns(_encoded(value), allow=allow):
                for group in self._current:
                    group.add(pattern, allow=allow)


class _AgentRules:
    """What one file says to one kind of crawler, however many groups say it."""

    def __init__(self) -> None:
        self.rules: dict[str, bool] = {}
        self.delay_s: float | None = None
        self._wild = 0

    def add(self, pattern: str, *, allow: bool) -> None:
        """Add a rule; of two with one pattern, the one that allows counts.

        Wildcards beyond what a file may have are not followed: a path is forbidden then as soon
        as it begins with what stands before them, and allowed by no such rule.
        """
        if _is_wild(pattern):
            few = pattern.count("*") <= MAX_WILDCARDS
            self._wild += len(pattern) if few else 0
            if self._wild > MAX_WILDCARD_CHARACTERS or not few:
                if allow:
                    return
                pattern = pattern.partition("*")[0].removesuffix("$") or "/"
        self.rules[pattern] = allow or self.rules.get(pattern, False)


def _is_wild(pattern: str) -> bool:
    return "*" in pattern or pattern.endswith("$")


def _patterns(pattern: str, *, allow: bool) -> Iterator[str]:
    yield pattern
    slash = pattern.rfind("/")
    if allow and slash >= 0 and pattern.startswith(_INDEX, slash):
        # Who allows a folder's index page means the folder's own address too.
        yield f"{pattern[: slash + 1]}$"


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
