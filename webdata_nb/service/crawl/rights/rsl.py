"""Reads licences in RSL 1.0 (https://rslstandard.org/rsl). Pure.

A licence is parsed as a stream; entity declarations, deep nesting and a body that is too large end
the parse, and the licence then says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final
from xml.parsers import expat

from webdata_nb.contract.choices import PURPOSES, Purpose
from webdata_nb.service.crawl.rights.signal import PathPattern, RightsSignal, Statement

MEDIA_TYPE: Final = "application/rsl+xml"
NAMESPACE: Final = "https://rslstandard.org/rsl"
MAX_BYTES: Final = 512 * 1024
MAX_CONTENTS: Final = 1000
MAX_LICENSES: Final = 100
_MAX_DEPTH: Final = 32
_MAX_TEXT: Final = 1000
# 3.4.1.1: the purposes that a usage token covers where it prohibits, and where it permits.
_PROHIBITED: Final[dict[str, frozenset[Purpose]]] = {
    "all": frozenset(PURPOSES),
    "ai-all": frozenset({"ai-input", "ai-train"}),
    "ai-train": frozenset({"ai-train"}),
    "ai-input": frozenset({"ai-input"}),
    "ai-index": frozenset({"ai-input"}),
    "search": frozenset({"search"}),
}
_PERMITTED: Final[dict[str, frozenset[Purpose]]] = {**_PROHIBITED, "ai-index": frozenset()}
# Purposes that are usage tokens: a licence that lists others does not permit them.
_USAGE_TOKENS: Final[frozenset[Purpose]] = frozenset({"search", "ai-input", "ai-train"})
# 3.7: payments without a transaction.
_FREE: Final = frozenset({"free", "attribution"})


class _UnreadableLicenseError(Exception):
    """The licence is not read; the text is the reason."""


@dataclass(slots=True)
class RslElement:
    """An element of a licence, its attributes, text and line."""

    name: str
    attributes: dict[str, str]
    line_number: int
    text: str = ""

    @property
    def tokens(self) -> list[str]:
        """The values that it lists, separated by spaces, or by commas as in the first drafts."""
        return self.text.lower().replace(",", " ").split()

    @property
    def line(self) -> str:
        """The element in one line, with its `type` alone."""
        kind = f' type="{self.attributes["type"]}"' if "type" in self.attributes else ""
        return f"<{self.name}{kind}>{' '.join(self.text.split())}</{self.name}>"


@dataclass(slots=True)
class RslLicense:
    """The terms of one `license` element."""

    permits: RslElement | None = None
    prohibits: list[RslElement] = field(default_factory=list)
    payments: list[RslElement] = field(default_factory=list)
    # Whether it holds for some users or countries alone.
    is_conditional: bool = False

    def add(self, element: RslElement) -> None:
        """Add a child of the element."""
        is_usage = element.attributes.get("type", "usage") == "usage"
        if element.name == "payment":
            self.payments.append(element)
        elif element.name in {"permits", "prohibits"} and not is_usage:
            self.is_conditional = True
        elif element.name == "prohibits":
            self.prohibits.append(element)
        elif element.name == "permits":
            self.permits = self.permits or element

    @property
    def price(self) -> RslElement | None:
        """The payment that needs a transaction, None where the licence is free."""
        return next((p for p in self.payments if p.attributes.get("type") not in _FREE), None)

    def prohibition(self, purpose: Purpose) -> RslElement | None:
        """Return the element that prohibits a purpose."""
        for element in self.prohibits:
            if any(purpose in _PROHIBITED.get(token, ()) for token in element.tokens):
                return element
        return None

    def permission(self, purpose: Purpose) -> tuple[Statement, RslElement] | None:
        """Return whether it permits a purpose that it does not prohibit, and by which element.

        None where it says nothing, or something that depends on the user.
        """
        if self.permits is None:
            return None if self.price is None else ("refused", self.price)
        if not any(purpose in _PERMITTED.get(token, ()) for token in self.permits.tokens):
            return ("refused", self.permits) if purpose in _USAGE_TOKENS else None
        if self.price is not None:
            return "refused", self.price
        return None if self.is_conditional else ("allowed", self.permits)


@dataclass(slots=True)
class RslContent:
    """A `content` element: the pages that it covers, and their licences."""

    element: RslElement
    pattern: PathPattern | None
    licenses: list[RslLicense] = field(default_factory=list)

    def statement(self, purpose: Purpose) -> tuple[Statement, RslElement] | None:
        """Return what the licences together say: one that permits suffices, if none prohibits."""
        for rsl_license in self.licenses:
            if (prohibition := rsl_license.prohibition(purpose)) is not None:
                return "refused", prohibition
        found = [
            permission
            for each in self.licenses
            if (permission := each.permission(purpose)) is not None
        ]
        found.sort(key=lambda permission: permission[0])  # "allowed" comes before "refused"
        if not found:
            return None
        statement, element = found[0]
        # 3.3: with a licence server every use needs a licence from there, also a free one.
        if statement == "allowed" and "server" in self.element.attributes:
            return "refused", self.element
        return statement, element


@dataclass(frozen=True, slots=True)
class RslDocument:
    """The contents of a licence file, or why it could not be read."""

    contents: tuple[RslContent, ...] = ()
    problem: str = ""

    def signals(self, url: str, source: str, line: str, read_at: str) -> list[RightsSignal]:
        """Return what the licence says of a page.

        `line` is the declaration that names the licence, for a licence that says nothing.
        """
        matching = [
            (content, content.pattern.length)
            for content in self.contents
            if content.pattern is not None and content.pattern.matches(url)
        ]
        # Contents with the longest pattern that matches count as one.
        longest = max((length for _, length in matching), default=0)
        best = [content for content, length in matching if length == longest]
        licenses = [each for content in best for each in content.licenses]
        content = replace(best[0], licenses=licenses) if best else None
        by_element: dict[int, tuple[RslElement, dict[Purpose, Statement]]] = {}
        for purpose in PURPOSES if content is not None else ():
            if content is not None and (decision := content.statement(purpose)) is not None:
                statement, element = decision
                by_element.setdefault(id(element), (element, {}))[1][purpose] = statement
        signals = [
            RightsSignal("rsl", source, element.line, read_at, says, element.line_number)
            for element, says in by_element.values()
        ]
        if not signals:
            problem = self.problem or "it has no terms of usage for this page"
            signals = [RightsSignal("rsl", source, line, read_at, problem=problem)]
        return signals


def parse_rsl(body: bytes) -> RslDocument:
    """Parse a licence; never raises."""
    parser = _RslParser()
    try:
        parser.parse(body)
    except expat.ExpatError as error:
        text = expat.ErrorString(error.code)
        return RslDocument(problem=f"it is no valid XML ({text}, line {error.lineno})")
    except (_UnreadableLicenseError, LookupError, ValueError) as error:
        return RslDocument(problem=str(error))
    return RslDocument(tuple(parser.contents))


class _RslParser:
    """Collects contents and licences from XML events."""

    def __init__(self) -> None:
        self.contents: list[RslContent] = []
        self._open: list[RslElement] = []
        self._expat = expat.ParserCreate(namespace_separator=" ")
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self._add_text
        self._expat.EntityDeclHandler = _refuse_entities

    def parse(self, body: bytes) -> None:
        """Parse a whole document."""
        if len(body) > MAX_BYTES:
            raise _UnreadableLicenseError(f"it is larger than {MAX_BYTES // 1024} KiB")
        self._expat.Parse(body, True)  # noqa: FBT003 - expat knows no keywords

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, local = name.rpartition(" ")
        if len(self._open) >= _MAX_DEPTH:
            raise _UnreadableLicenseError(f"it nests deeper than {_MAX_DEPTH} elements")
        is_root = not self._open
        if is_root and (namespace, local) != (NAMESPACE, "rsl"):
            raise _UnreadableLicenseError("it is no RSL licence")
        if any(len(value) > _MAX_TEXT for value in attributes.values()):
            raise _UnreadableLicenseError(f"an attribute has more than {_MAX_TEXT:,} characters")
        element = RslElement(
            local if namespace == NAMESPACE else "",
            {key: value.strip() for key, value in attributes.items()},
            self._expat.CurrentLineNumber,
        )
        path = [each.name for each in self._open]
        if element.name == "content" and path == ["rsl"]:
            if len(self.contents) == MAX_CONTENTS:
                raise _UnreadableLicenseError(f"it has more than {MAX_CONTENTS:,} contents")
            pattern = PathPattern.of_url(element.attributes.get("url", ""))
            self.contents.append(RslContent(element, pattern))
        elif element.name == "license" and path == ["rsl", "content"]:
            if len(self.contents[-1].licenses) == MAX_LICENSES:
                raise _UnreadableLicenseError(f"a content has more than {MAX_LICENSES} licences")
            self.contents[-1].licenses.append(RslLicense())
        self._open.append(element)

    def _end(self, _name: str) -> None:
        element = self._open.pop()
        path = [each.name for each in self._open]
        if path == ["rsl", "content", "license"]:
            self.contents[-1].licenses[-1].add(element)

    def _add_text(self, text: str) -> None:
        element = self._open[-1]
        if len(element.text) + len(text) > _MAX_TEXT and element.name in {"permits", "prohibits"}:
            raise _UnreadableLicenseError(f"a list has more than {_MAX_TEXT:,} characters")
        element.text = (element.text + text)[:_MAX_TEXT]


def _refuse_entities(*_: object) -> None:
    raise _UnreadableLicenseError("it declares entities")
