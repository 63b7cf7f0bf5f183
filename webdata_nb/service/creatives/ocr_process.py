"""A process that reads the text of one picture: `python -m` this module, the picture on stdin.

A picture comes from anywhere, so it is decoded here, under a ceiling of processor time and memory
that the system itself keeps, and in a process that may be killed at any time.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from PIL import Image, ImageOps, ImageStat

from webdata_nb.service.creatives.text_layout import type_size

MOST_PIXELS: Final = 40_000_000
# Engines read letters of some 30 pixels best; those of advertisements have 10 to 15.
_SCALES: Final = ((800, 3.0), (1600, 2.0))
_LONGEST: Final = 4000
_DARK: Final = 128
_WORD: Final = "5"

Line = dict[str, Any]


def prepared(data: bytes) -> Image.Image:
    """Return the picture in grey, dark on light, large enough to read."""
    Image.MAX_IMAGE_PIXELS = MOST_PIXELS
    with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP")) as opened:
        if math.prod(opened.size) > MOST_PIXELS:
            raise ValueError(f"it has more than {MOST_PIXELS:,} pixels")
        image = opened.convert("RGBA")
    paper = Image.new("RGBA", image.size, "white")
    grey = Image.alpha_composite(paper, image).convert("L")
    if ImageStat.Stat(grey).median[0] < _DARK:
        grey = ImageOps.invert(grey)
    return ImageOps.autocontrast(_scaled(grey), cutoff=1)


def _scaled(image: Image.Image) -> Image.Image:
    longest = max(image.size)
    factor = next((scale for most, scale in _SCALES if longest <= most), 1.0)
    factor = min(factor, _LONGEST / longest)
    if factor == 1.0:
        return image
    size = tuple(max(1, round(side * factor)) for side in image.size)
    return image.resize((size[0], size[1]), Image.Resampling.BICUBIC)


def by_tesseract(image: Image.Image, program: str) -> list[Line]:
    """Read with the tesseract program; it inherits the ceilings of this process."""
    png = io.BytesIO()
    image.save(png, "PNG", compress_level=1)
    done = subprocess.run(  # noqa: S603 - a program found by its parent, with fixed arguments
        [program, "stdin", "stdout", "--dpi", "200", "--psm", "11", "tsv"],
        input=png.getvalue(),
        capture_output=True,
        check=True,
        env={"OMP_THREAD_LIMIT": "1", "PATH": os.defpath},
    )
    return _lines(done.stdout.decode("utf-8", "replace"))


def _lines(tsv: str) -> list[Line]:
    """Put the words of tesseract's table together as lines."""
    found: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in csv.DictReader(io.StringIO(tsv), delimiter="\t", quoting=csv.QUOTE_NONE):
        if row["level"] == _WORD and row["text"].strip():
            key = (row["block_num"], row["par_num"], row["line_num"])
            found.setdefault(key, []).append(row)
    return [_line(words) for words in found.values()]


def _line(words: Sequence[dict[str, str]]) -> Line:
    confidences = [float(word["conf"]) for word in words]
    # A dash alone says nothing about the size of type.
    telling = [word for word in words if any(map(str.isalnum, word["text"]))] or words
    return {
        "text": " ".join(word["text"].strip() for word in words),
        "confidence": statistics.fmean(confidences) / 100,
        "top": min(int(word["top"]) for word in words),
        "left": min(int(word["left"]) for word in words),
        "size": statistics.median(
            type_size(word["text"].strip(), int(word["height"])) for word in telling
        ),
    }


def by_rapidocr(image: Image.Image) -> list[Line]:
    """Read with the `ocr` extra; its models are in its wheel."""
    numpy: Any = importlib.import_module("numpy")  # comes with the extra
    rapidocr: Any = importlib.import_module("rapidocr")  # an extra, without types

    with contextlib.redirect_stdout(sys.stderr):
        read = rapidocr.RapidOCR()(numpy.asarray(image.convert("RGB")))
    if read.txts is None:
        return []
    return [
        {
            "text": str(text),
            "confidence": float(score),
            "top": int(min(y for _, y in box)),
            "left": int(min(x for x, _ in box)),
            # Its boxes are as high as the line, whatever the letters.
            "size": float(max(y for _, y in box) - min(y for _, y in box)),
        }
        for text, score, box in zip(read.txts, read.scores, read.boxes, strict=True)
    ]


def limit(cpu_seconds: int, memory_bytes: int) -> None:
    """Let the system end this process, and what it starts, beyond these bounds."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - POSIX only

        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + memory_bytes, used + memory_bytes))


def main() -> None:
    """Read one picture and write its lines as JSON, or the reason why not."""
    engine, cpu_seconds, memory_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    limit(cpu_seconds, memory_bytes)
    try:
        image = prepared(sys.stdin.buffer.read())
        lines = by_rapidocr(image) if engine == "rapidocr" else by_tesseract(image, engine)
        told: Any = {"lines": lines}
    except (OSError, ValueError, MemoryError, Image.DecompressionBombError) as error:
        told = {"error": f"the picture could not be read ({type(error).__name__})"}
    except subprocess.CalledProcessError as error:
        told = {"error": f"tesseract ended with {error.returncode}"}
    sys.stdout.buffer.write(orjson.dumps(told))


if __name__ == "__main__":
    main()
