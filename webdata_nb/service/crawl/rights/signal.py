"""Defines the signals about the use of a page, and what several of them mean together. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from webdata_nb.contract.choices import PURPOSES, Purpose

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
