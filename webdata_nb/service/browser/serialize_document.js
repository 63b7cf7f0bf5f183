(() => {
  const roots = [];
  const collect = parent => {
    for (const element of parent.querySelectorAll("*"))
      if (element.shadowRoot) { roots.push(element.shadowRoot); collect(element.shadowRoot); }
  };
  const serialize = top => {
    if (document.contentType !== "text/html" || !top.getHTML) return top.outerHTML;
    collect(document);
    if (!roots.length) return top.outerHTML;
    const [open, close] = top.cloneNode(false).outerHTML.split(/(?=<\/html>$)/i);
    return open + top.getHTML({shadowRoots: roots}) + close;
  };
  const html = document.documentElement ? serialize(document.documentElement) : "";
  const type = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : "";
  if (html.length > %d) return {chars: html.length};
  return {html: type + html, type: document.contentType, url: location.href};
})()
