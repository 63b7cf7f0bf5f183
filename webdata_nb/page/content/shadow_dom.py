"""Flattens declarative shadow roots into the tree, as a browser renders them.

A browser renders ``<template shadowrootmode>`` in place of the children of its host, and those
children in its slots. Children without a slot are kept after the shadow root, so no text is lost.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.parser import Element, children_of, group_by_tag, unwrap_all

if TYPE_CHECKING:
    from webdata_nb.page.content.parser import Document, Node

_MODE_ATTRIBUTE: Final = "shadowrootmode"
_MODES: Final = frozenset({"open", "closed"})
_MAX_NESTING: Final = 16
_HOST_TAGS: Final = frozenset(
    {
        *("article", "aside", "blockquote", "body", "div", "footer", "header", "main", "nav", "p"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "section", "span"),
    }
)


def flatten_shadow_roots(document: Document) -> bool:
    """Flatten the shadow roots of a page; return whether it has any."""
    if document.root is None:
        return False
    hosts: set[Element] = set()
    for _ in range(_MAX_NESTING):
        templates = _find_shadow_roots(document.root, hosts)
        if not templates:
            break
        for template, host in templates:
            _flatten(template, host)
    return bool(hosts)


def _find_shadow_roots(root: Element, hosts: set[Element]) -> list[tuple[Element, Element]]:
    """Return the first shadow root of each host that is not inside a template."""
    shadow_roots: list[tuple[Element, Element]] = []
    for template in root.iter_elements({"template"}):
        host = template.parent
        if (template.attr(_MODE_ATTRIBUTE) or "").lower() not in _MODES:
            continue
        if isinstance(host, Element) and host not in hosts and _may_host(host):
            hosts.add(host)
            shadow_roots.append((template, host))
    return shadow_roots


def _may_host(element: Element) -> bool:
    return element.tag in _HOST_TAGS or "-" in element.tag


def _flatten(template: Element, host: Element) -> None:
    """Replace a template by its content and its slots by the children of the host."""
    children_by_slot = _group_by_slot(template, host)
    for content in children_of(template):
        slots = group_by_tag(content, {"slot"}).get("slot", [])
        for slot in slots:
            _fill(slot, children_by_slot.pop(slot.attr("name") or "", []))
        for child in children_of(content):
            template.insert_before(child)
    template.decompose()


def _group_by_slot(template: Element, host: Element) -> dict[str, list[Node]]:
    children_by_slot: defaultdict[str, list[Node]] = defaultdict(list)
    for child in children_of(host):
        if child != template:
            name = child.attr("slot") if isinstance(child, Element) else None
            children_by_slot[name or ""].append(child)
    return children_by_slot


def _fill(slot: Element, children: list[Node]) -> None:
    """Replace a slot by children of the host, or without any by its default content."""
    if not any(isinstance(child, Element) or child.text.strip() for child in children):
        return unwrap_all([slot])
    for child in children:
        slot.insert_before(child)
    return slot.decompose()
