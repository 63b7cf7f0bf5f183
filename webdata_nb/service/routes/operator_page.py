"""Renders the operator's page: the overview, each view as a table, and one job.

All text is escaped where it is inserted, unless it is `Markup`: names, subjects, errors and
addresses are what users and sites wrote.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any, Final
from urllib.parse import urlencode

from webdata_nb.contract import paths
from webdata_nb.contract.operator_views import (
    GROUPS,
    KINDS,
    MAX_ROWS,
    STATES,
    VIEWS,
    Column,
    Query,
    View,
    byte_text,
    duration_text,
)
from webdata_nb.service.store.records import StoreReport
from webdata_nb.service.store.sql.operator import Answer

Given = Mapping[str, str]
"""The filters of a request, as they were given."""

# The sums of the rows that a table shows are below it.
_SUMS: Final[Mapping[str, frozenset[str]]] = {
    "failures": frozenset({"jobs"}),
    "outcomes": frozenset({"urls"}),
    "usage": frozenset({"jobs", "failed", "rows", "bytes", "credits"}),
    "accounts": frozenset({"reserved", "used", "active"}),
    "refusals": frozenset({"requests"}),
    "sites": frozenset({"crawls", "running", "pages", "failed", "ran"}),
    "providers": frozenset({"attempts", "failed"}),
    "webhooks": frozenset({"pending", "failed", "delivered", "attempts"}),
    "replicas": frozenset({"running", "slots"}),
}
# Views of counters, which are kept by day.
_DAILY: Final = frozenset({"usage", "outcomes", "refusals", "providers"})
_NOTHING: Final = {"usage": "Nothing was used", "size": "Nothing is stored"}
_LONG_TEXTS: Final = frozenset({"subject", "reason", "error", "endpoint", "failures"})
_NAMES: Final = frozenset({"account", "replica", "site", "outcome", "operation", "provider"})
_SHORT_ID: Final = 8
_NUMBERS: Final = frozenset({"count", "bytes", "seconds"})
_UNITS: Final = {"m": "minute", "h": "hour", "d": "day"}
# The groupings that the form offers.
GROUPINGS: Final = (
    "account,operation",
    "account",
    "account,key",
    "account,day",
    "operation",
    "key",
    "day",
    ",".join(GROUPS),
)
_LIMITS: Final = ("100", "1000", str(MAX_ROWS))
_HEADINGS: Final = {
    "urls": "URLs",
    "per_page": "per page",
    "last_answer": "answered",
    "last_failure": "last failure",
}


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, /, *content: str, **attributes: str | None) -> Markup:
    """Return an element; attributes that are None are left out.

    Examples
    --------
    >>> element("p", "a < b", element("b", "!"), class_="note", title=None)
    '<p class="note">a &lt; b<b>!</b></p>'
    """
    marks = "".join(
        f' {key.strip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{marks}>{joined(content)}</{name}>")


def joined(parts: Iterable[str]) -> Markup:
    """Return texts and markup as one."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


# The frame of each page

_ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect width='16' height='16' rx='3' fill='%230b57d0'/%3E"
    "%3Cpath d='M4 12V8M8 12V4M12 12V6' stroke='%23fff' stroke-width='2'/%3E%3C/svg%3E"
)


