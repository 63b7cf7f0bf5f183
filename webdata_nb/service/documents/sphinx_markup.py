"""Defines the directives and roles of Sphinx, and unknown ones, for a reStructuredText parser.

Documentation uses many directives that only a Sphinx project defines. Their content is content of
the page, so it is parsed, and their arguments are shown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from docutils import nodes  # type: ignore[import-untyped]
from docutils.parsers.rst import (  # type: ignore[import-untyped]
    Directive,
    directives,
    roles,
)
from docutils.parsers.rst.languages import en  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Role = Callable[..., tuple[list[Any], list[Any]]]

MAX_NAMES: Final = 300
"""Unknown names of one document that are defined."""

# fmt: off
_HIDDEN: Final = frozenset({
    "contents", "currentmodule", "default-domain", "highlight", "include", "index",
    "literalinclude", "module", "moduleauthor", "py:currentmodule", "py:module", "raw",
    "sectionauthor", "tabularcolumns", "testcleanup", "testsetup",
})
_CODE: Final = frozenset({
    "blockdiag", "code-cell", "console", "doctest", "graphviz", "ipython", "ipython3",
    "jupyter-execute", "mermaid", "productionlist", "prompt", "testcode", "testoutput", "uml",
})
_OBJECTS: Final = frozenset({
    "attribute", "class", "classmethod", "cmdoption", "confval", "constant", "cvar", "data",
    "decorator", "decoratormethod", "describe", "directive", "envvar", "exception", "function",
    "macro", "member", "method", "opcode", "option", "program", "property", "staticmethod",
    "struct", "type", "var",
})
_TEXT_ROLES: Final = frozenset({
    "abbr", "any", "dfn", "doc", "guilabel", "issue", "menuselection", "numref", "ref",
    "std:doc", "std:ref", "term",
})
# fmt: on
_VERSION_NOTES: Final = {
    "versionadded": "Added in version",
    "versionchanged": "Changed in version",
    "versionremoved": "Removed in version",
    "deprecated": "Deprecated since version",
    "seealso": "See also",
}
_CONTINUED: Final = re.compile(r"\\\n\s*+")
_DIRECTIVE: Final = re.compile(
    r"^[ \t]*+\.\. (?:\|[^|\n]*\| )?(\w[\w.+-]*+(?::[\w.+-]++)*+)::", re.MULTILINE
)
_ROLE: Final = re.compile(r":([A-Za-z][\w:.+-]{0,60}):(?=`)|(?<=`):([A-Za-z][\w:.+-]{0,60}):")
_TARGET: Final = re.compile(r"([^<]*)<([^<>]*)>")
_SOURCE_SUFFIX: Final = re.compile(r"\.rst(?:\.txt)?$")


class _AnyOptions(dict[str, Any]):
    """An option specification that takes every option as text."""

    def __missing__(self, name: str) -> Callable[[str | None], str | None]:
        return str


class _UnknownDirective(Directive):  # type: ignore[misc]
    """Shows the argument of a directive, and parses its content."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = _AnyOptions({"name": str})

    def run(self) -> list[Any]:
        container = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, container)
        return [*self._argument(), *container.children]

    def _argument(self) -> list[Any]:
        prefix = _VERSION_NOTES.get(self.name, "")
        text = " ".join([prefix, *self.arguments]).strip()
        if not text:
            return []
        children, messages = self.state.inline_text(" ".join(text.split()), self.lineno)
        return [nodes.paragraph(text, "", *children), *messages]


class _ObjectDirective(_UnknownDirective):
    """Shows the signatures of a function, a class or another object, and parses its content."""

    def _argument(self) -> list[Any]:
        # Elsewhere, ".. class:: name" marks its content for a style sheet.
        is_style = self.name == "class" and not any(
            "(" in argument or argument[:1].isupper() for argument in self.arguments
        )
        signatures = _CONTINUED.sub(" ", "".join(self.arguments)).splitlines()
        return [
            nodes.paragraph("", "", nodes.literal(signature, signature.strip()))
            for signature in signatures
            if not is_style
        ]


class _CodeDirective(_UnknownDirective):
    """Shows the content of a directive as code."""

    def run(self) -> list[Any]:
        text = "\n".join(self.content)
        return [nodes.literal_block(text, text)] if text else []


class _HiddenDirective(_UnknownDirective):
    """Shows nothing."""

    def run(self) -> list[Any]:
        return []


class _TocTree(_UnknownDirective):
    """Lists links to other documents, whose sources have the same file name suffix."""

    def run(self) -> list[Any]:
        suffix = suffix_of(self.state.document.settings.page_url)
        items = nodes.bullet_list()
        for line in self.content:
            if line.strip() and "*" not in line:
                reference = _document_link(line.strip(), suffix)
                items += nodes.list_item("", nodes.paragraph("", "", reference))
        return [items] if len(items) else []


def define_names(text: str) -> None:
    """Define the directives and roles of a text that the parser does not know.

    The parser's tables are global, so `forget_names` restores them.
    """
    for name in (*_HIDDEN, "class", *_new_names(_DIRECTIVE, text, en.directives)):
        directives.register_directive(name, _directive_class(name))
    for name in _new_names(_ROLE, text, en.roles):
        roles.register_local_role(name, _role(name))


def forget_names() -> None:
    """Remove the directives and roles that a document has defined."""
    directives._directives.clear()  # noqa: SLF001 - there is no function for it
    roles._roles.clear()  # noqa: SLF001


def suffix_of(url: str) -> str:
    """Return ``.rst`` or ``.rst.txt``, as the source files at a URL are named; "" for others."""
    match = _SOURCE_SUFFIX.search(url.partition("#")[0].partition("?")[0])
    return match[0] if match is not None else ""


def _new_names(pattern: re.Pattern[str], text: str, known: dict[str, str]) -> Iterator[str]:
    names = {next(filter(None, match.groups())).lower(): None for match in pattern.finditer(text)}
    return (name for name in list(names)[:MAX_NAMES] if name not in known)


def _directive_class(name: str) -> type[_UnknownDirective]:
    if name in _HIDDEN:
        return _HiddenDirective
    if name == "toctree":
        return _TocTree
    if name in _CODE:
        return _CodeDirective
    return _ObjectDirective if name.rpartition(":")[2] in _OBJECTS else _UnknownDirective


def _role(name: str) -> Role:
    def role(
        _name: str, source: str, text: str, _line: int, inliner: Any, *_options: Any, **_more: Any
    ) -> tuple[list[Any], list[Any]]:
        match = _TARGET.fullmatch(text)
        label = (match[1].strip() if match is not None else "") or text.lstrip("!")
        if name.endswith("doc"):
            suffix = suffix_of(inliner.document.settings.page_url)
            return [_document_link(text, suffix)], []
        if label.startswith("~"):
            label = label.rpartition(".")[2]
        node = nodes.inline if name in _TEXT_ROLES else nodes.literal
        return [node(source, label)], []

    return role


def _document_link(text: str, suffix: str) -> Any:
    """Return a link to another document: its name, or ``title <name>``.

    A name that begins with a slash is relative to a root that is not known.
    """
    match = _TARGET.fullmatch(text)
    title, name = (match[1].strip(), match[2].strip()) if match is not None else ("", text)
    title = title or name
    if "://" in name:
        return nodes.reference("", title, refuri=name)
    if not suffix or name.startswith("/") or not name:
        return nodes.inline("", title)
    return nodes.reference("", title, refuri=name.removesuffix(".rst") + suffix)
