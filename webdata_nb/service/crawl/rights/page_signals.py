"""Reads what robots.txt, tdmrep.json, headers and elements say about the use of a page. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self

import orjson

from webdata_nb.contract.choices import PURPOSES, Purpose
from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.content.parsed_page import PageDeclaration
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import join_url, parse_link_header
from webdata_nb.service.crawl.rights.rsl import MEDIA_TYPE, parse_rsl
from webdata_nb.service.crawl.rights.signal import (
    PathPattern,
    RightsSignal,
    Says,
    allows,
    content_signal,
    content_usage,
    refuses,
    robots_directives,
)
from webdata_nb.service.crawl.robots_rules import (
    MAX_USAGE_LINES,
    RobotsRule,
    RobotsRules,
    UsageLine,
)

_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")
_PATH: Final = re.compile(r"(/[^ \t]*)[ \t]*(.*)", re.DOTALL)
_READERS: Final[dict[str, Callable[[str], Says]]] = {
    "content-usage": content_usage,
    "content-signal": content_signal,
}


@dataclass(frozen=True, slots=True)
class _UsageRule:
    """What the pages of one path may be used for."""

    pattern: PathPattern
    says: Says
    line: UsageLine

    @classmethod
    def of_line(cls, line: UsageLine) -> Self:
        """Split a value into its path, which may be absent, and its preferences."""
        match = _PATH.fullmatch(line.value)
        path, value = match.groups() if match else ("", line.value)
        return cls(PathPattern.of_path(path), _READERS[line.key](value), line)


@dataclass(frozen=True, slots=True)
class RobotsUsage:
    """The lines of one robots.txt about the use of pages, for one crawler.

    Attributes
    ----------
    source
        The URL of the file.
    read_at
        When it was read.
    lines
        Its lines, for quotes.
    refusal
        Why a complete disallow is assumed; empty where it is not.
    """

    source: str
    read_at: str
    lines: tuple[str, ...]
    refusal: str
    line_numbers: dict[str, int]
    rules: tuple[_UsageRule, ...]
    licenses: tuple[UsageLine, ...]

    @classmethod
    def of_file(
        cls, source: str, read_at: str, text: str, refusal: str, rules: RobotsRules
    ) -> Self:
        """Prepare a file, whose `rules` are parsed already."""
        return cls(
            source,
            read_at,
            tuple(_LINE_BREAK.split(text.removeprefix("\ufeff"))),
            refusal,
            dict(rules.line_numbers),
            tuple(map(_UsageRule.of_line, rules.usage)),
            rules.licenses,
        )

    def signals(self, url: str, rule: RobotsRule | None) -> Iterator[RightsSignal]:
        """Yield what the file says of a page; `rule` is the one that decides on its fetch."""
        number: int | None = None
        says: Says = refuses(*PURPOSES) if self.refusal else {}
        if rule is not None and not self.refusal:
            number = self.line_numbers.get(rule.pattern)
            says = {} if rule.allow else refuses(*PURPOSES)
        yield self._signal("robots", number, says, self.refusal)
        if len(self.rules) > MAX_USAGE_LINES:
            problem = f"it has more than {MAX_USAGE_LINES:,} lines about usage"
            yield self._signal("robots", None, refuses(*PURPOSES), problem)
        for key in _READERS:
            matching = [r for r in self.rules if r.line.key == key and r.pattern.matches(url)]
            longest = max((each.pattern.length for each in matching), default=0)
            for each in matching:
                if each.pattern.length == longest:
                    yield self._signal(key, each.line.number, each.says)

    def license_line(self, line: UsageLine) -> str:
        """Return a License line as it is in the file."""
        return self._quote(line.number)

    def _signal(self, name: str, number: int | None, says: Says, problem: str = "") -> RightsSignal:
        line = self._quote(number)
        return RightsSignal(name, self.source, line, self.read_at, says, number, problem)

    def _quote(self, number: int | None) -> str:
        return "" if number is None else self.lines[number - 1].strip()


TDM_PATH: Final = "/.well-known/tdmrep.json"
MAX_TDM_BYTES: Final = 256 * 1024
MAX_TDM_RULES: Final = 1000
# Building a search index is no mining in the sense of the report.
_PURPOSES: Final[tuple[Purpose, ...]] = ("ai-input", "ai-train", "research")
_RESERVED: Final[dict[str, Says]] = {"1": refuses(*_PURPOSES), "0": allows(*_PURPOSES)}


def tdm_reservation(value: str) -> Says:
    """Return what the header or meta tag `tdm-reservation` says; other values are no value.

    Examples
    --------
    >>> tdm_reservation("1")
    {'ai-input': 'refused', 'ai-train': 'refused', 'research': 'refused'}
    >>> tdm_reservation("true")
    {}
    """
    return _RESERVED.get(value.strip(), {})


@dataclass(frozen=True, slots=True)
class TdmRule:
    """One rule of tdmrep.json."""

    pattern: PathPattern
    says: Says
    line: str


@dataclass(frozen=True, slots=True)
class TdmFile:
    """The rules of a tdmrep.json in their order, or why it could not be read."""

    rules: tuple[TdmRule, ...] = ()
    problem: str = ""

    def signals(self, url: str, source: str, read_at: str) -> list[RightsSignal]:
        """Return what the file says of a page: the first rule that matches counts."""
        if self.problem:
            return [RightsSignal("tdm", source, "", read_at, problem=self.problem)]
        rule = next((rule for rule in self.rules if rule.pattern.matches(url)), None)
        return [] if rule is None else [RightsSignal("tdm", source, rule.line, read_at, rule.says)]


def parse_tdm_file(body: bytes) -> TdmFile:
    """Parse a tdmrep.json; never raises. Rules without a location are skipped."""
    if len(body) > MAX_TDM_BYTES:
        return TdmFile(problem=f"it is larger than {MAX_TDM_BYTES // 1024} KiB")
    try:
        entries = decode_json(body)
    except MalformedJson:
        return TdmFile(problem="it is no JSON")
    if not isinstance(entries, list):
        return TdmFile(problem="it is no list of rules")
    if len(entries) > MAX_TDM_RULES:
        return TdmFile(problem=f"it has more than {MAX_TDM_RULES:,} rules")
    return TdmFile(tuple(rule for entry in entries if (rule := _rule(entry)) is not None))


def _rule(entry: object) -> TdmRule | None:
    if not isinstance(entry, dict):
        return None
    location, value = entry.get("location"), entry.get("tdm-reservation")
    if not isinstance(location, str) or not location.startswith("/"):
        return None
    is_number = isinstance(value, int) and not isinstance(value, bool)
    properties = {
        name: entry[name]
        for name in ("location", "tdm-reservation", "tdm-policy")
        if isinstance(entry.get(name), str | int)
    }
    says = tdm_reservation(str(value)) if is_number else {}
    return TdmRule(PathPattern.of_path(location), says, orjson.dumps(properties).decode())


Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class LicenseReference:
    """A declaration of an RSL licence at another URL."""

    url: str
    line: str
    source: str

    def unread(self, read_at: str, problem: str, says: Says = MappingProxyType({})) -> RightsSignal:
        """Return the signal of a licence that is not read."""
        return RightsSignal("rsl", self.source, self.line, read_at, says, problem=problem)


@dataclass(frozen=True, slots=True)
class PageSignals:
    """Reads the signals of one page.

    Attributes
    ----------
    url
        The final URL of the page.
    read_at
        When it was read, in ISO 8601.
    token
        The name by which robots directives address this crawler.
    """

    url: str
    read_at: str
    token: str

    def of_headers(self, headers: Headers) -> Iterator[RightsSignal]:
        """Yield the signals of the response's headers, except RSL licences."""
        # A structured field is the list of all its lines.
        if usage := ", ".join(_values(headers, "content-usage")):
            yield self._signal("content-usage", f"Content-Usage: {usage}", content_usage(usage))
        for value in _values(headers, "content-signal"):
            line = f"Content-Signal: {value}"
            yield self._signal("content-signal", line, content_signal(value))
        for value in _values(headers, "x-robots-tag"):
            if says := robots_directives(value, self.token):
                yield self._signal("robots-tag", f"X-Robots-Tag: {value}", says)
        for value in _values(headers, "tdm-reservation"):
            yield self._signal("tdm", f"tdm-reservation: {value}", tdm_reservation(value))
        for target, media_type in _license_links(headers):
            if media_type != MEDIA_TYPE:
                yield self._signal("license", f'Link: <{target}>; rel="license"', {})

    def of_declarations(self, declarations: Sequence[PageDeclaration]) -> Iterator[RightsSignal]:
        """Yield the signals of the page's elements, except RSL licences at other URLs."""
        for kind, name, value in declarations:
            line = f'<meta name="{name}" content="{value}">'
            if kind == "rsl":
                line = f'<script type="{MEDIA_TYPE}">'
                yield from parse_rsl(value.encode()).signals(self.url, self.url, line, self.read_at)
            elif kind == "link":
                if value != MEDIA_TYPE:
                    yield self._signal("license", f'rel="license" href="{name}"', {})
            elif kind == "unread":
                line = "more declarations than are read"
                yield self._signal("license", line, refuses(*PURPOSES))
            elif name == "tdm-reservation":
                yield self._signal("tdm", line, tdm_reservation(value))
            elif name in {"robots", self.token.lower()} and (
                says := robots_directives(value, self.token)
            ):
                yield self._signal("robots-tag", line, says)

    def licenses(
        self, headers: Headers, declarations: Sequence[PageDeclaration]
    ) -> Iterator[LicenseReference]:
        """Yield the RSL licences at other URLs that the page declares."""
        for target, media_type in _license_links(headers):
            if media_type != MEDIA_TYPE:
                continue
            try:
                url = join_url(self.url, target)
            except FetchError:
                continue
            if url is not None:
                line = f'Link: <{target}>; rel="license"; type="{MEDIA_TYPE}"'
                yield LicenseReference(url, line, self.url)
        for kind, name, value in declarations:
            if kind == "link" and value == MEDIA_TYPE:
                line = f'rel="license" type="{MEDIA_TYPE}" href="{name}"'
                yield LicenseReference(name, line, self.url)

    def _signal(self, name: str, line: str, says: Says) -> RightsSignal:
        return RightsSignal(name, self.url, line, self.read_at, says)


def _values(headers: Headers, wanted: str) -> list[str]:
    return [value for name, value in headers if name.lower() == wanted]


def _license_links(headers: Headers) -> Iterator[tuple[str, str]]:
    """Yield target and media type of each Link header's links with `rel=license`."""
    for value in _values(headers, "link"):
        for link in parse_link_header(value):
            if "license" in link.relations:
                yield link.target, link.media_type
