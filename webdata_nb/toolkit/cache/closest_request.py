"""Finds the cached request that is most similar to one without a cached result."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.cache import snapshots
from webdata_nb.toolkit.frames import receipt

_MAX_FILES: Final = 500
_MAX_DIFFERENCES: Final = 3
_SIMILARITY: Final = 0.6
# The fields that `subject` describes.
_SUBJECT_FIELDS: Final = frozenset({"query", "url", "advertiser_id"})


@dataclass(frozen=True, slots=True)
class CachedRequest:
    """A request with a cached result, without secrets, and the time of the result."""

    op: str
    subject: str
    request: Mapping[str, Any]
    at: datetime

    def similarity(self, other: CachedRequest) -> float:
        """Return the similarity of the subjects from 0 to 1, less a little for each difference."""
        ratio = difflib.SequenceMatcher(None, self.subject, other.subject).ratio()
        return ratio - 0.01 * len(self.differences(other))

    def differences(self, other: CachedRequest) -> list[str]:
        """Return the options that differ, as `name=value (not value)`."""
        own, options = _options(self.request), _options(other.request)
        return [
            f"{name}={_format_option(own, name)} (not {_format_option(options, name)})"
            for name in {**own, **options}
            if own.get(name) != options.get(name)
        ]

    def describe(self, wanted: CachedRequest) -> str:
        """Return a clause that says what was cached and how it differs from `wanted`."""
        text = f"{self.op} {receipt.shorten(self.subject)} of {self.at:%Y-%m-%d %H:%M} UTC"
        differences = self.differences(wanted)
        if differences:
            more = len(differences) - _MAX_DIFFERENCES
            listed = ", ".join(differences[:_MAX_DIFFERENCES])
            return f"{text} with {listed}{f' and {more} more' if more > 0 else ''}"
        return text if self.subject != wanted.subject else f"{text}, with another key or headers"


def closest_request(root: Path, wanted: CachedRequest, service: str) -> CachedRequest | None:
    """Return the most similar request to `service` with a cached result; None if none is similar.

    Only the newest results are compared.
    """
    files = heapq.nlargest(
        _MAX_FILES,
        (file for file in snapshots.all_files(root) if _op(file[0]) == wanted.op),
        key=lambda file: file[1],
    )
    best = max(_requests(files, service), key=wanted.similarity, default=None)
    if best is None or wanted.similarity(best) < _SIMILARITY:
        return None
    return best


def _requests(files: list[tuple[Path, datetime]], service: str) -> Iterator[CachedRequest]:
    for path, at in files:
        with suppress(OSError, ValueError, pa.ArrowException):
            footer = pq.read_metadata(path)
            stored = orjson.loads((footer.metadata or {}).get(b"PANDAS_ATTRS", b"{}"))
            attrs = stored.get("webdata", {})
            if attrs.get("service") == service:
                subject, request = attrs.get("subject") or "", attrs.get("request") or {}
                yield CachedRequest(_op(path), subject, request, at)


def _op(path: Path) -> str:
    return path.parent.parent.name


def _options(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a request without its subject, those of pages by their own name."""
    options: dict[str, Any] = {}
    for name, value in request.items():
        if name == "scrape_options" and isinstance(value, Mapping):
            options |= _options(value)
        elif name not in _SUBJECT_FIELDS:
            options[name] = value
    return options


def _format_option(options: Mapping[str, Any], name: str) -> str:
    return format_value(options[name]) if name in options else "the default"
