"""Checks a page for broken words, texts outside their boxes, and pale texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import Locator

LEAST_CONTRAST: Final = 4.5

_CHECK: Final = """
(root, least) => {
  const problems = [];
  const note = (rule, text, more) => problems.push(`${rule}: ${text.slice(0, 60)} ${more}`);
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map(n => top[n] * top[3] + below[n] * (1 - top[3]));
  const background = element => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const colour = rgba(getComputedStyle(each).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] >= 0.99) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const opacity = element => {
    let product = 1;
    for (let each = element; each; each = each.parentElement)
      product *= parseFloat(getComputedStyle(each).opacity);
    return product;
  };
  const luminance = colour => {
    const [r, g, b] = colour.map(each => each / 255).map(
      each => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = element => {
    const below = background(element);
    const colour = rgba(getComputedStyle(element).color);
    const top = over([...colour.slice(0, 3), colour[3] * opacity(element)], below);
    const [pale, dark] = [luminance(top), luminance(below)].sort((a, b) => b - a);
    return (pale + 0.05) / (dark + 0.05);
  };
  const clips = style => ['hidden', 'auto', 'scroll', 'clip'].some(
    each => style.overflowX === each || style.overflowY === each);
  while (texts.nextNode()) {
    const node = texts.currentNode, element = node.parentElement;
    const text = node.textContent.trim();
    if (!text || ['SCRIPT', 'STYLE', 'TITLE'].includes(element.tagName)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    if (!range.getClientRects().length) continue;  // in a closed fold
    for (const word of node.textContent.matchAll(/\\S+/g)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map(each => Math.round(each.top)));
      const isHeader = element.closest('th') !== null;
      // Words of scripts without spaces break anywhere.
      const hasSpaces = !/[\\u2e80-\\u9fff\\uac00-\\ud7af\\uff00-\\uffef]/.test(word[0]);
      if (lines.size > 1 && hasSpaces && !element.closest('pre')  // text of 80 columns
          && (isHeader || (word[0].length <= 16 && !/[-\\/_.\\\\]/.test(word[0]))))
        note('broken word', word[0], `in ${element.tagName}`);
    }
    range.selectNodeContents(node);
    for (let box = element; box !== root.parentElement; box = box.parentElement) {
      const style = getComputedStyle(box);
      if (clips(style)) break;
      if (style.display === 'inline' || style.display === 'contents') continue;
      const [inner, outer] = [range.getBoundingClientRect(), box.getBoundingClientRect()];
      if (inner.right > outer.right + 1 || inner.left < outer.left - 1
          || inner.bottom > outer.bottom + 3)
        note('outside its box', text, `${inner.right} > ${outer.right} in ${box.tagName}`);
    }
    const found = contrast(element);
    if (found < least) note('pale', text, found.toFixed(2));
  }
  return problems;
}
"""


def problems(output: Locator) -> list[str]:
    """Return what is wrong with an element and all that is in it."""
    found: list[str] = output.evaluate(f"(root) => ({_CHECK})(root, {LEAST_CONTRAST})")
    return found
