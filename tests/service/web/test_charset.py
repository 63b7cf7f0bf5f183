from __future__ import annotations

from pathlib import Path

import pytest

from webdata_nb.page.charset import decode_text, encoding_for_label, sniff_charset

LABELS = {
    "UTF-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    "IBM866": "866 cp866 csibm866 ibm866",
    "ISO-8859-2": "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso_8859-2:1987 l2 latin2",
    "ISO-8859-5": "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso88595",
    "ISO-8859-6": "arabic asmo-708 csiso88596e ecma-114 iso-8859-6-i iso_8859-6:1987",
    "ISO-8859-7": "csisolatingreek ecma-118 elot_928 greek greek8 sun_eu_greek",
    "ISO-8859-8": "csiso88598e hebrew iso-8859-8-e visual",
    "ISO-8859-8-I": "csiso88598i iso-8859-8-i logical",
    "ISO-8859-10": "csisolatin6 iso-8859-10 l6 latin6",
    "ISO-8859-15": "csisolatin9 iso-8859-15 l9",
    "ISO-8859-16": "iso-8859-16",
    "KOI8-R": "cskoi8r koi koi8 koi8-r koi8_r",
    "KOI8-U": "koi8-ru koi8-u",
    "macintosh": "csmacintosh mac macintosh x-mac-roman",
    "windows-874": "dos-874 iso-8859-11 tis-620 windows-874",
    "windows-1250": "cp1250 windows-1250 x-cp1250",
    "windows-1251": "cp1251 windows-1251 x-cp1251",
    "windows-1252": "ansi_x3.4-1968 ascii cp819 iso-8859-1 iso_8859-1:1987 l1 latin1 us-ascii",
    "windows-1254": "cp1254 csisolatin5 iso-8859-9 iso_8859-9:1989 l5 latin5",
    "x-mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "GBK": "chinese csgb2312 gb2312 gb_2312-80 gbk iso-ir-58 x-gbk",
    "gb18030": "gb18030",
    "Big5": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "EUC-JP": "cseucpkdfmtjapanese euc-jp x-euc-jp",
    "ISO-2022-JP": "csiso2022jp iso-2022-jp",
    "Shift_JIS": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    "EUC-KR": "cseuckr korean ks_c_5601-1987 ksc5601 windows-949",
    "replacement": "csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-kr",
    "UTF-16BE": "unicodefffe utf-16be",
    "UTF-16LE": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
    "x-user-defined": "x-user-defined",
}


@pytest.mark.parametrize("name", LABELS)
def test_standard_labels(name: str) -> None:
    for label in LABELS[name].split():
        assert encoding_for_label(label) == name, label
        assert encoding_for_label(f" {label.upper()}\n") == name, label


@pytest.mark.parametrize("label", ["", "bogus", "utf-7", "é", "\0", "x" * 1000, "whatwg-utf-8"])
def test_unknown_labels(label: str) -> None:
    assert encoding_for_label(label) is None


def test_sniffing_cases(corpora: Path) -> None:
    """All but one whose declaration a script writes, and one in UTF-8 that declares another."""
    cases = wrong = utf8 = 0
    for file in sorted((corpora / "html5lib" / "encoding").rglob("*.dat")):
        for block in file.read_bytes().split(b"#data\n")[1:]:
            data, _, rest = block.partition(b"\n#encoding\n")
            expected = encoding_for_label(rest.split(b"\n")[0].decode().strip())
            cases += 1
            charset = sniff_charset(data)
            if charset == "UTF-8" != expected:
                data.decode()
                utf8 += 1
            elif charset != expected:
                assert b"document.write" in data
                wrong += 1
    assert (cases, wrong, utf8) == (83, 1, 1)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("big5", "Big5"),
        ("euc_kr", "EUC-KR"),
        ("gb18030", "gb18030"),
        ("iso_2022_jp", "ISO-2022-JP"),
        ("jis0208", "EUC-JP"),
        ("jis0212", "EUC-JP"),
        ("shift_jis", "Shift_JIS"),
    ],
)
def test_decoding_cases(corpora: Path, file: str, name: str) -> None:
    folder = corpora / "encoding" / "encoding_rs"
    text = decode_text((folder / f"{file}_in.txt").read_bytes(), name)
    assert text == (folder / f"{file}_in_ref.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"\xef\xbb\xbf<meta charset=koi8-r>", "text/html; charset=sjis", "UTF-8"),
        (b"\xff\xfea\0", "text/html; charset=sjis", "UTF-16LE"),
        (b"\xfe\xff\0a", None, "UTF-16BE"),
        (b"<meta charset=koi8-r>", "text/html; charset=SJIS", "Shift_JIS"),
        (b"x", 'text/html;charset="latin1"', "windows-1252"),
        (b"x", "text/html ; Charset = utf8 ; x=y", "UTF-8"),
        (b"<meta charset=koi8-r>", "text/html; charset=bogus", "KOI8-R"),
        (b"<meta charset=koi8-r>", "text/html", "KOI8-R"),
        (b"<meta charset=koi8-r>", "text/plain", "windows-1252"),
        (b'{"a": "<meta charset=koi8-r>"}', "application/json", "windows-1252"),
        ("<meta charset=gbk>©".encode(), "text/html", "UTF-8"),
        ("<meta charset=gbk>©".encode("gb18030"), "text/html", "GBK"),
        ("<meta charset=gbk>©".encode(), "text/html; charset=gbk", "GBK"),
        (b"<META CHARSET='utf-16'>", None, "UTF-8"),
        (b"<meta charset=x-user-defined>", None, "windows-1252"),
        (b"<meta charset=bogus><meta charset=koi8-r>", None, "KOI8-R"),
        (b"<meta charset=bogus charset=koi8-r>x", None, "windows-1252"),
        (b"<meta charset=koi8-r", None, "windows-1252"),
        (b"<meta charset='koi8-r>", None, "windows-1252"),
        (b"<!-- <meta charset=koi8-r> -->", None, "windows-1252"),
        (b"<!--><meta charset=koi8-r>", None, "KOI8-R"),
        (b"<a title='<meta charset=koi8-r>'>", None, "windows-1252"),
        (b"<!x <meta charset=koi8-r>", None, "windows-1252"),
        (b"<?xml version='1.0' encoding='koi8-r'?><a/>", None, "KOI8-R"),
        (b'<?xml encoding="koi8-r"?><meta charset=big5>', None, "Big5"),
        (b"<?xml encoding='koi8-r'?>", "application/rss+xml", "KOI8-R"),
        ("<?xml version='1.0'?>".encode("utf-16-le"), None, "UTF-16LE"),
        ("<?xml version='1.0'?>".encode("utf-16-be"), None, "UTF-16BE"),
        (b"", None, "windows-1252"),
        (b"plain", None, "windows-1252"),
        ("naïve".encode(), None, "UTF-8"),
        ("日本語テキスト".encode("iso-2022-jp"), None, "ISO-2022-JP"),
        (b"\x1b[31mred\x1b[0m", None, "windows-1252"),
    ],
)
def test_order_of_precedence(body: bytes, content_type: str | None, expected: str) -> None:
    assert sniff_charset(body, content_type) == expected


