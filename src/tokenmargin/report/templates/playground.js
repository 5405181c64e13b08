// The page: tokens and starts are dragged or typed, everything is computed again at once.
const SVG = "http://www.w3.org/2000/svg", COLOURS = ["#1f77b4", "#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#a6761d"];
const SHAPES = ["circle", "square", "triangle"];
const find = (id) => document.getElementById(id);
const made = (kind, attributes, ...children) => {
  const one = kind.startsWith("svg:") ? document.createElementNS(SVG, kind.slice(4)) : document.createElement(kind);
  for (const [name, value] of Object.entries(attributes ?? {})) one.setAttribute(name, value);
  one.append(...children);
  return one;
};
const shown = (x, digits = 3) => Number(x.toFixed(digits)).toString();
const SIDE = 600;
let state = null, found = null, moment = 1, job = 0;

const place = (x, y) => [(x / state.view + 1) * SIDE / 2, (1 - y / state.view) * SIDE / 2];
const back = (px, py) => [(2 * px / SIDE - 1) * state.view, (1 - 2 * py / SIDE) * state.view];

function load(scene) {
  state = {
    view: scene.view, joint: scene.joint ?? null, bend: scene.bend ?? null, starts: scene.starts.map((one) => [...one]),
    inputs: scene.inputs.map((one) => Object.assign(one.map((t) => ({ ...t })), { label: one.label })),
  };
  find("scene-words").textContent = scene.words ?? "";
  find("save").disabled = Boolean(state.bend);
  find("save").title = state.bend ? "A file of a problem holds no head with a kink." : "";
  moment = 1;
  find("moment").value = 100;
  table();
  update();
}

// What the picture, the sentences and the bars show.
function solve() {
  const margins = state.joint || state.bend ? [] : localMargins(state.inputs);
  const runs = state.starts.map((start) => {
    if (state.bend) return bentFlow(state.inputs, start, state.bend);
    if (!state.joint) return flow(state.inputs, start);
    const path = jointFlow(state.inputs, [...state.joint, ...start], 3000, 0.02);
    const [a, b, c, d] = jointForce(state.inputs, path[path.length - 1]);
    return { path: path.map((y) => [y[2], y[3]]), heads: path.map((y) => [y[0], y[1]]), kind: "joint", moves: [[c, d], [a, b]] };
  });
  return { margins, runs };
}

const called = (chosen) => JSON.stringify(chosen.map((one) => (Array.isArray(one) ? one : [one])));
const colourOf = (run) => {
  const k = found.margins.findIndex((one) => run.kind === "diverges" && called(one.chosen) === called(run.chosen));
  return k >= 0 ? COLOURS[k % COLOURS.length] : "#777777";
};

