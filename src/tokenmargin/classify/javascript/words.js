// Texts to words as tokenmargin's `text` does it in Python, letter by letter. Which characters are letters, marks, symbols
// and spaces, and which are known at all, comes from the Python that packed the model, so that a browser with newer or
// older tables of Unicode finds the same words. Lower case and normal forms are the browser's own, on known characters
// alone: of those, Unicode promises never to change them (but for the neighbours of a sigma, which come along too).

/** Ranges of code points, as the inside of [...]; they come as steps from one end to the next. */
function characterClass(steps) {
  const ends = [];
  let at = 0;
  for (const step of steps) ends.push(at += step);
  let inside = "";
  for (let j = 0; j < ends.length; j += 2) inside += `\\u{${ends[j].toString(16)}}-\\u{${ends[j + 1].toString(16)}}`;
  return inside;
}

const isAscii = (text) => !/[^\0-\x7f]/.test(text);

/** Makes words of texts by a recipe; each word knows where it stood. */
class Words {
  constructor(recipe, tables) {
    this.recipe = recipe;
    this.entities = new Map(Object.entries(tables.entities));
    this.numbers = new Map(Object.entries(tables.numbers).map(([code, text]) => [Number(code), text]));
    const [letters, unspaced, marks, signs, known, spaces, cased, ignored] =
      ["letters", "unspaced", "marks", "symbols", "known", "spaces", "cased", "ignored"].map((kind) => characterClass(tables[kind]));
    this.finalSigma = new RegExp(`(?<=[${cased}][${ignored}]*)Σ(?![${ignored}]*[${cased}])`, "gu");
    this.known = new RegExp(`[${known}]+`, "gu");
    this.isBreak = new RegExp(`<br[${spaces}]*/?>`, "giu");
    this.isAlphanumeric = new RegExp(`^[${letters}${unspaced}]`, "u");
    if (recipe.fold_accents) {
      this.accents = new RegExp(`[${characterClass(tables.accents)}]`, "gu");
      this.combines = new RegExp(`^[${characterClass(tables.combining)}]`, "u");
    }
    const other = (more) => `|[^${letters}${unspaced}_${spaces}${more}]|_`;
    const joiners = "\\u200c\\u200d";
    let word;
    if (recipe.alphabet === "ASCII") {
      word = "[A-Za-z0-9]+" + (recipe.punctuation ? other("") : "");
    } else {
      word = `[${letters}][${letters}${marks}]*(?:[${joiners}]+[${letters}${marks}]+)*|[${unspaced}][${marks}]*`;
      if (recipe.symbols) {
        const one = `[${signs}][${marks}\\u{1f3fb}-\\u{1f3ff}]*`;
        word += `|[\\u{1f1e6}-\\u{1f1ff}]{2}|${one}(?:\\u200d${one})*`;
      }
      if (recipe.punctuation) word += other(marks + joiners);
    }
    this.word = new RegExp(word, "gu");
  }

  /** The words of a text: {word, start, end} of each, places as JavaScript counts characters. */
  of(text) {
    const clean = this.cleaned(text);
    return Array.from(clean.text.matchAll(this.word), (match) => ({
      word: match[0].replace(/\p{Surrogate}/gu, "?"), // half a character has no encoding
      start: clean.starts[match.index],
      end: clean.ends[match.index + match[0].length - 1],
    }));
  }

