"""Derives the signatures and docstrings of public functions from their groups of options."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast, is_typeddict

from webdata_nb.caller import called_here
from webdata_nb.errors import InvalidCall
from webdata_nb.toolkit.requests import options as definitions

# ruff: noqa: PLC0415 - the flags of commands use this module, and must not wait for pydantic

F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])

# Docstrings are cleaned first: Python 3.13 removes their indentation, earlier versions keep it.
_PARAMETERS: Final = re.compile(r"(?m)^Parameters\n-+\n((?:.*\n)*?)(?=\n|\Z)")
_RETURNS: Final = re.compile(r"(?m)^Returns\n")
_PLACEHOLDER: Final = re.compile(r"(?m)^( *)\{columns\}\n")
_NAMES: Final = re.compile(r"\w+(, \w+)*")
_MOST_WITHOUT_HEADINGS: Final = 12
# Below the headings of parameters; dashes would start a section of numpydoc.
HEADING_MARK: Final = "~"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a group; `annotation` is the source text of its type."""

    name: str
    annotation: str
    default: object
    description: str


def option_list(group: type) -> list[Option]:
    """Return the options of a group from `webdata_nb.toolkit.requests.options`, in their order."""
    descriptions = _descriptions(group)
    return [
        Option(
            name, hint.__forward_arg__, definitions.DEFAULTS.get(name), descriptions.get(name, "")
        )
        for name, hint in group.__annotations__.items()
    ]


def with_options(group: type, *, columns: str = "") -> Callable[[F], F]:
    """Decorate an async function that takes the options of `group` as `**options`.

    The result has an explicit signature, in which the options follow the positional arguments, and
    a docstring that describes every option, in the order and below the headings of `options`. It
    refuses unknown options and passes all of them on, defaults included. A leading underscore of
    the name is dropped. The table `columns` replaces the line `{columns}` of the docstring.
    """

    def decorate(function: F) -> F:
        signature = _signature(function, group)
        # An omitted argument is not sent, whatever default of the service the signature shows.
        defaults = {name: definitions.DEFAULTS.get(name) for name in group.__annotations__}
        function.__name__ = function.__qualname__ = function.__name__.removeprefix("_")

        @functools.wraps(function)
        async def complete(*args: Any, **arguments: Any) -> Any:
            name = complete.__qualname__
            if not arguments.keys() <= signature.parameters.keys() | defaults.keys():
                raise InvalidCall.of(name, signature, args, arguments)
            args, arguments = with_lists(signature, args, arguments)
            try:
                coroutine = function(*args, **{**defaults, **arguments})
            except TypeError:
                raise InvalidCall.of(name, signature, args, arguments) from None
            with called_here():
                return await coroutine

        del complete.__wrapped__  # inspect would follow it to the shorter signature
        vars(complete)["__signature__"] = signature
        if function.__doc__ is not None:  # it is None under -OO
            doc = _PLACEHOLDER.sub(
                lambda line: textwrap.indent(columns, line[1]), inspect.cleandoc(function.__doc__)
            )
            complete.__doc__ = _docstring(doc, signature, _descriptions(group))
        return cast("F", complete)

    return decorate


