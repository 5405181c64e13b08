// A fitted model of texts, with what it says of a text: the same numbers as in Python. With c_s the count of token s in a
// text, m the number of its distinct tokens and t the power,
//   margin = intercept + sqrt(m) * sum_s attention_s value_s,   attention_s ~ c_s^t exp(score_s), of sum one.

const CUT = "…"; // stands for the rest of a word in the name of a run of its characters

/** The model that `tokenmargin` packed: deflated, in base64. */
async function unpackedModel(packed) {
  const raw = atob(packed), bytes = new Uint8Array(raw.length);
  for (let j = 0; j < raw.length; j += 1) bytes[j] = raw.charCodeAt(j); // Uint8Array.from takes ten times as long.
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const content = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = new DataView(content.buffer).getUint32(0, true);
  const text = (from, to) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(content.subarray(from, to));
  const about = JSON.parse(text(4, 4 + size));
  const V = about.tokens, c = about.intercept.length;
  const sharedAt = 4 + size, namesAt = sharedAt + V, numbersAt = namesAt + about.bytes_of_names;
  const stored = content.slice(numbersAt).buffer; // float64, or whole numbers of steps: one for scores, one for values
  const [ofScore, ofValue] = about.steps ?? [1, 1];
  const numbers = new Float64Array(about.steps ? new Int32Array(stored) : stored);
  if (about.steps) for (let j = 0; j < numbers.length; j += 1) numbers[j] *= j < V ? ofScore : ofValue;
  const names = [];
  // A name is told by how much of the one before it shares, and the rest.
  text(namesAt, numbersAt).split("\n").forEach((rest, j) => {
    names.push(j ? names[j - 1].slice(0, content[sharedAt + j]) + rest : rest);
  });
  return new TextScorer(about, names, numbers.subarray(0, V), numbers.subarray(V, V + V * c));
}

/** Logistic function, or softmax, of margins. */
function probabilitiesOf(margins) {
  if (margins.length > 1) {
    const largest = margins.reduce((a, b) => Math.max(a, b));
    const powers = margins.map((margin) => Math.exp(margin - largest));
    const total = powers.reduce((a, b) => a + b);
    return powers.map((power) => power / total);
  }
  const small = Math.exp(-Math.abs(margins[0])), more = 1 / (1 + small), less = small / (1 + small);
  return margins[0] >= 0 ? [less, more] : [more, less];
}

class TextScorer {
  constructor(about, names, scores, values) {
    Object.assign(this, { about, names, scores, values, classes: about.classes });
    this.words = new Words(about.recipe, about.tables);
    this.stopWords = new Set(about.stop_words);
    this.columns = new Map(names.map((name, column) => [name, column]));
    this.remembered = new Map();
  }

  // --- words to tokens

  /** Stem of a word (null for a word that is dropped) and the columns of its own tokens. */
  tokensOf(word) {
    let found = this.remembered.get(word);
    if (found === undefined) {
      const stem = this.stopWords.has(word) ? null : this.words.oneWay(word);
      const names = stem === null ? [] : [stem, ...this.charactersOf(stem)];
      found = { stem, columns: names.map((name) => this.columns.get(name)).filter((column) => column !== undefined) };
      if (this.remembered.size > 1e5) this.remembered.clear();
      this.remembered.set(word, found);
    }
    return found;
  }

  /** The runs of characters within a stem, its ends counted, but for the stem itself. */
  charactersOf(stem) {
    const longest = this.about.recipe.characters, runs = [];
    if (!longest || !this.words.isAlphanumeric.test(stem)) return runs;
    const whole = ["", ...stem, ""], last = whole.length - 1;
    for (let size = 2; size <= Math.min(longest, last); size += 1) {
      for (let begin = 0; begin + size - 1 <= last; begin += 1) {
        const end = begin + size - 1;
        runs.push((begin ? CUT : "") + whole.slice(begin, end + 1).join("") + (end < last ? CUT : ""));
      }
    }
    return runs;
  }

  /** The words of a text, and each token that stands in it: its column, its first word and how many words it has. */
  placesOf(text) {
    const words = this.words.of(text), found = words.map(({ word }) => this.tokensOf(word));
    const tokens = [];
    found.forEach(({ columns }, first) => columns.forEach((column) => tokens.push({ column, first, size: 1 })));
    for (let size = 2; size <= this.about.recipe.ngrams; size += 1) {
      for (let first = 0; first + size <= words.length; first += 1) {
        const stems = found.slice(first, first + size).map(({ stem }) => stem);
        const column = stems.includes(null) ? undefined : this.columns.get(stems.join(" "));
        if (column !== undefined) tokens.push({ column, first, size });
      }
    }
    return { words, own: found.map(({ columns }) => columns), tokens };
  }

  // --- tokens to numbers

