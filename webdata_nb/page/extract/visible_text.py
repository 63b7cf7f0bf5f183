"""Reads the visible text and the controls of a page in document order, with their surroundings.

The words of product pages in the languages of the web, such as the labels of buttons, are in
`data/product_phrases.json`. A pattern matches its phrases as whole words, in text that `fold`
returned. Languages without spaces between words are matched anywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.parser import (
    NOT_RENDERED,
    Element,
    Text,
    body_of,
    collapse_whitespace,
    contains,
    nearest_ancestor,
)
from webdata_nb.page.extract.data import read_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webdata_nb.page.content.parser import Document, Node


@lru_cache(maxsize=1 << 12)
def fold_case(text: str) -> str:
    """Return a text in lower case with typographic apostrophes and white space simplified."""
    return " ".join(text.casefold().replace("\u2019", "'").split())


class PhrasePattern:
    """A pattern for the phrases of a name, longest first.

    It is compiled at its first use: many processes read no product page, and all patterns take a
    fifth of the processor time with which a page worker starts.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """The folded phrases, longest first."""
        parts = set(map(fold_case, _all_phrases()[self._name]))
        return tuple(sorted(parts, key=lambda part: (-len(part), part)))

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match in a folded text."""
        return self._compiled.search(text) if self._may_contain(text) else None

    def match(self, text: str) -> re.Match[str] | None:
        """Return the match at the beginning of a folded text."""
        return self._compiled.match(text) if self._may_contain(text) else None

    def _may_contain(self, text: str) -> bool:
        """Return whether a text has the first word of a phrase, which is much faster to tell."""
        words = _WORD.findall(text)
        return not self.first_words.isdisjoint(words) or UNSPACED.search(text) is not None

    @cached_property
    def first_words(self) -> frozenset[str]:
        """The first word of each phrase."""
        return frozenset(match[0] for each in self.phrases if (match := _WORD.search(each)))

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        # Phrases of a script with spaces are whole words.
        patterns = (
            re.escape(each) if UNSPACED.search(each) else rf"(?<!\w){re.escape(each)}(?!\w)"
            for each in self.phrases
        )
        return re.compile("|".join(patterns))


def phrase_set(name: str) -> frozenset[str]:
    """Return the folded phrases of a name, without punctuation at their ends."""
    return frozenset(fold_case(phrase).strip(" .:#*-") for phrase in _all_phrases()[name])


@cache
def _all_phrases() -> dict[str, list[str]]:
    """Return the phrases by the names of the constants below, in lower case."""
    phrases: dict[str, list[str]] = read_data("product_phrases.json")
    return phrases


_WORD: Final = re.compile(r"\w+")
# Chinese, Japanese, Korean and Thai.
UNSPACED: Final = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

BUY: Final = PhrasePattern("buy")
"""Labels of buttons that put the product into the cart or buy it."""
NOTIFY: Final = PhrasePattern("notify")
"""Labels of buttons that offer a message when the product is back."""
OUT_OF_STOCK: Final = PhrasePattern("out_of_stock")
"""States of a product that cannot be bought."""
IN_STOCK: Final = PhrasePattern("in_stock")
"""States of a product that can be bought."""
RELATED: Final = PhrasePattern("related")
"""Headings of sections about other products."""
OLD_PRICE: Final = PhrasePattern("old_price")
"""Labels of prices that are no longer asked, and of savings."""
OTHER_AMOUNT: Final = PhrasePattern("other_amount")
"""Words beside amounts that are not the price: shipping, instalments, discounts, thresholds."""
SKU_LABELS: Final = phrase_set("sku_labels")
"""Labels of a shop's code of the product."""
GTIN_LABELS: Final = phrase_set("gtin_labels")
"""Labels of the code below a barcode."""
MPN_LABELS: Final = phrase_set("mpn_labels")
"""Labels of the manufacturer's code of the product."""
BRAND_LABELS: Final = phrase_set("brand_labels")
"""Labels of the brand or manufacturer."""
AVAILABILITY_LABELS: Final = phrase_set("availability_labels")
"""Labels of the availability."""
PROPERTY_OF_LABEL: Final = {
    **dict.fromkeys(SKU_LABELS, "sku"),
    **dict.fromkeys(GTIN_LABELS, "gtin"),
    **dict.fromkeys(MPN_LABELS, "mpn"),
    **dict.fromkeys(BRAND_LABELS, "brand"),
    **dict.fromkeys(AVAILABILITY_LABELS, "availability"),
}
"""The property that each label means; no label means two."""


