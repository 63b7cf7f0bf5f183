"""A site without end: each page links to new pages."""

from __future__ import annotations

import asyncio
import hashlib

from aiohttp import web

LINKS = 10
SECONDS = 0.1


async def endless(request: web.BaseRequest) -> web.StreamResponse:
    """Answer a page of `/<section>/<number>/<name>`, after a while."""
    await asyncio.sleep(SECONDS)
    home = "/".join(request.path.split("/")[:3])
    names = (hashlib.sha256(f"{request.path} {n}".encode()).hexdigest()[:12] for n in range(LINKS))
    links = "".join(f'<li><a href="{home}/{name}">{name}</a></li>' for name in names)
    words = f"<p>Whatever is to be said of {request.path} is said here.</p>" * 20
    body = f"<title>{request.path}</title><h1>{request.path}</h1>{words}<ul>{links}</ul>"
    return web.Response(text=body, content_type="text/html")
