"""A generated site with known faults of every kind, and the findings that an audit must have."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Final

from aiohttp import web

from tests.site.document import prose
from tests.site.faults import wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.site.server import Site

HUB_SIZE: Final = 100
_WORDS: Final = 260
_UNSET: Final = "<the usual>"


@dataclass(frozen=True)
class HealthyPage:
    """A page without any fault; each fault replaces a field.

    An empty text leaves the element out, and `head` and `body` are added.
    """

    path: str
    title: str = _UNSET
    description: str = _UNSET
    h1: str = _UNSET
    canonical: str = _UNSET
    language: str = "en"
    viewport: str = "width=device-width"
    head: str = ""
    body: str = ""
    text: str = _UNSET
    links: tuple[str, ...] = ("/",)
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0

    def html(self, origin: str) -> str:
        """Return the document."""
        name = self.path.strip("/").replace("/", " ") or "start"
        title = f"The title of the page {name}, unlike others"
        summary = f"The description of the page {name}: {prose('d' + name, 9).lower()}"
        parts = [
            self._element(self.title, title, "<title>{}</title>"),
            self._element(self.description, summary, '<meta name=description content="{}">'),
            self._element(self.canonical, f"{origin}{self.path}", '<link rel=canonical href="{}">'),
            self._element(self.viewport, "", '<meta name=viewport content="{}">'),
            self.head,
        ]
        heading = self._element(self.h1, f"Heading of {name}", "<h1>{}</h1>")
        text = prose(self.path, _WORDS) if self.text == _UNSET else self.text
        links = "".join(f'<li><a href="{link}">To {escape(link)}</a></li>' for link in self.links)
        language = f' lang="{self.language}"' if self.language else ""
        return (
            f"<!DOCTYPE html><html{language}><head><meta charset=utf-8>{''.join(parts)}</head>"
            f"<body><main>{heading}<p>{text}</p>{self.body}</main><footer><ul>{links}</ul></footer>"
            "</body></html>"
        )

    @staticmethod
    def _element(value: str, usual: str, element: str) -> str:
        text = usual if value == _UNSET else value
        return element.format(escape(text)) if text else ""


class FaultySite:
    """Builds the site: healthy pages, and `copies` of each kind of fault.

    Attributes
    ----------
    outside
        Another site, which the pages link to.
    expected
        The issue and the path of every finding that an audit must have, and no other.
    """

    def __init__(self, site: Site, outside: Site, *, pages: int, copies: int = 2) -> None:
        self._site, self.outside, self._copies = site, outside, copies
        self.expected: set[tuple[str, str]] = set()
        self._linked: list[str] = []
        self._in_sitemap: list[str] = []
        for copy in range(copies):
            self._add_faults(f"/f{copy}")
        while len(self._linked) < pages:
            self._add(HealthyPage(f"/page-{len(self._linked)}"))
        self._add_hubs()
        self._add_files()

    @property
    def url(self) -> str:
        """The start page."""
        return self._site.url

    @property
    def _origin(self) -> str:
        return self._site.url.rstrip("/")

    def _expect(self, path: str, *issues: str) -> None:
        self.expected |= {(issue, path) for issue in issues}

    def _add(
        self, page: HealthyPage, *issues: str, linked: bool = True, in_sitemap: bool = True
    ) -> str:
        """Add a page with the faults that an audit must find; return its path."""
        html = page.html(self._origin)
        self._site.page(page.path, html, headers=page.headers, delay=page.delay)
        self._list(page.path, *issues, linked=linked, in_sitemap=in_sitemap)
        return page.path

    def _list(self, path: str, *issues: str, linked: bool = True, in_sitemap: bool = True) -> None:
        self._linked += [path] * linked
        self._in_sitemap += [path] * in_sitemap
        self._expect(path, *issues)

    def _redirect(
        self, path: str, target: str, *issues: str, status: int = 301, in_sitemap: bool = False
    ) -> None:
        self._site.redirect(path, target, status=status)
        self._list(path, *issues, in_sitemap=in_sitemap)

    # Faults

    def _add_faults(self, at: str) -> None:
        self._add_failures(at)
        self._add_redirects(at)
        self._add_links(at)
        self._add_texts(at)
        self._add_elements(at)
        self._add_canonicals(at)
        self._add_robots(at)
        self._add_languages(at)
        self._add_places(at)

    def _add_failures(self, at: str) -> None:
        for path, status, issue in (
            ("missing", 404, "broken_page"),
            ("gone", 410, "broken_page"),
            ("fault", 501, "server_error"),
        ):
            self._site.page(f"{at}/{path}", "no", status=status)
            self._list(f"{at}/{path}", issue, in_sitemap=False)
        self._site.page(f"{at}/listed-error", "no", status=404)
        self._list(f"{at}/listed-error", "broken_page", "error_in_sitemap")
        self._site.page(f"{at}/reset", wire(b"", reset=True))
        self._list(f"{at}/reset", "unreachable_page", in_sitemap=False)
        self._site.page(f"{at}/picture", b"\x89PNG", headers={"Content-Type": "image/png"})
        self._list(f"{at}/picture", in_sitemap=False)

    def _add_redirects(self, at: str) -> None:
        target = self._add(HealthyPage(f"{at}/target"))
        self._redirect(f"{at}/one-hop", target, "redirected_link")
        self._redirect(
            f"{at}/temporary", target, "redirected_link", "temporary_redirect", status=302
        )
        self._redirect(f"{at}/two-hops", f"{at}/one-hop", "redirect_chain")
        self._redirect(f"{at}/circle", f"{at}/circle-2", "redirect_loop")
        self._redirect(f"{at}/circle-2", f"{at}/circle", "redirect_loop")
        self._redirect(f"{at}/to-error", f"{at}/missing-2", "redirect_to_error")
        self._redirect(f"{at}/away", "http://elsewhere.test/", "redirect_to_other_site")
        self._redirect(
            f"{at}/listed", target, "redirected_link", "redirect_in_sitemap", in_sitemap=True
        )

    def _add_links(self, at: str) -> None:
        outside, ok = self.outside, self.outside.page(f"{at}/ok", "ok")

        def only_get(request: web.BaseRequest) -> web.Response:
            return web.Response(status=200 if request.method == "GET" else 404)

        for url, issue in (
            (ok, ""),
            (outside.page(f"{at}/only-get", only_get), ""),
            (outside.redirect(f"{at}/for-now", ok), ""),
            (outside.at(f"/private{at}"), ""),
            (outside.at(f"{at}/none"), "broken_external_link"),
            (outside.redirect(f"{at}/to-none", f"{at}/none", status=301), "broken_external_link"),
            (outside.redirect(f"{at}/round", f"{at}/round"), "broken_external_link"),
            (outside.page(f"{at}/fault", "no", status=505), "unreachable_external_link"),
            (f"http://{at.strip('/')}.elsewhere.test/", "unreachable_external_link"),
            (outside.page(f"{at}/login", "no", status=403), "refused_external_link"),
            (outside.redirect(f"{at}/moved", ok, status=308), "moved_external_link"),
        ):
            self._list(url, *filter(None, [issue]), in_sitemap=False)
        self._redirect(f"{at}/away-to-error", outside.at(f"{at}/gone"), "redirect_to_error")

    def _add_texts(self, at: str) -> None:
        def add(name: str, *issues: str, **fields: str) -> None:
            page = HealthyPage(f"{at}/{name}")
            self._add(replace(page, **fields), *issues)  # type: ignore[arg-type]

        add("no-title", "missing_title", title="")
        add("short-title", "short_title", title=f"Short {at}")
        add("long-title", "long_title", title=f"Long {at} {'title ' * 12}")
        add("two-titles", "multiple_titles", head="<title>Another title of the same page</title>")
        for name in ("a", "b"):
            title = f"This title of {at} is on two pages"
            add(f"title-{name}", "duplicate_title", title=title)
            description = f"This description of {at} is on two pages, {prose(at, 9)}"
            add(f"description-{name}", "duplicate_description", description=description)
            add(f"h1-{name}", "duplicate_h1", h1=f"This heading of {at} is on two pages")
        add("no-description", "missing_description", description="")
        add("short-description", "short_description", description=f"Short {at}")
        add("long-description", "long_description", description=f"{at} {'long ' * 40}")
        second = '<meta name="Description" content="A second description of the page">'
        add("two-descriptions", "multiple_descriptions", head=second)
        add("no-h1", "missing_h1", h1="")
        add("short-h1", "short_h1", h1=at)
        add("long-h1", "long_h1", h1=f"{at} {'heading ' * 12}")
        add("two-h1", "multiple_h1", body="<h1>A second heading</h1>")
        add("thin", "thin_page", text=prose(f"{at} thin", 50))
        same = prose(f"{at} same", 500)
        for name, end in (("x", "Lamp."), ("y", "Stone."), ("z", "Cloud.")):
            add(f"same-{name}", "near_duplicate", text=f"{same} {end}")

    def _add_elements(self, at: str) -> None:
        def add(name: str, *issues: str, **fields: str) -> None:
            self._add(replace(HealthyPage(f"{at}/{name}"), **fields), *issues)  # type: ignore[arg-type]

        json_ld = '<script type="application/ld+json">{}</script>'
        add("no-alt", "image_without_alt", body="<img src=/i.png><img src=/j.png alt='J'>")
        add("json", "invalid_structured_data", head=json_ld.format('{"@type": "Thing"'))
        add("untyped", "invalid_structured_data", head=json_ld.format('{"name": "Thing"}'))
        add("typed", head=json_ld.format('{"@type": "Thing"}'))
        add("no-language", "missing_language", language="")
        add("no-viewport", "missing_viewport", viewport="")
        add("refresh", "meta_refresh", head='<meta http-equiv=refresh content="600">')
        add("empty-link", "empty_link_text", body=f"<a href={at}/target></a><a href=/hub-0></a>")
        add("nofollow-link", "nofollow_internal_link", body="<a href=/hub-0 rel=nofollow>x</a>")

    def _add_canonicals(self, at: str) -> None:
        def add(name: str, canonical: str, *issues: str) -> str:
            page = HealthyPage(f"{at}/{name}", canonical=canonical)
            return self._add(page, *issues, in_sitemap=False)

        target = f"{at}/target"
        self._add(HealthyPage(f"{at}/no-canonical", canonical=""), "missing_canonical")
        second = f'<link rel=canonical href="{target}">'
        self._add(HealthyPage(f"{at}/two-canonicals", head=second), "multiple_canonicals")
        bad = HealthyPage(f"{at}/bad-canonical", canonical="", head="<link rel=canonical href=''>")
        self._add(bad, "invalid_canonical")
        elsewhere = HealthyPage(f"{at}/canonical-listed", canonical=f"{self._origin}{target}")
        self._add(elsewhere, "canonicalized", "canonicalized_in_sitemap")
        first = add("canonical", target, "canonicalized")
        add("canonical-chain", first, "canonicalized", "canonical_chain")
        add("canonical-error", f"{at}/missing", "canonicalized", "canonical_to_error")
        add("canonical-redirect", f"{at}/one-hop", "canonicalized", "canonical_to_redirect")
        add("canonical-noindex", f"{at}/noindex", "canonicalized", "canonical_to_noindex")
        add("canonical-blocked", f"{at}/private/page", "canonicalized", "canonical_to_blocked")
        outside = "http://elsewhere.test/page"
        add("canonical-outside", outside, "canonicalized", "canonical_to_other_site")

    def _add_robots(self, at: str) -> None:
        def add(name: str, head: str, *issues: str, in_sitemap: bool = False) -> None:
            self._add(HealthyPage(f"{at}/{name}", head=head), *issues, in_sitemap=in_sitemap)

        robots = "<meta name=robots content='{}'>"
        add("noindex", robots.format("noindex, follow"), "noindex")
        add("nofollow", robots.format("nofollow"), "nofollow_page", in_sitemap=True)
        both = robots.format("index") + robots.format("noindex")
        add("conflict", both, "conflicting_robots", "noindex")
        listed = robots.format("NOINDEX")
        add("noindex-listed", listed, "noindex", "noindex_in_sitemap", in_sitemap=True)
        header = HealthyPage(f"{at}/header", headers={"X-Robots-Tag": "noindex"})
        self._add(header, "noindex", in_sitemap=False)
        other = HealthyPage(f"{at}/other-bot", headers={"X-Robots-Tag": "otherbot: noindex"})
        self._add(other)
        canonical = HealthyPage(
            f"{at}/noindex-canonical", canonical=f"{at}/target", head=robots.format("noindex")
        )
        issues = ("noindex", "canonicalized", "noindex_with_canonical")
        self._add(canonical, *issues, in_sitemap=False)
        self._list(f"{at}/private/page", "blocked_link", in_sitemap=False)
        self._list(f"{at}/private/listed", "blocked_in_sitemap", linked=False)

    def _add_languages(self, at: str) -> None:
        def add(name: str, languages: Iterable[tuple[str, str]], *issues: str) -> None:
            alternates = "".join(
                f'<link rel=alternate hreflang="{language}" href="{url}">'
                for language, url in languages
            )
            self._add(HealthyPage(f"{at}/{name}", head=alternates), *issues)

        def own(name: str) -> tuple[str, str]:
            return "en", f"{at}/{name}"

        pair = [("en", f"{at}/en"), ("de-CH", f"{at}/de"), ("x-default", f"{at}/en")]
        add("en", pair)
        add("de", pair)
        add("one-way", [own("one-way"), ("fr", f"{at}/target")], "hreflang_without_return")
        add(
            "language-error",
            [own("language-error"), ("fr", f"{at}/gone")],
            "hreflang_to_error",
        )
        add(
            "language-noindex",
            [own("language-noindex"), ("fr", f"{at}/header")],
            "hreflang_to_noindex",
        )
        add("no-self", [("fr", "http://elsewhere.test/fr")], "hreflang_without_self")
        add(
            "language-code",
            [own("language-code"), ("en-UK", "http://elsewhere.test/uk")],
            "hreflang_invalid_code",
        )
        outside = [("fr", f"http://elsewhere.test/{name}") for name in ("1", "2")]
        add("language-twice", [own("language-twice"), *outside], "hreflang_conflict")

    def _add_places(self, at: str) -> None:
        self._add(HealthyPage(f"{at}/orphan"), "orphan_page", linked=False)
        self._add(HealthyPage(f"{at}/dead-end", links=()), "dead_end")
        self._add(HealthyPage(f"{at}/unlisted"), "missing_from_sitemap", in_sitemap=False)
        depth = [f"{at}/depth-{number}" for number in range(2, 5)]
        self._add(HealthyPage(depth[0], links=(depth[1],)), in_sitemap=False)
        self._add(HealthyPage(depth[1], links=(depth[2],)), linked=False, in_sitemap=False)
        self._add(HealthyPage(depth[2]), linked=False, in_sitemap=False)
        for path in depth:
            self._expect(path, "missing_from_sitemap")
        self._expect(depth[2], "deep_page")
        copy = HealthyPage(f"{at}/copy", canonical=f"{self._origin}{at}/original")
        html = replace(copy, path=f"{at}/original", canonical=_UNSET).html(self._origin)
        self._site.page(f"{at}/original", html)
        self._list(f"{at}/original")
        self._site.page(f"{at}/copy", html)
        self._list(f"{at}/copy", "duplicate_page", in_sitemap=False)

    # The rest of the site

    def _add_hubs(self) -> None:
        hubs = []
        for start in range(0, len(self._linked), HUB_SIZE):
            hubs.append(f"/hub-{start}")
            page = HealthyPage(hubs[-1], links=tuple(self._linked[start : start + HUB_SIZE]))
            self._site.page(page.path, page.html(self._origin))
        self._in_sitemap += ["/", *hubs]
        start_page = HealthyPage("/", links=(*hubs, "/slow", "/heavy", "/many-links"))
        self._site.page("/", start_page.html(self._origin))
        self._add(HealthyPage("/slow", delay=2.2), "slow_page", linked=False)
        padding = f"<!--{'x' * (2 << 20)}-->"
        self._add(HealthyPage("/heavy", body=padding), "heavy_page", linked=False)
        self.outside.robots("User-agent: *\nDisallow: /private/")
        # Another host, since so many links would be beyond the limit of one.
        at = self.outside.at
        outside = tuple(at(f"/private/{number}", host="localhost") for number in range(3001))
        self._add(HealthyPage("/many-links", links=outside), "many_links", linked=False)

    def _add_files(self) -> None:
        self._site.robots(
            "User-agent: *\n"
            + "".join(f"Disallow: /f{copy}/private/\n" for copy in range(self._copies))
            + f"Sitemap: {self._origin}/sitemap.xml"
        )
        entries = "".join(
            f"<url><loc>{self._origin}{path}</loc></url>" for path in self._in_sitemap
        )
        headers = {"Content-Type": "application/xml"}
        self._site.page("/sitemap.xml", f"<urlset>{entries}</urlset>", headers=headers)
