"""The results of extraction: data with their sources, and the evidence of values in a page.

Page workers send them, and the service stores them; it needs none of the code that finds them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

EXTRACTION: Final = "extraction"
"""The name of the extraction among a page's formats; not a public format."""

EVIDENCE: Final = "evidence"
"""The name of the evidence among a page's formats; not a public format."""

MAX_ERROR_CHARS: Final = 500
_Pointer = Annotated[str, Meta(pattern="^/")]

Verdict = Literal["verbatim", "derived", "unsupported"]


class Extraction(Struct, frozen=True):
    """The data extracted from a page; also the message of a page worker.

    Attributes
    ----------
    data
        Every property of the schema, in its order; None if the page has no value.
    provenance
        The source of each value, by JSON pointer:
        ``"json_ld:Product/offers/price"``, ``"opengraph:og:title"``, ``"table:2/Weight"``.
    missing
        JSON pointers of the fields without a value, required or not.
    conflicts
        By JSON pointer, the declared values that the page contradicts, so that the value it shows
        was used.
    notes
        Remarks on the page's data for the user.
    error
        Why the page's data could not be read; empty if it was.
    """

    data: dict[str, Any]
    provenance: dict[_Pointer, str]
    missing: tuple[_Pointer, ...]
    conflicts: dict[str, list[Any]] = {}
    notes: tuple[str, ...] = ()
    error: Annotated[str, Meta(max_length=MAX_ERROR_CHARS)] = ""


class ValueEvidence(Struct, frozen=True, forbid_unknown_fields=True):
    """What a page says of an extracted value.

    Attributes
    ----------
    pointer
        The JSON pointer of the value.
    verdict
        Whether the page contains it as it is, in another notation, or not for this field.
    start, end
        The place in the page's source; None without one.
    quote
        The source at that place, at most 300 characters.
    reason
        Why it has this verdict.
    """

    pointer: str
    verdict: Verdict
    start: Annotated[int, Meta(ge=0)] | None = None
    end: Annotated[int, Meta(ge=0)] | None = None
    quote: str | None = None
    reason: str = ""


def page_digest(page: str) -> str:
    """Return the first 32 hex digits of the SHA-256 of a page's source in UTF-8."""
    return hashlib.sha256(page.encode("utf-8", "replace")).hexdigest()[:32]


def evidence_metadata(page: str, evidence: Sequence[ValueEvidence]) -> dict[str, Any]:
    """Return the evidence of a row's values for its metadata: digest, spans and quotes."""
    return {
        "digest": page_digest(page),
        "values": {
            each.pointer: {"start": each.start, "end": each.end, "quote": each.quote}
            for each in evidence
            if each.verdict != "unsupported" and each.start is not None
        },
        "unsupported": [each.pointer for each in evidence if each.verdict == "unsupported"],
    }
