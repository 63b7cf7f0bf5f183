"""Extraction without a model on labelled pages: what the data says is filled, nothing is invented.

What a page's data says is read here a second time, by plain paths into schema.org's vocabulary and
without any of the extractor's code, so that both must agree.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from html import unescape
from pathlib import Path
from typing import Any, Final

import pytest

from tests.requirements import require
from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.extract.results import Extraction
from webdata_nb.page.extract.structured import extract_structured
from webdata_nb.page.scrape.page import scrape

pytestmark = pytest.mark.slow

FLOORS: Final = json.loads((Path(__file__).parent / "floors.json").read_text())[
    "structured_extraction"
]

DAYS: Final = (
    *("%b %d, %Y", "%B %d, %Y", "%d %B %Y", "%m/%d/%Y"),
    *("%d/%m/%Y", "%d.%m.%Y", "%Y/%m/%d", "%Y%m%d"),
)
TEXT: Final = {"type": "string"}
NUMBER: Final = {"type": "number"}
COUNT: Final = {"type": "integer"}
# Kind of thing: endings of its types, and for each field its schema and the paths it may have.
KINDS: Final[dict[str, tuple[tuple[str, ...], dict[str, tuple[dict[str, Any], str]]]]] = {
    "Product": (
        ("product", "productgroup"),
        {
            "product_name": (TEXT, "name"),
            "description": (TEXT, "description"),
            "sku": (TEXT, "sku"),
            "brand": (TEXT, "brand.name brand"),
            "image_url": (TEXT, "image image.url"),
            "price": (NUMBER, "offers.price offers.lowPrice offers.priceSpecification.price"),
            "currency": (
                TEXT,
                "offers.priceCurrency offers.priceSpecification.priceCurrency",
            ),
            "inStock": ({"type": "boolean"}, "offers.availability"),
            "rating": (NUMBER, "aggregateRating.ratingValue"),
            "review_count": (COUNT, "aggregateRating.reviewCount aggregateRating.ratingCount"),
            "color": (TEXT, "color"),
        },
    ),
    "Article": (
        ("article", "blogposting", "discussionforumposting"),
        {
            "title": (TEXT, "headline name"),
            "author": (TEXT, "author.name author"),
            "authors": ({"type": "array", "items": TEXT}, "author.name author"),
            "author_url": (TEXT, "author.url"),
            "published": ({"type": "string", "format": "date"}, "datePublished"),
            "lastModified": (TEXT, "dateModified"),
            "publisher": ({"type": "object", "properties": {"name": TEXT}}, "publisher.name"),
            "images": ({"type": "array", "items": TEXT}, "image image.url"),
            "section": (TEXT, "articleSection"),
            "word-count": (COUNT, "wordCount"),
            "tags": ({"type": "array", "items": TEXT}, "keywords"),
            "language": (TEXT, "inLanguage"),
        },
    ),
    "Recipe": (
        ("recipe",),
        {
            "recipe_name": (TEXT, "name"),
            "ingredients": ({"type": "array", "items": TEXT}, "recipeIngredient"),
            "servings": (TEXT, "recipeYield"),
        },
    ),
    "Event": (
        ("event",),
        {
            "event_name": (TEXT, "name"),
            "starts_at": (TEXT, "startDate"),
            "venue": (TEXT, "location.name"),
        },
    ),
}


@dataclass(frozen=True, slots=True)
class Page:
    key: str
    html: str
    structured: Mapping[str, Any]
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of thing on one page: what its data says, and what was extracted."""

    page: Page
    kind: str
    declared: dict[str, list[Any]]
    found: Extraction


def _local(name: str) -> str:
    return re.split(r"[/#:]", name.rstrip("/#"))[-1]


