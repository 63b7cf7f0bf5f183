"""Signs requests as a crawler of the protocol Web Bot Auth does, with the keys of a file.

The protocol is draft-ietf-webbotauth-httpsig-protocol. The signature covers the method, the
authority and the path, so that a request that was observed cannot be turned into another one. The
file of keys is read again after a change.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Final

from webdata_nb.service.private_files import create_private_file, replace_private_file
from webdata_nb.service.signing.message_signature import (
    CoveredComponent,
    SigningKeySet,
    sign_message,
    signature_headers,
    string_item,
)

KEY_FILE: Final = "signing-keys.json"
"""The file in the data directory of a service."""
# Between two looks at the file, of a process that signs.
CHECK_INTERVAL_S: Final = 5.0
_MAX_BYTES: Final = 64 * 1024
_OTHERS: Final = 0o077

_FileVersion = tuple[int, int, int]

log: Final = logging.getLogger(__name__)


class SigningKeyFile:
    """The file of a service's keys, which only its owner can read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> SigningKeySet:
        """Return the keys.

        Raises
        ------
        ValueError
            The file cannot be read, or has another form. The message has no key.
        """
        try:
            with self.path.open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
        except OSError as error:
            raise ValueError(
                f"the keys in {self.path} cannot be read ({os.strerror(error.errno or 0)})"
            ) from None
        if len(content) > _MAX_BYTES:
            raise ValueError(f"{self.path} is no file of signing keys: it is too large")
        try:
            return SigningKeySet.from_json(content)
        except ValueError as error:
            raise ValueError(f"{self.path} is no file of signing keys: {error}") from None

    def create(self, keys: SigningKeySet) -> None:
        """Write a new file; raises `FileExistsError`."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_private_file(self.path, keys.to_json())

    def replace(self, keys: SigningKeySet) -> None:
        """Replace the file in one step; running services notice."""
        replace_private_file(self.path, keys.to_json())

    def version(self) -> _FileVersion | None:
        """Return what differs once the file was replaced; None where it cannot be read."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def is_open_to_others(self) -> bool:
        """Return whether other users of the machine can read or write the file."""
        return os.name == "posix" and bool(self.path.stat().st_mode & _OTHERS)


class CurrentSigningKeys:
    """The keys of a running process, which reads a replaced file again.

    A file that is gone or damaged changes nothing: the process keeps the keys that it has.

    Raises
    ------
    ValueError
        The file cannot be read at first.
    """

    def __init__(
        self, file: SigningKeyFile, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._file, self._monotonic = file, monotonic
        self._version = file.version()
        self._keys = file.read()
        self._checked_at = monotonic()
        if file.is_open_to_others():
            log.warning(
                "other users of this machine can read the signing keys: chmod 600 %s", file.path
            )

    def get(self) -> SigningKeySet:
        """Return the keys of the file, as of a few seconds ago."""
        now = self._monotonic()
        if now - self._checked_at >= CHECK_INTERVAL_S:
            self._checked_at = now
            version = self._file.version()
            if version != self._version:
                self._version = version
                try:
                    self._keys = self._file.read()
                except ValueError as error:
                    log.warning("%s; the keys read before stay in use", error)
        return self._keys


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
