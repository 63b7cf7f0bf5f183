"""Writes the findings of an audit as one HTML page: no scripts, and nothing from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

# Findings of one kind that are listed one by one.
MAX_LISTED: Final = 500
_MAX_SOURCES: Final = 5
_MAX_EVIDENCE: Final = 300
_SCHEMES: Final = ("http://", "https://")
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d1f24; --page: #ffffff; --line: #d7dae0; --soft: #5b6270;
  --link: #0b57a4; --error: #b3261e; --warning: #8a5300; --notice: #2b5f8a; --head: #f3f4f7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ee; --page: #16181d; --line: #3a3f4a;
  --soft: #a6adba; --link: #8cbcf2; --error: #ff9d94; --warning: #f2bd6c; --notice: #92c5f0;
  --head: #21242b; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
p { color: var(--soft); margin: .3rem 0 1.2rem; }
a { color: var(--link); }
table { border-collapse: collapse; width: 100%; table-layout: fixed; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; overflow-wrap: anywhere;
  border-bottom: 1px solid var(--line); }
th { background: var(--head); font-weight: 600; }
.n { width: 5rem; text-align: right; }
.kind { width: 15rem; }
.severity { width: 6rem; }
.error { color: var(--error); }
.warning { color: var(--warning); }
.notice { color: var(--notice); }
details { margin: .6rem 0; border: 1px solid var(--line); border-radius: .4rem; }
summary { padding: .5rem .7rem; cursor: pointer; }
summary b { margin-right: .4rem; }
details p { margin: 0; padding: 0 .7rem .6rem; }
"""


@dataclass(frozen=True, slots=True)
class ReportRow:
    """A finding, as the report shows it."""

    issue: str
    severity: str
    url: str
    evidence: str
    found_on: Sequence[str]
    count: int


def report_html(
    rows: Sequence[ReportRow], meanings: Mapping[str, str], *, subject: str, pages: int | None
) -> str:
    """Return the page.

    Parameters
    ----------
    rows
        The findings; those of a kind follow each other.
    meanings
        What is wrong, for each kind.
    subject
        The audited site.
    pages
        The number of its pages, if it is known.
    """
    groups = [(issue, list(group)) for issue, group in groupby(rows, lambda row: row.issue)]
    title = f"Audit of {subject}" if subject else "Site audit"
    of_pages = "" if pages is None else f" about {pages:,} page{'s' * (pages != 1)}"
    body = "".join(_group(issue, group, meanings.get(issue, "")) for issue, group in groups)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<meta name="referrer" content="no-referrer">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n<body>"
        f"<h1>{_text(title)}</h1><p>{_counts(rows)}{of_pages}</p>"
        f"{_summary(groups, meanings)}{body}</body></html>\n"
    )


def _counts(rows: Sequence[ReportRow]) -> str:
    if not rows:
        return "No findings"
    counts = []
    for severity in ("error", "warning", "notice"):
        count = sum(row.severity == severity for row in rows)
        if count:
            counts.append(
                f'<span class="{severity}">{count:,} {severity}{"s" * (count != 1)}</span>'
            )
    return ", ".join(counts)


def _summary(groups: Sequence[tuple[str, Sequence[ReportRow]]], meanings: Mapping[str, str]) -> str:
    if not groups:
        return ""
    lines = "".join(
        f'<tr><td class="kind"><a href="#{_text(issue)}">{_text(issue)}</a></td>'
        f'<td class="severity {_text(group[0].severity)}">{_text(group[0].severity)}</td>'
        f'<td>{_text(meanings.get(issue, ""))}</td><td class="n">{len(group):,}</td></tr>'
        for issue, group in groups
    )
    head = (
        '<th class="kind">issue</th><th class="severity">severity</th><th>meaning</th>'
        '<th class="n">findings</th>'
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>\n"


def _group(issue: str, rows: Sequence[ReportRow], meaning: str) -> str:
    lines = "".join(map(_line, rows[:MAX_LISTED]))
    hidden = len(rows) - MAX_LISTED
    more = f"<p>and {hidden:,} more</p>" if hidden > 0 else ""
    head = '<th>page</th><th>evidence</th><th>found on</th><th class="n">count</th>'
    severity = _text(rows[0].severity)
    return (
        f'<details id="{_text(issue)}"{" open" if severity == "error" else ""}><summary>'
        f'<b class="{severity}">{_text(issue)}</b> {_text(meaning)} ({len(rows):,})</summary>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>{more}</details>\n"
    )


def _line(row: ReportRow) -> str:
    sources = "<br>".join(map(_link, row.found_on[:_MAX_SOURCES]))
    hidden = len(row.found_on) - _MAX_SOURCES
    more = f"<br>and {hidden} more" if hidden > 0 else ""
    return (
        f"<tr><td>{_link(row.url)}</td><td>{_text(_shortened(row.evidence))}</td>"
        f'<td>{sources}{more}</td><td class="n">{row.count:,}</td></tr>'
    )


def _link(url: str) -> str:
    """Return a link to a web address; anything else is text."""
    if not url.startswith(_SCHEMES):
        return _text(url)
    return f'<a href="{_text(url)}" rel="noreferrer nofollow">{_text(url)}</a>'


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_EVIDENCE else f"{text[: _MAX_EVIDENCE - 1]}…"


def _text(text: str) -> str:
    """Escape a text, and replace control characters, which could hide what follows."""
    plain = "".join(each if each.isprintable() or each == " " else "\ufffd" for each in text)
    return html.escape(plain)
