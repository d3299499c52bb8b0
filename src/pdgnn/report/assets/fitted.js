/* The map that moves with gamma, and the search for a node.
   Text from users enters the page as text nodes only. */
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const nodes = data.nodes, map = data.map, detailed = nodes.top.length;
const $ = (id) => document.getElementById(id);
const state = document.body.dataset;
const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
const SHAPES = 4, PART = ["training", "validation", "test"];

/* An element with attributes and children; strings become text. */
function make(tag, attributes = {}, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) el.setAttribute(name, value === true ? "" : value);
  }
  el.append(...children.filter((c) => c != null && c !== false));
  return el;
}
const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
const colourOf = (c) => (c < 0 ? ink("none") : data.colours[c % data.colours.length]);
const shapeOf = (c) => (c < 0 ? 0 : Math.floor(c / data.colours.length) % SHAPES);
const className = (c) => (c < 0 ? "no label" : data.classes[c]);

/* ---- theme ---- */
const inks = {};
function ink(name) { /* a colour of the style sheet, as the canvas needs it */
  if (!inks[name]) {
    const probe = make("i");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    inks[name] = getComputedStyle(probe).color;
    probe.remove();
  }
  return inks[name];
}
themes.listen(() => {
  for (const name of Object.keys(inks)) delete inks[name];
  if (map) { legend(); draw(); }
});

/* ---- map ---- */
const canvas = $("canvas"), tip = $("tip"), count = map ? map.points.length : 0;
const place = new Float64Array(2 * count); /* where each point is now, in [-1, 1] */
const pointOf = new Map(map ? map.points.map((node, i) => [node, i]) : []);
let at = map ? map.chosen : 0, selected = -1, hovered = -1, only = null, frame = 0, timer = 0;
let colour = "label";
const MARGIN = 30;

