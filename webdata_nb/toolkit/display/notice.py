"""Shows a sentence to the user, where progress is shown."""

from __future__ import annotations

import html
import logging
import sys
import threading
from typing import Literal

from webdata_nb.toolkit.display.bars import FONT, CellOutput
from webdata_nb.toolkit.terminal_text import encodable

Place = Literal["marimo", "live", "headless", "terminal", "elsewhere"]

log = logging.getLogger("webdata_nb")


def show_notice(text: str, place: Place) -> None:
    """Show `text` on one line; must be called on the thread that paints progress."""
    if place == "marimo":
        print(encodable(text))  # noqa: T201 - it appears below the running cell
    elif threading.current_thread() is not threading.main_thread():
        log.info("%s", text)
    elif place in {"live", "headless"}:
        style = f"padding:.2em .4em;opacity:.75;{FONT}"
        rendered = f'<div style="{style}">{html.escape(text)}</div>'
        CellOutput().show({"text/plain": text, "text/html": rendered})
    elif place == "terminal":
        from tqdm.std import tqdm  # noqa: PLC0415 - most calls never show a terminal bar

        tqdm.write(encodable(text, sys.stderr), file=sys.stderr)
    else:
        log.info("%s", text)
