"""Text of pictures: tesseract where it is installed, else the rapidocr extra."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shutil
import signal
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from webdata_nb.service.creatives.text_layout import Reading, reading
from webdata_nb.service.errors import MissingSetting, ScrapeError
from webdata_nb.service.runtime.child_process import python_command, python_environment
from webdata_nb.service.runtime.fair_scheduler import FairSemaphore

# One picture takes a fifth of a second, with rapidocr two: these are ceilings, not plans.
CPU_SECONDS: Final = 15
MEMORY_BYTES: Final = 1536 * 1024 * 1024
STUCK_S: Final = 60.0
_MODULE: Final = "webdata_nb.service.creatives.ocr_process"
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)


def engine() -> str:
    """Return the engine to read with: tesseract's path, or `rapidocr`.

    Raises
    ------
    MissingSetting
        There is neither.
    """
    if program := shutil.which("tesseract"):
        return program
    if importlib.util.find_spec("rapidocr") and importlib.util.find_spec("onnxruntime"):
        return "rapidocr"
    raise MissingSetting(
        "ocr needs tesseract (on Debian: apt-get install tesseract-ocr) or the extra: "
        'pip install "webdata_nb[ocr]", on the machine of the service'
    )


@dataclass(frozen=True, slots=True)
class Readers:
    """Reads pictures, each in a process of its own, at most one a core at a time."""

    cpu_seconds: int = CPU_SECONDS
    memory_bytes: int = MEMORY_BYTES
    turns: FairSemaphore = field(default_factory=lambda: FairSemaphore(os.cpu_count() or 1))

    async def read(self, picture: bytes, program: str) -> Reading:
        """Return the text of a picture.

        Raises
        ------
        ScrapeError
            It is no picture, or took more than a picture may; `kind` says which.
        """
        async with self.turns:
            process = await self._start(program)
            try:
                async with asyncio.timeout(STUCK_S):
                    out, _ = await process.communicate(picture)
            except TimeoutError:
                raise ScrapeError("cpu_limit", f"reading took over {STUCK_S:.0f} s") from None
            finally:
                await _end(process)
        return _read(out, process.returncode)

    async def _start(self, program: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *python_command(_MODULE, program, str(self.cpu_seconds), str(self.memory_bytes)),
            env=python_environment(OMP_THREAD_LIMIT="1"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # so that tesseract, its child, can be killed with it
        )


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the process and what it started, if it has not ended by itself."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, _KILL)
            else:
                process.kill()
        await process.communicate()


def _read(out: bytes, code: int | None) -> Reading:
    try:
        told: dict[str, Any] = orjson.loads(out)
    except orjson.JSONDecodeError:
        if code is not None and -code in {getattr(signal, "SIGXCPU", 0), _KILL}:
            raise ScrapeError("cpu_limit", "reading the picture took too much time") from None
        raise ScrapeError("worker_died", "the process that read the picture died") from None
    if "error" in told:
        raise ScrapeError("parse", str(told["error"]))
    return reading(told["lines"])
