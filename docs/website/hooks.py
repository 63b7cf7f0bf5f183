"""MkDocs hooks: pages that are generated at build time, and links to files outside `docs`."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from collections.abc import Callable

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

CHECKOUT: Final = Path(__file__).resolve().parents[2]
if str(CHECKOUT) not in sys.path:  # MkDocs loads a hook as a file, not as a module of a package
    sys.path.insert(0, str(CHECKOUT))

from docs.website import (  # noqa: E402 - needs the path
    command_reference,
    diagrams,
    http_reference,
    notebook_pages,
    python_reference,
)

# Files outside `docs`, and the pages that are copies of them.
COPIES: Final = {"CHANGELOG.md": "changelog.md", "benchmarks/README.md": "benchmarks.md"}
NOTEBOOKS: Final = {
    f"notebooks/{path.name}": f"notebooks/{path.stem}.md"
    for path in sorted((CHECKOUT / "notebooks").glob("*.ipynb"))
}
GENERATED: Final[dict[str, Callable[[], str]]] = {
    "reference/commands.md": command_reference.page,
    "reference/http.md": http_reference.page,
    **python_reference.PAGES,
}
_LINK: Final = re.compile(
    r"(?<!!)\[(?P<text>(?:[^\]`]|`[^`]*`)*)\]\((?P<target>[^)#:\s]+)(?P<anchor>#[^)]*)?\)"
)
_LIGHT_PICTURE: Final = re.compile(r"!\[(?P<text>[^\]]*)\]\((?P<path>[^)\s]+)-light\.png\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, the notebooks, and the copies of files outside `docs`."""
    pages = {path: write() for path, write in GENERATED.items()}
    pages |= {path: notebook_pages.page(CHECKOUT / source) for source, path in NOTEBOOKS.items()}
    pages |= {path: (CHECKOUT / source).read_text("utf-8") for source, path in COPIES.items()}
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - the signature of MkDocs
    """Point links that leave `docs` to the page that shows the file, or keep their text only.

    A picture in the light theme stands for both themes, and a picture for a diagram.
    """
    path = page.file.src_uri
    outside = COPIES | NOTEBOOKS
    origins = {copy: source for source, copy in outside.items()}
    folder = posixpath.dirname(origins.get(path, f"docs/{path}"))

    def replace(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link["target"]))
        if target.startswith("docs/"):
            inside = target.removeprefix("docs/")
        elif target in outside:
            inside = outside[target]
        else:
            return link["text"]
        address = posixpath.relpath(inside, posixpath.dirname(path) or ".")
        return f"[{link['text']}]({address}{link['anchor'] or ''})"

    markdown = diagrams.replace_by_picture(markdown, "pictures/architecture-light.png")
    both = r"![\g<text>](\g<path>-light.png#only-light)![\g<text>](\g<path>-dark.png#only-dark)"
    return _LIGHT_PICTURE.sub(both, _LINK.sub(replace, markdown))
