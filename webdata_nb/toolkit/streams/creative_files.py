"""Downloads the files of creatives into the cache, and adds their paths to the rows."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.errors import WebdataError
from webdata_nb.toolkit.frames import parquet, private_files

if TYPE_CHECKING:
    from webdata_nb.toolkit.client.client import Client

FOLDER: Final = "creative-files"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


async def download_files(client: Client, rows: Iterable[dict[str, Any]], root: Path) -> None:
    """Set `file` of each asset and preview to its path in the cache.

    Where a download fails, the asset or preview gets an `error` instead.
    """
    for asset in _stored_files(rows):
        path = root / FOLDER / asset["sha256"]
        try:
            if not await asyncio.to_thread(path.exists):
                data = await client.creative_file(asset["sha256"])
                await asyncio.to_thread(_write, path, data)
        except (WebdataError, OSError, ValueError) as error:
            asset["error"] = f"the file could not be downloaded: {error}"
        else:
            asset["file"] = str(path)


def _stored_files(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the assets and previews that the service has stored."""
    for row in rows:
        assets = row.get("assets")
        listed_assets = [*assets] if isinstance(assets, list) else []
        for asset in (*listed_assets, row.get("preview")):
            # Only a hash may name a file: the service must not choose a path here.
            if isinstance(asset, dict) and _SHA256.fullmatch(str(asset.get("sha256"))):
                yield asset


def _write(path: Path, data: bytes) -> None:
    if hashlib.sha256(data).hexdigest() != path.name:
        raise ValueError("its bytes do not match its hash")
    private_files.make_folder(path.parent, path.parents[1])
    parquet.write_atomically(path, data, owner_only=True)
