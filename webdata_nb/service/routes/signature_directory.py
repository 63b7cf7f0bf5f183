"""Serves the keys with which sites verify the service's requests: a directory at a known address.

The document is that of draft-ietf-webbotauth-httpsig-protocol.
"""

from __future__ import annotations

import time
from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from webdata_nb.contract.paths import SIGNATURE_DIRECTORY
from webdata_nb.service.routes.routing import StateDep, open_router
from webdata_nb.service.signing.message_signature import directory_body, directory_headers

MEDIA_TYPE: Final = "application/http-message-signatures-directory+json"
# Shorter than the time for which a new key is published before it signs.
_CACHE: Final = "public, max-age=3600"

router = open_router("service")


@router.get(SIGNATURE_DIRECTORY, include_in_schema=False)
async def get_signature_directory(state: StateDep) -> Response:
    """Return the public keys of a service that signs its requests. It needs no key."""
    signer = state.engines.egress.signer
    if signer is None:
        raise HTTPException(404, "this service does not sign its requests")
    keys, now = signer.key_set, time.time()
    body = directory_body(keys, now)
    headers = directory_headers(keys, body, now) | {
        "Cache-Control": _CACHE,
        "X-Content-Type-Options": "nosniff",
    }
    return Response(body, media_type=MEDIA_TYPE, headers=headers)
