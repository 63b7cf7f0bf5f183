"""reStructuredText: title, sections, links, markup of Sphinx, and no access to files."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest
from docutils.parsers.rst import directives, roles  # type: ignore[import-untyped]

from tests.service.documents.text_documents import links_of, scrape_text
from tests.site.server import Site
from webdata_nb.service.documents.restructured_text import (
    MAX_LINE_LENGTH,
    MAX_LINES,
    convert_restructured_text,
)
from webdata_nb.service.scrape.page import Scraped
from webdata_nb.service.workers.pool import CPU_SECONDS


def scrape_rst(text: str, url: str = "http://site.test/dir/page.rst") -> Scraped:
    return scrape_text(text, "text/x-rst; charset=utf-8", url=url)


def test_title_sections_links_and_code() -> None:
    scraped = scrape_rst("""
The *manual*
============

:Author: Ann
:Date: 2025-12-03

See `one <one.html>`_, two_, https://site.test/three and ``[no](link)``.

First part
----------

.. code-block:: python

   x = "https://site.test/no"

- item `four <../four>`__

.. _two: two.html
.. image:: p.png
   :alt: picture
   :target: five.html

Second part
-----------

===  =====
a    b
===  =====
1    2
===  =====
""")
    assert scraped.title == "The manual"
    assert [(each["level"], each["text"]) for each in scraped.formats["headings"]] == [
        (1, "The manual"),
        (2, "First part"),
        (2, "Second part"),
    ]
    assert links_of(scraped) == [
        "one.html",
        "two.html",
        "https://site.test/three",
        "http://site.test/four",
        "five.html",
    ]
    assert [link.anchor for link in scraped.outlinks][:2] == ["one", "two"]
    assert '```python\nx = "https://site.test/no"\n```' in scraped.formats["markdown"]
    assert "`[no](link)`" in scraped.formats["markdown"]
    assert "| a | b |\n| --- | --- |\n| 1 | 2 |" in scraped.formats["markdown"]
    assert scraped.formats["images"][0]["url"] == "http://site.test/dir/p.png"
    expected = {"author": "Ann", "published": "2025-12-03", "rung": "restructuredtext"}
    assert scraped.metadata | expected == scraped.metadata


def test_sections_without_a_document_title_begin_at_level_one() -> None:
    scraped = scrape_rst("intro\n\nA\n=\n\nB\n-\n\nC\n=\n")
    assert scraped.title == "A"
    levels = [(each["level"], each["text"]) for each in scraped.formats["headings"]]
    assert levels == [(1, "A"), (2, "B"), (1, "C")]


def test_markup_of_sphinx_is_content() -> None:
    scraped = scrape_rst("""
:mod:`json` --- a module
========================

.. module:: json
   :synopsis: hidden

.. function:: dump(obj, fp, *, \\
                   indent=None)
              dumps(obj)

   Write *obj*, see :func:`~json.loads`, :ref:`the part <label>` and :py:class:`!Encoder`.

   .. versionchanged:: 3.6
      All parameters.

.. class:: Encoder(x)

   A class.

.. unknown:thing:: An argument
   :option: value

   Its content.
