"""Dates in text: the languages of the web, the orders of day and month, and hostile text."""

from __future__ import annotations

from datetime import date

import pytest

from webdata_nb.page.content.dates import (
    find_dates,
    month_number,
    parse_date,
    parse_timestamp,
)

SEVENTH_OF_OCTOBER = date(2020, 10, 7)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Wednesday, October 7th, 2020"),
        ("en-GB", "7th of October 2020"),
        ("en", "Oct. 7 2020"),
        ("de", "Mittwoch, 7. Oktober 2020"),
        ("de-AT", "7.Okt.2020"),
        ("fr", "mercredi 7 octobre 2020"),
        ("es", "7 de octubre de 2020"),
        ("es", "Octubre 7, 2020"),
        ("it", "7 ott 2020"),
        ("pt-BR", "7 de out. de 2020"),
        ("nl", "woensdag 7 oktober 2020"),
        ("pl", "7 października 2020"),
        ("tr", "7 Ekim 2020"),
        ("ru", "7 октября 2020 года"),
        ("uk", "7 жовтня 2020"),
        ("sv", "den 7 oktober 2020"),
        ("da", "7. okt. 2020"),
        ("nb-NO", "7. oktober 2020"),
        ("fi", "7. lokakuuta 2020"),
        ("cs", "7. října 2020"),
        ("cs", "7. 10. 2020"),
        ("sk", "7. októbra 2020"),
        ("hu", "2020. október 7."),
        ("hu", "2020.10.07."),
        ("ro", "7 octombrie 2020"),
        ("hr", "7. listopada 2020."),
        ("sr", "7. октобар 2020"),
        ("bg", "7 октомври 2020"),
        ("el", "7 Οκτωβρίου 2020"),
        ("ca", "7 d\u2019octubre de 2020"),
        ("lt", "2020 m. spalio 7 d."),
        ("lv", "2020. gada 7. oktobris"),
        ("et", "7. oktoober 2020"),
        ("id", "7 Oktober 2020"),
        ("vi", "ngày 7 tháng 10 năm 2020"),
        ("ar", "الأربعاء، 07 أكتوبر 2020"),
        ("fa", "07 اکتبر \u06f2\u06f0\u06f2\u06f0"),
        ("he", "7 אוקטובר 2020"),
        ("hi", "7 अक्टूबर 2020"),
        ("th", "7 ตุลาคม 2563"),
        ("th", "7 ต.ค. 2563"),
        ("ja", "2020年10月7日"),
        ("zh", "2020 年 10 月 7 日"),
        ("zh", "10 月 7, 2020"),
        ("ko", "2020년 10월 7일"),
        ("ko", "2020. 10. 7."),
        ("", "2020-10-07"),
        ("", "2020/10/7"),
        ("", "7-Oct-2020"),
        ("", "2020-Oct-07"),
        ("", "Wed Oct 7 14:57:21 CEST 2020"),
    ],
)
def test_dates_in_many_languages(language: str, text: str) -> None:
    assert [found.day for found in find_dates(text, language=language)] == [SEVENTH_OF_OCTOBER]
    around = f"12 345, {text} \u2013 10:30, 99 comments"
    assert [found.day for found in find_dates(around, language=language)] == [SEVENTH_OF_OCTOBER]


@pytest.mark.parametrize(
    "text",
    [
        "2020",
        "October 2020",
        "32 October 2020",
        "7 Oktopus 2020",
        "12 of 2020 rooms",
        "1234/5678-9012",
        "10.07.20201",
        "31.02.2020",
        "2020-2021",
        "Tel. 07 10 2020 33",
        "version 7.10.2020.4",
        "7 J 2020",
        "7 Ma 2020",
    ],
)
def test_other_numbers_are_no_dates(text: str) -> None:
    assert list(find_dates(text)) == []


