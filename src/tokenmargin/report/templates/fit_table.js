// --- the table of all tokens, a page at a time

const sorting = { key: "decides", down: true, page: 0 };
const heads = [...document.querySelectorAll("#tokens th[data-key]")];
const ranks = new Map(heads.map((head) => [head.dataset.key, ["middle", "minor"].find((name) => head.classList.contains(name)) ?? ""]));
const alphabet = new Intl.Collator();

/** The tokens that the search leaves, in the order that the heads ask for; what has no number comes last. */
function sorted() {
  const tokens = state.matches ? [...state.matches] : [...data.tokens.keys()];
  const turn = sorting.down ? -1 : 1;
  if (sorting.key === "token") return tokens.sort((a, b) => turn * alphabet.compare(data.tokens[a], data.tokens[b]) || a - b);
  const values = new Map(tokens.map((i) => [i, number(sorting.key, i)]));
  return tokens.sort((a, b) => {
    const [x, y] = [values.get(a), values.get(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a - b;
    return turn * (x - y) || a - b;
  });
}

function tableRow(token) {
  const name = make("button", { type: "button", className: "name" }, make("bdi", {}, data.tokens[token]));
  const first = make("th", { scope: "row" }, name);
  if (data.words[token]) first.append(make("small", { dir: "auto" }, data.words[token]));
  if (state.k < 0) first.append(make("small", {}, "→ ", nameOfClass(classOf(token))));
  const row = make("tr", {}, first);
  for (const { dataset } of heads.slice(1)) {
    const cell = make("td", { className: `number ${ranks.get(dataset.key)}` }, shown(dataset.key, token, false));
    if (data.columns[dataset.key].signed) cell.classList.add(side(number(dataset.key, token)));
    if (dataset.key === "pull") cell.append(make("small", {}, interval(token)));
    row.append(cell);
  }
  name.onclick = () => {
    if (name.getAttribute("aria-expanded") === "true") return close();
    const place = make("td", { colSpan: heads.length });
    const below = make("tr", { className: "card-row" }, place);
    row.after(below);
    keep(token, place, name);
    say(spoken(token));
  };
  return row;
}

function drawTable() {
  const tokens = sorted(), size = Number($("page-size").value);
  sorting.page = Math.max(0, Math.min(sorting.page, Math.ceil(tokens.length / size) - 1));
  const from = sorting.page * size, here = tokens.slice(from, from + size);
  $("tokens").tBodies[0].replaceChildren(...here.map(tableRow));
  turnPages("page", from, here.length, tokens.length, "tokens");
  for (const head of heads) {
    const by = head.dataset.key === sorting.key;
    if (by) head.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
    const small = head.querySelector("small");
    if (small) small.textContent = head.dataset.key === "in_class" ? `in ${state.k < 0 ? "its class" : data.classes[two ? 1 : state.k]}` : `+ ${directions()[0]}`;
  }
  explain(heads.find((head) => head.dataset.key === sorting.key));
}

/** The buttons and the words of a pager. */
function turnPages(name, from, here, all, what) {
  $(`${name}-before`).disabled = from === 0;
  $(`${name}-after`).disabled = from + here >= all;
  $(`${name}-now`).textContent = all ? `${fixed(from + 1, 0)} to ${fixed(from + here, 0)} of ${fixed(all, 0)} ${what}` : `no ${what}`;
}

/** The definition of a column and the meaning of its sign, above the table, where no scrolling hides it. */
function explain(head) {
  const button = head.querySelector("button"), [plus, minus] = directions();
  const sign = data.columns[head.dataset.key]?.signed ? ` Here + is ${plus}, − is ${minus}.` : "";
  $("meaning").replaceChildren(make("b", {}, button.textContent), `: ${button.title}${sign}`);
}

function startTable() {
  for (const head of heads) {
    const button = head.querySelector("button");
    button.onclick = () => {
      const again = sorting.key === head.dataset.key;
      Object.assign(sorting, { key: head.dataset.key, down: again ? !sorting.down : head.dataset.key !== "token", page: 0 });
      drawTable();
      say(`Sorted by ${button.textContent}, ${sorting.down ? "descending" : "ascending"}.`);
    };
    button.onfocus = button.onpointerenter = () => explain(head);
    button.onblur = button.onpointerleave = () => explain(heads.find((other) => other.dataset.key === sorting.key));
  }
  $("page-before").onclick = () => { sorting.page -= 1; drawTable(); };
  $("page-after").onclick = () => { sorting.page += 1; drawTable(); };
  $("page-size").onchange = () => { sorting.page = 0; drawTable(); };
  drawTable();
}
