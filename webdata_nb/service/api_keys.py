"""Creates and hashes API keys: 256 random bits after a prefix that secret scanners can find."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

PREFIX: Final = "wdk_"


def new_key() -> str:
    """Return a new random key."""
    return PREFIX + secrets.token_urlsafe(32)


def new_id(kind: str) -> str:
    """Return a random identifier, not a secret, of a key or an account."""
    return f"{kind}_{secrets.token_hex(6)}"


def key_hash(key: str) -> str:
    """Return the hash to store; a plain hash suffices for 256 random bits."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