function update(quickly = false) {
  found = solve();
  draw();
  tell();
  bars();
  basins(quickly);
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(saved()))}`);
}

function arrow(p, colour, dashed) {
  const size = Math.hypot(...p), [x, y] = place(p[0] / size * state.view * 0.92, p[1] / size * state.view * 0.92);
  const [a, b] = place(0, 0), angle = Math.atan2(y - b, x - a) * 180 / Math.PI;
  return made("svg:g", { stroke: colour, fill: colour, "stroke-width": 3 },
    made("svg:line", { x1: a, y1: b, x2: x, y2: y, "stroke-dasharray": dashed ? "8 6" : "none" }),
    made("svg:path", { d: "M0 0L-12 -6L-12 6Z", transform: `translate(${x} ${y}) rotate(${angle})` }));
}

function mark(shape, x, y, size, attributes) {
  if (shape === "square") return made("svg:rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, ...attributes });
  if (shape === "triangle") return made("svg:path", { d: `M${x} ${y - size * 1.2}L${x + size * 1.1} ${y + size}L${x - size * 1.1} ${y + size}Z`, ...attributes });
  if (shape === "diamond") return made("svg:path", { d: `M${x} ${y - size}L${x + size} ${y}L${x} ${y + size}L${x - size} ${y}Z`, ...attributes });
  return made("svg:circle", { cx: x, cy: y, r: size, ...attributes });
}

function draw() {
  const plane = find("plane"), [a, b] = place(0, 0);
  plane.replaceChildren(
    made("svg:path", { d: `M0 ${b}H${SIDE}M${a} 0V${SIDE}`, class: "axis" }),
    ...found.margins.map((one, k) => arrow(one.p, COLOURS[k % COLOURS.length], !one.isGlobal)),
    ...found.runs.flatMap((run) => [line(run.path, colourOf(run)), ...(run.heads ? [line(run.heads, "#d95f02", "6 4")] : [])]),
    ...state.inputs.flatMap((one, i) => one.map((t, k) => dragged(t, SHAPES[i % SHAPES.length], 9, "token", `${i}.${k}`,
      state.joint ? "" : shown(t.score, 2)))),
    ...found.runs.map((run) => {
      const at = run.path[Math.min(run.path.length - 1, Math.round(moment * (run.path.length - 1)))];
      return mark("circle", ...place(...at), 5, { class: "now" });
    }),
    ...state.starts.map((one, k) => dragged({ x: one[0], y: one[1] }, "diamond", 9, "start", `p.${k}`, "")),
  );
}

// A path up to the edge of the picture; an SVG line of numbers far outside it is drawn wrongly by some browsers.
function line(path, colour, dashes = "none") {
  const points = [];
  for (const p of path) {
    points.push(place(...p).map((one) => Math.max(-SIDE, Math.min(2 * SIDE, one)).toFixed(1)).join(","));
    if (Math.max(Math.abs(p[0]), Math.abs(p[1])) > 2 * state.view) break;
  }
  return made("svg:polyline", { points: points.join(" "), stroke: colour, "stroke-dasharray": dashes, class: "path" });
}

function dragged(point, shape, size, kind, name, words) {
  const [x, y] = place(point.x, point.y);
  const one = made("svg:g", { class: kind, "data-name": name }, mark(shape, x, y, size, {}));
  if (words) one.append(made("svg:text", { x: x + size + 3, y: y + 4 }, words));
  return one;
}

const list = (words) => words.join(", ");
const named = (chosen) => list(chosen.map((one, i) => `${[one].flat().map((t) => t + 1).join(" and ")} of input ${i + 1}`));

function tell() {
  const rows = found.margins.map((one, k) => made("tr", {},
    made("td", {}, swatch(COLOURS[k % COLOURS.length])), made("td", {}, named(one.chosen)),
    made("td", {}, `(${shown(one.p[0])}, ${shown(one.p[1])})`), made("td", {}, shown(one.margin, 4)),
    made("td", {}, one.isGlobal ? "best tokens" : "local")));
  find("margins").replaceChildren(...rows);
  find("none").hidden = rows.length > 0 || Boolean(state.joint || state.bend);
  const loss = (p) => { const x = risk(state.inputs, p, state.bend); return x > 0 ? x.toPrecision(3) : "below 1e-308"; };
  find("ends").replaceChildren(...found.runs.map((run, k) => {
    const p = run.path[run.path.length - 1], start = `From (${shown(state.starts[k][0], 2)}, ${shown(state.starts[k][1], 2)}) `;
    const ends = {
      joint: () => `p moves along (${run.moves[0].map((x) => shown(x)).join(", ")}) and v along (${run.moves[1].map((x) => shown(x)).join(", ")}), at lengths of ${shown(Math.hypot(...p), 0)} and ${shown(Math.hypot(...run.heads.at(-1)), 0)}.`,
      finite: () => `p comes to rest at (${shown(p[0])}, ${shown(p[1])}): nothing is selected. Loss ${loss(p)}.${holds(run)}`,
      stalled: () => "nothing was decided within the steps allowed.",
      diverges: () => `p goes to infinity along (${run.velocity.map((x) => shown(x)).join(", ")}) and selects token ${named(run.chosen)}. ${state.bend ? "" : agrees(run)}`,
      mixed: () => `part of p comes to rest and the rest goes to infinity along (${run.velocity.map((x) => shown(x)).join(", ")}): tokens ${named(run.chosen)} keep sharing attention.${holds(run)}`,
    };
    return made("li", {}, start + ends[run.kind]());
  }));
}

const holds = (run) => (run.held?.length ? ` The kink of input ${run.held.map((i) => i + 1).join(" and of input ")} holds it.` : "");
const unit = (p) => { const size = Math.hypot(...p) || 1; return p.map((x) => x / size); };

// The limit of the flow beside the max-margin direction of what it selects: two computations that share no step.
function agrees(run) {
  if (run.chosen.some((one) => one.length > 1)) return "Some tokens tie.";
  const best = attSvm(state.inputs, run.chosen.map((one) => one[0]));
  if (!best) return "No direction separates these tokens.";
  const apart = Math.hypot(...unit(best.p).map((x, j) => x - run.velocity[j]));
  return apart < 1e-6 ? "That is the max-margin direction of these tokens, to 1e-6."
    : `The max-margin direction of these tokens is ${apart.toPrecision(2)} away.`;
}

const swatch = (colour) => {
  const one = made("span", { class: "swatch" });
  one.style.background = colour;
  return one;
};

function bars() {
  const run = found.runs[0];
  if (!run) { find("bars").replaceChildren(); return; }
  const p = run.path[Math.round(moment * (run.path.length - 1))];
  find("moment-words").textContent = `|p| = ${shown(Math.hypot(...p), 2)}`;
  find("bars").replaceChildren(...state.inputs.map((one, i) => {
    const shares = attention(one, p).map(Math.exp);
    return made("div", { class: "input" }, made("p", {}, `Input ${i + 1}`), ...shares.map((share, t) => {
      const bar = made("span", { class: "bar" });
      bar.style.width = `${(100 * share).toFixed(1)}%`;
      return made("div", { class: "row" }, made("span", { class: "name" }, `${t + 1}`), made("span", { class: "track" }, bar),
        made("span", { class: "share" }, share > 0.0005 ? `${(100 * share).toFixed(1)}%` : share.toExponential(0)));
    }));
  }));
}

// The colour of every start, coarse first. Paths in the plane do not cross, so that one which enters a region whose
// surroundings are all of one colour ends where that region ends.
function basins(quickly) {
  const canvas = find("basins"), own = ++job;
  canvas.getContext("2d").clearRect(0, 0, SIDE, SIDE);
  if (state.joint || state.bend) return;
  const rounds = quickly ? [12] : [12, 48];
  const paint = (n) => {
    const labels = new Array(n * n).fill(null);
    let k = 0;
    const order = [...labels.keys()].sort((a, b) => (a * 7919) % (n * n) - (b * 7919) % (n * n));
    const slice = () => {
      if (own !== job) return;
      const until = performance.now() + 12;
      while (k < order.length && performance.now() < until) cell(order[k++], n, labels);
      if (k < order.length) { setTimeout(slice, 0); return; }
      if (rounds.length) paint(rounds.shift());
      else canvas.dataset.done = own;
    };
    slice();
  };
  paint(rounds.shift());
}

function cell(k, n, labels) {
  const side = SIDE / n, start = back((k % n + 0.5) * side, (Math.floor(k / n) + 0.5) * side);
  const known = (p) => {
    const [column, row] = place(...p).map((one) => Math.floor(one / side));
    if (column < 1 || row < 1 || column >= n - 1 || row >= n - 1) return null;
    const own = labels[row * n + column];
    for (let c = -1; own && c <= 1; c++) {
      for (let r = -1; r <= 1; r++) if (labels[(row + r) * n + column + c] !== own) return null;
    }
    return own && { known: own };
  };
  const run = flow(state.inputs, start, { tolerance: 1e-4, most: 1500, settled: 1e-7, known });
  labels[k] = run.known ?? colourOf(run);
  const brush = find("basins").getContext("2d");
  brush.fillStyle = labels[k];
  brush.fillRect((k % n) * side, Math.floor(k / n) * side, side + 0.5, side + 0.5);
}

// The same as numbers: every token in a row, for the keyboard and for readers of screens.
function table() {
  const field = (value, name, change) => {
    const one = made("input", { type: "number", step: "any", value: String(value), "aria-label": name });
    one.addEventListener("input", () => { if (Number.isFinite(one.valueAsNumber)) { change(one.valueAsNumber); update(); } });
    return made("td", {}, one);
  };
  const rows = state.inputs.flatMap((one, i) => one.map((t, k) => {
    const where = `token ${k + 1} of input ${i + 1}`, row = made("tr", {}, made("th", { scope: "row" }, `${i + 1}.${k + 1}`),
      field(t.x, `x of ${where}`, (v) => { t.x = v; }), field(t.y, `y of ${where}`, (v) => { t.y = v; }),
      field(t.score, `score of ${where}`, (v) => { t.score = v; }));
    row.append(made("td", {}, button("remove", `Remove ${where}`, () => {
      if (one.length > 2) one.splice(k, 1);
      else if (state.inputs.length > 1) state.inputs.splice(i, 1);
      table(); update();
    })));
    return row;
  }));
  const starts = state.starts.map((p, k) => made("tr", {}, made("th", { scope: "row" }, `p ${k + 1}`),
    field(p[0], `x of start ${k + 1}`, (v) => { p[0] = v; }), field(p[1], `y of start ${k + 1}`, (v) => { p[1] = v; }),
    made("td", {}, "start"), made("td", {})));
  find("tokens").replaceChildren(...rows, ...starts);
}

function button(words, label, act) {
  const one = made("button", { type: "button", "aria-label": label }, words);
  one.addEventListener("click", act);
  return one;
}

// The problem as `tokenmargin check --problem` takes it: keys in the plane, the score as third coordinate of a token.
function asProblem() {
  const longest = Math.max(...state.inputs.map((one) => one.length));
  const padded = (one, of, none) => Array.from({ length: longest }, (_, t) => (t < one.length ? of(one[t]) : none));
  const problem = {
    labels: state.inputs.map((one) => one.label),
    keys: state.inputs.map((one) => padded(one, (t) => [t.x, t.y], [0, 0])),
    mask: state.inputs.map((one) => padded(one, () => true, false)),
    start: state.starts[0],
  };
  if (state.joint) return { ...problem, tokens: problem.keys, head: state.joint };
  return {
    ...problem, head: [0, 0, 1],
    tokens: state.inputs.map((one) => padded(one, (t) => [t.x, t.y, one.label * t.score], [0, 0, 0])),
  };
}

const saved = () => ({
  view: state.view, joint: state.joint, bend: state.bend, starts: state.starts,
  inputs: state.inputs.map((one) => ({ label: one.label, tokens: one.map((t) => [t.x, t.y, t.score]) })),
});

// A state from the address of the page, every number of it checked: an address is what somebody else has written.
function restored(text) {
  const given = JSON.parse(decodeURIComponent(text)), finite = (...all) => all.every((x) => Number.isFinite(x) && Math.abs(x) <= 1e6);
  const pairs = (all) => Array.isArray(all) && all.length <= 20 && all.every((one) => one.length === 2 && finite(...one));
  const inputs = given.inputs.map((one) => input(one.label < 0 ? -1 : 1, ...one.tokens));
  const fits = inputs.length >= 1 && inputs.length <= 6 && inputs.every((one) => one.length >= 2 && one.length <= 10
    && one.every((t) => finite(t.x, t.y, t.score)));
  if (!fits || !pairs(given.starts) || !finite(given.view) || given.view <= 0 || (given.joint && !finite(...given.joint))
    || (given.bend && (!finite(given.bend.at, given.bend.by) || given.bend.by < 0))) {
    throw new Error("not a state");
  }
  return { view: given.view, joint: given.joint ?? null, bend: given.bend ?? null, starts: given.starts, inputs };
}

function pointers() {
  const plane = find("plane");
  let held = null;
  const at = (event) => {
    const box = plane.getBoundingClientRect();
    return back((event.clientX - box.left) / box.width * SIDE, (event.clientY - box.top) / box.height * SIDE);
  };
  plane.addEventListener("pointerdown", (event) => {
    held = event.target.closest("[data-name]")?.dataset.name ?? null;
    if (held) { plane.setPointerCapture(event.pointerId); event.preventDefault(); }
  });
  plane.addEventListener("pointermove", (event) => {
    if (!held) return;
    const [x, y] = at(event).map((one) => Math.round(one * 1000) / 1000), [i, k] = held.split(".");
    if (i === "p") state.starts[k] = [x, y];
    else Object.assign(state.inputs[i][k], { x, y });
    update(true);
  });
  const drop = () => { if (held) { held = null; table(); update(); } };
  plane.addEventListener("pointerup", drop);
  plane.addEventListener("pointercancel", drop);
}

function begin() {
  find("scenes").replaceChildren(...SCENES.map((scene) => button(scene.name, scene.name, () => load(scene))));
  pointers();
  find("moment").addEventListener("input", (event) => { moment = event.target.valueAsNumber / 100; draw(); bars(); });
  find("add-token").addEventListener("click", () => {
    const last = state.inputs[state.inputs.length - 1];
    if (last.length < 10) last.push(token(state.view / 3, -state.view / 3, 0));
    table(); update();
  });
  find("add-input").addEventListener("click", () => {
    if (state.inputs.length < 6) state.inputs.push(input(1, [state.view / 3, 0, 1], [-state.view / 3, 0, 0]));
    table(); update();
  });
  find("add-start").addEventListener("click", () => { state.starts.push([state.view / 2, state.view / 2]); table(); update(); });
  find("save").addEventListener("click", () => {
    const link = made("a", { download: "problem.json", href: URL.createObjectURL(new Blob([JSON.stringify(asProblem(), null, 1)])) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  try {
    load({ ...restored(location.hash.slice(1)), words: "Loaded from the address of this page." });
  } catch {
    load(SCENES[0]);
  }
}

globalThis.tokenmargin = { localMargins, attSvm, flow, bentFlow, jointFlow, asProblem: () => asProblem() };
begin();
