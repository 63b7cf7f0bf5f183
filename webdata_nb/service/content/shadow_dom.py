"""Declarative shadow roots, put where a browser shows them.

A page may bring its text in ``<template shadowrootmode>``: a browser shows it in the place of what
its host holds, and the host's own children where a slot asks for them. Here the template gives
way to what it holds. A child that no slot asks for stays behind it: nothing of a page is lost.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from webdata_nb.service.content.parser import Element, children_of, group_by_tag, unwrap_all

if TYPE_CHECKING:
    from webdata_nb.service.content.parser import Document, Node

_MARK: Final = "shadowrootmode"
_MODES: Final = frozenset({"open", "closed"})
_DEEPEST: Final = 16  # shadow roots within shadow roots
_HOSTS: Final = frozenset(
    {
        *("article", "aside", "blockquote", "body", "div", "footer", "header", "main", "nav", "p"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "section", "span"),
    }
)


def flatten_shadow_roots(document: Document) -> bool:
    """Put the shadow roots of a page where they are shown; tell whether it has any."""
    if document.root is None:
        return False
    hosts: set[Element] = set()
    for _ in range(_DEEPEST):
        found = _templates(document.root, hosts)
        if not found:
            break
        for template, host in found:
            _show(template, host)
    return bool(hosts)


def _templates(root: Element, hosts: set[Element]) -> list[tuple[Element, Element]]:
    """Return the shadow roots that are in the tree, with their hosts; a host has one, its first."""
    found: list[tuple[Element, Element]] = []
    for template in root.iter_elements({"template"}):
        host = template.parent
        if (template.attr(_MARK) or "").lower() not in _MODES:
            continue
        if isinstance(host, Element) and host not in hosts and _may_host(host):
            hosts.add(host)
            found.append((template, host))
    return found


def _may_host(element: Element) -> bool:
    return element.tag in _HOSTS or "-" in element.tag


def _show(template: Element, host: Element) -> None:
    """Put what a template holds in its place, and the host's children in its slots."""
    held = _by_slot(template, host)
    for content in children_of(template):
        slots = group_by_tag(content, {"slot"}).get("slot", [])
        for slot in slots:
            _fill(slot, held.pop(slot.attr("name") or "", []))
        for each in children_of(content):
            template.insert_before(each)
    template.decompose()


def _by_slot(template: Element, host: Element) -> dict[str, list[Node]]:
    held: defaultdict[str, list[Node]] = defaultdict(list)
    for child in children_of(host):
        if child != template:
            name = child.attr("slot") if isinstance(child, Element) else None
            held[name or ""].append(child)
    return held


def _fill(slot: Element, given: list[Node]) -> None:
    """Put the host's children in a slot's place; without any, what the slot itself holds."""
    if not any(isinstance(each, Element) or each.text.strip() for each in given):
        return unwrap_all([slot])
    for each in given:
        slot.insert_before(each)
    return slot.decompose()
