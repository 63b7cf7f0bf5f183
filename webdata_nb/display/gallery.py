"""Creatives as pictures: a page of cards for a notebook, without a single remote address loaded."""

from __future__ import annotations

import base64
import html
import io
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_SIDE: Final = 240
_MOST_PIXELS: Final = 40_000_000
_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP")
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


def shown(rows: Iterable[Mapping[str, Any]], *, left_out: int = 0) -> Gallery:
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
    for told in files:
        file = told.get("file") if isinstance(told, dict) else None
        if isinstance(file, str) and (data := _thumbnail(Path(file))) is not None:
            text = base64.b64encode(data).decode()
            return f'<img alt="" style="max-width:100%" src="data:image/png;base64,{text}">'
    return "<div>(no picture here)</div>"


def _thumbnail(path: Path) -> bytes | None:
    from PIL import Image  # noqa: PLC0415 - only where pictures are drawn

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path, formats=_FORMATS) as image:
                if image.width * image.height > _MOST_PIXELS:
                    return None
                image.thumbnail((_SIDE, _SIDE))
                out = io.BytesIO()
                image.convert("RGBA").save(out, "PNG", optimize=True)
                return out.getvalue()
    except (OSError, ValueError, Image.DecompressionBombError):
        return None
