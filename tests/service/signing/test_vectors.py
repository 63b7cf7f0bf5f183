"""The published vectors: RFC 9421, RFC 8037, and the drafts of Web Bot Auth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.service.signing.verifier import Verifier, verify_directory
from webdata_nb.service.signing.message_signature import (
    CoveredComponent,
    SigningKey,
    SigningKeySet,
    sign_message,
    signature_base,
    signature_headers,
    signature_input_of,
)
from webdata_nb.service.signing.request_signer import request_headers

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_bytes())
TEST_KEY = SigningKey.from_jwk({**VECTORS["key"]["jwk"], "nbf": 0})
SOURCES = {vector["source"]: vector for vector in VECTORS["messages"]}


def components_of(vector: dict[str, Any]) -> list[CoveredComponent]:
    return [CoveredComponent(*pair) for pair in vector["components"]]


@pytest.mark.parametrize("source", SOURCES)
def test_signatures_are_those_of_the_documents(source: str) -> None:
    vector = SOURCES[source]
    signed = sign_message(
        vector["label"], components_of(vector), vector["parameters"], TEST_KEY.sign
    )
    assert signature_headers([signed]) == {
        "Signature-Input": vector["signature_input"],
        "Signature": vector["signature"],
    }
    if "base" in vector:
        written = signature_input_of(components_of(vector), vector["parameters"])
        assert signature_base(components_of(vector), written) == vector["base"]


def test_thumbprints_are_those_of_the_documents() -> None:
    assert TEST_KEY.thumbprint == VECTORS["key"]["thumbprint"]
    # RFC 8037, A.1 to A.3.
    jwk = {
        "kty": "OKP",
        "crv": "Ed25519",
        "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    }
    key = SigningKey.from_jwk({**jwk, "nbf": 0})
    assert key.thumbprint == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_the_verifier_of_these_tests_accepts_the_vectors() -> None:
    source = next(name for name in SOURCES if "signed directory" in name)
    vector, body = SOURCES[source], VECTORS["directory_body"].encode()
    headers = {
        "content-digest": vector["components"][1][1],
        "signature-input": vector["signature_input"],
        "signature": vector["signature"],
    }
    assert len(verify_directory("signature-agent.test", headers, body, 1735689600)) == 1


def test_a_signed_request_is_verified_with_the_directory_alone() -> None:
    keys = SigningKeySet("https://signature-agent.test", (TEST_KEY,))
    nonce = (
        "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA=="
    )
    signed = request_headers(keys, "GET", "Example.com", "", now=1735689600.9, nonce=nonce)
    headers = {name.lower(): value for name, value in signed.items()} | {"host": "example.com"}
    verifier = Verifier(lambda _agent: json.loads(VECTORS["directory_body"]))
    verified = verifier.verify_request("GET", "/?a=1", headers, now=1735689600)
    assert verified.agent == "https://signature-agent.test"
    assert verified.parameters["expires"] == 1735689900
