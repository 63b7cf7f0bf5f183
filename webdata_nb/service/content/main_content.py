"""The main content of a page, as an element of its tree.

Everything a scrape returns (Markdown, HTML, links, images) is derived from that element, so all of
them agree on what the page says. The page is judged by structure alone: what a block is (its tag,
role and name), how much of the text it holds, and how much of that is links.

The search climbs down a ladder and stops on the rung that fits the page: ``article``, the block
with the text of an article; ``main``, the main region; ``full``, the whole page without what is
never content. How each rule was found, and what was tried without success:
``docs/decisions/0012-main-content.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webdata_nb.service.content.block_tree import HEADINGS, BlockTree, TooLargeError
from webdata_nb.service.content.boilerplate import (
    drop_by_name,
    drop_page_chrome,
    is_wordless_boilerplate,
)
from webdata_nb.service.content.class_names import FURNITURE, HIDDEN, word_set
from webdata_nb.service.content.content_region import ContentRegion, ContentRung, find_region
from webdata_nb.service.content.page_kind import declared_title, detect_page_kind, find_headline
from webdata_nb.service.content.parser import (
    Document,
    Element,
    body_of,
    group_by_tag,
    make_element,
    remove_all,
)
from webdata_nb.service.content.postprocess import (
    trim_article,
    trim_controls,
    trim_links,
    trim_pointers,
    trim_repeats,
)

if TYPE_CHECKING:
    from webdata_nb.service.content.block_tree import Block, TextRun
    from webdata_nb.service.content.page_kind import PageKind

__all__ = ["MainContent", "clean_page", "main_content"]

_NEVER_CONTENT = word_set(
    "script style template noscript svg canvas iframe object embed video audio map select textarea"
    " datalist progress meter"
)
_FURNITURE = frozenset({"nav", "footer", "dialog"})
_FURNITURE_ROLES = word_set(
    "navigation banner contentinfo search dialog alertdialog menu menubar toolbar tablist"
)
# One list of attributes: a selector costs a pass over the page, whatever it finds.
_MAYBE_FURNITURE = 'nav,footer,dialog,[role],[aria-modal="true"]'
_MAYBE_HIDDEN = '[hidden],[aria-hidden="true"],[style]'
_HIDING = ("display:none", "display: none", "visibility:hidden", "visibility: hidden")
_HEADING_IN_BUTTON = "button h2,button h3,button h4,button h5,button h6"
_LARGE = 0.4  # share of a page's text that makes furniture doubtful
_MANY = 100  # pieces of furniture that are measured one by one
_LEAST_FALLBACK = 400  # characters of a noscript element that may stand in for the page
_LEAST_HEADED_PROSE = 100


@dataclass(frozen=True, slots=True)
class MainContent:
    """What a page is about, and how far the search for it had to widen.

    Attributes
    ----------
    element
        An element of the document that was given; its tree is pruned.
    rung
        ``"article"``, ``"main"`` or ``"full"``.
    """

    element: Element
    rung: ContentRung


def main_content(document: Document) -> MainContent:
    """Find the main content of a page, pruning its tree in place.

    Parameters
    ----------
    document
        A parsed page. Its tree is changed: boilerplate is taken out of the element returned.

    Returns
    -------
    MainContent
        The element that holds the content and the rung it was found on. It never raises; a page
        without a body gives its root, one of more than 200,000 blocks its whole body. An article
        comes without its headline and byline, which are metadata.
    """
    kind, title = detect_page_kind(document), declared_title(document)
    body = clean_page(document)
    try:
        outline = BlockTree(body, _marks(body))
    except TooLargeError:
        return MainContent(body, "full")
    if not outline.root.words:
        return MainContent(body, "full")
    headline = find_headline(outline.leaves, title)
    scattered = drop_page_chrome(outline, kind)
    drop_by_name(outline, kind)
    _start_at(headline, outline)
    region = find_region(outline, kind, headline, scattered=scattered)
    _trim(outline, region, kind)
    _prune(outline, region.block)
    return MainContent(region.block.element, region.rung)


def clean_page(document: Document) -> Element:
    """Take away what is never content: code, embedded media, form controls that hold lists.

    Parameters
    ----------
    document
        A parsed page. Its tree is changed.

    Returns
    -------
    Element
        The body, or the root of a page that has none.
    """
    body = body_of(document)
    if body is None:
        return make_element("body")
    found = group_by_tag(body, _NEVER_CONTENT)
    if "noscript" in found and _show_fallback(body, found["noscript"]):
        found = group_by_tag(body, _NEVER_CONTENT)
    remove_all(each for group in found.values() for each in group)
    return body


def _show_fallback(body: Element, without_scripts: list[Element]) -> bool:
    """Show a page's ``noscript`` elements where they hold most of it: scripts build the rest.

    Tells whether the tree has changed.
    """
    fallback = [each for each in without_scripts if len(each.text) > _LEAST_FALLBACK]
    if not fallback:
        return False
    body.remove("script,style,template")
    words = sum(len(each.text.split()) for each in fallback)
    if words > 0.6 * len(body.text.split()):
        for each in fallback:
            each.tag = "div"
    return True


def _drop_controls(body: Element) -> None:
    """Drop buttons, but for those that are, or hold, a heading: they open a section."""
    buttons = group_by_tag(body, ("button",)).get("button", ())
    if not buttons:
        return
    for heading in body.select(_HEADING_IN_BUTTON):
        button = heading.closest("button")
        if button is not None:
            button.unwrap()
    for button in body.select("button"):
        parent = button.parent
        if not isinstance(parent, Element) or parent.tag not in HEADINGS:
            button.decompose()


def _drop_furniture(body: Element) -> dict[Element, int]:
    """Drop navigation, footers, dialogs before anything is counted; mark what is too large."""
    furniture = [each for each in body.select(_MAYBE_FURNITURE) if _is_furniture(each)]
    if len(furniture) > _MANY:
        return dict.fromkeys(furniture, FURNITURE)
    most = _LARGE * len(body.text) if furniture else 0
    marks = {}
    for each in furniture:
        if len(each.text) < most:
            each.decompose()
        elif each.tag != "footer":
            marks[each] = FURNITURE
    return marks


def _is_furniture(each: Element) -> bool:
    return (
        each.tag in _FURNITURE
        or each.attr("role") in _FURNITURE_ROLES
        or each.attr("aria-modal") == "true"
    )


def _is_hidden(each: Element) -> bool:
    if each.attr("hidden") is not None or each.attr("aria-hidden") == "true":
        return True
    style = each.attr("style") or ""
    return any(word in style for word in _HIDING)


def _marks(body: Element) -> dict[Element, int]:
    """Return the traits that attributes other than names give to elements."""
    _drop_controls(body)
    marks = _drop_furniture(body)
    for each in body.select(_MAYBE_HIDDEN):
        if _is_hidden(each):
            marks[each] = marks.get(each, 0) | HIDDEN
    return marks


def _start_at(headline: TextRun | None, outline: BlockTree) -> None:
    """Give no weight to prose above the headline when enough follows it."""
    if headline is None:
        return
    above = [leaf for leaf in outline.leaves if leaf.prose and leaf.index < headline.index]
    below = sum(leaf.words for leaf in outline.leaves if leaf.prose and leaf.index > headline.index)
    if above and below >= _LEAST_HEADED_PROSE:
        for leaf in above:
            leaf.prose = False
        outline.measure()


def _trim(outline: BlockTree, region: ContentRegion, kind: PageKind) -> None:
    block, article = region.block, region.rung == "article"
    if article or kind == "article":
        trim_article(outline, block)
    trim_links(outline, block, article=article)
    if article:
        trim_pointers(outline, block)
    else:
        trim_repeats(outline, block)
        trim_controls(outline, block)


def _prune(outline: BlockTree, region: Block) -> None:
    """Take the dropped blocks out of the tree; show what is kept though it starts hidden."""
    index = region.index + 1
    while index < region.end:
        block = outline.everything[index]
        if block.dropped or is_wordless_boilerplate(block):
            block.element.decompose()
            index = block.end
            continue
        if block.traits & HIDDEN:
            _show(block.element)
        index += 1


def _show(hidden: Element) -> None:
    for name in ("hidden", "style", "aria-hidden"):
        if hidden.attr(name) is not None:
            del hidden.attrs[name]
