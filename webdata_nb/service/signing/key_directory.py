"""Builds the directory of the keys that sign requests, and signs it. Pure."""

from __future__ import annotations

import hashlib
from typing import Final

import orjson

from webdata_nb.service.signing.key_set import SigningKeySet
from webdata_nb.service.signing.message_signature import (
    CoveredComponent,
    byte_sequence,
    sign_message,
    signature_headers,
)

DIRECTORY_TAG: Final = "http-message-signatures-directory"
DIRECTORY_LIFETIME_S: Final = 7 * 24 * 3600
"""How long a copy of the directory proves that its keys belong to the service's address."""
_SCHEME: Final = "https://"


def directory_body(keys: SigningKeySet, now: float) -> bytes:
    """Return the JSON Web Key Set of the keys that have not ended, also of those yet to start."""
    return orjson.dumps({"keys": [key.public_jwk for key in keys.published(now)]})


def directory_headers(keys: SigningKeySet, body: bytes, now: float) -> dict[str, str]:
    """Return the headers in which each key signs the directory.

    The signatures are for the authority of the agent, whatever name a client used: nobody else
    can serve the directory as one's own.
    """
    digest = f"sha-256={byte_sequence(hashlib.sha256(body).digest())}"
    components = (
        CoveredComponent('"@authority";req', keys.agent.removeprefix(_SCHEME)),
        CoveredComponent('"content-digest"', digest),
    )
    created = int(now)
    signatures = [
        sign_message(
            f"binding{number}",
            components,
            {
                "created": created,
                "expires": created + DIRECTORY_LIFETIME_S,
                "keyid": key.thumbprint,
                "tag": DIRECTORY_TAG,
            },
            key.sign,
        )
        for number, key in enumerate(keys.published(now))
    ]
    return {"Content-Digest": digest, **signature_headers(signatures)}
