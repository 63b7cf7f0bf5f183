"""Advertisements of nobody, as HTML, and Chromium to photograph them: for samples and for OCR."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Page, async_playwright


@dataclass(frozen=True, slots=True)
class Ad:
    """What an advertisement says and how it looks; sizes are CSS pixels."""

    headline: str
    description: str
    domain: str
    width: int = 300
    height: int = 250
    font: str = "DejaVu Sans"
    paper: str = "#ffffff"
    ink: str = "#202124"
    accent: str = "#1a0dab"
    headline_px: int = 22
    body_px: int = 14
    align: str = "left"

    @property
    def words(self) -> list[str]:
        """All words, in reading order."""
        return f"{self.domain} {self.headline} {self.description}".split()

    @property
    def markup(self) -> str:
        """The page to photograph."""
        headline, description, domain = map(
            html.escape, (self.headline, self.description, self.domain)
        )
        return f"""<!DOCTYPE html><meta charset="utf-8"><style>
          * {{ margin: 0; box-sizing: border-box }}
          body {{ width: {self.width}px; height: {self.height}px; overflow: hidden; padding: 14px;
            background: {self.paper}; color: {self.ink}; font: {self.body_px}px "{self.font}";
            text-align: {self.align}; line-height: 1.35 }}
          h1 {{ font-size: {self.headline_px}px; color: {self.accent}; line-height: 1.2;
            margin: 8px 0 }}
        </style><p>{domain}</p><h1>{headline}</h1><p>{description}</p>"""


@asynccontextmanager
async def camera(chromium: Path, *, scale: float = 1.0) -> AsyncIterator[Page]:
    """Give a browser page to photograph with."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium)
        try:
            context = await browser.new_context(device_scale_factor=scale)
            yield await context.new_page()
        finally:
            await browser.close()


async def photographs(ads: Sequence[Ad], chromium: Path, *, scale: float = 1.0) -> list[bytes]:
    """Return a PNG of each advertisement."""
    async with camera(chromium, scale=scale) as page:
        return [await photograph(page, ad) for ad in ads]


async def photograph(page: Page, ad: Ad) -> bytes:
    """Return a PNG of one advertisement."""
    await page.set_viewport_size({"width": ad.width, "height": ad.height})
    await page.set_content(ad.markup)
    return await page.screenshot(scale="device")
