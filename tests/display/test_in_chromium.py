"""Everything that is drawn, in a real browser: no script runs, nothing is loaded, nothing errs.

The browser is a process of its own with a bound on its time; it prints the page as it is after
everything in it had its chance, together with what the page's own first script has noted.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.display import hostile, html_samples
from tests.requirements import require

_BOUND_S: Final = 240
# The page's first script: whatever else ran or was asked for, it has a note of.
WATCH: Final = """
<script>
const noted = [];
const note = (kind, what) => { noted.push([kind, String(what).slice(0, 200)]); };
for (const name of ['alert', 'confirm', 'prompt', 'print', 'open'])
  window[name] = what => { note(name, what); };
window.fetch = what => { note('fetch', what); return Promise.reject(); };
window.onerror = what => { note('error', what); };
document.addEventListener('securitypolicyviolation',
  event => { note('asked for', `${event.effectiveDirective} ${event.blockedURI}`); });
</script>
"""
TELL: Final = """
<script>
const made = document.getElementById('drawn');
const told = {
  noted,
  scripts: made.querySelectorAll('script').length,
  styles: document.querySelectorAll('style, link, base').length,
  frames: window.frames.length,
  focus: made.contains(document.activeElement),
  parts: made.children.length,
  closed: document.body.lastElementChild.id === 'teller',
};
addEventListener('load', () => setTimeout(() => {
  told.loaded = performance.getEntriesByType('resource').map(each => each.name);
  const text = unescape(encodeURIComponent(JSON.stringify(told)));
  document.body.insertAdjacentHTML('beforeend', `<p>TOLD:${btoa(text)}:TOLD</p>`);
}, 500));
</script>
"""
# Reports what a page would load from elsewhere, and keeps it from being loaded in a test.
POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
)


def seen(parts: Sequence[str], folder: Path) -> dict[str, Any]:
    """Open a page with `parts` in Chromium, and return what it has noted."""
    page = folder / "page.html"
    inside = "".join(f"<div>{part}</div>" for part in parts)
    page.write_text(
        f'<!doctype html><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">{WATCH}'
        f'<body><div id="drawn">{inside}</div><div id="teller">{TELL}</div></body>',
        encoding="utf-8",
        errors="replace",
    )
    text = _printed(page, folder)
    found = re.search("TOLD:([A-Za-z0-9+/=]+):TOLD", text)
    assert found is not None, text[-2000:]
    report: dict[str, Any] = json.loads(base64.b64decode(found[1]))
    return report


def _printed(page: Path, folder: Path) -> str:
    out = folder / "out.html"
    options = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder / 'profile'}",
        "--virtual-time-budget=10000",
        "--dump-dom",
    )
    with out.open("wb") as output, (folder / "log").open("wb") as log:
        # In a session of its own: whatever it starts ends with it.
        browser = subprocess.Popen(
            [require("chromium"), *options, page.as_uri()],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=log,
            start_new_session=True,
        )
        try:
            browser.wait(_BOUND_S)
        finally:
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()
    return out.read_text("utf-8", errors="replace")


def check(parts: Sequence[str], folder: Path) -> None:
    assert seen(parts, folder) == {
        "noted": [],
        "scripts": 0,
        "styles": 0,
        "frames": 0,
        "focus": False,
        "parts": len(parts),
        "closed": True,
        "loaded": [],
    }


def test_nothing_of_ours_runs_or_loads_in_any_repr(tmp_path: Path) -> None:
    check(html_samples.markups(list(hostile.OWN)), tmp_path)


@pytest.mark.slow
def test_nothing_of_the_corpora_runs_or_loads_in_any_repr(tmp_path: Path) -> None:
    texts = hostile.texts(require("corpora"))
    # The tables differ in their columns, not in how these are drawn: `test_sheet` has them all.
    check([*html_samples.of_tables(texts, "crawl"), *html_samples.others(texts)], tmp_path)


def test_the_browser_would_have_noticed(tmp_path: Path) -> None:
    raw = [
        "<img src=x onerror=alert(1)>",
        "<svg onload=confirm(2)></svg>",
        "<script>prompt(3)</script>",
        "<img src=https://a.test/x.png>",
        "<div style='background:url(https://a.test/y.png)'>x</div>",
        "<input autofocus onfocus=alert(4)>",
        "<iframe srcdoc='x'></iframe>",
    ]
    report = seen(raw, tmp_path)
    kinds = {kind for kind, _ in report["noted"]}
    assert kinds >= {"alert", "confirm", "prompt", "asked for"}
    requested = " ".join(what for kind, what in report["noted"] if kind == "asked for")
    assert "https://a.test/x.png" in requested
    assert "https://a.test/y.png" in requested
    assert report["scripts"] == 1
    assert report["frames"] == 1
