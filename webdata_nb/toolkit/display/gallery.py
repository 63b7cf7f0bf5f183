"""Creatives as pictures: a page of cards for a notebook, without a single remote address loaded."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from webdata_nb.toolkit.display import thumbnails

_TEXTS: Final = ("headline", "description", "advertiser_name", "format", "landing_domain")
_CARD: Final = (
    "display:inline-block;vertical-align:top;width:250px;margin:4px;padding:6px;"
    "border:1px solid #8886;border-radius:4px;font:12px sans-serif;overflow-wrap:anywhere"
)


@dataclass(frozen=True, slots=True)
class Gallery:
    """What `gallery` returns; a notebook shows its cards."""

    cards: tuple[str, ...]
    left_out: int = 0

    def __repr__(self) -> str:
        return f"Gallery of {len(self.cards)} creatives"

    def _repr_html_(self) -> str:
        more = f"<p>{self.left_out} more are not shown</p>" if self.left_out else ""
        return f"<div>{''.join(self.cards)}{more}</div>"


def render(rows: Iterable[Mapping[str, Any]], *, left_out: int = 0) -> Gallery:
    """Return the cards of creatives; whatever a source sent is text and never markup."""
    return Gallery(tuple(map(_card, rows)), left_out)


def _card(row: Mapping[str, Any]) -> str:
    texts = [str(row[name]) for name in _TEXTS if isinstance(row.get(name), str)]
    lines = "".join(f"<div>{html.escape(text)}</div>" for text in texts)
    name = html.escape(f"{row.get('position', '')}. {row.get('creative_id', '')}")
    error = row.get("error")
    wrong = f"<div>\u26a0 {html.escape(error)}</div>" if isinstance(error, str) else ""
    return f'<div style="{_CARD}">{_image(row)}<div><b>{name}</b></div>{lines}{wrong}</div>'


def _image(row: Mapping[str, Any]) -> str:
    """Return the first downloaded picture as a small one of our own making."""
    assets = row.get("assets")
    files = [row.get("preview"), *(assets if isinstance(assets, list) else [])]
    return thumbnails.first_of(files) or "<div>(no picture here)</div>"