ASIDE: Final = 1
"""Beside the product: navigation, footer, other products, reviews."""
HIDDEN: Final = 2
STRUCK: Final = 4
"""Crossed out, or named as an old price."""
LINK: Final = 8
CHOICE: Final = 16
"""In a list of sizes, colours or other options."""
OVERLAY: Final = 32
"""In a dialog or a tooltip."""

_MAX_NAME_LENGTH: Final = 200
_MAX_STYLE_LENGTH: Final = 500
TAG_FLAGS: Final = {
    "nav": ASIDE, "footer": ASIDE, "aside": ASIDE, "dialog": OVERLAY,
    "del": STRUCK, "s": STRUCK, "strike": STRUCK,
}  # fmt: skip
_NAME_FLAGS: Final = (
    (
        ASIDE,
        re.compile(
            r"related|reco(?:mmend|s?(?![a-z]))|similar|up-?sell|cross-?sell|also-?(?:like|bought|view)|sponsor"
            r"|recent(?:ly)?-?view|(?<![a-z])nav(?:bar|igation)?(?![a-z])|footer|breadcrumb|cookie"
            r"|(?<![a-z])(?:mega|main|sub|top)?-?menu(?![a-z])|consent|mini-?(?:cart|basket)|comment"
            r"|(?<![a-z])reviews?(?:-?list|s?-?wrap)|newsletter|(?<![a-z])compar(?:e|ison)(?![a-z])"
            r"|(?<![a-z])sims|accessor(?:y|ies)|bought-?together|(?<![a-z])fbt(?![a-z])|history"
            r"|(?<![a-z])(?:product|teaser|item)-?(?:card|tile|teaser)|bestsell"
        ),
    ),
    (
        OVERLAY,
        re.compile(
            r"modal|popover|pop-?up|tooltip|dialog|lightbox|offcanvas|drawer|(?<![a-z])flyout"
        ),
    ),
    (
        HIDDEN,
        re.compile(
            r"(?<![\w-])(?:hidden|hide|d-none|is-hidden|u-hidden|invisible|aok-hidden|js-?hide"
            r"|ng-hide)(?![\w-])"
        ),
    ),
    (
        STRUCK,
        re.compile(
            r"(?<![a-z])(?:old|was|list|regular|crossed|before|rrp|msrp|original|compare(?:-?at)?|rec)"
            r"-?(?:price|preis|prix|precio|cena)|(?:price|preis|prix|precio|cena)s?-*(?:old|was|list"
            r"|rrp|before|crossed|original|msrp|strike|retail|compare|ref)(?![a-z])|line-?through"
            r"|strike|uvp|streich"
        ),
    ),
    (
        CHOICE,
        re.compile(
            r"swatch|(?<![a-z])sizes?(?![a-z-]*(?:base|small|medium|large|mini))|varia(?:nt|tion)"
            r"|twister|(?<![a-z])options?(?![a-z])"
        ),
    ),
)
_ANY_FLAG: Final = re.compile("|".join(pattern.pattern for _, pattern in _NAME_FLAGS))
_HIDING_STYLE: Final = re.compile(r"(?<![\w-])(?:display:none|visibility:hidden)")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def name_of(element: Element) -> str:
    """Return class and id of an element as `simplify_name` writes them."""
    class_name, identifier = element.attr("class"), element.attr("id")
    if not class_name and not identifier:
        return ""
    return simplify_name(f"{class_name or ''} {identifier or ''}"[:_MAX_NAME_LENGTH])


@lru_cache(maxsize=1 << 13)
def simplify_name(name: str) -> str:
    """Write a class or an id in lower case with hyphens between its words."""
    return _CAMEL.sub("-", name).replace("_", "-").lower().strip()


