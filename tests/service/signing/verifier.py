"""Verifies signatures as a site does, written from RFC 9421 and the draft of Web Bot Auth.

It shares no code with the service.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

LARGEST_LIFETIME_S: Final = 24 * 3600
_MEMBER: Final = re.compile(r'([a-z*][a-z0-9_.*-]*)=((?:"(?:[^"\\]|\\.)*"|[^",])*)(?:, ?|$)')
_SIGNED: Final = re.compile(r"\(([^()]*)\)((?:;[a-z]+=(?:\"[^\"]*\"|\d+))*)")
_IDENTIFIER: Final = re.compile(r'"[^"]+"(?:;[a-z]+(?:="[^"]*")?)*')
_PARAMETER: Final = re.compile(r';([a-z]+)=(?:"([^"]*)"|(\d+))')


class NotVerified(Exception):
    """Why a message is not verified."""


@dataclass(frozen=True, slots=True)
class Verified:
    """Who signed a message, with which key and parameters."""

    agent: str
    covered: tuple[str, ...]
    parameters: Mapping[str, str | int]

    @property
    def keyid(self) -> str:
        return str(self.parameters["keyid"])


@dataclass(slots=True)
class Verifier:
    """A site that verifies requests; it accepts each nonce once.

    `directory_of` returns the directory at an origin, as the site would fetch it.
    """

    directory_of: Callable[[str], Mapping[str, Any]]
    nonces: set[str] = field(default_factory=set)

    def verify_request(
        self, method: str, target: str, headers: Mapping[str, str], now: float
    ) -> Verified:
        """Verify a request as it was received; `headers` have names in lower case."""
        agents = members(headers["signature-agent"])
        inputs, signatures = members(headers["signature-input"]), members(headers["signature"])
        if not inputs.keys() == signatures.keys() == agents.keys() or len(inputs) != 1:
            raise NotVerified("the labels differ")
        [label] = inputs
        host = headers["host"].lower()
        values = {
            '"@method"': method,
            '"@authority"': host.removesuffix(":80"),
            '"@path"': target.partition("?")[0] or "/",
            f'"signature-agent";key="{label}"': agents[label],
        }
        agent = json.loads(agents[label])
        verified = _verify(inputs[label], signatures[label], values, self.directory_of(agent), now)
        required = {'"@authority"', f'"signature-agent";key="{label}"'}
        if not required <= set(verified.covered):
            raise NotVerified("too little is covered")
        if verified.parameters["tag"] != "web-bot-auth":
            raise NotVerified("another tag")
        lifetime_s = int(verified.parameters["expires"]) - int(verified.parameters["created"])
        if lifetime_s > LARGEST_LIFETIME_S:
            raise NotVerified("valid for too long")
        nonce = str(verified.parameters["nonce"])
        if nonce in self.nonces or len(base64.b64decode(nonce, validate=True)) != 64:
            raise NotVerified("the nonce was used before")
        self.nonces.add(nonce)
        return Verified(agent, verified.covered, verified.parameters)


def verify_directory(
    authority: str, headers: Mapping[str, str], body: bytes, now: float
) -> list[Verified]:
    """Verify that each key of a directory has signed it for an authority."""
    directory = json.loads(body)
    digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
    if headers["content-digest"] != f"sha-256=:{digest}:":
        raise NotVerified("another body")
    values = {'"@authority";req': authority, '"content-digest"': headers["content-digest"]}
    inputs, signatures = members(headers["signature-input"]), members(headers["signature"])
    found = [
        _verify(inputs[label], signatures[label], values, directory, now) for label in signatures
    ]
    if [each.keyid for each in found] != [jwk["kid"] for jwk in directory["keys"]]:
        raise NotVerified("not every key has signed once")
    if any(each.parameters["tag"] != "http-message-signatures-directory" for each in found):
        raise NotVerified("another tag")
    return found


def _verify(
    signature_input: str,
    signature: str,
    values: Mapping[str, str],
    directory: Mapping[str, Any],
    now: float,
) -> Verified:
    match = _SIGNED.fullmatch(signature_input)
    if match is None:
        raise NotVerified(f"malformed: {signature_input}")
    covered = tuple(_IDENTIFIER.findall(match[1]))
    if " ".join(covered) != match[1] or len(set(covered)) != len(covered):
        raise NotVerified("malformed components")
    parameters = {
        name: text if number == "" else int(number)
        for name, text, number in _PARAMETER.findall(match[2])
    }
    created, expires = int(parameters["created"]), int(parameters["expires"])
    if not created <= now < expires:
        raise NotVerified(f"not valid at {now}: {created} to {expires}")
    lines = [f"{name}: {values[name]}" for name in covered]
    base = "\n".join([*lines, f'"@signature-params": {signature_input}'])
    jwks = [jwk for jwk in directory["keys"] if thumbprint(jwk) == parameters["keyid"]]
    if not jwks:
        raise NotVerified("the directory has no such key")
    if parameters.get("alg", "ed25519") != "ed25519":
        raise NotVerified("another algorithm")
    key = Ed25519PublicKey.from_public_bytes(_from_base64url(jwks[0]["x"]))
    try:
        key.verify(base64.b64decode(signature.strip(":"), validate=True), base.encode("ascii"))
    except Exception as error:
        raise NotVerified("a wrong signature") from error
    return Verified("", covered, parameters)


def members(text: str) -> dict[str, str]:
    """Return the members of a dictionary of structured fields, as they are written."""
    found = _MEMBER.findall(text)
    if len(found) != len(dict(found)) or not found:
        raise NotVerified(f"malformed: {text}")
    return dict(found)


def thumbprint(jwk: Mapping[str, str]) -> str:
    """Return the thumbprint of an Ed25519 key (RFC 8037, A.3)."""
    content = '{{"crv":"{crv}","kty":"{kty}","x":"{x}"}}'.format(**jwk)
    return base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).decode().rstrip("=")


def _from_base64url(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
