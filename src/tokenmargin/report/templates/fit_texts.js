// --- the texts, with the words that decided

const TEXTS = 20; // A page.
const SHADES = 4;
const SNIPPET = 60; // Characters on either side of a word.
const DECIDERS = 5;
const reading = { token: -1, page: 0 };
const texts = data.documents.map(([row, truth, predicted, probabilities, text, gaps, lengths, tokens, pulls, attentions]) =>
  ({ row, truth, predicted, probabilities, text, gaps, lengths, tokens, pulls, attentions }));

const holders = new Map(); // Token to the texts that hold it.
for (const text of texts) {
  for (const token of new Set(text.tokens)) holders.set(token, [...(holders.get(token) ?? []), text]);
}

const textsWith = (token) => holders.get(token) ?? [];
const permille = (value) => `${fixed(value / 10, 1)}%`;

/** With two classes a colour means a class; with more, toward the predicted class or away from it. */
function sideIn(text, pull) {
  return side(two && text.predicted === 0 ? -pull : pull);
}

function directionIn(text, pull) {
  if (two) return `→ ${data.classes[sideIn(text, pull) === "for" ? 1 : 0]}`;
  return pull > 0 ? `→ ${data.classes[text.predicted]}` : `away from ${data.classes[text.predicted]}`;
}

/** Where the words stand that are tokens: [start, end] of each. */
function spans(text) {
  let at = 0;
  return text.gaps.map((gap, j) => {
    const start = at + gap;
    at = start + text.lengths[j];
    return [start, at];
  });
}

/** Sentences around a token: those chosen for it, or else the first that the texts give; [class, ...nodes] of each. */
function snippets(token) {
  const chosen = data.examples[token];
  if (chosen) return chosen.map(([k, words]) => [k, ...markedWords(words, token)]);
  return textsWith(token).slice(0, 3).map((text) => {
    const [start, end] = spans(text)[text.tokens.indexOf(token)];
    const before = text.text.slice(Math.max(0, start - SNIPPET), start), after = text.text.slice(end, end + SNIPPET);
    return [text.truth, `…${before}`, make("mark", { className: "here" }, text.text.slice(start, end)), `${after}…`];
  });
}

function markedWords(words, token) {
  const small = words.toLowerCase();
  for (const word of [...data.words[token].toLowerCase().split(/[,\s]+/), data.tokens[token].toLowerCase()]) {
    const at = word ? small.indexOf(word) : -1;
    // Lower case can change how long a text is (İ): then nothing is marked rather than the wrong letters.
    if (at < 0 || small.length !== words.length) continue;
    const end = at + word.length;
    return [words.slice(0, at), make("mark", { className: "here" }, words.slice(at, end)), words.slice(end)];
  }
  return [words];
}

function markedText(text) {
  const largest = Math.max(...text.pulls.map(Math.abs), 1);
  const words = make("p", { className: "words", dir: "auto" });
  let at = 0;
  spans(text).forEach(([start, end], j) => {
    const pull = text.pulls[j], shade = Math.round(SHADES * Math.abs(pull) / largest), own = text.tokens[j] === reading.token;
    if (!shade && !own) return;
    const title = `${data.tokens[text.tokens[j]]}: ${fixed(pull / 1000, 3, true)} ${directionIn(text, pull)}, ${permille(text.attentions[j])} of the attention`;
    const look = `${sideIn(text, pull)} shade${shade}${own ? " own" : ""}`;
    const marked = make("mark", { className: look, title }, text.text.slice(start, end));
    marked.dataset.token = text.tokens[j];
    words.append(text.text.slice(at, start), marked);
    at = end;
  });
  words.append(text.text.slice(at));
  return words;
}

function article(text) {
  const right = text.truth === text.predicted;
  const [truth, predicted] = [data.classes[text.truth], data.classes[text.predicted]];
  const said = make("p", { className: "said" }, "is ", make("b", { dir: "auto" }, truth), ", predicted ", make("b", { dir: "auto" }, predicted),
    ` with ${permille(text.probabilities[text.predicted])}`);
  if (!right) said.append(` (${truth}: ${permille(text.probabilities[text.truth])})`);
  const place = make("div");
  const words = markedText(text);
  words.onclick = (event) => {
    const marked = event.target.closest("mark");
    if (marked) keep(Number(marked.dataset.token), place);
  };
  const order = [...text.pulls.keys()].sort((a, b) => Math.abs(text.pulls[b]) - Math.abs(text.pulls[a]));
  const deciders = make("p", { className: "deciders" }, "Decided by ");
  for (const token of [...new Set(order.map((j) => text.tokens[j]))].slice(0, DECIDERS)) {
    const pull = text.pulls[text.tokens.indexOf(token)];
    const button = make("button", { type: "button", className: `decider ${sideIn(text, pull)}` },
      make("bdi", {}, data.tokens[token]), make("small", {}, `${fixed(Math.abs(pull) / 1000, 2)} ${directionIn(text, pull)}`));
    button.onclick = () => (button.getAttribute("aria-expanded") === "true" ? close() : keep(token, place, button));
    deciders.append(button);
  }
  const head = make("h3", {}, make("span", { className: `tag ${right ? "good" : "bad"}` }, right ? "right" : "mistake"), ` Row ${fixed(text.row, 0)}`);
  return make("article", { className: "text" }, make("div", { className: "text-head" }, head, said), words, ...(order.length ? [deciders] : []), place);
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
  words.classList.add("folded");
  if (words.scrollHeight <= words.clientHeight + 1) return words.classList.remove("folded");
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
