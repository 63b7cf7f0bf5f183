"""HMAC-SHA256 over the raw body of a webhook delivery (contract, part 6.1)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from webdata_nb.contract.events import SIGNATURE_HEADERS

PREFIX: Final = "sha256="
_NAMES: Final = frozenset(name.lower() for name in SIGNATURE_HEADERS)


def sign(body: bytes, secret: str) -> str:
    """Return the signature header's value: `sha256=` and 64 lower-case hex digits."""
    return PREFIX + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def verify_signature(body: bytes, headers: Mapping[str, str], secret: str) -> bool:
    """Tell in constant time whether a delivery was signed with `secret`.

    Parameters
    ----------
    body : bytes
        The request body exactly as received; a re-serialised body does not verify.
    headers : Mapping[str, str]
        The request headers, names in any case. Either header family is accepted; where both
        are present both must match. A header sent twice never verifies.
    secret : str
        The `webhook_secret` given at the job's start. An empty secret never verifies.

    Returns
    -------
    bool
        False also for missing, malformed or non-ASCII headers; it never raises on them.

    Examples
    --------
    >>> verify_signature(b"{}", {"x-service-signature": sign(b"{}", "s3cret")}, "s3cret")
    True
    >>> verify_signature(b"{ }", {"x-service-signature": sign(b"{}", "s3cret")}, "s3cret")
    False
    """
    # Kept as pairs: a multi-dict, or names in two cases, may hold one header twice.
    given = [(name.lower(), value) for name, value in headers.items() if name.lower() in _NAMES]
    if not secret or not given or len({name for name, _ in given}) < len(given):
        return False
    expected = sign(body, secret).encode()
    # Every header is compared, so that the time taken does not tell which one failed.
    matches = [
        hmac.compare_digest(value.encode("utf-8", "replace"), expected) for _, value in given
    ]
    return all(matches)
