// Keeps the content of a live page fresh by server-sent events. The page works without this script.
"use strict";
(() => {
  const main = document.querySelector("main[data-events]");
  const note = document.getElementById("live");
  const pulse = document.getElementById("pulse");
  if (!main || !note || !pulse) return;

  // The note is a live region. It changes only if its text does, so that a screen reader is not disturbed. No text: all is well.
  const say = (text) => {
    if (note.textContent !== text) note.textContent = text;
    pulse.textContent = text ? "not live" : "live";
    pulse.classList.toggle("still", text !== "");
  };

  // The time of the content. A note has the time and not its age, because one that grows would be read aloud again and again.
  let known = new Date();
  const warn = (problem) => say(`${problem} The page shows what was known at ${known.toTimeString().slice(0, 8)}.`);

  // The id of a node, or an empty text. `form.id` is not the form's id if the form has a field of the name "id".
  const idOf = (node) => (node.nodeType === Node.ELEMENT_NODE && node.getAttribute("id")) || "";

  // Rows in use: one has the focus or an open menu. They keep their places, because another row in the place of one would get the next
  // key or click, and because a row that moves loses the focus.
  const IN_USE = "tbody:is(:focus-within, :has(details[open]))";
  let hasKeptPlaces = false;
  const keepPlaces = (old, fresh) => {
    hasKeptPlaces = true;
    const rows = new Map([...fresh.children].filter(idOf).map((row) => [idOf(row), row]));
    const kept = [...old.children].map((row) => rows.get(idOf(row))).filter(Boolean);
    fresh.prepend(...kept);
  };

  // Makes `old` equal to `fresh` and changes only what differs. So focus, selected text, scroll positions and open menus stay. Rows
  // keep their identity by their id. Whether a menu is open, and what was typed, is not in the attributes.
  const morph = (old, fresh) => {
    for (const { name } of [...old.attributes]) {
      if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    if (old.matches(IN_USE)) keepPlaces(old, fresh);
    const ids = new Set([...fresh.children].map(idOf));
    for (const child of [...old.children]) {
      if (!ids.has(idOf(child))) child.remove();
    }
    let place = old.firstChild;
    for (const next of [...fresh.childNodes]) {
      const id = idOf(next);
      const isElsewhere = id && place && idOf(place) !== id;
      const known = isElsewhere && [...old.children].find((child) => idOf(child) === id);
      if (known) {
        old.insertBefore(known, place);
        place = known;
      }
      const isSame = place && place.nodeType === next.nodeType && place.nodeName === next.nodeName && idOf(place) === id;
      if (!isSame) {
        old.insertBefore(next, place);
        continue;
      }
      const { nextSibling } = place;
      if (place.nodeType === Node.ELEMENT_NODE) morph(place, next);
      else if (place.data !== next.data) place.data = next.data;
      place = nextSibling;
    }
    while (place) {
      const { nextSibling } = place;
      place.remove();
      place = nextSibling;
    }
  };

  const parse = (html) => {
    const parsed = document.createElement("template");
    parsed.innerHTML = html;
    return parsed.content;
  };

  const show = (html) => {
    const copy = main.cloneNode(false);
    copy.append(parse(html));
    hasKeptPlaces = false;
    morph(main, copy);
  };

  // Shows the rows that have changed. If rows have kept their places and none is in use any more, the events begin again, because the
  // first one has the whole page in its order.
  const showRows = (html) => {
    if (hasKeptPlaces && !main.querySelector(IN_USE)) { open(); return; }
    for (const row of [...parse(html).children]) {
      const old = document.getElementById(idOf(row));
      if (!old) { open(); return; }
      morph(old, row);
    }
  };

  const LATE = 10000;
  const REFUSED_PAUSE = 15000;
  let source;
  let late;
  const watch = () => {
    clearTimeout(late);
    late = setTimeout(() => warn("No news."), LATE);
  };

  const close = () => {
    clearTimeout(late);
    if (source) source.close();
    source = undefined;
    // Until the next event nothing is known about the content.
    if (pulse.textContent === "live") pulse.textContent = "";
  };

  const open = () => {
    close();
    source = new EventSource(`${main.dataset.events}&rows`);
    watch();
    const shown = () => { known = new Date(); say(""); watch(); };
    source.onmessage = (event) => { show(event.data); shown(); };
    source.addEventListener("rows", (event) => { showRows(event.data); shown(); });
    source.addEventListener("problem", (event) => { warn(`Not refreshed: ${event.data}.`); watch(); });
    source.onerror = () => {
      if (source && source.readyState === EventSource.CLOSED) explain();
      else { clearTimeout(late); warn("The broker does not answer. Trying again."); }
    };
  };

  // The browser does not tell why the service has refused the events, so this asks again. A login that has ended leads to its page.
  const explain = async () => {
    close();
    const abort = new AbortController();
    try {
      const answer = await fetch(main.dataset.events, { signal: abort.signal, cache: "no-store" });
      if (answer.redirected) { location.reload(); return; }
      if (!answer.ok) {
        const text = await answer.text();
        warn(answer.headers.get("content-type").startsWith("text/plain") ? text : "The broker refuses to keep this page fresh. Load it again.");
      }
    } catch {
      warn("The broker does not answer. Trying again.");
    }
    abort.abort();
    setTimeout(() => { if (!document.hidden) open(); }, REFUSED_PAUSE);
  };

  // A page that nobody sees is not kept fresh. A browser opens few connections to one server.
  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else open(); });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => { if (event.persisted) open(); });
  if (!document.hidden) open();
})();