def test_positions_and_several_dates() -> None:
    text = "From 3 May 2026 to 2026-05-09 (was: 05/04/2026)."
    found = list(find_dates(text))
    assert [text[each.start : each.end] for each in found] == [
        "3 May 2026",
        "2026-05-09",
        "05/04/2026",
    ]
    assert [each.ambiguous for each in found] == [False, False, True]


@pytest.mark.parametrize(
    ("text", "day_first", "month_first", "unknown"),
    [
        ("03/04/2026", date(2026, 4, 3), date(2026, 3, 4), None),
        ("3-4-2026", date(2026, 4, 3), date(2026, 3, 4), None),
        ("03.04.2026", date(2026, 4, 3), date(2026, 4, 3), date(2026, 4, 3)),
        ("13/04/2026", date(2026, 4, 13), date(2026, 4, 13), date(2026, 4, 13)),
        ("04/13/2026", date(2026, 4, 13), date(2026, 4, 13), date(2026, 4, 13)),
        ("04/04/2026", date(2026, 4, 4), date(2026, 4, 4), date(2026, 4, 4)),
    ],
)
def test_order_of_day_and_month(
    text: str, day_first: date, month_first: date, unknown: date | None
) -> None:
    assert parse_date(text, day_first=True) == day_first
    assert parse_date(text, day_first=False) == month_first
    assert parse_date(text) == unknown


def test_years_of_two_digits_are_no_dates() -> None:
    assert list(find_dates("07.10.20")) == []


def test_the_language_decides_between_equal_names() -> None:
    assert (month_number("listopada", "pl"), month_number("listopada", "hr-HR")) == (11, 10)
    assert (month_number("lis", "pl"), month_number("lis", "hr")) == (11, 10)
    assert (month_number("JUNI", "sv"), month_number("Juni"), month_number("juni", "xx")) == (
        6,
    ) * 3
    assert (month_number("mar", "en"), month_number("mar", "fi")) == (3, 11)


@pytest.mark.parametrize("word", ["", "a", "ma", "ju", "jux", "Octo pus", "the", "Montag"])
def test_other_words_are_no_months(word: str) -> None:
    assert month_number(word, "en") is None


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2020-10-07T16:38:07Z", "2020-10-07T16:38:07+00:00"),
        ("20201007T163807Z", "2020-10-07T16:38:07+00:00"),
        (" 2020-10-07 16:38:07\n", "2020-10-07T16:38:07"),
        ("2020-10-07T16:38:07.123+0200", "2020-10-07T16:38:07.123000+02:00"),
        ("Wed, 07 Oct 2020 16:38:07 GMT", "2020-10-07T16:38:07+00:00"),
        ("1602088687", "2020-10-07T16:38:07+00:00"),
        ("1602088687000", "2020-10-07T16:38:07+00:00"),
        ("2020-10-07", None),
        ("2020", None),
        ("16:38", None),
        ("Sat, 99 Xyz 99999999999 00:00:00", None),
        ("T" * 100_000, None),
    ],
)
def test_timestamps(text: str, moment: str | None) -> None:
    found = parse_timestamp(text)
    assert (found and found.isoformat()) == moment


@pytest.mark.parametrize(
    "text",
    [
        "1 January 2020 " * 40_000,
        "2020 " * 100_000,
        pytest.param("2020-" * 100_000, marks=pytest.mark.slow),
        pytest.param("1.1." * 100_000, marks=pytest.mark.slow),
        "a" * 500_000 + " 2020",
        ("1 " + "a" * 30 + " 2020 ") * 15_000,
        pytest.param("12/12/12 " * 50_000, marks=pytest.mark.slow),
        pytest.param("\u0300" * 500_000 + "2020", marks=pytest.mark.slow),
    ],
)
@pytest.mark.timeout(60)  # in quadratic time these texts take many minutes
def test_hostile_text_gives_no_more_dates_than_characters(text: str) -> None:
    assert len(list(find_dates(text))) <= len(text)
