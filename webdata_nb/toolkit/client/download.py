"""Writes a downloaded stream of bytes to a file atomically."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterable
from contextlib import suppress
from pathlib import Path


async def to_file(path: Path, pieces: AsyncIterable[bytes]) -> int:
    """Write `pieces` beside `path`, rename the result into place; return its size in bytes."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    size = 0
    try:
        file = await asyncio.to_thread(temporary.open, "xb")
        with file:
            async for piece in pieces:
                size += await asyncio.to_thread(file.write, piece)
            file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    return size
