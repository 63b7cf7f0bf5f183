"""Parses robots.txt and matches URLs against it: RFC 9309, as Google's parser does. Pure.

Parsing never fails: lines that are no rules are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final
from urllib.parse import quote

from webdata_nb.service.runtime.steps import Steps

# Eight times the longest URL of old browsers. The rest of a longer line is ignored.
MAX_LINE_CHARACTERS: Final = 8 * 2083 - 1
# Enough for any site that splits its sitemap index.
MAX_SITEMAPS: Final = 100
# Wildcards of one rule, and characters of all rules with wildcards: ten times what the largest
# sites have, and few enough to match one after the other.
MAX_WILDCARDS: Final = 100
MAX_WILDCARD_CHARACTERS: Final = 64 * 1024
LINES_PER_STEP: Final = 200
RULES_PER_STEP: Final = 32
_LINE: Final = re.compile(r"[^\r\n]+")
_PAIR_WITHOUT_COLON: Final = re.compile(r"(\S+)[ \t]+(\S+)")
_TOKEN: Final = re.compile(r"[A-Za-z_-]*")
_COMPATIBLE_TOKEN: Final = re.compile(r"compatible;\s*([A-Za-z_-]+)", re.IGNORECASE)
_SECONDS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_UNRESERVED_MARKS: Final = "-._~"
_NOT_NORMAL: Final = re.compile(r"""%[0-9A-Fa-f]{2}|[ "'<>^`{|}]""")
_INDEX_PAGE: Final = "/index.htm"
# Common misspellings that Google's parser accepts.
_AGENT_KEYS: Final = ("user-agent", "useragent", "user agent")
_DISALLOW_KEYS: Final = ("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw")
_SITEMAP_KEYS: Final = ("sitemap", "site-map")
_USAGE_KEYS: Final = ("content-usage", "content-signal")
_LICENSE_KEY: Final = "license"
# Lines about usage of one crawler, and licences of one file, that count.
MAX_USAGE_LINES: Final = 1000
MAX_LICENSES: Final = 20
_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F)))


def product_token(user_agent: str) -> str:
    """Return the name by which robots.txt files address the sender of a User-Agent header.

    Examples
    --------
    >>> product_token("webdata_nb/1.0")
    'webdata_nb'
    >>> product_token("Mozilla/5.0 (compatible; ExampleBot/2.1; +https://example.org/bot)")
    'ExampleBot'
    """
    match = _COMPATIBLE_TOKEN.search(user_agent)
    return match[1] if match else _leading_token(user_agent.strip())


@dataclass(frozen=True, slots=True)
class RobotsRule:
    """A path pattern with wildcards: `*` matches anything, `$` at the end ends the path.

    Pattern and paths are as `encode_pattern` and `encoded_path` write them.
    """

    pattern: str
    allow: bool

    @property
    def precedence(self) -> tuple[int, bool]:
        """Of two matching rules, the longer pattern wins, then the one that allows."""
        return len(self.pattern), self.allow

    def matches(self, path: str) -> bool:
        """Return whether `path` begins with the pattern, in linear time."""
        anchored = self.pattern.endswith("$")
        head, *pieces = (self.pattern[:-1] if anchored else self.pattern).split("*")
        if not path.startswith(head):
            return False
        if not pieces:
            return not anchored or path == head
        # The pieces have to follow each other; the first occurrence of each is the best.
        start, tail = len(head), pieces.pop() if anchored else ""
        for piece in pieces:
            index = path.find(piece, start)
            if index < 0:
                return False
            start = index + len(piece)
        return not anchored or (len(path) - len(tail) >= start and path.endswith(tail))


