// Softmax attention over tokens in the plane: max-margin directions by enumeration, the flow of p past saturation.
// A problem is a list of inputs, an input a list of tokens {x, y, score}: key (x, y), score for the right label.
// Pure functions of numbers; src/tokenmargin/{margin,attention} compute the same in Python, and a test compares them.

// Tokens whose scores differ by less are ties, as in Python; a constraint this close to its bound is met with equality.
const SCORE_TIE = 1e-12, TIGHT = 1e-9;
// A force of the flow below this, in units of the largest difference of keys, has vanished; gaps of logits along the
// velocity below the second number are ties: part of p stays finite.
const VANISHED = 1e-10, TIED = 1e-6;

// Shortest p with rows . p >= 1: in the plane at most two rows hold it. Null where no p does.
function shortest(rows) {
  if (!rows.length) return [0, 0];
  let best = null, length = Infinity;
  const offer = (p) => {
    const square = p[0] * p[0] + p[1] * p[1];
    if (square < length && rows.every((d) => d[0] * p[0] + d[1] * p[1] >= 1 - TIGHT)) { best = p; length = square; }
  };
  rows.forEach((a, k) => {
    const square = a[0] * a[0] + a[1] * a[1];
    if (square > 0) offer([a[0] / square, a[1] / square]);
    for (let l = 0; l < k; l++) {
      const b = rows[l], area = a[0] * b[1] - a[1] * b[0];
      // Rows that are parallel up to rounding meet nowhere.
      if (Math.abs(area) > 1e-14 * Math.sqrt(square * (b[0] * b[0] + b[1] * b[1]))) {
        offer([(b[1] - a[1]) / area, (a[0] - b[0]) / area]);
      }
    }
  });
  return best;
}

// Differences of keys that a choice of tokens asks to be at least 1, with their input and their other token.
function constraints(inputs, chosen) {
  const pairs = [];
  chosen.forEach((s, i) => inputs[i].forEach((token, t) => {
    if (t !== s) pairs.push({ i, s, t, row: [inputs[i][s].x - token.x, inputs[i][s].y - token.y] });
  }));
  return pairs;
}

// (ATT-SVM) of one token for each input: {p, margin, neighbours, isLocal, isGlobal}, or null where it is infeasible.
function attSvm(inputs, chosen) {
  const pairs = constraints(inputs, chosen), p = shortest(pairs.map((one) => one.row));
  if (!p) return null;
  const neighbours = pairs.filter((one) => one.row[0] * p[0] + one.row[1] * p[1] <= 1 + TIGHT);
  const beats = (one) => {
    const scores = inputs[one.i].map((token) => Math.abs(token.score));
    return inputs[one.i][one.s].score - inputs[one.i][one.t].score > SCORE_TIE * Math.max(...scores);
  };
  return {
    chosen, p, neighbours, margin: 1 / Math.hypot(...p), isLocal: pairs.length > 0 && neighbours.every(beats),
    isGlobal: pairs.every(beats),
  };
}

// Every locally optimal direction, by choosing for one input after another and dropping what cannot be separated.
function localMargins(inputs) {
  let partial = [[]];
  for (let i = 0; i < inputs.length; i++) {
    partial = partial.flatMap((chosen) => inputs[i].map((_, s) => [...chosen, s]));
    partial = partial.filter((chosen) => shortest(constraints(inputs, chosen).map((one) => one.row)));
  }
  return partial.map((chosen) => attSvm(inputs, chosen)).filter((one) => one.isLocal);
}

// Logarithm of the softmax of one input, and the mean score under it.
function attention(input, p) {
  const logits = input.map((token) => token.x * p[0] + token.y * p[1]), top = Math.max(...logits);
  const total = Math.log(logits.reduce((sum, one) => sum + Math.exp(one - top), 0)) + top;
  return logits.map((one) => one - total);
}

const logSigmoid = (x) => (x > 0 ? -Math.log1p(Math.exp(-x)) : x - Math.log1p(Math.exp(x)));