def flags_of(element: Element, name: str) -> int:
    """Return the flags of an element with a simplified name."""
    tag = element.tag
    flags = flags_of_name(name) | TAG_FLAGS.get(tag, 0)
    if tag == "a" and element.attr("href"):
        flags |= LINK
    style = element.attr("style")
    if style:
        compact = "".join(style[:_MAX_STYLE_LENGTH].lower().split())
        flags |= HIDDEN if _HIDING_STYLE.search(compact) else 0
        flags |= STRUCK if "line-through" in compact else 0
    hidden_field = tag == "input" and (element.attr("type") or "").lower() == "hidden"
    return flags | HIDDEN if hidden_field or element.attr("hidden") is not None else flags


@lru_cache(maxsize=1 << 13)
def flags_of_name(name: str) -> int:
    """Return the flags of a simplified name."""
    flags = 0
    for word in name.split():
        flags |= _flags_of_word(word)
    return flags


@lru_cache(maxsize=1 << 14)
def _flags_of_word(word: str) -> int:
    if not _ANY_FLAG.search(word):
        return 0
    return sum(flag for flag, pattern in _NAME_FLAGS if pattern.search(word))


MAX_NODES: Final = 60_000
"""Nodes of a page that are read; the rest of a larger page is ignored."""
MAX_TEXTS: Final = 12_000
MAX_CONTROLS: Final = 3000
MAX_TEXT_LENGTH: Final = 400

_SKIPPED: Final = NOT_RENDERED | {"iframe", "video", "audio", "canvas", "map", "select", "textarea"}
_CONTROLS: Final = frozenset({"button", "input", "a"})
_NEAR_NAMES: Final = 3
_MAX_NAMES: Final = 6
_MAX_LEVELS: Final = 7
_MAX_HEADING_LENGTH: Final = 60
_DIGIT: Final = re.compile(r"\d")


@dataclass(eq=False, slots=True)
class VisibleText:
    """A text node, or a control of a form.

    Attributes
    ----------
    element
        The element that contains it, or the control.
    text
        The text with collapsed white space, at most 400 characters; empty for a control.
    flags
        What its ancestors say of it: `ASIDE`, `HIDDEN` and the others.
    ancestor_names
        Class and id of its six nearest ancestors, nearest first.
    has_digit
        Whether the text contains a digit.
    """

    element: Element
    text: str
    flags: int
    ancestor_names: tuple[str, ...]
    has_digit: bool = False

    @property
    def names(self) -> str:
        """Class and id of its three nearest ancestors."""
        return " ".join(self.ancestor_names[:_NEAR_NAMES])

    @property
    def all_names(self) -> str:
        """Class and id of its six nearest ancestors."""
        return " ".join(self.ancestor_names)


@dataclass(slots=True)
class PageText:
    """The texts and the controls of a page.

    Attributes
    ----------
    texts
        All texts in document order.
    controls
        Buttons, fields and links, each with the index of the next text.
    title
        The index of the text that names the subject of the page; None without one.
    related
        The index of the first heading of a section about other products, else of the end.
    """

    texts: list[VisibleText] = field(default_factory=list)
    controls: list[tuple[int, VisibleText]] = field(default_factory=list)
    title: int | None = None
    related: int = 0

    def own_flags(self, text: VisibleText) -> int:
        """Return the flags of a text that the title does not have."""
        title_flags = self.texts[self.title].flags if self.title is not None else 0
        return text.flags & ~title_flags


def read_page_text(document: Document, names: Sequence[str]) -> PageText:
    """Read the texts and controls of a page, whose subject has one of some declared names."""
    result = PageText()
    pending: list[tuple[Node, int, tuple[str, ...]]] = [(body_of(document), 0, ())]
    for _ in range(MAX_NODES):
        if not pending or len(result.texts) >= MAX_TEXTS:
            break
        node, flags, ancestor_names = pending.pop()
        if isinstance(node, Text):
            data = node.data[: 4 * MAX_TEXT_LENGTH]
            text = "" if data.isspace() else collapse_whitespace(data)[:MAX_TEXT_LENGTH]
            parent = node.parent if text else None
            if isinstance(parent, Element):
                has_digit = _DIGIT.search(text) is not None
                result.texts.append(VisibleText(parent, text, flags, ancestor_names, has_digit))
        elif isinstance(node, Element) and node.tag not in _SKIPPED:
            name = name_of(node)
            flags |= flags_of(node, name)
            own = (name, *ancestor_names[: _MAX_NAMES - 1])
            if node.tag in _CONTROLS and len(result.controls) < MAX_CONTROLS:
                result.controls.append((len(result.texts), VisibleText(node, "", flags, own)))
            pending += [(child, flags, own) for child in reversed(node.children)]
    result.title = find_title(result.texts, names)
    result.related = find_related(result.texts, (result.title or 0) + 1)
    return result


