"""Renders objects such as jobs for notebooks."""

from __future__ import annotations

import html

from webdata_nb.toolkit.display.bars import FONT


def bundle(text: str, line: str, name: str = "") -> dict[str, str]:
    """Return the text and its HTML, with `line` and `name` escaped."""
    small = f" <small>{html.escape(name)}</small>" if name else ""
    body = (
        '<div style="padding:.2em .4em;line-height:1.5;white-space:pre-wrap;'
        f'overflow-wrap:anywhere;{FONT}">'
        f"{html.escape(line)}{small}</div>"
    )
    return {"text/plain": text, "text/html": body}
