"""Declares what the operator of a service can ask: the views, their columns and their filters.

The command line, the API and the page of the operator show the same views, which
`service.store.sql.operator` reads.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

ColumnKind = Literal["text", "count", "bytes", "seconds", "time"]
Filter = Literal["account", "state", "kind", "since", "by", "limit"]
GROUPS: Final = ("account", "key", "operation", "day")
STATES: Final = ("pending", "running", "completed", "failed", "cancelled")
KINDS: Final = ("search", "crawl")
MAX_ROWS: Final = 10_000
_DAY_S: Final = 86_400.0
_UNITS: Final = {"m": 60.0, "h": 3600.0, "d": _DAY_S}
_PERIOD: Final = re.compile(r"(\d{1,5})([mhd])")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
# Views that belong to other commands than `webdata store`.
_COMMANDS: Final = {
    "usage": "webdata accounts usage",
    "accounts": "webdata accounts list",
    "keys": "webdata keys list",
}
_MAX_PERIOD_S: Final = 100 * 366 * _DAY_S


@dataclass(frozen=True, slots=True)
class Query:
    """The filters of a view; `since` is a time, and `by` what its sums are of."""

    account: str | None = None
    state: str | None = None
    kind: str | None = None
    since: float = 0.0
    by: tuple[str, ...] = ("account", "operation")
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a view; times are Unix seconds."""

    name: str
    kind: ColumnKind = "text"


@dataclass(frozen=True, slots=True)
class View:
    """One question of an operator, with the columns of the answer.

    `period` is the default of the filter `since`, and `command` shows the answer in a terminal.
    """

    name: str
    title: str
    question: str
    columns: tuple[Column, ...]
    filters: tuple[Filter, ...] = ()
    period: str = "30d"

    @property
    def command(self) -> str:
        """The command that shows the view."""
        return _COMMANDS.get(self.name, f"webdata store {self.name}")

    def query(self, given: Mapping[str, str | None], now: float) -> Query:
        """Return the filters of a request; raises `ValueError` for wrong ones."""
        values = {name: text for name, text in given.items() if text is not None}
        if unknown := values.keys() - set(self.filters):
            allowed = ", ".join(self.filters) or "none"
            raise ValueError(f"{self.name} has no filter {min(unknown)!r}; allowed: {allowed}")
        options: dict[str, Any] = {}
        if "since" in self.filters:
            options["since"] = parse_since(values.pop("since", self.period), now)
        if (by := values.pop("by", None)) is not None:
            options["by"] = _choices("by", by, GROUPS)
        if (limit := values.pop("limit", None)) is not None:
            if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit) <= MAX_ROWS):
                raise ValueError(f"limit takes a whole number from 1 to {MAX_ROWS}, not {limit!r}")
            options["limit"] = int(limit)
        choices: Mapping[str, Sequence[str]] = {"state": STATES, "kind": KINDS}
        for name in choices.keys() & values.keys():
            [options[name]] = _choices(name, values[name], choices[name], most=1)
        return Query(account=values.get("account"), **options)


def parse_since(text: str, now: float) -> float:
    """Return the time of a period before now, such as 30m, 24h or 7d, or of a date in UTC.

    Raises
    ------
    ValueError
        It is neither.
    """
    if (period := _PERIOD.fullmatch(text)) is not None:
        seconds = int(period[1]) * _UNITS[period[2]]
        return max(0.0, now - min(seconds, _MAX_PERIOD_S))
    if _DATE.fullmatch(text):
        try:
            return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
        except ValueError:
            pass
    raise ValueError(
        f"since takes a period such as 30m, 24h or 7d, or a date such as 2026-01-31, not {text!r}"
    )


def _choices(
    name: str, text: str, allowed: Sequence[str], *, most: int | None = None
) -> tuple[str, ...]:
    values = tuple(dict.fromkeys(each.strip() for each in text.split(",")))
    if not set(values) <= set(allowed) or (most is not None and len(values) > most):
        count = "one" if most == 1 else "some"
        raise ValueError(f"{name} takes {count} of {', '.join(allowed)}, not {text!r}")
    return values


