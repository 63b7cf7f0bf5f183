"""Every kind of finding of an audit: name, severity, meaning, threshold, source.

The kinds are in `issues.toml`, which is read when an audit needs them. The guide's table follows
from it (`website/` generates it), and so do the order and the severity of findings.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

Severity = Literal["error", "warning", "notice"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "notice")

# Characters of titles, descriptions and headings, and words of the content.
TITLE_LENGTH: Final = (30, 60)
DESCRIPTION_LENGTH: Final = (70, 155)
H1_LENGTH: Final = (5, 70)
MIN_WORDS: Final = 200
# Estimated share of common pairs of words.
MIN_SIMILARITY: Final = 0.9
# What web.dev calls a poor time to the first byte; ours has the whole page, and its redirects.
MAX_SECONDS: Final = 1.8
MAX_BYTES: Final = 2 * 1024 * 1024
MAX_DEPTH: Final = 3
MAX_LINKS: Final = 3000
_THRESHOLDS: Final = {
    "title_length": TITLE_LENGTH,
    "description_length": DESCRIPTION_LENGTH,
    "h1_length": H1_LENGTH,
    "min_words": MIN_WORDS,
    "min_similarity": MIN_SIMILARITY,
    "max_seconds": MAX_SECONDS,
    "max_depth": MAX_DEPTH,
    "max_links": MAX_LINKS,
}


@dataclass(frozen=True, slots=True)
class IssueKind:
    """A kind of finding.

    Attributes
    ----------
    name
        The value of the column `issue`.
    severity
        What it costs: visitors or indexing (`error`), quality (`warning`), or nothing for sure.
    meaning
        What is wrong, as a clause.
    source
        Where the rule or its threshold comes from.
    """

    name: str
    severity: Severity
    meaning: str
    source: str


@cache
def issue_kinds() -> Mapping[str, IssueKind]:
    """Return every kind of finding by its name, in the order of findings."""
    kinds: dict[str, IssueKind] = {}
    for severity in SEVERITIES:
        for name, (meaning, source) in _data()[severity].items():
            kinds[name] = IssueKind(name, severity, meaning.format(**_THRESHOLDS), source)
    return kinds


@cache
def language_codes() -> frozenset[str]:
    """Return the language codes of ISO 639-1, which `hreflang` allows."""
    return frozenset(_data()["language_codes"].split())


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
