"""Signs requests as a crawler of the protocol Web Bot Auth does.

The protocol is draft-ietf-webbotauth-httpsig-protocol. The signature covers the method, the
authority and the path, so that a request that was observed cannot be turned into another one.
"""

from __future__ import annotations

import secrets
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Final

from webdata_nb.service.signing.key_file import CurrentSigningKeys
from webdata_nb.service.signing.key_set import SigningKeySet
from webdata_nb.service.signing.message_signature import (
    CoveredComponent,
    sign_message,
    signature_headers,
    string_item,
)

REQUEST_TAG: Final = "web-bot-auth"
REQUEST_LIFETIME_S: Final = 300
"""How long a site may accept a signature; it covers clocks that differ and slow connections."""
SIGNATURE_HEADERS: Final = frozenset({"signature", "signature-input", "signature-agent"})
"""Names of the headers of a signed request, in lower case."""
LABEL: Final = "sig1"
_NONCE_BYTES: Final = 64


class RequestSigner:
    """Signs requests with the present key of a service.

    Parameters
    ----------
    keys
        The keys.
    clock
        Returns the time in Unix seconds.
    """

    def __init__(self, keys: CurrentSigningKeys, *, clock: Callable[[], float] = time.time) -> None:
        self._keys, self._clock = keys, clock

    @property
    def agent(self) -> str:
        """The origin at which sites find the keys."""
        return self.key_set.agent

    @property
    def key_set(self) -> SigningKeySet:
        """The present keys."""
        return self._keys.get()

    def headers(self, method: str, authority: str, path: str) -> dict[str, str]:
        """Return the headers that sign one request.

        Parameters
        ----------
        method
            The HTTP method.
        authority
            The value of the Host header as it is sent.
        path
            The path as it is sent, without the query.
        """
        now = self._clock()
        nonce = b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()
        return request_headers(self.key_set, method, authority, path, now=now, nonce=nonce)


def request_headers(
    keys: SigningKeySet, method: str, authority: str, path: str, *, now: float, nonce: str
) -> dict[str, str]:
    """Return the headers that sign one request at a time, with a nonce."""
    key, created = keys.active(now), int(now)
    agent = string_item(keys.agent)
    components = (
        CoveredComponent('"@method"', method),
        CoveredComponent('"@authority"', authority.lower()),
        CoveredComponent('"@path"', path or "/"),
        CoveredComponent(f'"signature-agent";key="{LABEL}"', agent),
    )
    parameters: dict[str, int | str] = {
        "created": created,
        "keyid": key.thumbprint,
        "alg": "ed25519",
        "expires": created + REQUEST_LIFETIME_S,
        "nonce": nonce,
        "tag": REQUEST_TAG,
    }
    signature = sign_message(LABEL, components, parameters, key.sign)
    return {"Signature-Agent": f"{LABEL}={agent}", **signature_headers([signature])}
