// --- the texts, with the words and phrases that decided

const TEXTS = 20; // A page.
const SHADES = 4;
const SNIPPET = 60; // Characters on either side of a word.
const DECIDERS = 6;
const LINES = 3; // Lines below each other, for phrases that overlap.
const reading = { token: -1, page: 0 };
const ONE = 100000; // Probabilities come as whole numbers, which this is one of.
const texts = data.documents.map(([row, truth, predicted, against, probabilities, text, left, tokens, pulls, attentions, withouts, places]) =>
  ({ row, truth, predicted, against, text, left, tokens, pulls, attentions, places,
    probabilities: probabilities.map((p) => p / ONE), withouts: withouts.map((p) => p / ONE) }));

const holders = new Map(); // Token to the texts that hold it.
for (const text of texts) {
  for (const token of text.tokens) holders.set(token, [...(holders.get(token) ?? []), text]);
}

const textsWith = (token) => holders.get(token) ?? [];
const nameIn = (text, j) => (typeof text.tokens[j] === "number" ? data.tokens[text.tokens[j]] : text.tokens[j]);

/** With two classes a colour means a class; with more, toward the predicted class or toward the other one. */
function sideIn(text, pull) {
  return side(two && text.predicted === 0 ? -pull : pull);
}

function directionIn(text, pull) {
  return `→ ${data.classes[pull > 0 ? text.predicted : text.against]}`;
}

/** Where the words and phrases stand: [start, end, which] of each place, in the order of the text. */
function spans(text) {
  const found = [];
  text.places.forEach((numbers, j) => {
    for (let i = 0; i < numbers.length; i += 2) found.push([numbers[i], numbers[i] + numbers[i + 1], j]);
  });
  return found.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
}

/** Sentences around a token: those chosen for it, or else the first that the texts give; [class, ...nodes] of each. */
function snippets(token) {
  const chosen = data.examples[token];
  if (chosen) return chosen.map(([k, words]) => [k, ...markedWords(words, token)]);
  return textsWith(token).slice(0, 3).map((text) => {
    const [start, length] = text.places[text.tokens.indexOf(token)], end = start + length;
    const before = text.text.slice(Math.max(0, start - SNIPPET), start), after = text.text.slice(end, end + SNIPPET);
    return [text.truth, `…${before}`, make("mark", { className: "here" }, text.text.slice(start, end)), `${after}…`];
  });
}

function markedWords(words, token) {
  const small = words.toLowerCase();
  for (const word of [...data.words[token].toLowerCase().split(/,\s*/), data.tokens[token].toLowerCase()]) {
    const at = word ? small.indexOf(word) : -1;
    // Lower case can change how long a text is (İ): then nothing is marked rather than the wrong letters.
    if (at < 0 || small.length !== words.length) continue;
    const end = at + word.length;
    return [words.slice(0, at), make("mark", { className: "here" }, words.slice(at, end)), words.slice(end)];
  }
  return [words];
}

const isPhrase = (text, j) => nameIn(text, j).includes(" ");
const shadeOf = (text, j, largest) => Math.round(SHADES * Math.abs(text.pulls[j]) / largest);

const withoutIt = (text, j) => `without it ${share(text.probabilities[text.predicted])} → ${share(text.withouts[j])}`;

/** What is said of a word or phrase when a pointer rests on it; what is left without it where that is known. */
function titleOf(text, j) {
  const without = text.withouts ? `; ${withoutIt(text, j)}` : "";
  return `${nameIn(text, j)}: ${fixed(text.pulls[j] / 1000, 3, true)} ${directionIn(text, text.pulls[j])}, ${fixed(text.attentions[j] / 10, 1)}% of the attention${without}`;
}

/** The text: words are coloured, and the phrases over them are lines below, so that neither hides the other. */
function markedText(text) {
  const largest = text.pulls.reduce((most, pull) => Math.max(most, Math.abs(pull)), 1);
  const kept = spans(text).filter(([, , j]) => shadeOf(text, j, largest) || text.tokens[j] === reading.token);
  const words = kept.filter(([, , j]) => !isPhrase(text, j)), phrases = [];
  const busy = Array(LINES).fill(0); // Where each line is free again.
  for (const [start, end, j] of kept.filter(([, , which]) => isPhrase(text, which))) {
    const line = busy.findIndex((until) => until <= start);
    if (line < 0) continue; // A fourth phrase over the same words: it is listed below.
    busy[line] = end;
    phrases.push([start, end, j, line]);
  }
  const edges = [...new Set([0, text.text.length, ...kept.flatMap(([start, end]) => [start, end])])].sort((a, b) => a - b);
  const shownText = make("p", { className: "words", dir: "auto" });
  let word = 0, phrase = 0, over = [];
  edges.slice(0, -1).forEach((start, i) => {
    while (word < words.length && words[word][1] <= start) word += 1;
    over = over.filter(([, end]) => end > start);
    while (phrase < phrases.length && phrases[phrase][0] <= start) over.push(phrases[phrase++]);
    let node = text.text.slice(start, edges[i + 1]);
    if (word < words.length && words[word][0] <= start) node = marked(text, words[word][2], node, largest, "mark", "");
    for (const [, , j, line] of [...over].sort((a, b) => a[3] - b[3])) node = marked(text, j, node, largest, "span", `phrase line${line} `);
    shownText.append(node);
  });
  if (text.left) shownText.append(make("span", { className: "soft" }, ` … (${fixed(text.left, 0)} more characters)`));
  return shownText;
}

