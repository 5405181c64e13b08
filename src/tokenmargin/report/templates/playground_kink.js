// Behind a head with a kink, psi(z) = z - by max(0, z - at): the flow crosses the curve on which an input attends to
// z = at, slides along it, or rests where two such curves meet. Filippov's solution, as in src/tokenmargin/attention.
// A held input pulls across its curve alone, so it is left out of what moves p along it.

// A curve is met to this, in units of scores; a share of a jump is inside its bounds by this.
const MET = 1e-11, INSIDE = 1e-9;

const bentOutput = (z, { at, by }) => z - by * Math.max(0, z - at);

// z of an input at p, and its gradient.
function attended(input, p) {
  const shares = attention(input, p).map(Math.exp), mean = (of) => input.reduce((sum, t, k) => sum + shares[k] * of(t), 0);
  const x = mean((t) => t.x), y = mean((t) => t.y);
  return { z: mean((t) => t.score), slope: [mean((t) => t.score * (t.x - x)), mean((t) => t.score * (t.y - y))] };
}

// The force of the inputs listed, each on its side of the kink, with its scale: exp(log) times a vector of order one.
function bentForce(inputs, p, bend, on, listed) {
  const pairs = listed.flatMap((i) => {
    const factor = 1 - bend.by * on[i], out = bentOutput(attended(inputs[i], p).z, bend);
    return factor === 0 ? [] : pull([inputs[i]], p).map((one) => (
      { ...one, sign: one.sign * Math.sign(factor), log: one.log - attendedLoss(inputs[i], p) + logSigmoid(-out) + Math.log(Math.abs(factor)) }));
  });
  const top = pairs.reduce((most, one) => Math.max(most, one.log), -Infinity);
  const sum = (of) => pairs.reduce((total, one) => total + Math.exp(one.log - top) * of(one), 0), total = sum(() => 1);
  return pairs.length ? { v: [0, 1].map((j) => sum((one) => one.sign * one.row[j]) / total), log: top + Math.log(total) } : { v: [0, 0], log: -Infinity };
}

// What `pull` counts for the loss of an input, whose output there is z itself.
const attendedLoss = (input, p) => logSigmoid(-attended(input, p).z);

const across = (slope) => { const size = Math.hypot(...slope); return size > 0 ? slope.map((one) => one / size) : [0, 0]; };

// Shares of the jumps of inputs at their kinks for which what is left of the force is shortest, by one after the other.
function kinkShares(inputs, p, bend, on, met) {
  const off = on.map((one, i) => (met.includes(i) ? 0 : one));
  const { v, log } = bentForce(inputs, p, bend, off, inputs.map((_, i) => i));
  const rows = met.map((i) => {
    const { z, slope } = attended(inputs[i], p), size = bend.by * Math.exp(logSigmoid(-bentOutput(z, bend)) - log);
    return slope.map((one) => one * size);
  });
  const shares = met.map(() => 0.5), left = () => [0, 1].map((j) => v[j] - rows.reduce((sum, row, k) => sum + shares[k] * row[j], 0));
  for (let round = 0; round < 400; round++) {
    rows.forEach((row, k) => {
      const square = row[0] ** 2 + row[1] ** 2, rest = left();
      shares[k] = square ? Math.min(1, Math.max(0, shares[k] + (row[0] * rest[0] + row[1] * rest[1]) / square)) : 0;
    });
  }
  return shares;
}

