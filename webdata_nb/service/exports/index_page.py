"""Renders the index of a ZIP export as an HTML page without scripts or external resources."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Final
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One result of the job and its files below `folder`; a row of `index.json`."""

    number: int
    url: str
    title: str
    snippet: str
    success: bool
    error: str | None
    folder: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExportIndex:
    """A job and its results; the content of `index.json`."""

    kind: str
    subject: str
    job_id: str
    status: str
    results: tuple[IndexEntry, ...]
    partial: bool = False


_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2433; --soft: #5b6472; --line: #e3e6eb;
  --paper: #fff; --back: #f6f7f9; --link: #1a56b8; --bad: #b3261e; --tag: #eef1f5; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #9aa4b2; --line: #2c3440;
  --paper: #171c24; --back: #0f1319; --link: #8ab4f8; --bad: #f2b8b5; --tag: #232b36; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { margin: 0 0 .25rem; font-size: 1.6rem; line-height: 1.25; overflow-wrap: anywhere; }
header p { margin: 0 0 1.5rem; color: var(--soft); overflow-wrap: anywhere; }
ol { list-style: none; margin: 0; padding: 0; background: var(--paper);
  border: 1px solid var(--line); border-radius: 12px; overflow: hidden; }
li { display: grid; grid-template-columns: 3rem 1fr; padding: 1rem 1.25rem 1rem .5rem;
  border-top: 1px solid var(--line); }
li:first-child { border-top: 0; }
li > span { color: var(--soft); text-align: right; padding-right: 1rem;
  font-variant-numeric: tabular-nums; }
h2 { margin: 0; font-size: 1.05rem; font-weight: 600; overflow-wrap: anywhere; }
li p { margin: .15rem 0 0; overflow-wrap: anywhere; }
.url { color: var(--soft); font-size: .87rem; }
.error { color: var(--bad); }
a { color: var(--link); text-decoration: none; }
a:hover, a:focus { text-decoration: underline; }
nav { display: flex; flex-wrap: wrap; gap: .4rem; margin-top: .6rem; }
nav a { background: var(--tag); border-radius: 6px; padding: .1rem .5rem; font-size: .84rem; }
header nav { margin: 0 0 1.5rem; }
"""
# Forbids scripts and requests even if the page contained unescaped text.
_CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def render_index(index: ExportIndex) -> str:
    """Return the index as one HTML document."""
    failed = sum(not entry.success for entry in index.results)
    counts = f"{len(index.results)} result{'' if len(index.results) == 1 else 's'}"
    if failed:
        counts += f", {failed} of them failed"
    kind = "Search" if index.kind == "search" else "Crawl"
    items = "".join(map(_list_item, index.results))
    partial = " (partial)" if index.partial else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_CONTENT_SECURITY_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{kind}: {escape(index.subject)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<header>
<h1>{escape(index.subject)}</h1>
<p>{kind} · {counts} · {escape(index.status)}{partial} · job {escape(index.job_id)}</p>
<nav><a href="data.json">data.json</a><a href="index.json">index.json</a></nav>
</header>
<ol>
{items}</ol>
</main>
</body>
</html>
"""


def _list_item(entry: IndexEntry) -> str:
    parts = [f"<h2>{_link(entry.url, entry.title or entry.url)}</h2>"]
    if entry.title:
        parts.append(f'<p class="url">{escape(entry.url)}</p>')
    if entry.snippet:
        parts.append(f"<p>{escape(entry.snippet)}</p>")
    if entry.error:
        parts.append(f'<p class="error">{escape(entry.error)}</p>')
    files = "".join(
        f'<a href="{escape(f"{entry.folder}/{name}")}">{escape(name)}</a>' for name in entry.files
    )
    parts.append(f"<nav>{files}</nav>")
    return f"<li><span>{entry.number}</span><div>{''.join(parts)}</div></li>\n"


def _link(url: str, text: str) -> str:
    """Return a link to a web page, or plain text for another scheme such as `javascript`."""
    try:
        is_web = urlsplit(url).scheme in {"http", "https"}
    except ValueError:
        is_web = False
    if not is_web:
        return escape(text)
    return f'<a href="{escape(url)}" rel="noopener noreferrer">{escape(text)}</a>'
