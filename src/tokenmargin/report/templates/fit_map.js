// --- the map: two panels over the same horizontal axis, each a canvas for the marks and one above it for what changes

const EDGE = { right: 14, top: 26, bottom: 44 };
const CELL = 24; // Pixels; a pointer finds marks at most so far away.
const LABELS = 12;
const SMALL = 2.5, RING = 4, GAP = 6; // Marks up to this radius are dots; the ring around the token that is looked at; between names.
const panels = [...document.querySelectorAll(".drawing")].map((box) => {
  const [base, over] = box.querySelectorAll("canvas");
  const log = box.dataset.height === "attention";
  return { box, base, over, log, key: box.dataset.height, left: log ? 66 : 40 };
});

// Read when the colours can have changed, and not while a pointer moves: asking makes the browser lay the page out.
let palette = {};

function readPalette() {
  const style = getComputedStyle($("map"));
  for (const name of ["for", "against", "ink", "soft", "line", "axis", "card"]) palette[name] = style.getPropertyValue(`--${name}`).trim();
}

/** How much a token decides for the class looked at: the area of its mark. */
function weight(token) {
  return number("decides", token);
}

const short = (name) => (name.length > 18 ? `${[...name].slice(0, 17).join("")}…` : name);

function ticks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n++) found.push(n * step);
  return { found, decimals: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

function decades(low, high) {
  const found = [];
  for (let n = Math.ceil(low); n <= high; n++) found.push(n);
  return found;
}

/** Where every token stands in a panel, and which tokens stand in each cell of a grid. */
function arrange(panel) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = panel.box;
  for (const canvas of [panel.base, panel.over]) {
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
  }
  let west = 0, east = 0, low = panel.log ? Infinity : 0, high = panel.log ? -Infinity : 0, heaviest = 0;
  const up = new Float64Array(nTokens), weights = new Float64Array(nTokens);
  for (let i = 0; i < nTokens; i++) {
    const value = number(panel.key, i);
    up[i] = panel.log ? (value > 0 ? Math.log10(value) : NaN) : value;
    if (up[i] < low) low = up[i];
    if (up[i] > high) high = up[i];
    const beyond = number("excess", i) || 0;
    if (beyond < west) west = beyond;
    if (beyond > east) east = beyond;
    weights[i] = weight(i) || 0;
    heaviest = Math.max(heaviest, weights[i]);
  }
  if (!(high > low)) [low, high] = Number.isFinite(high) ? [high - 1, high + 1] : [-1, 1];
  const air = 0.06 * (high - low);
  if (!(east > west)) [west, east] = [-1, 1];
  const margin = 0.05 * (east - west);
  Object.assign(panel, { width, height, low: low - air, high: high + air, west: west - margin, east: east + margin });
  panel.x = (value) => panel.left + (width - panel.left - EDGE.right) * (value - panel.west) / (panel.east - panel.west);
  panel.y = (value) => height - EDGE.bottom - (height - EDGE.top - EDGE.bottom) * (value - panel.low) / (panel.high - panel.low);
  panel.xs = new Float32Array(nTokens);
  panel.ys = new Float32Array(nTokens);
  panel.rs = new Float32Array(nTokens);
  panel.cells = new Map();
  for (let i = 0; i < nTokens; i++) {
    panel.xs[i] = panel.x(number("excess", i) || 0);
    panel.ys[i] = Number.isNaN(up[i]) ? height - EDGE.bottom : panel.y(up[i]); // No attention: on the lower edge.
    panel.rs[i] = 1.4 + 7 * Math.sqrt(weights[i] / (heaviest || 1));
    const cell = Math.floor(panel.xs[i] / CELL) * 4096 + Math.floor(panel.ys[i] / CELL);
    if (!panel.cells.has(cell)) panel.cells.set(cell, []);
    panel.cells.get(cell).push(i);
  }
}

/** A disc pulls one way and a triangle the other: never colour alone. */
function mark(pen, x, y, r, value) {
  pen.beginPath();
  if (value > 0) pen.arc(x, y, r, 0, 2 * Math.PI);
  else {
    const h = 1.25 * r;
    pen.moveTo(x, y - h);
    pen.lineTo(x + h, y + 0.8 * h);
    pen.lineTo(x - h, y + 0.8 * h);
    pen.closePath();
  }
}