def document(
    title: str, current: str, *content: str, form: str = "", is_renewed: bool = True
) -> str:
    """Return a page; `content` is what the script renews, and `current` the path of the view."""
    places = [(paths.OPERATOR_PAGE, "Overview")]
    places += [(view_path(view.name), view.title) for view in VIEWS.values()]
    links = [
        element(
            "li", element("a", text, href=href, aria_current="page" if href == current else None)
        )
        for href, text in places
    ]
    head = joined(
        [
            Markup('<meta charset="utf-8">'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup('<meta name="robots" content="noindex">'),
            element("title", f"{title} · webdata_nb operator"),
            Markup(f'<link rel="icon" href="{_ICON}">'),
            Markup(f'<link rel="stylesheet" href="{paths.OPERATOR_STYLE}">'),
            Markup(f'<script src="{paths.OPERATOR_SCRIPT}" defer></script>' if is_renewed else ""),
        ]
    )
    header = element(
        "header",
        element("a", "Skip to the content", class_="skip", href="#main"),
        element("p", element("strong", "webdata_nb"), " operator", class_="brand"),
        element("nav", element("ul", *links), aria_label="Views"),
        element("p", "Reload for new numbers" if is_renewed else "", id="live", role="status"),
    )
    main = element(
        "main",
        element("h1", title),
        form,
        element("div", *content, id="content"),
        id="main",
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{header}{main}</body></html>\n'
    )


def view_path(name: str, **filters: str) -> str:
    """Return the address of a view's page."""
    path = paths.fill(paths.OPERATOR_PAGE_VIEW, view=name)
    return f"{path}?{urlencode(filters)}" if filters else path


def error_page(title: str, message: str) -> str:
    """Return the page that says why there is no other."""
    problem = element("p", message, class_="problem", role="alert")
    return document(title, "", problem, is_renewed=False)


# Values


def _time(at: float, as_of: float) -> Markup:
    """Return a time as its distance from now, with the time itself as title."""
    moment = datetime.fromtimestamp(at, UTC)
    text = duration_text(max(0.0, round(abs(as_of - at))))
    return element(
        "time",
        f"in {text}" if at > as_of + 1 else f"{text} ago",
        datetime=moment.isoformat(timespec="seconds"),
        title=f"{moment:%Y-%m-%d %H:%M:%S} UTC",
    )


def _utc(at: float) -> Markup:
    moment = datetime.fromtimestamp(at, UTC)
    return element("time", f"{moment:%H:%M:%S} UTC", datetime=moment.isoformat(timespec="seconds"))


def _number(kind: str, value: float) -> Markup:
    match kind:
        case "bytes":
            return element("span", byte_text(value), title=f"{value:,} bytes")
        case "seconds":
            return element("span", duration_text(value), title=f"{value:,.3f} seconds")
        case _:
            return Markup(f"{value:,}")


_MARKED: Final = frozenset({*STATES, "live", "silent", "delivered", "active", "suspended"})


def _value(column: Column, value: Any, as_of: float, view: str | None) -> Markup:
    """Return a value as a person reads it; accounts lead to their part of a view."""
    if value is None or value == "":
        return Markup()
    if column.kind == "time":
        return _time(value, as_of)
    if column.kind in _NUMBERS:
        return _number(column.kind, value)
    match column.name:
        case "job" | "example":
            href, text = paths.fill(paths.OPERATOR_PAGE_JOB, job_id=value), f"{value[:_SHORT_ID]}…"
            return element("a", text, href=href, title=f"job {value}", class_="id")
        case "state":
            return element("span", value, class_=f"state {value}" if value in _MARKED else "state")
        case "account" if view is not None:
            target = view if "account" in VIEWS[view].filters else "usage"
            link = view_path(target, account=value)
            return element("a", element("bdi", value), href=link, title=value)
        case name:
            return element("bdi", value, title=value if name in _NAMES else None)


def _class(column: Column) -> str | None:
    if column.kind in _NUMBERS:
        return "number"
    if column.name in _NAMES:
        return "name"
    return "long" if column.name in _LONG_TEXTS else None


def heading(name: str) -> str:
    """Return the name of a column for its header."""
    text = _HEADINGS.get(name, name.replace("_", " "))
    return text[:1].upper() + text[1:]


def _table(
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    as_of: float,
    *,
    view: str | None = None,
    sums: frozenset[str] = frozenset(),
    label: str | None = None,
) -> Markup:
    """Return a table, which narrow screens show as a list; so it names its roles.

    One with a label may be wider than the page, and can be scrolled with the keyboard.
    """
    scrolling: Mapping[str, str] = {}
    if label is not None:
        scrolling = {"role": "region", "aria_label": label, "tabindex": "0"}
    heads = [
        element("th", heading(column.name), scope="col", class_=_class(column), role="columnheader")
        for column in columns
    ]
    parts = [(column, heading(column.name), _class(column)) for column in columns]
    body = [
        element(
            "tr",
            *(
                element(
                    "td",
                    _value(column, row.get(column.name), as_of, view),
                    class_=class_,
                    data_label=label,
                    role="cell",
                )
                for column, label, class_ in parts
            ),
            role="row",
        )
        for row in rows
    ]
    foot: list[Markup] = []
    if sums and len(rows) > 1:
        cells = [element("th", "Sum", scope="row", class_=_class(columns[0]), role="rowheader")]
        for column, name, class_ in parts[1:]:
            content = Markup()
            if column.name in sums:
                total = sum(row[column.name] for row in rows if row[column.name] is not None)
                content = _number(column.kind, total)
            cells.append(element("td", content, class_=class_, data_label=name, role="cell"))
        foot = [element("tfoot", element("tr", *cells, role="row"), role="rowgroup")]
    return element(
        "div",
        element(
            "table",
            element("caption", caption),
            element("thead", element("tr", *heads, role="row"), role="rowgroup"),
            element("tbody", *body, role="rowgroup"),
            *foot,
            role="table",
        ),
        class_="scroll",
        **scrolling,
    )


# Pages of views


def view_page(view: View, given: Given, query: Query, answer: Answer) -> str:
    """Return the page of a view."""
    rows, as_of = answer.rows, answer.as_of
    notes: list[str] = []
    if "since" in view.filters:
        since = query.since - query.since % 86_400 if view.name in _DAILY else query.since
        moment = datetime.fromtimestamp(since, UTC)
        days = ", by days of UTC" if view.name in _DAILY else ""
        notes.append(f"Since {moment:%Y-%m-%d %H:%M} UTC{days}.")
    if "limit" in view.filters and len(rows) >= query.limit:
        more = f"; the filter takes up to {MAX_ROWS:,}" if query.limit < MAX_ROWS else ""
        notes.append(f"Only the first {query.limit:,} rows{more}.")
    if rows:
        count = f"{len(rows):,} row" + ("s" if len(rows) > 1 else "")
        table = _table(
            f"{view.title}: {count}",
            answer.columns,
            rows,
            as_of,
            view=view.name,
            sums=_SUMS.get(view.name, frozenset()),
            label=view.title,
        )
    else:
        table = element("p", nothing(view, given), class_="empty")
    return document(
        view.title,
        view_path(view.name),
        table,
        element("p", " ".join(notes), class_="note") if notes else "",
        element(
            "p",
            "As of ",
            _utc(as_of),
            ". The same in a terminal: ",
            element("code", view_command(view, given), class_="command"),
            class_="source",
        ),
        form=_intro(view, given),
    )


def wrong_filter_page(view: View, given: Given, message: str) -> str:
    """Return the page of a view for filters that it does not take."""
    return document(
        view.title,
        view_path(view.name),
        element("p", message, class_="problem", role="alert"),
        form=_intro(view, given),
        is_renewed=False,
    )


def nothing(view: View, given: Given) -> str:
    """Return the sentence of a view without rows.

    Examples
    --------
    >>> nothing(VIEWS["jobs"], {}), nothing(VIEWS["outcomes"], {"since": "2026-01-31"})
    ('No jobs in the last 30 days.', 'No URLs since 2026-01-31.')
    """
    title = view.title if view.title[:2].isupper() else view.title[:1].lower() + view.title[1:]
    text = _NOTHING.get(view.name, f"No {title}")
    if given.keys() - {"since", "limit", "by"}:
        text += " with these filters"
    if "since" in view.filters:
        since = given.get("since", view.period)
        unit = _UNITS.get(since[-1:])
        if unit is None:
            text += f" since {since}"
        else:
            count = int(since[:-1])
            text += f" in the last {unit}" if count == 1 else f" in the last {count} {unit}s"
    return f"{text}."


def view_command(view: View, given: Given) -> str:
    """Return the command that shows the same as a page.

    Examples
    --------
    >>> view_command(VIEWS["jobs"], {"state": "failed", "account": "the team"})
    "webdata store jobs --account 'the team' --state failed"
    >>> view_command(VIEWS["usage"], {"account": "alice", "by": "day"})
    'webdata accounts usage alice --by day'
    """
    words = view.command.split()
    for name in view.filters:
        if name in given:
            is_argument = (view.name, name) == ("usage", "account")
            words += [given[name]] if is_argument else [f"--{name}", given[name]]
    return shlex.join(words)


def _intro(view: View, given: Given) -> Markup:
    """Return the question of a view and the form of its filters."""
    question = element("p", view.question, class_="question")
    if not view.filters:
        return question
    fields = [_field(view, name, given.get(name)) for name in view.filters]
    return joined(
        [
            question,
            element(
                "form",
                *fields,
                element("button", "Show", type="submit"),
                element("a", "Reset", href=view_path(view.name)) if given else "",
                action=view_path(view.name),
                method="get",
                role="search",
                aria_label="Filters",
            ),
        ]
    )


def _field(view: View, name: str, value: str | None) -> Markup:
    match name:
        case "state" | "kind":
            choices = [
                ("", "any"),
                *((each, each) for each in (STATES if name == "state" else KINDS)),
            ]
            control = _select(name, choices, value)
        case "by":
            choices = [(each, each.replace(",", ", ")) for each in GROUPINGS]
            control = _select(name, choices, value or GROUPINGS[0])
        case "limit":
            control = _select(
                name, [(each, f"{int(each):,}") for each in _LIMITS], value or _LIMITS[0]
            )
        case "since":
            control = _input(name, value, view.period, "30m, 24h, 7d or a date such as 2026-01-31")
        case _:
            control = _input(name, value, "", "Name or id of an account")
    return element("label", element("span", heading(name)), control)


def _input(name: str, value: str | None, placeholder: str, title: str) -> Markup:
    attributes = {"name": name, "value": value or "", "placeholder": placeholder, "title": title}
    marks = "".join(f' {key}="{escape(text)}"' for key, text in attributes.items())
    return Markup(f'<input type="text" autocomplete="off" spellcheck="false"{marks}>')


def _select(name: str, choices: Sequence[tuple[str, str]], value: str | None) -> Markup:
    if value and value not in {choice for choice, _ in choices}:
        choices = [*choices, (value, value)]
    options = [
        element("option", text, value=choice, selected="" if choice == (value or "") else None)
        for choice, text in choices
    ]
    return element("select", *options, name=name)


# One job

_JOB_COLUMNS: Final = {
    column.name: column
    for column in (
        *VIEWS["jobs"].columns,
        Column("total", "count"),
        Column("reserved", "count"),
        Column("lease_left", "seconds"),
        Column("attempts_without_progress", "count"),
        Column("rows_expired", "time"),
    )
}
_FACTS: Final = tuple(
    _JOB_COLUMNS[name]
    for name in (
        *("state", "reason", "account", "key", "kind", "subject", "replica", "lease_left"),
        *("created", "waited", "ran", "attempt", "attempts_without_progress"),
        *("rows", "total", "credits", "reserved", "rows_expired"),
    )
)
# Not worth a line without any.
_SHOWN_IF_ANY: Final = frozenset({"attempts_without_progress", "total", "reserved"})
_OUTCOME_COLUMNS: Final = (Column("outcome"), Column("urls", "count"))
_PROVIDER_COLUMNS: Final = (Column("provider"), Column("status"))
_DELIVERY_COLUMNS: Final = (
    Column("event"),
    Column("endpoint"),
    Column("state"),
    Column("attempts", "count"),
    Column("status"),
    Column("error"),
)


def job_page(job: Mapping[str, Any], as_of: float) -> str:
    """Return the page of a job."""
    facts: list[Markup] = []
    for column in _FACTS:
        if job[column.name] == 0 and column.name in _SHOWN_IF_ANY:
            continue
        value = _value(column, job[column.name], as_of, "jobs")
        if value:
            facts += [element("dt", heading(column.name)), element("dd", value)]
    urls = [{"outcome": outcome, "urls": count} for outcome, count in job["urls"].items()]
    deliveries = [
        {**each, "status": "" if each["status"] is None else str(each["status"])}
        for each in job["deliveries"]
    ]
    tables = (
        ("URLs by outcome", _OUTCOME_COLUMNS, urls, frozenset({"urls"})),
        (
            "Search providers, in the order of the attempts",
            _PROVIDER_COLUMNS,
            job["providers"],
            None,
        ),
        ("Webhook deliveries", _DELIVERY_COLUMNS, deliveries, None),
    )
    commands = [f"webdata jobs show {job['job']}"]
    if job["state"] in {"pending", "running"}:
        commands.append(f"webdata jobs cancel {job['job']}")
    commands.append(shlex.join(["webdata", "accounts", "usage", job["account"]]))
    return document(
        f"Job {job['job']}",
        view_path("jobs"),
        element("dl", *facts, class_="facts"),
        *(
            element("section", _table(title, columns, rows, as_of, sums=sums or frozenset()))
            for title, columns, rows, sums in tables
            if rows
        ),
        element("h2", "Commands"),
        element(
            "ul",
            *(element("li", element("code", each, class_="command")) for each in commands),
            class_="commands",
        ),
        element("p", "As of ", _utc(as_of), ".", class_="source"),
    )


# The overview


@dataclass(frozen=True, slots=True)
class Overview:
    """What the overview shows; None for what the database has not answered yet."""

    report: StoreReport | None
    answers: Mapping[str, Answer | None]
    as_of: float


OVERVIEW_FILTERS: Final[Mapping[str, Given]] = {
    "jobs": {"state": "running", "limit": "1000"},
    "failures": {"since": "24h", "limit": "1000"},
    "replicas": {},
    "providers": {"since": "24h"},
    "refusals": {"since": "24h", "limit": "1000"},
    "size": {},
}
"""The filters of the views in the overview."""
_CARDS: Final = (
    ("jobs", "Running jobs", ("job", "account", "subject", "rows", "ran", "replica")),
    ("failures", "Failed jobs, 24 hours", ("reason", "kind", "jobs", "last", "example")),
    ("replicas", "Processes", ("replica", "kind", "version", "state", "running", "slots", "up")),
    (
        "providers",
        "Search providers, since yesterday",
        ("provider", "attempts", "failed", "failures", "paused"),
    ),
    (
        "refusals",
        "Refused requests, since yesterday",
        ("account", "status", "reason", "requests", "last"),
    ),
)
_CARD_ROWS: Final = 6
_WAITING: Final = "The database has not answered yet."


def overview_page(overview: Overview) -> str:
    """Return the page of what is going on."""
    cards = [_card(overview, name, title, columns) for name, title, columns in _CARDS]
    return document(
        "Overview",
        paths.OPERATOR_PAGE,
        element("ul", *_tiles(overview), class_="tiles"),
        element("div", *cards, _size_card(overview), class_="cards"),
        element("p", "As of ", _utc(overview.as_of), ".", class_="source"),
    )


def _tiles(overview: Overview) -> list[Markup]:
    report, answers = overview.report, overview.answers
    tiles: list[Markup] = []
    if report is not None:
        states = Counter[str]()
        for (_, state), count in report.jobs.items():
            states[state] += count
        wait = f"oldest {duration_text(report.oldest_pending_s)}" if states["pending"] else ""
        pending, failed = (report.deliveries.get((state,), 0) for state in ("pending", "failed"))
        tiles = [
            _tile("Processes live", sum(report.replicas.values()), view_path("replicas")),
            _tile("Jobs waiting", states["pending"], view_path("jobs", state="pending"), wait),
            _tile("Jobs running", states["running"], view_path("jobs", state="running")),
            _tile("Webhooks waiting", pending, view_path("webhooks")),
            _tile("Webhooks failed", failed, view_path("webhooks"), is_bad=failed > 0),
        ]
    if (failures := answers["failures"]) is not None:
        count = sum(row["jobs"] for row in failures.rows)
        path = view_path("failures", since="24h")
        tiles.append(_tile("Jobs failed, 24 hours", count, path, is_bad=count > 0))
    if (refusals := answers["refusals"]) is not None:
        count = sum(row["requests"] for row in refusals.rows)
        path = view_path("refusals", since="24h")
        tiles.append(_tile("Requests refused", count, path, "since yesterday"))
    return tiles


def _tile(title: str, count: int, href: str, note: str = "", *, is_bad: bool = False) -> Markup:
    return element(
        "li",
        element(
            "a",
            element("strong", f"{count:,}"),
            element("span", title),
            element("small", note) if note else "",
            href=href,
            class_="bad" if is_bad else None,
        ),
    )


def _card(overview: Overview, name: str, title: str, columns: Sequence[str]) -> Markup:
    """Return the part of the overview that shows the first rows of a view."""
    view, given, answer = VIEWS[name], OVERVIEW_FILTERS[name], overview.answers[name]
    filters = {key: value for key, value in given.items() if key != "limit"}
    href = view_path(name, **filters)
    content: Markup
    if answer is None:
        content = element("p", _WAITING, class_="empty")
    elif not answer.rows:
        content = element("p", nothing(view, filters), class_="empty")
    else:
        by_name = {column.name: column for column in view.columns}
        chosen = [by_name[each] for each in columns]
        shown, left = answer.rows[:_CARD_ROWS], len(answer.rows) - _CARD_ROWS
        table = _table(title, chosen, shown, answer.as_of, view=name)
        more = element("p", element("a", f"{left:,} more", href=href)) if left > 0 else ""
        content = joined([table, more])
    return _section(title, href, content)


def _section(title: str, href: str, content: Markup) -> Markup:
    return element("section", element("h2", element("a", title, href=href)), content)


def _size_card(overview: Overview) -> Markup:
    """Return the size of the database, and of the accounts with the most data."""
    answer = overview.answers["size"]
    if answer is None:
        return _section("Size", view_path("size"), element("p", _WAITING, class_="empty"))
    by_account = Counter[str]()
    rows: list[dict[str, Any]] = []
    for row in answer.rows:
        if row["account"]:
            by_account[row["account"]] += row["bytes"] or 0
        else:
            rows.append({"account": "", "kind": row["kind"], "bytes": row["bytes"]})
    largest = by_account.most_common(_CARD_ROWS - len(rows))
    rows += [{"account": name, "kind": "all data", "bytes": count} for name, count in largest]
    columns = (Column("account"), Column("kind"), Column("bytes", "bytes"))
    table = _table("Size", columns, rows, answer.as_of, view="size")
    note = element("p", "As of ", _time(answer.as_of, overview.as_of), ".", class_="note")
    return _section("Size", view_path("size"), joined([table, note]))
