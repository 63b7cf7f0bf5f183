"""Replaces mermaid diagrams by their pictures, since the site loads no script from elsewhere."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

DIGEST_KEY: Final = "diagram"
"""The text entry of a picture's PNG file that has the digest of its diagram."""
_ARCHITECTURE: Final = Path(__file__).resolve().parents[1] / "architecture.md"
_DIAGRAM: Final = re.compile(r"```mermaid\n.*?\n```", re.DOTALL)


def architecture_diagram() -> str:
    """Return the fenced diagram of the architecture page."""
    match = _DIAGRAM.search(_ARCHITECTURE.read_text("utf-8"))
    if match is None:
        raise ValueError(f"{_ARCHITECTURE.name} has no mermaid diagram")
    return match[0]


def digest(diagram: str) -> str:
    """Return a hash that tells whether a picture shows a diagram."""
    return hashlib.sha256(diagram.encode()).hexdigest()


def replace_by_picture(markdown: str, path: str) -> str:
    """Replace the diagrams of a page by the picture at `path`."""
    return _DIAGRAM.sub(f"![The packages and their imports]({path})", markdown)
