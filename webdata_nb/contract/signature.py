"""HMAC-SHA256 over the raw body of a webhook delivery (contract, part 6.1)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from webdata_nb.contract.events import DELIVERY_HEADER, SIGNATURE_HEADERS

PREFIX: Final = "sha256="
_NAMES: Final = frozenset(name.lower() for name in SIGNATURE_HEADERS)
_SENT: Final = DELIVERY_HEADER.lower()
# Enough for every Unix second there will be; longer numbers take long to read.
_DIGITS: Final = 12


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


def is_recent(headers: Mapping[str, str], *, now: float, tolerance_s: float) -> bool:
    """Tell whether a delivery says that it was sent around `now` (Unix seconds).

    True also where the header is absent, since one of the contract's descriptions has none; False
    for one that is no number or sent twice. The header is not signed: this keeps strays out, and
    only the event's id keeps out someone who sends an old delivery again.

    Examples
    --------
    >>> is_recent({"X-Service-Delivery": "1000"}, now=1299, tolerance_s=300)
    True
    >>> is_recent({"X-Service-Delivery": "1000"}, now=1301, tolerance_s=300)
    False
    """
    given = [value for name, value in headers.items() if name.lower() == _SENT]
    if not given:
        return True
    [text] = given if len(given) == 1 else [""]
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        return False
    return abs(now - int(text)) <= tolerance_s
