"""Selects the content of a page (main content, CSS selection or whole page) and cleans it.

Main-content extraction finds the element that holds the content. Blocks are scored by structure
alone: tag, role, class names, share of the text and link density. The result is on one of three
rungs: ``article``, the block with the text of an article; ``main``, the main region; ``full``, the
whole page without boilerplate. The headline and the leads above the body of an article are inserted
into it. The rules and what did not work: ``docs/decisions/0012-main-content.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from webdata_nb.page.content.block_tree import (
    ARTICLE_BODY,
    AUTHOR,
    CAPTION,
    DATELINE,
    HIDDEN,
    LEAD,
    NOT_CONTENT,
    PAGE_CHROME,
    BlockTree,
    TooManyBlocksError,
    traits_of,
    word_set,
)
from webdata_nb.page.content.boilerplate import (
    drop_by_name,
    drop_page_chrome,
    is_wordless_boilerplate,
    trim_article,
    trim_controls,
    trim_header,
    trim_links,
    trim_repeats,
    trim_teasers,
)
from webdata_nb.page.content.code_blocks import mark_code_blocks
from webdata_nb.page.content.footnotes import append_footnotes, take_footnotes
from webdata_nb.page.content.formulas import mark_formulas
from webdata_nb.page.content.links import make_links_absolute, read_anchors
from webdata_nb.page.content.page_kind import declared_title, detect_page_kind, find_headline
from webdata_nb.page.content.parser import (
    HEADINGS,
    INDEXED,
    MAY_BE_HIDDEN,
    Document,
    Element,
    Text,
    body_of,
    element_before,
    group_by_tag,
    is_concealed,
    make_element,
    remove_all,
    remove_hidden_elements,
    show,
    text_of,
)

if TYPE_CHECKING:
    from webdata_nb.page.content.block_tree import Block, TextRun
    from webdata_nb.page.content.page_kind import PageKind
    from webdata_nb.page.content.page_source import ConversionOptions
    from webdata_nb.page.content.parsed_page import ParsedPage
    from webdata_nb.page.content.structured_data import JsonLd


_MAY_BE_CONCEALED = f'{MAY_BE_HIDDEN},[aria-hidden="true"]'
_PANEL_ROLES = frozenset({"tabpanel", "region"})
_PANEL_TITLES = frozenset({*HEADINGS, "dt"})
_NO_PANELS = (
    "nav,header,footer,dialog,aside,form,button,svg,[role=dialog],[role=alertdialog],[role=menu],"
    "[role=navigation],[role=listbox],[role=tooltip],[role=search],[aria-modal=true]"
)
_MAX_PANEL_LINKS = 0.5  # of the characters of a panel


def reveal_panels(document: Document) -> None:
    """Show the panels of accordions and tabs, which wait for a click.

    These are hidden elements that a control names by ``aria-controls``, those with the role of a
    panel, and those right after a heading or a ``dt``. Menus, dialogs and lists of links are none.
    """
    hidden = [element for element in document.select(_MAY_BE_CONCEALED) if is_concealed(element)]
    if not hidden:
        return
    controls = document.select("[aria-controls]")
    names = {name for each in controls for name in (each.attr("aria-controls") or "").split()}
    for element in hidden:
        is_panel = (
            element.attr("id") in names
            or element.attr("role") in _PANEL_ROLES
            or element.tag == "dd"
            or ((before := element_before(element)) is not None and before.tag in _PANEL_TITLES)
        )
        names_of_element = f"{element.attr('class') or ''} {element.attr('id') or ''}"
        if (
            not is_panel
            or element.closest(_NO_PANELS) is not None
            or traits_of(names_of_element) & NOT_CONTENT
        ):
            continue
        length = len("".join(element.text.split()))
        links = sum(len("".join(link.text.split())) for link in element.select("a[href]"))
        if links <= _MAX_PANEL_LINKS * length:
            show(element)


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
    headings = body.select("h1")
    if (
        headings
        and _only_leads_elsewhere(headings[0])
        and any(text_of(each) and not _only_leads_elsewhere(each) for each in headings[1:])
    ):
        headings[0].decompose()  # it names the site on each of its pages
    _remove_buttons(body)
    element_traits = _remove_page_chrome(body)
    for element in body.select(_MAY_BE_CONCEALED):
        if is_concealed(element):
            element_traits[element] = element_traits.get(element, 0) | HIDDEN
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
    if region.rung == "article" or kind == "article":
        trim_article(tree, region.block, headline)
    trim_links(tree, region.block, article=region.rung == "article")
    if region.rung == "article":
        trim_teasers(tree, region.block)
    else:
        trim_header(tree, region.block, headline)
        trim_repeats(tree, region.block)
        trim_controls(tree, region.block)
    tree.apply_drops()
    leads = find_leads(tree, region.block, headline) if region.rung == "article" else []
    is_stub = (
        page_words < _MAX_STUB_WORDS
        and page_prose - region.block.prose < _MIN_CONTENT_WORDS
        and any(  # a heading with something below it
            run is headline or run.block.tag == "h1" for run in tree.text_runs_in(region.block)[:-1]
        )
    )
    is_fallback = not is_stub and _is_almost_empty(region.block.words, page_words)
    if is_fallback:
        # The page without navigation, or the whole page if nothing else is left.
        tree.restore()
        drop_page_chrome(tree, kind)
        if _is_almost_empty(tree.root.words, page_words):
            tree.restore()
        region, leads = ContentRegion(tree.root, "full"), []
    _prune(tree, region.block)
    if headline is not None and headline.block.is_active and region.block.contains(headline.block):
        headline = None  # the content has it
    insert_opening(region.block, headline, leads)
    return MainContent(region.block.element, region.rung, is_fallback)


def clean_page(document: Document) -> Element:
    """Remove elements that are never content: code, embedded media, form controls.

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
    removable = group_by_tag(body, _NEVER_CONTENT)
    noscripts = removable.get("noscript", ())
    fallback = [noscript for noscript in noscripts if len(noscript.text) > _MIN_FALLBACK_LENGTH]
    if fallback:
        body.remove("script,style,template")
        words = sum(len(noscript.text.split()) for noscript in fallback)
        if words > 0.6 * len(body.text.split()):  # they hold most of the text
            for noscript in fallback:
                noscript.tag = "div"
        removable = group_by_tag(body, _NEVER_CONTENT)
    remove_all(element for group in removable.values() for element in group)
    return body


