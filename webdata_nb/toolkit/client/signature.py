"""Verifies a webhook delivery: its signature, and the age of its timestamp."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from webdata_nb.contract import webhook_events

TOLERANCE_S: Final = 300.0


def verify_signature(
    body: bytes, headers: Mapping[str, str], secret: str, *, tolerance_s: float = TOLERANCE_S
) -> bool:
    """Return whether a webhook delivery was signed with `secret`, and sent lately.

    Parameters
    ----------
    body : bytes
        The request body exactly as received; a body that was decoded and encoded again does not
        verify.
    headers : Mapping[str, str]
        The request's headers, names in any case. Both families of the contract are known,
        `X-Service-Signature` and `X-Webhook-Signature`; where both are present both must match.
    secret : str
        The `webhook_secret` of the job's start. An empty one never verifies.
    tolerance_s : float
        Seconds by which `X-Service-Delivery`, where it is present, may differ from this machine's
        clock; `inf` for any. The header itself is not signed.

    Returns
    -------
    bool
        Compared in constant time. False also for headers that are missing, malformed or sent
        twice: it never raises on what came over the network.

    Notes
    -----
    `sha256=` and the hex HMAC-SHA256 (RFC 2104) of the body. A valid delivery can be sent again
    by whoever saw it: drop events whose `X-Webhook-Id` you have seen.

    Examples
    --------
    >>> from webdata_nb.contract.webhook_events import sign
    >>> headers = {"X-Service-Signature": sign(b"{}", "s3cret")}
    >>> verify_signature(b"{}", headers, "s3cret")
    True
    >>> verify_signature(b"{ }", headers, "s3cret")
    False
    """
    recent = webhook_events.is_recent(headers, now=time.time(), tolerance_s=tolerance_s)
    return webhook_events.verify_signature(body, headers, secret) and recent