// Pairs of tokens that pull on p, each with the logarithm of its weight, so that no weight underflows before its
// direction does, and with the gradient of that logarithm. Behind a bend each input is on the side that `on` says.
function pull(inputs, p, bend = null, on = []) {
  const pairs = [];
  inputs.forEach((input, i) => {
    const shares = attention(input, p), mean = (of) => input.reduce((sum, token, t) => sum + Math.exp(shares[t]) * of(token), 0);
    const x = mean((token) => token.x), y = mean((token) => token.y), z = mean((token) => token.score);
    const rises = bend && on[i] ? 1 - bend.by : 1, output = z - (1 - rises) * (z - (bend ? bend.at : 0));
    if (rises === 0) return;
    const loss = logSigmoid(-output) + Math.log(Math.abs(rises)), share = Math.exp(logSigmoid(output)) * rises;
    const rise = [mean((token) => token.score * (token.x - x)), mean((token) => token.score * (token.y - y))];
    for (let s = 0; s < input.length; s++) {
      for (let t = 0; t < s; t++) {
        const a = input[s], b = input[t], gap = a.score - b.score;
        if (gap !== 0 && (a.x !== b.x || a.y !== b.y)) {
          pairs.push({
            log: shares[s] + shares[t] + loss + Math.log(Math.abs(gap)), sign: Math.sign(gap * rises), row: [a.x - b.x, a.y - b.y],
            slope: [a.x + b.x - 2 * x - share * rise[0], a.y + b.y - 2 * y - share * rise[1]],
          });
        }
      }
    }
  });
  return pairs;
}

// Velocity of the flow, minus the gradient over the sum of its weights, of order one however saturated attention is; its
// derivative, row by row; and the logarithm of that sum.
function force(inputs, p, bend = null, on = []) {
  const pairs = pull(inputs, p, bend, on), top = pairs.reduce((most, one) => Math.max(most, one.log), -Infinity);
  let total = 0;
  const f = [0, 0], mean = [0, 0], product = [0, 0, 0, 0];
  for (const one of pairs) {
    const weight = Math.exp(one.log - top);
    total += weight;
    for (let j = 0; j < 2; j++) {
      f[j] += weight * one.sign * one.row[j]; mean[j] += weight * one.slope[j];
      for (let k = 0; k < 2; k++) product[2 * j + k] += weight * one.sign * one.row[j] * one.slope[k];
    }
  }
  if (!total) return { velocity: [0, 0], derivative: [0, 0, 0, 0], log: -Infinity };
  const velocity = f.map((one) => one / total);
  return {
    velocity, derivative: product.map((one, c) => one / total - velocity[c >> 1] * mean[c & 1] / total), log: top + Math.log(total),
  };
}

// Mean logistic loss; 0 once it underflows.
function risk(inputs, p, bend = null) {
  const losses = inputs.map((input) => {
    const shares = attention(input, p);
    const z = input.reduce((sum, token, t) => sum + Math.exp(shares[t]) * token.score, 0);
    return -logSigmoid(bend ? bentOutput(z, bend) : z);
  });
  return losses.reduce((sum, one) => sum + one, 0) / inputs.length;
}

const spread = (inputs) => Math.max(1e-300, ...inputs.flatMap(
  (input) => input.flatMap((a) => input.map((b) => Math.hypot(a.x - b.x, a.y - b.y)))));

// A step of Shampine and Reichelt's Rosenbrock pair of orders 2 and 3 (ode23s), which stiff directions do not hold up.
const IMPLICIT = 1 / (2 + Math.SQRT2), THIRD = 6 + Math.SQRT2;

