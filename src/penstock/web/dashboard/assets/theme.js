// Light or dark, as the system has it unless somebody chose. Runs before anything is drawn.
"use strict";
{
  const stored = (() => { try { return localStorage.getItem("penstock-theme"); } catch { return null; } })();
  if (stored) document.documentElement.dataset.theme = stored;
}