def _only_leads_elsewhere(heading: Element) -> bool:
    links = [link for link in heading.select("a[href]") if (link.attr("href") or "")[:1] != "#"]
    return bool(links) and text_of(heading) == " ".join(filter(None, map(text_of, links)))


def _remove_buttons(body: Element) -> None:
    """Remove buttons except those around or inside headings, which open a section."""
    buttons = body.select("button")
    length = sum(len(button.text) for button in buttons)
    if not buttons or length > _MOST_OF_PAGE * len(body.text):
        return
    for heading in body.select(_HEADING_IN_BUTTON):
        button = heading.closest("button")
        if button is not None:
            button.unwrap()
    for button in body.select("button"):
        parent = button.parent
        if not isinstance(parent, Element) or parent.tag not in HEADINGS:
            button.decompose()


def _remove_page_chrome(body: Element) -> dict[Element, int]:
    """Remove navigation, footers and dialogs; return the traits of those that may be content."""
    chrome = [
        element
        for element in body.select(_MAY_BE_CHROME)
        if (
            element.tag in _CHROME_TAGS
            or element.attr("role") in _CHROME_ROLES
            or element.attr("aria-modal") == "true"
        )
        # Tabs with what they show are content.
        and not (element.attr("role") == "tablist" and len(element.select("p")) >= _MIN_PARAGRAPHS)
    ]
    if len(chrome) > _MAX_CHROME_MEASURED:
        return dict.fromkeys(chrome, PAGE_CHROME)
    length = len(body.text) if chrome else 0
    lengths = [len(element.text) for element in chrome]
    if sum(lengths) > _MOST_OF_PAGE * length:
        nested: set[Element] = set()
        outer_length = 0
        for element, element_length in zip(chrome, lengths, strict=True):
            if element not in nested:
                outer_length += element_length
                nested.update(element.select(_MAY_BE_CHROME))
        if outer_length >= _MOST_OF_PAGE * length:
            return dict.fromkeys(chrome, PAGE_CHROME)
    element_traits = {}
    for element, element_length in zip(chrome, lengths, strict=True):
        if element_length < _MAX_CHROME_SHARE * length:
            element.decompose()
        elif element.tag != "footer":
            element_traits[element] = PAGE_CHROME
    return element_traits


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


