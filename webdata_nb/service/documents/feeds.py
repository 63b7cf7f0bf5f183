"""An RSS or Atom feed as an HTML page: its title, and each entry as an article."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webdata_nb.service.content.parser import Entry, Feed


def feed_to_html(feed: Feed) -> str:
    """Write a feed as an HTML page; the entries' own HTML goes in as it is."""
    title = escape(feed.title or "")
    head = f"<title>{title}</title>"
    if feed.description:
        head += f'<meta name="description" content="{escape(feed.description)}">'
    heading = _linked(title, feed.link)
    entries = "".join(map(_entry, feed.entries))
    about = f"<p>{escape(feed.description)}</p>" if feed.description else ""
    return (
        f"<!doctype html><html><head>{head}</head><body><main>"
        f"<h1>{heading}</h1>{about}{entries}</main></body></html>"
    )


def _entry(entry: Entry) -> str:
    heading = _linked(escape(entry.title or entry.link or ""), entry.link)
    byline = ", ".join(filter(None, (entry.author, entry.published or entry.updated)))
    content = entry.content if isinstance(entry.content, str) else None
    return (
        f"<article><h2>{heading}</h2>"
        + (f"<p>{escape(byline)}</p>" if byline else "")
        + f"<div>{content or entry.summary or ''}</div></article>"
    )


def _linked(text: str, url: str | None) -> str:
    return f'<a href="{escape(url)}">{text}</a>' if url and text else text
