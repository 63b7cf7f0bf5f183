"""The evidence of values as JSON: for page workers, and for the metadata of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, Final, get_args

from webdata_nb.page.extract.evidence.judgement import ValueEvidence, Verdict

EVIDENCE: Final = "evidence"
"""The name of the evidence among a page's formats; not a public format."""
_FIELDS: Final = {each.name for each in fields(ValueEvidence)}
_VERDICTS: Final = frozenset(get_args(Verdict))


def evidence_to_json(evidence: Sequence[ValueEvidence]) -> list[dict[str, Any]]:
    """Return the message that a page worker sends."""
    return [asdict(each) for each in evidence]


def evidence_from_json(value: Any) -> list[ValueEvidence]:
    """Validate and parse the message of a page worker; raises `ValueError`."""
    entries = value if isinstance(value, list) else [value]
    return [_one_from_json(each) for each in entries]


def _one_from_json(value: Any) -> ValueEvidence:
    if not isinstance(value, dict) or set(value) != _FIELDS:
        raise ValueError("the value is no evidence")
    evidence = ValueEvidence(**value)
    texts = (evidence.pointer, evidence.reason, evidence.quote or "", evidence.verdict)
    offsets = (evidence.start, evidence.end)
    are_offsets = all(each is None or (type(each) is int and each >= 0) for each in offsets)
    if not all(isinstance(text, str) for text in texts) or not are_offsets:
        raise ValueError("the value is no evidence")
    if evidence.verdict not in _VERDICTS:
        raise ValueError("the value is no evidence")
    return evidence


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
