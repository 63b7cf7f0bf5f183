"""How an object that stands for something at the service looks in a notebook."""

from __future__ import annotations

import html


def bundle(text: str, line: str, name: str) -> dict[str, str]:
    """Return plain text, and HTML in which nothing of `line` and `name` is markup."""
    shown = (
        '<div style="font-family:monospace;white-space:pre-wrap">'
        f"{html.escape(line)} <small>{html.escape(name)}</small></div>"
    )
    return {"text/plain": text, "text/html": shown}
