"""Broken pages without end: scrape what nobody would write, and survive it.

``python -m tests.page.scrape.fuzz SEED PAGES`` makes pages from pieces of markup and mutates
their bytes; every format is made of each. It ends with 0 when nothing but a `ScrapeError` was
raised, and names the page that raised something else. A crash of the parser ends the process.
"""

from __future__ import annotations

import random
import sys
from typing import Final

from tests.page.pages import page_source
from webdata_nb.page.errors import ScrapeError
from webdata_nb.page.scrape.page import ConversionOptions, scrape

FORMATS: Final = (
    "markdown",
    "html",
    "raw_html",
    "links",
    "images",
    "headings",
    "structured_data",
)
PIECES: Final = tuple(
    piece.encode()
    for piece in (
        "<!DOCTYPE html><html lang=en><head><title>T</title><base href=/b/>",
        "<meta name=description content=d><meta property=og:type content=article>",
        '<script type="application/ld+json">{"@type":"Article","author":{"name":"A"}}</script>',
        "<body onload=x><main><article><h1 id=h>Title <a class=headerlink href=#h>¶</a></h1>",
        "<p>Text with <b>bold</b>, <i>é</i> and <a href='x.html#a b' rel=nofollow>link</a>.</p>",
        "<table><caption>C</caption><tr><th colspan=2>a<th>b<tr><td rowspan=2>1<td>2<tr>",
        "<table><tr><td><table><tr><td>x</table><pre>code</pre></table>",
        '<div class="highlight-c"><pre><span>int</span> x;<br>\n</pre></div>',
        "<ul><li>a<ul><li>b</ul><ol><li><input type=checkbox disabled>c</ol></ul>",
        "<dl><dt>t<dd>d</dl><blockquote><p>q</blockquote><hr>",
        "<a href=//h/><h2><button>B</button></h2><p>card</p></a>",
        '<picture><source srcset="a 1x, b 2x"><img src=c data-src=d alt="x\ny"></picture>',
        "<figure><img src=data:image/gif;base64,AA><figcaption>cap</figcaption></figure>",
        "<svg><title>s</title><text>t</text></svg><math><mi>x</mi><annotation>y</annotation></math>",
        "<div hidden>h</div><div style='display:none'><a href=y>z</a></div><template><p>",
        "<select><option>o</select><textarea>t</textarea><noscript><img src=n></noscript>",
        "<div itemscope itemtype=http://schema.org/X><a itemprop=url href=u>p</a></div>",
        "<div vocab=http://schema.org/ typeof=Y><b property=name>n</b></div>",
        "<!-- c --><![CDATA[x]]><?pi?><nav><a href='http://[::1'>bad</a></nav>",
        "</p></div></table></a></b></main></body></html>",
        "<x-a><template shadowrootmode=open><h2>s</h2><slot>f</slot><slot name=n></template>",
        "l<b slot=n>N</b></x-a><template shadowrootmode=closed><a href=q>s</a></template>",
        "<ol reversed start=-1><li value=3>a<li value=x>b</ol>",
        "<frameset><frame src=f></frameset>",
        "<p>a<sup><a href=#n1>1</a></sup><sup>2</sup></p><ol><li id=n1>n <a href=#r>x</a></ol>",
        '<span class="sidenote">a side note</span><p id=n1><sup>2</sup> note<hr><p><b>1</b> n',
        '<span class=katex><math><annotation encoding="application/x-tex">x</annotation></math>',
        '<script type="math/tex; mode=display">x^2</script><img class=latex alt="$y$" src=y>',
        '<script src=MathJax.js></script>\\(x\\) $$y$$ $5 <div class="math" data-math="z">z</div>',
        '<code class="block">a\nb</code><table class=highlight><tr><td>1<td class=code>x</table>',
        "<plaintext>",
        "<p style='white-space:pre'>w\x00\ufffd\u202e</p>",
    )
)


def random_page(rng: random.Random) -> bytes:
    """Make one page: pieces in any order, some of its bytes changed."""
    body = bytearray(b"".join(rng.choices(PIECES, k=rng.randint(1, 24))))
    for _ in range(rng.choice((0, 1, 4, 16, 64))):
        at = rng.randrange(len(body) + 1)
        match rng.randrange(5):
            case 0:
                body[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del body[at : at + rng.randint(1, 40)]
            case 2:
                body[at:at] = rng.choice(
                    (b"<", b">", b'"', b"'", b"&#x", b"</", b"<!--", b"`", b"]]>")
                )
            case 3:
                start = rng.randrange(len(body) + 1)
                body[at:at] = body[start : start + rng.randint(1, 200)]
            case _:
                body[at:at] = rng.choice(PIECES)
        if not body:
            break
    return bytes(body[: rng.choice((len(body), rng.randrange(len(body) + 1)))])


def random_options(rng: random.Random) -> ConversionOptions:
    """Choose what to make of a page."""
    return ConversionOptions(
        FORMATS,
        only_main_content=rng.random() < 0.5,
        markdown_mode=rng.choice((None, "article", "full")),
        include_tags=rng.choice(((), (), ("p", "table"), ("div:has(a)",))),
        exclude_tags=rng.choice(((), (), ("body",), ("*",), ("li > ul",))),
    )


def main(seed: int, pages: int) -> int:
    """Scrape so many pages; return how many raised what they must not."""
    failures = 0
    for number in range(pages):
        rng = random.Random(f"{seed}:{number}")
        body, wanted = random_page(rng), random_options(rng)
        kind = rng.choice(("text/html", "text/html", None, "application/xhtml+xml", "text/xml"))
        try:
            scrape(page_source(body, content_type=kind), wanted)
        except ScrapeError:
            continue
        except Exception as error:  # noqa: BLE001 - any other is what is looked for
            failures += 1
            sys.stderr.write(f"seed {seed} page {number} as {kind}: {error!r}\n{body!r}\n")
    return failures


if __name__ == "__main__":
    sys.exit(min(100, main(int(sys.argv[1]), int(sys.argv[2]))))
