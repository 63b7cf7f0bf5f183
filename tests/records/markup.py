"""The markup of a generated site: class names, elements of values, and the furniture of pages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final
from urllib.parse import urljoin

from tests.records.values import LANGUAGES, Record, T, Value, Writer

CLASS_STYLES: Final = ("semantic", "bem", "hashed", "tailwind", "none")
# Class words of the sites for development, and of those held out.
_WORDS: Final = {
    "item": (("item", "card", "product", "entry"), ("tile", "teaser", "result", "box")),
    "list": (("list", "items", "grid", "cards"), ("results", "tiles", "listing", "collection")),
    "title": (("title", "name", "headline"), ("heading", "item-title", "caption")),
    "price": (("price", "amount"), ("cost", "current-price")),
    "old": (("old-price", "was"), ("regular", "strike")),
    "long": (("description", "summary"), ("excerpt", "teaser-text")),
    "author": (("author", "byline"), ("writer", "by")),
    "date": (("date", "posted"), ("published", "when")),
    "image": (("image", "thumb"), ("photo", "picture")),
    "rating": (("rating", "score"), ("stars", "grade")),
    "reviews": (("reviews", "count"), ("review-count", "votes")),
    "badge": (("badge", "label"), ("flag", "ribbon")),
    "city": (("location", "place"), ("city", "where")),
    "meta": (("meta", "info"), ("details", "data")),
    "body": (("body", "content"), ("text", "inner")),
}
_UTILITIES: Final = ("flex", "p-4", "mt-2", "text-sm", "font-bold", "text-gray-700", "mb-1")
_MORE_UTILITIES: Final = ("items-center", "w-full", "rounded-lg", "gap-2", "truncate", "leading-6")
_HEADINGS: Final = ("h2", "h3", "h4", "div", "span", "strong", "p")
_TAGS: Final = {
    "image": ("div", "figure", "span"),
    "price": ("span", "div", "p", "strong", "b"),
    "old": ("del", "s", "span"),
    "rating": ("span", "div"),
    "long": ("p", "div"),
    "date": ("time", "span", "div", "abbr"),
    "badge": ("span", "div", "em"),
    "author": ("span", "div", "p", "cite"),
}
_LABELLED: Final = frozenset(
    (
        "brand",
        "sku",
        "state",
        "author",
        "year",
        "publisher",
        "area",
        "rooms",
        "city",
        "mileage",
        "fuel",
        "company",
        "kind",
        "venue",
        "weight",
        "color",
        "version",
        "downloads",
        "size",
        "minutes",
        "servings",
        "played",
        "points",
        "population",
        "doi",
        "phone",
        "email",
    )
)
_LINKED: Final = frozenset({"author", "category", "company", "brand"})


def tag(name: str, attributes: str, *children: str) -> str:
    """Write an element."""
    return f"<{name}{attributes}>{''.join(children)}</{name}>"


def pairs(**attributes: str) -> str:
    """Write attributes; an underscore stands for a hyphen."""
    return "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in attributes.items()
        if value
    )


class Markup(Writer):
    """Writes the pages of one site; each choice of markup is made once for the site."""

    def __init__(self, seed: int) -> None:
        number = seed // 2
        # Over the ten sites of a layout, each language comes up.
        language = LANGUAGES[(number // 20 + number % 20 + 3 * (seed % 2)) % len(LANGUAGES)]
        super().__init__(f"records-{seed}", language)
        self.seed = seed
        self.held_out = seed % 2 == 1
        self.host = f"https://{self.rng.choice(('www', 'shop', 'm', 'old'))}.site{seed}.example"
        self.style = self.rng.choice(CLASS_STYLES)
        self.minified = self.rng.random() < 0.3
        self.microdata = self.rng.random() < 0.2
        self.block = self.one("item") + self.rng.choice(("", "-card", "-item"))
        self._choices: dict[str, object] = {}
        self._identifiers = 0

    def one(self, role: str) -> str:
        """Return a class word for a role; sites held out have other words."""
        words = _WORDS.get(role)
        return self.rng.choice(words[self.held_out]) if words else role

    def pick(self, key: str, options: Sequence[T]) -> T:
        """Return the site's choice for a key."""
        if key not in self._choices:
            self._choices[key] = self.rng.choice(options)
        return self._choices[key]  # type: ignore[return-value]

    def chance(self, key: str, share: float) -> bool:
        """Return whether the site does something that a share of the sites do."""
        return self.pick(f"chance:{key}", [n < share * 100 for n in range(100)])

    def css(self, role: str, *more: str) -> str:
        """Return the class attribute of a role."""
        match self.style:
            case "semantic":
                names = [self.pick(f"class:{role}", [self.one(role)])]
            case "bem":
                word = self.pick(f"class:{role}", [self.one(role)])
                names = [self.block if role == "item" else f"{self.block}__{word}"]
            case "hashed":
                digest = hashlib.sha256(f"{self.seed}{role}".encode()).hexdigest()
                names = [f"css-{digest[:7]}"] + [digest[8:13]] * self.chance("two-hashes", 0.5)
            case "tailwind":
                pool = _UTILITIES + _MORE_UTILITIES
                names = [self.pick(f"class:{role}:{n}", pool) for n in range(3)]
            case _:
                return ""
        return pairs(class_=" ".join(dict.fromkeys([*names, *more])))

    def lines(self, parts: Iterable[str]) -> str:
        """Join elements as the site does: with line breaks, or without."""
        return ("" if self.minified else "\n").join(parts)

    def new_id(self) -> int:
        """Return the next identifier."""
        self._identifiers += self.rng.randint(1, 9)
        return 1000 + self._identifiers

    def href(self, page: str, path: str) -> tuple[str, str]:
        """Return the text of an `href` and the URL that it means on a page."""
        form = self.pick("href", ("root", "absolute", "relative", "protocol"))
        written = {
            "root": f"/{path}",
            "absolute": f"{self.host}/{path}",
            "relative": f"../{path}",
            "protocol": f"{self.host.removeprefix('https:')}/{path}",
        }[form]
        return written, urljoin(page, written)

    def image(self, record: Record, alt: str) -> str:
        """Write an image, and add its URL to the record."""
        written, url = self.href(record.url, f"img/{self.new_id()}.jpg")
        record.neutral.add(alt)
        others: tuple[str, ...] = ()  # other files of the same picture
        match self.pick("image", ("plain", "plain", "lazy", "srcset", "picture")):
            case "lazy":
                blank = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
                record.neutral.add(blank)
                img = f"<img{pairs(src=blank, data_src=written, alt=alt, loading='lazy')}>"
            case "srcset":
                large = written.replace(".jpg", "-2x.jpg")
                record.neutral.add(f"{written} 1x, {large} 2x")
                others = (large, urljoin(record.url, large))
                img = f"<img{pairs(src=written, srcset=f'{written} 1x, {large} 2x', alt=alt)}>"
            case "picture":
                webp = written.replace(".jpg", ".webp")
                others = (webp, urljoin(record.url, webp))
                img = f"<picture><source{pairs(srcset=webp, type_='image/webp')}>"
                img += f"<img{pairs(src=written, alt=alt)}></picture>"
            case _:
                img = f"<img{pairs(src=written, alt=alt)}{self.css('img')}>"
        record.values["image"] = Value(url, "image", forms=(written, *others))
        return img

    def link(self, record: Record, path: str, inner: str, *, key: str | None = "link") -> str:
        """Write a link around `inner`; a link without a key is neither right nor wrong."""
        written, url = self.href(record.url, path)
        if key is None:
            record.neutral |= {written, url}
        else:
            record.values[key] = Value(url, "url", forms=(written,))
        return tag("a", pairs(href=written) + self.css(f"{key or 'more'}-link"), inner)

    def show(self, record: Record, name: str, value: Value, *, bare: bool = False) -> str:
        """Write a value, without label if `bare`, and add it to the record."""
        attributes, text = self.css(name), escape(value.text)
        element = self.pick(f"tag:{name}", _TAGS.get(name, ("span", "div", "p")))
        prop = pairs(itemprop=name) if self.microdata else ""
        label = self.label(name)
        colon = "\uff1a" if self.language == "ja" else ":"
        labelled = () if bare else (f"{label}{colon} {value.text}", f"{label} {value.text}")
        forms = (*value.forms, *labelled)
        parts = value.parts
        if name == "image":
            return tag(element, attributes, self.image(record, value.text))
        match value.kind:
            case "tags":
                item = self.pick("tag:tag", ("li", "span", "a"))
                neutral = {f"{self.host}/tags/{part}" for part in value.parts}
                record.neutral |= neutral
                shown = [
                    tag(item, pairs(href=f"{self.host}/tags/{part}") if item == "a" else "", part)
                    for part in value.parts
                ]
                text, element = " ".join(shown), "ul" if item == "li" else "div"
            case "money" if self.pick(f"money:{name}", (0, 0, 0, 1)):
                sign, digits = value.parts
                inner = text.replace(escape(sign), tag("span", self.css("currency"), escape(sign)))
                text = inner.replace(digits, tag("span", self.css("digits"), digits))
            case "rating" if self.pick("rating", (0, 0, 1)):
                full = min(5, int(str(value.typed)[0]))
                spoken = f"{value.text} / 5"
                text = "\u2605" * full + "\u2606" * (5 - full)
                forms = (*forms, value.text, spoken)
                attributes += pairs(aria_label=spoken, role="img")
                value = Value(text, "rating", value.typed)
            case "date":
                iso = str(value.typed)
                forms = (*forms, iso, f"{iso}T00:00:00Z")
                if element == "time":
                    attributes += pairs(datetime=iso)
                elif element == "abbr":
                    attributes += pairs(title=iso)
            case "long" if self.rng.random() < 0.2:
                first, _, rest = value.text.partition(" ")
                record.neutral.add(first)
                text = tag("em", "", escape(first)) + (f" {escape(rest)}" if rest else "")
        if value.kind == "long" and self.chance("more-link", 0.2) and not bare:
            path, more = f"more/{self.new_id()}", self.ui("more")
            record.neutral.add(more)
            text += " " + self.link(record, path, more, key=None)
            forms = (*forms, f"{value.text} {more}")
        if name in _LINKED and self.chance(f"linked:{name}", 0.4):
            text = self.link(record, f"{name}/{self.rng.randint(1, 99)}", text, key=None)
        if name in _LABELLED and not bare:
            label_mode = self.pick(f"label:{name}", ("none", "none", "own", "text"))
            if label_mode != "none":
                record.neutral |= {label, f"{label}{colon}"}
            if label_mode == "own":
                text = f"{tag('span', self.css('term'), label + colon)} <span{prop}>{text}</span>"
                prop = ""
            elif label_mode == "text":
                text = f"{label}{colon} {text}"
        record.values[name] = Value(value.text, value.kind, value.typed, forms, parts)
        return tag(element, attributes + prop, text)

    def card(self, record: Record, values: dict[str, Value]) -> str:
        """Write the inside of a card, and add its values to the record."""
        values = dict(values)
        path = f"{self.pick('path', ('item', 'p', 'view', 'd/e'))}/{self.new_id()}"
        title = values.pop("title")
        badge = [self.show(record, "badge", values.pop("badge"))] if "badge" in values else []
        picture = []
        if "image" in values:
            inner = self.show(record, "image", Value(title.text))
            del values["image"]
            linked = self.chance("image-linked", 0.4)
            picture = [self.link(record, path, inner) if linked else inner]
        element = self.pick("tag:title", _HEADINGS)
        heading = self.link(record, path, escape(title.text))
        if self.pick("title-in-link", (0, 0, 1)) and element != "p":
            written, url = self.href(record.url, path)
            record.values["link"] = Value(url, "url", forms=(written,))
            inner = tag(element, self.css("title"), escape(title.text))
            heading = tag("a", pairs(href=written), inner)
        else:
            heading = tag(element, self.css("title"), heading)
        record.values["title"] = title
        shown = {name: self.show(record, name, value) for name, value in values.items()}
        order = sorted(shown, key=lambda name: self.pick(f"order:{name}", range(100)))
        split = self.pick("split", (0, 1, 2, 3))
        above, below = order[:split], order[split:]
        parts = [heading]
        if above:
            parts.append(tag("div", self.css("meta"), self.lines(shown[name] for name in above)))
        if below and self.chance("wrap-below", 0.5):
            parts.append(tag("div", self.css("bottom"), self.lines(shown[name] for name in below)))
        else:
            parts += [shown[name] for name in below]
        if self.chance("button", 0.3):
            caption = self.ui("cart")
            record.neutral.add(caption)
            parts.append(tag("button", self.css("button") + pairs(type_="button"), caption))
        parts = [*badge, *parts] if self.chance("badge-first", 0.5) else [*parts, *badge]
        if self.chance("body", 0.5):
            parts = [tag("div", self.css("body"), self.lines(parts))]
        return self.lines(
            [*picture, *parts] if self.chance("image-first", 0.8) else [*parts, *picture]
        )

    def advertisement(self) -> str:
        """Write an advertisement of other markup."""
        return tag(
            "div",
            pairs(class_="ad-slot" if self.style != "none" else "", data_ad=str(self.new_id())),
            tag("small", "", self.ui("ad")),
            f'<iframe src="https://ads.example/{self.new_id()}" title="{self.ui("ad")}"></iframe>',
        )

    def page(self, title: str, main: str, *, url: str, pager: str = "") -> bytes:
        """Write a page around its main content: header, navigation, sidebar, footer."""
        names = ("home", "about", "jobs", "press", "blog", "help", "contact", "login")
        links = [tag("a", pairs(href=f"/{name}"), self.ui(name)) for name in names]
        menu = tag("ul", "", self.lines(tag("li", "", link) for link in links))
        lists = self.pick("nav", (menu, tag("div", pairs(class_="menu"), self.lines(links))))
        header = tag("header", "", f'<a href="/"><img src="/logo.svg" alt="Site {self.seed}"></a>')
        nav = tag("nav", "", lists)
        crumbs = ""
        if self.chance("crumbs", 0.5):
            steps = [tag("a", pairs(href="/"), self.ui("home")), tag("span", "", escape(title))]
            crumbs = tag("ol", pairs(class_="breadcrumb"), *(tag("li", "", s) for s in steps))
        sidebar = ""
        if self.chance("sidebar", 0.6):
            facets = self.pick("facets", [list(self.words["tags"][:8])])
            filters = [
                f'<li><label><input type="checkbox" name="f" value="{n}"> {name} ({n * 7 % 30})'
                "</label></li>"
                for n, name in enumerate(facets)
            ]
            sidebar = tag(
                "aside",
                pairs(class_="sidebar") if self.style != "none" else "",
                tag("h4", "", self.ui("filter")),
                tag("ul", "", self.lines(filters)),
            )
        popular = ""
        if self.chance("popular", 0.4):
            texts = self.pick("popular", [[self.word("topics") for _ in range(4)]])
            rows = [tag("li", "", f'<a href="/p/{n}">{escape(t)}</a>') for n, t in enumerate(texts)]
            popular = tag("section", "", tag("h4", "", self.ui("popular")), tag("ul", "", *rows))
        footer = tag(
            "footer",
            "",
            *(
                tag("div", "", tag("h5", "", self.ui(head)), tag("ul", "", *rows))
                for head, rows in (
                    ("help", [tag("li", "", links[n]) for n in (5, 6)]),
                    ("about", [tag("li", "", links[n]) for n in (1, 2, 3)]),
                )
            ),
            tag("form", "", self.ui("newsletter"), '<input type="email" name="e">'),
            tag("p", "", f"\u00a9 2025 Site {self.seed}. {self.ui('rights')}"),
        )
        banner = tag("div", pairs(id="cookies"), self.ui("cookies"), "<button>OK</button>")
        intro = tag("p", "", self.ui("intro")) if self.chance("intro", 0.6) else ""
        heading = tag("h1", "", escape(title)) if self.chance("h1", 0.85) else ""
        region = self.pick("region", ("main", "div", "section"))
        content = tag(region, self.css("main"), heading, intro, main, pager)
        middle = self.lines(
            [sidebar, content] if self.chance("sidebar-first", 0.5) else [content, sidebar]
        )
        if self.chance("layout-div", 0.5):
            middle = tag("div", self.css("layout"), middle)
        direction = ' dir="rtl"' if self.language == "ar" else ""
        body = self.lines([banner, header, nav, crumbs, middle, popular, footer])
        script = "<script>window.dataLayer=[];function gtag(){dataLayer.push(arguments)}</script>"
        return (
            f'<!doctype html>\n<html lang="{self.language}"{direction}><head><meta charset="utf-8">'
            f"<title>{escape(title)} | Site {self.seed}</title>"
            f'<link rel="canonical" href="{escape(url)}"><style>.a{{color:red}}</style>{script}'
            f"</head>\n<body>{body}</body></html>\n"
        ).encode()