@dataclass(frozen=True, slots=True)
class UsageLine:
    """A line of robots.txt about the use of content: `key` in lower case, and its value."""

    key: str
    value: str
    number: int


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """The rules of one file for one crawler.

    Attributes
    ----------
    prefixes
        The rules without wildcards: whether a path that begins with the key is allowed.
    patterns
        The rules with wildcards, highest precedence first.
    delay_s
        The crawl-delay in seconds, None when there is none.
    sitemaps
        The sitemaps that the file names.
    line_numbers
        The line of each rule, from 1, by its pattern.
    usage
        The lines Content-Usage and Content-Signal for this crawler.
    licenses
        The lines License, which hold for all crawlers.
    """

    prefixes: Mapping[str, bool] = field(default_factory=dict)
    patterns: tuple[RobotsRule, ...] = ()
    delay_s: float | None = None
    sitemaps: tuple[str, ...] = ()
    line_numbers: Mapping[str, int] = field(default_factory=dict)
    usage: tuple[UsageLine, ...] = ()
    licenses: tuple[UsageLine, ...] = ()
    _prefix_lengths: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        lengths = sorted(set(map(len, self.prefixes)), reverse=True)
        object.__setattr__(self, "_prefix_lengths", tuple(lengths))

    @classmethod
    def parse_in_steps(cls, text: str, token: str) -> Steps[RobotsRules]:
        """Parse a file for the crawler named `token`."""
        parser = _RobotsParser(token.lower())
        for count, (number, line) in enumerate(numbered_lines(text)):
            if count % LINES_PER_STEP == 0:
                yield
            if (pair := _key_and_value(line[:MAX_LINE_CHARACTERS])) is not None:
                parser.add_line(*pair, number)
        yield
        return parser.rules()

    def allows_in_steps(self, url: str) -> Steps[bool]:
        """Return whether `url`, percent-encoded as it will be sent, may be fetched."""
        rule = yield from self.match_in_steps(url)
        return rule is None or rule.allow

    def match_in_steps(self, url: str) -> Steps[RobotsRule | None]:
        """Return the rule that decides on `url`; None where no rule matches."""
        if not self.prefixes and not self.patterns:
            return None
        path = encoded_path(url)
        prefix: tuple[int, bool] | None = None  # of the longest matching rule without wildcards
        for length in self._prefix_lengths:
            allow = self.prefixes.get(path[:length]) if length <= len(path) else None
            if allow is not None:
                prefix = length, allow
                break
        for number, rule in enumerate(self.patterns):
            if number % RULES_PER_STEP == 0:
                yield
            if prefix is not None and rule.precedence <= prefix:
                break
            if rule.matches(path):
                return rule
        return None if prefix is None else RobotsRule(path[: prefix[0]], prefix[1])


class _RobotsParser:
    """Collects the rules of one file.

    Groups that name the crawler replace those for all crawlers (`*`).
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._own_rules, self._common_rules = _AgentRules(), _AgentRules()
        self._has_own_group = False
        self._current_group: list[_AgentRules] = []
        self._in_agent_list = True
        # Lines about usage before any group hold for all crawlers.
        self._usage_group = [self._own_rules, self._common_rules]
        self._in_usage_agent_list = False
        self._sitemaps: list[str] = []
        self._licenses: list[UsageLine] = []

    def add_line(self, key: str, value: str, number: int) -> None:
        """Add one line. Lines that are no rules do not end a list of agents."""
        if key.startswith(_AGENT_KEYS):
            self._add_agent(value)
        elif key.startswith("allow"):
            self._add_rule(value, number, allow=True)
        elif key.startswith(_DISALLOW_KEYS):
            self._add_rule(value, number, allow=False)
        elif key in _USAGE_KEYS:
            # It ends the list of agents for others of its kind alone.
            self._in_usage_agent_list = False
            for rules in self._usage_group:
                if len(rules.usage) <= MAX_USAGE_LINES:  # one more shows that there are too many
                    rules.usage.append(UsageLine(key, value, number))
        elif key == _LICENSE_KEY and value and len(self._licenses) < MAX_LICENSES:
            self._licenses.append(UsageLine(key, value, number))
        elif key.startswith("crawl-delay") and _SECONDS.fullmatch(value):
            for rules in self._current_group:
                rules.delay_s = float(value)
        elif key.startswith(_SITEMAP_KEYS) and value and len(self._sitemaps) < MAX_SITEMAPS:
            self._sitemaps.append(value)

    def rules(self) -> RobotsRules:
        """Return the rules for the crawler."""
        agent = self._own_rules if self._has_own_group else self._common_rules
        prefixes = {text: allow for text, allow in agent.allow.items() if not _is_wildcard(text)}
        patterns = [RobotsRule(*rule) for rule in agent.allow.items() if _is_wildcard(rule[0])]
        patterns.sort(key=attrgetter("precedence", "pattern"), reverse=True)
        return RobotsRules(
            prefixes,
            tuple(patterns),
            agent.delay_s,
            tuple(dict.fromkeys(self._sitemaps)),
            agent.line_numbers,
            tuple(agent.usage),
            tuple(self._licenses),
        )

    def _add_agent(self, value: str) -> None:
        if not self._in_agent_list:
            self._current_group, self._in_agent_list = [], True
        if not self._in_usage_agent_list:
            self._usage_group, self._in_usage_agent_list = [], True
        if value[:1] == "*" and not value[1:2].strip():
            self._current_group.append(self._common_rules)
            self._usage_group.append(self._common_rules)
        elif _leading_token(value).lower() == self._token:
            self._has_own_group = True
            self._current_group.append(self._own_rules)
            self._usage_group.append(self._own_rules)

    def _add_rule(self, value: str, number: int, *, allow: bool) -> None:
        self._in_agent_list = self._in_agent_list and not self._current_group
        self._in_usage_agent_list = False
        if value:  # an empty pattern matches nothing
            patterns = [encode_pattern(value)]
            slash = patterns[0].rfind("/")
            if allow and slash >= 0 and patterns[0].startswith(_INDEX_PAGE, slash):
                # A rule that allows a folder's index page allows the folder itself.
                patterns.append(f"{patterns[0][: slash + 1]}$")
            for pattern in patterns:
                for rules in self._current_group:
                    rules.add(pattern, number, allow=allow)


class _AgentRules:
    """The rules of all groups for one crawler; `allow` maps patterns to whether they allow."""

    def __init__(self) -> None:
        self.allow: dict[str, bool] = {}
        self.delay_s: float | None = None
        self.line_numbers: dict[str, int] = {}
        self.usage: list[UsageLine] = []
        self._wildcard_characters = 0

    def add(self, pattern: str, number: int, *, allow: bool) -> None:
        """Add a rule; of two with one pattern, the one that allows wins.

        Beyond the bounds for wildcards, a rule that disallows is cut to the text before its first
        wildcard, and a rule that allows is ignored.
        """
        if _is_wildcard(pattern):
            within_bounds = pattern.count("*") <= MAX_WILDCARDS
            self._wildcard_characters += len(pattern) if within_bounds else 0
            if self._wildcard_characters > MAX_WILDCARD_CHARACTERS or not within_bounds:
                if allow:
                    return
                pattern = pattern.partition("*")[0].removesuffix("$") or "/"
        if allow or pattern not in self.allow:
            self.line_numbers[pattern] = number
        self.allow[pattern] = allow or self.allow.get(pattern, False)


def _is_wildcard(pattern: str) -> bool:
    return "*" in pattern or pattern.endswith("$")


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not empty, with their numbers as an editor shows them."""
    text, number, end = text.removeprefix("\ufeff"), 1, 0
    for line in _LINE.finditer(text):
        breaks = text[end : line.start()]
        number += len(breaks) - breaks.count("\r\n")
        end = line.end()
        yield number, line[0]