function settle(share, from) {
  const to = map.xy[at];
  for (let i = 0; i < 2 * count; i++) place[i] = from[i] + (to[i] / 1000 - from[i]) * share;
}
function moveTo(index) {
  at = index;
  const gamma = map.gammas[at];
  $("gamma").value = at;
  $("gamma").setAttribute("aria-valuetext", `γ = ${gamma}`);
  $("gamma-value").textContent = gamma;
  state.gamma = gamma;
  caption();
  cancelAnimationFrame(frame);
  const from = place.slice(), begun = performance.now(), lasts = still ? 0 : 420;
  state.moving = "true";
  const step = (now) => {
    const t = lasts ? Math.min(Math.max((now - begun) / lasts, 0), 1) : 1;
    settle(t < 1 ? t * t * (3 - 2 * t) : 1, from);
    draw();
    if (t < 1) frame = requestAnimationFrame(step);
    else state.moving = "false";
  };
  frame = requestAnimationFrame(step);
}
function caption() {
  const star = nodes.id[map.points[map.gradient[at]]];
  const added = count - 1 - map.joined[at].length, model = at === map.chosen && data.rewired;
  const verb = model ? "The model's rewiring joins" : "Rewiring at this γ would join";
  $("caption").textContent = `Gradient node: ${star}. ${verb} ${added.toLocaleString("en")} of the points drawn to it.`;
}
function screen(i) {
  const w = canvas.clientWidth, h = canvas.clientHeight;
  return [w / 2 + place[2 * i] * (w / 2 - MARGIN), h / 2 - place[2 * i + 1] * (h / 2 - MARGIN)];
}
function mark(c, shape, x, y, r) {
  c.beginPath();
  if (shape === 0) c.arc(x, y, r, 0, 7);
  else if (shape === 1) c.rect(x - r * 0.9, y - r * 0.9, r * 1.8, r * 1.8);
  else {
    const corners = shape === 2 ? [[0, -1.2], [1.1, 0.8], [-1.1, 0.8]] : [[0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]];
    corners.forEach(([a, b], i) => c[i ? "lineTo" : "moveTo"](x + a * r, y + b * r));
    c.closePath();
  }
}
function star(c, x, y, r) {
  c.beginPath();
  for (let i = 0; i < 10; i++) {
    const angle = Math.PI * (i / 5 - 0.5), size = i % 2 ? r * 0.45 : r;
    c[i ? "lineTo" : "moveTo"](x + size * Math.cos(angle), y + size * Math.sin(angle));
  }
  c.closePath();
}
function axes(c, w, h) { /* in the margin, where no point lies */
  const turned = at === map.chosen ? "" : ", turned";
  c.fillStyle = ink("quiet");
  c.font = "13px system-ui, sans-serif";
  c.textAlign = "left"; c.fillText(`↑ φ²${turned}`, 10, 17);
  c.textAlign = "right"; c.fillText(`φ¹${turned} →`, w - 10, h - 8);
}
function rewiredEdges(c) {
  const hub = map.gradient[at], joined = new Set(map.joined[at]), [x, y] = screen(hub);
  c.strokeStyle = ink("rewired");
  c.globalAlpha = Math.min(0.5, 0.035 + 25 / count);
  c.lineWidth = 0.7;
  c.beginPath();
  for (let i = 0; i < count; i++) {
    if (i === hub || joined.has(i)) continue;
    c.moveTo(x, y); c.lineTo(...screen(i));
  }
  c.stroke();
  c.globalAlpha = 1;
}
function selectedEdges(c) {
  const near = nodes.near[selected] || [], [x, y] = screen(pointOf.get(selected));
  for (let i = 0; i < near.length; i += 2) {
    const rewired = near[i] < 0, other = pointOf.get(rewired ? -1 - near[i] : near[i]);
    if (other === undefined) continue;
    c.strokeStyle = ink(rewired ? "rewired" : "ink");
    c.lineWidth = 1 + 4 * Math.min(near[i + 1] / 5000, 1);
    c.setLineDash(rewired ? [5, 4] : []);
    c.beginPath(); c.moveTo(x, y); c.lineTo(...screen(other)); c.stroke();
  }
  c.setLineDash([]);
}
function draw() {
  const ratio = Math.min(devicePixelRatio || 1, 2), w = canvas.clientWidth, h = canvas.clientHeight;
  if (!w) return;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
    canvas.width = Math.round(w * ratio); canvas.height = Math.round(h * ratio);
  }
  const c = canvas.getContext("2d"), r = count > 1500 ? 2.6 : count > 400 ? 3.4 : 4.6;
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, w, h);
  axes(c, w, h);
  if ($("edges").checked) rewiredEdges(c);
  c.lineWidth = 0.6;
  c.strokeStyle = ink("faint");
  const shown = nodes[colour];
  for (const unlabelled of [true, false]) { /* these lie below the others */
    for (let i = 0; i < count; i++) {
      const k = shown[map.points[i]];
      if ((k < 0) !== unlabelled) continue;
      const [x, y] = screen(i);
      c.globalAlpha = only !== null && k !== only ? 0.08 : k < 0 ? 0.65 : 0.9;
      c.fillStyle = colourOf(k);
      mark(c, shapeOf(k), x, y, r);
      c.fill(); c.stroke();
    }
  }
  c.globalAlpha = 1;
  if (pointOf.has(selected)) selectedEdges(c);
  const [sx, sy] = screen(map.gradient[at]);
  star(c, sx, sy, 11);
  c.fillStyle = ink("page"); c.strokeStyle = ink("ink"); c.lineWidth = 1.6;
  c.fill(); c.stroke();
  for (const [i, width] of [[pointOf.get(selected), 2.5], [hovered, 1.5]]) {
    if (i === undefined || i < 0) continue;
    c.beginPath(); c.arc(...screen(i), r + 4, 0, 7);
    c.strokeStyle = ink("ink"); c.lineWidth = width; c.stroke();
  }
  state.first = [...screen(0)].map((v) => v.toFixed(1)).join(",");
}
function nearest(event) {
  const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  let best = -1, least = event.pointerType === "touch" ? 900 : 225;
  for (let i = 0; i < count; i++) {
    const [a, b] = screen(i), d = (a - x) ** 2 + (b - y) ** 2;
    if (d < least) { least = d; best = i; }
  }
  return best;
}
function hover(event) {
  const i = nearest(event);
  if (i !== hovered) { hovered = i; draw(); }
  tip.hidden = i < 0;
  if (i < 0) return;
  const n = map.points[i], [x, y] = screen(i);
  tip.textContent = `${nodes.id[n]}\nlabel: ${className(nodes.label[n])}\nprediction: ${className(nodes.guess[n])}, ${percent(nodes.sure[n] / 1000)}`;
  tip.style.left = `${Math.max(Math.min(x + 12, canvas.clientWidth - tip.offsetWidth - 4), 4)}px`;
  tip.style.top = `${y > canvas.clientHeight - tip.offsetHeight - 20 ? y - tip.offsetHeight - 10 : y + 12}px`;
}
function legend() {
  const used = new Set(map.points.map((n) => nodes[colour][n]));
  $("legend").replaceChildren(...[...used].sort((a, b) => (a < 0) - (b < 0) || a - b).map((k) => {
    const swatch = make("canvas", { width: 28, height: 28, "aria-hidden": true });
    swatch.style.cssText = "width:14px;height:14px;background:none;border-radius:0;cursor:inherit;flex:none";
    const c = swatch.getContext("2d");
    mark(c, shapeOf(k), 14, 14, 10);
    c.fillStyle = colourOf(k); c.fill();
    return make("button", {
      type: "button", "aria-pressed": String(only === k), title: "show only these",
      onclick: () => { only = only === k ? null : k; legend(); draw(); },
    }, swatch, make("span", {}, className(k)));
  }));
}
function play() {
  if (timer) { stop(); return; }
  if (at === map.gammas.length - 1) moveTo(0);
  $("play").textContent = "❚❚";
  timer = setInterval(() => (at < map.gammas.length - 1 ? moveTo(at + 1) : stop()), 650);
}
function stop() { clearInterval(timer); timer = 0; $("play").textContent = "▶"; }
function startMap() {
  $("gamma").max = map.gammas.length - 1;
  $("gamma").addEventListener("input", () => { stop(); moveTo(Number($("gamma").value)); });
  $("play").addEventListener("click", play);
  $("edges").addEventListener("change", draw);
  for (const box of document.getElementsByName("colour")) {
    box.addEventListener("change", () => { colour = box.value; state.colour = colour; only = null; legend(); draw(); });
  }
  canvas.addEventListener("pointermove", hover);
  canvas.addEventListener("pointerleave", () => { hovered = -1; tip.hidden = true; draw(); });
  canvas.addEventListener("click", (event) => { const i = nearest(event); if (i >= 0) select(map.points[i]); });
  canvas.addEventListener("keydown", (event) => { /* through the points, one by one */
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || !count) return;
    event.preventDefault();
    select(map.points[((pointOf.get(selected) ?? -1) + step + count) % count]);
  });
  new ResizeObserver(draw).observe(canvas);
  themes.lightPrint();
  state.colour = colour;
  for (let i = 0; i < 2 * count; i++) place[i] = map.xy[at][i] / 1000;
  moveTo(at);
}