def with_lists(
    signature: inspect.Signature, args: tuple[Any, ...], arguments: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call, with a list for any other iterable where one is taken.

    A generator can be read only once, and checks and requests read what they are given.
    """
    from webdata_nb.toolkit.requests.arguments import as_list

    takes_list = {
        name for name, each in signature.parameters.items() if "Sequence[" in str(each.annotation)
    }
    positional = [
        as_list(value) if name in takes_list else value
        for name, value in zip(signature.parameters, args, strict=False)
    ]
    named = {
        name: as_list(value) if name in takes_list else value for name, value in arguments.items()
    }
    return (*positional, *args[len(positional) :]), named


def _signature(function: Callable[..., object], group: type) -> inspect.Signature:
    """Return the signature with the options between the positional and the other arguments."""
    defaults = {**request_defaults(group), **definitions.DEFAULTS}
    kinds = inspect.Parameter
    signature = inspect.signature(function)
    parameters = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind is not kinds.VAR_KEYWORD
    ]
    keywords = [
        kinds(
            name,
            kinds.KEYWORD_ONLY,
            default=defaults.get(name),
            annotation=hint.__forward_arg__,
        )
        for name, hint in group.__annotations__.items()
        if name not in definitions.UNLISTED
    ]
    positional = [parameter for parameter in parameters if parameter.kind is not kinds.KEYWORD_ONLY]
    own_keywords = [parameter for parameter in parameters if parameter.kind is kinds.KEYWORD_ONLY]
    every_keyword = sorted([*keywords, *own_keywords], key=lambda each: _place(each.name))
    return signature.replace(parameters=[*positional, *every_keyword])


def heading_of(name: str) -> str:
    """Return the heading that an argument is listed below; an empty text for a usual one.

    Arguments that only one function has are usual unless `HEADINGS` names them.

    Examples
    --------
    >>> heading_of("max_pages"), heading_of("sitemap"), heading_of("ttl")
    ('', 'Which pages', 'Caching')
    """
    if name in definitions.USUAL:
        return ""
    parts = definitions.HEADINGS.items()
    named = [heading for heading, members in parts if name in members]
    grouped = [
        heading
        for heading, members in parts
        if any(name in each.__annotations__ for each in members if isinstance(each, type))
    ]
    return next(iter([*named, *grouped]), "")


def _place(name: str) -> tuple[int, int]:
    """Return where an argument stands: those of one function, the usual ones, then by heading."""
    if name in definitions.USUAL:
        return 0, definitions.USUAL.index(name)
    return ["", *definitions.HEADINGS].index(heading_of(name)), -1


def request_defaults(group: type) -> dict[str, Any]:
    """Return the defaults of the local service for the request options of a group."""
    from pydantic import BaseModel

    from webdata_nb.contract import requests
    from webdata_nb.toolkit.requests.inputs import REQUEST_NAMES

    models: tuple[tuple[type, type[BaseModel]], ...] = (
        (definitions.SingleSearchInputOptions, requests.SearchRequest),
        (definitions.ResultPageOptions, requests.SearchRequest),
        (definitions.SiteOptions, requests.CrawlRequest),
        (definitions.SinglePageOptions, requests.CrawlRequest),
        (definitions.RightsOptions, requests.CrawlRequest),
        (definitions.PageOptions, requests.ScrapeOptions),
        (definitions.CrawlPageOptions, requests.ScrapeOptions),
        (definitions.CreativesOptions, requests.CreativesRequest),
    )
    defaults: dict[str, Any] = {}
    for part, model in models:
        if part.__annotations__.keys() <= group.__annotations__.keys():
            fields = {name: REQUEST_NAMES.get(name, name) for name in part.__annotations__}
            defaults |= {
                name: model.model_fields[field].default
                for name, field in fields.items()
                if field in model.model_fields
            }
    if "page_timeout" in defaults:
        defaults["page_timeout"] /= 1000  # requests have milliseconds
    return {
        name: default for name, default in defaults.items() if not isinstance(default, BaseModel)
    }


def _descriptions(group: type) -> dict[str, str]:
    """Return the description of each option of a group.

    A TypedDict does not know its bases: the parts of a group are the groups whose options it has.
    The largest part that describes an option wins, then any other group.
    """
    names = group.__annotations__.keys()

    def rank(other_group: type) -> tuple[bool, int]:
        return other_group.__annotations__.keys() <= names, len(other_group.__annotations__)

    groups = sorted(filter(is_typeddict, vars(definitions).values()), key=rank)
    texts: dict[str, str] = {}
    for other_group in groups:
        entries = _entries(inspect.cleandoc(other_group.__doc__ or ""))
        texts |= {name: text for name, text in entries.items() if name in names}
    return texts


@functools.cache
def _entries(text: str) -> Mapping[str, str]:
    """Return the text of each name in numpydoc entries: a line of names, then indented text."""
    entries: dict[str, str] = {}
    names: list[str] = []
    for line in text.splitlines():
        if _NAMES.fullmatch(line):
            names = line.split(", ")
            entries |= dict.fromkeys(names, "")
        elif line.startswith(" "):
            entries |= {name: f"{entries[name]}{line}\n" for name in names}
        else:
            names = []
    return entries


def _docstring(doc: str, signature: inspect.Signature, descriptions: Mapping[str, str]) -> str:
    """Return a docstring whose section "Parameters" describes every parameter, in their order.

    What the docstring itself says of a parameter replaces the description of the option. A list of
    more than `_MOST_WITHOUT_HEADINGS` parameters has headings.
    """
    if not _PARAMETERS.search(doc):
        doc = _RETURNS.sub("Parameters\n----------\n\nReturns\n", doc, count=1)
    section = _PARAMETERS.search(doc)
    if section is None:
        raise ValueError("the docstring needs a section Parameters or Returns")
    texts = {**descriptions, **_entries(section[1])}
    lines: list[str] = []
    previous = heading = ""
    has_headings = len(signature.parameters) > _MOST_WITHOUT_HEADINGS
    for name, parameter in signature.parameters.items():
        if texts[name] == previous:
            lines[-2] += f", {name}"
            continue
        own = heading_of(name) if parameter.kind is parameter.KEYWORD_ONLY else ""
        if has_headings and own != heading:
            heading = own
            lines += ["", heading, HEADING_MARK * len(heading)]
        previous = texts[name]
        lines += [name, previous.rstrip("\n")]
    start, end = section.span(1)
    return "\n".join([doc[:start] + lines[0], *lines[1:], doc[end:]])
