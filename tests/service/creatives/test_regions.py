"""Every country of ISO 3166-1, against a table of other people's making."""

from __future__ import annotations

from typing import Any

import pycountry
import pytest

from webdata_nb.service.creatives.regions import of_google, region, regions
from webdata_nb.service.errors import BadInput

COUNTRIES: list[Any] = list(pycountry.countries)


def test_the_table_is_whole() -> None:
    assert len(COUNTRIES) == 249
    assert {each.alpha_2 for each in regions()} == {each.alpha_2 for each in COUNTRIES}


@pytest.mark.parametrize("country", COUNTRIES, ids=lambda country: country.alpha_2)
def test_a_country_by_every_name_that_it_has(country: Any) -> None:
    names = [country.alpha_2, country.alpha_2.lower(), country.alpha_3, country.name]
    names += [getattr(country, name, country.name) for name in ("common_name", "official_name")]
    for name in names:
        found = region(name)
        assert found is not None
        assert found.alpha_2 == country.alpha_2
        number = 20340 if country.alpha_2 == "IM" else 2000 + int(country.numeric)
        assert found.google == number
        assert of_google(number) == country.alpha_2


def test_anywhere_is_no_country() -> None:
    assert region("anywhere") is region(" Anywhere ") is None


@pytest.mark.parametrize(
    ("wrong", "close"),
    [("Austraila", "Australia (AU)"), ("sweeden", "Sweden (SE)"), ("Cote dIvoire", "(CI)")],
)
def test_a_misspelt_one_names_what_is_close(wrong: str, close: str) -> None:
    with pytest.raises(BadInput) as caught:
        region(wrong)
    assert close in str(caught.value)
    assert caught.value.loc == ("body", "region")


@pytest.mark.parametrize("wrong", ["XX", "", "2276", "Atlantis"])
def test_what_is_no_country_is_refused(wrong: str) -> None:
    with pytest.raises(BadInput, match="ISO 3166"):
        region(wrong)
