"""Chromium: where it is, how it is started, and what it may not do."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from webdata_nb.service.browser.shutdown import detach, ends_in_time
from webdata_nb.service.errors import ScrapeError
from webdata_nb.service.runtime.child_process import environment

if TYPE_CHECKING:
    from playwright.async_api import Browser as Chromium
    from playwright.async_api import Error as PlaywrightError
    from playwright.async_api import Playwright

INSTALL: Final = (
    "rendering needs a browser: pip install 'webdata_nb[browser]' and, on Debian, "
    "apt install chromium-headless-shell (or chromium)"
)
LAUNCH_S: Final = 30.0
_REMOVALS: Final = 20
_PROFILE: Final = "--user-data-dir="
# The headless shell renders a page in a third of the time of a whole Chromium.
_PROGRAMS: Final = (
    *("chromium-headless-shell", "chrome-headless-shell", "headless_shell"),
    *("chromium", "chromium-browser", "google-chrome-stable", "google-chrome"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
_SYSTEM_PATHS: Final = ("/usr/bin", "/usr/local/bin", "/snap/bin")
_ARGUMENTS: Final = (
    # Names are the proxy's to resolve: what would go around it finds no address.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--proxy-bypass-list=<-loopback>",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--dns-prefetch-disable",
    "--no-pings",
    "--disable-domain-reliability",
    "--disable-gpu",
    "--mute-audio",
    "--deny-permission-prompts",
    "--js-flags=--max-old-space-size=1024",
    "--enable-automation",  # without it, Chromium does not say where its profile is
)
_ENVIRONMENT: Final = frozenset(
    {
        *("HOME", "USER", "FONTCONFIG_FILE", "FONTCONFIG_PATH", "LOCALAPPDATA", "APPDATA"),
        *("USERPROFILE", "PROGRAMFILES", "PROGRAMDATA"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_DATA_DIRS"),
        *("XDG_CONFIG_DIRS", "XDG_RUNTIME_DIR"),
    }
)


def missing() -> ScrapeError:
    """Return the failure of a page that needs a browser where there is none."""
    return ScrapeError("browser_missing", INSTALL)


def failure(error: PlaywrightError, chromium: Chromium | None) -> ScrapeError:
    """Return what an error of the browser means for the page that met it."""
    if chromium is None or not chromium.is_connected():
        return ScrapeError("render", "the browser crashed over this page")
    return ScrapeError("render", f"the page could not be rendered ({_first_line(error)})")


def find_program() -> Path | None:
    """Return the system's Chromium, the fastest kind first; None when there is none."""
    path = os.pathsep.join((os.environ.get("PATH", ""), *_SYSTEM_PATHS))
    found = (shutil.which(name, path=path) for name in _PROGRAMS)
    return next((Path(program) for program in found if program), None)


async def launch(
    playwright: Playwright,
    program: Path | None,
    *,
    proxy_url: str,
    artifacts: Path,
    fingerprint: str | None = None,
) -> Chromium:
    """Start a Chromium whose only network is the proxy, and that takes the proxy's key if given.

    Raises
    ------
    ScrapeError
        Of kind ``browser_missing``, when there is none or it does not start.
    """
    from playwright.async_api import Error  # noqa: PLC0415 - an optional extra

    chosen = program or find_program() or Path(playwright.chromium.executable_path)
    if not chosen.is_file():
        raise missing()
    try:
        return await playwright.chromium.launch(
            executable_path=chosen,
            args=[*_ARGUMENTS, *_trusting(fingerprint)],
            # Contexts bring the credential; what belongs to none gets nothing but 407.
            proxy={"server": proxy_url},
            # None of the service's own: it holds keys, which are none of a page's business.
            env={"TMPDIR": tempfile.gettempdir(), **environment(_ENVIRONMENT)},
            chromium_sandbox=_may_use_sandbox(),
            # After a crash the driver may end before it has removed a folder of its own.
            artifacts_dir=artifacts,
            timeout=LAUNCH_S * 1000,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
    except Error as error:
        said = f"{chosen.name} could not be started ({_first_line(error)}); {INSTALL}"
        raise ScrapeError("browser_missing", said) from error


def _trusting(fingerprint: str | None) -> tuple[str, ...]:
    # For this key alone; every other certificate is checked as ever.
    option = "--ignore-certificate-errors-spki-list"
    return () if fingerprint is None else (f"{option}={fingerprint}",)


def _first_line(error: PlaywrightError) -> str:
    # What follows it is a log of the browser's own.
    return next(iter(error.message.strip().splitlines()), "it says no more")[:200]


async def answers(chromium: Chromium) -> bool:
    """Whether a browser and its driver still answer: a killed driver never tells of its end."""
    return chromium.is_connected() and await ends_in_time(_greet(chromium))


async def _greet(chromium: Chromium) -> None:
    session = await chromium.new_browser_cdp_session()
    await session.send("Browser.getVersion")
    await detach(session)


async def profile_of(chromium: Chromium) -> Path | None:
    """Return the temporary folder that a Chromium keeps its files in."""
    session = await chromium.new_browser_cdp_session()
    line = (await session.send("Browser.getBrowserCommandLine"))["arguments"]
    await detach(session)
    named = (part.removeprefix(_PROFILE) for part in line if part.startswith(_PROFILE))
    return next(map(Path, named), None)


async def remove(profile: Path) -> None:
    """Remove a profile that a crash left behind, also while the last processes write to it."""
    for _ in range(_REMOVALS):
        if not await asyncio.to_thread(profile.exists):
            return
        await asyncio.to_thread(shutil.rmtree, profile, ignore_errors=True)
        await asyncio.sleep(0.05)


def _may_use_sandbox() -> bool:
    # Chromium refuses to run its sandbox as root, and starts with --no-sandbox alone there. Any
    # other user gets the sandbox, or a failure to start: pages are never run without it unasked.
    return not hasattr(os, "geteuid") or os.geteuid() != 0