def _columns(text: str) -> tuple[Column, ...]:
    """Return columns written as names, each with its kind after a colon unless it is text."""
    parts = (each.partition(":") for each in text.split())
    kinds: Mapping[str, ColumnKind] = {
        "": "text", "n": "count", "b": "bytes", "s": "seconds", "t": "time"
    }  # fmt: skip
    return tuple(Column(name, kinds[kind]) for name, _, kind in parts)


def byte_text(count: float) -> str:
    """Return a number of bytes with three digits and a decimal unit.

    Examples
    --------
    >>> byte_text(999), byte_text(1234), byte_text(5_678_900_000)
    ('999 B', '1.23 kB', '5.68 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:  # noqa: PLR2004 - what is rounded to four digits has the next unit
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB" if count < 999.5 else f"{count:,.0f} TB"  # noqa: PLR2004


def duration_text(seconds: float) -> str:
    """Return a duration in one or two units.

    Examples
    --------
    >>> duration_text(0.25), duration_text(75), duration_text(90_000)
    ('0.25 s', '1 m 15 s', '1 d 1 h')
    """
    if seconds < 0.01:  # noqa: PLR2004 - what is shown
        return "0 s"
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004
    whole = int(seconds)
    for (unit, size), (smaller, part) in itertools.pairwise(
        (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
    ):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit} {rest} {smaller}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


VIEWS: Final[Mapping[str, View]] = {
    view.name: view
    for view in (
        View(
            "jobs",
            "Jobs",
            "Which jobs of any account run, wait or have ended, and why did one fail?",
            _columns(
                "job account key kind state subject replica created:t waited:s ran:s attempt:n "
                "rows:n credits:n reason"
            ),
            ("account", "state", "kind", "since", "limit"),
        ),
        View(
            "failures",
            "Failed jobs",
            "Why do jobs fail, and how many?",
            _columns("reason kind jobs:n accounts:n last:t example"),
            ("account", "since", "limit"),
            period="7d",
        ),
        View(
            "outcomes",
            "URLs",
            "What became of the URLs of ended jobs?",
            _columns("account kind outcome urls:n last:t"),
            ("account", "since", "limit"),
            period="7d",
        ),
        View(
            "usage",
            "Usage",
            "Who used what?",
            _columns("account key operation day jobs:n failed:n rows:n bytes:b units:n credits:n"),
            ("account", "since", "by", "limit"),
        ),
        View(
            "refusals",
            "Refused requests",
            "Whose requests are refused, for example with 429, and why?",
            _columns("account key status reason requests:n last:t"),
            ("account", "since", "limit"),
            period="7d",
        ),
        View(
            "sites",
            "Sites",
            "Which sites are slow, or fail?",
            _columns("site crawls:n running:n pages:n failed:n ran:s per_page:s"),
            ("account", "since", "limit"),
            period="7d",
        ),
        View(
            "providers",
            "Search providers",
            "Do the search providers answer?",
            _columns("provider attempts:n failed:n failures last_answer:t last_failure:t paused:s"),
            ("account", "since"),
            period="1d",
        ),
        View(
            "webhooks",
            "Webhooks",
            "Which endpoints do not take their webhooks?",
            _columns(
                "account endpoint pending:n failed:n delivered:n attempts:n oldest_pending:t error"
            ),
            ("account", "since", "limit"),
        ),
        View(
            "replicas",
            "Processes",
            "Which processes serve the database, in which release, and are they alive?",
            _columns("replica kind version state running:n slots:n up:s heartbeat:s"),
        ),
        View(
            "size",
            "Size",
            "How full is the database, and whose data is it?",
            _columns("account kind count:n bytes:b"),
            ("account",),
        ),
        View(
            "accounts",
            "Accounts",
            "Which accounts are there, and what have they left?",
            _columns(
                "account plan state monthly:n left:n topup:n reserved:n used:n active:n limit:n"
            ),
        ),
        View(
            "keys",
            "Keys",
            "Which keys are there, what do they open, and are they used?",
            _columns("key name account scopes created:t ends:t last_used:t"),
            ("account",),
        ),
    )
}
