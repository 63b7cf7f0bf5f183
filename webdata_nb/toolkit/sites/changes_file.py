"""Parquet files that calls append to, and the one that collects the changes of watched sites.

What is known of a site is in a file of its own, in a hidden folder beside the changes. The file of
changes names it, and is replaced as a whole, so both always belong together: a call that is killed
loses no change, and none is reported twice.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import filelock
import msgspec
import orjson
import pyarrow as pa

from webdata_nb import caller
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_path
from webdata_nb.toolkit.frames import schemas, storage
from webdata_nb.toolkit.frames.rows import dumps
from webdata_nb.toolkit.sites.comparison import KnownSite, PageChange

_KNOWN_SITE: Final = "known site/1"
_TEXTS: Final = ("url", "unread", "final_url", "content_hash", "job_id", "values")
_KNOWN_SITE_FIELDS: Final[list[pa.Field[Any]]] = [
    *(pa.field(name, schemas.TEXT) for name in _TEXTS),
    pa.field("fetched_at", schemas.WHEN),
]
_KNOWN_SITE_SCHEMA: Final = pa.schema(_KNOWN_SITE_FIELDS)


def encode_known_site(known: KnownSite) -> pa.Buffer:
    """Return the bytes of the file."""
    rows = [
        {**asdict(page), "url": url, "values": dumps(dict(page.values))}
        for url, page in known.pages.items()
    ]
    rows += [{"url": url, "unread": kind} for url, kind in known.unread.items()]
    own = {"kind": _KNOWN_SITE, **msgspec.to_builtins(replace(known, pages={}, unread={}))}
    return storage.encode(pa.Table.from_pylist(rows, schema=_KNOWN_SITE_SCHEMA), own=own, attrs={})


def decode_known_site(data: bytes) -> KnownSite:
    """Return what a file says.

    Raises
    ------
    ValueError, KeyError, TypeError, pyarrow.ArrowException
        The file is damaged, or one of another kind.
    """
    document = storage.ParquetDocument(data)
    if document.own.get("kind") != _KNOWN_SITE:
        raise ValueError("it is a file of something else")
    rows = document.read(_KNOWN_SITE_SCHEMA.names).to_pylist()
    pages = {
        row["url"]: {**row, "values": orjson.loads(row["values"])}
        for row in rows
        if row["unread"] is None
    }
    unread = {row["url"]: row["unread"] for row in rows if row["unread"]}
    return msgspec.convert({**document.own, "pages": pages, "unread": unread}, KnownSite)


_TIMES: Final = frozenset({"old_at", "new_at"})
CHANGES_SCHEMA: Final = pa.schema(
    [
        pa.field(name, schemas.WHEN if name in _TIMES else schemas.TEXT)
        for name in PageChange._fields
    ]
)
CHANGES_COLUMNS: Final = """\
================== =================== ==========================================
column             dtype               meaning
================== =================== ==========================================
change             str                 added, changed or removed (the page)
url                str                 the page
field              str                 what changed; missing for a page that has
                                       none of the fields
old, new           str                 the values: text as it is, others as JSON;
                                       missing where there is none
evidence           str                 the changed lines of a text, the place of
                                       an extracted value in the page, or why the
                                       page counts as removed
old_at, new_at     datetime64[us, UTC] when the site sent or confirmed both; where
                                       there is no page, when the crawl ended
