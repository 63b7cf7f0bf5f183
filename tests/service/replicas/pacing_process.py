"""A process that requests pages of a site through a shared throttle; its clocks are wrong."""

from __future__ import annotations

import asyncio
import sys
import time


def move_clocks(seconds: float) -> None:
    """Let all clocks of this process be ahead, as on another machine."""
    for name in ("time", "monotonic"):
        right = getattr(time, name)
        setattr(time, name, lambda right=right: right() + seconds)


async def request_pages(store: str, site: str, delay_s: float, count: int) -> None:
    """Print a line when ready, then request pages, each in its turn."""
    import aiohttp  # noqa: PLC0415 - after the clocks

    from webdata_nb.service.store.postgres.pacing import PostgresPacing  # noqa: PLC0415
    from webdata_nb.service.web.throttle import HostThrottle  # noqa: PLC0415

    async with aiohttp.ClientSession() as session, PostgresPacing(store, lambda: 3) as pacing:
        throttle = HostThrottle(pacing=pacing, clock=time.monotonic)
        async with session.get(f"{site}robots.txt"):
            print("ready", flush=True)  # noqa: T201 - the parent reads it
        sys.stdin.readline()

        async def request_page() -> None:
            async with throttle.slot("site", delay_s=delay_s), session.get(f"{site}page"):
                pass

        await asyncio.gather(*(request_page() for _ in range(count)))


if __name__ == "__main__":
    move_clocks(float(sys.argv[1]))
    asyncio.run(request_pages(sys.argv[2], sys.argv[3], float(sys.argv[4]), int(sys.argv[5])))
