/* Heat maps at a depth and score of the reader's choice, their tooltips, and buttons that copy. */
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const state = document.body.dataset, tip = document.getElementById("tip");
const controls = document.getElementById("heat-controls");
const SVG = "http://www.w3.org/2000/svg";
let score = "v", depth = "";

/* ---- heat maps ---- */
const maps = [...document.querySelectorAll(".heat svg")].map((svg, i) => {
  const heat = data.heats[i], across = heat.a.length, up = heat.g.length;
  const rects = [...svg.querySelectorAll("rect")];
  for (const rect of rects) rect.querySelector("title")?.remove(); /* the tip says more */
  const map = { svg, heat, across, up, rects, shown: [], at: -1, ends: svg.parentNode.querySelectorAll(".scale output") };
  svg.addEventListener("pointermove", (event) => point(map, rects.indexOf(event.target)));
  svg.addEventListener("pointerdown", (event) => point(map, rects.indexOf(event.target)));
  svg.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") point(map, -1); });
  svg.addEventListener("blur", () => point(map, -1));
  svg.addEventListener("keydown", (event) => {
    if (event.key === "Escape") point(map, -1);
    const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const x = map.at < 0 ? 0 : map.at % across, y = map.at < 0 ? 0 : Math.floor(map.at / across);
    const to = map.at < 0 ? 0 : clamp(x + step[0], across) + across * clamp(y + step[1], up);
    point(map, to);
  });
  return map;
});
function clamp(i, n) { return Math.min(Math.max(i, 0), n - 1); }

/* The setting to show at each place: [depth, validation, test, std, splits], or null. */
function settings(heat) {
  const chosen = depth ? [depth].filter((d) => d in heat.depths) : Object.keys(heat.depths);
  return Array.from({ length: heat.a.length * heat.g.length }, (_, k) => {
    let best = null;
    for (const d of chosen) {
      const { v, t, s, n } = heat.depths[d];
      if (!n[k]) continue;
      const found = [d, v[k], t[k], s[k], n[k]];
      if (!best || v[k] > best[1]) best = found;
    }
    return best;
  });
}
function draw(map) {
  const place = score === "v" ? 1 : 2;
  map.shown = settings(map.heat);
  const values = map.shown.filter((f) => f && f[place] !== null).map((f) => f[place]);
  const least = Math.min(...values), most = Math.max(...values);
  const more = Math.max(data.span - (most - least), 0) / 2, low = least - more, high = most + more;
  map.rects.forEach((rect, k) => {
    const found = map.shown[k], value = found ? found[place] : null;
    rect.classList.toggle("none", value === null);
    if (value === null) { rect.removeAttribute("fill"); return; }
    const share = high > low ? (value - low) / (high - low) : 0.5;
    rect.setAttribute("fill", `#${data.shades[clamp(Math.floor(share * data.shades.length), data.shades.length)]}`);
  });
  const shown = values.length ? [low, high].map((v) => (v / 100).toFixed(1)) : ["", ""];
  map.ends.forEach((end, i) => { end.textContent = shown[i]; });
}
function point(map, k) {
  for (const other of maps) {
    if (other.at >= 0) other.rects[other.at].classList.remove("at");
    other.at = -1;
  }
  tip.hidden = k < 0;
  if (k < 0) return;
  map.at = k;
  const rect = map.rects[k], found = map.shown[k];
  rect.classList.add("at");
  rect.parentNode.append(rect); /* on top of its neighbours */
  const where = `α ${map.heat.a[k % map.across]}, γ ${map.heat.g[Math.floor(k / map.across)]}`;
  const number = (v) => (v === null ? "none" : (v / 100).toFixed(2));
  tip.textContent = found
    ? `${where}, depth ${found[0]}\nvalidation ${number(found[1])}\ntest ${number(found[2])}${found[3] === null ? "" : ` ± ${number(found[3])}`}\n${found[4]} split${found[4] === 1 ? "" : "s"}`
    : `${where}\nnot trained so far`;
  const box = rect.getBoundingClientRect(), page = document.documentElement.clientWidth;
  const left = Math.max(Math.min(box.left + box.width + 6, page - tip.offsetWidth - 6), 6);
  tip.style.left = `${left + scrollX}px`;
  tip.style.top = `${box.bottom + 6 + scrollY}px`;
}
function redraw() {
  state.score = score;
  state.depth = depth || "best";
  maps.forEach(draw);
}
if (controls) {
  document.body.append(tip); /* so that it is placed by the page */
  controls.hidden = false;
  controls.addEventListener("change", (event) => {
    if (event.target.name === "score") score = event.target.value;
    else depth = event.target.value;
    redraw();
  });
  redraw();
}

/* ---- copying ---- */
for (const button of document.querySelectorAll(".copy button")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const pre = button.parentNode.querySelector("pre");
    let done = false;
    try { await navigator.clipboard.writeText(pre.textContent); done = true; } catch {
      getSelection().selectAllChildren(pre);
      done = document.execCommand("copy");
    }
    button.textContent = done ? "Copied" : "Select and copy";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

/* ---- print: everything that can be opened is open ---- */
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const part of opened) part.open = true;
});
addEventListener("afterprint", () => { for (const part of opened) part.open = false; });

themes.start();
state.ready = "true";
})();
