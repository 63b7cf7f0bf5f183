"""Texts that want to be markup, and what no markup of ours may hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from turbohtml import parse

OWN: Final = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "</summary></details></td></table><iframe srcdoc='<script>alert(1)</script>'>",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    'https://a.test/" onmouseover="alert(1)',
    "https://a.test/' onfocus='alert(1)' autofocus='",
    "https://user@a.test/",
    "jAvAsCrIpT:https://a.test/",
    "http://[broken",
    "https://a.test/\x01\u202e\u2028",
    "<!--",
    "]]><style>*{background:url(https://a.test/x.png)}</style>",
    "<link rel=stylesheet href=https://a.test/x.css><base href=https://a.test/>",
    "&lt;img src=x onerror=alert(1)&gt;",
)
_EMBEDS: Final = frozenset(
    {
        *("applet", "audio", "base", "embed", "form", "frame", "iframe", "input"),
        *("link", "math", "meta", "object", "script", "style", "svg", "template"),
        *("video"),
    }
)


def texts(corpora: Path) -> list[str]:
    """Return DOMPurify's payloads and the naughty strings."""
    payloads = json.loads((corpora / "html_xss" / "dompurify_expect.json").read_text("utf-8"))
    strings = json.loads((corpora / "strings" / "blns.json").read_text("utf-8"))
    return [*(each["payload"] for each in payloads), *strings]


def dangers(markup: str) -> Iterator[str]:
    """Yield whatever in `markup` would run, load or lead astray."""
    for element in parse(markup).find_all():
        if element.tag in _EMBEDS:
            yield f"<{element.tag}>"
        for name, value in element.attrs.items():
            yield from _danger(element.tag, name, str(value))


def _danger(tag: str, name: str, value: str) -> Iterator[str]:
    tag_text = f"<{tag} {name}={value[:60]!r}>"
    if name.startswith("on") or name in {"srcdoc", "srcset", "action", "formaction", "background"}:
        yield tag_text
    if name == "src" and not value.startswith("data:image/png;base64,"):
        yield tag_text
    if name == "href" and not value.startswith(("http://", "https://")):
        yield tag_text
    if name == "style" and ("url(" in value or "expression" in value):
        yield tag_text
