// --- a text that is typed: classified and explained by the model that came with the page

const UNITS = 12; // Words and phrases in the list.
const LONG = 20000; // Characters beyond which the answer waits until typing pauses.
const boxed = { scorer: null, words: 0, example: 0 };
const share = (value) => `${fixed(100 * value, value > 0.0005 && value < 0.9995 ? 1 : 2)}%`;

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
  drawBoxWords(told);
  const rows = told.units.slice(0, UNITS).map((unit) => unitRow(told, unit));
  $("box-units").replaceChildren(...rows);
  const rest = told.units.slice(UNITS), total = (units) => units.reduce((sum, unit) => sum + unit.contribution, 0);
  const sums = [`constant ${fixed(told.constant, 3, true)}`, `words and phrases ${fixed(total(told.units), 3, true)}`];
  if (rest.length) sums[1] += ` (${rest.length} more are not listed: ${fixed(total(rest), 3, true)})`;
  $("box-sum").textContent = `Log-odds of ${shownName(told.predicted)} against ${shownName(told.against)}: ${sums.join(", ")}, together ${fixed(told.logOdds, 3, true)}.`;
}

/** With two classes a colour means a class; with more, toward the predicted class or away from it. */
function boxSide(told, pull) {
  return side(two && told.predicted === boxed.scorer.classes[0] ? -pull : pull);
}

function drawBoxWords(told) {
  const largest = told.parts.reduce((most, part) => Math.max(most, Math.abs(part.contribution)), 0) || 1;
  let at = 0;
  $("box-words").replaceChildren(...told.parts.map((part) => {
    const from = at, shade = Math.round(SHADES * Math.abs(part.contribution) / largest);
    at += part.text.length;
    if (!part.known) return part.text;
    const look = shade ? `${boxSide(told, part.contribution)} shade${shade}` : "";
    const marked = make("mark", { className: look, title: fixed(part.contribution, 3, true) }, part.text);
    Object.assign(marked.dataset, { from, to: at });
    return marked;
  }));
}

function unitRow(told, unit) {
  const left = told.without(unit);
  const row = make("tr", {},
    make("th", { scope: "row" }, make("bdi", {}, unit.name), unit.places.length > 1 ? make("small", {}, ` × ${unit.places.length}`) : ""),
    make("td", { className: `number ${boxSide(told, unit.contribution)}` }, fixed(unit.contribution, 3, true)),
    make("td", { className: "number wide-only" }, share(unit.attention)),
    make("td", { className: "number" }, make("span", { className: "given" }, `${share(told.probability)} `), `→ ${share(left)}`));
  const outline = (on) => {
    for (const marked of $("box-words").querySelectorAll("mark")) {
      const [from, to] = [Number(marked.dataset.from), Number(marked.dataset.to)];
      marked.classList.toggle("own", on && unit.places.some(([begin, end]) => from < end && begin < to));
    }
  };
  row.onmouseenter = () => outline(true);
  row.onmouseleave = () => outline(false);
  return row;
}