function step(field, y, now, h) {
  const [a, b, c, d] = now.derivative.map((one, k) => (k % 3 ? 0 : 1) - h * IMPLICIT * one), area = a * d - b * c;
  const solve = (r) => [(d * r[0] - b * r[1]) / area, (a * r[1] - c * r[0]) / area];
  const f0 = now.velocity, k1 = solve(f0), f1 = field(y.map((one, j) => one + h / 2 * k1[j])).velocity;
  const k2 = solve(f1.map((one, j) => one - k1[j])).map((one, j) => one + k1[j]);
  const end = y.map((one, j) => one + h * k2[j]), next = field(end);
  const k3 = solve(next.velocity.map((one, j) => one - THIRD * (k2[j] - f1[j]) - 2 * (k1[j] - f0[j])));
  return { end, next, wrong: h / 6 * Math.hypot(...k1.map((one, j) => one - 2 * k2[j] + k3[j])) };
}

// A token is out of reach this many logits behind, where its share is below the ninth digit: as in Python.
const OUT_OF_REACH = 20.7;

// The path from a start, until its velocity has settled: {path, kind, velocity, chosen}. Kinds are those of Python:
// diverges, finite, mixed, stalled. `chosen` lists for each input the tokens of largest logit along the velocity. `known`
// may tell what becomes of a point, as {known: ...}, and ends the path there.
function flow(inputs, start, { tolerance = 1e-6, most = 4000, settled = 1e-9, known = () => null } = {}) {
  const unit = spread(inputs), field = (p) => {
    const found = force(inputs, p);
    return { velocity: found.velocity.map((one) => one / unit), derivative: found.derivative.map((one) => one / unit) };
  };
  const path = [start];
  let y = start, now = field(y), h = 0.1 / unit, calm = 0;
  for (let count = 0; count < most; count++) {
    const tried = step(field, y, now, h), allowed = tolerance / unit;
    if (tried.wrong <= allowed) {
      const turned = Math.hypot(...tried.next.velocity.map((one, j) => one - now.velocity[j]));
      calm = turned <= settled * Math.hypot(...now.velocity) ? calm + 1 : 0;
      y = tried.end; now = tried.next;
      path.push(y);
      const told = known(y);
      if (told) return told;
      const rest = Math.hypot(...now.velocity) <= VANISHED ? atRest(inputs, path, now, unit) : null;
      if (rest) return rest;
      if (calm > 4) {
        const end = ending(inputs, path, null, now.velocity);
        if (isBehind(inputs, y, end.chosen) && holdsUp(inputs, y, end)) return end;
      }
    }
    const change = 0.9 * (allowed / Math.max(tried.wrong, 1e-300)) ** (1 / 3);
    // No step is so long that it jumps over a token that is about to carry weight; on a straight path it may grow.
    const longest = Math.max(4, calm) / (unit * Math.max(1e-9, Math.hypot(...now.velocity)));
    h = Math.min(h * Math.min(3, Math.max(0.2, change)), longest);
  }
  return ending(inputs, path, "stalled", now.velocity);
}

// An end without force: a finite point if Newton's step from it is short; a mixed limit if the rest of p still moves away
// from tokens that are out of reach; else null, and the path goes on.
function atRest(inputs, path, { velocity, derivative: [a, b, c, d] }, unit) {
  const area = a * d - b * c, square = a * a + b * b + c * c + d * d, [x, y] = velocity;
  if (!square) return ending(inputs, path, "finite", [0, 0]);
  // Keys on one line leave the derivative one rank short: then the step along that line is taken.
  const isFull = Math.abs(area) > 1e-14 * square;
  const newton = isFull ? [(b * y - d * x) / area, (c * x - a * y) / area] : [-(a * x + c * y) / square, -(b * x + d * y) / square];
  if (Math.hypot(...newton) * unit < 1e-6) return ending(inputs, path, "finite", [0, 0]);
  const end = ending(inputs, path, null, newton);
  return end.kind === "mixed" && isBehind(inputs, path[path.length - 1], end.chosen) ? end : null;
}