def _is_almost_empty(words: int, page_words: int) -> bool:
    return words < _MIN_CONTENT_WORDS and words < _MIN_CONTENT_SHARE * page_words


def _prune(tree: BlockTree, region: Block) -> None:
    """Remove dropped blocks from the tree; unhide the hidden blocks that remain."""
    index = region.index + 1
    while index < region.end:
        block = tree.all_blocks[index]
        if block.dropped or (block.traits and is_wordless_boilerplate(block)):
            block.element.decompose()
            index = block.end
            continue
        if block.traits & HIDDEN:
            show(block.element)
        index += 1


ContentRung: TypeAlias = Literal["article", "main", "full"]

_MAIN: Final = 'main,[role="main"],[id="main-content"],[id="maincontent"],[id="mw-content-text"]'
_MIN_MAIN_WORDS = 30
_SHORT_PAGE = 150  # words; shorter pages are kept whole
_SHORT_TEXT = 300  # words; shorter texts keep sections without prose
_MAX_SECTION_LINK_SHARE = 0.1
_MAX_CODE_LINK_SHARE = 0.25  # references link more than other texts
_SECTION_TAGS: Final = word_set("pre h2 h3 h4")
_MIN_ARTICLE_WORDS = 40
_MIN_BODY_PROSE = 30
_MIN_UNDECLARED_PROSE = 150
_MIN_UNDECLARED_NAMED_PROSE = 60
_TAG_WEIGHTS: Final = {"p": 1.0, "blockquote": 1.0, "pre": 1.0, "td": 0.6, "li": 0.5}
_OTHER_TAG_WEIGHT = 0.7
_WEIGHT_BEFORE_HEADLINE = 0.3
_NAMED_BODY_WEIGHT = 1.5
_WEIGHT_IN_BOILERPLATE = 0.3
# The parent of these counts as the container of the text.
_TEXT_TAGS: Final = word_set("p blockquote li td span h2 h3 pre center font")
_NEVER_BODY: Final = word_set(
    "ol ul li blockquote p table tbody thead tr td dl dd figure center span a pre"
)
_MAX_WIDENING_LEVELS = 6


@dataclass(frozen=True, slots=True)
class ContentRegion:
    """The block that holds the content, and its rung."""

    block: Block
    rung: ContentRung


def find_region(
    tree: BlockTree, kind: PageKind, headline: TextRun | None, *, content_hidden: bool = False
) -> ContentRegion:
    """Find the smallest block that still holds the content.

    Parameters
    ----------
    tree
        The page without boilerplate.
    kind
        The declared type of the page.
    headline
        The heading that repeats the title.
    content_hidden
        Most content is hidden, often outside the main region, until a script shows it.
    """
    region = ContentRegion(tree.root, "full") if content_hidden else _main_region(tree, headline)
    body = find_body(tree, region.block, headline)
    if kind == "article":
        min_share = 0.25 if body.traits & ARTICLE_BODY else 0.6
        is_article = body.prose > _MIN_BODY_PROSE and body.prose > min_share * region.block.prose
    else:
        # A page without a declared type may be one text.
        is_text = (
            body.prose > _MIN_UNDECLARED_PROSE
            and body.prose > 0.75 * region.block.prose
            and body.prose > 0.4 * body.words
        )
        is_named_text = (
            bool(body.traits & ARTICLE_BODY)
            and body.prose > _MIN_UNDECLARED_NAMED_PROSE
            and body.prose > 0.6 * region.block.prose
            and body.prose > 0.5 * body.words
        )
        is_article = kind == "other" and (is_text or is_named_text)
    if not is_article:
        return region
    return ContentRegion(_with_code(tree, body, region.block), "article")


def find_body(tree: BlockTree, top: Block, headline: TextRun | None) -> Block:
    """Find the descendant of `top` with the highest prose score."""
    scores = _prose_scores(tree.text_runs_in(top), top, headline.index if headline else -1)
    body = max(scores, key=lambda block: _weighted_score(block, scores[block]), default=top)
    while body.tag in _NEVER_BODY and body is not top and body.parent is not None:
        body = body.parent
    # An ancestor may also hold the rest of a text in several blocks.
    outer = body
    for _ in range(_MAX_WIDENING_LEVELS):
        if outer is top or outer.parent is None:
            break
        outer = outer.parent
        prose, words = outer.prose - body.prose, outer.words - body.words
        is_continued = prose > 0.1 * body.prose and prose >= 0.6 * words
        if is_continued or (
            outer.words < _SHORT_TEXT
            and _adds_few_links(outer, body, _MAX_SECTION_LINK_SHARE)
            and any(  # headings or code
                block.tag in _SECTION_TAGS and not body.contains(block)
                for block in tree.blocks_below(outer)
            )
        ):
            body = outer
    return body