/* ---- a node ---- */
function confidence(p) {
  const word = p >= 0.95 ? "very sure" : p >= 0.8 ? "sure" : p >= 0.6 ? "fairly sure" : "unsure";
  if (!data.bins) return word;
  const [low, right, counts] = data.bins, i = low.indexOf(Math.min(Math.floor(p * 10), 9) / 10);
  if (i < 0 || counts[i] < 10) return word;
  return `${word}; held-out nodes as sure as this were right in ${percent(right[i])} of ${counts[i].toLocaleString("en")} cases`;
}
function bar(share, kind = "") {
  const inner = make("i"), gauge = make("span", { class: `gauge ${kind}`, "aria-hidden": true }, inner);
  inner.style.width = `${(100 * Math.min(share, 1)).toFixed(1)}%`;
  return gauge;
}
function line(n, share, shown, kind, note) {
  const about = `${nodes.label[n] >= 0 ? "label" : "predicted"} ${className(nodes.label[n] >= 0 ? nodes.label[n] : nodes.guess[n])}`;
  return make("li", {}, make("button", { type: "button", class: "row", onclick: () => select(n) },
    make("span", {}, nodes.id[n], make("small", {}, about, note ? make("span", { class: "tag" }, ` · ${note}`) : null)),
    bar(share, kind), make("span", {}, shown)));
}
function neighbours(n) {
  const near = nodes.near[n], rows = [], most = Math.max(...near.filter((_, i) => i % 2), 1);
  for (let i = 0; i < near.length; i += 2) {
    const rewired = near[i] < 0, other = rewired ? -1 - near[i] : near[i];
    rows.push(line(other, near[i + 1] / most, percent(near[i + 1] / 10000, 1), rewired ? "rewired" : "", rewired ? "rewired edge" : ""));
  }
  const all = nodes.count[n], shown = near.length / 2;
  const rest = nodes.over[n] === null ? ", without any weight" : shown < all ? `, the ${shown} with most weight shown` : "";
  const parts = [all === 0 ? "It has no neighbours." : `${all.toLocaleString("en")} ${all === 1 ? "neighbour" : "neighbours"}${rest}.`];
  if (nodes.own[n]) parts.push(`Its own share is ${percent(nodes.own[n] / 10000, 1)}.`);
  if (data.rewired && nodes.over[n] !== null) parts.push(`Of what came from neighbours, ${percent(nodes.over[n] / 1000, 1)} came over rewired edges.`);
  return [make("h4", {}, "Neighbours, by weight"), make("p", { class: "quiet" }, parts.join(" ")), make("ul", {}, ...rows)];
}
function similar(n) {
  const like = nodes.like[n], rows = [];
  for (let i = 0; i < like.length; i += 2) rows.push(line(like[i], like[i + 1] / 1000, (like[i + 1] / 1000).toFixed(2), "", ""));
  return rows.length ? [make("h4", {}, "Most similar labelled nodes"), make("ul", {}, ...rows)] : [];
}
function panel(n) {
  const label = nodes.label[n], part = PART[nodes.part[n]];
  const facts = [label < 0 ? "No label: this is what was to be predicted." : `Label: ${className(label)}${part ? ` (${part} node)` : ""}.`];
  const out = [make("h3", {}, nodes.id[n]), make("p", {}, facts[0])];
  out.push(make("p", {}, "Prediction: ", make("b", {}, className(nodes.guess[n])), ` (${confidence(nodes.sure[n] / 1000)}).`));
  if (n >= detailed) {
    out.push(make("p", { class: "quiet" }, "This node is known to the page as a neighbour only; its own neighbours are not stored here."));
    return out;
  }
  const held = nodes.held[n], top = nodes.top[n], rows = [];
  if (held.length && label >= 0) {
    out.push(make("p", { class: "quiet" }, `With its label held out: ${className(held[0])}, ${percent(held[1] / 1000)}, ${held[0] === label ? "which is right" : "which is wrong"}.`));
  }
  for (let i = 0; i < top.length; i += 2) {
    rows.push(make("li", { class: "row" }, make("span", {}, className(top[i])), bar(top[i + 1] / 1000), make("span", {}, percent(top[i + 1] / 1000, 1))));
  }
  out.push(make("h4", {}, data.classes.length > top.length / 2 ? "Probabilities of the likeliest classes" : "Probabilities"), make("ul", {}, ...rows));
  return [...out, ...neighbours(n), ...similar(n)];
}
function select(n) {
  selected = n;
  state.selected = nodes.id[n];
  search.value = nodes.id[n];
  close();
  $("node").replaceChildren(...panel(n));
  if (map) draw();
}

