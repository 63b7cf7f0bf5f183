"""Defines the keys that sign requests, and their form as JSON Web Keys (RFC 7517, RFC 8037)."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_SEED_BYTES: Final = 32
_NO_KEY: Final = "is no Ed25519 private key as a JSON Web Key"


@dataclass(frozen=True)
class SigningKey:
    """An Ed25519 key, and the time during which it is in use. Its repr has no secret.

    Attributes
    ----------
    private_key
        The key; the directory has its public half.
    starts_at
        When it begins to sign (Unix seconds). The directory has it before.
    ends_at
        When it is removed from the directory; None if nothing has replaced it yet.
    """

    private_key: Ed25519PrivateKey = field(repr=False)
    starts_at: int
    ends_at: int | None = None

    @classmethod
    def generate(cls, *, starts_at: int) -> SigningKey:
        """Return a new random key."""
        return cls(Ed25519PrivateKey.generate(), starts_at)

    @classmethod
    def from_jwk(cls, jwk: Mapping[str, Any]) -> SigningKey:
        """Return the key of a private JSON Web Key.

        Raises
        ------
        ValueError
            It is no such key. The message has none of its values.
        """
        starts_at, ends_at = jwk.get("nbf"), jwk.get("exp")
        if jwk.get("kty") != "OKP" or jwk.get("crv") != "Ed25519":
            raise ValueError(_NO_KEY)
        if type(starts_at) is not int or type(ends_at) not in {int, type(None)}:
            raise ValueError("has no times `nbf` and `exp` in whole seconds")
        key = cls(Ed25519PrivateKey.from_private_bytes(_seed_of(jwk)), starts_at, ends_at)
        if jwk.get("x", key.public_x) != key.public_x:
            raise ValueError("has a public half `x` of another key")
        return key

    @cached_property
    def public_x(self) -> str:
        """The public key, as the member ``x`` of a JSON Web Key."""
        return _base64url(self.private_key.public_key().public_bytes_raw())

    @cached_property
    def thumbprint(self) -> str:
        """The SHA-256 thumbprint of the key (RFC 7638), which names it in signatures."""
        members = {"crv": "Ed25519", "kty": "OKP", "x": self.public_x}
        return _base64url(hashlib.sha256(orjson.dumps(members)).digest())

    @property
    def public_jwk(self) -> dict[str, str | int]:
        """The entry of the directory."""
        times = {"nbf": self.starts_at} | ({} if self.ends_at is None else {"exp": self.ends_at})
        return {
            "kty": "OKP",
            "crv": "Ed25519",
            "kid": self.thumbprint,
            "x": self.public_x,
            "use": "sig",
            **times,
        }

    @property
    def private_jwk(self) -> dict[str, str | int]:
        """The entry of the key file; a secret."""
        return {**self.public_jwk, "d": _base64url(self.private_key.private_bytes_raw())}

    def is_published(self, now: float) -> bool:
        """Return whether the directory has the key, also if it is yet to start."""
        return self.ends_at is None or self.ends_at > now

    def ending(self, at: int) -> SigningKey:
        """Return the key with an end, unless it has an earlier one."""
        return replace(self, ends_at=at if self.ends_at is None else min(self.ends_at, at))

    def sign(self, content: bytes) -> bytes:
        """Return the signature of some bytes."""
        return self.private_key.sign(content)


def _seed_of(jwk: Mapping[str, Any]) -> bytes:
    text = jwk.get("d")
    if not isinstance(text, str):
        raise ValueError(_NO_KEY)  # noqa: TRY004 - the file has a wrong value
    try:
        seed = urlsafe_b64decode(text.encode("ascii") + b"==")
    except (Base64Error, ValueError):
        raise ValueError(_NO_KEY) from None
    if len(seed) != _SEED_BYTES:
        raise ValueError(_NO_KEY)
    return seed


def _base64url(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
