// Checks a certificate of tokenmargin in exact arithmetic: a second verifier, which shares no line with the first.
// The statements and their proofs are those at the head of verify/kernel.py and verify/lengths.py. Numbers are BigInt,
// ratios are [above, below] with below > 0; nothing is rounded and nothing is compared within a tolerance.
"use strict";
globalThis.verifyCertificate = (() => {
  const need = (holds, otherwise) => { if (!holds) throw new Error(otherwise); };
  const abs = (x) => (x < 0n ? -x : x);
  const dot = (a, b) => { need(a.length === b.length, "lengths differ"); return a.reduce((s, x, j) => s + x * b[j], 0n); };
  const sum = (list) => list.reduce((s, x) => s + x, 0n);
  const most = (list) => list.reduce((s, x) => (x > s ? x : s), list[0]);
  const bits = (x) => { const h = abs(x).toString(16); return BigInt(h.length * 4 + 28 - Math.clz32(parseInt(h[0], 16))); };
  const less = (a, b) => a[0] * b[1] < b[0] * a[1];
  const plus = (a, b) => [a[0] * b[1] + b[0] * a[1], a[1] * b[1]];
  const minus = (a, b) => [a[0] * b[1] - b[0] * a[1], a[1] * b[1]];
  const times = (a, b) => [a[0] * b[0], a[1] * b[1]];
  const over = (a, b) => { need(b[0] > 0n, "a ratio of nothing"); return [a[0] * b[1], a[1] * b[0]]; };
  const square = (a) => times(a, a);

  // --- a text that means one thing: JSON without numbers but counts, and no name said twice ---------------------------
  function parsed(text) {
    let at = 0;
    const token = /[ \t\n\r]*(?:([[\]{}:,])|(-?(?:0|[1-9][0-9]*))(?![0-9.eE])|(null|true|false)|("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"))/y;
    const next = () => {
      token.lastIndex = at;
      const found = token.exec(text);
      need(found, "it is no JSON that means one thing");
      at = token.lastIndex;
      return found;
    };
    const value = (found) => {
      if (found[2] !== undefined) { need(found[2].length <= 9, "a count is too large"); return Number(found[2]) + 0; }
      if (found[3] !== undefined) return { null: null, true: true, false: false }[found[3]];
      if (found[4] !== undefined) return JSON.parse(found[4]);
      need(found[1] === "[" || found[1] === "{", "it is no JSON");
      const list = found[1] === "[", made = list ? [] : new Map(), end = list ? "]" : "}";
      for (let one = next(); one[1] !== end; ) {
        if (list) made.push(value(one));
        else {
          need(one[4] !== undefined && next()[1] === ":", "a name is missing");
          const name = JSON.parse(one[4]);
          need(!made.has(name), "a name is said twice");
          made.set(name, value(next()));
        }
        one = next();
        need(one[1] === end || one[1] === ",", "it is no JSON");
        if (one[1] === ",") { one = next(); need(one[1] !== end, "it is no JSON"); }
      }
      return made;
    };
    const whole = value(next());
    need(/^[ \t\n\r]*$/.test(text.slice(at)), "something follows");
    return whole;
  }

  const written = (value) => {
    if (Array.isArray(value)) return `[${value.map(written).join(",")}]`;
    if (value instanceof Map) return `{${[...value.keys()].sort().map((n) => `${written(n)}:${written(value.get(n))}`).join(",")}}`;
    if (typeof value !== "string") return String(value);
    return JSON.stringify(value).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  };
  const named = async (value, without) => {
    const rest = new Map([...value].filter(([name]) => name !== without));
    const found = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(written(rest)));
    return [...new Uint8Array(found)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  };

  // --- numbers ---------------------------------------------------------------------------------------------------------
  const fields = (value, names) => {
    need(value instanceof Map && value.size === names.length && names.every((n) => value.has(n)), "a part is missing, or not known");
    return names.map((name) => value.get(name));
  };
  const listed = (value) => { need(Array.isArray(value), "a list is needed"); return value; };
  const count = (value) => { need(Number.isInteger(value) && value >= 0, "a count is needed"); return value; };
  function real(text) { // [m, e] of the float m 2^e, as Python's float.hex() writes it
    need(typeof text === "string", "a float is needed");
    if (text === "0x0.0p+0") return [0n, 0];
    const found = /^(-?)0x([01])\.([0-9a-f]{13})p([+-](?:0|[1-9][0-9]{0,3}))$/.exec(text);
    need(found && found[4] !== "-0", "a float is needed");
    const whole = BigInt(`0x${found[2]}${found[3]}`), exponent = Number(found[4]);
    need(found[2] === "1" ? exponent >= -1022 && exponent <= 1023 : exponent === -1022 && whole > 0n, "a float is needed");
    return [found[1] ? -whole : whole, exponent - 52];
  }
  function reals(rows) { // rows of floats as whole numbers over one power of two; null stays
    const parts = rows.map((row) => (row === null ? null : listed(row).map(real)));
    const low = parts.reduce((s, row) => (row ?? []).reduce((t, [, e]) => Math.min(t, e), s), 0);
    return [parts.map((row) => row && row.map(([m, e]) => m << BigInt(e - low))), 1n << BigInt(-low)];
  }
  function whole(text) {
    need(typeof text === "string" && text.length <= 1 << 16 && /^-?0x[0-9a-f]+$/.test(text), "a whole number is needed");
    return text[0] === "-" ? -BigInt(text.slice(1)) : BigInt(text);
  }
  function ratio(texts) {
    need(listed(texts).length === 2, "a ratio is needed");
    const [above, below] = texts.map(whole);
    need(below > 0n, "a denominator is not positive");
    return [above, below];
  }
  const weighted = (given) => {
    const found = new Map();
    for (const row of listed(given)) {
      need(listed(row).length === 4, "a weight stands behind an input and two tokens");
      const pair = row.slice(0, 3).map(count).join(" ");
      need(!found.has(pair), "a pair is listed twice");
      found.set(pair, whole(row[3]));
    }
    return found;
  };

  // --- the problem -----------------------------------------------------------------------------------------------------
  const DUALS = { L2: "L2", max: "sum", sum: "max", nuclear: "spectral", spectral: "nuclear" };
  const gcd = (a, b) => (b ? gcd(b, a % b) : a);
  function power(norm) {
    const found = /^l([1-9][0-9]{0,3})\/([1-9][0-9]{0,3})$/.exec(norm);
    const [a, b] = found ? [Number(found[1]), Number(found[2])] : [0, 0];
    return b < a && a <= 1000 && gcd(a, b) === 1 ? [a, b] : null;
  }
  const dual = (norm) => { const p = power(norm); return p ? `l${p[0]}/${p[0] - p[1]}` : DUALS[norm]; };

  const MORE = { limit: ["scores"], finite: ["scores", "loss"], mixed: ["scores", "loss"], joint: ["tokens", "labels", "rate"] };
  async function problemOf(given, kind) {
    const more = [...(given.has("queries") ? ["queries"] : []), ...(MORE[kind] ?? [])];
    const names = ["norm", "blocks", "keys", "selected", "margins", "digest", ...more];
    const [norm, blocks, keys, selected, margins, digest] = fields(given, names);
    need(typeof norm === "string" && (Object.hasOwn(DUALS, norm) || power(norm)), "the norm is not known here");
    need(norm === "L2" || kind === "bracket" || kind === "infeasible", "this kind speaks of L2");
    need(digest === (await named(given, "digest")), "the digest is not that of the problem");
    const places = listed(keys).map(listed), flat = places.flat();
    let [rows, unit] = reals(flat);
    const width = (rows.find((row) => row) ?? []).length;
    need(width > 0 && rows.every((row) => row === null || row.length === width), "the keys have no width, or several");
    const own = kind === "joint" ? listed(blocks).slice(1) : listed(blocks);
    need(own.length === 1, "the blocks are not known here");
    const [block, ...sizes] = listed(own[0]);
    need(sizes.length >= 1 && sizes.length <= 2 && sizes.every((s) => count(s) > 0), "the block is not known here");
    need(block === (sizes.length === 1 ? "p" : "W"), "the block is not known here");
    if (given.has("queries")) {
      const [queries, below] = reals(listed(given.get("queries")).map(listed));
      need(sizes.length === 2 && sizes[0] === width && queries.length === places.length, "the queries do not fit");
      need(queries.every((z) => z.length === sizes[1]) && flat.length * width * sizes[1] <= 1 << 22, "the queries do not fit");
      const owner = places.flatMap((tokens, i) => tokens.map(() => i));
      rows = rows.map((row, k) => row && row.flatMap((x) => queries[owner[k]].map((z) => x * z)));
      unit *= below;
    } else need(sizes[0] * (sizes[1] ?? 1) === width, "the block does not fit the keys");
    const [[asked], margin] = reals([listed(margins)]);
    let first = 0;
    const inputs = places.map((tokens) => rows.slice(first, (first += tokens.length)));
    need(inputs.length > 0 && inputs.length === listed(selected).length && inputs.length === asked.length, "inputs differ");
    need(asked.every((b) => b >= 0n), "a margin is negative");
    selected.forEach((chosen, i) => {
      need(listed(chosen).length > 0 && new Set(chosen).size === chosen.length, "an input selects no token, or one twice");
      need(chosen.every((s) => (inputs[i][count(s)] ?? null) !== null), "a token that is not there is selected");
    });
    const pairs = new Map(), ties = new Map();
    inputs.forEach((tokens, i) => tokens.forEach((key, t) => {
      const s = selected[i][0], where = selected[i].includes(t) ? ties : pairs;
      if (key !== null && t !== s) where.set(`${i} ${s} ${t}`, { i, t, row: tokens[s].map((x, j) => x - key[j]) });
    }));
    return { norm, unit, margin, asked, inputs, selected, pairs, ties, shape: [sizes[0], sizes[1] ?? 1], size: sizes[0] * (sizes[1] ?? 1), given, head: blocks[0] };
  }

  function gain(at, weights, ties, pairs) {
    need(weights.size > 0 && [...weights].every(([pair, w]) => pairs.has(pair) && w >= 0n), "a weight may not be used");
    need([...ties.keys()].every((pair) => at.ties.has(pair)), "a weight may not be used");
    const total = sum([...weights].map(([pair, w]) => w * at.asked[pairs.get(pair).i]));
    need(total > 0n, "nothing is asked");
    return total;
  }
  function pull(at, weights, ties) {
    let total = Array(at.size).fill(0n);
    for (const [group, own] of [[weights, at.pairs], [ties, at.ties]])
      for (const [pair, w] of group) { const { row } = own.get(pair); total = total.map((x, j) => x + w * row[j]); }
    return total;
  }
  function low(at, weights, ties, pairs) {
    const total = gain(at, weights, ties, pairs), rest = pull(at, weights, ties);
    need(rest.some((x) => x !== 0n), "the weighted differences cancel");
    return [(total * at.unit) ** 2n, dot(rest, rest) * at.margin ** 2n];
  }
  function feasible(at, p, pairs) {
    need(p.over > 0n && p.whole.length === at.size, "p does not fit");
    for (const { i, row } of pairs.values()) need(dot(row, p.whole) * at.margin >= at.asked[i] * at.unit * p.over, "p misses a pair");
    for (const { row } of at.ties.values()) need(dot(row, p.whole) === 0n, "p parts a tie");
  }
  const pointOf = (given) => { const [parts, below] = fields(given, ["whole", "over"]); return { whole: listed(parts).map(whole), over: whole(below) }; };
  function bracket(at, p, weights, ties, pairs = at.pairs) {
    feasible(at, p, pairs);
    return [low(at, weights, ties, pairs), [dot(p.whole, p.whole), p.over ** 2n]];
  }
  function affordable(at, numbers, products) { // what would take hours is refused before it is multiplied
    const digits = (list) => list.reduce((s, x) => { const b = bits(x); return b > s ? b : s; }, 1n) / 30n + 1n;
    const entries = at.inputs.flat().filter((key) => key).flat(), long = digits(numbers), key = digits([at.unit, ...entries]);
    const work = (BigInt(entries.length) * key + BigInt(at.size) * long) * long + BigInt(products) * (long + key) ** 2n;
    need(work <= 4000000000n, "its numbers are too long and too many");
  }

  // --- upper bounds of norms -------------------------------------------------------------------------------------------
  function root(number, index) {
    if (number < 2n || index === 1n) return number;
    let found = 1n << (bits(number) / index + 1n);
    for (;;) {
      const ahead = ((index - 1n) * found + number / found ** (index - 1n)) / index;
      if (ahead >= found) return found;
      found = ahead;
    }
  }
  function atMost(norm, line, below, shape, bound, witness) { // N(line / below) <= bound ?
    const entries = line.map(abs), room = times(bound, [below, 1n]), p = power(norm);
    const rows = Array.from({ length: shape[0] }, (_, i) => line.slice(i * shape[1], (i + 1) * shape[1]));
    if (bound[0] < 0n) return false;
    if (norm === "max" || norm === "sum") return !less(room, [norm === "max" ? most(entries) : sum(entries), 1n]);
    if (p) {
      const [a, b] = p.map(BigInt), drop = bits(most(entries)) - 160n;
      const fine = entries.map((x) => (drop > 0n ? (x + (1n << drop) - 1n) >> drop : x << -drop));
      const [u, v] = drop > 0n ? [room[0], room[1] << drop] : [room[0] << -drop, room[1]];
      return sum(fine.filter((x) => x).map((x) => root(x ** a, b) + 1n)) <= root(u ** a / v ** a, b);
    }
    if (norm === "nuclear") {
      const [K, Q] = witness, both = K.over * Q.over;
      need(K.rows.length === shape[0] && Q.rows.length === shape[1] && K.rows[0].length === Q.rows[0].length, "K and Q do not fit");
      const left = sum(rows.flatMap((row, i) => row.map((x, j) => abs(x * both - dot(K.rows[i], Q.rows[j]) * below))));
      const squares = [K, Q].map((part) => [sum(part.rows.map((row) => dot(row, row))), 2n * part.over ** 2n]);
      return !less(bound, plus(plus(squares[0], squares[1]), [left, both * below]));
    }
    const [L, s] = witness, lines = shape[0] >= shape[1] ? rows[0].map((_, j) => rows.map((row) => row[j])) : rows;
    need(L.rows.length === lines.length && L.rows[0].length === lines.length, "L does not fit");
    need(s.rows.length === 1 && s.rows[0].length === 1, "s does not fit");
    const of = [below ** 2n, L.over ** 2n, s.over], all = of[0] * of[1] * of[2];
    const rests = lines.map((x, i) => sum(lines.map((y, j) => abs(
      dot(x, y) * (all / of[0]) + dot(L.rows[i], L.rows[j]) * (all / of[1]) - (i === j ? s.rows[0][0] * (all / of[2]) : 0n)))));
    return !less(square(bound), plus([s.rows[0][0], s.over], [most(rests), all]));
  }
  function witnessOf(given, norm) {
    if (norm !== "nuclear" && norm !== "spectral") { need(given === null, "no witness is needed"); return []; }
    return fields(given, norm === "nuclear" ? ["K", "Q"] : ["L", "s"]).map((part) => {
      const [rows, below] = reals(listed(part).map(listed));
      need(rows.length > 0 && rows[0].length > 0 && rows.every((row) => row.length === rows[0].length), "a matrix is not one");
      return { rows, over: below };
    });
  }
  function inNorm(at, proof) {
    const [p, duals, ties, lower, upper, above, below] = fields(proof, ["p", "duals", "tie_duals", "low", "high", "above", "below"]);
    const [floor, ceiling] = [ratio(lower), ratio(upper)], other = dual(at.norm);
    const [first, second] = [witnessOf(above, at.norm), witnessOf(below, other)], parts = [...first, ...second];
    const point = pointOf(p), [weights, tied] = [weighted(duals), weighted(ties)];
    const wide = Math.max(...at.shape, ...parts.map((part) => part.rows[0].length));
    const products = at.size * wide + parts.reduce((s, part) => s + part.rows.length * part.rows[0].length * wide, 0);
    affordable(at, [...point.whole, point.over, ...weights.values(), ...tied.values(), ...parts.flatMap((part) => [part.over, ...part.rows.flat()])], products);
    feasible(at, point, at.pairs);
    need(floor[0] > 0n && !less(ceiling, floor), "the bracket is not one");
    const total = gain(at, weights, tied, at.pairs), rest = pull(at, weights, tied);
    need(rest.some((x) => x !== 0n), "the weighted differences cancel");
    need(atMost(at.norm, point.whole, point.over, at.shape, ceiling, first), "the upper bound is not proved");
    need(atMost(other, rest, at.unit, at.shape, over([total, at.margin], floor), second), "the lower bound is not proved");
    return `the shortest p in the norm ${at.norm} is bracketed as stated`;
  }

  // --- what limits need ------------------------------------------------------------------------------------------------
  function meansOf(at) { // scores; tokens of one key have their mean
    const scores = listed(at.given.get("scores"));
    need(scores.length === at.inputs.length, "scores and keys differ in inputs");
    return at.inputs.map((tokens, i) => {
      const [[row], below] = reals([listed(scores[i])]), alike = new Map();
      need(row.length === tokens.length, "scores and keys differ in tokens");
      tokens.forEach((key, t) => { if (key) alike.set(key.join(), [...(alike.get(key.join()) ?? []), row[t]]); });
      return tokens.map((key) => { const own = key && alike.get(key.join()); return own && [sum(own), BigInt(own.length) * below]; });
    });
  }
  function turned(p, texts, stated, least, own) { // the velocity is within the stated angle of p*
    const [[velocity]] = reals([listed(texts)]), along = dot(velocity, p.whole);
    need(along > 0n, "the velocity does not point along p");
    const first = minus([1n, 1n], [along ** 2n, dot(velocity, velocity) * dot(p.whole, p.whole)]), second = over(minus(own, least), own);
    const rest = minus(minus(stated, first), second);
    need(rest[0] >= 0n && !less(square(rest), times([4n, 1n], times(first, second))), "the velocity is further from p");
    need(!less([1n, 10n ** 12n], stated), "the sine is stated too large");
  }

  // --- the statements ---------------------------------------------------------------------------------------------
  function proofOf(at, proof, names, kind) {
    const parts = fields(proof, names), point = names.includes("p") ? pointOf(parts[names.indexOf("p")]) : null;
    const [weights, ties] = kind.map((name) => weighted(parts[names.indexOf(name)]));
    affordable(at, [...(point ? [...point.whole, point.over] : []), ...weights.values(), ...ties.values()], 0);
    return [point, weights, ties, ...parts];
  }
  const DUAL = ["duals", "tie_duals"], WEIGHT = ["weights", "tie_weights"];
  const statements = {
    shortest(at, proof) {
      const [p, weights, ties] = proofOf(at, proof, ["p", ...DUAL], DUAL), [least, own] = bracket(at, p, weights, ties);
      need(!less(least, own) && !less(own, least), "p is not proved to be the shortest");
      return "p is the shortest, exactly";
    },
    bracket(at, proof) {
      if (at.norm !== "L2") return inNorm(at, proof);
      const [p, weights, ties, ...parts] = proofOf(at, proof, ["p", ...DUAL, "low", "high"], DUAL);
      const [floor, ceiling] = [ratio(parts[3]), ratio(parts[4])], [least, own] = bracket(at, p, weights, ties);
      need(floor[0] > 0n && !less(least, floor) && !less(ceiling, own), "the bracket is not the one that is proved");
      return "the shortest p is bracketed as stated";
    },
    bound(at, proof) {
      const [, weights, ties, ...parts] = proofOf(at, proof, [...WEIGHT, "low"], WEIGHT), floor = ratio(parts[2]);
      const least = low(at, weights, ties, at.pairs);
      for (const [pair, { i }] of at.pairs)
        if (at.asked[i] > 0n) need(!less(least, low(at, new Map([[pair, 1n]]), new Map(), new Map([[pair, at.pairs.get(pair)]]))), "one pair asks for more");
      need(floor[0] > 0n && !less(least, floor), "the bound is not proved");
      return "any p is at least as long as stated";
    },
    infeasible(at, proof) {
      const [, weights, ties] = proofOf(at, proof, WEIGHT, WEIGHT);
      gain(at, weights, ties, at.pairs);
      need(pull(at, weights, ties).every((x) => x === 0n), "the weighted differences do not cancel");
      return "there is no p";
    },
    limit(at, proof) {
      const [p, weights, ties, ...parts] = proofOf(at, proof, ["p", ...DUAL, "velocity", "sine_square"], DUAL);
      need(at.asked.every((b) => b === at.margin), "a margin is not 1");
      const means = meansOf(at);
      const best = at.selected.map((chosen, i) => means[i][chosen[0]]), same = (a, b) => a[0] * b[1] === b[0] * a[1];
      need(at.selected.every((chosen, i) => chosen.every((s) => same(means[i][s], best[i]))), "selected tokens differ in score");
      const asked = new Map([...at.pairs].filter(([, { i, t }]) => !same(means[i][t], best[i])));
      const [least, own] = bracket(at, p, weights, ties, asked), unsure = times(minus(own, least), [p.over ** 2n, 1n]);
      for (const { i, t, row } of at.pairs.values()) {
        const tied = same(means[i][t], best[i]), beyond = dot(row, p.whole) - (tied ? 0n : at.unit * p.over);
        const surely = beyond > 0n && less(times(unsure, [dot(row, row), 1n]), [beyond ** 2n, 1n]);
        need(less(means[i][t], best[i]) || surely, "a token holds p back and does not score less");
      }
      const single = [...at.ties.values()].every(({ row }) => row.every((x) => x === 0n));
      need(single || same(least, own), "with several keys p has to be the shortest exactly");
      at.inputs.forEach((_, i) => {
        const mine = (group) => [...group].filter(([pair]) => pair.startsWith(`${i} `)).map(([, w]) => w);
        need(mine(ties).every((w) => w <= 0n) && -sum(mine(ties)) <= sum(mine(weights)), "ties pull by themselves");
      });
      turned(p, parts[3], ratio(parts[4]), least, own);
      return "the velocity points along a direction that the scores hold";
    },
  };

  const tools = { need, abs, dot, sum, less, plus, minus, times, over, square, fields, listed, count, real, reals, ratio };
  Object.assign(statements, globalThis.trainedStatements({ ...tools, weighted, pointOf, affordable, bracket, meansOf, turned, root }));

  return async (text) => {
    try {
      need(text.length <= 1 << 26, "it is too long");
      const content = parsed(text);
      const [format, version, kind, problem, proof, seal] = fields(content, ["format", "version", "kind", "problem", "proof", "seal"]);
      need(format === "tokenmargin certificate" && version === 2, "it is no certificate of this version");
      need(typeof kind === "string" && Object.hasOwn(statements, kind) && problem instanceof Map, "its kind is not known here");
      need(seal === (await named(content, "seal")), "the file was changed after it was written");
      return { verified: true, because: statements[kind](await problemOf(problem, kind), proof) };
    } catch (problem) {
      return { verified: false, because: String(problem.message ?? problem).slice(0, 200) };
    }
  };
})();
