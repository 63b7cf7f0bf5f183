"""Tests OCR with screenshots of twenty fictional advertisements."""

from __future__ import annotations

import asyncio
import io
import sys
from collections import Counter
from collections.abc import Sequence

import pytest
from PIL import Image

from tests.requirements import require
from tests.service.creatives.ads import Ad, take_screenshots
from webdata_nb.page.errors import ScrapeError
from webdata_nb.service.creatives.enrich import OcrPool
from webdata_nb.service.creatives.ocr_process import OcrText, layout_text

SANS, SERIF, MONO = "DejaVu Sans", "DejaVu Serif", "DejaVu Sans Mono"
NARROW, ROMAN, HELV = "Liberation Sans Narrow", "Liberation Serif", "Liberation Sans"
ADS = (
    Ad(
        "Winter boots for real winters",
        "Warm to minus thirty. Free returns within 60 days.",
        "boots.example",
    ),
    Ad(
        "Learn Norwegian in twelve weeks",
        "Small groups, live teachers, evenings only.",
        "sprak.example",
        font=SERIF,
    ),
    Ad(
        "Payroll that runs itself",
        "Set it up on Monday, forget it by Friday.",
        "payroll.example",
        336,
        280,
        HELV,
        "#0b2545",
        "#e6eef8",
        "#ffd166",
    ),
    Ad(
        "Mortgage rates fell again",
        "Compare 40 lenders in two minutes, without a phone call.",
        "rates.example",
        348,
        209,
        ROMAN,
        headline_px=24,
    ),
    Ad(
        "Cloud backup, honestly priced",
        "4 euros per terabyte. No egress fees, ever.",
        "vault.example",
        300,
        250,
        MONO,
        "#101418",
        "#c9d1d9",
        "#7ee787",
        18,
        12,
    ),
    Ad(
        "Fresh fish on your doorstep",
        "Caught at dawn and delivered before dinner.",
        "fish.example",
        320,
        180,
        NARROW,
        "#f1e9da",
        "#463f3a",
        "#8a2b0e",
        26,
        16,
    ),
    Ad(
        "Your garden, finally finished",
        "Book a free visit from a designer near you.",
        "garden.example",
        300,
        250,
        SANS,
        "#d8f3dc",
        "#1b4332",
        "#081c15",
        align="center",
    ),
    Ad(
        "Hearing aids nobody notices",
        "Try them at home for 45 days.",
        "hearing.example",
        250,
        250,
        HELV,
        "#eeeeee",
        "#666666",
        "#444444",
        20,
        13,
    ),
    Ad(
        "Used cars with a history",
        "Every repair on record, every owner named.",
        "cars.example",
        728,
        90,
        SERIF,
        headline_px=20,
        body_px=13,
    ),
    Ad(
        "Sleep deeper tonight",
        "A mattress that ships in a box and stays for years.",
        "sleep.example",
        300,
        250,
        ROMAN,
        "#22223b",
        "#f2e9e4",
        "#c9ada7",
        24,
        15,
        "center",
    ),
    Ad(
        "Tickets for the summer festival",
        "Three stages, forty bands, one lake.",
        "festival.example",
        320,
        250,
        SANS,
        "#ff6b35",
        "#ffffff",
        "#ffffff",
        24,
        16,
    ),
    Ad(
        "Insurance without small print",
        "Cancel any day. Claims answered within 24 hours.",
        "cover.example",
        300,
        250,
        HELV,
        "#f7f7f7",
        "#777777",
        "#005f73",
        22,
        13,
    ),
    Ad(
        "Hire an electrician today",
        "Fixed prices, certified people, no call centre.",
        "spark.example",
        336,
        280,
        NARROW,
        headline_px=30,
        body_px=18,
    ),
    Ad(
        "The newspaper that explains",
        "One story a day, told from the beginning.",
        "daily.example",
        300,
        250,
        SERIF,
        "#fdf6e3",
        "#586e75",
        "#b58900",
        24,
        14,
    ),
    Ad(
        "Run your first marathon",
        "A training plan that bends when life does.",
        "runner.example",
        320,
        320,
        SANS,
        "#00296b",
        "#fdc500",
        "#ffd500",
        28,
        16,
    ),
    Ad(
        "Solar panels without the sales pitch",
        "See your numbers online before anyone rings the bell.",
        "solar.example",
        348,
        209,
        HELV,
        headline_px=18,
        body_px=12,
    ),
    Ad(
        "Coffee roasted this morning",
        "Ground at noon and posted by five.",
        "beans.example",
        300,
        250,
        MONO,
        "#3e2723",
        "#efebe9",
        "#ffcc80",
        18,
        13,
    ),
    Ad(
        "Move house without lifting",
        "We pack, carry, unpack and take the boxes away.",
        "movers.example",
        468,
        120,
        ROMAN,
        headline_px=22,
        body_px=15,
    ),
    Ad(
        "A language model for lawyers",
        "Cites every sentence it writes.",
        "legal.example",
        300,
        250,
        NARROW,
        "#ffffff",
        "#999999",
        "#333333",
        24,
        17,
    ),
    Ad(
        "Museum night on Saturday",
        "All doors open until two. Children enter free.",
        "museum.example",
        300,
        600,
        SANS,
        "#264653",
        "#e9f5f2",
        "#e9c46a",
        30,
        18,
        "center",
    ),
)