function drawAxes(pen, panel) {
  const { width, height } = panel, right = width - EDGE.right, bottom = height - EDGE.bottom;
  pen.font = "12px system-ui, sans-serif";
  pen.lineWidth = 1;
  const line = (x1, y1, x2, y2, name) => {
    pen.strokeStyle = palette[name];
    pen.beginPath();
    pen.moveTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
    pen.lineTo(Math.round(x2) + 0.5, Math.round(y2) + 0.5);
    pen.stroke();
  };
  pen.fillStyle = palette.soft;
  pen.textAlign = "center";
  pen.textBaseline = "top";
  const along = ticks(panel.west, panel.east, width < 380 ? 4 : 6);
  for (const value of along.found) {
    line(panel.x(value), EDGE.top, panel.x(value), bottom, Math.abs(value) < 1e-9 ? "axis" : "line");
    const words = `${fixed(value, along.decimals, true)}%`;
    pen.fillText(words, Math.min(panel.x(value), width - pen.measureText(words).width / 2), bottom + 6);
  }
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  const up = ticks(panel.low, panel.high, 6);
  if (panel.log) up.found = decades(panel.low, panel.high);
  for (const value of up.found) {
    const zero = !panel.log && Math.abs(value) < 1e-9;
    line(panel.left, panel.y(value), right, panel.y(value), zero ? "axis" : "line");
    const words = panel.log ? `${fixed(10 ** value, Math.max(0, -value))}%` : fixed(value, up.decimals, true);
    pen.fillText(words, panel.left - 6, panel.y(value), panel.left - 8); // Pressed together where it is long.
  }
  const [plus, minus] = directions().map(short);
  pen.textBaseline = "alphabetic";
  const name = (words, x, y, align, look, share = 0.28) => {
    pen.fillStyle = palette[look];
    pen.textAlign = align;
    pen.fillText(words, x, y, (right - panel.left) * share); // Pressed together where there is no room.
  };
  name("beyond base rate", (panel.left + right) / 2, height - 6, "center", "ink", 0.42);
  name(two ? `← ${short(data.classes[0])}` : "← other classes", panel.left, height - 6, "left", "against");
  name(state.k < 0 ? "its class →" : `${short(data.classes[two ? 1 : state.k])} →`, right, height - 6, "right", "for");
  if (panel.log) name("↑ share of attention", panel.left, 16, "left", "ink", 0.6);
  else {
    name(`↑ value ${plus}`, panel.left, 16, "left", "for", 0.6);
    name(`↓ ${minus}`, right, 16, "right", "against");
  }
}

/** Names of the tokens that decide most, each where it covers neither another name nor a mark that is more than a dot. */
function drawNames(pen, panel) {
  const heavy = [...panel.rs.keys()].sort((a, b) => panel.rs[b] - panel.rs[a]).slice(0, 4 * LABELS);
  const around = (i, r) => [panel.xs[i] - r, panel.ys[i] - r, 2 * r, 2 * r];
  const taken = [...panel.rs.keys()].filter((i) => panel.rs[i] > SMALL).map((i) => around(i, panel.rs[i]));
  if (state.token >= 0) taken.push(around(state.token, panel.rs[state.token] + RING));
  const free = ([x, y, w, h]) => x >= panel.left && x + w <= panel.width - 2 && y >= EDGE.top && y + h <= panel.height - EDGE.bottom
    && taken.every(([a, b, c, d]) => x + w <= a || a + c <= x || y + h <= b || b + d <= y);
  panel.named = new Set();
  // The token that is looked at comes first: where its name has no place, it will stand beside the ring all the same.
  for (const i of state.token < 0 ? heavy : [state.token, ...heavy.filter((j) => j !== state.token)]) {
    if (panel.named.size === LABELS) break;
    const words = short(data.tokens[i]);
    const w = pen.measureText(words).width, h = 14, x = panel.xs[i], y = panel.ys[i], r = panel.rs[i] + (i === state.token ? RING : 0) + 3;
    const box = [[x + r, y - h / 2], [x - r - w, y - h / 2], [x - w / 2, y - r - h], [x - w / 2, y + r],
      [x + 0.7 * r, y - 0.7 * r - h], [x - 0.7 * r - w, y - 0.7 * r - h], [x + 0.7 * r, y + 0.7 * r], [x - 0.7 * r - w, y + 0.7 * r]]
      .map(([a, b]) => [a, b, w, h]).find(free);
    if (!box && i === state.token) taken.push([besideRing(panel, i, 1.1 * w) - GAP, y - 10, 1.1 * w + 2 * GAP, 20]);
    if (!box) continue;
    taken.push([box[0] - GAP, box[1], w + 2 * GAP, h]);
    panel.named.add(i);
    write(pen, words, box[0], box[1] + h / 2, palette.ink);
  }
}

/** Where a name of some width begins beside the ring of a token: on the right, or on the left where that has no room. */
function besideRing(panel, i, w) {
  const x = panel.xs[i], r = panel.rs[i] + RING + 7;
  return x + r + w < panel.width ? x + r : Math.max(6, x - r - w);
}

/** Words with a rim of the paper's colour, so that marks below do not blur them. */
function write(pen, words, x, y, ink) {
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.lineJoin = "round";
  pen.lineWidth = 4;
  pen.strokeStyle = palette.card;
  pen.strokeText(words, x, y);
  pen.fillStyle = ink;
  pen.fillText(words, x, y);
}