// The path from a start; its end as `flow` tells it, and the inputs at whose kinks p is held.
function bentFlow(inputs, start, bend, { tolerance = 1e-7, most = 6000 } = {}) {
  const unit = spread(inputs), all = inputs.map((_, i) => i), path = [start];
  const beyond = (i, p) => attended(inputs[i], p).z - bend.at;
  let y = start, on = all.map((i) => (beyond(i, start) > 0 ? 1 : 0)), held = [], h = 0.1 / unit, calm = 0;
  const velocity = (p) => {
    const { v } = bentForce(inputs, p, bend, on, all.filter((i) => !held.includes(i)));
    if (!held.length) return v.map((one) => one / unit);
    const n = across(attended(inputs[held[0]], p).slope), part = v[0] * n[0] + v[1] * n[1];
    return v.map((one, j) => (one - part * n[j]) / unit);
  };
  const field = (p) => {
    const shift = 1e-6 / unit, side = [0, 1].map((k) => [1, -1].map((s) => velocity(p.map((one, j) => one + (j === k ? s * shift : 0)))));
    return { velocity: velocity(p), derivative: [0, 1].flatMap((j) => [0, 1].map((k) => (side[k][0][j] - side[k][1][j]) / (2 * shift))) };
  };
  const landed = (p) => {
    for (let k = 0; k < 3 && held.length === 1; k++) {
      const { slope } = attended(inputs[held[0]], p), square = slope[0] ** 2 + slope[1] ** 2, off = beyond(held[0], p);
      if (square > 0) p = p.map((one, j) => one - off * slope[j] / square);
    }
    return p;
  };
  // Negative where an input is on the other side, or no share between 0 and 1 keeps p on its curve.
  const room = (p) => Math.min(...all.filter((i) => !held.includes(i)).map((i) => (on[i] ? 1 : -1) * beyond(i, p) + MET),
    ...(held.length ? kinkShares(inputs, p, bend, on, held).map((one) => Math.min(one, 1 - one)) : []));
  const decide = (p) => {
    const met = all.filter((i) => held.includes(i) || Math.abs(beyond(i, p)) <= 2 * MET), shares = kinkShares(inputs, p, bend, on, met);
    met.forEach((i, k) => { on[i] = shares[k] > 0.5 ? 1 : 0; });
    held = met.filter((_, k) => shares[k] > INSIDE && shares[k] < 1 - INSIDE);
  };
  const finish = (kind, slope) => ({ ...ending(inputs, path, kind, slope), held: [...held] });
  decide(start);
  for (let count = 0, now = field(y); count < most; count++) {
    if (held.length > 1) return finish("finite", [0, 0]);
    const speed = Math.hypot(...now.velocity);
    if (speed <= VANISHED) return finish(settles(now.derivative, held.length) ? "finite" : "stalled", [0, 0]);
    let tried = step(field, y, now, h), end = landed(tried.end);
    const allowed = tolerance / unit;
    if (tried.wrong <= allowed) {
      if (room(end) < 0) {
        let low = 0, high = h;
        for (let k = 0; k < 80 && high - low > 1e-15 * h; k++) {
          const middle = (low + high) / 2, at = landed(step(field, y, now, middle).end);
          if (room(at) < 0) high = middle; else { low = middle; end = at; }
        }
        end = landed(step(field, y, now, high).end);
        y = end; path.push(y); decide(y); y = path[path.length - 1] = landed(y);
        now = field(y); h = 0.01 / unit; calm = 0;
        continue;
      }
      const next = field(end), turned = Math.hypot(...next.velocity.map((one, j) => one - now.velocity[j]));
      calm = turned <= 1e-9 * speed ? calm + 1 : 0;
      y = end; now = next; path.push(y);
      const told = calm > 4 && finish(null, now.velocity);
      if (told && isBehind(inputs, y, told.chosen)) return told;
    }
    const change = 0.9 * (allowed / Math.max(tried.wrong, 1e-300)) ** (1 / 3);
    h = Math.min(h * Math.min(3, Math.max(0.2, change)), Math.max(1, calm) / (unit * Math.max(1e-9, speed)));
  }
  return finish("stalled", [0, 0]);
}

// True if what moves p points back to where it rests: along the curve, if one holds it.
function settles([a, b, c, d], held) {
  return held ? a + d < 0 : a + d < 0 && a * d - b * c > 0;
}
