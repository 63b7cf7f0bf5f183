"""Builds the tree of a site's folders, and lays it out as an icicle plot.

Everything is pure: the figure draws the boxes of `layout`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

LEVELS: Final = 3
INDEX: Final = "(index)"
FRONT: Final = "(front page)"


@dataclass(frozen=True, slots=True)
class SitePage:
    """A crawled page: its path, its distance from the start page in clicks, and its colour.

    The colour comes from a `category` or from a `number`; one of them is None, and both are where
    the value is missing.
    """

    path: tuple[str, ...]
    depth: int | None
    category: str | None = None
    number: float | None = None


@dataclass(slots=True)
class SiteNode:
    """A folder or a page with all pages inside; `own` counts the pages at its very path."""

    name: str
    pages: int = 0
    own: int = 0
    categories: Counter[str] = field(default_factory=Counter)
    number_sum: float = 0.0
    numbers: int = 0
    children: dict[str, SiteNode] = field(default_factory=dict)

    @property
    def mean(self) -> float | None:
        """The mean of the pages' numbers."""
        return self.number_sum / self.numbers if self.numbers else None

    def count(self, page: SitePage) -> None:
        """Add a page that is inside this node."""
        self.pages += 1
        if page.category is not None:
            self.categories[page.category] += 1
        if page.number is not None:
            self.number_sum += page.number
            self.numbers += 1

    def merge(self, other: SiteNode) -> None:
        """Add all pages of another node."""
        self.pages += other.pages
        self.categories += other.categories
        self.number_sum += other.number_sum
        self.numbers += other.numbers


@dataclass(frozen=True, slots=True)
class SiteBox:
    """A box of the plot: its column, its top and height in pages, and what it stands for.

    A box of several small nodes has no name of its own; `grouped` are their names, largest first.
    """

    level: int
    top: float
    node: SiteNode
    grouped: tuple[str, ...] = ()

    @property
    def height(self) -> float:
        """The height in pages."""
        return float(self.node.pages)


def tree(pages: Sequence[SitePage]) -> SiteNode:
    """Return the root of the tree; folders that hold nothing but one folder are joined to it."""
    root = SiteNode("")
    for page in pages:
        here = root
        here.count(page)
        for name in page.path:
            here = here.children.setdefault(name, SiteNode(name))
            here.count(page)
        here.own += 1
    root.children = {each.name: each for each in map(_joined, root.children.values())}
    return root


def _joined(node: SiteNode) -> SiteNode:
    while len(node.children) == 1 and not node.own:
        [child] = node.children.values()
        child.name = f"{node.name}/{child.name}"
        node = child
    node.children = {each.name: each for each in map(_joined, node.children.values())}
    return node


def layout(root: SiteNode, *, least: float) -> Iterator[SiteBox]:
    """Yield the boxes of all levels, the largest first.

    Nodes of fewer than `least` pages, which have no room for a label, are grouped to one box.
    """
    yield from _boxes(root, 0, 0.0, least)


def _boxes(parent: SiteNode, level: int, top: float, least: float) -> Iterator[SiteBox]:
    if level == LEVELS or not parent.children:
        return
    inside = sorted(_with_index(parent, level), key=lambda each: (-each.pages, each.name))
    nodes = [node for node in inside if node.pages >= least]
    rest = inside[len(nodes) :]
    if len(rest) == 1 and not nodes:
        nodes, rest = rest, []
    for node in nodes:
        yield SiteBox(level, top, node)
        yield from _boxes(node, level + 1, top, least)
        top += node.pages
    if rest:
        yield SiteBox(level, top, _group(rest), tuple(map(counted_label, rest)))


def _with_index(parent: SiteNode, level: int) -> list[SiteNode]:
    """Return the children, and the pages at the path of the parent itself."""
    children = list(parent.children.values())
    if not parent.own:
        return children
    index = SiteNode(INDEX if level else FRONT, parent.own, parent.own)
    index.categories = parent.categories - sum((each.categories for each in children), Counter())
    index.numbers = parent.numbers - sum(each.numbers for each in children)
    index.number_sum = parent.number_sum - sum(each.number_sum for each in children)
    return [*children, index]


def _group(nodes: Sequence[SiteNode]) -> SiteNode:
    group = SiteNode("")
    for node in nodes:
        group.merge(node)
    return group


def label(node: SiteNode) -> str:
    """Return the name of a node, with a slash behind folders."""
    return f"{node.name}/" if node.children else node.name


def counted_label(node: SiteNode) -> str:
    """Return the name of a node, and the number of its pages if there are several."""
    return label(node) if node.pages == 1 else f"{label(node)} {node.pages:,}"


def depth_counts(pages: Sequence[SitePage]) -> dict[int, Counter[str | None]]:
    """Return the pages by clicks from the start, by category."""
    counts: dict[int, Counter[str | None]] = {}
    for page in pages:
        if page.depth is not None:
            counts.setdefault(page.depth, Counter())[page.category] += 1
    return dict(sorted(counts.items()))
