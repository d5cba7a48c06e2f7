// A page stays as it is on the server: at each tick it asks for itself again, and what differs is
// changed in place, so that focus, scrolling and what is open stay.
//
//   data-keep      an element with an id that is left alone: a form that is filled in, a chart
//   data-follow    a form whose fields go into the address as they change
//
// A page that nobody sees does not listen. When the broker is gone, the banner says so, and the page
// goes on by itself when it is back.
"use strict";
window.penstock = (() => {
  const TICK_MS = 2000, ALONE_MS = 5000, RETRY_MS = 1000;
  const root = document.documentElement;
  const $ = (selector, within = document) => within.querySelector(selector);
  const page = () => document.getElementById("page");
  const token = $('meta[name="penstock-token"]').content;
  const node = $('meta[name="penstock-node"]').content;
  let source = null, alone = null, paused = false, asking = false, again = false, goneSince = 0;

  // The page.

  Object.assign(Idiomorph.defaults, { ignoreActiveValue: true });
  Object.assign(Idiomorph.defaults.callbacks, {
    beforeNodeMorphed: (old) => !(old instanceof Element && old.id && "keep" in old.dataset),
    beforeAttributeUpdated: (name, element) =>
      !(name === "open" && (element.tagName === "DETAILS" || element.tagName === "DIALOG")),
  });

  async function refresh() {
    if (asking) { again = true; return; }
    asking = true;
    const address = location.pathname + location.search;
    try {
      const answer = await fetch(address, { headers: { "x-penstock-fragment": "1" } });
      const text = await answer.text();
      if (address === location.pathname + location.search && !following) show(text);
    } catch {
      gone();
    } finally {
      asking = false;
      if (again) { again = false; refresh(); }
    }
  }

  function show(text) {
    const wanted = new DOMParser().parseFromString(text, "text/html").getElementById("page");
    if (!wanted) return;
    Idiomorph.morph(page(), wanted, { morphStyle: "outerHTML" });
    document.title = title();
    document.dispatchEvent(new CustomEvent("penstock:shown"));
  }

  let firing = 0;
  const title = () => `${firing ? `(${firing}) ` : ""}${page().dataset.title} · Penstock`;

  // The address holds what was chosen. What has been typed and is not there yet would be lost if the
  // page changed now.

  let following = 0;
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-follow]");
    if (!form) return;
    clearTimeout(following);
    following = setTimeout(() => { following = 0; follow(form); }, event.target.type === "search" ? 180 : 0);
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-follow]")) return;
    event.preventDefault();
    follow(event.target);
  });

  function follow(form) {
    const query = new URLSearchParams(location.search);
    query.delete("page");
    for (const field of form.elements) if (field.name) query.delete(field.name);
    for (const [name, value] of new FormData(form)) if (value) query.append(name, value);
    const text = query.toString();
    history.replaceState(null, "", location.pathname + (text ? "?" + text : ""));
    refresh();
  }

  // The stream.

  function listen() {
    if (source || document.hidden) return;
    source = new EventSource("/live");
    source.addEventListener("open", back);
    source.addEventListener("tick", (event) => beat(JSON.parse(event.data)));
    source.addEventListener("end", () => { gone("It is stopping."); reopen(); });
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) { askAlone(); reopen(); }
      else gone();
    });
  }

  function reopen() {
    hush();
    setTimeout(listen, RETRY_MS + Math.random() * RETRY_MS);
  }

  function hush() {
    if (source) source.close();
    source = null;
  }

  // Not let in, or not there: then the page asks for itself from time to time.
  function askAlone() {
    if (!alone) alone = setInterval(() => { if (!document.hidden && !paused) refresh(); }, ALONE_MS);
    refresh();
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) hush();
    else { listen(); if (!paused) refresh(); }
  });

  function beat(told) {
    back();
    firing = Object.values(told.alerts).reduce((sum, count) => sum + count, 0);
    const count = $("[data-alert-count]");
    count.hidden = !firing;
    count.textContent = firing;
    count.classList.toggle("critical", told.alerts.critical > 0);
    banner(told.problems.length ? { head: "Attention.", text: sentence(told.problems), tone: "warning" } : null);
    for (const line of told.lines) say(sentence([line]));
    document.title = title();
    if (!paused) {
      refresh();
      document.dispatchEvent(new CustomEvent("penstock:tick"));
    }
  }

  const sentence = (parts) => parts.map((one) => one.charAt(0).toUpperCase() + one.slice(1)).join(". ") + ".";

  function gone(text) {
    goneSince ||= Date.now();
    const seconds = Math.round((Date.now() - goneSince) / 1000);
    lamp("gone");
    root.dataset.gone = "";
    banner({
      head: node ? `Node ${node} does not answer.` : "The broker does not answer.",
      text: (text || "What you see is old.") + ` Trying again${seconds > 2 ? `, for ${seconds} s now` : ""} …`,
      tone: "critical", elsewhere: true,
    });
    if (!alone) alone = setInterval(() => { if (goneSince) refresh(); }, TICK_MS);
  }

  function back() {
    if (goneSince) say(`It is back, after ${Math.max(1, Math.round((Date.now() - goneSince) / 1000))} s.`);
    goneSince = 0;
    delete root.dataset.gone;
    clearInterval(alone);
    alone = null;
    lamp(paused ? "paused" : "live");
  }

  function lamp(state) {
    $("[data-live]").dataset.live = state;
    $("[data-live-word]").textContent = { live: "Live", paused: "Held", gone: "Gone" }[state];
  }

  function banner(what) {
    const element = document.getElementById("banner");
    element.hidden = !what;
    if (!what) return;
    element.className = `banner ${what.tone}`;
    $("[data-banner-head]").textContent = what.head;
    $("[data-banner-text]").textContent = what.text;
    const others = [...document.querySelectorAll("[data-elsewhere]")];
    for (const link of others) link.href = new URL(location.pathname + location.search, link.href).href;
    $("[data-banner-elsewhere]").hidden = !what.elsewhere || !others.length;
  }

  function say(text, tone = "") {
    const line = document.createElement("p");
    line.className = `toast ${tone}`;
    line.textContent = text;
    document.getElementById("toasts").append(line);
    setTimeout(() => line.remove(), tone === "bad" ? 12000 : 6000);
  }

  // Switches.

  function hold() {
    paused = !paused;
    $("[data-pause]").setAttribute("aria-pressed", paused);
    lamp(paused ? "paused" : "live");
    if (!paused) refresh();
  }

  function switchTheme() {
    const dark = getComputedStyle(root).colorScheme === "dark" ||
      (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("penstock-theme", root.dataset.theme); } catch { /* Not kept, then. */ }
    document.dispatchEvent(new CustomEvent("penstock:theme"));
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    document.dispatchEvent(new CustomEvent("penstock:theme")));

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-pause]")) hold();
    if (event.target.closest("[data-theme-switch]")) switchTheme();
  });

  listen();
  return { refresh, say, hold, switchTheme, token };
})();
