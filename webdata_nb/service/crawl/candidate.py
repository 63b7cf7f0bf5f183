"""A URL that may be fetched, and its encoding as JSON. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Candidate:
    """A URL that may be fetched.

    `depth` is the link depth from the start page. URLs with equal `key` are spellings of one URL.
    `score` is the importance that best first gave it.
    """

    url: str
    depth: int
    key: str = ""
    score: float | None = None


def encode_candidate(candidate: Candidate) -> list[Any]:
    """Return a candidate as JSON; a key that is the URL is not repeated."""
    key = None if candidate.key == candidate.url else candidate.key
    return [candidate.url, candidate.depth, key]


def decode_candidate(item: list[Any]) -> Candidate:
    """Return the candidate that `encode_candidate` encoded."""
    url, depth, key = item
    return Candidate(url, depth, url if key is None else key)
