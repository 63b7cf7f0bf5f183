"""Counts the concepts of the package in its source, by one rule each.

Every rule reads syntax trees, so that comments, docstrings and the layout of lines do not count.
`benchmarks.structure` prints the figures beside their ceilings.
"""

from __future__ import annotations

import ast
import os
import re
import statistics
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

PACKAGE: Final = "webdata_nb"

# What one crawled page is on its way from the socket to the row of a frame, in this order. Whoever
# renames a form renames it here; whoever merges two deletes one. Pages that a browser renders, that
# an archive has or that an earlier crawl stored take other forms as well, which are not counted:
# RenderedPage, ArchivedResponse, StoredVisit, EarlierPage, UnchangedPage.
FORMS_OF_A_PAGE: Final = (
    "CrawlTarget",
    "FetchRequest",
    "FetchedResponse",
    "ParsedPage",
    "Scraped",
    "PageVisit",
    "CrawlResult",
    "JournalEntry",
    "CrawlPage",
    "CallResult",
)

_NOT_CODE: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)
_DATA_CLASS: Final = re.compile(r"\b(dataclass|Struct|BaseModel|NamedTuple|TypedDict|Strict)\b")
_LEAST_FIELDS: Final = 3
# `<` and the name of any tag, as in `</?([a-z]+` or `<(?P<name>[a-zA-Z]`.
_TAG_PATTERN: Final = re.compile(r"(?<!\?P)<(?:\(\?:|\(\?P<\w+>|[()?/])*\[[aA]-[zZ]")
_SPANS: Final = frozenset({"colspan", "rowspan", "[colspan],[rowspan]", "[colspan]", "[rowspan]"})
# Where a refused combination is put into words: requests and calls.
_REFUSING: Final = (
    "contract/",
    "toolkit/api/",
    "toolkit/calls/",
    "toolkit/requests/",
    "service/routes/",
    "service/http/",
)
_REFUSAL: Final = re.compile(
    r"leave (?:it|them|one of them|one of) out|: leave out |; leave out "
    r"|not possible with|cannot be combined|no (?:meaning|effect) with"
    r"|without Dask|leave out one of|has a meaning only with"
)
# Where an option of `webdata serve` passes from the command line to the parts that obey it.
_START_OPTIONS: Final = re.compile(
    r"cli/.*|service/(?:app|server|settings\w*|settings/.*|job_workers/.*)"
)
_FLAG: Final = re.compile(r"^\s{2,}--([a-z][a-z-]+)", re.MULTILINE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """The package in a checkout, as syntax trees."""

    checkout: Path

    @cached_property
    def files(self) -> list[Path]:
        """The Python files."""
        return sorted((self.checkout / PACKAGE).rglob("*.py"))

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """The tree of each file, by its path in the package."""
        root = self.checkout / PACKAGE
        return {
            path.relative_to(root).as_posix(): ast.parse(path.read_text("utf-8"))
            for path in self.files
        }

    @cached_property
    def nodes(self) -> dict[str, list[ast.AST]]:
        """All nodes of each file."""
        return {path: [*ast.walk(tree)] for path, tree in self.trees.items()}

    @cached_property
    def texts(self) -> dict[str, list[str]]:
        """The texts of each file: constants, and the constant parts of an f-string joined."""
        return {path: [*_texts(nodes)] for path, nodes in self.nodes.items()}

    @cached_property
    def classes(self) -> dict[str, list[ast.ClassDef]]:
        """The classes by name."""
        found: dict[str, list[ast.ClassDef]] = defaultdict(list)
        for nodes in self.nodes.values():
            for node in nodes:
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(node)
        return found


def code_lines(source: Source) -> int:
    """Count lines that hold code: no blank lines, comments or docstrings."""
    files = zip(source.files, source.nodes.values(), strict=True)
    return sum(_code_lines_of(path, nodes) for path, nodes in files)


def _code_lines_of(path: Path, nodes: Iterable[ast.AST]) -> int:
    """Count the lines of one file that hold code."""
    docstring_lines = {
        number
        for node in _docstrings(nodes)
        for number in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    with path.open("rb") as stream:
        lines = {
            number
            for token in tokenize.tokenize(stream.readline)
            if token.type not in _NOT_CODE
            for number in range(token.start[0], token.end[0] + 1)
        }
    return len(lines - docstring_lines)


def crawl_models(source: Source) -> list[str]:
    """Return the models that start a crawl: `CrawlRequest` and what derives from it."""
    return sorted(
        name
        for name, nodes in source.classes.items()
        if name == "CrawlRequest" or any("CrawlRequest" in _ancestors(source, n) for n in nodes)
    )


def crawl_paths(source: Source) -> list[str]:
    """Return the paths that start a crawl: those of `contract/paths.py` without a part to fill."""
    return sorted(
        text
        for text in source.texts["contract/paths.py"]
        if text.startswith("/") and "crawl" in text and "{" not in text
    )


def forms_of_a_page(source: Source) -> list[str]:
    """Return which of `FORMS_OF_A_PAGE` the package defines."""
    return [name for name in FORMS_OF_A_PAGE if name in source.classes]


def codecs(source: Source) -> list[str]:
    """Return the modules that write and read the fields of a record by hand.

    Such a module has a function that puts at least three attributes into a dict, list or tuple (or
    calls `asdict`), and one that makes a data class of values that it takes by name or place from
    another one: at least three, or all by `**`. At least three of the attributes are fields of
    this class; with `asdict` the module defines it. The rows of a database, which are read by
    column, do not count.
    """
    fields = {
        name: {field for node in nodes for field in _fields(node)}
        for name, nodes in source.classes.items()
        if any(_is_data(node) for node in nodes)
    }
    found = []
    for path, nodes in source.nodes.items():
        if path.startswith("service/store/"):
            continue
        functions = [*_functions(nodes)]
        written = set[str]().union(*(_written_fields(node) for node in functions))
        own = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
        for name in set().union(*(_read_classes(node, fields) for node in functions)):
            candidates = own & fields.keys() if name == "cls" else {name}
            if any(
                len(fields[one] & written) >= _LEAST_FIELDS or ("asdict" in written and one in own)
                for one in candidates
            ):
                found.append(path)
                break
    return found


def html_readers(source: Source) -> list[str]:
    """Return the modules that read HTML without the parser.

    They derive from `html.parser.HTMLParser`, or search with a pattern that matches the name of any
    tag.
    """
    return [
        path
        for path, nodes in source.nodes.items()
        if any(
            isinstance(node, ast.ClassDef) and "HTMLParser" in _base_names(node) for node in nodes
        )
        or any(_TAG_PATTERN.search(pattern) for pattern in _patterns(nodes))
    ]


def json_ld_readers(source: Source) -> list[str]:
    """Return the modules that read the nodes of JSON-LD: they name `@type` or `@graph`."""
    return [
        path
        for path, texts in source.texts.items()
        if any(text in {"@type", "@graph"} or '"@type"' in text for text in texts)
    ]


def table_readers(source: Source) -> list[str]:
    """Return the modules that read the cells of HTML tables: they ask for their spans.

    A module that writes the tables of office documents as HTML does not count.
    """
    return [
        path
        for path, texts in source.texts.items()
        if not path.startswith("page/documents/")
        and not path.startswith("service/documents/")
        and any(text in _SPANS for text in texts)
    ]


def single_protocols(source: Source) -> list[str]:
    """Return the protocols with exactly one implementation.

    A class implements a protocol that it derives from or whose methods it all has. An
    implementation that another one derives from is not counted beside it. Protocols of functions
    (`__call__`) and those of foreign objects, which no class of the package implements, are none.
    """
    protocols = {
        name: node
        for name, nodes in source.classes.items()
        for node in nodes
        if "Protocol" in _base_names(node)
    }
    candidates = [
        (name, node, _members(source, node), _ancestors(source, node))
        for name, nodes in source.classes.items()
        if name not in protocols
        for node in nodes
    ]
    found = []
    for name, protocol in protocols.items():
        methods = {one for one in _members(source, protocol) if not one.startswith("__")}
        if not methods:
            continue
        implementations = {
            other: node
            for other, node, members, ancestors in candidates
            if name in ancestors or methods <= members
        }
        bases = {base for node in implementations.values() for base in _ancestors(source, node)}
        if len(implementations.keys() - bases) == 1:
            found.append(name)
    return sorted(found)


def retry_policies(source: Source) -> list[str]:
    """Return the places that make a `BackoffPolicy`."""
    return [
        f"{path}:{node.lineno}"
        for path, nodes in source.nodes.items()
        for node in nodes
        if isinstance(node, ast.Call) and _name(node.func) == "BackoffPolicy"
    ]


def option_mentions(source: Source) -> float:
    """Return how often the median option of `webdata serve` is mentioned beside its declaration.

    A mention is a parameter, a keyword argument, or a text that is the option's name, in the
    commands and in the modules that start a service or a worker. Reading a setting is none.
    """
    help_text = subprocess.run(
        [sys.executable, "-m", PACKAGE, "serve", "--help"],
        cwd=source.checkout,
        env=os.environ | {"PYTHONPATH": str(source.checkout), "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    options = {flag.replace("-", "_") for flag in _FLAG.findall(help_text)} - {"help"}
    mentions: Counter[str] = Counter()
    for path, nodes in source.nodes.items():
        if _START_OPTIONS.fullmatch(path.removesuffix(".py")):
            mentions.update(_mentioned(nodes))
    counts = [max(mentions[option], mentions[f"{option}s"]) for option in options]
    return statistics.median(counts) - 1


def refusals(source: Source) -> list[str]:
    """Return the sentences that refuse a combination of options of a call."""
    return [
        f"{path}: {text}"
        for path, texts in source.texts.items()
        if path.startswith(_REFUSING)
        for text in texts
        if _REFUSAL.search(text)
    ]


def single_use_share(source: Source) -> float:
    """Return the share of functions that are private and referred to from exactly one place.

    A function with nothing but a docstring, such as of a protocol, is none.
    """
    total = single = 0
    for nodes in source.nodes.values():
        references: Counter[str] = Counter()
        for node in nodes:
            if isinstance(node, ast.Name):
                references[node.id] += 1
            elif isinstance(node, ast.Attribute):
                references[node.attr] += 1
        for function in _functions(nodes):
            if all(_is_text(statement) for statement in function.body):
                continue
            total += 1
            is_private = function.name.startswith("_") and not function.name.startswith("__")
            single += is_private and references[function.name] == 1
    return single / total


def single_importer_modules(source: Source) -> list[str]:
    """Return the modules that exactly one other module of the package imports."""
    importers: dict[str, set[str]] = defaultdict(set)
    modules = {_module_name(path) for path in source.trees}
    for path, nodes in source.nodes.items():
        importer = _module_name(path)
        for name in _imported_names(nodes):
            if name in modules and name != importer:
                importers[name].add(importer)
    packages = {name for name in modules if any(other.startswith(f"{name}.") for other in modules)}
    return sorted(name for name in modules - packages if len(importers[name]) == 1)


def _functions(nodes: Iterable[ast.AST]) -> Iterator[Function]:
    for node in nodes:
        if isinstance(node, Function):
            yield node


def _docstrings(nodes: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """Yield the texts that stand as statements: docstrings, also of constants."""
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | Function):
            yield from (statement for statement in node.body if _is_text(statement))


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _texts(nodes: Iterable[ast.AST]) -> Iterator[str]:
    left_out = {id(node) for statement in _docstrings(nodes) for node in ast.walk(statement)}
    for node in nodes:
        if id(node) in left_out:
            continue
        if isinstance(node, ast.JoinedStr):
            left_out.update(id(part) for part in node.values)
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _patterns(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the patterns that a module compiles."""
    for node in nodes:
        if isinstance(node, ast.Call) and _name(node.func) == "compile" and node.args:
            for part in ast.walk(node.args[0]):
                if isinstance(part, ast.Constant) and isinstance(part.value, str | bytes):
                    value = part.value
                    yield value if isinstance(value, str) else value.decode("latin-1")


def _name(node: ast.expr) -> str:
    """Return the last part of a name: `Protocol` of `typing.Protocol[T]`."""
    if isinstance(node, ast.Name):  # most are one
        return node.id
    return ast.unparse(node).split("[")[0].rsplit(".", 1)[-1]


def _base_names(node: ast.ClassDef) -> list[str]:
    return [_name(base) for base in node.bases]


def _ancestors(source: Source, node: ast.ClassDef) -> set[str]:
    """Return the names of all classes that a class derives from."""
    found: set[str] = set()
    waiting = _base_names(node)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [base for one in source.classes.get(name, ()) for base in _base_names(one)]
    return found


def _members(source: Source, node: ast.ClassDef) -> set[str]:
    """Return the names of the methods and attributes of a class, inherited ones included."""
    names: set[str] = set()
    for name in (None, *_ancestors(source, node)):
        for one in [node] if name is None else source.classes.get(name, ()):
            names.update(_own_members(one))
    return names


def _own_members(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        if isinstance(statement, Function):
            yield statement.name
    for one in ast.walk(node):
        targets = (
            one.targets
            if isinstance(one, ast.Assign)
            else [one.target]
            if isinstance(one, ast.AnnAssign)
            else []
        )
        for target in targets:
            if isinstance(target, ast.Attribute) and _name(target.value) == "self":
                yield target.attr
            elif isinstance(target, ast.Name) and one in node.body:
                yield target.id


def _is_data(node: ast.ClassDef) -> bool:
    heads = [*node.decorator_list, *node.bases]
    return any(_DATA_CLASS.search(ast.unparse(head)) for head in heads)


def _fields(node: ast.ClassDef) -> set[str]:
    return {
        statement.target.id
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }


def _written_fields(function: Function) -> set[str]:
    """Return the attributes that a function puts into one dict, list or tuple, if at least three.

    `asdict` stands for all.
    """
    written: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and _name(node.func) == "asdict":
            written.add("asdict")
        values: list[ast.expr] = []
        if isinstance(node, ast.Dict):
            values = node.values
        elif isinstance(node, ast.List | ast.Tuple) and isinstance(node.ctx, ast.Load):
            values = node.elts
        attributes = {
            part.attr
            for value in values
            for part in ast.walk(value)
            if isinstance(part, ast.Attribute)
        }
        if len(attributes) >= _LEAST_FIELDS:
            written |= attributes
    return written


def _read_classes(function: Function, classes: Collection[str]) -> set[str]:
    """Return the data classes that a function makes of values it takes by name or place."""
    unpacked = {
        part.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Tuple) and len(target.elts) >= _LEAST_FIELDS
        for part in target.elts
        if isinstance(part, ast.Name)
    }
    return {
        _name(node.func)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and (_name(node.func) == "cls" or _name(node.func) in classes)
        and _taken(node, unpacked) >= _LEAST_FIELDS
    }


def _taken(call: ast.Call, unpacked: Collection[str]) -> int:
    """Count the arguments that are parts of another value; `**value` is as good as enough."""
    if any(keyword.arg is None for keyword in call.keywords):
        return _LEAST_FIELDS
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return sum(
        any(_is_part(node, unpacked) for node in ast.walk(argument)) for argument in arguments
    )


def _is_part(node: ast.AST, unpacked: Collection[str]) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant)
    if isinstance(node, ast.Call):
        is_get = isinstance(node.func, ast.Attribute) and node.func.attr in {"get", "pop"}
        return is_get and bool(node.args) and isinstance(node.args[0], ast.Constant)
    return isinstance(node, ast.Name) and node.id in unpacked


def _mentioned(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        name: object = None
        if isinstance(node, ast.arg | ast.keyword):
            name = node.arg
        elif isinstance(node, ast.Constant):
            name = node.value
        if isinstance(name, str):
            yield name.removeprefix("--").replace("-", "_")


def _module_name(path: str) -> str:
    name = f"{PACKAGE}/{path}".removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def _imported_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield every dotted name that a module imports, whether it is a module or not."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def listed(source: Source) -> Mapping[str, list[str]]:
    """Return what each rule found, for those that count things with a name."""
    return {
        "models that start a crawl": crawl_models(source),
        "paths that start a crawl": crawl_paths(source),
        "forms of one page": forms_of_a_page(source),
        "hand-written codecs": codecs(source),
        "readers of HTML by own parsing": html_readers(source),
        "readers of JSON-LD": json_ld_readers(source),
        "readers of tables": table_readers(source),
        "protocols with one implementation": single_protocols(source),
        "retry policies": retry_policies(source),
        "sentences that refuse combinations": refusals(source),
        "modules with one importer": single_importer_modules(source),
    }