// True if no token of another score falls behind more slowly than those that carry weight: it would catch up with them.
function holdsUp(inputs, p, { chosen, velocity, kind }) {
  if (kind === "mixed") return true;
  const rates = inputs.flatMap((input, i) => {
    const best = input[chosen[i][0]], log = logSigmoid(-best.score);
    return input.filter((token) => token.score !== best.score).map((token) => {
      const row = [best.x - token.x, best.y - token.y], along = (of) => row[0] * of[0] + row[1] * of[1];
      return { rate: along(velocity), log: log - along(p) + Math.log(Math.abs(best.score - token.score)) };
    });
  });
  const top = Math.max(...rates.map((one) => one.log)), weights = rates.map((one) => Math.exp(one.log - top));
  const total = weights.reduce((sum, one) => sum + one, 0);
  const mean = rates.reduce((sum, one, k) => sum + weights[k] * one.rate, 0) / total;
  return rates.every((one) => one.rate >= mean * (1 - TIED));
}

// True if all tokens but those that the velocity selects are out of reach at p.
function isBehind(inputs, p, chosen) {
  return inputs.every((input, i) => {
    const logits = input.map((token) => token.x * p[0] + token.y * p[1]);
    const least = Math.min(...chosen[i].map((t) => logits[t]));
    return logits.every((one, t) => chosen[i].includes(t) || least - one >= OUT_OF_REACH);
  });
}

function ending(inputs, path, kind, slope) {
  const p = path[path.length - 1], size = Math.hypot(...slope), unit = spread(inputs);
  const velocity = size > 0 ? [slope[0] / size, slope[1] / size] : [0, 0], along = size > 0 && kind !== "finite" ? velocity : p;
  let shared = false;
  const chosen = inputs.map((input) => {
    const logits = input.map((token) => token.x * along[0] + token.y * along[1]), top = Math.max(...logits);
    const best = input.map((_, t) => t).filter((t) => top - logits[t] <= TIED * unit);
    // Tokens of one key, or of one score, share attention without holding anything back.
    shared ||= best.some((s) => best.some((t) => input[s].score !== input[t].score
      && (input[s].x !== input[t].x || input[s].y !== input[t].y)));
    return best;
  });
  return { path, velocity, chosen, kind: kind ?? (shared ? "mixed" : "diverges") };
}

// The same where v is trained too and scores are v . token for the label [M, Section 3]: y = (v, p), each at speed one,
// by the classical method of Runge and Kutta.
function jointFlow(inputs, start, steps, h) {
  const path = [start], moved = (y, slope, by) => y.map((one, j) => one + by * slope[j]);
  for (let k = 0; k < steps; k++) {
    const y = path[k], a = jointForce(inputs, y), b = jointForce(inputs, moved(y, a, h / 2));
    const c = jointForce(inputs, moved(y, b, h / 2)), d = jointForce(inputs, moved(y, c, h));
    path.push(moved(y, a.map((one, j) => (one + 2 * b[j] + 2 * c[j] + d[j]) / 6), h));
  }
  return path;
}

function jointForce(inputs, y) {
  const v = [y[0], y[1]], p = [y[2], y[3]];
  const scored = inputs.map((input) => input.map((token) => (
    { ...token, score: input.label * (v[0] * token.x + v[1] * token.y) })));
  const outputs = scored.map((input) => {
    const shares = attention(input, p).map(Math.exp);
    const sum = (of) => input.reduce((total, token, t) => total + shares[t] * of(token), 0);
    return { x: sum((token) => token.x), y: sum((token) => token.y), log: logSigmoid(-sum((token) => token.score)) };
  });
  const top = Math.max(...outputs.map((one) => one.log));
  let x = 0, z = 0;
  outputs.forEach((one, i) => {
    x += Math.exp(one.log - top) * inputs[i].label * one.x; z += Math.exp(one.log - top) * inputs[i].label * one.y;
  });
  const unit = (a, b) => { const size = Math.hypot(a, b); return size > 0 ? [a / size, b / size] : [0, 0]; };
  return [...unit(x, z), ...unit(...force(scored, p).velocity)];
}