def is_within(text: VisibleText, element: Element) -> bool:
    """Return whether a text is in an element, at most seven levels below it."""
    return contains(element, text.element, _MAX_LEVELS)


def find_related(texts: list[VisibleText], start: int) -> int:
    """Return the index of the first heading of a section about other products, else of the end."""
    for index in range(start, len(texts)):
        text = texts[index].text
        if len(text) <= _MAX_HEADING_LENGTH and RELATED.match(fold_case(text)):
            return index
    return len(texts)


_HEADINGS: Final = frozenset({"h1", "h2", "h3"})
_TITLE_NAME: Final = re.compile(r"title|headline|(?<![a-z])name(?![a-z])|heading")
_HEADING_LEVELS: Final = 2
_MAX_TITLE_NAMES: Final = 4
_MAX_PIECES: Final = 6
_MAX_TITLE_LENGTH: Final = 300
_MIN_SHARE_OF_TEXT: Final = 0.6
_MIN_SHARE_OF_NAME: Final = 0.1
_FIRST_LEVEL: Final = 0.5
_OTHER_LEVEL: Final = 0.1
_ASIDE: Final = 0.4
_LINK: Final = 0.3


def find_title(texts: Sequence[VisibleText], names: Sequence[str]) -> int | None:
    """Return the index of the heading that best repeats a declared name, else of the first h1."""
    word_sets = [set(_WORD.findall(name.casefold())) for name in names[:_MAX_TITLE_NAMES]]
    best, best_rank, first_heading = None, 0.0, None
    for index, text in enumerate(texts):
        if text.flags & (HIDDEN | OVERLAY) or len(text.text) > _MAX_TITLE_LENGTH:
            continue
        heading = _heading_of(text.element)
        if heading is None and not _TITLE_NAME.search(text.names):
            continue
        if first_heading is None and not text.flags & ASIDE and _level(heading) == 1:
            first_heading = index
        rank = _rank(texts, index, heading, word_sets)
        if rank > best_rank:
            best, best_rank = index, rank
    return first_heading if best is None else best


def _rank(
    texts: Sequence[VisibleText], index: int, heading: Element | None, names: list[set[str]]
) -> float:
    """Return how likely a text is the title; 0 if it repeats no name."""
    # The following texts of the same heading count as well.
    pieces = [texts[index].text]
    for text in texts[index + 1 : index + _MAX_PIECES] if heading is not None else ():
        if _heading_of(text.element) != heading:
            break
        pieces.append(text.text)
    words = set(_WORD.findall(" ".join(pieces).casefold()))
    # How well the text repeats a name, 0 to 1; 0 if many of its words are others.
    likeness = 0.0
    for name in names:
        common = len(words & name)
        if common >= _MIN_SHARE_OF_TEXT * len(words) and common >= _MIN_SHARE_OF_NAME * len(name):
            likeness = max(likeness, 2 * common / max(1, len(words) + len(name)))
    if not likeness:
        return 0.0
    level = _level(heading)
    weight = _FIRST_LEVEL if level == 1 else _OTHER_LEVEL * bool(level)
    flags = texts[index].flags
    return likeness + weight - _ASIDE * bool(flags & ASIDE) - _LINK * bool(flags & LINK)


def _level(heading: Element | None) -> int:
    return 0 if heading is None else int(heading.tag[1])


def _heading_of(element: Element) -> Element | None:
    """Return the heading that an element is or is in, at most two levels up."""
    is_heading = element.tag in _HEADINGS
    return element if is_heading else nearest_ancestor(element, _HEADINGS, _HEADING_LEVELS)
