// Search while one types, and the keys. `/` goes to the search, `g` and a letter to a page.
"use strict";
{
  const { refresh, hold, switchTheme } = window.penstock;
  const field = document.getElementById("search");
  const list = document.getElementById("search-results");
  let waiting = 0, asked = 0, chosen = -1, going = 0;

  async function look() {
    const text = field.value.trim();
    const number = ++asked;
    if (!text) { close(); return; }
    try {
      const answer = await fetch(`/search?format=json&q=${encodeURIComponent(text)}`);
      const { results } = await answer.json();
      if (number === asked && document.activeElement === field) show(results);
    } catch { close(); }
  }

  function show(results) {
    chosen = results.length ? 0 : -1;
    list.replaceChildren(...results.map((one, place) => {
      const line = document.createElement("li");
      line.id = `found-${place}`;
      line.role = "option";
      line.dataset.href = one.href;
      const name = document.createElement("span");
      name.textContent = one.name;
      const kind = document.createElement("small");
      kind.textContent = one.kind;
      line.append(name, kind);
      return line;
    }));
    if (!results.length) {
      const line = document.createElement("li");
      line.className = "soft";
      line.textContent = "Nothing of that name";
      list.append(line);
    }
    list.hidden = false;
    field.setAttribute("aria-expanded", "true");
    mark();
  }

  function mark() {
    [...list.children].forEach((line, place) => line.setAttribute("aria-selected", place === chosen));
    if (chosen >= 0) field.setAttribute("aria-activedescendant", `found-${chosen}`);
    else field.removeAttribute("aria-activedescendant");
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  }

  function close() {
    list.hidden = true;
    chosen = -1;
    field.setAttribute("aria-expanded", "false");
  }

  field.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(look, 120); });
  field.addEventListener("blur", () => setTimeout(close, 150));
  field.addEventListener("keydown", (event) => {
    const count = list.querySelectorAll("[data-href]").length;
    if (event.key === "Escape") { close(); field.blur(); }
    else if (event.key === "ArrowDown" && count) { event.preventDefault(); chosen = (chosen + 1) % count; mark(); }
    else if (event.key === "ArrowUp" && count) { event.preventDefault(); chosen = (chosen + count - 1) % count; mark(); }
    else if (event.key === "Enter" && chosen >= 0 && !list.hidden) {
      event.preventDefault();
      location.assign(list.children[chosen].dataset.href);
    }
  });
  list.addEventListener("mousedown", (event) => {
    const line = event.target.closest("[data-href]");
    if (line) location.assign(line.dataset.href);
  });

  // In a narrow window, where one is may be out of sight.
  document.querySelector(".places [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  const keys = document.getElementById("keys");
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable], dialog[open]")) return;
    const soon = Date.now() - going < 1200;
    going = 0;
    if (soon) {
      const place = document.querySelector(`.places a[data-key="${CSS.escape(event.key)}"]`);
      if (place) { event.preventDefault(); location.assign(place.href); }
      return;
    }
    const does = {
      "/": () => { field.focus(); field.select(); },
      "?": () => keys.showModal(),
      g: () => { going = Date.now(); },
      p: hold, r: refresh, d: switchTheme,
    }[event.key];
    if (does) { event.preventDefault(); does(); }
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-keys]")) keys.showModal();
    if (event.target === keys || event.target === document.getElementById("confirm")) event.target.close();
  });
}
