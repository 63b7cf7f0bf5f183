"""Reads the values of Content-Usage, Content-Signal and robots directives. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from webdata_nb.contract.choices import Purpose
from webdata_nb.service.crawl.rights.signal import Says, Statement, combine, refuses
from webdata_nb.service.crawl.rights.structured_fields import parse_dictionary

# draft-ietf-aipref-vocab-08, 6.1 and 6.2.
_USAGE_LABELS: Final[dict[str, Purpose]] = {
    "train-ai": "ai-train",
    "ai-use": "ai-input",
    "search": "search",
}
_PREFERENCES: Final[dict[str | None, Statement]] = {"y": "allowed", "n": "refused"}
# contentsignals.org
_CONTENT_SIGNALS: Final[tuple[Purpose, ...]] = ("search", "ai-input", "ai-train")
_ANSWERS: Final[dict[str, Statement]] = {"yes": "allowed", "no": "refused"}
_DIRECTIVES: Final[dict[str, Says]] = {
    "noai": refuses("ai-input", "ai-train"),
    "noimageai": refuses("ai-input", "ai-train"),
    "noindex": refuses("search"),
    "none": refuses("search"),
}
# Directives of X-Robots-Tag that have a value of their own behind a colon.
_WITH_VALUE: Final = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")


def content_usage(value: str) -> Says:
    """Return what a Content-Usage value says (draft-ietf-aipref-vocab-08, 6.5).

    Labels and values of other versions of the draft say nothing.

    Examples
    --------
    >>> content_usage("train-ai=n, search=y, genai=n")
    {'ai-train': 'refused', 'search': 'allowed'}
    """
    members = parse_dictionary(value) or {}
    return {
        purpose: _PREFERENCES[members[label]]
        for label, purpose in _USAGE_LABELS.items()
        if members.get(label) in _PREFERENCES
    }


def content_signal(value: str) -> Says:
    """Return what a Content-Signal value says; of a signal with two answers, "no" counts.

    Examples
    --------
    >>> content_signal("ai-train=no, search=yes")
    {'ai-train': 'refused', 'search': 'allowed'}
    """
    return combine(_content_signals(value))


def _content_signals(value: str) -> Iterator[Says]:
    for part in value.lower().split(","):
        name, _, answer = (text.strip() for text in part.partition("="))
        statement = _ANSWERS.get(answer)
        purpose = next((each for each in _CONTENT_SIGNALS if each == name), None)
        if purpose is not None and statement is not None:
            yield {purpose: statement}


def robots_directives(value: str, token: str) -> Says:
    """Return what X-Robots-Tag or a robots meta tag says to the crawler named `token`.

    A name of a crawler before a colon holds for the directives behind it, to the next name.

    Examples
    --------
    >>> robots_directives("noindex, noai", "ExampleBot")
    {'search': 'refused', 'ai-input': 'refused', 'ai-train': 'refused'}
    >>> robots_directives("otherbot: noai", "ExampleBot")
    {}
    """
    return combine(_directives(value.lower(), token.lower()))


def _directives(value: str, token: str) -> Iterator[Says]:
    is_addressed = True
    for part in value.split(","):
        name, colon, rest = (text.strip() for text in part.partition(":"))
        # A name has no spaces: the time in a date, behind its comma, is none.
        if colon and name not in _WITH_VALUE and len(name.split()) == 1:
            is_addressed, name = name in {token, "*", "robots"}, rest
        if is_addressed and name in _DIRECTIVES:
            yield _DIRECTIVES[name]
