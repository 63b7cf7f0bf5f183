"""Brings the files of creatives into the cache, and names them in their rows."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.errors import WebdataError
from webdata_nb.frames import parquet, private_files

if TYPE_CHECKING:
    from webdata_nb.client.client import Client

FOLDER: Final = "creative-files"
_HASH: Final = re.compile(r"[0-9a-f]{64}")


async def downloaded(client: Client, rows: Iterable[dict[str, Any]], root: Path) -> None:
    """Give each stored file of the rows its path in the cache, as `file`.

    A file that cannot be had leaves its row as it is, but for an `error` at the file.
    """
    for told in _files(rows):
        path = root / FOLDER / told["sha256"]
        try:
            if not await asyncio.to_thread(path.exists):
                data = await client.creative_file(told["sha256"])
                await asyncio.to_thread(_keep, path, data)
        except (WebdataError, OSError, ValueError) as error:
            told["error"] = f"the file was not brought here: {error}"
        else:
            told["file"] = str(path)


def _files(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        assets = row.get("assets")
        listed = [*assets] if isinstance(assets, list) else []
        for told in (*listed, row.get("preview")):
            # Only what is a hash names a file: the service must not choose a path here.
            if isinstance(told, dict) and _HASH.fullmatch(str(told.get("sha256"))):
                yield told


def _keep(path: Path, data: bytes) -> None:
    if hashlib.sha256(data).hexdigest() != path.name:
        raise ValueError("its bytes do not have the hash that was told")
    private_files.make_folder(path.parent, path.parents[1])
    private_files.tighten(path.parent)
    parquet.write_atomically(path, data, owner_only=True)
