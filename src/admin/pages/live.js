// Keeps the content of a live page fresh: loads the page every two seconds and replaces its content. The page works without it.
"use strict";
(() => {
  const main = document.querySelector("main[data-live]");
  const note = document.getElementById("live");
  if (!main || !note) return;
  let failures = 0;
  let text = "";
  const say = (next) => { if (next !== text) { text = next; note.textContent = next; } };
  const isBusy = () => main.querySelector("details[open]") || main.querySelector("input:focus, select:focus, button:focus");
  const load = async () => {
    if (!document.hidden && !isBusy()) {
      try {
        const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
        if (answer.redirected || answer.status === 401) { location.reload(); return; }
        if (!answer.ok) throw new Error(String(answer.status));
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.querySelector("main[data-live]");
        if (fresh && !isBusy()) {
          const focus = document.activeElement && document.activeElement.getAttribute("href");
          main.innerHTML = fresh.innerHTML;
          if (focus) { const same = main.querySelector(`a[href="${CSS.escape(focus)}"]`); if (same) same.focus({ preventScroll: true }); }
        }
        failures = 0;
        say("");
      } catch {
        failures += 1;
        say("The service does not answer. Trying again.");
      }
    }
    setTimeout(load, Math.min(2000 * (failures + 1), 10000));
  };
  setTimeout(load, 2000);
})();
