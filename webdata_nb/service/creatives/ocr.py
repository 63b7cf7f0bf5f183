"""Recognizes the text of pictures in child processes, with tesseract or rapidocr."""

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

from webdata_nb.page.errors import ScrapeError
from webdata_nb.service.creatives.ocr_process import OcrText, layout_text
from webdata_nb.service.errors import MissingSetting
from webdata_nb.service.runtime.fair_scheduler import FairSemaphore
from webdata_nb.service.runtime.process import (
    MEMORY_LIMIT_EXIT,
    available_processors,
    python_command,
    python_environment,
)

# Limits for hostile pictures: most need 0.2 s with tesseract and 2 s with rapidocr.
CPU_SECONDS: Final = 15
MEMORY_BYTES: Final = 1536 * 1024 * 1024
TIMEOUT_S: Final = 60.0
_MODULE: Final = "webdata_nb.service.creatives.ocr_process"
_KILL_SIGNAL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)


def find_engine() -> str:
    """Return the OCR engine to use: tesseract's path, or `rapidocr`.

    Raises
    ------
    MissingSetting
        Neither is installed.
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
class OcrPool:
    """Runs OCR in one process per picture, with at most one process per core."""

    cpu_seconds: int = CPU_SECONDS
    memory_bytes: int = MEMORY_BYTES
    slots: FairSemaphore = field(default_factory=lambda: FairSemaphore(available_processors()))

    async def read(self, picture: bytes, engine: str) -> OcrText:
        """Return the text of a picture.

        Raises
        ------
        ScrapeError
            The data is not a picture, or OCR exceeded a limit; `kind` says which.
        """
        async with self.slots:
            process = await self._start(engine)
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    output, _ = await process.communicate(picture)
            except TimeoutError:
                raise ScrapeError("cpu_limit", f"OCR took over {TIMEOUT_S:.0f} s") from None
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        if hasattr(os, "killpg"):
                            os.killpg(process.pid, _KILL_SIGNAL)
                        else:
                            process.kill()
                    await process.communicate()
        try:
            reply: dict[str, Any] = orjson.loads(output)  # noqa: TID251 - written by the OCR process
        except orjson.JSONDecodeError:
            if process.returncode is not None and -process.returncode in {
                getattr(signal, "SIGXCPU", 0),
                _KILL_SIGNAL,
            }:
                raise ScrapeError("cpu_limit", "OCR of the picture took too much time") from None
            if process.returncode == MEMORY_LIMIT_EXIT:
                raise ScrapeError(
                    "memory_limit", "OCR of the picture needs too much memory"
                ) from None
            raise ScrapeError("worker_died", "the OCR process died") from None
        if "error" in reply:
            raise ScrapeError("parse", str(reply["error"]))
        return layout_text(reply["lines"])

    async def _start(self, engine: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *python_command(_MODULE, engine, str(self.cpu_seconds), str(self.memory_bytes)),
            env=python_environment(OMP_THREAD_LIMIT="1"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # allows killing the process group with tesseract in it
        )
