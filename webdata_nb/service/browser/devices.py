"""Provides the screens of Playwright's device presets by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from webdata_nb.page.errors import BadInput

DESKTOP_WIDTH: Final = 1280
DESKTOP_HEIGHT: Final = 720
_PHONES: Final = ("Pixel 10", "Pixel 9", "Pixel 8", "Pixel 7")
"""The devices for `mobile` without a name; the newest that the installed Playwright has."""
_SUGGESTIONS: Final = 3


@dataclass(frozen=True, slots=True)
class DeviceScreen:
    """The screen for which a page is laid out.

    Attributes
    ----------
    width, height : int
        The viewport, in CSS pixels.
    scale : float
        Device pixels per CSS pixel.
    mobile, touch : bool
        Whether the viewport follows ``<meta name=viewport>``, and whether it supports touch.
    user_agent : str, optional
        The device's user agent; by default the browser's.
    """

    width: int = DESKTOP_WIDTH
    height: int = DESKTOP_HEIGHT
    scale: float = 1.0
    mobile: bool = False
    touch: bool = False
    user_agent: str | None = None


def check_name(
    name: str, presets: Mapping[str, Any], *, loc: tuple[str | int, ...] = ("body", "mobile_device")
) -> None:
    """Check the name of a device before a job starts.

    Raises
    ------
    BadInput
        The device is unknown; the message lists similar names.
    """
    if name not in presets:
        raise BadInput(_unknown(name, presets), loc=loc)


def find_screen(name: str | None, presets: Mapping[str, Any], *, mobile: bool) -> DeviceScreen:
    """Return the screen of a device; without a name a phone's if `mobile`, else a desktop's.

    Raises
    ------
    BadInput
        The device is unknown.
    """
    if name is None and not mobile:
        return DeviceScreen()
    if name is None:
        name = next(phone for phone in _PHONES if phone in presets)
    check_name(name, presets)
    preset = presets[name]
    return DeviceScreen(
        width=preset["viewport"]["width"],
        height=preset["viewport"]["height"],
        scale=preset["device_scale_factor"],
        mobile=preset["is_mobile"],
        touch=preset["has_touch"],
        user_agent=preset["user_agent"],
    )


def _unknown(name: str, presets: Mapping[str, Any]) -> str:
    by_lower = {preset.lower(): preset for preset in presets}
    close = get_close_matches(name.lower(), by_lower, n=_SUGGESTIONS, cutoff=0.4)
    message = f"no device preset is called {name[:80]!r}"
    if not close:
        return f"{message}; one is {_PHONES[-1]!r}"
    return f"{message}; the closest names are {', '.join(repr(by_lower[match]) for match in close)}"
