"""The store in one SQLite file."""

from __future__ import annotations

from pathlib import Path

from webdata_nb.service.encryption import KEY_FILE, KeyFile, SecretCipher
from webdata_nb.service.store.sql.contents import NO_SEGMENTS, SegmentSource
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.sqlite.database import SqliteDatabase


class SqliteStore(Store):
    """A `Store` in one SQLite file, for one service process at a time.

    `cipher` encrypts jobs' secrets; by default it uses the key file beside the database.
    """

    def __init__(
        self,
        path: Path,
        cipher: SecretCipher | None = None,
        segments: SegmentSource = NO_SEGMENTS,
    ) -> None:
        cipher = cipher or SecretCipher(KeyFile(path.with_name(KEY_FILE)))
        super().__init__(SqliteDatabase(path), cipher, segments)
