// Loads the page again when the service says that something has changed, and replaces its content.
// The form of the filters stays as it is. Without this script the page works with a reload.
"use strict";
(() => {
  const PAUSE_MS = 2000;
  const RECONNECT_MS = 10000;
  const status = document.getElementById("live");
  let source = null;
  let loading = false;
  let changed = false;

  const say = (text, isBad) => {
    if (status.textContent !== text) status.textContent = text;
    status.classList.toggle("bad", isBad);
  };

  const content = () => document.getElementById("content");

  // Text that is being copied must not be replaced.
  const isSelecting = () => {
    const selection = getSelection();
    return !selection.isCollapsed && content().contains(selection.anchorNode);
  };

  const places = (part) => [...part.querySelectorAll("a[href], [tabindex]")];
  const nameOf = (place) => place.getAttribute("href") ?? place.getAttribute("aria-label");

  const replace = (fresh) => {
    const old = content();
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const alike = (part) => places(part).filter((each) => nameOf(each) === nameOf(focused));
    const position = focused ? alike(old).indexOf(focused) : -1;
    const scrolled = [...old.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    const [x, y] = [scrollX, scrollY];
    old.replaceWith(fresh);
    fresh.querySelectorAll(".scroll").forEach((each, n) => {
      each.scrollLeft = scrolled[n] ?? 0;
    });
    scrollTo(x, y);
    if (focused) (alike(fresh)[position] ?? alike(fresh)[0])?.focus({ preventScroll: true });
  };

  const load = async () => {
    if (loading) {
      changed = true;
      return;
    }
    [loading, changed] = [true, false];
    const began = performance.now();
    try {
      const reply = await fetch(location.href, {
        cache: "no-store",
        signal: AbortSignal.timeout(30000),
      });
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      const fresh = page.getElementById("content");
      if (reply.ok && fresh) {
        if (isSelecting()) changed = true;
        else replace(fresh);
        say("Live", false);
      } else {
        say(`Not renewed: the service answers ${reply.status}`, true);
      }
    } catch {
      say("Not renewed: no connection", true);
    }
    // A large table is loaded less often.
    const took = performance.now() - began;
    setTimeout(() => {
      loading = false;
      if (changed) load();
    }, Math.max(PAUSE_MS, 10 * took));
  };

  const listen = () => {
    source?.close();
    const opened = new EventSource("/operator/events");
    source = opened;
    opened.addEventListener("open", load);
    opened.addEventListener("change", load);
    opened.addEventListener("error", () => {
      say("Not renewed: no connection", true);
      // After an answer with an error, the browser does not try again by itself.
      if (opened.readyState !== EventSource.CLOSED) return;
      setTimeout(() => {
        if (source === opened && !document.hidden) listen();
      }, RECONNECT_MS);
    });
  };

  // On a phone the list of views scrolls.
  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest" });

  // A page that nobody sees needs no stream.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source?.close();
    else listen();
  });
  if (!document.hidden) listen();
})();