FILLER = b"<p>nothing to see" * 100


@pytest.mark.parametrize(
    ("late", "name"),
    [
        (b"<meta charset=koi8-r>", "KOI8-R"),
        (b"<META http-equiv=Content-Type content='text/html; charset=koi8-r'>", "KOI8-R"),
        (b"<!-- <meta charset=koi8-r> -->", "windows-1252"),
        (b"<script>'<meta charset=koi8-r>'</script>", "windows-1252"),
        (b"<!-- <meta charset=big5> --><meta charset=koi8-r>", "KOI8-R"),
    ],
)
def test_late_declaration_counts_if_parser_obeys_it(late: bytes, name: str) -> None:
    assert sniff_charset(FILLER + late + FILLER) == name


@pytest.mark.parametrize(
    ("text", "codec", "name"),
    [
        ("Съешь ещё этих мягких французских булок, да выпей чаю. ", "cp1251", "windows-1251"),
        ("Съешь ещё этих мягких французских булок, да выпей чаю. ", "koi8-r", "KOI8-U"),
        ("吾輩は猫である。名前はまだ無い。どこで生れたか。", "shift_jis", "Shift_JIS"),
        ("吾輩は猫である。名前はまだ無い。どこで生れたか。", "euc-jp", "EUC-JP"),
        ("人人生而自由，在尊严和权利上一律平等。", "gbk", "GBK"),  # noqa: RUF001 - a Chinese comma
        ("모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에", "euc-kr", "EUC-KR"),
        ("Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι. ", "cp1253", "windows-1253"),  # noqa: RUF001 - it is Greek
        ("Voix ambiguë d'un cœur qui, au zéphyr, préfère les jattes. ", "cp1252", "windows-1252"),
    ],
)
def test_undeclared_encoding_is_detected(text: str, codec: str, name: str) -> None:
    once = text.encode(codec)
    for body in (once * 5, b"<!doctype html><p>" * 9_000 + once * 5_000):
        found = sniff_charset(body)
        assert found == name
        assert decode_text(once, found) == text


def test_cut_character_at_sample_end_is_tolerated() -> None:
    for padding in range(4):
        body = b"a" * padding + "日本語".encode("shift_jis") * 20_000
        assert sniff_charset(body) == "Shift_JIS"


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        (b"\xef\xbb\xbfabc", "UTF-8", "abc"),
        (b"\xff\xfea\0", "UTF-16LE", "a"),
        (b"a\xffb", "UTF-8", "a\ufffdb"),
        (b"\x80\x92", "windows-1252", "€\u2019"),
        (b"\x81", "windows-1252", "\x81"),
        (b"\xa4", "ISO-8859-15", "€"),
        (b"anything", "replacement", "\ufffd"),
        (b"\x80", "x-user-defined", "\uf780"),
    ],
)
def test_decoding(body: bytes, charset: str, text: str) -> None:
    assert decode_text(body, charset) == text


def test_every_encoding_can_be_decoded() -> None:
    for name in LABELS:
        assert isinstance(decode_text(bytes(range(256)), name), str)
