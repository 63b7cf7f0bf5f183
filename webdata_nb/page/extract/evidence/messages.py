"""The evidence of values in the metadata of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from webdata_nb.page.extract.evidence.judgement import ValueEvidence

EVIDENCE: Final = "evidence"
"""The name of the evidence among a page's formats; not a public format."""


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
