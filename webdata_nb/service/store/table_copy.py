"""Copies the tables of one database to another, so that a killed copy continues where it stopped.

Rows are written in batches. Each batch is a transaction of the target, which also stores the
position after it, so that no row is written twice. At the end count and checksum of every table
are compared.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest
from typing import Any, Final, Literal, Protocol

from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.errors import StoreCopyError, UnreadableSecrets

ColumnType = Literal["TEXT", "BLOB", "BIGINT", "DOUBLE PRECISION", "BOOLEAN"]
Value = str | bytes | int | float | bool | None
Row = tuple[Value, ...]

# A batch ends with the row that reaches one of these: it bounds the memory of both sides.
BATCH_BYTES: Final = 4 * 1024 * 1024
BATCH_ROWS: Final = 2_000
# The table and column with encrypted texts. No copy of a text has the same bytes.
SECRET_TABLE: Final = "job"  # noqa: S105 - the name of a table
SECRET_COLUMN: Final = "sealed"  # noqa: S105 - the name of a column
_CHECKSUM_BITS: Final = 64
_NUL: Final = "\x00"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, with its type in the schema."""

    name: str
    type: ColumnType


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the source; tables that it references come before it."""

    name: str
    columns: tuple[Column, ...]
    row_count: int

    @property
    def comparable_columns(self) -> tuple[Column, ...]:
        """The columns whose values are the same in every copy."""
        is_secret = self.name == SECRET_TABLE
        return tuple(
            column for column in self.columns if not (is_secret and column.name == SECRET_COLUMN)
        )


@dataclass(frozen=True, slots=True)
class TableChecksum:
    """The number of rows, and the sum of their hashes, which does not depend on the order.

    The hash of a row is the beginning of the SHA-256 of its values' hashes; a value is hashed in
    its binary form in PostgreSQL, so that the server can compute the same.
    """

    row_count: int = 0
    total: int = 0

    @classmethod
    def of(cls, columns: Sequence[Column], rows: Iterable[Row]) -> TableChecksum:
        """Compute the checksum of rows."""
        row_count = total = 0
        for row in rows:
            row_count += 1
            total += _row_hash(columns, row)
        return cls(row_count, total % (1 << _CHECKSUM_BITS))

    @property
    def text(self) -> str:
        """The checksum in hexadecimal."""
        return f"{self.total:016x}"


@dataclass(frozen=True, slots=True)
class Position:
    """How far a table was copied: the number of its last row in the source, and of its rows."""

    last_row: int = 0
    row_count: int = 0


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """What a copy does now: it copies or verifies a table of `row_count` rows."""

    step: Literal["copy", "verify"]
    table: str
    rows_done: int
    row_count: int


class TableSource(Protocol):
    """The tables of a stopped service, which nothing changes meanwhile."""

    def tables(self) -> Sequence[Table]:
        """Return the tables to copy, in the order of their references."""

    def rows(
        self, table: Table, columns: Sequence[Column], *, after: int = 0
    ) -> Iterator[tuple[int, Row]]:
        """Yield rows by their number, beyond one."""

    def secrets(self) -> Iterator[tuple[str, str]]:
        """Yield job ids and their encrypted texts, by id."""


class TableTarget(Protocol):
    """A database that receives a copy."""

    def position(self, table: Table) -> Position:
        """Return how far the table was copied before."""

    def write(self, table: Table, rows: Sequence[Row], position: Position) -> None:
        """Insert rows, and store the position after them, in one transaction."""

    def checksum(self, table: Table, columns: Sequence[Column]) -> TableChecksum:
        """Compute a table's checksum."""

    def secrets(self) -> Iterator[tuple[str, str]]:
        """Yield job ids and their encrypted texts, by id."""

    def finish(self) -> None:
        """Open the copy for services."""


@dataclass(frozen=True, slots=True)
class SecretConverter:
    """Encrypts secrets with the target's key.

    Attributes
    ----------
    source, target
        The ciphers of both sides.
    keep_unreadable
        Whether texts that no key decrypts are copied as they are, instead of refused.
    """

    source: SecretCipher
    target: SecretCipher
    keep_unreadable: bool = False

    def check(self, secrets: Iterable[tuple[str, str]]) -> None:
        """Raise `StoreCopyError` if the source's keys do not decrypt everything."""
        if self.keep_unreadable:
            return
        unreadable_count = sum(1 for _, text in secrets if self._decrypt(self.source, text) is None)
        if unreadable_count:
            raise StoreCopyError(
                f"the secrets of {unreadable_count} jobs are encrypted with a key that is missing "
                "here: add it to WEBDATA_SECRET_KEY, after the new one, or copy them as they are "
                "with --keep-unreadable; such jobs can be read, but not run"
            )

    def convert(self, text: str) -> str:
        """Return a text of the source, encrypted for the target."""
        secrets = self._decrypt(self.source, text)
        return text if secrets is None else self.target.encrypt(secrets)

    def are_equal(self, text: str, copy: str) -> bool:
        """Whether a copy has the same secrets."""
        secrets = self._decrypt(self.source, text)
        return copy == text if secrets is None else self._decrypt(self.target, copy) == secrets

    @staticmethod
    def _decrypt(cipher: SecretCipher, text: str) -> dict[str, Any] | None:
        try:
            return cipher.decrypt(text)
        except UnreadableSecrets:
            return None


