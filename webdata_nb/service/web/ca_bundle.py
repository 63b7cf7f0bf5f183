"""Whose certificates are trusted: the system's authorities, and those of a bundle beside them."""

from __future__ import annotations

import ssl
from pathlib import Path

import certifi


def tls_context(ca_bundle: Path | None = None) -> ssl.SSLContext:
    """Make the settings of connections to sites; reading certificates takes tens of milliseconds.

    Raises
    ------
    OSError
        When the bundle cannot be read, or holds no certificate (`ssl.SSLError`).
    """
    # Python from python.org on macOS comes without certificates, and so do bare containers.
    fallback = None if _system_has_certificates() else certifi.where()
    context = ssl.create_default_context(cafile=fallback)
    if ca_bundle is not None:
        context.load_verify_locations(cafile=ca_bundle)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _system_has_certificates() -> bool:
    if hasattr(ssl, "enum_certificates"):  # Windows keeps them elsewhere
        return True
    known = ssl.get_default_verify_paths()
    return bool(known.cafile or (known.capath and any(Path(known.capath).iterdir())))
