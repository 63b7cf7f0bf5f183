"""Part 6.1: signatures against other people's vectors, and what must not verify."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.requirements import require
from webdata_nb.contract.events import sign, verify_signature

SECRET = "s3cret"
BODY = b'{"event": "job.completed", "job_id": "j1"}'
GOOD = sign(BODY, SECRET)


class Raw(str):
    """A secret of arbitrary bytes, which no text can hold; Wycheproof's keys are such."""

    __slots__ = ("raw",)
    raw: bytes

    @classmethod
    def of(cls, raw: bytes) -> Raw:
        secret = cls("raw")
        secret.raw = raw
        return secret

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        del encoding, errors
        return self.raw


@pytest.mark.parametrize(
    ("secret", "body", "signature"),
    [
        # RFC 4231, test case 2, and the vector of GitHub's webhook documentation.
        (
            "Jefe",
            b"what do ya want for nothing?",
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            "It's a Secret to Everybody",
            b"Hello, World!",
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        ),
    ],
)
def test_published_vectors(secret: str, body: bytes, signature: str) -> None:
    assert sign(body, secret) == signature
    assert verify_signature(body, {"X-Service-Signature": signature}, secret)


def test_the_vectors_of_the_corpus() -> None:
    vectors = json.loads((require("corpora") / "own/webhook_signature_vectors.json").read_bytes())
    assert len(vectors) == 12
    for vector in vectors:
        body = base64.b64decode(vector["body_b64"])
        assert sign(body, vector["secret"]) == vector["signature"], vector["source"]
        headers = {"X-Webhook-Signature": vector["signature"]}
        assert verify_signature(body, headers, vector["secret"])


def test_wycheproof_vectors() -> None:
    path = require("corpora") / "hmac/wycheproof_hmac_sha256.json"
    groups = [g for g in json.loads(path.read_bytes())["testGroups"] if g["tagSize"] == 256]
    cases: list[dict[str, Any]] = [case for group in groups for case in group["tests"]]
    assert len(cases) == 87
    for case in cases:
        body, secret = bytes.fromhex(case["msg"]), Raw.of(bytes.fromhex(case["key"]))
        headers = {"X-Service-Signature": f"sha256={case['tag']}"}
        verdict = verify_signature(body, headers, secret)
        assert verdict is (case["result"] == "valid"), case["tcId"]


@pytest.mark.parametrize(
    "name", ["X-Service-Signature", "x-webhook-signature", "X-WEBHOOK-SIGNATURE"]
)
def test_both_header_families_in_any_case(name: str) -> None:
    assert verify_signature(BODY, {name: GOOD}, SECRET)


def test_both_header_families_must_match() -> None:
    both = {"X-Service-Signature": GOOD, "X-Webhook-Signature": GOOD}
    assert verify_signature(BODY, both, SECRET)
    for name in both:
        assert not verify_signature(BODY, {**both, name: sign(BODY, "other")}, SECRET)


Mutation = Callable[[bytes, str, str], tuple[bytes, dict[str, str], str]]


def header(change: Callable[[str], str]) -> Mutation:
    return lambda body, good, secret: (body, {"X-Service-Signature": change(good)}, secret)


# Named as in the corpus of mutations; those about the delivery's time are the receiver's.
MUTATIONS: dict[str, Mutation] = {
    "signature header absent while a secret is configured": lambda body, _, secret: (
        body,
        {},
        secret,
    ),
    "uppercase hex": header(lambda good: "sha256=" + good[7:].upper()),
    "sha256 prefix missing": header(lambda good: good[7:]),
    "prefix sha1=": header(lambda good: "sha1=" + good[7:]),
    "prefix SHA256=": header(lambda good: "SHA256=" + good[7:]),
    "hex truncated to 63": header(lambda good: good[:-1]),
    "hex with trailing space": header(lambda good: good + " "),
    "hex followed by ,second": header(lambda good: good + ",second"),
    "empty string": header(lambda _: ""),
    "non-ASCII bytes in header (compare_digest raises TypeError on str)": header(
        lambda good: good[:-1] + "é"
    ),
    "body re-serialised (json.loads/json.dumps)": lambda body, good, secret: (
        json.dumps(json.loads(body), separators=(",", ":")).encode(),
        {"X-Service-Signature": good},
        secret,
    ),
    "body with one byte flipped": lambda body, good, secret: (
        bytes([body[0] ^ 1]) + body[1:],
        {"X-Service-Signature": good},
        secret,
    ),
    "secret with one byte changed": lambda body, good, secret: (
        body,
        {"X-Service-Signature": good},
        secret[:-1] + "u",
    ),
    "signature of another job with the same secret": lambda body, _, secret: (
        body,
        {"X-Service-Signature": sign(body.replace(b"j1", b"j2"), secret)},
        secret,
    ),
}
OF_THE_RECEIVER = {
    "X-Service-Delivery older than 300 s",
    "X-Service-Delivery in the future by more than 300 s",
    "X-Service-Delivery not an integer",
    "same delivery replayed twice inside the tolerance",
    "gzip-encoded body verified after decoding",
}
TWO_HEADERS = "two signature headers"


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_invalid_signatures_do_not_verify(mutation: str) -> None:
    body, headers, secret = MUTATIONS[mutation](BODY, GOOD, SECRET)
    assert verify_signature(body, headers, secret) is False


def test_the_mutations_are_those_of_the_corpus() -> None:
    path = require("corpora") / "own/webhook_signature_mutations.json"
    named = {entry["mutation"] for entry in json.loads(path.read_bytes())}
    assert named == {*MUTATIONS, *OF_THE_RECEIVER, TWO_HEADERS}


def test_an_empty_secret_never_verifies() -> None:
    assert not verify_signature(BODY, {"X-Service-Signature": sign(BODY, "")}, "")
