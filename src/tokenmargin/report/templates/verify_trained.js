// Statements on where training goes, for verify.js: a point where it stops, a part that stops, and v beside p.
// What they say and what proves them is at the head of verify/_trained.py and verify/_stationary.py. Intervals are
// [least, largest], whole numbers over 2^bits, rounded outward.
"use strict";
globalThis.trainedStatements = (tools) => {
  const { need, abs, dot, sum, less, plus, minus, times, over, square } = tools;
  const { fields, listed, count, real, reals, ratio, weighted, pointOf, affordable, bracket, meansOf, turned } = tools;
  const LEAST_BITS = 128, MOST_BITS = 4096, MOST_PRODUCTS = 10 ** 7;
  const LOGIT = [1n, 10n ** 6n], MARGIN = [1n, 10n ** 9n];

  const floor = (a, b) => { const q = a / b; return q * b !== a && (a < 0n) !== (b < 0n) ? q - 1n : q; };
  const ceil = (a, b) => -floor(-a, b);
  const number = (text) => { const [m, e] = real(text); return e < 0 ? [m, 1n << BigInt(-e)] : [m << BigInt(e), 1n]; };
  const greatest = (list) => list.reduce((s, x) => (x > s ? x : s));
  const smallest = (list) => list.reduce((s, x) => (x < s ? x : s));

  function gridOf(bits) {
    const B = BigInt(bits), one = 1n << B;
    const up = (x, shift) => -(-x >> shift);
    const product = (a, b) => {
      const every = [a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]];
      return [smallest(every) >> B, up(greatest(every), B)];
    };
    const inverse = (a) => { need(a[0] > 0n, "more bits are needed"); return [(one * one) / a[1], ceil(one * one, a[0])]; };
    const total = (list) => [sum(list.map((a) => a[0])), sum(list.map((a) => a[1]))];
    function powers(x) { // exp of a small number from 0 on
      let low = one, high = one, least = one, largest = one;
      for (let k = 1n; k < B; k++) {
        least = (least * x >> B) / k;
        largest = ceil(up(largest * x, B), k);
        low += least; high += largest;
        if (largest <= 1n) break;
      }
      return [low, high + largest];
    }
    function exponential(x) {
      if (abs(x) >> B >= B) { need(x < 0n, "an exponential is too large"); return [0n, 1n]; }
      let halved = 0n;
      while (abs(x) > (one >> 4n) << halved) halved++;
      let low = powers(abs(x) >> halved)[0], high = powers(up(abs(x), halved))[1];
      for (let k = 0n; k < halved; k++) { low = low * low >> B; high = up(high * high, B); }
      return x >= 0n ? [low, high] : inverse([low, high]);
    }
    return {
      one: [one, one], product, inverse, total,
      of: ([a, b]) => [floor(a << B, b), ceil(a << B, b)],
      dot: (a, b) => total(a.map((x, k) => product(x, b[k]))),
      exp: (a) => [exponential(a[0])[0], exponential(a[1])[1]],
      less: (a, b) => [a[0] - b[1], a[1] - b[0]],
      minus: (a) => [-a[1], -a[0]],
      size: (a) => greatest([-a[0], a[1]]),
    };
  }

  const SLOPES = { // l' and l''
    logistic: (g, f) => {
      const [first, second] = f.map((x) => g.inverse(g.total([g.one, g.exp([x, x])])));
      const share = [second[0], first[1]];
      return [g.minus(share), g.product(share, g.less(g.one, share))];
    },
    exponential: (g, f) => { const value = g.exp(g.minus(f)); return [g.minus(value), value]; },
    correlation: (g) => [g.minus(g.one), [0n, 0n]],
    label_log: (g, f) => { const inverse = g.inverse(f); return [g.minus(inverse), g.product(inverse, inverse)]; },
    label_squared: (g, f) => [g.less(f, g.one), g.one],
  };

  function inputOf(g, unit, rows, p, columns, scores) { // logits, their change and scores, behind the first token
    const products = rows.map((row) => dot(row, p.whole)), top = products.indexOf(greatest(products));
    const behind = rows.map((_, t) => t).filter((t) => t !== top);
    return {
      logits: behind.map((t) => g.of([products[t] - products[top], unit * p.over])),
      change: behind.map((t) => columns.map(([j, most]) => g.of([rows[t][j] - rows[top][j], most]))),
      ahead: behind.map((t) => g.of(minus(scores[t], scores[top]))),
      best: g.of(scores[top]),
    };
  }
  function ofInput(g, input, widths) { // f, its gradient and its Hessian
    const wide = widths.map((w) => [w, w]), every = widths.map((_, j) => j);
    const lifted = input.logits.map((x, t) => {
      const spread = g.dot(input.change[t].map((d) => [0n, g.size(d)]), wide)[1];
      return g.exp([x[0] - spread, x[1] + spread]);
    });
    const all = g.inverse(g.total([g.one, ...lifted])), share = lifted.map((x) => g.product(x, all));
    const off = g.dot(share, input.ahead), pull = share.map((s, t) => g.product(s, g.less(input.ahead[t], off)));
    const columns = every.map((j) => input.change.map((row) => row[j]));
    const [felt, mean] = [pull, share].map((by) => columns.map((column) => g.dot(by, column)));
    const bent = every.map((j) => every.map((k) => g.less(
      g.dot(pull.map((a, t) => g.product(a, columns[j][t])), columns[k]),
      g.total([g.product(mean[j], felt[k]), g.product(mean[k], felt[j])]))));
    return [g.total([input.best, off]), felt, bent];
  }
  function derivatives(g, loss, inputs, half) {
    const widths = half.map((h) => g.of(h)[1]), every = widths.map((_, j) => j), outputs = [];
    let gradient = every.map(() => [0n, 0n]), hessian = every.map(() => every.map(() => [0n, 0n]));
    for (const input of inputs) {
      const [f, felt, bent] = ofInput(g, input, widths);
      outputs.push(f);
      if (input.logits.length === 0) continue;
      const [first, second] = SLOPES[loss](g, f);
      gradient = gradient.map((x, j) => g.total([x, g.product(first, felt[j])]));
      hessian = hessian.map((row, j) => row.map((x, k) => g.total(
        [x, g.product(first, bent[j][k]), g.product(g.product(second, felt[j]), felt[k])])));
    }
    return [gradient, hessian, outputs];
  }
  function ofRank(rows, most, width) { // no more than `most` of the rows are independent
    const echelon = [], gcd = (a, b) => { while (b) [a, b] = [b, a % b]; return abs(a); };
    if (most >= width) return true;
    for (let rest of rows) {
      for (const [place, other] of echelon)
        if (rest[place]) { const a = rest[place], b = other[place]; rest = rest.map((x, j) => x * b - a * other[j]); }
      const first = rest.findIndex((x) => x !== 0n);
      if (first < 0) continue;
      if (echelon.length >= most) return false;
      const common = rest.reduce(gcd, 0n);
      echelon.push([first, rest.map((x) => x / common)]);
    }
    return true;
  }

  function stops(at, proof) { // the Krawczyk test of the selected tokens; outputs all over the box
    const given = at.given, loss = given.get("loss"), columns = listed(proof.columns).map(count), m = columns.length;
    const factor = listed(proof.factor).map((row) => listed(row).map(number)), half = listed(proof.half).map(number);
    const bits = count(proof.bits), [[whole], below] = reals([listed(proof.point)]), p = { whole, over: below };
    need(typeof loss === "string" && Object.hasOwn(SLOPES, loss), "the loss is not known here");
    need(m > 0 && new Set(columns).size === m && columns.every((j) => j < at.size), "the columns are no columns");
    need(half.length === m && half.every((h) => h[0] > 0n) && factor.length === m, "the box is not one");
    need(factor.every((row) => row.length === m) && bits >= LEAST_BITS && bits <= MOST_BITS, "the box is not one");
    const tokens = at.selected.reduce((s, chosen) => s + chosen.length, 0);
    need(2 * tokens * m * (m + 20) + m ** 3 <= MOST_PRODUCTS && whole.length === at.size, "the point does not fit");
    affordable(at, [...whole, below], m === at.size ? 0 : tokens * at.size * m ** 3);
    const means = meansOf(at), g = gridOf(bits);
    const rows = at.inputs.map((keys, i) => at.selected[i].map((s) => keys[at.selected[i][0]].map((x, j) => x - keys[s][j])));
    need(ofRank(rows.flat(), m, at.size), "differences of keys point out of the columns");
    const largest = columns.map((j) => greatest(rows.flat().map((row) => abs(row[j]))));
    need(largest.every((top) => top > 0n), "a column has no difference of keys");
    const pairs = columns.map((j, k) => [j, largest[k]]);
    const inputs = rows.map((group, i) => inputOf(
      g, at.unit, group.map((row) => row.map((x) => -x)), p, pairs, at.selected[i].map((s) => means[i][s])));
    const [gradient] = derivatives(g, loss, inputs, half.map(() => [0n, 1n]));
    const [, hessian, outputs] = derivatives(g, loss, inputs, half);
    const Y = factor.map((a) => factor.map((b) => g.of(a.reduce((s, x, k) => plus(s, times(x, b[k])), [0n, 1n]))));
    const sizes = half.map(g.of);
    Y.forEach((row, j) => {
      const step = g.size(g.dot(row, gradient));
      const off = Y.map((_, k) => g.less(k === j ? g.one : [0n, 0n], g.dot(row, hessian.map((line) => line[k]))));
      const rest = g.total(off.map((x, k) => g.product([0n, g.size(x)], sizes[k])))[1];
      need(step + rest < sizes[j][0], "the box fails the Krawczyk test");
    });
    need(!less(LOGIT, half.reduce(plus, [0n, 1n])), "the box is too large");
    return outputs.map((f) => [f[0], 1n << BigInt(bits)]);
  }

  const beyond = (at, { i, row }, p, off) => { // p* is surely beyond what is asked, p being within the root of `off`
    const spare = minus([dot(row, p.whole), p.over], [at.asked[i] * at.unit, at.margin]);
    return spare[0] > 0n && less(times([dot(row, row), 1n], off), square(spare));
  };
  const STOPS = ["point", "columns", "half", "factor", "bits"];
  const stopping = (proof) => Object.fromEntries(STOPS.map((name) => [name, proof.get(name)]));
  const AWAY = ["velocity", "sine_square", "p", "duals", "tie_duals"];

  function along(at, proof) { // p with its bracket, and the velocity that is stated to point there
    const [velocity, sine, point, duals, ties] = fields(proof, AWAY), p = pointOf(point);
    const weights = weighted(duals), tied = weighted(ties);
    affordable(at, [...p.whole, p.over, ...weights.values(), ...tied.values()], 0);
    const [low, high] = bracket(at, p, weights, tied);
    turned(p, velocity, ratio(sine), low, high);
    return [p, low, high];
  }
  function rootBetween([above, below]) {
    const long = (x) => x.toString(2).length, shift = BigInt(Math.max(0, 64 + Math.floor((long(below) - long(above)) / 2)));
    const found = tools.root(above * 4n ** shift / below, 2n);
    return [[found, 2n ** shift], [found + 1n, 2n ** shift]];
  }

  return {
    finite(at, proof) {
      fields(proof, STOPS);
      need(at.pairs.size === 0, "a token is not selected");
      stops(at, stopping(proof));
      return "one stationary point, a strict minimum, is where it is stated";
    },
    mixed(at, proof) {
      fields(proof, [...STOPS, "along", ...AWAY.filter((name) => name !== "p")]);
      need(at.asked.every((b) => b === at.margin) && at.given.get("loss") !== "label_squared", "margins are not 1");
      const outputs = stops(at, stopping(proof)), means = meansOf(at);
      const rest = new Map(AWAY.map((name) => [name, proof.get(name === "p" ? "along" : name)]));
      const [p, low, high] = along(at, rest), off = minus(high, low);
      for (const pair of at.pairs.values())
        need(less(means[pair.i][pair.t], outputs[pair.i]) || beyond(at, pair, p, off), "a token holds p back and does not score less");
      return "a part stops where it is stated, and the rest points along a direction that the scores hold";
    },
    joint(at, proof) {
      const [own, other] = fields(proof, ["v", "p"]), labels = listed(at.given.get("labels")).map(number);
      need(at.ties.size === 0, "an input selects several tokens");
      const places = listed(at.given.get("tokens")).map(listed), [flat, unit] = reals(places.flat());
      need(labels.length === places.length && places.length === at.inputs.length, "inputs differ");
      need(labels.every(([a, b]) => abs(a) === b), "a label is neither 1 nor -1");
      const width = (flat.find((row) => row) ?? []).length;
      need(width > 0 && flat.every((row) => row === null || row.length === width) && at.head[0] === "v" && at.head[1] === width, "tokens do not fit v");
      let first = 0;
      const tokens = places.map((rows, i) => flat.slice(first, (first += rows.length)).map((row) => row && row.map((x) => labels[i][0] < 0n ? -x : x)));
      tokens.forEach((rows, i) => need(rows.length === at.inputs[i].length && rows.every((row, t) => (row === null) === (at.inputs[i][t] === null)), "tokens and keys differ"));
      const chosen = tokens.map((rows, i) => rows[at.selected[i][0]]), zero = Array(width).fill(0n);
      const pairs = new Map(chosen.map((row, i) => [`${i} 0 1`, { i, t: 1, row }]));
      const classes = { unit, margin: 1n, asked: chosen.map(() => 1n), inputs: chosen.map((row) => [row, zero]), pairs, ties: new Map(), size: width };
      const [v, low, high] = along(classes, own);
      need(!less(low, high) && !less(high, low), "v is not proved to be the shortest, exactly");
      const [p, least, most] = along(at, other), rate = number(at.given.get("rate"));
      need(rate[0] >= 0n, "the ratio of speeds is negative");
      const ends = [least, most].flatMap((one) => rootBetween(over(one, high)));
      chosen.forEach((row, i) => {
        const spare = times(rate, minus([dot(row, v.whole), unit * v.over], [1n, 1n]));
        for (const end of ends) {
          const left = minus([1n, 1n], times(spare, end)), size = left[0] < 0n ? [0n, 1n] : left;
          const off = minus([at.asked[i], at.margin], size);
          need(!less(MARGIN, [abs(off[0]), off[1]]), "a margin is not what the ratio of speeds leaves");
        }
      });
      for (const pair of at.pairs.values()) {
        const rows = tokens[pair.i], lower = dot(rows[pair.t], v.whole) < dot(chosen[pair.i], v.whole);
        need(lower || beyond(at, pair, p, minus(most, least)), "a token holds p back and does not score less");
      }
      return "v and p point along directions that hold each other";
    },
  };
};