  /** Counts, attention and contributions to each margin, by columns in their order; and the probabilities. */
  scored(counts) {
    const columns = [...counts.keys()].sort((a, b) => a - b), c = this.about.intercept.length;
    if (!columns.length) return { columns, attention: [], pulls: [], probabilities: [...this.about.base_rate] };
    const logits = columns.map((column) => this.scores[column] + this.about.power * Math.log(counts.get(column)));
    const largest = logits.reduce((a, b) => Math.max(a, b));
    const weights = logits.map((logit) => Math.exp(logit - largest));
    const total = weights.reduce((a, b) => a + b);
    const attention = weights.map((weight) => weight / total);
    const loud = this.about.root_length ? Math.sqrt(columns.length) : 1;
    const margins = new Array(c).fill(0);
    const pulls = columns.map((column, j) => {
      const own = new Array(c);
      for (let k = 0; k < c; k += 1) margins[k] += own[k] = attention[j] * loud * this.values[column * c + k];
      return own;
    });
    return { columns, attention, pulls, probabilities: probabilitiesOf(margins.map((sum, k) => sum + this.about.intercept[k])) };
  }

  /** The class of a text, its probability, and how many words and phrases of it the model knows. */
  predict(text) {
    const counts = countsOf(this.placesOf(text).tokens);
    const { probabilities } = this.scored(counts), best = ordered(probabilities)[0];
    const isWord = (column) => !this.about.recipe.characters || !this.names[column].includes(CUT);
    const known = [...counts.keys()].filter(isWord).length;
    return { label: this.classes[best], probability: probabilities[best], known_words: known, probabilities };
  }

  /**
   * Why this class and not another (the second most likely, unless one is named): `constant` and the contributions of the
   * units, which are words and phrases, add up to `logOdds`.
   */
  explain(text, against = null) {
    if (against !== null && !this.classes.includes(against)) throw new RangeError(`no class is called ${against}`);
    const found = this.placesOf(text), counts = countsOf(found.tokens), told = this.scored(counts);
    const [best, second] = ordered(told.probabilities), named = this.classes.indexOf(against);
    const other = against === null || named === best ? second : named;
    const { intercept, base_rate: rates } = this.about, two = intercept.length === 1, sign = best === 1 ? 1 : -1;
    const known = told.columns.length > 0, safe = (share) => Math.log(Math.max(share, 2.2250738585072014e-308));
    const pulls = told.pulls.map((own) => (two ? sign * own[0] : own[best] - own[other]));
    const constant = !known ? safe(rates[best]) - safe(rates[other]) : two ? sign * intercept[0] : intercept[best] - intercept[other];
    const facts = new Map(told.columns.map((column, j) => [column, { pull: pulls[j], attention: told.attention[j] }]));
    const units = this.unitsOf(found, counts, facts);
    return {
      text, predicted: this.classes[best], against: this.classes[other], isKnown: known, constant,
      probability: told.probabilities[best], probabilities: told.probabilities,
      logOdds: pulls.reduce((a, b) => a + b, 0) + constant,
      units: [...units].sort((a, b) => Math.abs(b.contribution) - Math.abs(a.contribution)),
      /** The probability of the prediction with the words of a unit left out, all its places together. */
      without: (unit) => this.scored(countsWithout(found, counts, unit)).probabilities[best],
    };
  }

  /** Words and phrases by name; runs of characters come back to the words in which they stand. */
  unitsOf({ words, own, tokens }, counts, facts) {
    const units = new Map();
    for (const { column, first, size } of tokens) {
      let name = this.names[column];
      if (this.about.recipe.characters && size === 1 && name.includes(CUT)) {
        const whole = this.names[own[first][0]];
        name = whole.includes(CUT) ? words[first].word : whole;
      }
      if (!units.has(name)) units.set(name, { name, spans: [], places: [], contribution: 0, attention: 0 });
      const unit = units.get(name), { pull, attention } = facts.get(column), last = unit.spans.at(-1);
      if (!last || last[0] !== first || last[1] !== size) {
        unit.spans.push([first, size]);
        unit.places.push([words[first].start, words[first + size - 1].end]);
      }
      unit.contribution += pull / counts.get(column);
      unit.attention += attention / counts.get(column);
    }
    return units.values();
  }
}

function countsOf(tokens) {
  const counts = new Map();
  for (const { column } of tokens) counts.set(column, (counts.get(column) ?? 0) + 1);
  return counts;
}

/** Counts of what is left when the words of a unit are gone: every token that needs one of them goes too. */
function countsWithout(found, counts, unit) {
  found.needing ??= tokensByWord(found);
  const lost = new Set(), left = new Map(counts);
  for (const [first, size] of unit.spans) {
    for (let word = first; word < first + size; word += 1) found.needing[word].forEach((token) => lost.add(token));
  }
  for (const { column } of lost) {
    const count = left.get(column) - 1;
    if (count) left.set(column, count);
    else left.delete(column);
  }
  return left;
}

function tokensByWord({ words, tokens }) {
  const needing = words.map(() => []);
  for (const token of tokens) {
    for (let word = token.first; word < token.first + token.size; word += 1) needing[word].push(token);
  }
  return needing;
}

/** The numbers of the classes, the most likely first, equals in their order. */
function ordered(probabilities) {
  return [...probabilities.keys()].sort((a, b) => probabilities[b] - probabilities[a]);
}
