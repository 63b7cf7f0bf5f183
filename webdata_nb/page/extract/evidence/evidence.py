"""Finds the evidence of a page's extracted values. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from html import unescape
from itertools import groupby, islice
from typing import Any, Final, Literal

from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.page.content.block_tree import word_set
from webdata_nb.page.content.links import LAZY_ATTRIBUTES, SRCSET_ATTRIBUTES, parse_srcset
from webdata_nb.page.errors import FetchError
from webdata_nb.page.extract.evidence.claims import (
    URL_TEXT,
    Claim,
    ClaimGroup,
    Occurrence,
    PageRecords,
    Places,
    assign_records,
    find_value,
    group_claims,
    is_identity,
    is_within,
)
from webdata_nb.page.extract.evidence.judgement import (
    ClaimJudge,
    OwnParts,
    ShownPage,
    StateJudge,
    is_state,
)
from webdata_nb.page.extract.evidence.labels import FieldLabels, read_span_labels
from webdata_nb.page.extract.evidence.page_index import ROOT, PageIndex, Span, scan_html
from webdata_nb.page.extract.field_names import split_words
from webdata_nb.page.extract.results import ValueEvidence, Verdict
from webdata_nb.page.urls import UrlJoiner

_MAX_TARGETS: Final = 20_000
_ATTRIBUTES: Final = {
    "a": ("href",),
    "area": ("href",),
    "link": ("href",),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "img": ("src", *LAZY_ATTRIBUTES, *SRCSET_ATTRIBUTES),
    "source": ("src", *SRCSET_ATTRIBUTES),
}
"""Attributes with URLs, by the name of their element."""
_MEDIA_TAGS: Final = frozenset({"video", "audio", "source"})
_IMAGE_ATTRIBUTES: Final = frozenset({"poster", *SRCSET_ATTRIBUTES})
_IMAGE_WORDS: Final = word_set(
    "image images img photo photos picture pictures thumbnail thumb logo icon avatar cover poster"
)
_LINK_WORDS: Final = word_set("url urls link links href page website homepage")
_IMAGE_FILE: Final = re.compile(r"\.(?:avif|bmp|gif|jpe?g|png|svg|webp)(?:$|\?)", re.IGNORECASE)

TargetKind = Literal["an image", "a media file", "a link"]
"""What has a URL, as messages say."""


@dataclass(frozen=True, slots=True)
class UrlAttribute:
    """A URL in an attribute, with its place in the source."""

    span: Span
    element: int
    kind: TargetKind

    @property
    def is_image(self) -> bool:
        """Whether it is the URL of an image."""
        return self.kind == "an image"


class LinkTargets:
    """The targets of a page's links and images.

    Parameters
    ----------
    index
        The page.
    url
        Its URL, against which targets are resolved.
    """

    def __init__(self, index: PageIndex, url: str) -> None:
        self._index, self._url = index, url

    def judge(self, claim: Claim, is_own_record: Callable[[Span], bool]) -> ValueEvidence | None:
        """Return the evidence of a URL; None if it is no URL, or no target of the page."""
        tree, value = self._index.tree, str(claim.value).strip()
        joiner = self._joiner if URL_TEXT.fullmatch(value) else None
        url = None if joiner is None else joiner.join(value)
        targets = [] if url is None else self._by_url.get(canonical_key(url), [])
        if not targets:
            return None
        own = [each for each in targets if is_own_record(self._index.place_of(each.element))]
        if not own:
            reason = "the page gives it for another record"
            return tree.evidence(claim.pointer, "unsupported", targets[0].span, reason)
        # A field of images has an image, and one of links no image.
        words = set(split_words("_".join(claim.path)))
        is_file = _IMAGE_FILE.search(value) is not None
        if not _IMAGE_WORDS.isdisjoint(words):
            fitting = [each for each in own if each.is_image or is_file]
        else:
            allows_images = _LINK_WORDS.isdisjoint(words)
            fitting = [each for each in own if allows_images or not each.is_image]
        if not fitting:
            reason = f"the page gives it as {own[0].kind}"
            return tree.evidence(claim.pointer, "unsupported", own[0].span, reason)
        best = max(fitting, key=lambda each: self._text(each) == claim.value)
        verdict: Verdict = "verbatim" if self._text(best) == claim.value else "derived"
        return tree.evidence(claim.pointer, verdict, best.span, f"as the target of {best.kind}")

    def _text(self, target: UrlAttribute) -> str:
        return self._index.tree.source[slice(*target.span)]

    @cached_property
    def _joiner(self) -> UrlJoiner | None:
        tree = self._index.tree
        base = next((n for n, name in enumerate(tree.names) if name == "base"), ROOT)
        try:
            joiner = UrlJoiner(self._url)
            href = "" if base == ROOT else tree.attributes(base).get("href", "")
            return UrlJoiner(joiner.join(href) or self._url) if href else joiner
        except FetchError:
            return None

    @cached_property
    def _by_url(self) -> dict[str, list[UrlAttribute]]:
        by_url: dict[str, list[UrlAttribute]] = {}
        if (joiner := self._joiner) is None:
            return by_url
        for target in islice(self._targets(), _MAX_TARGETS):
            url = joiner.join(unescape(self._text(target)).strip())
            if url is not None:
                by_url.setdefault(canonical_key(url), []).append(target)
        return by_url

    def _targets(self) -> Iterator[UrlAttribute]:
        tree = self._index.tree
        for element, tag in enumerate(tree.names):
            for name in _ATTRIBUTES.get(tag, ()):
                value = tree.attributes(element).get(name, "")
                start = tree.starts[element] + tree.opening(element).find(value)
                kind: TargetKind = "a media file" if tag in _MEDIA_TAGS else "a link"
                if tag == "img" or name in _IMAGE_ATTRIBUTES:
                    kind = "an image"
                in_set = name in SRCSET_ATTRIBUTES
                for text in (url for _, url in parse_srcset(value)) if in_set else (value,):
                    at = start + value.find(text)
                    if text:
                        yield UrlAttribute((at, at + len(text)), element, kind)


_MAX_PARTS: Final = 50
_LIST_SEPARATOR: Final = re.compile(r"[,;|\u2022\u00b7\n]|\s(?:/|&|and)\s")
_MIN_IDENTITY: Final = 4
_NO_URL: Final = "http://page.invalid/"


def find_evidence(page: str, data: Mapping[str, Any], *, url: str = _NO_URL) -> list[ValueEvidence]:
    """Return the evidence of each value in the data that was extracted from a page.

    Parameters
    ----------
    page
        The source of the page.
    data
        The extracted data. Null and empty lists are no values.
    url
        The URL of the page.

    Examples
    --------
    >>> page = "<h1>Copper kettle</h1><p>Price: 1.129,90 EUR</p>"
    >>> for found in find_evidence(page, {"name": "Copper kettle", "price": 1129.9, "sku": "K-1"}):
    ...     print(found.pointer, found.verdict, found.quote)
    /name verbatim Copper kettle
    /price derived 1.129,90
    /sku unsupported None
    """
    groups = group_claims(data)
    if not groups:
        return []
    index = PageIndex.of_tree(scan_html(page))
    return list(_EvidenceFinder(index, url).find(groups))


class _EvidenceFinder:
    """Finds the evidence of the values of one page."""

    def __init__(self, index: PageIndex, url: str) -> None:
        self._index, self._records = index, PageRecords(index)
        self._shown = ShownPage(index.tree.source)
        self._link_targets = LinkTargets(index, url)

    def find(self, groups: Sequence[ClaimGroup]) -> Iterator[ValueEvidence]:
        for list_pointer, entries in groupby(groups, key=lambda group: group.list_pointer):
            if not list_pointer:
                yield from (each for group in entries for each in self._find_subject(group))
                continue
            # Each entry of a list is found in the part of the page that describes it.
            listed = list(entries)
            places: dict[str, Sequence[Occurrence]] = {}
            for group in listed:
                places |= self._places(group)
            parts = assign_records(self._index, self._records, listed, places)
            all_parts = {part for own in parts.values() for part in own}
            parents = {self._index.tree.parents[part] for part in all_parts}
            whole = 0, len(self._index.text)
            containers = [whole if p == ROOT else self._index.text_span(p) for p in parents]
            for number, group in enumerate(listed):
                own = [self._index.text_span(part) for part in parts.get(number, ())]
                if own:
                    within = self._places(group, own)
                    nearest = {at: own_places or places[at] for at, own_places in within.items()}
                    contains = partial(_is_in_parts, own, containers)
                    yield from self._judge(group, nearest, OwnParts(contains, own))
                elif all_parts:
                    outside = OwnParts(partial(_is_outside, containers), ())
                    yield from self._judge(group, places, outside)
                else:
                    yield from self._find_subject(group)

    def _find_subject(self, group: ClaimGroup) -> Iterator[ValueEvidence]:
        """Find the values of the thing that a page is about, outside of the cards of others."""
        places = self._places(group)
        # The cards that describe the subject are those with its name or code, and where the page
        # has nothing but cards, the one with most of its values.
        cards = {claim.pointer: self._cards_of(places[claim.pointer]) for claim in group.claims}
        outside = sum(ROOT in found for found in cards.values())
        own: set[int] = set()
        fields = FieldLabels(group.paths)
        for claim in group.claims:
            found = cards[claim.pointer]
            if ROOT in found and is_identity(claim.path) and len(str(claim.value)) >= _MIN_IDENTITY:
                is_labelled = any(  # outside of all cards
                    claim.path in read_span_labels(self._index, each.span, fields).fields
                    for each in places[claim.pointer]
                    if self._cards_of([each]) == {ROOT}
                )
                own |= found if is_labelled else set()
        counts: dict[int, int] = {}
        for found in cards.values():
            for card in found if ROOT not in found else ():
                counts[card] = counts.get(card, 0) + 1
        if counts and max(counts.values()) > max(outside, 1 if outside else 0):
            own.add(max(counts, key=lambda card: (counts[card], -card)))
        index, cards_around = self._index, self._records.cards
        own_parts = OwnParts(lambda at: own.issuperset(cards_around(index.element_at(at[0]))))
        yield from self._judge(group, places, own_parts)

    def _cards_of(self, occurrences: Sequence[Occurrence]) -> set[int]:
        elements = (self._index.element_at(each.span[0]) for each in occurrences)
        return {self._records.card(element) for element in elements}

    def _places(
        self, group: ClaimGroup, parts: Sequence[Span | None] = (None,)
    ) -> dict[str, Sequence[Occurrence]]:
        """Return the places of values in parts of the page; a state is not looked for."""
        return {
            claim.pointer: [
                each
                for part in (() if is_state(claim) else parts)
                for each in find_value(self._index, claim.value, part)
            ]
            for claim in group.claims
        }

    def _judge(self, group: ClaimGroup, places: Places, own: OwnParts) -> Iterator[ValueEvidence]:
        fields = FieldLabels(group.paths)
        judge = ClaimJudge(self._index, fields, own.contains, group.claims)
        states = StateJudge(self._index, fields, own, self._shown)
        for claim in group.claims:
            if is_state(claim):
                yield states.judge(claim)
                continue
            found = judge.judge(claim, places[claim.pointer])
            if found.start is None and isinstance(claim.value, str):
                by_link = self._link_targets.judge(claim, own.contains)
                found = by_link or self._judge_joined(claim, fields, own) or found
            yield found

    def _judge_joined(
        self, claim: Claim, fields: FieldLabels, own: OwnParts
    ) -> ValueEvidence | None:
        """Return the evidence of a text whose parts are the items of one list of the page."""
        texts = _LIST_SEPARATOR.split(str(claim.value))
        parts = [part for text in texts if (part := text.strip())]
        if not 1 < len(parts) <= _MAX_PARTS:
            return None
        items = [Claim(claim.pointer, claim.path, part) for part in parts]
        judge = ClaimJudge(self._index, fields, own.contains, items)
        found = [judge.judge(item, find_value(self._index, item.value)) for item in items]
        starts = [
            each.start for each in found if each.start is not None and each.verdict != "unsupported"
        ]
        if len(starts) != len(parts):
            return None
        tree = self._index.tree
        parents = {
            tree.parents[element] for start in starts if (element := tree.element_at(start)) != ROOT
        }
        if len(parents) != 1:
            return None
        span = min(starts), max(each.end or 0 for each in found)
        return tree.evidence(claim.pointer, "derived", span, "as items of a list")


def _is_in_parts(own: Sequence[Span], containers: Sequence[Span], span: Span) -> bool:
    return any(is_within(span, part) for part in own) or _is_outside(containers, span)


def _is_outside(containers: Sequence[Span], span: Span) -> bool:
    return not any(is_within(span, container) for container in containers)
