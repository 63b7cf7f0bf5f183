"""Reads what a robots.txt says about the use of a page. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Self

from webdata_nb.contract.choices import PURPOSES
from webdata_nb.service.crawl.rights.path_pattern import PathPattern
from webdata_nb.service.crawl.rights.signal import RightsSignal, Says, refuses
from webdata_nb.service.crawl.rights.usage_values import content_signal, content_usage
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
        yield self._fetch_signal(rule)
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

    def _fetch_signal(self, rule: RobotsRule | None) -> RightsSignal:
        if self.refusal:
            return self._signal("robots", None, refuses(*PURPOSES), self.refusal)
        if rule is None:
            return self._signal("robots", None, {})
        number = self.line_numbers.get(rule.pattern)
        return self._signal("robots", number, {} if rule.allow else refuses(*PURPOSES))

    def _signal(self, name: str, number: int | None, says: Says, problem: str = "") -> RightsSignal:
        line = self._quote(number)
        return RightsSignal(name, self.source, line, self.read_at, says, number, problem)

    def _quote(self, number: int | None) -> str:
        return "" if number is None else self.lines[number - 1].strip()
