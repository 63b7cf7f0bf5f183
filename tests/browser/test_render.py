"""Pages in a real Chromium: what their scripts make of them, and how they look."""

from __future__ import annotations

import pytest

from tests.browser import png
from tests.browser.conftest import POLICY, look_up
from tests.page.pages import scrape_format
from tests.site.server import Site
from webdata_nb.demo.server import SampleSite
from webdata_nb.page.errors import BadInput, ScrapeError
from webdata_nb.service.browser.renderer import Browser, RenderRequest, ScreenshotRequest
from webdata_nb.service.web.fetch import Fetcher, FetchRequest

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

APP = """<!DOCTYPE html><title>App</title><div id="root"></div><script>
fetch("/data").then(answer => answer.text()).then(text => {
  document.getElementById("root").innerHTML = "<h1>" + text + "</h1>" + location.hash;
});
</script>"""
LATE = """<!DOCTYPE html><div id="root"></div><script>
setTimeout(() => { document.getElementById("root").innerHTML = "<p class=late>here</p>"; }, 900);
</script>"""
BLOCKS = """<!DOCTYPE html><meta name="viewport" content="width=device-width">
<style>* { margin: 0 } div { height: 50px; width: 100px; background: rgb(255, 0, 0) }
div + div { background: rgb(0, 0, 255) }</style><div></div><div></div>"""


def tall(height: int) -> str:
    return f"<!DOCTYPE html><body style='margin: 0'><div style='height: {height}px'>tall</div>"


@pytest.mark.smoke
async def test_a_page_built_by_its_scripts(browser: Browser, site: Site) -> None:
    url = site.page("/", APP)
    site.page("/data", "made by a script é")
    rendered = await browser.render(RenderRequest(url + "#part"))
    assert "<h1>made by a script é</h1>#part" in rendered.html.decode()
    assert rendered.html.startswith(b"<!DOCTYPE html>")
    assert (rendered.final_url, rendered.status) == (url, 200)
    assert rendered.content_type == "text/html; charset=utf-8"
    assert rendered.screenshot is None
    assert site.paths == ("/", "/data")


async def test_components_with_shadow_roots_are_read(browser: Browser, site: Site) -> None:
    script = """customElements.define("x-card", class extends HTMLElement {
      constructor() { super(); this.attachShadow({mode: "open"}).innerHTML =
        "<h2>In the shadow</h2><x-note></x-note><slot></slot>"; } });
    customElements.define("x-note", class extends HTMLElement {
      constructor() { super();
        this.attachShadow({mode: "open"}).innerHTML = "<p>deeper</p>"; } });"""
    url = site.page(
        "/", f"<!DOCTYPE html><html lang=en><x-card><p>light</p></x-card><script>{script}</script>"
    )
    rendered = await browser.render(RenderRequest(url))
    assert rendered.html.startswith(b'<!DOCTYPE html><html lang="en"><head></head><body><x-card>')
    assert rendered.html.endswith(b"</body></html>")
    assert scrape_format(rendered.html, "markdown") == "## In the shadow\n\ndeeper\n\nlight"


async def test_a_document_at_hand_is_not_requested_again(
    browser: Browser, fetcher: Fetcher, site: Site
) -> None:
    site.page("/data", "once", headers={"X-Robots-Tag": "none"})
    site.page("/app", APP, headers={"X-Robots-Tag": "nofollow", "Set-Cookie": "a=b"})
    document = await fetcher.fetch(FetchRequest(site.redirect("/", "/app", status=301)))
    rendered = await browser.render(RenderRequest(site.url, document=document))
    assert b"<h1>once</h1>" in rendered.html
    assert site.paths == ("/", "/app", "/data")
    assert rendered.redirects == ((site.url, 301),)
    assert ("x-robots-tag", "nofollow") in rendered.headers
    assert site.requests[-1].headers["Cookie"] == "a=b"


async def test_a_script_that_moves_on(browser: Browser, site: Site) -> None:
    url = site.page("/", "<script>location.replace('/next')</script>")
    site.page("/next", "<p>the next page</p>", status=404)
    rendered = await browser.render(RenderRequest(url))
    assert (rendered.final_url, rendered.status) == (site.at("/next"), 404)
    assert b"the next page" in rendered.html


