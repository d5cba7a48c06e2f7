// Charts of what the broker remembers (`/v1/history`), drawn by uPlot in the colours of the page.
//
//   data-source    where the numbers are
//   data-series    [[name, label, tone], …]; the tone is the name of a colour: --chart-<tone>
//   data-unit      what is behind a number: "/s", "ms", "%" or nothing
"use strict";
{
  const ASK_MS = 4500, HEIGHT = 180;
  const drawn = new WeakMap();
  let last = 0;

  const colour = (name) => {
    const probe = document.createElement("i");
    probe.className = `ink-${name}`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };

  function written(value, unit) {
    if (value == null) return "–";
    if (unit === "ms") return value < 1000 ? `${Math.round(value)} ms` : value < 120000 ? `${(value / 1000).toFixed(1)} s` : `${Math.round(value / 60000)} min`;
    if (unit === "%") return `${(value * 100).toFixed(value < 0.1 ? 1 : 0)} %`;
    const size = Math.abs(value);
    const short = size >= 1e6 ? `${(value / 1e6).toFixed(1)}M` : size >= 1e4 ? `${(value / 1e3).toFixed(1).replace(".0", "")}k`
      : size >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : value.toFixed(1);
    return short + unit;
  }

  // In UTC, as everything else on a page.
  const iso = (time) => new Date(time * 1000).toISOString();
  const at = (time, seconds) => iso(time).slice(11, seconds ? 19 : 16);
  const day = (time) => iso(time).slice(5, 16).replace("T", " ");

  function options(figure, series, width) {
    const unit = figure.dataset.unit;
    const soft = colour("soft"), line = colour("line");
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    return {
      width, height: HEIGHT, padding: [12, 8, 0, 0],
      legend: { markers: { width: 0, fill: (plot, place) => plot.series[place].stroke(plot, place) } },
      cursor: { drag: { x: false, y: false }, points: { size: 7 } },
      scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.15 : 1] } },
      axes: [
        { ...axis, space: 90, size: 28, values: (_, times, __, ___, step) => times.map((time) => times.at(-1) - times[0] > 86400 ? day(time) : at(time, step < 60)) },
        { ...axis, size: 62, values: (_, values) => values.map((value) => written(value, unit)) },
      ],
      series: [
        { label: "At", value: (_, time) => time == null ? "now" : Date.now() / 1000 - time > 86400 ? day(time) : at(time, true) },
        ...series.map(([, label, tone]) => ({
          label, stroke: colour(tone || "chart"), width: 1.6, points: { show: false }, spanGaps: false,
          value: (plot, value, index, place) => written(place == null ? plot.data[index]?.findLast((one) => one != null) : value, unit),
        })),
      ],
    };
  }

  async function draw(figure, anew = false) {
    const series = JSON.parse(figure.dataset.series);
    let told;
    try {
      const answer = await fetch(figure.dataset.source);
      if (!answer.ok) return;
      told = await answer.json();
    } catch { return; }
    const times = told.times;
    const data = [times, ...series.map(([name]) => told.series[name] ?? times.map(() => null))];
    const body = figure.querySelector(".chart-body");
    figure.classList.toggle("waiting", times.length < 2);
    if (times.length < 2) return;
    const before = drawn.get(figure);
    if (before && !anew) { before.setData(data); return; }
    before?.destroy();
    if (body.clientWidth) drawn.set(figure, new uPlot(options(figure, series, body.clientWidth), data, body));
  }

  const all = () => document.querySelectorAll("[data-chart]");
  const drawAll = (anew) => { last = Date.now(); for (const figure of all()) draw(figure, anew); };

  document.addEventListener("penstock:tick", () => { if (Date.now() - last >= ASK_MS) drawAll(); });
  document.addEventListener("penstock:shown", () => { for (const figure of all()) if (!drawn.has(figure)) draw(figure); });
  document.addEventListener("penstock:theme", () => drawAll(true));
  let resizing = 0;
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => {
      for (const figure of all()) drawn.get(figure)?.setSize({ width: figure.querySelector(".chart-body").clientWidth, height: HEIGHT });
    }, 100);
  });
  drawAll();
}
