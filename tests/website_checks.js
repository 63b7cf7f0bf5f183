// Returns the faults of a page: too wide, words of headers broken, text outside its cell, contrast.
() => {
  const faults = new Set();
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    faults.add(`page: ${root.scrollWidth - root.clientWidth} px too wide`);
  }
  const texts = function* (top) {
    const walker = document.createTreeWalker(top, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode()); ) yield node;
  };
  for (const header of document.querySelectorAll(".md-content th")) {
    for (const node of texts(header)) {
      for (const word of node.data.matchAll(/\S+/g)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
        if (lines.size > 1) faults.add(`header: ${word[0]}`);
      }
    }
  }
  for (const cell of document.querySelectorAll(".md-content td")) {
    if (cell.scrollWidth > cell.clientWidth + 1) faults.add(`cell: ${cell.innerText.slice(0, 40)}`);
  }

  const luminance = (color) => {
    const [red, green, blue] = color.map((value) => {
      const part = value / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const parse = (text) => [...text.match(/[\d.]+/g).map(Number), 1].slice(0, 4);
  const blend = (front, back) => back.map((value, n) => front[n] * front[3] + value * (1 - front[3]));
  const background = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      layers.unshift(parse(getComputedStyle(each).backgroundColor));
      if (layers[0][3] === 1) break;
    }
    return layers.reduce((back, layer) => blend(layer, back), [255, 255, 255]);
  };
  // Controls that appear on hover.
  const hidden = ".headerlink, .md-top, .md-search__form, .md-clipboard, script, style";
  for (const node of texts(document.body)) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.offsetParent || element.closest(hidden)) continue;
    const style = getComputedStyle(element);
    if (style.visibility === "hidden" || style.opacity === "0") continue;
    const back = background(element);
    const [light, dark] = [luminance(blend(parse(style.color), back)), luminance(back)].sort((a, b) => b - a);
    const contrast = (light + 0.05) / (dark + 0.05);
    if (contrast < 4.5) {
      faults.add(`contrast: ${contrast.toFixed(2)} ${element.tagName}.${element.className} ${node.data.trim().slice(0, 20)}`);
    }
  }
  return [...faults];
}
