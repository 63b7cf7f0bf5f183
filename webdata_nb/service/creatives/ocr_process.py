"""Runs OCR on the picture on stdin, as the main module of a child process, and lays out its text.

Pictures are untrusted, so they are decoded only here, under CPU and memory limits of the operating
system and in a process that can be killed at any time. The parent puts the recognized lines in
order, and finds the headline and the description among them.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import math
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from PIL import Image, ImageOps, ImageStat

from webdata_nb.service.runtime.process import MEMORY_LIMIT_EXIT, limit_memory

# The least ratio of a headline's font size to the other lines'; smaller ones may be noise.
_HEADLINE_RATIO: Final = 1.15
_MIN_CONFIDENCE: Final = 0.3
_WEB_ADDRESS: Final = re.compile(r"(?:https?://)?(?:[\w-]+\.)+[a-z]{2,}(?:/\S*)?", re.IGNORECASE)
# Parts of the font size: letters without ascenders or descenders, ascenders, descenders.
_X_HEIGHT: Final = 0.53
_ASCENDER: Final = 0.20
_DESCENDER: Final = 0.21
_WITH_DESCENDER: Final = frozenset("gjpqy,;()[]{}|/QJ@")
_WITHOUT_ASCENDER: Final = frozenset("acegmnopqrsuvwxyz.,-:;_~")


@dataclass(frozen=True, slots=True)
class OcrText:
    """The text of a picture, with headline and description if font sizes distinguish them."""

    text: str
    confidence: float | None
    headline: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text: position and font size in pixels, confidence from 0 to 1."""

    text: str
    confidence: float
    top: int
    left: int
    size: float


def font_size(word: str, height: float) -> float:
    """Return the font size of a word from its height and the strokes of its letters.

    "on" at 20 pixels is lower than "pj" at 15, which has ascenders and descenders.
    """
    ascender = 0.0 if _WITHOUT_ASCENDER.issuperset(word) else _ASCENDER
    descender = 0.0 if _WITH_DESCENDER.isdisjoint(word) else _DESCENDER
    return height / (_X_HEIGHT + ascender + descender)


def layout_text(line_fields: Sequence[Mapping[str, Any]]) -> OcrText:
    """Sort lines into reading order, and separate headline and description by font size."""
    lines = [TextLine(**fields) for fields in line_fields]
    lines = [line for line in lines if line.confidence >= _MIN_CONFIDENCE]
    lines.sort(key=lambda line: (line.top, line.left))
    if not lines:
        return OcrText("", None)
    word_counts = [len(line.text.split()) for line in lines]
    total = sum(line.confidence * count for line, count in zip(lines, word_counts, strict=True))
    text = "\n".join(line.text for line in lines)
    headline, description = _find_headline(
        [line for line in lines if not _WEB_ADDRESS.fullmatch(line.text)]
    )
    return OcrText(text, round(total / sum(word_counts), 4), headline, description)


def _find_headline(lines: Sequence[TextLine]) -> tuple[str | None, str | None]:
    """Return the block of the largest lines and the text below it."""
    if not lines:
        return None, None
    largest = max(line.size for line in lines)
    large = [number for number, line in enumerate(lines) if line.size * _HEADLINE_RATIO >= largest]
    other_sizes = [line.size for number, line in enumerate(lines) if number not in large]
    is_one_block = large == list(range(large[0], large[-1] + 1))
    if (
        not other_sizes
        or not is_one_block
        or largest < _HEADLINE_RATIO * statistics.median(other_sizes)
    ):
        return None, None
    headline = " ".join(lines[number].text for number in large)
    description = " ".join(line.text for line in lines[large[-1] + 1 :])
    return headline, description or None


MAX_PIXELS: Final = 40_000_000
# Scale factors by longest side: engines work best on letters of about 30 pixels, and those of
# advertisements have 10 to 15.
_SCALES: Final = ((800, 3.0), (1600, 2.0))
_MAX_SIDE: Final = 4000
_DARK_MEDIAN: Final = 128
# The level of rows for words in tesseract's table.
_WORD_LEVEL: Final = "5"

LineFields = dict[str, Any]