function draw(panel) {
  const pen = panel.base.getContext("2d");
  pen.clearRect(0, 0, panel.width, panel.height);
  drawAxes(pen, panel);
  for (let i = nTokens - 1; i >= 0; i--) {
    const value = number("value", i), r = panel.rs[i];
    mark(pen, panel.xs[i], panel.ys[i], r, value);
    pen.globalAlpha = r > SMALL ? 0.85 : 0.42;
    pen.fillStyle = palette[side(value)];
    pen.fill();
    if (r > SMALL) {
      pen.globalAlpha = 1;
      pen.lineWidth = 0.8;
      pen.strokeStyle = palette.card;
      pen.stroke();
    }
  }
  pen.globalAlpha = 1;
  pen.font = "600 13px system-ui, sans-serif";
  drawNames(pen, panel);
  drawOver(panel);
}

/** What a search found, and the token that is looked at: in both panels. */
function drawOver(panel) {
  if (!panel.xs) return;
  const pen = panel.over.getContext("2d"), searching = state.matches !== null;
  pen.clearRect(0, 0, panel.width, panel.height);
  panel.base.classList.toggle("faint", searching);
  if (searching) {
    for (const i of state.matches.toReversed()) {
      mark(pen, panel.xs[i], panel.ys[i], Math.max(3, panel.rs[i]), number("value", i));
      pen.fillStyle = palette[side(number("value", i))];
      pen.fill();
    }
  }
  if (state.token < 0) return;
  const i = state.token, x = panel.xs[i], y = panel.ys[i], r = panel.rs[i] + RING;
  pen.lineWidth = 2.5;
  pen.strokeStyle = palette.ink;
  pen.beginPath();
  pen.arc(x, y, r, 0, 2 * Math.PI);
  pen.stroke();
  if (panel.named.has(i) && !searching) return; // Its name is there already.
  pen.font = "700 14px system-ui, sans-serif";
  const words = short(data.tokens[i]), w = pen.measureText(words).width;
  const at = besideRing(panel, i, w);
  // A ground of its own: below it are other names and marks.
  pen.fillStyle = palette.card;
  pen.fillRect(at - 4, y - 10, w + 8, 20);
  pen.lineWidth = 1;
  pen.strokeStyle = palette.axis;
  pen.strokeRect(Math.round(at - 4) + 0.5, Math.round(y - 10) + 0.5, Math.round(w + 8), 20);
  write(pen, words, at, y, palette.ink);
}

/** The token nearest to a place in a panel, within a cell; -1 for none. */
function nearest(panel, x, y) {
  let best = -1, least = CELL;
  const column = Math.floor(x / CELL), row = Math.floor(y / CELL);
  for (let a = column - 1; a <= column + 1; a++) {
    for (let b = row - 1; b <= row + 1; b++) {
      for (const i of panel.cells.get(a * 4096 + b) ?? []) {
        const far = Math.hypot(panel.xs[i] - x, panel.ys[i] - y) - panel.rs[i];
        if (far < least) [best, least] = [i, far];
      }
    }
  }
  return best;
}

/** The next token by how much it decides, among those found where there is a search. */
function step(by) {
  const among = state.matches ?? null, n = among ? among.length : nTokens;
  if (!n) return;
  const now = state.token < 0 ? -1 : among ? among.indexOf(state.token) : state.token;
  const next = Math.min(n - 1, Math.max(0, now + by));
  look(among ? among[next] : next);
}

function look(token) {
  if (token === state.token) return;
  show(token);
  say(spoken(token));
}

function startMap() {
  readPalette();
  for (const panel of panels) {
    panel.over.addEventListener("pointermove", (event) => {
      const token = nearest(panel, event.offsetX, event.offsetY);
      panel.over.style.cursor = token < 0 ? "default" : "pointer";
      if (token >= 0) look(token);
    });
    panel.over.addEventListener("pointerleave", restore);
    panel.over.addEventListener("click", (event) => {
      const token = nearest(panel, event.offsetX, event.offsetY);
      if (token >= 0) keep(token, $("map-card"), $("map"));
    });
    new ResizeObserver(() => { arrange(panel); draw(panel); }).observe(panel.box);
  }
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -nTokens, End: nTokens };
  $("map").addEventListener("keydown", (event) => {
    if (event.key in steps) step(steps[event.key]);
    else if (event.key === "Enter" && state.token >= 0) {
      keep(state.token, $("map-card"), $("map"));
      opened.focus();
    } else return;
    event.preventDefault();
  });
  const redraw = () => { readPalette(); panels.forEach(draw); };
  for (const media of ["(prefers-color-scheme: dark)", "print"]) matchMedia(media).addEventListener("change", redraw);
}
