"""Judges URLs that a page has only as the targets of its links and images."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from html import unescape
from itertools import islice
from typing import Final, Literal

from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.page.content.class_names import word_set
from webdata_nb.page.content.links import (
    LAZY_ATTRIBUTES,
    SRCSET_ATTRIBUTES,
    parse_srcset,
)
from webdata_nb.page.errors import FetchError
from webdata_nb.page.extract.evidence.claims import Claim
from webdata_nb.page.extract.evidence.judgement import ValueEvidence, Verdict
from webdata_nb.page.extract.evidence.occurrences import URL_TEXT
from webdata_nb.page.extract.evidence.page_index import PageIndex, Span
from webdata_nb.page.extract.evidence.page_tree import ROOT
from webdata_nb.page.extract.field_names import split_words
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

    start: int
    end: int
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
        targets = self._find(str(claim.value).strip())
        if not targets:
            return None
        own = [each for each in targets if is_own_record(self._index.place_of(each.element))]
        if not own:
            reason = "the page gives it for another record"
            return self._evidence(claim, targets[0], "unsupported", reason)
        fitting = [each for each in own if self._fits(claim, each)]
        if not fitting:
            reason = f"the page gives it as {own[0].kind}"
            return self._evidence(claim, own[0], "unsupported", reason)
        best = max(fitting, key=lambda each: self._text(each) == claim.value)
        verdict: Verdict = "verbatim" if self._text(best) == claim.value else "derived"
        return self._evidence(claim, best, verdict, f"as the target of {best.kind}")

    def _evidence(
        self, claim: Claim, target: UrlAttribute, verdict: Verdict, reason: str
    ) -> ValueEvidence:
        quote = self._index.tree.quote(target.start, target.end)
        return ValueEvidence(claim.pointer, verdict, target.start, target.end, quote, reason)

    def _text(self, target: UrlAttribute) -> str:
        return self._index.tree.source[target.start : target.end]

    def _fits(self, claim: Claim, target: UrlAttribute) -> bool:
        """Return whether a field of images has an image, and one of links no image."""
        words = set(split_words("_".join(claim.path)))
        is_image = target.is_image or bool(_IMAGE_FILE.search(str(claim.value)))
        if not _IMAGE_WORDS.isdisjoint(words):
            return is_image
        return not target.is_image or _LINK_WORDS.isdisjoint(words)

    def _find(self, value: str) -> list[UrlAttribute]:
        if not URL_TEXT.fullmatch(value) or self._joiner is None:
            return []
        url = self._joiner.join(value)
        return [] if url is None else self._by_url.get(canonical_key(url), [])

    @cached_property
    def _joiner(self) -> UrlJoiner | None:
        tree = self._index.tree
        base = next((n for n, name in enumerate(tree.names) if name == "base"), ROOT)
        try:
            joiner = UrlJoiner(self._url)
            href = "" if base == ROOT else self._attribute(base, "href")
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
                value = self._attribute(element, name)
                start = tree.starts[element] + tree.opening(element).find(value)
                for text in _urls_of(name, value):
                    at = start + value.find(text)
                    yield UrlAttribute(at, at + len(text), element, _kind_of(tag, name))

    def _attribute(self, element: int, name: str) -> str:
        return self._index.tree.attributes(element).get(name, "")


def _kind_of(tag: str, attribute: str) -> TargetKind:
    if tag == "img" or attribute in _IMAGE_ATTRIBUTES:
        return "an image"
    return "a media file" if tag in _MEDIA_TAGS else "a link"


def _urls_of(attribute: str, value: str) -> Iterator[str]:
    if attribute in SRCSET_ATTRIBUTES:
        yield from (url for _, url in parse_srcset(value))
    elif value:
        yield value
