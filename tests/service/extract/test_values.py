"""Numbers, dates and names as pages write them."""

from __future__ import annotations

import pytest

from webdata_nb.page.extract.coerce import iso_date, iso_datetime, parse_number, uses_decimal_comma
from webdata_nb.page.extract.field_names import name_readings, split_words


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("129.90", 129.9),
        ("1.129,90", 1129.9),
        ("1,129.90", 1129.9),
        ("$1,299.00", 1299.0),
        ("1 299,00 €", 1299.0),
        ("1\u202f299,00\xa0€", 1299.0),
        ("CHF 1'299.50", 1299.5),
        ("USD 5", 5),
        ("Rs. 1,23,456", 123456),
        ("12,50", 12.5),
        ("0,125", 0.125),
        ("1.234", 1.234),
        ("1,234", 1234),
        ("1,234,567", 1234567),
        ("-3.5 °C", -3.5),
        ("\u22123", -3),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("4.6 / 5", 4.6),
        ("4.6 out of 5 stars", 4.6),
        ("213 reviews", 213),
        ("15%", 15),
        ("283 g", 283),
        ("12.345.67", None),
        ("10-20", None),
        ("10 x 20 cm", None),
        ("1.2K", None),
        ("3M", None),
        ("about iPhone 15", None),
        ("free", None),
        ("", None),
        ("1 2 3", None),
        ("9" * 61, None),
        ("2026-01-31", None),
        ("PT30M", None),
    ],
)
def test_numbers(text: str, number: float | None) -> None:
    found = parse_number(text)
    assert found == number
    assert type(found) is type(number)


def test_a_mark_before_three_digits_is_read_by_language_and_type() -> None:
    assert parse_number("1.234 g", decimal_comma=True) == 1234
    assert parse_number("1,234 g", decimal_comma=True) == 1.234
    assert parse_number("1.234", integer=True) == 1234
    assert uses_decimal_comma("de-AT")
    assert not uses_decimal_comma("en")
    assert not uses_decimal_comma(None)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T23:30:00-08:00", "2026-01-31"),
        ("2026-01-31 10:00", "2026-01-31"),
        ("20260131", "2026-01-31"),
        ("2026/1/31", "2026-01-31"),
        ("Sat, 31 Jan 2026 10:00:00 GMT", "2026-01-31"),
        ("January 31, 2026", "2026-01-31"),
        ("Jan. 31st 2026", "2026-01-31"),
        ("31 Sept 2026", None),
        ("1 Sept 2026", "2026-09-01"),
        ("Published on 8\n Oct 2026", "2026-10-08"),
        ("13/11/2025 09:21:40", "2025-11-13"),
        ("11/13/2025", "2025-11-13"),
        ("03.04.2025", "2025-04-03"),
        ("03/04/2025", None),
        ("Veröffentlicht am 3. März 2025, 10:00 Uhr", "2025-03-03"),
        ("mercredi 5 août 2026 à 9h30", "2026-08-05"),
        ("7 października 2020", "2020-10-07"),
        ("2025年3月4日 10:00", "2025-03-04"),
        ("10:15, 3 May 2025", "2025-05-03"),
        ("3 May 2025 to 5 May 2025", None),
        ("The fair that opens on 3 May 2025", None),
        ("2026-02-31", None),
        ("2026-01", None),
        ("Ma 3, 2026", None),
        ("soon", None),
        ("", None),
    ],
)
def test_days(text: str, day: str | None) -> None:
    assert iso_date(text) == day


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T10:00:00Z", "2026-01-31T10:00:00+00:00"),
        ("2026-01-31T10:00:00", "2026-01-31T10:00:00"),
        ("Sat, 31 Jan 2026 10:00:00 +0100", "2026-01-31T10:00:00+01:00"),
        ("2026-01-31", None),
        ("10:00", None),
    ],
)
def test_a_moment_is_not_made_up(text: str, moment: str | None) -> None:
    assert iso_datetime(text) == moment


@pytest.mark.parametrize(
    "name", ["datePublished", "date_published", "Date-Published", "DATE published"]
)
def test_names_are_read_in_any_case(name: str) -> None:
    assert split_words(name) == ("date", "published")


@pytest.mark.parametrize(
    ("name", "chain", "kind"),
    [
        ("author_name", ("author", "name"), ""),
        ("author_name", ("author",), ""),
        ("number_of_reviews", ("reviewcount",), ""),
        ("is_in_stock", ("availability",), ""),
        ("recipeTitle", ("name",), "recipe"),
        ("images", ("image",), ""),
        ("categories", ("category",), ""),
        ("GTIN13", ("gtin13",), ""),
    ],
)
def test_a_name_has_readings(name: str, chain: tuple[str, ...], kind: str) -> None:
    assert (chain, kind) in [(each.chain, each.kind) for each in name_readings(name)]


def test_readings_are_bounded() -> None:
    assert len(name_readings("_".join(["title", "rating", "price", "date"] * 50))) <= 200
    assert name_readings("___") == ()
