"""Converts reStructuredText to HTML without access to files or the network.

The parser is imported with this module, which only the first such document needs.
"""

from __future__ import annotations

from html import escape
from typing import Any, Final

from docutils import nodes  # type: ignore[import-untyped]
from docutils.core import publish_doctree, publish_from_doctree  # type: ignore[import-untyped]
from docutils.parsers.rst import Parser  # type: ignore[import-untyped]
from docutils.readers import standalone  # type: ignore[import-untyped]
from docutils.writers import html5_polyglot  # type: ignore[import-untyped]

from webdata_nb.service.documents.bare_urls import link_urls
from webdata_nb.service.documents.converted_document import ConvertedDocument
from webdata_nb.service.documents.plain_text import convert_plain_text
from webdata_nb.service.documents.sphinx_markup import define_names, forget_names

MAX_LINES: Final = 6000
"""Lines of a document that are parsed: about 1.5 s."""
MAX_CHARACTERS: Final = 400_000
"""Characters of a document that are parsed."""
MAX_LINE_LENGTH: Final = 3000
"""A document with a longer line is plain text: some rules search the rest of a line again."""
MAX_PROBLEMS: Final = 1000
"""A document with more markup errors is plain text: each costs as much as a line."""

_ERROR_LEVEL: Final = 2
_NO_LANGUAGE: Final = frozenset({"code", "literal-block"})
_SETTINGS: Final[dict[str, Any]] = {
    "_disable_config": True,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "embed_stylesheet": False,
    "stylesheet_path": "",
    "image_loading": "link",
    "math_output": "LaTeX",
    "syntax_highlight": "none",
    "smart_quotes": False,
    "toc_backlinks": False,
    "footnote_backlinks": False,
    "report_level": 5,
    "halt_level": 5,
    "warning_stream": False,
    "traceback": True,  # raises errors instead of ending the process
    "line_length_limit": MAX_LINE_LENGTH,
    "input_encoding": "unicode",
    "output_encoding": "unicode",
}


class _TooManyProblemsError(Exception):
    """The text has so many markup errors that it is no reStructuredText."""


class _CountingReader(standalone.Reader):  # type: ignore[misc]
    """Ends the parse of a text with too many problems."""

    def new_document(self) -> Any:
        document = super().new_document()
        problems = iter(range(MAX_PROBLEMS))

        def count(message: Any) -> None:
            if message["level"] >= _ERROR_LEVEL and next(problems, None) is None:
                raise _TooManyProblemsError

        document.reporter.attach_observer(count)
        return document


class _Translator(html5_polyglot.HTMLTranslator):  # type: ignore[misc]
    """Writes HTML; images are never read."""

    def uri2path(self, uri: str, output_path: str | None = None) -> str:
        raise ValueError(f"not read: {uri}, {output_path}")

    def visit_literal_block(self, node: Any) -> None:
        self._begin_code(next((name for name in node["classes"] if name not in _NO_LANGUAGE), ""))

    def depart_literal_block(self, _node: Any) -> None:
        self.body.append("</code></pre>\n")

    def visit_doctest_block(self, _node: Any) -> None:
        self._begin_code("pycon")

    def depart_doctest_block(self, _node: Any) -> None:
        self.body.append("</code></pre>\n")

    def _begin_code(self, language: str) -> None:
        self.body.append(f'<pre><code class="language-{escape(language)}">')


class _HtmlWriter(html5_polyglot.Writer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.translator_class = _Translator


def convert_restructured_text(text: str, url: str) -> ConvertedDocument:
    """Convert a reStructuredText document, also one written for Sphinx.

    A text that the parser fails on becomes plain text. The lines after the first `MAX_LINES`
    follow as plain text, and the metadata's `characters_not_parsed` counts them.

    Parameters
    ----------
    text
        The document.
    url
        Its URL, whose end names the suffix of the documents that it lists.
    """
    text = text.removeprefix("\ufeff").replace("\0", "\ufffd")
    end = _parsed_length(text)
    try:
        html = _to_html(text[:end], url)
    except Exception:  # noqa: BLE001 - the parser fails on malformed texts with errors of all types
        return convert_plain_text(text, url)
    if not end < len(text):
        return ConvertedDocument(html)
    rest = f"<pre>{link_urls(text[end:])}</pre>"
    return ConvertedDocument(html + rest, metadata={"characters_not_parsed": len(text) - end})


def _parsed_length(text: str) -> int:
    """Return the length of the whole lines that are parsed."""
    position = 0
    for _ in range(MAX_LINES):
        end = text.find("\n", position) + 1
        if not end:
            return len(text) if len(text) <= MAX_CHARACTERS else position
        if end > MAX_CHARACTERS:
            break
        position = end
    return position


def _to_html(text: str, url: str) -> str:
    if max(map(len, text.splitlines()), default=0) > MAX_LINE_LENGTH:
        raise _TooManyProblemsError
    settings = _SETTINGS | {"page_url": url}
    try:
        define_names(text)
        tree = publish_doctree(
            text, reader=_CountingReader(), parser=Parser(), settings_overrides=settings
        )
    finally:
        forget_names()
    _prepare(tree)
    writer = _HtmlWriter()
    has_title = len(tree) > 0 and isinstance(tree[0], nodes.title)
    settings["initial_header_level"] = 2 if has_title else 1
    publish_from_doctree(tree, writer=writer, settings_overrides=settings)
    return f"<head>{_head(tree)}</head><body>{writer.parts['html_body']}</body>"


def _prepare(tree: Any) -> None:
    """Mark literals as code, and remove what would read files."""
    for literal in tree.findall(nodes.literal):
        literal["classes"].append("code")  # the writer writes <code> for this class only
    for image in tree.findall(nodes.image):
        for option in ("loading", "scale"):
            image.attributes.pop(option, None)


def _head(tree: Any) -> str:
    title = tree.get("title") or next(
        (section[0].astext() for section in tree.findall(nodes.section) if len(section)), ""
    )
    parts = [f"<title>{escape(' '.join(title.split()))}</title>"] if title else []
    for name, kind in (("author", nodes.author), ("date", nodes.date)):
        values = [
            node.astext() for info in tree.findall(nodes.docinfo) for node in info.findall(kind)
        ]
        if values:
            parts.append(f'<meta name="{name}" content="{escape(", ".join(values))}">')
    parts += [
        f'<meta name="{escape(meta["name"])}" content="{escape(meta["content"])}">'
        for meta in tree.findall(nodes.meta)
        if meta.get("name") and meta.get("content")
    ]
    return "".join(parts)
