"""Finds the headline and the leads of an article and inserts them above its body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.class_names import (
    AUTHOR,
    CAPTION,
    DATELINE,
    HIDDEN,
    LEAD,
    NOT_CONTENT,
    word_set,
)
from webdata_nb.page.content.parser import Text, make_element

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.content.block_tree import Block, BlockTree, TextRun

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
    inside = [run for run in candidates if _is_inside(run, region)]
    return next(iter(inside or candidates[-1:]), None)


def find_leads(tree: BlockTree, region: Block, headline: TextRun | None) -> list[TextRun]:
    """Return the paragraphs between the headline and the body that the content lacks."""
    if headline is None:
        return []
    start = _first_prose_index(tree, region)
    leads = list(_leads(tree, region, headline.index + 1, start))[:_MAX_LEADS]
    return leads if sum(run.words for run in leads) < region.words else []


def insert_opening(region: Block, headline: TextRun | None, leads: list[TextRun]) -> None:
    """Insert copies of the headline and the leads at the start of the content."""
    content = region.element
    paragraphs = [make_element("p", [Text(run.text)]) for run in leads]
    heading = [] if headline is None else [make_element("h1", [Text(headline.text)])]
    for index, element in enumerate([*heading, *paragraphs]):
        content.insert(index, element)


def _leads(tree: BlockTree, region: Block, first: int, start: int) -> Iterator[TextRun]:
    last = min(start, first + _MAX_LEAD_DISTANCE)
    around = 0 if region.parent is None else region.parent.inherited_traits
    for run in tree.all_text_runs[first:last]:
        present = run.block.is_active and _is_inside(run, region)
        if not present and _is_lead(run, ignored_traits=around) and not _is_in_aside(run.block):
            yield run


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


def _is_inside(run: TextRun, region: Block) -> bool:
    return region.index <= run.block.index < region.end
