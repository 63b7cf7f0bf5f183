"""Main-content extraction: finds the element that holds the content of a page.

Blocks are scored by structure alone: tag, role, class names, share of the text and link density.
The result is on one of three rungs: ``article``, the block with the text of an article; ``main``,
the main region; ``full``, the whole page without boilerplate. The rules and what did not work:
``docs/decisions/0012-main-content.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webdata_nb.page.content.article_opening import (
    find_headline_run,
    find_leads,
    insert_opening,
)
from webdata_nb.page.content.block_tree import HEADINGS, BlockTree, TooManyBlocksError
from webdata_nb.page.content.boilerplate import (
    drop_by_name,
    drop_page_chrome,
    is_wordless_boilerplate,
)
from webdata_nb.page.content.class_names import HIDDEN, PAGE_CHROME, word_set
from webdata_nb.page.content.content_region import ContentRegion, ContentRung, find_region
from webdata_nb.page.content.page_kind import declared_title, detect_page_kind, find_headline
from webdata_nb.page.content.parser import (
    Document,
    Element,
    body_of,
    group_by_tag,
    make_element,
    remove_all,
    text_of,
)
from webdata_nb.page.content.postprocess import (
    trim_article,
    trim_controls,
    trim_header,
    trim_links,
    trim_repeats,
    trim_teasers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webdata_nb.page.content.block_tree import Block, TextRun
    from webdata_nb.page.content.json_ld import JsonLd
    from webdata_nb.page.content.page_kind import PageKind

__all__ = ["MainContent", "clean_page", "extract_main_content"]

_NEVER_CONTENT = word_set(
    "script style template noscript svg canvas iframe object embed video audio map select textarea"
    " datalist progress meter"
)
_CHROME_TAGS = frozenset({"nav", "footer", "dialog"})
_CHROME_ROLES = word_set(
    "navigation banner contentinfo search dialog alertdialog menu menubar toolbar tablist"
)
# One selector each: every selector costs a pass over the page.
_MAY_BE_CHROME = 'nav,footer,dialog,[role],[aria-modal="true"]'
_MAY_BE_HIDDEN = '[hidden],[aria-hidden="true"],[style]'
_HIDING_STYLES = ("display:none", "display: none", "visibility:hidden", "visibility: hidden")
_HEADING_IN_BUTTON = "button h2,button h3,button h4,button h5,button h6"
_MAX_CHROME_SHARE = 0.4  # of the text; larger navigation may be content
_MOST_OF_PAGE = 0.9  # of the text
_MAX_CHROME_MEASURED = 100  # elements whose text is measured one by one
_MIN_FALLBACK_LENGTH = 400  # characters of a noscript element that may hold the page
_MIN_PROSE_AFTER_HEADLINE = 100
_MIN_PARAGRAPHS = 5  # of an element that is no row of tabs
_MIN_CONTENT_WORDS = 20  # fewer are the content only if they are most of the page
_MIN_CONTENT_SHARE = 0.5
_MAX_STUB_WORDS = 150  # of a page with a heading, a line or two, and navigation


@dataclass(frozen=True, slots=True)
class MainContent:
    """The main content of a page.

    Attributes
    ----------
    element
        An element of the parsed document, without boilerplate.
    rung
        ``"article"``, ``"main"`` or ``"full"``.
    is_fallback
        The rules left next to nothing: this is the visible page, where possible without navigation.
    """

    element: Element
    rung: ContentRung
    is_fallback: bool = False


def extract_main_content(document: Document, json_ld: JsonLd) -> MainContent:
    """Find the main content of a page and remove boilerplate from its tree.

    Parameters
    ----------
    document
        A parsed page. Its tree is changed.
    json_ld
        What its JSON-LD declares.

    Returns
    -------
    MainContent
        The content and its rung. A page without a body gives its root, one of more than 200,000
        blocks its whole body. The headline comes first; an article has no byline.
    """
    kind, title = detect_page_kind(document, json_ld), declared_title(document)
    body = clean_page(document)
    _remove_site_name(body)
    _remove_buttons(body)
    element_traits = _remove_page_chrome(body)
    _mark_hidden(body, element_traits)
    try:
        tree = BlockTree(body, element_traits)
    except TooManyBlocksError:
        return MainContent(body, "full")
    page_words, page_prose = tree.root.words, tree.root.prose
    tree.mark_data_tables()
    headline = find_headline(tree.text_runs, title)
    content_hidden = drop_page_chrome(tree, kind)
    drop_by_name(tree, kind)
    _ignore_prose_above(headline, tree)
    region = find_region(tree, kind, headline, content_hidden=content_hidden)
    headline = find_headline_run(tree, region.block, headline)
    _trim(tree, region, kind, headline)
    tree.apply_drops()
    leads = find_leads(tree, region.block, headline) if region.rung == "article" else []
    is_stub = (
        page_words < _MAX_STUB_WORDS
        and page_prose - region.block.prose < _MIN_CONTENT_WORDS
        and _holds_headline(tree, region.block, headline)
    )
    is_fallback = not is_stub and _is_almost_empty(region.block.words, page_words)
    if is_fallback:
        region = _visible_page(tree, kind)
        leads = []
    _prune(tree, region.block)
    insert_opening(region.block, _absent(headline, region), leads)
    return MainContent(region.block.element, region.rung, is_fallback)


def clean_page(document: Document) -> Element:
    """Remove elements that are never content: code, embedded media, form controls.

    Parameters
    ----------
    document
        A parsed page. Its tree is changed.
    json_ld
        What its JSON-LD declares.

    Returns
    -------
    Element
        The body, or the root of a page that has none.
    """
    body = body_of(document)
    if body is None:
        return make_element("body")
    removable = group_by_tag(body, _NEVER_CONTENT)
    if "noscript" in removable and _show_noscript(body, removable["noscript"]):
        removable = group_by_tag(body, _NEVER_CONTENT)
    remove_all(element for group in removable.values() for element in group)
    return body


def _show_noscript(body: Element, noscripts: list[Element]) -> bool:
    """Show ``noscript`` elements that hold most of the text; return whether the tree changed."""
    fallback = [noscript for noscript in noscripts if len(noscript.text) > _MIN_FALLBACK_LENGTH]
    if not fallback:
        return False
    body.remove("script,style,template")
    words = sum(len(noscript.text.split()) for noscript in fallback)
    if words > 0.6 * len(body.text.split()):
        for noscript in fallback:
            noscript.tag = "div"
    return True


def _remove_site_name(body: Element) -> None:
    """Remove a first ``h1`` that only leads to another page, if one with text of its own follows.

    It names the site on each of its pages.
    """
    headings = body.select("h1")
    if not headings or not _only_leads_elsewhere(headings[0]):
        return
    if any(text_of(each) and not _only_leads_elsewhere(each) for each in headings[1:]):
        headings[0].decompose()


def _only_leads_elsewhere(heading: Element) -> bool:
    links = [link for link in heading.select("a[href]") if (link.attr("href") or "")[:1] != "#"]
    return bool(links) and text_of(heading) == " ".join(filter(None, map(text_of, links)))


def _remove_buttons(body: Element) -> None:
    """Remove buttons except those around or inside headings, which open a section."""
    buttons = body.select("button")
    if not buttons or _hold_most_text(body, buttons):
        return
    for heading in body.select(_HEADING_IN_BUTTON):
        button = heading.closest("button")
        if button is not None:
            button.unwrap()
    for button in body.select("button"):
        parent = button.parent
        if not isinstance(parent, Element) or parent.tag not in HEADINGS:
            button.decompose()


def _hold_most_text(body: Element, elements: Iterable[Element]) -> bool:
    return sum(len(element.text) for element in elements) > _MOST_OF_PAGE * len(body.text)


def _remove_page_chrome(body: Element) -> dict[Element, int]:
    """Remove navigation, footers and dialogs; return the traits of those that may be content."""
    chrome = [element for element in body.select(_MAY_BE_CHROME) if _is_page_chrome(element)]
    if len(chrome) > _MAX_CHROME_MEASURED:
        return dict.fromkeys(chrome, PAGE_CHROME)
    length = len(body.text) if chrome else 0
    lengths = [len(element.text) for element in chrome]
    if sum(lengths) > _MOST_OF_PAGE * length and _covers_page(chrome, _MOST_OF_PAGE * length):
        return dict.fromkeys(chrome, PAGE_CHROME)
    element_traits = {}
    for element, element_length in zip(chrome, lengths, strict=True):
        if element_length < _MAX_CHROME_SHARE * length:
            element.decompose()
        elif element.tag != "footer":
            element_traits[element] = PAGE_CHROME
    return element_traits


def _covers_page(chrome: list[Element], min_length: float) -> bool:
    """Return whether the outermost elements have at least `min_length` characters of text."""
    nested: set[Element] = set()
    length = 0
    for element in chrome:
        if element not in nested:
            length += len(element.text)
            nested.update(element.select(_MAY_BE_CHROME))
    return length >= min_length


def _is_page_chrome(element: Element) -> bool:
    if element.attr("role") == "tablist" and len(element.select("p")) >= _MIN_PARAGRAPHS:
        return False  # the tabs with what they show
    return (
        element.tag in _CHROME_TAGS
        or element.attr("role") in _CHROME_ROLES
        or element.attr("aria-modal") == "true"
    )


def _is_hidden(element: Element) -> bool:
    if element.attr("hidden") is not None or element.attr("aria-hidden") == "true":
        return True
    style = element.attr("style") or ""
    return any(declaration in style for declaration in _HIDING_STYLES)


def _mark_hidden(body: Element, element_traits: dict[Element, int]) -> None:
    """Add the trait of hidden elements."""
    for element in body.select(_MAY_BE_HIDDEN):
        if _is_hidden(element):
            element_traits[element] = element_traits.get(element, 0) | HIDDEN


def _ignore_prose_above(headline: TextRun | None, tree: BlockTree) -> None:
    """Do not count prose above the headline when enough follows it."""
    if headline is None:
        return
    earlier_runs = [run for run in tree.text_runs if run.prose and run.index < headline.index]
    later_words = sum(
        run.words for run in tree.text_runs if run.prose and run.index > headline.index
    )
    if earlier_runs and later_words >= _MIN_PROSE_AFTER_HEADLINE:
        for run in earlier_runs:
            run.prose = False
        tree.count_words()


def _absent(headline: TextRun | None, region: ContentRegion) -> TextRun | None:
    """Return the headline unless the content has it."""
    if headline is None:
        return None
    block = headline.block
    inside = region.block.index <= block.index < region.block.end and block.is_active
    return None if inside else headline


def _trim(tree: BlockTree, region: ContentRegion, kind: PageKind, headline: TextRun | None) -> None:
    block, article = region.block, region.rung == "article"
    if article or kind == "article":
        trim_article(tree, block, headline)
    trim_links(tree, block, article=article)
    if article:
        trim_teasers(tree, block)
    else:
        trim_header(tree, block, headline)
        trim_repeats(tree, block)
        trim_controls(tree, block)


def _is_almost_empty(words: int, page_words: int) -> bool:
    return words < _MIN_CONTENT_WORDS and words < _MIN_CONTENT_SHARE * page_words


def _holds_headline(tree: BlockTree, region: Block, headline: TextRun | None) -> bool:
    """Return whether a short content is a heading with something below it."""
    runs = tree.text_runs_in(region)
    return any(run is headline or run.block.tag == "h1" for run in runs[:-1])


def _visible_page(tree: BlockTree, kind: PageKind) -> ContentRegion:
    """Return the page without navigation, or the whole page if nothing else is left."""
    tree.restore()
    page_words = tree.root.words
    drop_page_chrome(tree, kind)
    if _is_almost_empty(tree.root.words, page_words):
        tree.restore()
    return ContentRegion(tree.root, "full")


def _prune(tree: BlockTree, region: Block) -> None:
    """Remove dropped blocks from the tree; unhide the hidden blocks that remain."""
    index = region.index + 1
    while index < region.end:
        block = tree.all_blocks[index]
        if block.dropped or is_wordless_boilerplate(block):
            block.element.decompose()
            index = block.end
            continue
        if block.traits & HIDDEN:
            _unhide(block.element)
        index += 1


def _unhide(hidden: Element) -> None:
    for name in ("hidden", "style", "aria-hidden"):
        if hidden.attr(name) is not None:
            del hidden.attrs[name]
