// --- a text that is typed: classified and explained by the model that came with the page

const UNITS = 12; // Words and phrases in the list.
const LONG = 20000; // Characters beyond which the answer waits until typing pauses.
const boxed = { scorer: null, words: 0, example: 0 };

/** The packed model: inside the page, or in the file beside it, which may still be on its way. */
function packedModel() {
  if ($("model")) return Promise.resolve($("model").textContent);
  return new Promise((resolve, reject) => {
    const ready = () => (globalThis.tokenmarginModel ? resolve(globalThis.tokenmarginModel) : reject(new Error("empty")));
    if (globalThis.tokenmarginModel) return ready();
    $("model-beside").addEventListener("load", ready);
    $("model-beside").addEventListener("error", reject);
    if (document.readyState === "complete") ready(); // It failed before anybody listened.
  });
}

async function startBox() {
  if (!$("box")) return;
  $("box").hidden = $("box-waits").hidden = false;
  $("box-text").oninput = () => {
    clearTimeout(boxed.words);
    if ($("box-text").value.length < LONG) return tellBox();
    boxed.words = setTimeout(tellBox, PAUSE);
  };
  $("box-empty").onclick = () => { $("box-text").value = ""; tellBox(); $("box-text").focus(); };
  if ($("box-example")) $("box-example").onclick = () => {
    $("box-text").value = texts[boxed.example % texts.length].text;
    boxed.example += 1;
    tellBox();
  };
  if ($("box-against")) $("box-against").onchange = tellBox;
  try {
    boxed.scorer = await scorer.unpackedModel(await packedModel());
    $("box-waits").hidden = true;
    tellBox();
  } catch {
    $("box-waits").textContent = "The model could not be read: model.js must lie beside this page.";
  }
}

function tellBox() {
  const text = $("box-text").value;
  if (!boxed.scorer) return;
  $("box-told").hidden = !text;
  $("box-said").replaceChildren();
  if (!text) return;
  const told = boxed.scorer.explain(text, $("box-against")?.value || null);
  const shownName = (name) => data.classes[boxed.scorer.classes.indexOf(name)], name = (words) => make("b", { dir: "auto" }, shownName(words));
  $("box-said").append(name(told.predicted), ` with ${share(told.probability)}`);
  if (!two) $("box-said").append("; not ", name(told.against), ` (${share(told.probabilities[boxed.scorer.classes.indexOf(told.against)])})`);
  if (!told.isKnown) $("box-said").append(". No word of it is known to the model: this is only how frequent the class is.");
  const own = asText(told);
  $("box-words").replaceChildren(markedText(own));
  $("box-units").replaceChildren(...told.units.slice(0, UNITS).map((_, j) => unitRow(told, own, j)));
  const rest = told.units.slice(UNITS), total = (units) => units.reduce((sum, unit) => sum + unit.contribution, 0);
  const sums = [`constant ${fixed(told.constant, 3, true)}`, `words and phrases ${fixed(total(told.units), 3, true)}`];
  if (rest.length) sums[1] += ` (${rest.length} more are not listed: ${fixed(total(rest), 3, true)})`;
  $("box-sum").textContent = `Log-odds of ${shownName(told.predicted)} against ${shownName(told.against)}: ${sums.join(", ")}, together ${fixed(told.logOdds, 3, true)}.`;
}

/** What the model says of a typed text, as the texts that were held out come with the page. */
function asText(told) {
  const number = (name) => boxed.scorer.classes.indexOf(name), { units } = told;
  return {
    text: told.text, predicted: number(told.predicted), against: number(told.against), probabilities: told.probabilities,
    tokens: units.map(({ name }) => name), pulls: units.map((unit) => 1000 * unit.contribution),
    attentions: units.map((unit) => 1000 * unit.attention), places: units.map((unit) => unit.places.flatMap(([start, end]) => [start, end - start])),
  };
}

function unitRow(told, text, j) {
  const unit = told.units[j], left = told.without(unit);
  const row = make("tr", {},
    make("th", { scope: "row" }, make("bdi", {}, unit.name), unit.places.length > 1 ? make("small", {}, ` × ${unit.places.length}`) : ""),
    make("td", { className: `number ${sideIn(text, unit.contribution)}` }, fixed(unit.contribution, 3, true)),
    make("td", { className: "number wide-only" }, share(unit.attention)),
    make("td", { className: "number" }, make("span", { className: "given" }, `${share(told.probability)} `), `→ ${share(left)}`));
  const outline = (on) => {
    for (const marked of $("box-words").querySelectorAll(`[data-unit="${j}"]`)) marked.classList.toggle("own", on);
  };
  row.onmouseenter = () => outline(true);
  row.onmouseleave = () => outline(false);
  return row;
}