""")
    assert scraped.title == "json --- a module"
    assert scraped.formats["markdown"] == (
        "# `json` --- a module\n\n`dump(obj, fp, *, indent=None)`\n\n`dumps(obj)`\n\n"
        "Write *obj*, see `loads`, the part and `Encoder`.\n\n"
        "Changed in version 3.6 All parameters.\n\n`Encoder(x)`\n\nA class.\n\n"
        "An argument\n\nIts content."
    )


@pytest.mark.parametrize(
    ("path", "links"),
    [
        ("_sources/index.rst.txt", ["intro.rst.txt", "api/index.rst.txt", "other.rst.txt"]),
        ("index.rst", ["intro.rst", "api/index.rst", "other.rst"]),
        ("index", []),
    ],
)
def test_tables_of_contents_lead_to_sources(path: str, links: list[str]) -> None:
    text = (
        "Index\n=====\n\n.. toctree::\n   :maxdepth: 2\n\n   intro\n   The API <api/index.rst>\n"
        "   glob/*\n   /from/root\n\nSee :doc:`other`.\n"
    )
    scraped = scrape_rst(text, f"http://site.test/{path}")
    folder = f"http://site.test/{path.rpartition('index')[0]}"
    assert scraped.formats["links"] == [folder + link for link in links]
    assert "The API" in scraped.formats["markdown"]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret.svg"
    file.write_text("<svg xmlns='http://www.w3.org/2000/svg'><text>TOPSECRET</text></svg>")
    return file


@pytest.mark.parametrize(
    "markup",
    [
        ".. include:: {}",
        ".. include:: {}\n   :literal:",
        ".. literalinclude:: {}",
        ".. raw:: html\n   :file: {}",
        ".. csv-table:: t\n   :file: {}",
        ".. image:: {}\n   :loading: embed",
        ".. image:: {}\n   :scale: 50",
        ".. figure:: {}\n   :loading: embed\n   :figwidth: image",
        ".. |x| image:: {}\n   :loading: embed\n\nsee |x|",
        ".. code::\n   :file: {}\n\n   x",
    ],
)
def test_no_directive_reads_files(markup: str, secret: Path) -> None:
    for path in (str(secret), secret.as_uri()):
        document = convert_restructured_text(
            f"Title\n=====\n\n{markup.format(path)}\n", f"{secret.parent.as_uri()}/page.rst"
        )
        assert "TOPSECRET" not in document.html
        assert "base64" not in document.html


@pytest.mark.parametrize("markup", [".. raw:: html\n   :url: {}", ".. csv-table:: t\n   :url: {}"])
def test_no_directive_uses_the_network(markup: str, site: Site) -> None:
    convert_restructured_text(markup.format(site.at("/secret")), site.at("/page.rst"))
    assert site.paths == ()


def test_raw_html_is_no_content() -> None:
    text = ".. role:: raw-html(raw)\n   :format: html\n\n:raw-html:`<script>x</script>`\n\nText"
    html = convert_restructured_text(text, "http://site.test/page.rst").html
    assert "<script>" not in html
    assert "Text" in html


def test_names_that_a_document_defines_end_with_it() -> None:
    scrape_rst(".. foo:: bar\n\n.. role:: baz\n\n:qux:`x` :baz:`y`")
    assert not {"foo"} & set(directives._directives)
    assert not {"baz", "qux"} & set(roles._roles)


@pytest.mark.parametrize(
    "text",
    [
        "- " * 2000 + "x",
        "\n\n".join(f"{' ' * depth}- a" for depth in range(0, 2000, 2)),
        "*a " * 2000,
        "x" * (MAX_LINE_LENGTH + 1),
    ],
)
def test_text_that_the_parser_refuses_is_plain_text(text: str) -> None:
    scraped = scrape_rst(f"{text}\n\nhttp://site.test/dir/x\n")
    assert scraped.formats["markdown"].startswith(text[:5])
    assert links_of(scraped) == ["x"]


def test_long_documents_are_parsed_in_part() -> None:
    scraped = scrape_rst(
        "Title\n=====\n\n" + "word\n" * MAX_LINES + "\nhttp://site.test/dir/last\n"
    )
    assert scraped.title == "Title"
    assert links_of(scraped) == ["last"]
    assert scraped.metadata["characters_not_parsed"] == 3 * 5 + len("\nhttp://site.test/dir/last\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        *("a\n  b\n", ":a: b\n", "| a\n", "*a\n", "`a\n", "a_ b_\n", ":a:`b`\n", ".. a::\n"),
        *("1. a\n", "A\n=\n\n", "[#]_ a\n", "- a\n\n", "+-+\n|a|\n+-+\n\n", "|a|\n", "*a* ``b``\n"),
    ],
)
def test_hostile_texts_take_bounded_time(unit: str) -> None:
    start = process_time()
    convert_restructured_text(unit * (300_000 // len(unit)), "http://site.test/page.rst")
    assert process_time() - start < CPU_SECONDS
