"""Recognizes the sections of a text, and the headings of those that follow an article.

The sections of a text carry names that elsewhere mean boilerplate: generators of documentation name
a section after its subject, such as ``sharing-state``, ``related-objects``, ``form-fields``.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.class_names import (
    CONSENT,
    MAX_NAME_LENGTH,
    NOT_CONTENT,
    OVERLAY,
    SIGN_UP,
    traits_of,
)
from webdata_nb.page.content.parser import HEADINGS, Element, Text, letters_and_digits, text_of

if TYPE_CHECKING:
    from webdata_nb.page.content.parser import Node

_SECTION_NUMBER: Final = re.compile(r"\W*(?:[A-Z]\.|\d+\.|\d+\b)[\d.]*\s+")
_MAX_NODES_BEFORE_HEADING = 24  # wrappers, white space and anchors in a section
_MAX_SPACES = 8  # nodes without words between two sections
_MIN_TEXT_LENGTH = 250  # characters
_MAX_LINK_SHARE = 0.1
_NEVER_TEXT: Final = SIGN_UP | CONSENT | OVERLAY


def is_named_by_subject(section: Element, identifier: str) -> bool:
    """Return whether an element is a section of a text and its id says what it is about.

    Its id is made from its heading, or it is one of several sections side by side.
    """
    heading = opening_heading(section)
    if heading is None:
        return False
    text = text_of(heading)
    if not is_trailer_heading(text) and _is_made_from(text, identifier):
        return True
    if traits_of(identifier[:MAX_NAME_LENGTH]) & _NEVER_TEXT:
        return False
    return is_one_of_sections(section)


def opening_heading(section: Element) -> Element | None:
    """Return the heading that an element begins with."""
    for node in islice(section.descendants, _MAX_NODES_BEFORE_HEADING):
        if isinstance(node, Element):
            if node.tag in HEADINGS:
                return node
        elif _is_visible(node):
            return None
    return None


def is_one_of_sections(section: Element) -> bool:
    """Return whether an element with text or code is a section beside others of its kind.

    The other has a heading of the same level, and neither its id nor its heading is boilerplate.
    """
    heading = opening_heading(section)
    return heading is not None and _has_beside(section, heading) and _holds_text(section)


def _has_beside(section: Element, heading: Element) -> bool:
    for name in ("previous_sibling", "next_sibling"):
        other = _visible_neighbour(section, name)
        if (
            isinstance(other, Element)
            and other.tag == section.tag
            and other.attr("class") == section.attr("class")
            and not traits_of((other.attr("id") or "")[:MAX_NAME_LENGTH]) & NOT_CONTENT
        ):
            beside = opening_heading(other)
            if (
                beside is not None
                and beside.tag == heading.tag
                and not is_trailer_heading(text_of(beside))
            ):
                return True
    return False


def _visible_neighbour(section: Element, direction: str) -> Node | None:
    node: Node | None = getattr(section, direction)
    for _ in range(_MAX_SPACES):
        if node is None or _is_visible(node):
            return node
        node = getattr(node, direction)
    return None


def _is_visible(node: Node) -> bool:
    """Return whether a node has text near its start."""
    if isinstance(node, Element):
        texts = islice(node.descendants, _MAX_NODES_BEFORE_HEADING)
        return any(type(text) is Text and bool(text.data.strip()) for text in texts)
    return type(node) is Text and bool(node.data.strip())


def _is_made_from(heading: str, identifier: str) -> bool:
    """Return whether an id is a heading, after a prefix such as ``s-``."""
    name = letters_and_digits(identifier)
    for text in (heading, _SECTION_NUMBER.sub("", heading, count=1)):
        slug = letters_and_digits(text)
        if slug and name.endswith(slug):
            return not traits_of(name[: -len(slug)]) & NOT_CONTENT
    return False


def _holds_text(section: Element) -> bool:
    """Return whether a section holds code or text rather than links."""
    if section.select_one("pre") is not None:
        return True
    length = len(text_of(section))
    links = sum(len(text_of(link)) for link in section.select("a"))
    return length >= _MIN_TEXT_LENGTH and links <= _MAX_LINK_SHARE * length


_ENGLISH: Final = re.compile(
    r"\W*(?:\d+\s+)?(?:"
    r"(?:top rated |recent |latest |user |reader |facebook )?"
    r"(?:comments?|responses?|replies|thoughts?)\b.{0,60}"
    r"|leave a (?:reply|comment).*|join the conversation.*|(?:post|add) a comment.*"
    r"|(?:most|top) (?:popular|read|viewed|shared|stories|rated).*|trending.*"
    r"|popular (?:posts|stories|now).*|recent (?:posts|articles|stories|news|comments)?"
    r"|breaking news|latest (?:news|stories|articles|posts|from).*|our latest stories"
    r"|more (?:from|news|stories|in|on|articles|like|posts)\b.*|related(?: \w+){0,3}:?"
    r"|you (?:may|might) (?:also )?.*like.*|recommended.*|read (?:more|next|also).*"
    r"|keep reading.*|continue reading.*|what to read next.*|up next.*|top stories.*"
    r"|share (?:this|on).*|follow us.*|sign up.*|subscribe.*|newsletter.*|about the author.*"
    r"|sponsored.*|advertisement.*|tags?:?|categor(?:y|ies):?|arquivos|archives?|filed under.*"
    r"|editor.?s picks?.*|don.t miss.*)",
    re.IGNORECASE,
)
_MARKS: Final = " \t:.…!?»›>→-–—|•*#"  # noqa: RUF001 - dashes and arrows around headings


def is_trailer_heading(text: str) -> bool:
    """Return whether a short text is the heading of a section that is not part of the article."""
    if _ENGLISH.fullmatch(text):
        return True
    # A Turkish capital I with dot would become two characters in lower case.
    heading = text.replace("’", "'").replace("İ", "i").lower().strip(_MARKS)  # noqa: RUF001
    whole, openings = _headings_by_first_word()
    first_word = heading.partition(" ")[0]
    return heading in whole or any(
        heading.startswith(opening) and not heading[len(opening) : len(opening) + 1].isalnum()
        for opening in openings.get(first_word, ())
    )


@cache
def _headings_by_first_word() -> tuple[frozenset[str], dict[str, list[str]]]:
    """Return whole headings, and openings, which end where a word ends, by their first words."""
    import tomllib  # noqa: PLC0415 - pages without such headings do not need it

    data = tomllib.loads(Path(__file__).with_name("trailer_headings.toml").read_text("utf-8"))
    openings: dict[str, list[str]] = {}
    for opening in dict.fromkeys(chain.from_iterable(data["openings"].values())):
        openings.setdefault(opening.partition(" ")[0], []).append(opening)
    return frozenset(chain.from_iterable(data["headings"].values())), openings
