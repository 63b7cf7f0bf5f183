"""Generates the data of the sample source; run with `python -m` in the root of the repository.

All advertisers, products and texts are fictional. Ages are in days before the day on which the
sample is read, so that recent date ranges always match.
"""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any, Final

from PIL import Image

from tests.requirements import require
from tests.service.creatives.ads import Ad, take_screenshots

FOLDER: Final = Path(__file__).resolve().parents[3] / "webdata_nb/service/creatives/samples"
INSTRUMENTS: Final = {
    "advertiser_id": "AR00000000000000000042",
    "name": "Fulmar Instruments",
    "country": "NO",
    "domain": "fulmar-instruments.example",
}
FERRIES: Final = {
    "advertiser_id": "AR00000000000000000043",
    "name": "Fulmar Ferries",
    "country": "FO",
    "domain": "fulmar-ferries.example",
}
PRODUCTS: Final = (
    ("Handheld anemometer", "Measures gusts up to 60 m/s. Waterproof, and it floats."),
    ("Aurora alarm", "Wakes you only when the sky is worth it. Quiet until then."),
    ("Brass barometer", "No battery, no app, no update. It simply works."),
    ("Station logbook", "Two hundred pages of paper that rain cannot spoil."),
    ("Snow depth pole", "Reads to the centimetre from thirty metres away."),
    ("Solar rain gauge", "Empties itself and reports each morning at six."),
    ("Wool wind vane", "Knitted in the north. Always knows where the wind is."),
    ("Tide table clock", "High water at a glance, for harbours without a signal."),
    ("Ice core puzzle", "One thousand pieces of very cold history."),
)
OFFERS: Final = ("New this winter", "Free shipping", "Last few left", "Try it 30 days", "Save 20 %")
ROUTES: Final = (
    ("Night boat to Skarvoy", "Cabins from 49 euros. Breakfast comes with the sunrise."),
    ("Whale watching Sundays", "Leave at nine, back before dark, binoculars included."),
    ("Bring your bicycle", "Two wheels travel free on every crossing until May."),
    ("Winter timetable", "Four crossings a day, also when it snows."),
    ("Island hopping pass", "Seven islands, ten days, one ticket."),
)
PALETTES: Final = (
    ("#ffffff", "#3c4043", "#174ea6"),
    ("#0b2545", "#e6eef8", "#ffd166"),
    ("#f1e9da", "#463f3a", "#8a2b0e"),
    ("#d8f3dc", "#1b4332", "#081c15"),
    ("#22223b", "#f2e9e4", "#c9ada7"),
)
SIZES: Final = ((300, 250), (336, 200), (320, 180))
FORMATS: Final = ("image", "text", "image", "video")
REGIONS: Final = (("NO", "SE"), ("NO", "DK", "FO", "IS"), ("DE",), ("GB", "IE"), ("US", "CA"))


def sample_ad(advertiser: dict[str, str], number: int, title: str, text: str) -> tuple[Ad, Any]:
    """Return one advertisement, and its row in the data of the source."""
    background, color, accent = PALETTES[number % len(PALETTES)]
    width, height = SIZES[number % len(SIZES)]
    ad = Ad(
        title, text, advertiser["domain"], width, height, "DejaVu Sans", background, color, accent
    )
    last_age = (number * number) % 75
    days = 3 + (number * 7) % 60
    lower = 10 ** (3 + number % 3)
    row = {
        "advertiser_id": advertiser["advertiser_id"],
        "creative_id": f"CR{int(advertiser['advertiser_id'][2:]):010d}{number:010d}",
        "format": FORMATS[number % len(FORMATS)],
        "first_age": last_age + days + number % 5,
        "last_age": last_age,
        "days_shown": days,
        "regions": REGIONS[number % len(REGIONS)],
        "impressions": [lower, lower * 5],
        "landing_domain": advertiser["domain"],
        "political": False,
        "headline": title,
        "description": text,
        "image": f"{advertiser['advertiser_id']}-{number:02d}.png",
    }
    return ad, row


def compress(png: bytes) -> bytes:
    """Return the picture with 12 colours."""
    out = io.BytesIO()
    image = Image.open(io.BytesIO(png)).convert("RGB").quantize(12, dither=Image.Dither.NONE)
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


async def main() -> None:
    """Write the pictures and the data of the sample source."""
    samples = [
        sample_ad(INSTRUMENTS, number, f"{title}: {offer}", text)
        for number, (offer, (title, text)) in enumerate(
            ((offer, product) for offer in OFFERS for product in PRODUCTS), start=1
        )
    ]
    screenshots = await take_screenshots([ad for ad, _ in samples], require("chromium"))
    for (_, row), png in zip(samples, screenshots, strict=True):
        (FOLDER / row["image"]).write_bytes(compress(png))
    data = {"advertisers": [INSTRUMENTS, FERRIES], "creatives": [row for _, row in samples]}
    (FOLDER / "samples.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