function marked(text, j, contents, largest, tag, look) {
  const own = text.tokens[j] === reading.token ? " own" : "";
  const element = make(tag, { className: `${look}${sideIn(text, text.pulls[j])} shade${shadeOf(text, j, largest)}${own}`, title: titleOf(text, j) }, contents);
  element.dataset.unit = j;
  if (typeof text.tokens[j] === "number") element.dataset.token = text.tokens[j];
  return element;
}

/** The words and phrases that decided, together: the part of the sum, and what is left without each. */
function decidersOf(text, place) {
  const total = text.pulls.reduce((sum, pull) => sum + Math.abs(pull), 0) || 1;
  const deciders = make("p", { className: "deciders" }, ...(two ? ["Decided by "] : [make("span", {}, "Why ", nameOfClass(text.predicted), " and not ", nameOfClass(text.against), ":")]));
  const order = [...text.pulls.keys()].sort((a, b) => Math.abs(text.pulls[b]) - Math.abs(text.pulls[a]));
  for (const j of order.slice(0, DECIDERS).filter((place, rank) => !rank || 100 * Math.abs(text.pulls[place]) >= total)) {
    const pull = text.pulls[j], known = typeof text.tokens[j] === "number";
    const size = two ? `${fixed(Math.abs(pull) / 1000, 2)} ${directionIn(text, pull)}` : fixed(pull / 1000, 2, true);
    const button = make(known ? "button" : "span", { className: `decider ${sideIn(text, pull)}` }, make("bdi", {}, nameIn(text, j)),
      make("small", {}, `${size} (${fixed(100 * Math.abs(pull) / total, 0)}%) · `), make("small", { className: "left" }, withoutIt(text, j)));
    if (known) {
      button.type = "button";
      button.onclick = () => (button.getAttribute("aria-expanded") === "true" ? close() : keep(text.tokens[j], place, button));
    }
    deciders.append(button);
  }
  return order.length ? deciders : make("p", { className: "deciders" }, "It holds no word that the model knows: predicted by how frequent each class is.");
}

function article(text) {
  const right = text.truth === text.predicted;
  const said = make("p", { className: "said" }, "is ", nameOfClass(text.truth, "b"), ", predicted ", nameOfClass(text.predicted, "b"),
    ` with ${share(text.probabilities[text.predicted])}`);
  if (!right) said.append(` (the true class ${share(text.probabilities[text.truth])})`);
  const place = make("div");
  const words = markedText(text);
  words.onclick = (event) => {
    const found = event.target.closest("[data-token]");
    if (found) keep(Number(found.dataset.token), place);
  };
  const head = make("h3", {}, make("span", { className: `tag ${right ? "good" : "bad"}` }, right ? "right" : "mistake"), ` Row ${fixed(text.row, 0)}`);
  return make("article", { className: "text" }, make("div", { className: "text-head" }, head, said), words, decidersOf(text, place), place);
}

function drawTexts() {
  const kind = $("texts-kind").value, k = $("texts-class").value;
  const chosen = (reading.token < 0 ? texts : textsWith(reading.token)).filter((text) =>
    (kind === "all" || (kind === "mistakes") === (text.truth !== text.predicted)) && (k === "" || text.truth === Number(k)));
  const from = reading.page * TEXTS, here = chosen.slice(from, from + TEXTS);
  $("texts-list").replaceChildren(...here.map(article));
  turnPages("texts", from, here.length, chosen.length, "texts");
  $("texts-found").textContent = $("texts-now").textContent;
  $("texts-token").hidden = reading.token < 0;
  if (reading.token >= 0) $("texts-token").replaceChildren("with ", make("bdi", {}, data.tokens[reading.token]), " ×");
  for (const words of document.querySelectorAll("#texts-list .words")) foldIfLong(words);
}

/** A text of many lines is folded; a button unfolds it. */
function foldIfLong(words) {
  const whole = words.clientHeight; // Not scrollHeight: lines under phrases reach below the last words.
  words.classList.add("folded");
  if (whole <= words.clientHeight) return words.classList.remove("folded");
  const button = make("button", { type: "button", className: "quiet" }, "Read on");
  button.onclick = () => { button.textContent = words.classList.toggle("folded") ? "Read on" : "Fold"; };
  words.after(button);
}

function showTexts(token) {
  reading.token = token;
  $("texts-kind").value = "all";
  $("texts-class").value = "";
  firstTexts();
  $("texts-title").focus();
  $("texts-title").scrollIntoView();
}

function firstTexts() {
  reading.page = 0;
  drawTexts();
}

function startTexts() {
  if (!texts.length) return;
  $("texts").hidden = false;
  $("texts-kind").onchange = $("texts-class").onchange = firstTexts;
  $("texts-token").onclick = () => { reading.token = -1; firstTexts(); $("texts-title").focus(); };
  $("texts-before").onclick = () => { reading.page -= 1; drawTexts(); };
  $("texts-after").onclick = () => { reading.page += 1; drawTexts(); };
  drawTexts();
}
