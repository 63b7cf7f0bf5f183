"""Encrypts jobs' secrets before they are stored.

The keys come from the setting WEBDATA_SECRET_KEY, or from a key file beside the database. The first
key encrypts, all of them decrypt.

Fernet (AES-128-CBC with HMAC-SHA256) protects what a request keeps secret, in one column that is
deleted with the job. A job whose key is lost can be read, but neither run nor retried.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

import orjson
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from webdata_nb.service.errors import UnreadableSecrets
from webdata_nb.service.private_files import create_private_file, replace_private_file

KEY_FILE: Final = "secret.key"
_EMPTY: Final = ""
# A running job is read several times a second: the last plaintexts are kept in memory.
_MAX_CACHED: Final = 64


class KeySource(Protocol):
    """A source of keys, newest first."""

    def read(self) -> tuple[str, ...]:
        """Return the keys; empty if none was created yet."""

    def read_or_create(self) -> tuple[str, ...]:
        """Return the keys, after creating the first one if there is none."""


class FixedKeys(KeySource):
    """Keys from a setting."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys

    def read(self) -> tuple[str, ...]:
        return self._keys

    def read_or_create(self) -> tuple[str, ...]:
        return self._keys


class KeyFile(KeySource):
    """Keys in a file that only its owner can read, one a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cached: tuple[tuple[int, int, int], tuple[str, ...]] | None = None

    def read(self) -> tuple[str, ...]:
        # Another process may rotate the keys, which replaces the file.
        try:
            status = self._path.stat()
            version = (status.st_ino, status.st_mtime_ns, status.st_size)
            cached = self._cached  # read once: several threads decrypt
            if cached is None or cached[0] != version:
                keys = tuple(self._path.read_text("ascii").split())
                cached = self._cached = (version, keys)
        except FileNotFoundError:
            return ()
        return cached[1]

    def read_or_create(self) -> tuple[str, ...]:
        if not (keys := self.read()):
            # Of several processes one creates the file: its key is as good.
            with suppress(FileExistsError):
                create_private_file(self._path, _lines((new_key(),)))
            keys = self.read()
        return keys

    def rotate(self) -> None:
        """Add a new first key; the present first key still decrypts, older ones are removed."""
        replace_private_file(self._path, _lines((new_key(), *self.read_or_create()[:1])))


def _lines(keys: tuple[str, ...]) -> bytes:
    return "".join(f"{key}\n" for key in keys).encode("ascii")


def new_key() -> str:
    """Return a new random key."""
    return Fernet.generate_key().decode()


def check_keys(text: str) -> tuple[str, ...]:
    """Return the keys of a setting, which separates them by commas; raises `ValueError`."""
    keys = tuple(key.strip() for key in text.split(",") if key.strip())
    try:
        [Fernet(key) for key in keys]
    except ValueError:
        raise ValueError(
            "WEBDATA_SECRET_KEY takes keys as `webdata secrets new-key` makes them, separated "
            "by commas; the first seals, the others still open"
        ) from None
    return keys


class SecretCipher:
    """Encrypts and decrypts mappings; an empty one becomes an empty text, which needs no key."""

    def __init__(self, source: KeySource) -> None:
        self._source = source

    def encrypt(self, secrets: Mapping[str, Any]) -> str:
        """Return `secrets` encrypted with the newest key."""
        if not secrets:
            return _EMPTY
        keys, plaintext = self._source.read_or_create(), orjson.dumps(secrets)
        return _fernet(keys).encrypt(plaintext).decode()

    def decrypt(self, token: str) -> dict[str, Any]:
        """Return the secrets of `encrypt`; raises `UnreadableSecrets` if no key decrypts them."""
        if token == _EMPTY:
            return {}
        try:
            plaintext = _plaintext(self._source.read(), token)
            secrets: dict[str, Any] = orjson.loads(plaintext)  # noqa: TID251 - our own record
        except (InvalidToken, ValueError):
            raise UnreadableSecrets("no key of this service opens the job's secrets") from None
        return secrets

    def reencrypt(self, token: str) -> str:
        """Return the same secrets encrypted with the newest key; raises `UnreadableSecrets`."""
        return self.encrypt(self.decrypt(token))


@lru_cache(maxsize=_MAX_CACHED)
def _plaintext(keys: tuple[str, ...], token: str) -> bytes:
    return _fernet(keys).decrypt(token)


@lru_cache(maxsize=8)
def _fernet(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


# API keys: 256 random bits after a prefix that secret scanners can find


PREFIX: Final = "wdk_"


def new_api_key() -> str:
    """Return a new random key."""
    return PREFIX + secrets.token_urlsafe(32)


def new_id(kind: str) -> str:
    """Return a random identifier, not a secret, of a key or an account."""
    return f"{kind}_{secrets.token_hex(6)}"


def key_hash(key: str) -> str:
    """Return the hash to store; a plain hash suffices for 256 random bits."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