def correct_words(ad: Ad, ocr_text: OcrText) -> int:
    """Count the words of an advertisement that OCR recognized exactly."""
    return (Counter(ad.words) & Counter(ocr_text.text.split())).total()


@pytest.mark.slow
async def test_ocr_recognizes_95_percent_of_words() -> None:
    program = str(require("tesseract"))
    pictures = await take_screenshots(ADS, require("chromium"))
    pool = OcrPool()
    texts = await asyncio.gather(*(pool.read(each, program) for each in pictures))
    words = sum(len(ad.words) for ad in ADS)
    correct = sum(map(correct_words, ADS, texts))
    print(f"{correct} of {words} words correct ({correct / words:.1%})")  # noqa: T201 - the figure
    assert correct / words >= 0.95
    with_headline = [(ad, each) for ad, each in zip(ADS, texts, strict=True) if each.headline]
    assert len(with_headline) >= 15
    assert all(each.headline == ad.headline for ad, each in with_headline)
    assert all(each.confidence and 0.5 < each.confidence <= 1 for each in texts)


async def test_unknown_format_is_refused() -> None:
    with pytest.raises(ScrapeError, match="could not be read"):
        await OcrPool().read(b"<svg/>", str(require("tesseract")))


async def test_blank_picture_has_no_text() -> None:
    ocr_text = await OcrPool().read(png(64, 64), str(require("tesseract")))
    assert (ocr_text.text, ocr_text.confidence, ocr_text.headline) == ("", None, None)


@pytest.mark.slow
async def test_picture_with_too_many_pixels_is_refused() -> None:
    with pytest.raises(ScrapeError, match="could not be read"):
        await OcrPool().read(png(8000, 8000), str(require("tesseract")))


@pytest.mark.skipif(sys.platform == "win32", reason="resource limits are POSIX")
async def test_cpu_limit_ends_process() -> None:
    with pytest.raises(ScrapeError) as caught:
        # The interpreter alone exceeds a limit of 0 s.
        await OcrPool(cpu_seconds=0).read(png(3000, 3000), str(require("tesseract")))
    assert caught.value.kind in {"cpu_limit", "worker_died"}


async def test_cancelled_ocr_ends_process() -> None:
    task = asyncio.create_task(OcrPool().read(png(4000, 4000), str(require("tesseract"))))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def png(width: int, height: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height), "white").save(out, "PNG")
    return out.getvalue()


def line(text: str, top: int, height: int, confidence: float = 0.9) -> dict[str, object]:
    return {"text": text, "top": top, "left": 0, "size": height, "confidence": confidence}


@pytest.mark.parametrize(
    ("lines", "headline", "description"),
    [
        ([line("Small", 50, 10), line("Big", 10, 20)], "Big", "Small"),
        ([line("x.example", 0, 10), line("Big", 9, 20), line("a", 40, 10)], "Big", "a"),
        ([line("Same", 10, 10), line("Size", 30, 11)], None, None),
        ([line("Alone", 10, 30)], None, None),
        ([line("Big", 0, 30), line("small", 40, 9), line("Big too", 60, 30)], None, None),
        ([line("Big", 0, 30), line("Still big", 40, 28), line("s", 80, 9)], "Big Still big", "s"),
        ([line("Last", 40, 30), line("first", 0, 9)], "Last", None),
        ([line("Noise", 0, 40, 0.1), line("Big", 50, 30), line("s", 90, 9)], "Big", "s"),
    ],
)
def test_headline_has_larger_font(
    lines: Sequence[dict[str, object]], headline: str | None, description: str | None
) -> None:
    ocr_text = layout_text(lines)
    assert (ocr_text.headline, ocr_text.description) == (headline, description)