def _nodes(structured: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Give the nodes that stand by themselves, as plain dicts with "@type"."""
    for block in structured["json_ld"]:
        for each in block if isinstance(block, list) else [block]:
            if isinstance(each, dict):
                graph = each.get("@graph", [each])
                yield from (n for n in (graph if isinstance(graph, list) else [graph]) if n)
    yield from map(_plain, structured["microdata"])


def _plain(item: dict[str, Any]) -> dict[str, Any]:
    properties = {
        _local(name): [_plain(v) if isinstance(v, dict) else v for v in values]
        for name, values in item["properties"].items()
    }
    return {"@type": (item["type"] or "").split(), "@id": item["id"], **properties}


def _types(node: dict[str, Any]) -> list[str]:
    kinds = node.get("@type") or []
    return [_local(each).lower() for each in (kinds if isinstance(kinds, list) else [kinds])]


def _at(node: Any, path: list[str], ids: Mapping[str, Any]) -> list[Any]:
    if isinstance(node, list):
        return [value for each in node for value in _at(each, path, ids)]
    if isinstance(node, dict) and set(node) == {"@id"}:
        node = ids.get(node["@id"], node)
    if not path:
        return [] if isinstance(node, dict) or node in (None, "") else [node]
    return _at(node.get(path[0]), path[1:], ids) if isinstance(node, dict) else []


def _declared_values(structured: Mapping[str, Any], kind: str) -> dict[str, list[Any]]:
    endings, fields = KINDS[kind]
    nodes = [node for node in _nodes(structured) if isinstance(node, dict)]
    ids = {node["@id"]: node for node in nodes if isinstance(node.get("@id"), str)}
    node = next((n for n in nodes if any(t.endswith(endings) for t in _types(n))), None)
    declared: dict[str, list[Any]] = {}
    for name, (_, paths) in fields.items() if node is not None else ():
        for path in paths.split():
            declared[name] = declared.get(name, []) + _at(node, path.split("."), ids)
    return {
        name: values for name, values in declared.items() if any(str(v).strip() for v in values)
    }


def _pages() -> Iterator[Page]:
    with tarfile.open(require("corpora") / "content" / "wcxb_dev.tar.gz") as tar:
        files = {m.name.split("/", 1)[1]: tar.extractfile(m) for m in tar if m.isfile()}
        bodies = {name: file.read() for name, file in files.items() if file is not None}
    options = ConversionOptions(formats=("structured_data",))
    for key, row in json.loads(bodies.pop("truth.json")).items():
        body = bodies[f"pages/{key}.html"]
        source = FetchedResponse(
            row["url"], row["url"], 200, "text/html", body, (), datetime.now(UTC)
        )
        made = scrape(source, options, outlinks=False)
        html = body.decode("utf-8", "replace")
        yield Page(key, html, made.formats["structured_data"], made.metadata)


def _schema(kind: str) -> dict[str, Any]:
    fields = {name: schema for name, (schema, _) in KINDS[kind][1].items()}
    return {"title": kind, "type": "object", "properties": fields}


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    found = []
    for page in _pages():
        for kind in KINDS:
            if declared := _declared_values(page.structured, kind):
                made = extract_structured(
                    page.structured, schema=_schema(kind), metadata=page.metadata
                )
                found.append(Case(page, kind, declared, made))
    return found


def _unfit(name: str, values: list[Any]) -> bool:
    """Return whether a page's value cannot be of the type asked for, by a look at it alone."""
    if name == "inStock":
        return not re.search(r"(In|OutOf)Stock|OnlineOnly|LimitedAvailability", str(values[0]))
    return False


def test_what_the_data_says_is_filled(cases: list[Case]) -> None:
    filled, gaps = 0, []
    for case in cases:
        for name, values in case.declared.items():
            if case.found.data[name] is not None:
                filled += 1
            elif not _unfit(name, values):
                gaps.append((case.page.key, case.kind, name, values[:2]))
    assert len(cases) >= FLOORS["pages"]
    assert filled / (filled + len(gaps)) >= FLOORS["filled"], gaps


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)
    elif value is not None:
        yield value


def _folded(text: str) -> str:
    return " ".join(unescape(unescape(text)).split())


def _written(value: Any) -> set[str]:
    if re.fullmatch(r"\d{4}-\d\d-\d\d", str(value)):
        day = date.fromisoformat(value)
        return {f"{day:{form}}" for form in DAYS} | {value, f"{day.day} {day:%b %Y}"}
    if isinstance(value, int | float):
        return {str(value), f"{value:.2f}", f"{value:.1f}", f"{value:g}", f"{value:,}"}
    return {_folded(value)}


def _on_page(value: Any, page: Page, whole: str) -> bool:
    if any(each in whole for each in _written(value)):
        return True
    # The parser resolves microdata's URLs: then the page has the relative one.
    path = re.sub(r"^https?://[^/]+", "", str(value))
    return path != value and path.lstrip("/") in whole and page.metadata["final_url"] != value


def test_no_value_is_missing_from_the_page(cases: list[Case]) -> None:
    invented = []
    for case in cases:
        decoded = json.dumps(case.page.structured["json_ld"], ensure_ascii=False)
        unquoted = decoded.replace('\\"', '"').replace("\\n", " ").replace("\\r", " ")
        whole = _folded(case.page.html) + _folded(unquoted.replace("\\t", " "))
        invented += [
            (case.page.key, name, value)
            for name, found in case.found.data.items()
            for value in _leaves(found)
            if not isinstance(value, bool) and not _on_page(value, case.page, whole)
        ]
    assert not invented


def test_every_value_says_where_it_is_from(cases: list[Case]) -> None:
    for case in cases:
        for name, value in case.found.data.items():
            below = [at for at in case.found.provenance if at.split("/")[1] == name]
            assert bool(below) == (value is not None), (case.page.key, name)


def test_a_truth_value_is_what_the_data_says(cases: list[Case]) -> None:
    judged = [
        (case.found.data["inStock"], str(case.declared["inStock"]))
        for case in cases
        if case.found.data.get("inStock") is not None and "inStock" in case.declared
    ]
    assert judged
    assert all(
        ("OutOfStock" not in declared) or not value
        for value, declared in judged
        if "," not in declared
    )


def _is_declared(value: Any, declared: list[Any]) -> bool:
    texts = {_folded(str(each)) for each in declared}
    if isinstance(value, str):
        return any(each in text for text in texts for each in _written(value))
    numbers = {float(t) for t in texts if re.fullmatch(r"\d+(\.\d+)?", t)}
    return not numbers or value in numbers


def test_scalars_agree_with_the_data(cases: list[Case]) -> None:
    agree, differ = 0, []
    for case in cases:
        for name, declared in case.declared.items():
            value = case.found.data[name]
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                continue
            if _is_declared(value, declared):
                agree += 1
            else:
                differ.append((case.page.key, case.kind, name, value, declared[:2]))
    assert agree / (agree + len(differ)) >= FLOORS["agree"], differ
