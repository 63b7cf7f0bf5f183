"""Error bodies of foreign services: what they mean, and that they show no key."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from webdata_nb.service.foreign_services import MAX_REASON_CHARS, mask_keys, read_error

KEY = "sk-proj-Ab1cdefghijklmnopqrstuvw9xyz"


@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        ({"message": "Unauthorized."}, "auth", "Unauthorized."),
        ({"error": {"message": "Bad credentials"}}, "auth", "Bad credentials"),
        ({"error": {"code": 7, "details": [{"reason": "No API key"}]}}, "auth", "No API key"),
        ({"detail": "Your trial has ended"}, "auth", "Your trial has ended"),
        ({"errors": [{"message": "Account suspended"}]}, "auth", "Account suspended"),
        ({"message": "Not enough credits"}, "quota", "Not enough credits"),
        ({"error": {"type": "insufficient_quota"}}, "quota", ""),
        ({"error": "Too many requests"}, "rate_limited", "Too many requests"),
        ({"detail": [{"loc": ["body", "q"], "msg": "too long"}]}, None, "q: too long"),
        ({"error": {"message": "model 'invalid api key' is unknown"}}, None, "model 'inv"),
        ({"fine": True}, None, ""),
        ([1, {"a": []}], None, ""),
        (None, None, ""),
    ],
)
def test_json_of_any_structure_is_read(body: Any, kind: str | None, reason: str) -> None:
    found = read_error(orjson.dumps(body), status=400)
    assert (found.kind, found.reason[: len(reason)]) == (kind, reason)
    assert bool(found.reason) == bool(reason)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"  quota\n\tof today \x1b[31m reached ", "quota of today [31m reached"),
        (b"<!doctype html><p>Invalid API key", ""),
        (b"\x89PNG\0\xff", ""),
        (b"", ""),
        (b"x" * 300_000, ""),
        (b"[" * 100_000, ""),
    ],
)
def test_other_bodies_are_text_or_nothing(body: bytes, reason: str) -> None:
    assert read_error(body, status=500).reason[:MAX_REASON_CHARS].startswith(reason)
    assert len(read_error(body, status=500).reason) <= MAX_REASON_CHARS


def test_message_is_cut_after_its_keys_are_masked() -> None:
    text = "é" * 190 + f" {KEY} and more"
    reason = read_error(orjson.dumps({"error": text}), status=400, secrets=[KEY]).reason
    assert (len(reason), reason.startswith("é" * 190 + " ***")) == (MAX_REASON_CHARS, True)


@pytest.mark.parametrize(
    "text",
    [
        f"bad key {KEY}",
        f"bad key {KEY.upper()}",
        "bad key sk-proj-Ab1c****************9xyz",
        "the key ending in 9xyz is revoked",
        "the key that begins with sk-proj-Ab1c is revoked",
        "GET /search?api_key=hunter2&q=x",
        "Authorization: Bearer hunter2",
        "another key: sk-ant-REDACTED",
    ],
)
def test_keys_are_masked(text: str) -> None:
    masked = mask_keys(text, [KEY])
    assert "***" in masked
    for secret in ("9xyz", "Ab1c", "ab1cdef", "hunter2", "0123456789"):
        assert secret not in masked.replace(secret.upper(), secret)


def test_ordinary_words_are_not_masked() -> None:
    text = "Invalid API key: see https://example.com/docs/keys?lang=en, or request 4f0c-11"
    assert mask_keys(text, ["k", "test", "", None]) == text


def test_quota_of_a_429_is_one_that_is_renewed() -> None:
    body = orjson.dumps({"error": {"message": "You exceeded your current quota"}})
    assert read_error(body, status=403).kind == "quota"
    assert read_error(body, status=429).kind == "rate_limited"
