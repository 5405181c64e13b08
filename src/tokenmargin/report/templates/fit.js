// The page of a fit: one module, no library. It draws a few thousand marks, a table and some texts, and nothing more.
// What comes from a corpus only ever becomes a text node: the page's policy (trusted types) lets it become nothing else.

const $ = (id) => document.getElementById(id);

/** An element with properties, or attributes where it has no such property, and contents. */
function make(tag, properties = {}, ...contents) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...contents);
  return element;
}

/** The data: JSON, deflated, in base64. Tokens stand in the order in which they decide. */
async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

const data = await unpack($("data").textContent);
const two = data.classes.length === 2;
const nTokens = data.tokens.length;
const CLASSES_ON_CARD = 5;
const PHRASES_ON_CARD = 5, LEAST_PULL = 0.05;
// k: the class that is looked at, -1 for each token's own; token: the one on the card; kept: where a card stays; matches: null without a query.
const state = { k: two ? 0 : -1, token: -1, kept: null, matches: null };

// --- numbers in words

const formats = new Map();

function fixed(value, decimals, signed = false) {
  if (!Number.isFinite(value)) return "–";
  if (!formats.has(decimals)) {
    formats.set(decimals, new Intl.NumberFormat("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
  }
  const size = formats.get(decimals).format(Math.abs(value));
  return (!/[1-9]/.test(size) ? "" : value < 0 ? "−" : signed ? "+" : "") + size;
}

/** The class that a token is shown for. */
const classOf = (token) => (state.k < 0 ? data.best[token] : state.k);

function number(key, token, k = classOf(token)) {
  const { values, decimals } = data.columns[key];
  const value = values[Math.min(k, values.length - 1)][token];
  return value === null ? NaN : value / 10 ** decimals;
}

function shown(key, token, unit = true) {
  const { decimals, signed, percent } = data.columns[key];
  return fixed(number(key, token), decimals, signed) + (percent && unit ? "%" : "");
}

function interval(token) {
  const decimals = data.columns.pull.decimals, ends = data.interval.map((bound) => bound[classOf(token)][token]);
  if (ends.includes(null)) return "no interval: one text"; // Nothing is known of what other texts would say.
  return ends.map((end) => fixed(end / 10 ** decimals, decimals)).join(" to ");
}

/** The name of a class, with places where a line may end, which such names often lack. */
function nameOfClass(k, tag = "bdi") {
  const parts = data.classes[k].split(/(?<=[_./])|(?<=[a-z])(?=[A-Z])/);
  return make(tag, { dir: "auto" }, ...parts.flatMap((part, j) => (j ? [make("wbr"), part] : [part])));
}

/** A probability: more digits near 0 and 1. */
const share = (value) => `${fixed(100 * value, value > 0.0005 && value < 0.9995 ? 1 : 2)}%`;

/** What a positive and a negative number mean, in general or for a token. */
function directions(token = -1) {
  if (two) return [`→ ${data.classes[1]}`, `→ ${data.classes[0]}`];
  if (state.k < 0 && token < 0) return ["→ its class", "away from it"];
  const name = data.classes[classOf(token)];
  return [`→ ${name}`, `away from ${name}`];
}

const side = (value) => (value > 0 ? "for" : "against");
const direction = (value, token) => directions(token)[value > 0 ? 0 : 1];

/** How often a token occurs in each class, and with more than two how it pulls there: those where it pulls hardest. */
function byClass(token) {
  const { values } = data.columns.in_class;
  const counts = two ? [number("count", token) - values[0][token], values[0][token]] : values.map((row) => row[token]);
  const pulls = data.classes.map((_, k) => number("pull", token, k));
  const order = [...counts.keys()].sort((a, b) => (two ? 0 : Math.abs(pulls[b]) - Math.abs(pulls[a])) || a - b);
  const list = make("ul", { className: "by-class soft" });
  for (const k of order.slice(0, CLASSES_ON_CARD)) {
    const pull = two ? "" : `pull ${fixed(pulls[k], data.columns.pull.decimals, true)}, `;
    list.append(make("li", {}, nameOfClass(k), `: ${pull}${fixed(counts[k], 0)} ${counts[k] === 1 ? "time" : "times"}`));
  }
  const left = order.length - CLASSES_ON_CARD;
  if (left > 0) list.append(make("li", {}, `${left} more classes`));
  return list;
}

// Words to the phrases that they are in, the most deciding first.
const phrasesWith = new Map();
data.tokens.forEach((token, i) => {
  const words = token.split(" ");
  if (words.length < 2) return;
  for (const word of new Set(words)) phrasesWith.set(word, [...(phrasesWith.get(word) ?? []), i]);
});
const tokenNumbers = new Map(data.tokens.map((token, i) => [token, i]));

/** The phrases that a word is in, or the words that a phrase is made of: each with its pull, as buttons. */
function relatives(token) {
  const words = data.tokens[token].split(" ");
  const found = words.length > 1 ? [...new Set(words)].map((word) => tokenNumbers.get(word)).filter((i) => i !== undefined)
    : (phrasesWith.get(data.tokens[token]) ?? []).filter((i) => Math.abs(number("pull", i)) >= LEAST_PULL)
      .sort((a, b) => Math.abs(number("pull", b)) - Math.abs(number("pull", a)) || a - b).slice(0, PHRASES_ON_CARD);
  if (!found.length) return null;
  const list = make("p", { className: "relatives" }, words.length > 1 ? "Its words by themselves: " : "In phrases: ");
  for (const i of found) {
    const pull = number("pull", i);
    const button = make("button", { type: "button", className: `decider ${side(pull)}` }, make("bdi", {}, data.tokens[i]),
      make("small", {}, `${fixed(Math.abs(pull), 2)} ${direction(pull, i)}`));
    button.onclick = () => { keep(i, opened.parentElement, state.kept?.opener); opened.focus(); };
    list.append(button);
  }
  return list;
}

// --- the card of a token: it opens on the map, below a row of the table, or below a text

function card(token) {
  const value = number("value", token);
  const facts = make("dl", { className: "facts" });
  const fact = (name, words, soft) => {
    const meaning = make("dd", {}, words);
    if (soft) meaning.append(make("small", {}, soft));
    facts.append(make("div", {}, make("dt", {}, name), meaning));
  };
  fact("value", shown("value", token));
  fact("beyond base rate", shown("excess", token));
  fact("posterior difference", shown("posterior_difference", token));
  fact("α_s", shown("alpha", token));
  fact("score", shown("score", token));
  fact("attention", shown("attention", token));
  fact("selected", shown("selected", token));
  const spread = data.columns.spread ? `, spread ${shown("spread", token)}` : "";
  fact("pull", shown("pull", token), interval(token) + spread);
  const again = data.columns.first ? `; over resamples ${shown("rank_low", token)} to ${shown("rank_high", token)}, first in ${shown("first", token)}` : "";
  fact("decides", shown("decides", token), `rank ${fixed(token + 1, 0)} of ${fixed(nTokens, 0)}${again}`);
  const buttons = make("p", { className: "buttons" });
  const held = textsWith(token).length;
  if (held) {
    const label = held === 1 ? "Show its text" : `Show its ${held} texts`;
    buttons.append(make("button", { type: "button", onclick: () => showTexts(token) }, label));
  }
  buttons.append(make("button", { type: "button", className: "quiet", onclick: close }, "Close"));
  const examples = make("ul", { className: "examples" });
  for (const [k, ...words] of snippets(token)) {
    examples.append(make("li", {}, nameOfClass(k, "b"), ": ", make("span", { dir: "auto" }, ...words)));
  }
  if (!examples.children.length) {
    const why = data.documents.length ? "It is in none of the texts of this page." : "Texts were left out of this page.";
    examples.append(make("li", { className: "soft" }, why));
  }
  const count = `in ${fixed(number("documents", token), 0)} texts, ${fixed(number("count", token), 0)} times`;
  return make("section", { className: "token-card", tabIndex: -1, "aria-label": `Token ${data.tokens[token]}` },
    make("div", { className: "who" },
      make("h3", {}, make("bdi", {}, data.tokens[token])),
      make("p", { className: `way ${side(value)}` }, `pulls ${direction(value, token)}`),
      make("p", { className: "soft", dir: "auto" }, data.words[token]),
      make("p", { className: "soft" }, count),
      byClass(token),
      ...[relatives(token)].filter(Boolean),
      buttons),
    facts,
    examples);
}

let opened = null, cardRow = null; // The card, and the row of the table that it is in.

/** Put the card of a token, or none (-1), in its place; a place that is gone is replaced by the map's. */
function show(token, place = $("map-card")) {
  state.token = token;
  panels.forEach(drawOver);
  const host = place.isConnected ? place : $("map-card");
  if (cardRow && !cardRow.contains(host)) cardRow.remove();
  cardRow = host.closest(".card-row");
  opened?.remove();
  opened = token < 0 ? null : card(token);
  if (opened) host.append(opened);
}

/** Keep a card open until it is closed; `opener` gets the focus back. */
function keep(token, place, opener) {
  release();
  state.kept = { token, place, opener };
  opener?.setAttribute("aria-expanded", "true");
  show(token, place);
}

function release() {
  state.kept?.opener?.removeAttribute("aria-expanded");
  state.kept = null;
}

function close() {
  const back = opened?.contains(document.activeElement) ? state.kept?.opener : null;
  release();
  show(-1);
  (back?.isConnected ? back : null)?.focus();
}

/** After a look at another token: the kept card again. Else the last one stays, so that its buttons can be reached. */
function restore() {
  if (state.kept) show(state.kept.token, state.kept.place);
  else show(state.token);
}

// --- what a pointer sees, said to those who do not; late, so that a sweep over the map does not chatter

const PAUSE = 400;
let waiting = 0;

function say(words) {
  clearTimeout(waiting);
  waiting = setTimeout(() => { $("live").textContent = words; }, PAUSE);
}

function spoken(token) {
  const value = number("value", token);
  return `${data.tokens[token]} pulls ${direction(value, token)}: value ${shown("value", token)}, beyond the base rate `
    + `${shown("excess", token)}, attention ${shown("attention", token)}, in `
    + `${fixed(number("documents", token), 0)} texts; number ${token + 1} of ${nTokens} by how much it decides.`;
}