@pytest.mark.parametrize("wait_for", [".late", "#root > p", 1500])
async def test_waiting_for_what_comes_late(
    browser: Browser, site: Site, wait_for: int | str
) -> None:
    url = site.page("/", LATE)
    rendered = await browser.render(RenderRequest(url, wait_for=wait_for))
    assert b"here" in rendered.html.partition(b"<script>")[0]


async def test_what_never_comes_is_named(browser: Browser, site: Site) -> None:
    with pytest.raises(ScrapeError, match=r"waiting for '\.never' to appear .* 2 s") as caught:
        await browser.render(RenderRequest(site.page("/", LATE), wait_for=".never", timeout_s=2))
    assert caught.value.kind == "render"


async def test_an_endless_script_costs_its_own_page_alone(browser: Browser, site: Site) -> None:
    endless = site.page("/", "<p>before</p><script>while (true);</script>")
    with pytest.raises(ScrapeError, match="longer than the page's 2 s"):
        await browser.render(RenderRequest(endless, timeout_s=2))
    rendered = await browser.render(RenderRequest(site.page("/fine", "<p>fine</p>")))
    assert b"fine" in rendered.html


async def test_an_image_that_never_comes_does_not_hold_the_screenshot_up(
    browser: Browser, site: Site
) -> None:
    url = site.page("/", BLOCKS + "<img src=/stuck>")
    with site.hold("/stuck"):
        rendered = await browser.render(
            RenderRequest(url, screenshot=ScreenshotRequest(width=200, height=100), timeout_s=12)
        )
    assert png.read(rendered.screenshot).colour(10, 10) == (255, 0, 0)


async def test_too_large_a_tree_is_a_failure(browser: Browser, site: Site) -> None:
    url = site.page("/", "<p id=p></p><script>p.title = 'x'.repeat(21 << 20)</script>")
    with pytest.raises(ScrapeError, match=r"a document of 22,\d+,\d+ characters"):
        await browser.render(RenderRequest(url))


@pytest.mark.parametrize(
    ("shot", "size"),
    [
        (ScreenshotRequest(), (1280, 720)),
        (ScreenshotRequest(width=600, height=400), (600, 400)),
        (ScreenshotRequest(width=801), (801, 720)),
        (ScreenshotRequest(full_page=True), (1280, 3000)),
        (ScreenshotRequest(full_page=True, width=333, height=200), (333, 3000)),
    ],
)
async def test_a_screenshot_has_the_size_asked_for(
    browser: Browser, site: Site, shot: ScreenshotRequest, size: tuple[int, int]
) -> None:
    url = site.page("/", tall(3000))
    rendered = await browser.render(RenderRequest(url, screenshot=shot))
    assert png.size_of(rendered.screenshot) == size


async def test_a_full_page_has_an_end(browser: Browser, site: Site) -> None:
    url = site.page("/", tall(40_000))
    shot = ScreenshotRequest(full_page=True, width=100)
    rendered = await browser.render(RenderRequest(url, screenshot=shot))
    assert png.size_of(rendered.screenshot) == (100, 16_384)


@pytest.mark.smoke
@pytest.mark.parametrize("device", [None, "Pixel 9"])
async def test_a_screenshot_shows_the_page(
    browser: Browser, site: Site, device: str | None
) -> None:
    shot = ScreenshotRequest(width=150, height=120)
    request = RenderRequest(site.page("/", BLOCKS), screenshot=shot, mobile_device=device)
    picture = png.read((await browser.render(request)).screenshot)
    assert picture.size == (150, 120)
    at = {(5, 5): "red", (95, 45): "red", (95, 55): "blue", (105, 55): "white", (5, 105): "white"}
    colours = {"red": (255, 0, 0), "blue": (0, 0, 255), "white": (255, 255, 255)}
    assert {place: picture.colour(*place) for place in at} == {
        place: colours[name] for place, name in at.items()
    }


async def test_a_full_page_shows_what_loads_when_it_is_seen(browser: Browser, site: Site) -> None:
    square = "<svg xmlns='http://www.w3.org/2000/svg' width='80' height='80'><rect width='80' "
    site.page(
        "/green.svg",
        square + "height='80' fill='#00ff00'/></svg>",
        headers={"Content-Type": "image/svg+xml"},
    )
    image = "<img loading=lazy src=/green.svg width=80 height=80 style='display: block'>"
    url = site.page("/", tall(6000) + image)
    shot = ScreenshotRequest(full_page=True, width=100, height=300)
    rendered = await browser.render(RenderRequest(url, screenshot=shot))
    picture = png.read(rendered.screenshot)
    assert picture.size == (100, 6080)
    assert picture.colour(40, 6040) == (0, 255, 0)


