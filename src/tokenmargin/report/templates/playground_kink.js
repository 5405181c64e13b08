// Behind a head with a kink, psi(z) = z - by max(0, z - at): the flow crosses the curve on which an input attends to
// z = at, slides along it, or rests where two such curves meet. Filippov's solution, as in src/tokenmargin/attention.
// A held input pulls across its curve alone, so it is left out of what moves p along it.

// A curve is met to this, in units of scores; a share of a jump is inside its bounds by this.
const MET = 1e-11, INSIDE = 1e-9;

const bentOutput = (z, { at, by }) => z - by * Math.max(0, z - at);

// z of an input at p, its gradient and its second derivatives, row by row.
function attended(input, p) {
  const shares = attention(input, p).map(Math.exp), mean = (of) => input.reduce((sum, t, k) => sum + shares[k] * of(t), 0);
  const x = mean((t) => t.x), y = mean((t) => t.y), z = mean((t) => t.score), ahead = (t) => [t.x - x, t.y - y];
  const bends = [0, 1].flatMap((j) => [0, 1].map((k) => mean((t) => (t.score - z) * ahead(t)[j] * ahead(t)[k])));
  return { z, slope: [mean((t) => t.score * (t.x - x)), mean((t) => t.score * (t.y - y))], bends };
}

const dot = (a, b) => a[0] * b[0] + a[1] * b[1];

// What is left of a force along the curve of an input, and the derivative of that.
function alongCurve({ velocity, derivative }, { slope, bends }) {
  const size = Math.hypot(...slope);
  if (!size) return { velocity, derivative };
  const n = slope.map((one) => one / size), along = (of) => of.map((one, j) => one - dot(n, of) * n[j]);
  const columns = (of) => [0, 1].map((k) => along([of[k], of[2 + k]]));
  const turns = columns(bends).map((one) => one.map((x) => x / size)), moved = columns(derivative), across = dot(n, velocity);
  return {
    velocity: along(velocity),
    derivative: [0, 1].flatMap((j) => [0, 1].map((k) => moved[k][j] - across * turns[k][j] - n[j] * dot(turns[k], velocity))),
  };
}

// Shares of the jumps of inputs at their kinks for which what is left of the force is shortest, by one after the other;
// without their bounds, of one input alone, they say when the flow leaves its curve.
function kinkShares(inputs, p, bend, on, met, isBound = true) {
  const off = on.map((one, i) => (met.includes(i) ? 0 : one)), { velocity, log } = force(inputs, p, bend, off);
  const rows = met.map((i) => {
    const { z, slope } = attended(inputs[i], p), size = bend.by * Math.exp(logSigmoid(-bentOutput(z, bend)) - log);
    return slope.map((one) => one * size);
  });
  if (!isBound) return rows.map((row) => dot(row, velocity) / dot(row, row));
  const shares = met.map(() => 0.5), left = () => [0, 1].map((j) => velocity[j] - rows.reduce((sum, row, k) => sum + shares[k] * row[j], 0));
  for (let round = 0; round < (met.length > 1 ? 400 : 1); round++) {
    rows.forEach((row, k) => {
      const square = dot(row, row);
      shares[k] = square ? Math.min(1, Math.max(0, shares[k] + dot(row, left()) / square)) : 0;
    });
  }
  return shares;
}

// The path from a start; its end as `flow` tells it, and the inputs at whose kinks p is held.
function bentFlow(inputs, start, bend, { tolerance = 1e-7, most = 12000 } = {}) {
  const unit = spread(inputs), all = inputs.map((_, i) => i), path = [start];
  const beyond = (i, p) => attended(inputs[i], p).z - bend.at;
  let y = start, on = all.map((i) => (beyond(i, start) > 0 ? 1 : 0)), held = [], h = 0.1 / unit, calm = 0;
  const field = (p) => {
    const found = force(inputs.filter((_, i) => !held.includes(i)), p, bend, on.filter((_, i) => !held.includes(i)));
    const { velocity, derivative } = held.length ? alongCurve(found, attended(inputs[held[0]], p)) : found;
    return { velocity: velocity.map((one) => one / unit), derivative: derivative.map((one) => one / unit) };
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
    ...kinkShares(inputs, p, bend, on, held, false).map((one) => Math.min(one, 1 - one)));
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
    h = Math.min(h * Math.min(3, Math.max(0.2, change)), Math.max(4, calm) / (unit * Math.max(1e-9, speed)));
  }
  return finish("stalled", [0, 0]);
}

// True if what moves p points back to where it rests: along the curve, if one holds it.
function settles([a, b, c, d], held) {
  return held ? a + d < 0 : a + d < 0 && a * d - b * c > 0;
}