def _key_and_value(line: str) -> tuple[str, str] | None:
    """Return a line's key in lower case and its value; the colon may be missing."""
    text = line.partition("#")[0].strip()
    key, colon, value = text.partition(":")
    if not colon:
        match = _PAIR_WITHOUT_COLON.fullmatch(text)
        if match is None:
            return None
        key, value = match.groups()
    key = key.strip().lower()
    return (key, value.strip()) if key else None


def _leading_token(text: str) -> str:
    match = _TOKEN.match(text)
    return match[0] if match else ""


def encode_pattern(pattern: str) -> str:
    """Percent-encode a pattern as `encoded_path` does a path, all but its wildcards.

    `%2A` and `%24` stand for `*` and `$` in a path; so does a `$` before the end.
    """
    encoded = pattern if pattern.isascii() else quote(pattern, safe=_PRINTABLE)
    return _normalize(f"{encoded[:-1].replace('$', '%24')}{encoded[-1:]}")


def encoded_path(url: str) -> str:
    """Return the path and query of a URL in the form in which patterns are compared with them."""
    return _normalize(path_and_query(url)).replace("*", "%2A").replace("$", "%24")


def path_and_query(url: str) -> str:
    """Return the part of a URL that rules apply to."""
    host_and_path = url.partition("#")[0].partition("//")[2]
    start = re.search(r"[/?;]", host_and_path)
    path = host_and_path[start.start() :] if start else ""
    return path if path.startswith("/") else f"/{path}"


def _normalize(text: str) -> str:
    """Write escapes in one way.

    Characters that no URL needs to escape are decoded, except letters and digits, whose escapes
    Google's parser compares as they are. Those that browsers escape are escaped.
    """
    return _NOT_NORMAL.sub(_normal_form, text)


def _normal_form(match: re.Match[str]) -> str:
    text = match[0]
    if len(text) == 1:
        return f"%{ord(text):02X}"
    character = chr(int(text[1:], 16))
    return character if character in _UNRESERVED_MARKS else text.upper()