/* ---- search ---- */
const search = $("search"), found = $("found"), lower = nodes.id.map((id) => id.toLowerCase());
let options = [], active = -1;
function matches(text) {
  const wanted = text.trim().toLowerCase(), exact = [], first = [], inside = [];
  for (let i = 0; i < lower.length && wanted; i++) {
    const where = lower[i].indexOf(wanted);
    if (where < 0) continue;
    (lower[i] === wanted ? exact : where === 0 ? first : inside).push(i);
  }
  return [...exact, ...first, ...inside].slice(0, 7);
}
function suggest() {
  options = matches(search.value);
  active = options.length ? 0 : -1;
  if (!search.value.trim()) { close(); return; }
  const rows = options.map((n, i) => make("li", {
    role: "option", id: `option-${i}`, "aria-selected": String(i === active),
    onpointerdown: (event) => { event.preventDefault(); select(n); },
  }, make("span", {}, nodes.id[n]), make("small", { class: "quiet" }, className(nodes.guess[n]))));
  if (!rows.length) rows.push(make("li", { class: "empty" }, "No such node on this page"));
  found.replaceChildren(...rows);
  found.hidden = false;
  search.setAttribute("aria-expanded", "true");
  highlight();
}
function highlight() {
  [...found.children].forEach((li, i) => li.setAttribute("aria-selected", String(i === active)));
  if (active >= 0) search.setAttribute("aria-activedescendant", `option-${active}`);
  else search.removeAttribute("aria-activedescendant");
}
function close() {
  found.hidden = true;
  options = []; active = -1;
  search.setAttribute("aria-expanded", "false");
  search.removeAttribute("aria-activedescendant");
}
search.addEventListener("input", suggest);
search.addEventListener("focus", () => search.select());
search.addEventListener("blur", close);
search.addEventListener("keydown", (event) => {
  if (event.key === "Escape") close();
  if (event.key === "Enter" && options[active] !== undefined) select(options[active]);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || !options.length) return;
  event.preventDefault();
  active = (active + step + options.length) % options.length;
  highlight();
});

if (map) startMap();
themes.start();
if (detailed) { /* an example: a node that was to be predicted, where there is one with edges */
  const joined = (n) => nodes.count[n] > 0, all = [...Array(detailed).keys()];
  select(all.find((n) => nodes.label[n] < 0 && joined(n)) ?? all.find(joined) ?? 0);
}
state.ready = "true";
})();