def _main_region(tree: BlockTree, headline: TextRun | None) -> ContentRegion:
    root = tree.root
    elements = set(root.element.select(_MAIN))
    if root.element.matches(_MAIN):
        elements.add(root.element)
    declared = [block for block in tree.blocks if block.element in elements] if elements else []
    region = max(declared, key=lambda block: block.words, default=root)
    if not (region.words > 0.3 * root.words and region.words > _MIN_MAIN_WORDS):
        region = root
    outermost: list[Block] = []
    for block in tree.blocks_below(region):
        if block.tag == "article" and (not outermost or block.index >= outermost[-1].end):
            outermost.append(block)
    article = max(outermost, key=lambda block: block.words, default=None)
    if article and article.words > 0.5 * region.words and article.words > _MIN_ARTICLE_WORDS:
        region = article
    if region is root and root.words > _SHORT_PAGE:
        region = _with_code(tree, find_body(tree, root, headline), root)
        while region.parent is not None and region.words < 0.5 * root.words:
            region = region.parent
    return ContentRegion(region, "full" if region is root else "main")


def _prose_scores(text_runs: list[TextRun], top: Block, headline: int) -> dict[Block, float]:
    """Add the words of each paragraph to its three closest ancestors, halved at each level."""
    scores: dict[Block, float] = {}
    for run in text_runs:
        if not run.prose:
            continue
        tag = run.block.tag
        share = run.words * _TAG_WEIGHTS.get(tag, _OTHER_TAG_WEIGHT)
        if run.index < headline:
            share *= _WEIGHT_BEFORE_HEADLINE
        block = run.block.parent if tag in _TEXT_TAGS else run.block
        for _ in range(3):
            if block is None or block.index < top.index:
                break
            scores[block] = scores.get(block, 0.0) + share
            block = block.parent
            share /= 2
    return scores


def _weighted_score(block: Block, score: float) -> float:
    text_density = 1 - block.link_words / max(1, block.words)
    if block.traits & ARTICLE_BODY:
        text_density *= _NAMED_BODY_WEIGHT
    return (
        score
        * text_density
        * (_WEIGHT_IN_BOILERPLATE if block.inherited_traits & NOT_CONTENT else 1.0)
    )


def _with_code(tree: BlockTree, body: Block, top: Block) -> Block:
    """Return the ancestor of a text that also holds the code beside it."""
    if body is top or len(top.element.select("pre")) == len(body.element.select("pre")):
        return body
    code = [block.index for block in tree.blocks if block.tag == "pre"]
    outer = body
    for _ in range(_MAX_WIDENING_LEVELS):
        if outer is top or outer.parent is None:
            break
        outer = outer.parent
        is_beside = any(
            outer.index < index < outer.end and not body.index <= index < body.end for index in code
        )
        if is_beside and _adds_few_links(outer, body, _MAX_CODE_LINK_SHARE):
            body = outer
    return body


def _adds_few_links(outer: Block, body: Block, max_share: float) -> bool:
    words, link_words = outer.words - body.words, outer.link_words - body.link_words
    return link_words <= max_share * words


_MAX_HEADLINE_WORDS = 40
_MAX_LEAD_DISTANCE = 40  # text runs between the headline and a lead
_MAX_LEAD_WORDS = 150
_MAX_LEADS = 4
_MAX_ASIDE_LEVELS = 6
_MIN_NAMED_LEAD_WORDS = 5
_NEVER_LEAD: Final = NOT_CONTENT | AUTHOR | DATELINE | CAPTION | HIDDEN
_NOT_LEAD_TAGS: Final = word_set("figcaption figure li a h1 td th dt dd button label")


def find_headline_run(tree: BlockTree, region: Block, headline: TextRun | None) -> TextRun | None:
    """Return the headline: the heading that repeats the title, else the h1 closest to the text.

    Parameters
    ----------
    tree
        The page without boilerplate.
    region
        The content.
    headline
        The heading that repeats the title.
    """
    if headline is not None:
        return headline
    start = _first_prose_index(tree, region)
    candidates = [
        run
        for run in tree.text_runs
        if run.index < start and run.block.tag == "h1" and run.words <= _MAX_HEADLINE_WORDS
    ]
    inside = [run for run in candidates if region.contains(run.block)]
    return next(iter(inside or candidates[-1:]), None)


