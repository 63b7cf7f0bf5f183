"""Finds the WARC files of a WACZ file, a zip package of web archives."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO, FileIO
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.errors import ApplicationError

ZIP_MAGIC: Final = b"PK\x03\x04"
# Of the package's directory, which is read into memory.
MAX_DIRECTORY_BYTES: Final = 4 * 1024 * 1024
MAX_WARC_FILES: Final = 10_000
_PAGES: Final = "pages/pages.jsonl"
_PAGES_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_MAX_PAGES_BYTES: Final = 1024 * 1024
_MAX_PAGES: Final = 10_000
_LOCAL_HEADER: Final = struct.Struct("<26xHH")
_ENCRYPTED: Final = 0x1
_DAMAGED: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    ValueError,
    OSError,  # an offset before the file
)


class UnusableArchive(ApplicationError):
    """A file is no archive that can be read; the text says why."""


@dataclass(frozen=True, slots=True)
class WarcWindow:
    """The bytes of one WARC file: the whole file, or a part of a package."""

    start: int
    limit: int


@dataclass(frozen=True, slots=True)
class WaczPackage:
    """The WARC files of a package, and the addresses of its pages in their order."""

    windows: tuple[WarcWindow, ...]
    pages: tuple[str, ...]


class _PackageFile(FileIO):
    """A package whose directory is refused where `zipfile` would read too much into memory."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path

    def read(self, size: int | None = -1, /) -> bytes:
        """Return up to `size` bytes; raises `UnusableArchive`."""
        if size is not None and size > MAX_DIRECTORY_BYTES:
            raise UnusableArchive(
                f"{self._path.name} has a directory of more than {MAX_DIRECTORY_BYTES:,} bytes"
            )
        return super().read(size) or b""


def read_wacz(path: Path) -> WaczPackage:
    """Read the directory of a package; nothing of it is unpacked to files.

    Raises
    ------
    UnusableArchive
        The package is damaged, too large, or has no WARC file that can be read in place.
    """
    try:
        with _PackageFile(path) as file, zipfile.ZipFile(file) as package:
            windows = tuple(_windows(path, package))
            _check_overlaps(path, windows)
            pages = tuple(_pages(package))
    except _DAMAGED as error:
        raise UnusableArchive(f"{path.name} is a damaged package ({error})") from None
    if not windows:
        raise UnusableArchive(f"{path.name} has no WARC file in its folder archive/")
    return WaczPackage(windows, pages)


def _windows(path: Path, package: zipfile.ZipFile) -> Iterator[WarcWindow]:
    members = [
        member
        for member in package.infolist()
        if member.filename.startswith("archive/")
        and member.filename.lower().endswith((".warc", ".warc.gz"))
    ]
    if len(members) > MAX_WARC_FILES:
        raise UnusableArchive(f"{path.name} has more than {MAX_WARC_FILES:,} WARC files")
    size = path.stat().st_size
    with path.open("rb") as file:
        for member in sorted(members, key=lambda each: each.filename):
            if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & _ENCRYPTED:
                raise UnusableArchive(
                    f"{path.name} has compressed or encrypted WARC files: a WACZ stores them as "
                    "they are"
                )
            file.seek(member.header_offset)
            name_bytes, extra_bytes = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            start = member.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes
            limit = start + member.file_size
            if limit > size:
                raise UnusableArchive(f"{path.name} is a damaged package (it is cut off)")
            yield WarcWindow(start, limit)


def _check_overlaps(path: Path, windows: tuple[WarcWindow, ...]) -> None:
    """Refuse members that share bytes: a small package could have millions of records."""
    in_order = sorted(windows, key=lambda window: window.start)
    if any(first.limit > second.start for first, second in pairwise(in_order)):
        raise UnusableArchive(f"{path.name} is a damaged package (its WARC files overlap)")


def _pages(package: zipfile.ZipFile) -> Iterator[str]:
    """Yield the addresses in the list of pages, those of seeds first."""
    if _PAGES not in package.namelist():
        return
    member = package.getinfo(_PAGES)
    if member.compress_type not in _PAGES_METHODS or member.flag_bits & _ENCRYPTED:
        raise ValueError("its list of pages is encrypted, or compressed in an unusual way")
    with package.open(member) as listing:
        lines = islice(BytesIO(listing.read(_MAX_PAGES_BYTES)), _MAX_PAGES)
        pages = [page for page in map(_page, lines) if page is not None]
    yield from (url for url, is_seed in sorted(pages, key=lambda page: not page[1]))


def _page(line: bytes) -> tuple[str, bool] | None:
    try:
        page = decode_json(line)
    except MalformedJson:
        return None
    url = page.get("url") if isinstance(page, dict) else None
    return (url, bool(page.get("seed"))) if isinstance(url, str) else None
