// Asks for this page again every two seconds and puts in place what has changed of it.
(() => {
  "use strict";
  const pause = 2000, patience = 15000;
  const said = document.getElementById("said");
  const clock = document.getElementById("clock");
  const shown = new Map();
  for (const part of document.querySelectorAll("[data-live]")) shown.set(part.id, part.innerHTML);

  // What has the focus, or is open, stays so although the nodes are new ones.
  const nameOf = (node) => node.id || node.getAttribute("href") || "";
  function put(old, fresh) {
    const within = old.contains(document.activeElement) ? document.activeElement : null;
    const focus = within && nameOf(within.tagName === "SUMMARY" ? within.parentElement : within);
    const open = [...old.querySelectorAll("details[open]")].map((one) => one.id);
    const scrolled = [...old.querySelectorAll(".wide")].map((one) => [one.id, one.scrollLeft]);
    old.replaceChildren(...fresh.childNodes);
    old.className = fresh.className;
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    for (const [id, left] of scrolled) { const one = document.getElementById(id); if (one) one.scrollLeft = left; }
    if (!focus) return;
    const all = [...old.querySelectorAll("a, summary, input, button, [tabindex]")];
    const again = all.find((one) => nameOf(one.tagName === "SUMMARY" ? one.parentElement : one) === focus);
    (again || old.closest("main"))?.focus({ preventScroll: true });
  }

  function stale(text) {
    clock.textContent = text;
    clock.classList.add("stale");
    if (said.textContent !== text) said.textContent = text;
  }

  async function look() {
    try {
      const reply = await fetch(location.pathname, {
        credentials: "same-origin", cache: "no-store", redirect: "error", signal: AbortSignal.timeout(patience),
      });
      if (reply.status === 401) {
        stale("You are signed out: the daemon was started again, or this session was ended. This page is no longer live.");
        return;
      }
      if (!reply.ok) throw new Error(String(reply.status));
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      for (const fresh of page.querySelectorAll("[data-live]")) {
        const old = document.getElementById(fresh.id);
        if (!old || shown.get(fresh.id) === fresh.innerHTML) continue;
        shown.set(fresh.id, fresh.innerHTML);
        put(old, fresh);
      }
      const words = page.getElementById("said").textContent;
      if (said.textContent !== words) said.textContent = words;
      document.title = page.title;
      clock.textContent = page.getElementById("clock").textContent;
      clock.classList.remove("stale");
      if (page.getElementById("clock").dataset.ended !== undefined) return;
    } catch {
      stale("The daemon does not answer. What is shown is what was known last.");
    }
    setTimeout(look, pause);
  }
  setTimeout(look, pause);
})();
