"""Headings of the sections that follow an article, in several languages."""

from __future__ import annotations

import pytest

from tests.cpu_deadline import cpu_deadline
from tests.quality.test_main_content import ARTICLE, PARAGRAPH, text_and_rung
from webdata_nb.page.content.block_tree import is_trailer_heading


@pytest.mark.parametrize(
    "heading",
    [
        "Related articles",
        "3 Comments",
        "Das könnte Sie auch interessieren!",
        "Mehr zum Thema: Häfen",
        "Ähnliche Beiträge",
        "» Weiterlesen:",
        "À lire aussi",
        "À PROPOS DE L’AUTEUR",  # noqa: RUF001 - a typographic apostrophe
        "Te puede interesar",
        "Leia também:",
        "Leggi anche",
        "Lees ook",
        "Zobacz też",
        "Čtěte také",
        "Läs även",
        "Читайте также",
        "İlgili haberler",
        "関連記事",
    ],
)
def test_heading_of_a_following_section_is_recognized(heading: str) -> None:
    assert is_trailer_heading(heading)


@pytest.mark.parametrize(
    "heading",
    [
        "Mehr Zuwanderung im Jahr 2020",
        "Mehrzweckhallen der Stadt",
        "Weiterlesende Schulen",
        "Kommentare der Bundesregierung zum Entwurf",
        "Lees in the harbour",
        "Más noticiasles",
        "Anzeigen im Hafen nehmen zu",
        "Partager un repas au port",
        "Zobaczył port",
    ],
)
def test_heading_that_only_begins_with_the_same_letters_stays(heading: str) -> None:
    assert not is_trailer_heading(heading)


def test_section_below_a_foreign_trailer_heading_is_dropped() -> None:
    teasers = "".join(f"<p>Der Hafen und seine Brücke, Teil {n}.</p>" for n in range(4))
    text, rung = text_and_rung(
        f"{ARTICLE}<body><article>{PARAGRAPH * 4}<h2>Die Brücke</h2>{PARAGRAPH}"
        f"<h2>Das könnte Sie auch interessieren</h2>{teasers}</article>"
    )
    assert rung == "article"
    assert "Die Brücke" in text
    assert "Teil 1" not in text


def test_long_text_costs_little() -> None:
    with cpu_deadline():
        for _ in range(5000):
            is_trailer_heading("mehr " * 14)