  /** The text after every step before splitting; character j stands for starts[j] to ends[j] of what was given. */
  cleaned(text) {
    const recipe = this.recipe;
    const starts = Int32Array.from({ length: text.length }, (_, j) => j);
    let given = { text, starts, ends: starts.map((j) => j + 1) };
    if (recipe.markup === "BREAKS") {
      given = replaced(given, /<br \/>/g, () => " ");
      given = replaced(given, this.isBreak, () => " ");
    }
    if (recipe.markup === "TAGS") {
      given = replaced(given, /<\/?[a-zA-Z!][^<>]*>/g, () => " ");
      given = replaced(given, /&(#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)/gu, (all) => this.unescaped(all.slice(1)));
    }
    for (const character of recipe.apostrophes) {
      given = replaced(given, new RegExp(`\\u{${character.codePointAt(0).toString(16)}}`, "gu"), () => "");
    }
    if (recipe.fold_accents && !isAscii(given.text)) given = this.unaccented(given);
    return recipe.lower_case ? this.lowered(given) : given;
  }

  /** What a reference of HTML stands for, by the rules of its standard, as Python's html.unescape has them. */
  unescaped(name) {
    if (name[0] === "#") {
      const digits = name.replace(/;$/, "");
      const code = /[xX]/.test(digits[1]) ? parseInt(digits.slice(2), 16) : parseInt(digits.slice(1), 10);
      if (this.numbers.has(code)) return this.numbers.get(code);
      return code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? "\ufffd" : String.fromCodePoint(code);
    }
    if (this.entities.has(name)) return this.entities.get(name);
    for (let size = name.length - 1; size > 1; size -= 1) {
      const found = this.entities.get(name.slice(0, size));
      if (found !== undefined) return found + name.slice(size);
    }
    return `&${name}`;
  }

  /** In small letters; a sigma's depends on its neighbours, and which of those count as letters has changed. */
  lower(text) {
    if (isAscii(text)) return text.toLowerCase();
    const told = text.includes("Σ") ? text.replace(this.finalSigma, "ς").replaceAll("Σ", "σ") : text;
    return told.replace(this.known, (run) => run.toLowerCase());
  }

  /** The same with places; of all letters only İ becomes longer. */
  lowered(given) {
    const lower = this.lower(given.text);
    if (lower.length === given.text.length) return { ...given, text: lower };
    return spread(given, Array.from(given.text, (character) => [character.length, this.lower(character).length]), lower);
  }

  bare(text) {
    return text.replace(this.known, (run) => run.normalize("NFD")).replace(this.accents, "");
  }

  /** Letters without their accents; a character and the marks after it are taken together where they change places. */
  unaccented(given) {
    const whole = this.bare(given.text);
    let parts = Array.from(given.text);
    if (parts.map((part) => this.bare(part)).join("") !== whole) {
      const clusters = [];
      for (const part of parts) {
        const first = part.replace(this.known, (run) => run.normalize("NFD"));
        if (clusters.length && this.combines.test(first)) clusters[clusters.length - 1] += part;
        else clusters.push(part);
      }
      parts = clusters;
    }
    return spread(given, parts.map((part) => [part.length, this.bare(part).length]), whole);
  }

  /** A word in composed letters, an emoji without the mark that asks for colour. */
  oneWay(word) {
    if (this.recipe.alphabet === "ASCII" || isAscii(word)) return word;
    return word.normalize("NFC").replaceAll("\ufe0f", "");
  }
}

/** Stretches of given lengths that got other lengths: each new character stands for all of its stretch. */
function spread(given, sizes, text) {
  const starts = new Int32Array(text.length), ends = new Int32Array(text.length);
  let from = 0, to = 0;
  for (const [old, made] of sizes) {
    starts.fill(given.starts[from], to, to + made);
    ends.fill(given.ends[from + old - 1], to, to + made);
    from += old;
    to += made;
  }
  return { text, starts, ends };
}

/** Each match replaced; its new characters stand for all of it, but for those at its end that stayed the same. */
function replaced(given, pattern, replacement) {
  const texts = [], pieces = []; // of each piece: from, to, or the number of made characters with their place
  let done = 0, length = 0;
  const copy = (from, to) => {
    texts.push(given.text.slice(from, to));
    pieces.push([from, to, -1]);
    length += to - from;
  };
  for (const match of given.text.matchAll(pattern)) {
    const old = match[0], begin = match.index, end = begin + old.length, made = replacement(old);
    let same = 0;
    while (same < Math.min(old.length, made.length) && old.at(-1 - same) === made.at(-1 - same)) same += 1;
    copy(done, begin);
    const first = end - same, size = made.length - same;
    texts.push(made.slice(0, size));
    pieces.push([begin, Math.max(first, begin + 1) - 1, size]);
    length += size;
    done = first;
  }
  if (!texts.length) return given;
  copy(done, given.text.length);
  const starts = new Int32Array(length), ends = new Int32Array(length);
  let at = 0;
  for (const [from, to, size] of pieces) {
    if (size < 0) {
      starts.set(given.starts.subarray(from, to), at);
      ends.set(given.ends.subarray(from, to), at);
      at += to - from;
    } else {
      starts.fill(given.starts[from], at, at + size);
      ends.fill(given.ends[to], at, at + size);
      at += size;
    }
  }
  return { text: texts.join(""), starts, ends };
}
