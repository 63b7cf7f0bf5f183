"""Creates TLS contexts that trust the system's certificate authorities and those of a bundle."""

from __future__ import annotations

import ssl
from functools import lru_cache
from pathlib import Path

import certifi


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
