// What changes something: buttons and forms with `data-action`. They send JSON, with the token of
// this page; what came back is said in a line.
//
//   data-ask       ask first; with `data-name`, that name has to be typed
//   data-say       what is said afterwards; {field} is taken from the answer
//   data-go        where to go then
//
// In a form, `data-type` of a field says what it is in JSON: number, json, flag or duration (5m
// becomes 300000); a field that is empty is left out, unless it has `data-type="text"`.
"use strict";
{
  const { refresh, say, token } = window.penstock;
  const $ = (selector) => document.querySelector(selector);
  const dialog = document.getElementById("confirm");
  let asked = null;

  async function send(action, method, body) {
    const answer = await fetch(action, {
      method,
      headers: { "content-type": "application/json", "x-penstock-token": token },
      body: JSON.stringify(body),
    });
    const text = await answer.text();
    let document_ = {};
    try { document_ = JSON.parse(text); } catch { /* Not ours, then. */ }
    if (!answer.ok) throw new Error(document_.message || `${answer.status} ${answer.statusText}`);
    return document_;
  }

  const UNITS_MS = { ms: 1, s: 1000, m: 60000, h: 3600000, d: 86400000 };

  function milliseconds(text, label) {
    const [, count, unit] = /^(\d{1,15})\s*(ms|s|m|h|d)$/.exec(text.trim()) || [];
    if (!unit) throw new Error(`${label}: write a number with its unit, as 30s, 5m, 12h or 7d`);
    return Number(count) * UNITS_MS[unit];
  }

  const fill = (text, from) => text.replace(/\{(\w+)\}/g, (_, name) => from[name] ?? "–");

  async function act(element, body) {
    element.setAttribute("aria-busy", "true");
    try {
      const answer = await send(element.dataset.action, element.dataset.method || "POST", body);
      say(fill(element.dataset.say || "Done.", answer), "good");
      element.dispatchEvent(new CustomEvent("penstock:done", { bubbles: true, detail: answer }));
      if (element.dataset.go) location.assign(element.dataset.go);
      else refresh();
    } finally {
      element.removeAttribute("aria-busy");
    }
  }

  function ask(button) {
    asked = button;
    const { title, text, name } = button.dataset;
    $("[data-confirm-title]").textContent = title;
    $("[data-confirm-text]").textContent = text;
    $("[data-confirm-name]").hidden = !name;
    $("[data-confirm-word]").textContent = name;
    $("[data-confirm-typed]").value = "";
    $("[data-confirm-error]").hidden = true;
    const yes = $("[data-confirm-yes]");
    yes.textContent = button.textContent;
    yes.className = button.className;
    yes.disabled = Boolean(name);
    dialog.showModal();
    if (name) $("[data-confirm-typed]").focus(); else $("[data-confirm-no]").focus();
  }

  $("[data-confirm-typed]").addEventListener("input", (event) => {
    $("[data-confirm-yes]").disabled = event.target.value !== asked.dataset.name;
  });
  $("[data-confirm-no]").addEventListener("click", () => dialog.close());
  dialog.addEventListener("submit", async (event) => {
    event.preventDefault();
    if ($("[data-confirm-yes]").disabled) return;
    $("[data-confirm-yes]").disabled = true;
    try {
      await act(asked, JSON.parse(asked.dataset.body || "{}"));
      dialog.close();
    } catch (error) {
      $("[data-confirm-error]").textContent = error.message;
      $("[data-confirm-error]").hidden = false;
      $("[data-confirm-yes]").disabled = false;
    }
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-action]");
    if (button) {
      if ("ask" in button.dataset) ask(button);
      else {
        button.disabled = true;
        try { await act(button, JSON.parse(button.dataset.body || "{}")); }
        catch (error) { say(error.message, "bad"); }
        finally { button.disabled = false; }
      }
    }
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      try {
        await navigator.clipboard.writeText(copy.dataset.copy);
        copy.textContent = "Copied";
        setTimeout(() => { copy.textContent = "Copy"; }, 1500);
      } catch { say("The browser does not let this page copy.", "bad"); }
    }
  });

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("form[data-action]")) return;
    event.preventDefault();
    try { await act(form, read(form)); }
    catch (error) { say(error.message, "bad"); }
  });

  function read(form) {
    const body = JSON.parse(form.dataset.body || "{}");
    for (const field of form.elements) {
      if (!field.name || field.disabled) continue;
      const kind = field.dataset.type;
      if (field.type === "checkbox") body[field.name] = field.checked;
      else if (field.type === "radio") { if (field.checked) body[field.name] = field.value; }
      else if (field.value === "" && kind !== "text") continue;
      else if (kind === "number") body[field.name] = Number(field.value);
      else if (kind === "flag") body[field.name] = field.value === "true";
      else if (kind === "duration") body[field.name] = milliseconds(field.value, field.labels[0].firstChild.data.trim());
      else if (kind === "json") {
        try { body[field.name] = JSON.parse(field.value); }
        catch (error) { throw new Error(`${field.name} is no JSON: ${error.message}`); }
      } else body[field.name] = field.value;
    }
    return body;
  }

  Object.assign(window.penstock, { send });
}
