// What the pages of queues, topics and groups do by themselves.
//
//   data-stay       a link that changes the address and leaves the reader where he is
//   data-preview    a button that counts first (dry_run, at this path), then asks, then does it
//   data-setting    a form that changes one setting of a queue
//   data-new-queue  a form that makes one
//   data-tail       messages as they come, by asking again and again
"use strict";
{
  const { refresh, say, send } = window.penstock;
  const number = (value) => value.toLocaleString("en");
  const plural = (count) => `${number(count)} message${count === 1 ? "" : "s"}`;

  // Links that stay.

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-stay]");
    if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(link.href);
  });
  addEventListener("popstate", () => refresh());

  function go(address) {
    if (new URL(address).href !== location.href) history.pushState(null, "", address);
    refresh();
  }

  // What is shown of a payload, to be pasted elsewhere.

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy-payload]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.closest(".payload-head").nextElementSibling.textContent);
      say("The body is copied.", "good");
    } catch { say("The browser does not let this page copy.", "bad"); }
  });

  // J and K go through a list of messages.

  document.addEventListener("keydown", (event) => {
    if (!"jk".includes(event.key) || event.metaKey || event.ctrlKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, dialog")) return;
    const links = [...document.querySelectorAll(".messages a[data-stay]")];
    if (!links.length) return;
    const at = links.findIndex((one) => one.hasAttribute("aria-current"));
    const next = links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)))];
    next.scrollIntoView({ block: "nearest" });
    go(next.href);
  });

  // Count, ask, do.

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-preview]");
    if (!button) return;
    button.disabled = true;
    try {
      const body = { ...JSON.parse(button.dataset.body), ...fields(button.dataset.fields) };
      const { rate, to, ...counted } = body;
      const { matching } = await send(button.dataset.preview, "POST", { ...counted, dry_run: true });
      if (!matching) { say("Nothing to redrive: no message matches, or they were redriven already.", "bad"); refresh(); return; }
      const single = "single" in button.dataset;
      confirm({
        title: single ? "Redrive this message?" : `Redrive ${plural(matching)}?`,
        text: to ? `${single ? "It goes" : "They go"} to ${to}, as if just sent.` : `${button.dataset.text} ${button.dataset.idle ?? ""}`.trim(),
        label: single ? "Redrive" : `Redrive ${number(matching)}`,
        action: button.dataset.preview, body,
      });
    } catch (error) { say(error.message, "bad"); }
    finally { button.disabled = false; }
  });

  function fields(id) {
    const found = {};
    const form = id && document.getElementById(id);
    for (const field of form ? form.elements : []) {
      if (field.name && field.value && !field.disabled) found[field.name] = field.dataset.type === "number" ? Number(field.value) : field.value.trim();
    }
    return found;
  }

  // The frame asks what a button says; here the button is made for the question.
  function confirm({ title, text, label, action, body }) {
    const button = document.createElement("button");
    Object.assign(button.dataset, { action, method: "POST", ask: "", title, text, name: "", body: JSON.stringify(body), say: "The redrive has begun." });
    button.className = "primary";
    button.textContent = label;
    button.hidden = true;
    button.addEventListener("penstock:done", () => { button.remove(); follow(); });
    document.body.append(button);
    button.click();
  }

  // While messages move, look more often than the page does by itself.
  let following = 0;
  function follow() {
    clearInterval(following);
    let left = 40;
    following = setInterval(() => {
      refresh();
      if (--left <= 0 || (left < 36 && !document.querySelector("[data-moving]"))) clearInterval(following);
    }, 500);
  }

  // Settings, and new queues.

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.matches("form[data-setting]")) {
      event.preventDefault();
      await set(form, form.elements.value.value);
    } else if (form.matches("form[data-new-queue]")) {
      event.preventDefault();
      await make(form);
    }
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-reset]");
    if (button) set(button, null);
  });

  async function set(element, value) {
    const { path, setting, group } = element.dataset;
    const reset = group ? `${setting} is inherited again.` : `${setting} is back to its default.`;
    try {
      await send(path, "PATCH", { settings: { [setting]: value }, ...(group ? { group } : {}) });
      say(value === null ? reset : `${setting} is set.`, "good");
      element.closest("details").open = false;
      refresh();
    } catch (error) { say(error.message, "bad"); }
  }

  // The dead-letter queue is named after the queue until its name is changed by hand.
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-new-queue]");
    if (!form) return;
    const { name, dead_letter_topic: letters } = form.elements;
    if (event.target === letters) letters.dataset.own = "";
    else if (event.target === name && !("own" in letters.dataset)) letters.value = name.value && name.value + letters.dataset.suffix;
  });

  async function make(form) {
    const { name, partitions, ...rest } = Object.fromEntries(new FormData(form));
    const settings = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, value.trim()]).filter(([key, value]) => value || key === "dead_letter_topic"));
    try {
      await send("/v1/queues", "POST", { name, partitions: Number(partitions) || 1, settings });
      location.assign(`/queues/${encodeURIComponent(name)}?tab=send`);
    } catch (error) { say(error.message, "bad"); }
  }

  // The live tail. What is shown is text, always: nothing here makes HTML of it.

  const ROWS_MAX = 300, WAIT_MS = 20000, AGAIN_MS = 2000;
  let tail = null;

  function watchTail() {
    const section = document.querySelector("[data-tail]");
    const query = section && new URLSearchParams([...new URLSearchParams(location.search)]
      .filter(([name, value]) => value && ["text", "key", "header", "partition"].includes(name))).toString();
    if (tail && (tail.section !== section || tail.query !== query)) { tail.stopped = true; tail.abort.abort(); tail = null; }
    if (section && !tail) {
      tail = { section, query, place: "end", held: false, stopped: false, seen: 0, abort: new AbortController() };
      run(tail);
    }
  }

  async function run(mine) {
    while (!mine.stopped) {
      if (mine.held || document.hidden) { await new Promise((done) => setTimeout(done, 300)); continue; }
      const query = new URLSearchParams(mine.query);
      query.set("order", "oldest");
      query.set("from", mine.place);
      query.set("wait_ms", WAIT_MS);
      query.set("body_bytes", 1024);
      try {
        const answer = await fetch(`${mine.section.dataset.tail}?${query}`, { signal: mine.abort.signal });
        const told = await answer.json();
        if (!answer.ok) throw new Error(told.message);
        mine.place = told.next || told.newer;
        lamp(mine, "good", mine.seen + told.messages.length ? `${number(mine.seen += told.messages.length)} so far` : "Waiting for what comes");
        for (const one of told.messages) add(mine, one);
      } catch (error) {
        if (mine.stopped) return;
        lamp(mine, "critical", `${error.message} Trying again …`);
        await new Promise((done) => setTimeout(done, AGAIN_MS));
      }
    }
  }

  function lamp(mine, tone, text) {
    mine.section.querySelector("[data-tail-dot]").className = `dot ${tone}`;
    mine.section.querySelector("[data-tail-word]").textContent = text;
  }

  const shown = (value) => value == null ? "no body" : typeof value === "string" ? value.replace(/\s+/g, " ") : `base64 ${value.base64}`;

  const clock = (ms) => ms > 0 ? new Date(ms).toISOString().slice(11, 19) : "–";

  function add(mine, one) {
    const part = (tag, kind, text) => Object.assign(document.createElement(tag), { className: kind, textContent: text });
    const row = part("li", "new", "");
    const link = document.createElement("a");
    link.href = `/topics/${encodeURIComponent(mine.section.dataset.topic)}?message=${one.partition}:${one.offset}`;
    const head = part("span", "message-head", "");
    head.append(part("span", "mono place", `${one.partition}:${one.offset}`));
    if (one.key != null) head.append(part("span", "mono message-key", shown(one.key)));
    head.append(part("span", "", `${number(Math.max(0, one.body_bytes))} B`), part("span", "message-time", clock(one.timestamp_ms)));
    link.append(head, part("span", "message-body mono", shown(one.body).slice(0, 400)));
    row.append(link);
    const rows = mine.section.querySelector("[data-tail-rows]");
    rows.prepend(row);
    while (rows.children.length > ROWS_MAX) rows.lastChild.remove();
  }

  document.addEventListener("click", (event) => {
    if (!tail) return;
    const hold = event.target.closest("[data-tail-hold]");
    if (hold) { tail.held = !tail.held; hold.textContent = tail.held ? "Resume" : "Hold"; }
    if (event.target.closest("[data-tail-clear]")) { tail.section.querySelector("[data-tail-rows]").replaceChildren(); tail.seen = 0; }
  });
  document.addEventListener("penstock:shown", watchTail);
  watchTail();
}
