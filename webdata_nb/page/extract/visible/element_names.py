"""Reads from tag, class, id and style of an element whether it belongs to the product."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from webdata_nb.page.content.parser import Element

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
_TAG_FLAGS: Final = {
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
_HIDING_STYLES: Final = ("display:none", "visibility:hidden")
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
    flags = flags_of_name(name) | _TAG_FLAGS.get(tag, 0)
    if tag == "a" and element.attr("href"):
        flags |= LINK
    style = element.attr("style")
    if style:
        flags |= _flags_of_style(style)
    hidden_field = tag == "input" and (element.attr("type") or "").lower() == "hidden"
    return flags | HIDDEN if hidden_field or element.attr("hidden") is not None else flags


@lru_cache(maxsize=1 << 13)
def flags_of_name(name: str) -> int:
    """Return the flags of a simplified name."""
    if not name or not _ANY_FLAG.search(name):
        return 0
    return sum(flag for flag, pattern in _NAME_FLAGS if pattern.search(name))


def _flags_of_style(style: str) -> int:
    compact = "".join(style[:_MAX_STYLE_LENGTH].lower().split())
    hides = any(declaration in compact for declaration in _HIDING_STYLES)
    return (HIDDEN if hides else 0) | (STRUCK if "line-through" in compact else 0)
