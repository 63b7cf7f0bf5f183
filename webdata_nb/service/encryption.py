"""What a job must know and nobody may read: sealed before it is stored.

The keys come from the setting WEBDATA_SECRET_KEY, or from a file beside the database that is made
for its owner alone. The first key seals, all of them open.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

import orjson
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from webdata_nb.service.errors import SecretsLost

KEY_FILE: Final = "secret.key"
_NOTHING: Final = ""
# A job that runs is read several times a second; what was opened last is kept in memory.
_KEPT: Final = 64


class KeySource(Protocol):
    """Where the keys come from, newest first."""

    def read(self) -> tuple[str, ...]:
        """Return the present keys; empty where none was made yet."""

    def made(self) -> tuple[str, ...]:
        """Return the present keys, after making the first one if there is none."""


class GivenKeys:
    """Keys from a setting."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys

    def read(self) -> tuple[str, ...]:
        """See `KeySource.read`."""
        return self._keys

    made = read


class KeyFile:
    """Keys in a file for its owner alone, one a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[tuple[int, int, int], tuple[str, ...]] | None = None

    def read(self) -> tuple[str, ...]:
        """See `KeySource.read`; another process may rotate them, and then the file is another."""
        try:
            found = self._path.stat()
            mark = (found.st_ino, found.st_mtime_ns, found.st_size)
            known = self._known  # read once: several threads open secrets
            if known is None or known[0] != mark:
                known = self._known = (mark, tuple(self._path.read_text("ascii").split()))
        except FileNotFoundError:
            return ()
        return known[1]

    def made(self) -> tuple[str, ...]:
        """See `KeySource.made`; of several processes that make it at once, one wins."""
        if not (keys := self.read()):
            self._publish((new_key(),), os.link)
            keys = self.read()
        return keys

    def rotate(self) -> None:
        """Put a new key first; the present one still opens, those before it do not."""
        self._publish((new_key(), *self.made()[:1]), os.replace)

    def _publish(self, keys: tuple[str, ...], place: Any) -> None:
        """Write the whole file under another name, durably, then give it its own."""
        handle, draft = tempfile.mkstemp(dir=self._path.parent, prefix=".secret-")
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write("".join(f"{key}\n" for key in keys))
                file.flush()
                os.fsync(file.fileno())
            place(draft, self._path)
        except FileExistsError:
            pass  # another process was first: its key is as good
        finally:
            Path(draft).unlink(missing_ok=True)


def new_key() -> str:
    """Return a key that was never there before."""
    return Fernet.generate_key().decode()


def check_keys(text: str) -> tuple[str, ...]:
    """Return the keys that a setting names, separated by commas; raises `ValueError`."""
    keys = tuple(key.strip() for key in text.split(",") if key.strip())
    try:
        [Fernet(key) for key in keys]
    except ValueError:
        raise ValueError(
            "WEBDATA_SECRET_KEY takes keys as `webdata secrets new-key` makes them, separated "
            "by commas; the first seals, the others still open"
        ) from None
    return keys


class Vault:
    """Seals and opens; an empty mapping is sealed as an empty text, which needs no key."""

    def __init__(self, source: KeySource) -> None:
        self._source = source

    def seal(self, secrets: Mapping[str, Any]) -> str:
        """Return `secrets` sealed with the newest key."""
        if not secrets:
            return _NOTHING
        keys, told = self._source.made(), orjson.dumps(secrets)
        sealed = _box(keys).encrypt(told).decode()
        _OPENED.put((keys, sealed), told)  # its job is about to run
        return sealed

    def open(self, sealed: str) -> dict[str, Any]:
        """Return what was sealed; raises `SecretsLost` where no key opens it."""
        if sealed == _NOTHING:
            return {}
        try:
            opened: dict[str, Any] = orjson.loads(_opened(self._source.read(), sealed))
        except (InvalidToken, ValueError):
            raise SecretsLost("no key of this service opens the job's secrets") from None
        return opened

    def resealed(self, sealed: str) -> str:
        """Return the same secrets sealed with the newest key; raises `SecretsLost`."""
        return self.seal(self.open(sealed))


_Place = tuple[tuple[str, ...], str]


class _Opened:
    """What was sealed or opened last, by the keys that do it; for several threads."""

    def __init__(self) -> None:
        self._kept: dict[_Place, bytes] = {}
        self._lock = threading.Lock()

    def get(self, place: _Place) -> bytes | None:
        with self._lock:
            return self._kept.get(place)

    def put(self, place: _Place, told: bytes) -> None:
        with self._lock:
            self._kept[place] = told
            while len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]


_OPENED: Final = _Opened()


def _opened(keys: tuple[str, ...], sealed: str) -> bytes:
    told = _OPENED.get((keys, sealed))
    if told is None:
        told = _box(keys).decrypt(sealed)
        _OPENED.put((keys, sealed), told)
    return told


@lru_cache(maxsize=8)
def _box(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])
