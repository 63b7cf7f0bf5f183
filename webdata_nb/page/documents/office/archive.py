"""Opens the ZIP archives of documents, with limits on members, sizes and compression methods.

A member is read only when its content is needed, so that pictures, macros and embedded archives
stay compressed. Sizes are counted while a member is unpacked, whatever its header declares.
"""

from __future__ import annotations

import zlib
from io import BytesIO
from typing import IO, Final, Self
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from webdata_nb.page.errors import ScrapeError

MAX_MEMBERS: Final = 10_000
MAX_MEMBER_BYTES: Final = 64 * 1024 * 1024
"""Unpacked bytes of one member that is read whole."""
MAX_UNPACKED_BYTES: Final = 256 * 1024 * 1024
"""Unpacked bytes of all members that are read."""

_MEMBER_HEADER: Final = b"PK\x01\x02"
_ENCRYPTED: Final = 0x1
_METHODS: Final = frozenset({ZIP_STORED, ZIP_DEFLATED})
_DAMAGED: Final = (BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError)


class DocumentArchive:
    """The archive of one document. Names of members are compared without regard to case.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``: it is no readable archive, or it has too many members.
    """

    def __init__(self, body: bytes) -> None:
        # Counted first, because ZipFile creates an object for each member.
        if body.count(_MEMBER_HEADER) > MAX_MEMBERS:
            raise ScrapeError("parse", f"the document has more than {MAX_MEMBERS:,} members")
        try:
            self._zip = ZipFile(BytesIO(body))
        except _DAMAGED as error:
            raise ScrapeError("parse", "the document is no readable ZIP archive") from error
        self._members = {_part_name(info.filename): info for info in self._zip.infolist()}
        self._unpacked_bytes = 0

    @property
    def names(self) -> list[str]:
        """The names of the members in lower case, without a leading slash."""
        return list(self._members)

    def __contains__(self, name: str) -> bool:
        return _part_name(name) in self._members

    def read(self, name: str) -> bytes | None:
        """Return the content of a member; None if the archive has no such member."""
        member = self.open(name)
        if member is None:
            return None
        with member:
            content = member.read(MAX_MEMBER_BYTES + 1)
        if len(content) > MAX_MEMBER_BYTES:
            max_mib = MAX_MEMBER_BYTES // 1024**2
            raise ScrapeError("parse", f"a part of the document unpacks to more than {max_mib} MiB")
        return content

    def open(self, name: str) -> MemberStream | None:
        """Open a member to be read in pieces; None if the archive has no such member."""
        info = self._members.get(_part_name(name))
        if info is None:
            return None
        if info.flag_bits & _ENCRYPTED:
            raise ScrapeError("parse", "the document is encrypted with a password")
        if info.compress_type not in _METHODS:
            raise ScrapeError("parse", "the document uses an unsupported compression method")
        return MemberStream(self, self._open(info))

    def count_unpacked(self, size: int) -> None:
        """Count unpacked bytes towards the limit of the whole archive."""
        self._unpacked_bytes += size
        if self._unpacked_bytes > MAX_UNPACKED_BYTES:
            max_mib = MAX_UNPACKED_BYTES // 1024**2
            raise ScrapeError("parse", f"the document unpacks to more than {max_mib} MiB")

    def _open(self, info: ZipInfo) -> IO[bytes]:
        try:
            return self._zip.open(info)
        except _DAMAGED as error:
            raise _damaged_member() from error


class MemberStream:
    """A member of an archive that is read in pieces; its bytes count towards the limit."""

    def __init__(self, archive: DocumentArchive, file: IO[bytes]) -> None:
        self._archive, self._file = archive, file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """Return up to `size` unpacked bytes; empty at the end."""
        try:
            content = self._file.read(size)
        except _DAMAGED as error:
            raise _damaged_member() from error
        self._archive.count_unpacked(len(content))
        return content


def _part_name(name: str) -> str:
    return name.replace("\\", "/").removeprefix("/").lower()


def _damaged_member() -> ScrapeError:
    return ScrapeError("parse", "the document's ZIP archive is damaged")
