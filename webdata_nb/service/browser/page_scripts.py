"""Scripts that read or prepare a page in the browser, and their evaluation in an isolated world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from webdata_nb.service.browser.shutdown import detach
from webdata_nb.service.web.forward_proxy import PROBE_URL

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

# WebRTC connections would bypass the proxy.
DISABLE_WEBRTC: Final = """
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "RTCDataChannel"])
  delete globalThis[name];
"""
# Chromium does not answer a proxy's authentication challenge for an image of another host or for a
# WebSocket, so it has to authenticate before the page opens.
SEND_PROXY_CREDENTIALS: Final = f"fetch({PROBE_URL!r}).then(() => true)"
# Open shadow roots are serialized as declarative templates; closed ones are not accessible.
SERIALIZE_DOCUMENT: Final = """(() => {
  const roots = [];
  const collect = parent => {
    for (const element of parent.querySelectorAll("*"))
      if (element.shadowRoot) { roots.push(element.shadowRoot); collect(element.shadowRoot); }
  };
  const serialize = top => {
    if (document.contentType !== "text/html" || !top.getHTML) return top.outerHTML;
    collect(document);
    if (!roots.length) return top.outerHTML;
    const [open, close] = top.cloneNode(false).outerHTML.split(/(?=<\\/html>$)/i);
    return open + top.getHTML({shadowRoots: roots}) + close;
  };
  const html = document.documentElement ? serialize(document.documentElement) : "";
  const type = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : "";
  if (html.length > %d) return {chars: html.length};
  return {html: type + html, type: document.contentType, url: location.href};
})()"""
# Scrolling triggers lazy loading; the page ends at its top again.
SCROLL_TO_END: Final = """(async () => {
  const step = Math.max(innerHeight, 200);
  const end = () => Math.min(document.documentElement.scrollHeight, %d);
  for (let y = 0, n = 0; y < end() && n < 64; y += step, n++) {
    scrollTo({top: y, behavior: "instant"});
    await new Promise(resolve => setTimeout(resolve, 20));
  }
  scrollTo({top: 0, behavior: "instant"});
})()"""
# The height of a full-page screenshot by Playwright.
MEASURE_HEIGHT: Final = """(() => {
  const tops = [document.documentElement, document.body].filter(Boolean);
  return {height: Math.max(0, ...tops.flatMap(
    top => [top.scrollHeight, top.offsetHeight, top.clientHeight]))};
})()"""


async def evaluate_isolated(session: CDPSession, script: str) -> dict[str, Any]:
    """Run a script in an isolated world, whose built-ins the page cannot replace."""
    try:
        frame_tree = await session.send("Page.getFrameTree")
        world = await session.send(
            "Page.createIsolatedWorld",
            {"frameId": frame_tree["frameTree"]["frame"]["id"], "worldName": "webdata"},
        )
        reply = await session.send(
            "Runtime.evaluate",
            {
                "expression": script,
                "contextId": world["executionContextId"],
                "returnByValue": True,
                "awaitPromise": True,
            },
        )
    finally:
        await detach(session)
    return reply["result"].get("value") or {}
