"""The cells of the tutorial, and the pictures after them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).resolve().parents[1] / "tutorial.md"
_BLOCK: Final = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n\n!\[[^\]]*\]\(pictures/(?P<picture>[\w-]+)-light\.png)?",
    re.MULTILINE | re.DOTALL,
)


def tutorial_cells() -> list[tuple[str, str | None]]:
    """Return the code of each cell, and the name of its picture if it has one."""
    text = PAGE.read_text("utf-8")
    return [(block["code"].strip(), block["picture"]) for block in _BLOCK.finditer(text)]
