"""Reads Link headers (RFC 8288). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_CHARACTERS: Final = 16 * 1024
MAX_LINKS: Final = 100
_TARGET: Final = re.compile(r"[\s,]*<([^<>]*)>")
_PARAMETER: Final = re.compile(
    r'\s*;\s*([!#$%&\'*+.^_`|~0-9A-Za-z-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?'
)
_END: Final = re.compile(r"\s*;?\s*(?=,|$)")
_ESCAPE: Final = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class HeaderLink:
    """One link of a header: its target as written, its relations and its media type."""

    target: str
    relations: frozenset[str]
    media_type: str


def parse_link_header(value: str) -> list[HeaderLink]:
    """Return the links of one header; what is malformed ends it.

    Examples
    --------
    >>> parse_link_header('</l.xml>; rel="license"; type="application/rsl+xml"')[0].target
    '/l.xml'
    """
    return list(_links(value)) if len(value) <= MAX_CHARACTERS else []


def _links(value: str) -> Iterator[HeaderLink]:
    at = 0
    for _ in range(MAX_LINKS):
        target = _TARGET.match(value, at)
        if target is None:
            return
        at = target.end()
        parameters: dict[str, str] = {}
        while parameter := _PARAMETER.match(value, at):
            name, quoted, token = parameter.groups()
            text = _ESCAPE.sub(r"\1", quoted) if quoted is not None else token or ""
            parameters.setdefault(name.lower(), text)
            at = parameter.end()
        end = _END.match(value, at)
        if end is None:
            return
        at = end.end()
        relations = frozenset(parameters.get("rel", "").lower().split())
        yield HeaderLink(target[1].strip(), relations, _media_type(parameters.get("type", "")))


def _media_type(text: str) -> str:
    return text.partition(";")[0].strip().lower()