async def test_a_real_page_has_its_styles_and_pictures(
    browser: Browser, sample_site: SampleSite
) -> None:
    request = RenderRequest(sample_site.url, screenshot=ScreenshotRequest(width=640, height=900))
    rendered = await browser.render(request)
    picture = png.read(rendered.screenshot)
    colours = {picture.colour(x, y) for x in range(0, 640, 3) for y in range(0, 900, 3)}
    assert b"Notes from a northern weather station" in rendered.html
    # Text on a ground of one colour has some dozens of shades; the photograph has hundreds.
    assert len(colours) > 200


async def test_a_device_changes_screen_and_user_agent(browser: Browser, site: Site) -> None:
    url = site.page(
        "/",
        "<meta name=viewport content='width=device-width'><p id=p></p>"
        "<script>p.textContent = [innerWidth, navigator.userAgent].join(' ')</script>",
    )
    plain = await browser.render(RenderRequest(url))
    phone = await browser.render(
        RenderRequest(url, mobile_device="iPhone 15", screenshot=ScreenshotRequest())
    )
    some = await browser.render(RenderRequest(url, mobile=True))
    assert b'<p id="p">1280 Mozilla/5.0 (X11; Linux' in plain.html
    assert b'<p id="p">393 Mozilla/5.0 (iPhone; CPU iPhone OS' in phone.html
    assert b"(Linux; Android 1" in some.html
    assert b" Mobile Safari" in some.html
    assert png.size_of(phone.screenshot) == (393, 659)
    assert "iPhone" in site.requests[1].headers["User-Agent"]
    assert site.requests[0].headers["User-Agent"] == "webdata-tests/1.0"


async def test_a_service_with_a_name_renders_under_it(fetcher: Fetcher, site: Site) -> None:
    url = site.page("/", "<p id=p></p><script>p.textContent = navigator.userAgent</script>")
    named = "ExampleBot/1.0"
    async with Browser(POLICY, fetcher, lookup=look_up, user_agent=named) as opened:
        plain = await opened.render(RenderRequest(url))
        phone = await opened.render(RenderRequest(url, mobile=True))
    assert b'<p id="p">ExampleBot/1.0</p>' in plain.html
    assert b"Android" in phone.html


async def test_an_unknown_device_is_told_what_is_like_it(browser: Browser, site: Site) -> None:
    await browser.check_device("iPhone 15 Pro")
    with pytest.raises(BadInput, match=r"'iphone15 pro'; the closest names .*'iPhone 15 Pro'"):
        await browser.check_device("iphone15 pro")
    with pytest.raises(BadInput, match=r"no device preset"):
        await browser.render(RenderRequest(site.url, mobile_device="@@@"))


async def test_a_page_gets_nothing_but_its_pixels(browser: Browser, site: Site) -> None:
    url = site.page(
        "/",
        """<p id=p></p><iframe srcdoc="<script>parent.inner = typeof RTCPeerConnection</script>">
        </iframe><script>
        alert(1); confirm(2); window.open("/popup");
        const link = document.createElement("a"); link.href = "/file"; link.download = "f";
        link.click();
        const located = new Promise(done => navigator.geolocation.getCurrentPosition(
          () => done("located"), () => done("not located")));
        const worker = navigator.serviceWorker.register("/worker.js")
          .then(found => found ? "worker" : "no worker", () => "no worker");
        addEventListener("load", async () => {
          p.textContent = [typeof RTCPeerConnection, inner, await located, await worker].join()
        })</script>""",
    )
    site.page("/popup", "<script>fetch('/from-popup')</script>")
    site.page("/file", "bytes", headers={"Content-Disposition": "attachment"})
    site.page("/worker.js", "1", headers={"Content-Type": "text/javascript"})
    rendered = await browser.render(RenderRequest(url, wait_for="#p:not(:empty)"))
    assert b"undefined,undefined,not located,no worker" in rendered.html
    assert rendered.final_url == url
