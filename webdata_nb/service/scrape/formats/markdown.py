"""The `markdown` format: the content as GitHub-flavoured Markdown.

The writer is the parser's own. What it would lose or leak is changed in the tree beforehand; so
this format comes last, after every other that reads the same content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webdata_nb.service.content.parser import (
    Element,
    Text,
    above,
    around,
    collapse,
    drop_all,
    element,
    elements_in,
    to_markdown,
    unwrap,
)
from webdata_nb.service.content.tags import HEADINGS, LINK, LISTS, NOT_TEXT
from webdata_nb.service.markdown.code_blocks import prepare_fences
from webdata_nb.service.markdown.emphasis import mark_emphasis
from webdata_nb.service.markdown.line_breaks import prepare_breaks
from webdata_nb.service.markdown.list_numbers import prepare_numbers
from webdata_nb.service.markdown.postprocess import tidy
from webdata_nb.service.markdown.tables import prepare_tables
from webdata_nb.service.scrape.formats.images import plain_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from webdata_nb.service.content.content import Content
    from webdata_nb.service.content.links import Anchors, Links
    from webdata_nb.service.content.parsed_page import Reading

_LONGEST_LABEL = 100
_TITLES = frozenset({*HEADINGS, "summary", "dt"})
_MOST_HEADINGS = 1000  # each climbs to the top of the page, which is quick but has no bound


def markdown(reading: Reading, content: Content) -> str:
    """Write the content as Markdown; its tree is changed on the way."""
    parts = content.parts
    dropped = elements_in(parts, NOT_TEXT)
    thinned = content.thinned | around([*dropped, *parts.get("button", ())], LINK)
    drop_all(dropped)
    _prepare_fields(parts)
    _prepare_images(parts.get("img", ()), reading.links)
    _prepare_links(content.anchors, thinned)
    _move_links_into([each for tag in HEADINGS for each in parts.get(tag, ())])
    prepare_breaks(parts.get("br", ()))
    prepare_fences(parts.get("pre", ()))
    prepare_tables(parts.get("table", ()))
    _nest_lists(parts.get("ul", ()))
    _nest_lists(parts.get("ol", ()))
    prepare_numbers(parts.get("ol", ()))
    return tidy(mark_emphasis(to_markdown(content.element)))


def _prepare_fields(parts: dict[str, list[Element]]) -> None:
    """Drop buttons and fields, but for a heading's own text and the boxes of a task list."""
    for button in parts.get("button", ()):
        title = above(button, _TITLES)
        if title is not None and len(title.text.split()) == len(button.text.split()):
            unwrap([button])
        else:
            button.decompose()
    for field in parts.get("input", ()):
        if not _is_task(field):
            field.decompose()


def _is_task(field: Element) -> bool:
    """Tell whether a field is the check box of a task list, as GitHub writes them."""
    if (field.attr("type") or "").lower() != "checkbox":
        return False
    item = above(field, {"li"}, levels=2)
    if item is None:
        return False
    return field.attr("disabled") is not None or "task" in (item.attr("class") or "")


def _prepare_images(images: Iterable[Element], links: Links) -> None:
    """Show the file that a script would load; drop pictures that are inlined."""
    for image in images:
        source = plain_source(image)
        if source is None:
            image.decompose()
            continue
        image.attrs["src"] = links[source] or source
        alt = image.attr("alt")
        if alt is not None and "\n" in alt:
            image.attrs["alt"] = collapse(alt)


def _prepare_links(anchors: Anchors, thinned: frozenset[Element]) -> None:
    """Give a link without text its label, or drop it: nobody could click it.

    One of those `thinned` whose text was in what was taken out of the page, as the title of a
    picture is, has that for its label.
    """
    for link, href, text in zip(anchors.elements, anchors.hrefs, anchors.texts, strict=True):
        if text and not text.isspace() and not (thinned and link in thinned and _is_drawn(link)):
            continue
        if href is None:
            continue
        if link.select_one("img") is not None:
            continue
        label = collapse(link.attr("aria-label") or link.attr("title") or text)
        label = label if len(label) <= _LONGEST_LABEL else ""
        if label and above(link, HEADINGS) is None:
            link.append(Text(label))
        else:
            unwrap([link])


def _is_drawn(link: Element) -> bool:
    """Tell whether nothing of a link's text is left."""
    text = link.text
    return not text or text.isspace()


def _move_links_into(headings: Sequence[Element]) -> None:
    """Turn a link around a heading into a heading around a link: Markdown has no other."""
    if len(headings) <= _MOST_HEADINGS:
        headings = [each for each in headings if each.closest("a") is not None]
    for heading in headings:
        link = above(heading, LINK, levels=6)
        if link is not None and link.attr("href") is not None:
            unwrap([link])
            heading.wrap_children(link)


def _nest_lists(lists: Iterable[Element]) -> None:
    """Put a list that stands between the items of another where browsers show it: in an item."""
    for each in lists:
        if isinstance(each.parent, Element) and each.parent.tag in LISTS:
            before = each.previous_sibling
            while before is not None and not isinstance(before, Element):
                before = before.previous_sibling
            if before is not None and before.tag == "li":
                before.append(each)
            else:
                each.wrap(element("li"))
