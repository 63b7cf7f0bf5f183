"""Secrets that are planted once each, and the search for their traces in whatever was written."""

from __future__ import annotations

import base64
import io
import secrets
import sqlite3
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

# What URLs, JSON and HTML write otherwise: a trace does not depend on them.
_AROUND: Final = ("c+", "/=")
_ALIGNMENTS: Final = 3
_LEFT_OUT: Final = 4  # letters of base64 at either end that depend on what stands beside


class PlantedSecrets:
    """One secret of each kind, unlike any other.

    Each has a core of letters and digits, which percent-encoding, JSON, HTML and CSV leave as it
    is; it is searched for as text, in hexadecimal digits, in UTF-16 and, at each alignment, in both
    alphabets of base64.
    """

    def __init__(self, *kinds: str) -> None:
        self._cores = {kind: f"zq{secrets.token_hex(10)}qz" for kind in kinds}
        self._forms = {
            form: f"{kind} ({name})"
            for kind, core in self._cores.items()
            for name, form in _forms(core.encode())
        }

    def __getitem__(self, kind: str) -> str:
        return self._cores[kind].join(_AROUND)

    def plain(self, kind: str) -> str:
        """Return a secret that may stand where letters and digits alone may."""
        return self._cores[kind]

    def traces(self, written: Mapping[str, bytes], *, but: tuple[str, ...] = ()) -> list[str]:
        """Return where which secret shows, and in which form; `but` are kinds that may."""
        return [
            f"{place}: {what}"
            for place, data in written.items()
            for form, what in self._forms.items()
            if form in data and what.partition(" ")[0] not in but
        ]


def _forms(core: bytes) -> Iterator[tuple[str, bytes]]:
    yield "text", core
    yield "upper case", core.upper()
    yield "hexadecimal", core.hex().encode()
    yield "UTF-16", core.decode().encode("utf-16-le")
    for shift in range(_ALIGNMENTS):
        for name, alphabet in (("base64", b"+/"), ("base64 of URLs", b"-_")):
            text = base64.b64encode(bytes(shift) + core, alphabet).rstrip(b"=")
            yield f"{name}, {shift}", text[_LEFT_OUT:-_LEFT_OUT]


def files(root: Path) -> dict[str, bytes]:
    """Return every file below a folder: its bytes and, where it packs them, what it holds."""
    found = {}
    for path in sorted(each for each in root.rglob("*") if each.is_file()):
        data, name = path.read_bytes(), str(path.relative_to(root))
        found[name] = data + unpacked(data)
        if data.startswith(b"SQLite format 3\0"):
            found[f"{name}, by cell"] = cells(path)
    return found


def unpacked(data: bytes) -> bytes:
    """Return what an archive or a Parquet file holds; nothing for other bytes."""
    # Random bytes may start with the two letters of an archive.
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return b"".join(
                name.encode() + archive.read(name) + unpacked(archive.read(name))
                for name in archive.namelist()
            )
    if data.startswith(b"PAR1"):
        table = pq.read_table(io.BytesIO(data))
        return repr((table.to_pylist(), table.schema.metadata, table.column_names)).encode()
    return b""


def cells(path: Path) -> bytes:
    """Return every cell of a database."""
    found = []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            try:
                rows = database.execute(f'SELECT * FROM "{table}"').fetchall()
            except sqlite3.Error:
                continue  # the parts of a full-text index cannot all be read; their bytes were
            for row in rows:
                found += [each if isinstance(each, bytes) else str(each).encode() for each in row]
    return b"\n".join(found)
