"""API keys: 256 random bits behind a prefix that scanners for leaked secrets can know."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

PREFIX: Final = "wdk_"


def new_key() -> str:
    """Return a key that was never there before."""
    return PREFIX + secrets.token_urlsafe(32)


def new_id(kind: str) -> str:
    """Return an identifier for a key or an account; it is no secret."""
    return f"{kind}_{secrets.token_hex(6)}"


def key_hash(key: str) -> str:
    """Return what is stored of a key; keys are 256 random bits, so a plain hash suffices."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
