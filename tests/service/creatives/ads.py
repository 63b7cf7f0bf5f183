"""Renders fictional advertisements in Chromium, for the sample source and for tests of OCR."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Page, async_playwright


@dataclass(frozen=True, slots=True)
class Ad:
    """Text and style of an advertisement; sizes are CSS pixels."""

    headline: str
    description: str
    domain: str
    width: int = 300
    height: int = 250
    font: str = "DejaVu Sans"
    background: str = "#ffffff"
    color: str = "#202124"
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
        """The advertisement as an HTML page."""
        headline, description, domain = map(
            html.escape, (self.headline, self.description, self.domain)
        )
        return f"""<!DOCTYPE html><meta charset="utf-8"><style>
          * {{ margin: 0; box-sizing: border-box }}
          body {{ width: {self.width}px; height: {self.height}px; overflow: hidden; padding: 14px;
            background: {self.background}; color: {self.color}; text-align: {self.align};
            font: {self.body_px}px "{self.font}"; line-height: 1.35 }}
          h1 {{ font-size: {self.headline_px}px; color: {self.accent}; line-height: 1.2;
            margin: 8px 0 }}
        </style><p>{domain}</p><h1>{headline}</h1><p>{description}</p>"""


@asynccontextmanager
async def open_page(chromium: Path, *, scale: float = 1.0) -> AsyncIterator[Page]:
    """Open a browser page for screenshots."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium)
        try:
            context = await browser.new_context(device_scale_factor=scale)
            yield await context.new_page()
        finally:
            await browser.close()


async def take_screenshots(ads: Sequence[Ad], chromium: Path, *, scale: float = 1.0) -> list[bytes]:
    """Return a PNG of each advertisement."""
    async with open_page(chromium, scale=scale) as page:
        return [await take_screenshot(page, ad) for ad in ads]


async def take_screenshot(page: Page, ad: Ad) -> bytes:
    """Return a PNG of one advertisement."""
    await page.set_viewport_size({"width": ad.width, "height": ad.height})
    await page.set_content(ad.markup)
    return await page.screenshot(scale="device")
