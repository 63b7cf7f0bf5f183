"""Pages that show the notebooks with their stored outputs."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def page(path: Path) -> str:
    """Return a notebook as Markdown, with its HTML outputs and pictures as they are."""
    notebook = json.loads(path.read_text("utf-8"))
    parts = [part for cell in notebook["cells"] for part in _cell(cell)]
    return "\n\n".join(parts) + "\n"


def _cell(cell: Mapping[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        yield from _output(output)


def _output(output: Mapping[str, Any]) -> Iterator[str]:
    """Yield the richest form of an output that a page can show."""
    data = {kind: "".join(value) for kind, value in output.get("data", {}).items()}
    if "text" in output:
        yield _block(f"<pre>{html.escape(''.join(output['text']))}</pre>")
    elif "image/png" in data:
        text = html.escape(data.get("text/plain", "A figure"))
        picture = data["image/png"].replace("\n", "")
        yield _block(f'<img src="data:image/png;base64,{picture}" alt="{text}">')
    elif "text/html" in data:
        yield _block(data["text/html"])
    elif "text/plain" in data:
        yield _block(f"<pre>{html.escape(data['text/plain'])}</pre>")


def _block(content: str) -> str:
    """Return a block of HTML, which Markdown leaves as it is."""
    return f'<div class="webdata-output">\n{content}\n</div>'
