"""TLS contexts that trust the system and a CA bundle, and the interception of TLS for browsers.

Chromium accepts no CA bundle. With a bundle, the forward proxy itself opens the TLS connection to
the site, with the fetcher's trust, and another one to the browser. For the latter it uses a key
that is generated for that browser, never leaves this process, and is the only key that the
browser accepts without verification.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

import certifi
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def tls_context(ca_bundle: Path | None = None) -> ssl.SSLContext:
    """Return a context for connections to sites.

    Callers share it, because reading the certificates takes tens of milliseconds. It is read again
    after a change of the files.

    Raises
    ------
    OSError
        The bundle cannot be read, or holds no certificate (`ssl.SSLError`).
    """
    # Python from python.org on macOS has no certificates, and neither have bare containers.
    fallback = None if _system_has_certificates() else certifi.where()
    paths = ssl.get_default_verify_paths()
    files = (paths.cafile, paths.capath, fallback, ca_bundle)
    return _load_context(fallback, ca_bundle, tuple(map(_file_version, files)))


@lru_cache(maxsize=8)
def _load_context(
    fallback: str | None, ca_bundle: Path | None, _versions: tuple[object, ...]
) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=fallback)
    if ca_bundle is not None:
        context.load_verify_locations(cafile=ca_bundle)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _file_version(path: str | Path | None) -> tuple[str, int, int, int] | None:
    """Return what differs once a file was replaced or changed; None if there is none."""
    if path is None:
        return None
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return str(path), status.st_ino, status.st_size, status.st_mtime_ns


def _system_has_certificates() -> bool:
    if hasattr(ssl, "enum_certificates"):  # Windows stores them elsewhere.
        return True
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile or (paths.capath and any(Path(paths.capath).iterdir())))


_HANDSHAKE_S: Final = 5.0
# Never resolved: the browser identifies the key, not the name.
_COMMON_NAME: Final = "webdata.invalid"
_LIFETIME: Final = timedelta(days=3650)


class TlsInterceptor:
    """Verifies the certificates of sites, and presents its own to the browser.

    Attributes
    ----------
    fingerprint : str
        The hash of its public key (SHA-256 of the SPKI, in base64) for Chromium's option
        ``--ignore-certificate-errors-spki-list``.

    Examples
    --------
    >>> async def fingerprint() -> str:
    ...     return (await TlsInterceptor.create(Path("ca.pem"))).fingerprint
    """

    def __init__(self, site_context: ssl.SSLContext) -> None:
        self._site_context = site_context
        key = ec.generate_private_key(ec.SECP256R1())
        self._browser_context = _server_context(key)
        public = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.fingerprint = b64encode(sha256(public).digest()).decode()

    @classmethod
    async def create(cls, ca_bundle: Path) -> Self:
        """Create an interceptor that trusts the system's authorities and the bundle's.

        Raises
        ------
        OSError
            The bundle cannot be read.
        """
        return await asyncio.to_thread(lambda: cls(tls_context(ca_bundle)))

    async def start_site_tls(self, site: asyncio.StreamWriter, host: str) -> bool:
        """Start TLS with a site and verify its certificate.

        If that fails, the connection is lost and the result is False.
        """
        # Certificates contain no trailing dot.
        name = host.rstrip(".")
        try:
            await site.start_tls(
                self._site_context, server_hostname=name, ssl_handshake_timeout=_HANDSHAKE_S
            )
        except (OSError, EOFError):
            return False
        return True

    async def start_browser_tls(self, browser: asyncio.StreamWriter) -> None:
        """Start TLS with the browser on behalf of a verified site.

        Raises
        ------
        OSError
            The handshake failed.
        """
        await browser.start_tls(self._browser_context, ssl_handshake_timeout=_HANDSHAKE_S)


def _server_context(key: ec.EllipticCurvePrivateKey) -> ssl.SSLContext:
    """Return a context with a self-signed certificate.

    OpenSSL loads a key only from a file, which is deleted at once.
    """
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _COMMON_NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _LIFETIME)
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    with tempfile.TemporaryDirectory(prefix="webdata-tls-") as folder:
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