def find_leads(tree: BlockTree, region: Block, headline: TextRun | None) -> list[TextRun]:
    """Return the paragraphs between the headline and the body that the content lacks."""
    if headline is None:
        return []
    start = _first_prose_index(tree, region)
    first = headline.index + 1
    around = 0 if region.parent is None else region.parent.inherited_traits
    leads = [
        run
        for run in tree.all_text_runs[first : min(start, first + _MAX_LEAD_DISTANCE)]
        if not (run.block.is_active and region.contains(run.block))
        and _is_lead(run, ignored_traits=around)
        and not _is_in_aside(run.block)
    ][:_MAX_LEADS]
    return leads if sum(run.words for run in leads) < region.words else []


def insert_opening(region: Block, headline: TextRun | None, leads: list[TextRun]) -> None:
    """Insert copies of the headline and the leads at the start of the content."""
    content = region.element
    paragraphs = [make_element("p", [Text(run.text)]) for run in leads]
    heading = [] if headline is None else [make_element("h1", [Text(headline.text)])]
    for index, element in enumerate([*heading, *paragraphs]):
        content.insert(index, element)


def _is_in_aside(block: Block) -> bool:
    ancestor: Block | None = block
    for _ in range(_MAX_ASIDE_LEVELS):
        if ancestor is None:
            return False
        if ancestor.tag in {"aside", "form"}:
            return True
        ancestor = ancestor.parent
    return False


def _is_lead(run: TextRun, *, ignored_traits: int) -> bool:
    """Return whether a text run is a lead; `ignored_traits` are those of blocks around the body."""
    traits, parent = run.block.inherited_traits, run.block.parent
    named = run.block.traits | (parent.traits if parent else 0)
    return (
        not traits & ~ignored_traits & _NEVER_LEAD
        and run.block.tag not in _NOT_LEAD_TAGS
        and run.link_words * 2 < run.words <= _MAX_LEAD_WORDS
        and (run.prose or (bool(named & LEAD) and run.words >= _MIN_NAMED_LEAD_WORDS))
    )


def _first_prose_index(tree: BlockTree, region: Block) -> int:
    runs = tree.text_runs_in(region)
    return next((run.index for run in runs if run.prose), runs[0].index if runs else 0)


MAX_LINKS_SEARCHED = 100_000
"""A page with more links is a list or a crawler trap: its main content is not searched."""


def find_content(
    page: ParsedPage, document: Document, options: ConversionOptions, *, main: bool
) -> ParsedPage:
    """Return a page with its content, selected and cleaned. This changes the tree.

    Parameters
    ----------
    page
        The page.
    document
        Its tree, or a copy of it.
    options
        Only `include_tags` and `exclude_tags` are read.
    main
        Search the main content; False takes the whole page.
    """
    for selector in options.exclude_tags:
        remove_all(document.select(selector))
    reveal_panels(document)
    mark_formulas(document)
    mark_code_blocks(document)
    notes = take_footnotes(document, page.anchors)
    is_fallback = False
    if options.include_tags:
        selector = ",".join(options.include_tags)
        outermost = [
            match
            for match in document.select(selector)
            if match.parent is None or match.parent.closest(selector) is None
        ]
        element, rung = make_element("div", outermost), "selected"
    elif main and len(page.anchors) <= MAX_LINKS_SEARCHED:
        result = extract_main_content(document, page.head.json_ld)
        element, rung, is_fallback = result.element, result.rung, result.is_fallback
    else:
        element, rung = body_of(document), "full" if main else "page"
    footnotes = append_footnotes(element, notes, unreferenced=rung in {"full", "page"})
    elements_by_tag, anchors = page.elements_by_tag, page.anchors
    if document is not page.document or rung != "page" or footnotes is not None:  # not indexed yet
        elements_by_tag = group_by_tag(element, INDEXED)
        anchors = read_anchors(elements_by_tag.get("a", ()), page.link_resolver)
    remove_hidden_elements(element, elements_by_tag)
    make_links_absolute(anchors)
    return replace(
        page,
        element=element,
        elements_by_tag=elements_by_tag,
        anchors=anchors,
        rung=rung,
        is_fallback=is_fallback,
        footnotes=footnotes,
    )