def copy_tables(
    source: TableSource,
    target: TableTarget,
    secrets: SecretConverter,
    on_progress: Callable[[CopyProgress], None],
) -> dict[str, TableChecksum]:
    """Copy every table, or the rest of it, and compare both sides.

    Returns
    -------
    dict
        The checksums by table.

    Raises
    ------
    StoreCopyError
        A value cannot be stored in the target, or the sides differ in the end.
    """
    tables = source.tables()
    for table in tables:
        _copy_rows(source, target, table, secrets, on_progress)
    checksums = {}
    for table in tables:
        on_progress(CopyProgress("verify", table.name, 0, table.row_count))
        checksums[table.name] = _verify(source, target, table)
    _verify_secrets(source, target, secrets)
    target.finish()
    return checksums


def _copy_rows(
    source: TableSource,
    target: TableTarget,
    table: Table,
    secrets: SecretConverter,
    on_progress: Callable[[CopyProgress], None],
) -> None:
    position = target.position(table)
    on_progress(CopyProgress("copy", table.name, position.row_count, table.row_count))
    rows = source.rows(table, table.columns, after=position.last_row)
    for last_row, batch in _batches(rows):
        converted = [_converted(table, row, secrets) for row in batch]
        position = Position(last_row, position.row_count + len(batch))
        target.write(table, converted, position)
        on_progress(CopyProgress("copy", table.name, position.row_count, table.row_count))


def _batches(rows: Iterable[tuple[int, Row]]) -> Iterator[tuple[int, list[Row]]]:
    """Yield rows in batches, each with the number of its last row."""
    batch: list[Row] = []
    size = last_row = 0
    for last_row, row in rows:
        batch.append(row)
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
        if size >= BATCH_BYTES or len(batch) >= BATCH_ROWS:
            yield last_row, batch
            batch, size = [], 0
    if batch:
        yield last_row, batch


def _converted(table: Table, row: Row, secrets: SecretConverter) -> Row:
    """Return a row of the source as the target stores it."""
    for column, value in zip(table.columns, row, strict=True):
        if isinstance(value, str) and _NUL in value:
            raise StoreCopyError(
                f"a row of the table {table.name} has a NUL character in {column.name}, which "
                "PostgreSQL cannot store"
            )
    if table.name != SECRET_TABLE:
        return row
    return tuple(
        secrets.convert(value) if column.name == SECRET_COLUMN and isinstance(value, str) else value
        for column, value in zip(table.columns, row, strict=True)
    )


def _verify(source: TableSource, target: TableTarget, table: Table) -> TableChecksum:
    columns = table.comparable_columns
    expected = TableChecksum.of(columns, (row for _, row in source.rows(table, columns)))
    actual = target.checksum(table, columns)
    if actual != expected:
        raise StoreCopyError(
            f"the copy of the table {table.name} differs: {actual.row_count} rows with checksum "
            f"{actual.text}, {expected.row_count} rows with checksum {expected.text} in the "
            "source; one of them was changed meanwhile: copy again into an empty database or schema"
        )
    return expected


def _verify_secrets(source: TableSource, target: TableTarget, secrets: SecretConverter) -> None:
    for old, new in zip_longest(source.secrets(), target.secrets(), fillvalue=("", "")):
        if old[0] != new[0] or not secrets.are_equal(old[1], new[1]):
            raise StoreCopyError(
                f"the copied secrets of the job {old[0] or new[0]} differ from the source's: copy "
                "again into an empty database or schema"
            )


def _row_hash(columns: Sequence[Column], row: Row) -> int:
    parts = b"".join(
        b"\x00" if value is None else b"\x01" + sha256(_binary(column.type, value)).digest()
        for column, value in zip(columns, row, strict=True)
    )
    return int.from_bytes(sha256(parts).digest()[: _CHECKSUM_BITS // 8], signed=True)


def _binary(kind: ColumnType, value: Any) -> bytes:
    """Return a value as PostgreSQL sends it in its binary format."""
    match kind:
        case "TEXT":
            return bytes(value.encode())
        case "BLOB":
            return bytes(value)
        case "BIGINT":
            return struct.pack("!q", value)
        case "DOUBLE PRECISION":
            return struct.pack("!d", value)
        case "BOOLEAN":
            return b"\x01" if value else b"\x00"
