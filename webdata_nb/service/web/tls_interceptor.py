"""A browser that trusts a CA bundle: the service checks the site, and vouches for it.

Chromium takes no bundle. So where there is one, the forward proxy makes the secure connection to
the site itself, with the fetcher's trust, and another to the browser with a key that was made for
that one browser, never leaves this process's memory, and is the only one it takes unchecked.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from webdata_nb.service.web.ca_bundle import tls_context

_HANDSHAKE_S: Final = 5.0
# Never looked up: the browser knows the key, not the name.
_NAME: Final = "webdata.invalid"
_LIFE: Final = timedelta(days=3650)


class TlsInterceptor:
    """Speaks for sites whose certificate the service has checked.

    Attributes
    ----------
    fingerprint : str
        The hash of its public key (SHA-256 of the SPKI, in base64), as Chromium's option
        ``--ignore-certificate-errors-spki-list`` takes it.

    Examples
    --------
    >>> async def fingerprint() -> str:
    ...     return (await Voucher.trusting(Path("ca.pem"))).fingerprint
    """

    def __init__(self, trust: ssl.SSLContext) -> None:
        self._trust = trust
        key = ec.generate_private_key(ec.SECP256R1())
        self._own = _presenting(key)
        public = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.fingerprint = b64encode(sha256(public).digest()).decode()

    @classmethod
    async def trusting(cls, ca_bundle: Path) -> Self:
        """Make one that trusts the system's authorities and the bundle's.

        Raises
        ------
        OSError
            When the bundle cannot be read.
        """
        return await asyncio.to_thread(lambda: cls(tls_context(ca_bundle)))

    async def check(self, site: asyncio.StreamWriter, host: str) -> bool:
        """Make the connection to a site secure; False where it is not what it says it is.

        The connection is lost then.
        """
        # Certificates name a host without the dot at its end.
        name = host.rstrip(".")
        try:
            await site.start_tls(
                self._trust, server_hostname=name, ssl_handshake_timeout=_HANDSHAKE_S
            )
        except (OSError, EOFError):
            return False
        return True

    async def vouch(self, browser: asyncio.StreamWriter) -> None:
        """Make the connection to the browser secure, in the place of a site that was checked.

        Raises
        ------
        OSError
            When the browser does not go on.
        """
        await browser.start_tls(self._own, ssl_handshake_timeout=_HANDSHAKE_S)


def _presenting(key: ec.EllipticCurvePrivateKey) -> ssl.SSLContext:
    """Make the browser's side of it; OpenSSL takes a key from a file alone, which is gone after."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _LIFE)
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    with tempfile.TemporaryDirectory(prefix="webdata-voucher-") as folder:
        chain = Path(folder, "chain.pem")
        chain.touch(mode=0o600)
        chain.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context.load_cert_chain(chain)
    return context
