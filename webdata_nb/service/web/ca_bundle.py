"""Creates TLS contexts that trust the system's certificate authorities and those of a bundle."""

from __future__ import annotations

import ssl
from pathlib import Path

import certifi


def tls_context(ca_bundle: Path | None = None) -> ssl.SSLContext:
    """Return a context for connections to sites. Reading certificates takes tens of milliseconds.

    Raises
    ------
    OSError
        The bundle cannot be read, or holds no certificate (`ssl.SSLError`).
    """
    # Python from python.org on macOS has no certificates, and neither have bare containers.
    fallback = None if _system_has_certificates() else certifi.where()
    context = ssl.create_default_context(cafile=fallback)
    if ca_bundle is not None:
        context.load_verify_locations(cafile=ca_bundle)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _system_has_certificates() -> bool:
    if hasattr(ssl, "enum_certificates"):  # Windows stores them elsewhere.
        return True
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile or (paths.capath and any(Path(paths.capath).iterdir())))
