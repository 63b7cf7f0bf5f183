"""Draws the sample advertisers that ship with the package: `python -m` this module, from the root.

Everything is invented: the advertisers, their products, their words. Ages are days before the day
on which the sample is read, so that every date range finds something for ever.
"""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any, Final

from PIL import Image

from tests.requirements import require
from tests.service.creatives.ads import Ad, photographs

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
PAPERS: Final = (
    ("#ffffff", "#3c4043", "#174ea6"),
    ("#0b2545", "#e6eef8", "#ffd166"),
    ("#f1e9da", "#463f3a", "#8a2b0e"),
    ("#d8f3dc", "#1b4332", "#081c15"),
    ("#22223b", "#f2e9e4", "#c9ada7"),
)
SIZES: Final = ((300, 250), (336, 200), (320, 180))
FORMATS: Final = ("image", "text", "image", "video")
REGIONS: Final = (("NO", "SE"), ("NO", "DK", "FO", "IS"), ("DE",), ("GB", "IE"), ("US", "CA"))


def drawn(advertiser: dict[str, str], number: int, title: str, text: str) -> tuple[Ad, Any]:
    """Return one advertisement, and what the source tells about it."""
    paper, ink, accent = PAPERS[number % len(PAPERS)]
    width, height = SIZES[number % len(SIZES)]
    ad = Ad(title, text, advertiser["domain"], width, height, "DejaVu Sans", paper, ink, accent)
    last_age = (number * number) % 75
    days = 3 + (number * 7) % 60
    lower = 10 ** (3 + number % 3)
    told = {
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
    return ad, told


def small(png: bytes) -> bytes:
    """Return the same picture in a few colours."""
    out = io.BytesIO()
    image = Image.open(io.BytesIO(png)).convert("RGB").quantize(12, dither=Image.Dither.NONE)
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


async def main() -> None:
    """Write the pictures and what the sample source tells."""
    made = [
        drawn(INSTRUMENTS, number, f"{title}: {offer}", text)
        for number, (offer, (title, text)) in enumerate(
            ((offer, product) for offer in OFFERS for product in PRODUCTS), start=1
        )
    ]
    made += [drawn(FERRIES, number, *route) for number, route in enumerate(ROUTES, start=1)]
    pictures = await photographs([ad for ad, _ in made], require("chromium"))
    for (_, told), png in zip(made, pictures, strict=True):
        (FOLDER / told["image"]).write_bytes(small(png))
    told = {"advertisers": [INSTRUMENTS, FERRIES], "creatives": [each for _, each in made]}
    (FOLDER / "samples.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
