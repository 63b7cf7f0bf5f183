"""Runs `webdata`, and soon after writes to standard error whatever a process can write there.

python -m tests.noisy_service serve ...
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
import warnings
from typing import Any

from webdata_nb.__main__ import main
from webdata_nb.service import app

_original_run = app._run


class Stubborn:
    """An object whose deletion fails."""

    def __del__(self) -> None:
        raise RuntimeError("a noisy deletion")


def _fail() -> None:
    raise ValueError("a noisy thread")


async def _fail_later() -> None:
    raise LookupError("a noisy task")


def make_noise() -> None:
    """Write to standard error in every way."""
    warnings.warn("a noisy warning", UserWarning, stacklevel=1)
    thread = threading.Thread(target=_fail)
    thread.start()
    thread.join()
    Stubborn()
    print("a noisy print", file=sys.stderr, flush=True)  # noqa: T201
    os.write(2, b"a noisy write\nof two lines, the second without an end")
    time.sleep(1)
    os.write(2, b"\n\xff\xfe a noisy byte\n")
    code = "raise SystemError('a noisy child')"
    subprocess.run([sys.executable, "-c", code], check=False)
    logging.getLogger("noisy").info("a wrong number of arguments: %s %s", 1)  # noqa: PLE1206
    logging.getLogger("noisy").info("a noisy surrogate \udcff")
    logging.getLogger("noisy").info("noisy\nlines")
    # What a page worker could write to forge an event.
    os.write(2, b'{"event": "job_ended", "job": "forged"}\n')


async def _run_with_noise(*arguments: Any) -> None:
    task = asyncio.create_task(_fail_later())
    await asyncio.sleep(0.1)
    del task
    noise = asyncio.create_task(asyncio.to_thread(make_noise))
    await _original_run(*arguments)
    await noise
    if "raise" in os.environ.get("NOISE", ""):
        raise ZeroDivisionError("a noisy end")


if __name__ == "__main__":
    app._run = _run_with_noise  # type: ignore[assignment]
    sys.exit(main())