def prepare_image(data: bytes) -> Image.Image:
    """Return the picture in greyscale, dark on light, and enlarged for OCR."""
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP")) as source:
        if math.prod(source.size) > MAX_PIXELS:
            raise ValueError(f"it has more than {MAX_PIXELS:,} pixels")
        image = source.convert("RGBA")
    background = Image.new("RGBA", image.size, "white")
    grey = Image.alpha_composite(background, image).convert("L")
    if ImageStat.Stat(grey).median[0] < _DARK_MEDIAN:
        grey = ImageOps.invert(grey)
    longest = max(grey.size)
    scale = next((scale for side, scale in _SCALES if longest <= side), 1.0)
    factor = min(scale, _MAX_SIDE / longest)
    if factor != 1.0:
        width, height = (max(1, round(side * factor)) for side in grey.size)
        grey = grey.resize((width, height), Image.Resampling.BICUBIC)
    return ImageOps.autocontrast(grey, cutoff=1)


def run_tesseract(image: Image.Image, program: str) -> list[LineFields]:
    """Recognize lines with the tesseract program, which inherits the limits of this process."""
    png = io.BytesIO()
    image.save(png, "PNG", compress_level=1)
    completed = subprocess.run(  # noqa: S603 - a program found by the parent, with fixed arguments
        [program, "stdin", "stdout", "--dpi", "200", "--psm", "11", "tsv"],
        input=png.getvalue(),
        capture_output=True,
        check=True,
        env={"OMP_THREAD_LIMIT": "1", "PATH": os.defpath},
    )
    # Group the words of tesseract's table into lines.
    tsv = completed.stdout.decode("utf-8", "replace")
    words_by_line: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in csv.DictReader(io.StringIO(tsv), delimiter="\t", quoting=csv.QUOTE_NONE):
        if row["level"] == _WORD_LEVEL and row["text"].strip():
            key = (row["block_num"], row["par_num"], row["line_num"])
            words_by_line.setdefault(key, []).append(row)
    lines: list[LineFields] = []
    for words in words_by_line.values():
        # The height of a word without letters, such as a dash, does not show the font size.
        sized = [word for word in words if any(map(str.isalnum, word["text"]))] or words
        sizes = [font_size(word["text"].strip(), int(word["height"])) for word in sized]
        lines.append(
            {
                "text": " ".join(word["text"].strip() for word in words),
                "confidence": statistics.fmean(float(word["conf"]) for word in words) / 100,
                "top": min(int(word["top"]) for word in words),
                "left": min(int(word["left"]) for word in words),
                "size": statistics.median(sizes),
            }
        )
    return lines


def run_rapidocr(image: Image.Image) -> list[LineFields]:
    """Recognize lines with the `ocr` extra, whose wheel contains its models."""
    numpy: Any = importlib.import_module("numpy")  # comes with the extra
    rapidocr: Any = importlib.import_module("rapidocr")  # an extra, without types

    with contextlib.redirect_stdout(sys.stderr):
        output = rapidocr.RapidOCR()(numpy.asarray(image.convert("RGB")))
    if output.txts is None:
        return []
    return [
        {
            "text": str(text),
            "confidence": float(score),
            "top": int(min(y for _, y in box)),
            "left": int(min(x for x, _ in box)),
            # The boxes have the height of the line, whatever its letters.
            "size": float(max(y for _, y in box) - min(y for _, y in box)),
        }
        for text, score, box in zip(output.txts, output.scores, output.boxes, strict=True)
    ]


def limit_processor_time(seconds: int) -> None:
    """Limit the processor time of this process and its children."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - POSIX only

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def main() -> None:
    """Write the lines of the picture on stdin as JSON to stdout, or an error message."""
    engine, cpu_seconds, memory_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    limit_processor_time(cpu_seconds)
    limit_memory(memory_bytes)
    try:
        image = prepare_image(sys.stdin.buffer.read())
        lines = run_rapidocr(image) if engine == "rapidocr" else run_tesseract(image, engine)
        reply: dict[str, Any] = {"lines": lines}
    except MemoryError:
        os._exit(MEMORY_LIMIT_EXIT)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        reply = {"error": f"the picture could not be read ({type(error).__name__})"}
    except subprocess.CalledProcessError as error:
        reply = {"error": f"tesseract ended with {error.returncode}"}
    sys.stdout.buffer.write(orjson.dumps(reply))


if __name__ == "__main__":
    main()
