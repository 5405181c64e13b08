// --- what the parts share: the search and the class; then everything starts

const haystack = data.tokens.map((token, i) => `${token}\n${data.words[i]}`.normalize().toLowerCase());

function search() {
  const wanted = $("query").value.trim().normalize().toLowerCase();
  release();
  state.matches = wanted ? [...haystack.keys()].filter((i) => haystack[i].includes(wanted)) : null;
  // A token that is the very word comes first, however little it decides.
  const best = state.matches?.find((i) => data.tokens[i].toLowerCase() === wanted) ?? state.matches?.[0] ?? -1;
  show(best);
  sorting.page = 0;
  drawTable();
  const n = state.matches?.length;
  $("found").textContent = wanted ? `${fixed(n, 0)} of ${fixed(nTokens, 0)} tokens` : "";
  if (wanted) say(best < 0 ? "No token matches." : `${n} found. ${spoken(best)}`);
}

function chooseClass(k) {
  state.k = k;
  const [plus, minus] = directions();
  $("key-for").textContent = plus;
  $("key-against").textContent = minus;
  for (const panel of panels) {
    arrange(panel);
    draw(panel);
  }
  restore();
  drawTable();
  say(k < 0 ? "Numbers are now for each token's own class." : `Numbers are now for ${data.classes[k]}.`);
}

/** The tokens named in the first screen become buttons that open their cards. */
function startTelling() {
  for (const named of document.querySelectorAll(".telling .decider")) {
    const button = make("button", { type: "button", className: "decider" }, ...named.childNodes);
    button.onclick = () => {
      if (button.getAttribute("aria-expanded") === "true") return close();
      keep(Number(named.dataset.token), $("telling-card"), button);
    };
    named.replaceWith(button);
  }
}

$("unopened").remove();
$("explore").hidden = false;
$("query").oninput = search;
$("query").onkeydown = (event) => {
  if (event.key === "Enter" && state.token >= 0) keep(state.token, $("map-card"), $("query"));
};
if ($("class")) $("class").onchange = (event) => chooseClass(Number(event.target.value));
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && state.token >= 0) close(); });
$("all-columns").onchange = (event) => $("tokens").classList.toggle("every", event.target.checked);
startTelling();
startMap();
startTable();
startTexts();
if (nTokens) show(0); // The token that decides most shows what a card is.
