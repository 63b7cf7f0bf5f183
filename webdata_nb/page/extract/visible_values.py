"""Reads the values that a page shows to people: price, stock, codes, brand, and labelled values.

A label and a colon before a value, as in ``Language: Estonian``, begin a block, a line of it, or a
part after ``|``. The value is the rest of the line, or the block beside it. Navigation, forms,
headings and choosers of languages are no content. Rows of tables and definition lists are read
with the tables.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote, urlsplit

from webdata_nb.page.content.block_tree import word_set
from webdata_nb.page.content.parser import (
    BLOCKS,
    HEADINGS,
    NOT_RENDERED,
    Element,
    Text,
    body_of,
    collapse_whitespace,
    element_before,
)
from webdata_nb.page.extract.field_names import normalize_short_name
from webdata_nb.page.extract.prices import (
    CODES_OF_SYMBOL,
    MAX_AMOUNT_LENGTH,
    find_price,
    parse_amount,
    settle_symbols,
)
from webdata_nb.page.extract.stock import find_stock_state
from webdata_nb.page.extract.visible_text import (
    ASIDE,
    CHOICE,
    HIDDEN,
    MAX_NODES,
    OVERLAY,
    PROPERTY_OF_LABEL,
    STRUCK,
    PageText,
    flags_of,
    fold_case,
    name_of,
    read_page_text,
    simplify_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.content.parsed_page import ParsedPage
    from webdata_nb.page.content.parser import Node
    from webdata_nb.page.extract.visible_text import PageText, VisibleText


_MAX_CODE_LENGTH: Final = 40
_MAX_LABEL_LENGTH: Final = 40
_MAX_LABELLED_LENGTH: Final = 120
_MAX_BRAND_LENGTH: Final = 60
_MAX_URL_LENGTH: Final = 2000
_MIN_IN_URL: Final = 4
"""Shorter codes are in most URLs."""
_CODE: Final = re.compile(r"[^\W_][\w./#+-]*")
_MODEL: Final = re.compile(r"[^\W_][\w./#+-]*(?: [\w./-]+){0,3}")
_GTIN: Final = re.compile(r"\d{8}|\d{12,14}")
_NO_CODE: Final = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{1,2}:\d\d|\d[.,]\d|\d{1,2}")
_SEPARATOR: Final = re.compile(
    r"\s*[:\uff1a#\u2116]\s*|\s+(?:n[o°º]\.?|nr\.?|no\.)\s*[:\uff1a]?\s*"
)
_BRACKETS: Final = re.compile(r"[()\[\]〈〉【】<>|]")
_SKU_NAME: Final = re.compile(
    r"(?<![a-z])(?:sku|asin|reference|artikelnummer|articul|referencia|codigo)(?![a-z])"
    r"|(?:product|prod|item|article|element|artikel|catalog(?:ue)?|cat|style|stock)"
    r"-?(?:code|ref(?:erence)?|numbers?|num|no|nr|id|sku|article)(?![a-z])"
)
_MPN_NAME: Final = re.compile(r"(?<![a-z])(?:mpn|(?:part|model)-?(?:numbers?|no|nr))(?![a-z])")
_FIELD_NAMES: Final = word_set(
    "sku asin productid productcode productsku itemid itemno itemnumber articleid articlenumber"
    " artikelnummer pid prodid idproduct productno adno adid listingid"
)
_PROPERTIES: Final = frozenset({"sku", "gtin", "mpn", "brand"})
_MAX_PREFIX_WORDS: Final = 3
_EVIDENCE: Final = {"label": 3.0, "name": 2.0, "field": 1.5}
_IN_URL: Final = 2.0
_FLAG_WEIGHTS: Final = ((ASIDE, 3.0), (OVERLAY, 1.0), (HIDDEN, 0.7), (CHOICE, 0.5))
_PER_TEXT: Final = 0.002
_LOWEST_PLACE: Final = -3.0
_MAX_READINGS: Final = 1000
_MANY: Final = 3
"""More different values in elements of the same names are of a list of products."""
_REPEATED_PLACE: Final = 3.0


@dataclass(frozen=True, slots=True)
class CodeReading:
    """A value that the page labels as a code or brand.

    Attributes
    ----------
    name
        ``sku``, ``gtin``, ``mpn`` or ``brand``.
    value
        The value as written.
    evidence
        ``label`` (a label before it), ``name`` (class or id of its element) or ``field`` (a hidden
        field of a form).
    label
        The label, the name, or the field's name.
    """

    name: str
    value: str
    evidence: str
    label: str


def find_codes(page: PageText, url: str) -> dict[str, CodeReading]:
    """Return the most likely value of each name.

    Parameters
    ----------
    page
        The texts of the page.
    url
        The URL of the page; a code in it is likely the product's own.
    """
    if page.title is None:
        return {}
    # All readings with their scores, and the label and the names of their elements.
    rated: list[tuple[float, str, CodeReading]] = []
    folded_url = unquote(url[:_MAX_URL_LENGTH]).casefold()
    for index, text in enumerate(page.texts):
        if len(text.text) > _MAX_LABELLED_LENGTH:
            continue
        for reading in _readings(page, index, text):
            flags = page.own_flags(text)
            place_score = -_PER_TEXT * abs(index - page.title)
            place_score -= sum(weight for flag, weight in _FLAG_WEIGHTS if flags & flag)
            score = _EVIDENCE[reading.evidence] + max(place_score, _LOWEST_PLACE)
            if score > 0:
                score += _IN_URL * _is_in_url(reading.value, folded_url)
                rated.append((score, f"{reading.label} {text.all_names}", reading))
    for index, control in page.controls:
        field_reading = _field_reading(control)
        if field_reading is not None and _is_in_url(field_reading.value, folded_url):
            score = _EVIDENCE["field"] + _IN_URL - _PER_TEXT * abs(index - page.title)
            rated.append((score, "", field_reading))
    del rated[_MAX_READINGS:]
    counts = Counter(place for place, _ in {(place, read.value) for _, place, read in rated})
    best: dict[str, tuple[float, CodeReading]] = {}
    for score, place, reading in rated:
        rating = score - _REPEATED_PLACE * (counts[place] > _MANY)
        if rating > best.get(reading.name, (0.0,))[0]:
            best[reading.name] = rating, reading
    return {name: reading for name, (_, reading) in best.items()}


def _readings(page: PageText, index: int, text: VisibleText) -> Iterator[CodeReading]:
    """Return what a text says, alone or as the label of the next one."""
    own = _BRACKETS.sub(" ", text.text).strip()
    label, value = _split(own, has_digit=text.has_digit)
    name = _meaning(label) if len(label) <= _MAX_LABEL_LENGTH else ""
    if name and not value and index + 1 < len(page.texts):
        value = _BRACKETS.sub(" ", page.texts[index + 1].text[:_MAX_LABELLED_LENGTH]).strip()
    if name and (valid := _valid_value(name, value)):
        yield CodeReading(name, valid, "label", label)
    elif text.has_digit and not name:
        # The names of the element may say what it contains.
        for kind, pattern in (("sku", _SKU_NAME), ("mpn", _MPN_NAME)):
            valid = _valid_value(kind, value or own)
            match = pattern.search(text.names) if valid else None
            if match is not None:
                yield CodeReading(kind, valid, "name", match[0])


def _split(text: str, *, has_digit: bool) -> tuple[str, str]:
    """Split a text at the first colon or number sign; a known label needs none."""
    match = _SEPARATOR.search(text, 1)
    if match is not None and match.start() <= _MAX_LABEL_LENGTH:
        return text[: match.start()], text[match.end() :].strip()
    head, _, tail = text.rpartition(" ") if has_digit else ("", "", "")
    if tail and len(head) <= _MAX_LABEL_LENGTH and _meaning(head):
        return head, tail
    return text, ""


def _meaning(label: str) -> str:
    """Return the name that a label means; empty for none.

    A label may begin with other words, such as the name of the shop, if the rest has two words.
    """
    rest = fold_case(label).strip(" .:#*-")
    if (name := PROPERTY_OF_LABEL.get(rest)) in _PROPERTIES:
        return name or ""
    for _ in range(_MAX_PREFIX_WORDS):
        rest = rest.partition(" ")[2]
        if " " not in rest:
            return ""
        if (name := PROPERTY_OF_LABEL.get(rest)) in _PROPERTIES - {"brand"}:
            return name or ""
    return ""


def _valid_value(name: str, value: str) -> str:
    """Return a value as a code or brand; empty if it is none."""
    if name == "brand":
        return value if 1 < len(value) <= _MAX_BRAND_LENGTH and "http" not in value else ""
    if name == "gtin":
        digits = value.replace(" ", "").replace("-", "")
        return digits if _GTIN.fullmatch(digits) else ""
    if len(value) > _MAX_CODE_LENGTH or not any(character.isdigit() for character in value):
        return ""
    pattern = _MODEL if name == "mpn" else _CODE
    return value if pattern.fullmatch(value) and not _NO_CODE.fullmatch(value) else ""


def _is_in_url(value: str, url: str) -> bool:
    return len(value) >= _MIN_IN_URL and value.casefold() in url


def _field_reading(control: VisibleText) -> CodeReading | None:
    """Return the code in a hidden field of a form."""
    element = control.element
    if element.tag != "input" or (element.attr("type") or "").lower() != "hidden":
        return None
    value = (element.attr("value") or "")[: 2 * _MAX_CODE_LENGTH].strip()
    for attribute in ("name", "id"):
        name = (element.attr(attribute) or "")[:_MAX_LABEL_LENGTH]
        known = simplify_name(name).replace("-", "") in _FIELD_NAMES
        if known and _valid_value("sku", value):
            return CodeReading("sku", value, "field", name)
    return None


LABELS: Final = "labels"
"""The key of the labels in the formats that `scrape` returns; no request can name it."""
MAX_CANDIDATES: Final = 500
"""Texts with a colon that are looked at."""

_MAX_VALUE_LENGTH: Final = 100
_MAX_VALUE_WORDS: Final = 12
_MAX_PIECES: Final = 12
_MAX_LEVELS: Final = 24
_LABEL: Final = re.compile(r"([^\W\d_][^:\uff1a|]{0,39}?)\s*(?::(?!//)|\uff1a)\s*(.*)")
_PART: Final = re.compile(r"\s+[|\u00b7\u2022\u2013\u2014]\s+")
_INVISIBLE: Final = re.compile("[\u200b-\u200f\u202a-\u202e\u2060\ufeff]")
_SENTENCE: Final = re.compile(r"(?:\S+\s+){5,}\S+[.!?]$")
_OTHER_LABEL: Final = re.compile(r"[^\W\d_][:\uff1a]\s")
_CHOOSER: Final = re.compile(
    r"(?<![a-z])(?:lang(?:uage)?|locale|country|currency|i18n|translations?)s?"
    r"-?(?:switch|select|pick|choos|menu|nav|list|bar|toggle|links?(?![a-z])|dropdown)"
)
_NO_CONTENT: Final = frozenset(
    {"nav", "footer", "aside", "form", "label", "button", "select", "dialog"}
    | {*HEADINGS, "figcaption", "blockquote", "pre", "code", "textarea"}
    | NOT_RENDERED
)
_CONTENT: Final = frozenset({"main", "article"})
_NO_CONTENT_FLAGS: Final = ASIDE | CHOICE | HIDDEN | OVERLAY
_BLOCKS: Final = BLOCKS | {"pre"}
_COLONS: Final = frozenset(":\uff1a")
_SEPARATORS: Final = frozenset("|;\u00b7\u2022\u2013\u2014")
_VALUE_BLOCKS: Final = frozenset({"p", "div", "li"})


def read_labels(page: ParsedPage) -> dict[str, list[str]]:
    """Return the values by their label as it is written.

    A value is its text, and the machine-readable form of a ``time`` in it. A label with several
    values is of parts of the page, such as its teasers, and is left out.
    """
    found: dict[str, tuple[str, list[str]]] = {}
    several: set[str] = set()
    nodes = islice(body_of(page.document).descendants, MAX_NODES)
    with_colon = (
        node
        for node in nodes
        if isinstance(node, Text) and (":" in node.data or "\uff1a" in node.data)
    )
    for text in islice(with_colon, MAX_CANDIDATES):
        for label, values in _labelled_values(text):
            name = normalize_short_name(label)
            if name and found.setdefault(name, (label, values))[1][0] != values[0]:
                several.add(name)
    return dict(named for name, named in found.items() if name not in several)


def _labelled_values(text: Text) -> Iterator[tuple[str, list[str]]]:
    """Return the labels in a text with their values."""
    own, start = _clean(text.data[: 4 * _MAX_VALUE_LENGTH]), cast("Node", text)
    if own[:1] in _COLONS:
        before = element_before(text)
        if before is None or before.tag in _BLOCKS:
            return
        own, start = _clean(before.text[: 2 * _MAX_LABEL_LENGTH]) + own, before
    parts = _PART.split(own)
    for number, part in enumerate(parts):
        match = _LABEL.fullmatch(part)
        if match is None:
            continue
        if (not number and not _begins_line(start)) or not _is_content(text):
            return
        is_last = number == len(parts) - 1
        pieces = _following(text, has_value=bool(match[2])) if is_last else []
        value = collapse_whitespace(" ".join([match[2], *(piece for piece, _ in pieces)]))
        value = _PART.split(value)[0].replace(" ,", ",").strip(" ;|")
        is_short = len(value) <= _MAX_VALUE_LENGTH and value.count(" ") < _MAX_VALUE_WORDS
        is_prose = not is_short or _OTHER_LABEL.search(value) or _SENTENCE.search(value)
        if value and not is_prose:
            times = [machine for _, machine in pieces if machine]
            yield match[1], [value, *times[:1]]


def _clean(text: str) -> str:
    """Collapse white space and drop the marks of writing directions, which some shops add."""
    return collapse_whitespace(_INVISIBLE.sub("", text))


def _begins_line(start: Node) -> bool:
    """Return whether no other text is right before a node in its block or line."""
    node = start
    for _ in range(_MAX_LEVELS):
        before = node.previous_sibling
        while isinstance(before, Text) and not before.data.strip():
            before = before.previous_sibling
        if before is not None:
            return not isinstance(before, Text) or before.data.rstrip()[-1] in _SEPARATORS
        parent = node.parent
        if not isinstance(parent, Element) or parent.tag in _BLOCKS:
            return True
        node = parent
    return False


def _is_content(text: Text) -> bool:
    """Return whether a text belongs to the content of the page."""
    current, in_header = text.parent, False
    for _ in range(_MAX_LEVELS):
        if not isinstance(current, Element) or current.tag == "body":
            return not in_header
        name = name_of(current)
        if current.tag in _NO_CONTENT or (current.tag == "a" and current.attr("href")):
            return False
        if flags_of(current, name) & _NO_CONTENT_FLAGS or _CHOOSER.search(name):
            return False
        if current.tag in _CONTENT:
            return True
        in_header = in_header or current.tag == "header"
        current = current.parent
    return not in_header


def _following(text: Text, *, has_value: bool) -> list[tuple[str, str]]:
    """Return the texts after a label in its line, with the machine-readable times.

    Those are beside the label in its element, else in the elements around it; if the label is alone
    in its block, those of the block beside it.
    """
    pieces: list[tuple[str, str]] = []
    node: Node = text
    for _ in range(_MAX_LEVELS):
        after = node.next_sibling
        while after is not None and len(pieces) <= _MAX_PIECES:
            if isinstance(after, Element) and (after.tag in _BLOCKS or after.tag == "br"):
                return pieces
            pieces += _pieces(after)
            after = after.next_sibling
        parent = node.parent
        if has_value or pieces or not isinstance(parent, Element):
            return pieces
        if parent.tag in _BLOCKS:
            # A block that has only a label may label the next one.
            beside = parent.next_sibling
            while isinstance(beside, Text) and not beside.data.strip():
                beside = beside.next_sibling
            is_value = isinstance(beside, Element) and {parent.tag, beside.tag} <= _VALUE_BLOCKS
            return _pieces(beside) if is_value and beside is not None else []
        node = parent
    return pieces


def _pieces(node: Node) -> list[tuple[str, str]]:
    if isinstance(node, Text):
        data = _clean(node.data)
        return [(data, "")] if data else []
    if not isinstance(node, Element) or node.tag in NOT_RENDERED:
        return []
    if flags_of(node, name_of(node)) & (STRUCK | HIDDEN):
        return []
    data = _clean(node.text)
    times = [node] if node.tag == "time" else node.iter_elements({"time"})
    machine = next((value for time in times if (value := time.attr("datetime"))), "")
    return [(data, machine)] if data else []


VISIBLE: Final = "visible_values"
"""The key of the values in the formats that `scrape` returns; no request can name it."""
VISIBLE_PROPERTIES: Final = frozenset(
    {
        "price",
        "lowprice",
        "highprice",
        "pricecurrency",
        "availability",
        "sku",
        "gtin",
        "mpn",
        "brand",
    }
)
"""The properties that are read, by their normalized names."""

_MAX_SHOWN: Final = 5000
_STRONG_PRICE: Final = 3.2
"""The least score of an amount with a currency in an element named as a price."""
_CODE_WORD: Final = re.compile(r"[^\s:\uff1a()\[\],;|#〈〉【】]{3,40}")


@dataclass(frozen=True, slots=True)
class VisibleValue:
    """A value that a page shows.

    Attributes
    ----------
    value
        A number, a text, or ``InStock`` or ``OutOfStock``.
    text
        The value as shown.
    origin
        Its source, for the provenance: ``visible:label/Item number``.
    strong
        Whether it outweighs a declared value that the page does not show.
    """

    value: Any
    text: str
    origin: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class VisibleValues:
    """The values of a page by normalized property.

    Attributes
    ----------
    values
        The value of each property.
    amounts
        The numbers of all amounts on the page that are not crossed out.
    words
        The words with digits on the page, in lower case.
    currencies
        The codes of symbols of several currencies that the page settles.
    """

    values: dict[str, VisibleValue] = field(default_factory=dict)
    amounts: frozenset[float] = frozenset()
    words: frozenset[str] = frozenset()
    currencies: dict[str, str] = field(default_factory=dict)


NOTHING_VISIBLE: Final = VisibleValues()


def read_visible_values(page: ParsedPage) -> VisibleValues:
    """Read a page before its tree is pruned."""
    names = [name for name in (page.head.meta("og:title"), page.head.title) if name]
    text = read_page_text(page.document, names)
    values: dict[str, VisibleValue] = {}
    currencies = settle_symbols(
        (each.text for each in text.texts),
        host=urlsplit(page.source.final_url).hostname or "",
        languages=[page.head.language, *page.head.metas.get("og:locale", ())[:1]],
    )
    price = find_price(text)
    if price is not None:
        amount, origin = price.amount, "visible:price"
        strong = amount.highest is None and price.score >= _STRONG_PRICE
        values["price"] = VisibleValue(amount.value, price.text, origin, strong)
        if amount.highest is not None:
            values["lowprice"] = values["price"]
            values["highprice"] = VisibleValue(amount.highest, price.text, origin)
        is_ambiguous = amount.symbol in CODES_OF_SYMBOL
        if code := currencies.get(amount.symbol) if is_ambiguous else amount.currency:
            values["pricecurrency"] = VisibleValue(code, code, origin)
    state = find_stock_state(text)
    if state is not None:
        origin = f"visible:{state.evidence}/{state.text}"
        values["availability"] = VisibleValue(state.state, state.text, origin, state.strong)
    for name, read in find_codes(text, page.source.final_url).items():
        origin = f"visible:{read.evidence}/{read.label}"
        strong = read.evidence == "label"
        values[name] = VisibleValue(read.value, read.value, origin, strong)
    amounts: set[float] = set()
    words: set[str] = set()
    for each in text.texts:
        if not each.has_digit or len(words) >= _MAX_SHOWN:
            continue
        is_old = len(each.text) > MAX_AMOUNT_LENGTH or text.own_flags(each) & STRUCK
        shown = None if is_old else parse_amount(each.text)
        if shown is not None:
            amounts.add(float(shown.value))
        words.update(word.casefold() for word in _CODE_WORD.findall(each.text))
    return VisibleValues(values, frozenset(amounts), frozenset(words), currencies)