old_hash, new_hash str                 `content_hash` of the page
old_job, new_job   str                 the crawls
================== =================== ==========================================
"""
_STATES: Final = "states"
# A lock is held while a file of changes is rewritten.
_LOCK_S: Final = 60.0


def changes_table(changes: Sequence[PageChange]) -> pa.Table:
    """Return changes as a table, typed also without rows."""
    columns = zip(*changes, strict=True) if changes else [()] * len(CHANGES_SCHEMA)
    arrays = [pa.array(values, f.type) for values, f in zip(columns, CHANGES_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=CHANGES_SCHEMA)


class AppendedFile:
    """A Parquet file to which calls append rows, also several at the same time.

    It appears whole or not at all, and is never one of something else.

    Attributes
    ----------
    schema, kind, maker
        The columns, what the metadata call the file, and the function that makes it.
    path
        The file.
    """

    schema: ClassVar[pa.Schema]
    kind: ClassVar[str]
    maker: ClassVar[str]
    # What a call has lost that came too late to write.
    _loss: ClassVar[str] = "its rows are in the cache only"

    def __init__(self, path: Path) -> None:
        # A link stays a link, and all of its names share one lock.
        self.path: Path = path.resolve()
        self._lock = self.path.with_name(f".{self.path.name}.lock")

    def check(self) -> None:
        """Refuse a file of something else.

        Raises
        ------
        InvalidArgument
            It cannot be read, or is no file of this kind; or its folder cannot be written.
        """
        self._read()
        if not os.access(self.path.parent, os.W_OK):
            raise InvalidArgument(
                f"out cannot be written: {format_path(self.path.parent)} is read-only"
            )

    def append(self, rows: pa.Table, *, wait_s: float = _LOCK_S) -> pa.Table:
        """Append rows, and return those of the whole file.

        It waits up to `wait_s` seconds for another process that writes to the file.

        Raises
        ------
        OSError
            The file cannot be written.
        InvalidArgument
            It is one of something else now.
        """
        with self._append_lock(wait_s):
            document = self._read()
            earlier = self.schema.empty_table() if document is None else document.read()
            table = pa.concat_tables([earlier, rows])
            self._write(table, {"kind": self.kind})
        return table

    def _write(self, table: pa.Table, own: Mapping[str, Any]) -> None:
        attrs = {"kind": self.kind.partition("/")[0]}
        storage.write_atomically(self.path, storage.encode(table, own=own, attrs=attrs))

    @contextmanager
    def _append_lock(self, wait_s: float) -> Iterator[None]:
        lock = filelock.FileLock(self._lock)
        try:
            held = lock.acquire(timeout=wait_s)
        except filelock.Timeout:
            raise TimeoutError(
                f"{self.path} was not written, because another process has held its lock "
                f"{lock.lock_file} for {wait_s:g} s: end that process; {self._loss}"
            ) from None
        with held:
            yield

    def _read(self) -> storage.ParquetDocument | None:
        try:
            document = storage.ParquetDocument(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, pa.ArrowException) as error:
            raise InvalidArgument(
                f"out cannot be read as a Parquet file ({error}): {self.path}"
            ) from None
        if document.schema != self.schema or not self._is_own(document.own):
            raise InvalidArgument(
                f"out must be a new file, or one that {self.maker} has made; "
                f"{format_path(self.path)} is something else"
            )
        return document

    def _is_own(self, own: object) -> bool:
        """Return whether metadata are those of a file of this kind."""
        return isinstance(own, dict) and own.get("kind") == self.kind


class ChangesFile(AppendedFile):
    """A file of changes, which several watches may share."""

    schema = CHANGES_SCHEMA
    kind = "changes/1"
    maker = "watch_df"
    _loss = "a repeated call finds the same changes"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._folder = self.path.with_name(f".{self.path.name}.watch")
        self._lock = self._folder / "append.lock"

    def lock_path(self, watch_id: str) -> Path:
        """Return the lock file of one watch; its folder exists afterwards.

        Raises
        ------
        InvalidArgument
            The folder cannot be written.
        """
        try:
            self._folder.mkdir(exist_ok=True)
        except OSError as error:
            raise InvalidArgument(f"out cannot be written: {error}") from None
        return self._folder / f"{watch_id}.lock"

    def known(self, watch_id: str) -> KnownSite | None:
        """Return what is known of the site of a watch; None before its first crawl."""
        state = _states(self._read()).get(watch_id)
        if state is None:
            return None
        try:
            return decode_known_site((self._folder / state).read_bytes())
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            caller.warn(
                f"what the last crawl knew of the site cannot be read ({error}): the changes since "
                "then are unknown, and the watch starts anew"
            )
            return None

    def commit(
        self, watch_id: str, changes: pa.Table, known: KnownSite, *, wait_s: float = _LOCK_S
    ) -> None:
        """Append changes and replace what is known of the site, both or none.

        It waits up to `wait_s` seconds for another watch that writes to the file.

        Raises
        ------
        OSError
            The file cannot be written; the next call finds the same changes.
        InvalidArgument
            It is one of something else now.
        """
        data = encode_known_site(known)
        with self._append_lock(wait_s):
            document = self._read()
            states = _states(document)
            if not changes.num_rows and watch_id in states:
                # Without a change, the file stays as it is, however long it is.
                storage.write_atomically(self._folder / states[watch_id], data)
                return
            state = f"{watch_id}-{secrets.token_hex(4)}.parquet"
            storage.write_atomically(self._folder / state, data)
            earlier = CHANGES_SCHEMA.empty_table() if document is None else document.read()
            own = {"kind": self.kind, _STATES: {**states, watch_id: state}}
            self._write(pa.concat_tables([earlier, changes]), own)
            # The states before this one, and those of calls that were killed.
            for path in self._folder.glob(f"{watch_id}-*.parquet"):
                if path.name != state:
                    with suppress(OSError):
                        path.unlink()

    def _is_own(self, own: object) -> bool:
        """Return whether metadata are of a file of changes, with states in its own folder."""
        states = own.get(_STATES) if isinstance(own, dict) and super()._is_own(own) else None
        return isinstance(states, dict) and all(
            isinstance(state, str)
            and re.fullmatch(rf"{re.escape(name)}-[0-9a-f]{{8}}\.parquet", state)
            for name, state in states.items()
        )


def _states(document: storage.ParquetDocument | None) -> Mapping[str, str]:
    """Return the file of what is known, by watch."""
    states: Mapping[str, str] = {} if document is None else document.own[_STATES]
    return states
