"""Closes browsers, pages and drivers with deadlines, since a crashed one never responds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from playwright.async_api import Browser as Chromium
    from playwright.async_api import CDPSession, Playwright

CLOSE_S: Final = 5.0
"""How long a page, a browser and its driver may each take to close."""
_DETACH_S: Final = 2.0
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)


async def finishes_in_time(step: Awaitable[Any], limit_s: float = CLOSE_S) -> bool:
    """Await a step; return whether it ended without an error and in time."""
    from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

    try:
        async with asyncio.timeout(limit_s):
            await step
    except (Error, TimeoutError):
        return False
    return True


async def detach(session: CDPSession) -> None:
    """End a debugging session; that of a crashed renderer never responds."""
    await finishes_in_time(session.detach(), _DETACH_S)


async def process_id_of(chromium: Chromium) -> int | None:
    """Return the id of a browser's main process, if it reports it."""
    from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

    session = await chromium.new_browser_cdp_session()
    try:
        processes = (await session.send("SystemInfo.getProcessInfo"))["processInfo"]
    except Error:
        return None
    finally:
        await detach(session)
    return next((int(process["id"]) for process in processes if process["type"] == "browser"), None)


async def end_browser(chromium: Chromium, pid: int | None, profile: Path | None) -> None:
    """Close a browser, which may have ended already; kill it if it does not respond."""
    if not await finishes_in_time(chromium.close()) and pid is not None and profile is not None:
        _kill(pid, profile)


def _kill(pid: int, profile: Path) -> None:
    # Another process may have this id by now.
    with contextlib.suppress(OSError):
        if str(profile).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, _KILL)


async def end_driver(playwright: Playwright) -> None:
    """Stop Playwright's driver and the rest of its browser."""
    if await finishes_in_time(playwright.stop()):
        return
    transport: Any = getattr(getattr(playwright, "_impl_obj", None), "_connection", None)
    process: Any = getattr(getattr(transport, "_transport", None), "_proc", None)
    with contextlib.suppress(OSError, AttributeError):
        process.kill()
