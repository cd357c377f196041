"use strict";
(() => {
  // Figures: tooltips for the mark under the pointer or reached with the arrow keys.
  const tip = document.getElementById("tip");

  function show(mark) {
    for (const old of document.querySelectorAll(".mark.active")) old.classList.remove("active");
    tip.hidden = !mark;
    if (!mark) return;
    mark.classList.add("active");
    tip.textContent = mark.dataset.tip;
    const box = mark.getBoundingClientRect();
    const width = tip.offsetWidth, height = tip.offsetHeight, page = document.documentElement.clientWidth;
    const middle = box.left + box.width / 2 - width / 2;
    tip.style.left = Math.max(6, Math.min(middle, page - width - 6)) + "px";
    tip.style.top = (box.top > height + 10 ? box.top - height - 8 : box.bottom + 8) + "px";
  }

  for (const figure of document.querySelectorAll("svg.hover")) {
    const marks = [...figure.querySelectorAll(".mark")];
    for (const mark of marks) {
      const title = mark.querySelector("title");
      mark.dataset.tip = title.textContent;
      title.remove();
    }
    let at = -1;
    figure.tabIndex = 0;
    figure.addEventListener("pointerover", event => show(event.target.closest(".mark")));
    figure.addEventListener("pointerleave", () => show(null));
    figure.addEventListener("blur", () => { at = -1; show(null); });
    figure.addEventListener("keydown", event => {
      const row = Number(figure.dataset.step);
      const move = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row }[event.key];
      if (event.key === "Escape") show(null);
      if (!move || !marks.length) return;
      event.preventDefault();
      const next = at < 0 ? 0 : at + move;
      if (next >= 0 && next < marks.length) at = next;
      show(marks[at]);
    });
  }
  window.addEventListener("scroll", () => show(null), { passive: true });

  // Tables: a click on a heading sorts.
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const first = column === 0 ? "ascending" : "descending";
        const order = head.getAttribute("aria-sort") === first
          ? (first === "ascending" ? "descending" : "ascending") : first;
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const rows = [...body.rows].map(row => [key(row.cells[column]), row]);
        rows.sort(([a], [b]) => sign * compare(a, b) || 0);
        body.append(...rows.filter(([k]) => k !== null).map(([, row]) => row),
          ...rows.filter(([k]) => k === null).map(([, row]) => row));
      });
    });
  }

  // The number in a cell, its text if it is a heading, nothing if undefined.
  function key(cell) {
    if (cell.tagName === "TH") return cell.textContent.trim();
    const text = cell.dataset.key ?? cell.textContent.replace(/,/g, "").replace(/\u2212/g, "-");
    const number = parseFloat(text);
    return Number.isNaN(number) ? null : number;
  }

  function compare(a, b) {
    return typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
  }

  // The vote of equal learners. A learner is right if sqrt(rho) F + sqrt(1 - rho) E < t, all Gaussian.
  const NODES = 600;

  function below(x) {  // the Gaussian distribution function, relative error under 1.2e-7
    const z = Math.abs(x) / Math.SQRT2, u = 1 / (1 + z / 2);
    const sum = 1.00002368 + u * (0.37409196 + u * (0.09678418 + u * (-0.18628806 + u * (0.27886807 +
      u * (-1.13520398 + u * (1.48851587 + u * (-0.82215223 + u * 0.17087277)))))));
    const tail = u * Math.exp(-z * z - 1.26551223 + u * sum) / 2;
    return x < 0 ? tail : 1 - tail;
  }

  function solve(increasing, low, high) {  // where the function changes sign
    for (let k = 0; k < 60; k++) {
      const middle = (low + high) / 2;
      if (increasing(middle) < 0) low = middle; else high = middle;
    }
    return (low + high) / 2;
  }

  // P(both right) - p^2 is the integral of exp(-t^2 / (1 + sin a)) / 2 pi over the angle a from 0 to asin(rho).
  function latent(p, t, c) {
    if (c <= 0) return 0;
    if (c >= 1) return 1;
    const half = 32, target = 2 * Math.PI * c * p * (1 - p);
    const density = angle => Math.exp(-t * t / (1 + Math.sin(angle)));
    const both = end => {  // Simpson
      const step = end / (2 * half);
      let sum = density(0) + density(end);
      for (let k = 1; k < 2 * half; k++) sum += (k % 2 ? 4 : 2) * density(k * step);
      return sum * step / 3;
    };
    return Math.sin(solve(angle => both(angle) - target, 0, Math.PI / 2));
  }

  // A grid for the median of 2 m - 1 Gaussians, with its density as weights of a sum of one.
  const grids = new Map();
  function grid(m) {
    if (!grids.has(m)) {
      const step = 16 / NODES / Math.sqrt(m), x = [], weights = [];
      for (let k = -NODES / 2; k <= NODES / 2; k++) {
        const at = k * step;
        x.push(at);
        weights.push(Math.exp((m - 1) * Math.log(4 * below(at) * below(-at)) - at * at / 2));
      }
      const total = weights.reduce((sum, weight) => sum + weight);
      grids.set(m, { x, step, weights: weights.map(weight => weight / total) });
    }
    return grids.get(m);
  }

  // The majority is right if the median learner is: the distribution of sqrt(rho) F + sqrt(1 - rho) median(E) at t.
  // An even number is as accurate as one less.
  function majority(t, rho, n) {
    const { x, step, weights } = grid(Math.floor((n + 1) / 2)), own = Math.sqrt(1 - rho);
    const common = Math.max(Math.sqrt(rho), own * step);  // a jump is smoothed over one step of the grid
    return x.reduce((sum, at, k) => sum + weights[k] * below((t - own * at) / common), 0);
  }

  // The panel, on pages of votes.
  const given = document.getElementById("what-if-data");
  if (!given) return;
  const data = JSON.parse(given.textContent);
  const part = name => document.getElementById("what-if" + (name && "-" + name));
  const sliders = { n: part("n"), p: part("p"), c: part("c") };
  const percent = share => (100 * share).toFixed(1) + " %";
  const { left, right, top, bottom } = data.edges;
  const place = n => left + (right - left) * Math.log(n) / Math.log(data.largest);
  const sizes = [];
  for (let k = 0; k <= 48; k++) {
    const n = 2 * Math.floor(Math.exp(k / 48 * Math.log(data.largest)) / 2 + 0.25) + 1;
    if (n <= data.largest && n !== sizes.at(-1)) sizes.push(n);
  }

  function draw() {
    const n = Number(sliders.n.value), p = Number(sliders.p.value), c = Number(sliders.c.value);
    const t = solve(x => below(x) - p, -9, 9), rho = latent(p, t, c);
    const vote = majority(t, rho, n);
    const limit = rho > 0 ? below(t / Math.sqrt(rho)) : p > 0.5 ? 1 : p < 0.5 ? 0 : 0.5;
    const curve = sizes.map(size => majority(t, rho, size));
    const least = Math.min(...curve, limit, vote) + 1e-6;
    const low = [0.9, 0.8, 0.5, 0].find(edge => edge <= least);
    const height = share => bottom - (bottom - top) * (share - low) / (1 - low);
    part("n-out").textContent = n;
    part("p-out").textContent = percent(p);
    part("c-out").textContent = c.toFixed(3);
    part("vote").textContent = (100 * vote).toFixed(2) + " %";
    part("limit").textContent = "The limit for many such learners is " + percent(limit) + ".";
    part("curve").setAttribute("d", sizes.map((size, k) =>
      (k ? "L" : "M") + place(size).toFixed(1) + " " + height(curve[k]).toFixed(1)).join(""));
    part("ceiling").setAttribute("d", "M" + left + " " + height(limit).toFixed(1) + "H" + right);
    part("now").setAttribute("cx", place(n).toFixed(1));
    part("now").setAttribute("cy", height(vote).toFixed(1));
    drawTicks(low, height);
  }

  function drawTicks(low, height) {
    const ticks = part("ticks"), make = name => document.createElementNS("http://www.w3.org/2000/svg", name);
    ticks.replaceChildren();
    for (let k = 0; k <= 5; k++) {
      const share = low + k * (1 - low) / 5, grid = make("path"), text = make("text");
      grid.setAttribute("class", "grid");
      grid.setAttribute("d", "M" + left + " " + height(share) + "H" + right);
      text.setAttribute("x", left - 6);
      text.setAttribute("y", height(share) + 4);
      text.setAttribute("text-anchor", "end");
      text.textContent = Math.round(100 * share) + " %";
      ticks.append(grid, text);
    }
  }

  function start() {
    const chosen = data.starts[part("start") ? part("start").value : 0];
    for (const name of ["n", "p", "c"]) sliders[name].value = chosen[name];
    part("note").textContent = chosen.c < 0
      ? "The error correlation of the ensemble is negative (" + chosen.c.toFixed(3) + "); the panel starts from 0." : "";
    draw();
  }

  for (const slider of Object.values(sliders)) slider.addEventListener("input", draw);
  part("start")?.addEventListener("change", start);
  part("form").addEventListener("submit", event => event.preventDefault());
  part("form").addEventListener("reset", event => { event.preventDefault(); start(); });
  part("").hidden = false;
  start();
})();
