"""A griffe extension: public functions as they are at run time, with docstrings in Markdown."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Final

import griffe

import webdata_nb
from webdata_nb.toolkit.requests.signatures import HEADING_MARK

if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLE: Final = re.compile(
    r"(?m)^(?P<indent> *)(?P<rule>=+(?: +=+)+)\n(?P<head>.*)\n(?P=indent)(?P=rule)\n"
    r"(?P<body>(?:.*\n)+?)(?P=indent)(?P=rule)$"
)
_HEADING: Final = re.compile(rf"(?m)^(\w.*)\n{re.escape(HEADING_MARK)}{{3,}}$")
_LITERAL_MARK: Final = re.compile(r"(?m)^ *::\n")
_KINDS: Final = {
    inspect.Parameter.POSITIONAL_ONLY: griffe.ParameterKind.positional_only,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    inspect.Parameter.VAR_POSITIONAL: griffe.ParameterKind.var_positional,
    inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
    inspect.Parameter.VAR_KEYWORD: griffe.ParameterKind.var_keyword,
}


class _Docstring(griffe.Docstring):
    """A docstring in which each heading of parameters is the title of a section of its own."""

    def __init__(self, text: str, **settings: Any) -> None:
        self.titles = _HEADING.findall(text)
        sections = _HEADING.sub(lambda _: "Parameters\n----------", to_markdown(text))
        super().__init__(sections, **settings)

    def parse(self, *args: Any, **options: Any) -> list[griffe.DocstringSection]:
        sections = super().parse(*args, **options)
        kind = griffe.DocstringSectionKind.parameters
        lists = [each for each in sections if each.kind is kind]
        for title, each in zip(self.titles, lists[1:], strict=True):
            each.title = title
        return sections


class PublicNames(griffe.Extension):
    """Replaces public functions, whose signatures and docstrings exist at run time only."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Replace the public functions of the package and the methods of its public classes."""
        if pkg.path != webdata_nb.__name__:
            return
        for name in webdata_nb.__all__:
            value = getattr(webdata_nb, name)
            if inspect.isclass(value):
                _replace_methods(pkg[name], value)
            elif inspect.isfunction(value):
                pkg.set_member(name, _function(name, value))

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Write the tables of a docstring in Markdown."""
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)


def _replace_methods(owner: griffe.Object | griffe.Alias, runtime_class: type) -> None:
    for name, value in _public_methods(runtime_class):
        owner.set_member(name, _function(name, value))


def _public_methods(runtime_class: type) -> Iterator[tuple[str, Any]]:
    """Yield the functions that a class defines itself, in their order."""
    for name, value in vars(runtime_class).items():
        if not name.startswith("_") and inspect.isfunction(value):
            yield name, value


def _function(name: str, value: Any) -> griffe.Function:
    """Return the description of a function as `inspect` sees it."""
    signature = inspect.signature(value)
    parameters = [
        griffe.Parameter(
            each.name,
            annotation=_annotation(each.annotation),
            kind=_KINDS[each.kind],
            default=None if each.default is each.empty else repr(each.default),
        )
        for each in signature.parameters.values()
    ]
    function = griffe.Function(
        name,
        parameters=griffe.Parameters(*parameters),
        returns=_annotation(signature.return_annotation),
    )
    if text := inspect.getdoc(value):
        function.docstring = _Docstring(text, parser="numpy", parent=function)
    return function


def _annotation(annotation: Any) -> str | None:
    if annotation is inspect.Signature.empty:
        return None
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def to_markdown(text: str) -> str:
    """Return a docstring with its tables and literal blocks in Markdown."""
    return _TABLE.sub(_markdown_table, _LITERAL_MARK.sub("", text))


def _markdown_table(table: re.Match[str]) -> str:
    indent = len(table["indent"])
    starts = [indent + match.start() for match in re.finditer("=+", table["rule"])]
    ends = [*starts[1:], None]

    def row(line: str) -> str:
        cells = (line[start:end].strip() for start, end in zip(starts, ends, strict=True))
        return f"{table['indent']}| {' | '.join(cells)} |"

    rule = f"{table['indent']}|{'---|' * len(starts)}"
    body = [row(line) for line in table["body"].splitlines()]
    return "\n".join([row(table["head"]), rule, *body])
