"""Slow, obvious twins of what the package computes fast. Loops and definitions; no cleverness."""

from __future__ import annotations

import itertools
from decimal import Decimal, getcontext, localcontext

import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin.classify import TokenModel
from tokenmargin.data import EmbeddedSequences, Selection, scores
from tokenmargin.margin import MarginSolution, Status, att_svm


def risk(sequences: EmbeddedSequences, loss, p):
    """L(p) as [M, (ERM)] is written, differentiable by JAX."""
    total = 0.0
    for i in range(sequences.n_inputs):
        present = np.flatnonzero(sequences.mask[i])
        attention = jax.nn.softmax(sequences.keys[i][present] @ p)
        output = sequences.head @ (sequences.tokens[i][present].T @ attention)
        total = total + loss.value(sequences.labels[i] * output)
    return total / sequences.n_inputs


def usual_gradient(sequences: EmbeddedSequences, loss, p):
    """K' (diag(s) - s s') gamma as every framework computes it: cancels past saturation [M, (15a)]."""
    total = 0.0
    gamma = jnp.asarray(scores(sequences), sequences.keys.dtype)
    for i in range(sequences.n_inputs):
        s = jax.nn.softmax(sequences.keys[i] @ p)
        f = s @ gamma[i]
        slope = jax.grad(loss.value)(f)
        total = total + slope * (s * (gamma[i] - f)) @ sequences.keys[i]
    return total / sequences.n_inputs


def exact_logistic_gradient(sequences: EmbeddedSequences, p, digits: int = 400) -> np.ndarray:
    """The gradient for the logistic loss in long decimals: the truth past saturation, as a unit vector."""
    getcontext().prec = digits
    gamma = scores(sequences)
    d = sequences.width
    total = [Decimal(0)] * d
    for i in range(sequences.n_inputs):
        keys = [[Decimal(float(x)) for x in row] for row in sequences.keys[i]]
        logits = [sum(k * Decimal(float(q)) for k, q in zip(row, p, strict=True)) for row in keys]
        top = max(logits)
        weights = [(a - top).exp() for a in logits]
        s = [w / sum(weights) for w in weights]
        g = [Decimal(float(x)) for x in gamma[i]]
        f = sum(a * b for a, b in zip(s, g, strict=True))
        slope = -1 / (1 + f.exp())
        for c in range(d):
            total[c] += slope * sum(s[t] * (g[t] - f) * keys[t][c] for t in range(len(s)))
    length = sum(x * x for x in total).sqrt()
    return np.array([float(x / length) for x in total])


def field_by_pairs(sequences: EmbeddedSequences, loss, p: np.ndarray) -> np.ndarray:
    """G(p) by a double loop over pairs of tokens, straight from the formula."""
    gamma = scores(sequences)
    total, weight = np.zeros(sequences.width), 0.0
    for i in range(sequences.n_inputs):
        logits = sequences.keys[i] @ p
        s = np.exp(logits - logits.max())
        s /= s.sum()
        slope = abs(float(jax.grad(loss.value)(float(s @ gamma[i]))))
        for t, u in itertools.combinations(range(sequences.n_places), 2):
            w = slope * s[t] * s[u] * (gamma[i, t] - gamma[i, u])
            total += w * (sequences.keys[i, t] - sequences.keys[i, u])
            weight += abs(w)
    return total / weight


def is_locally_optimal_by_definition(solution: MarginSolution, tight: float = 1e-7) -> bool:
    """[M, Def. 2] token by token."""
    if solution.status is not Status.OPTIMAL:
        return False
    gamma, keys = scores(solution.sequences), solution.sequences.keys
    for i, alpha in enumerate(solution.selection.indices):
        for t in range(keys.shape[1]):
            if t == alpha:
                continue
            difference = keys[i, alpha] - keys[i, t]
            is_neighbor = difference @ solution.p - 1 < tight * max(1, np.linalg.norm(difference))
            if is_neighbor and not gamma[i, alpha] > gamma[i, t]:
                return False
    return True


def lmm_by_brute_force(sequences: EmbeddedSequences) -> list[MarginSolution]:
    """Every one of the T^n selections, one problem at a time."""
    found = []
    for alpha in itertools.product(range(sequences.n_places), repeat=sequences.n_inputs):
        solution = att_svm(sequences, Selection.from_indices(np.array(alpha), sequences.n_places))
        if is_locally_optimal_by_definition(solution):
            found.append(solution)
    return found


def descent_in_matrix_space(sequences: EmbeddedSequences, loss, start, u, lr: float, steps: int) -> list[np.ndarray]:
    """Gradient descent on W for L(W) with attention softmax(X W'u), as in [M, Lemma 1]; autodiff in W."""

    def objective(W):
        total = 0.0
        for i in range(sequences.n_inputs):
            attention = jax.nn.softmax(sequences.tokens[i] @ W.T @ u)
            total = total + loss.value(sequences.labels[i] * (sequences.head @ (sequences.tokens[i].T @ attention)))
        return total / sequences.n_inputs

    gradient = jax.jit(jax.grad(objective))
    W = np.outer(u, start) / (u @ u)
    path = [W]
    for _ in range(steps):
        W = W - lr / (u @ u) * np.asarray(gradient(W))
        path.append(W)
    return path


def token_margins(counts, model: TokenModel) -> np.ndarray:
    """Margins of a token model, document by document and token by token."""
    dense = np.asarray(counts, dtype=float)
    margins = np.zeros((len(dense), model.value.shape[1]))
    for i, row in enumerate(dense):
        held = [s for s in range(len(row)) if row[s] > 0]
        total = sum(row[s] ** model.power * np.exp(model.score[s]) for s in held)
        root = np.sqrt(len(held)) if model.root_length else 1.0
        for s in held:
            margins[i] += root * row[s] ** model.power * np.exp(model.score[s]) / total * model.value[s]
    return margins + model.intercept


def penalised_token_loss(parameters, counts, targets, weights, power, ridges, start, unit=1.0, centre=0.0):
    """What `fit_tokens` makes small, densely and in JAX, so that it can be differentiated; no document is empty."""
    score, value, intercept = parameters
    logits = jnp.where(counts > 0, power * jnp.log(jnp.maximum(counts, 1e-300)) + score[None], -jnp.inf)
    attention = jax.nn.softmax(logits, axis=1)
    margins = jnp.sqrt((counts > 0).sum(axis=1))[:, None] * (attention @ value) + intercept[None]
    if margins.shape[1] == 1:
        margins = jnp.concatenate([jnp.zeros_like(margins), margins], axis=1)
    losses = jax.nn.logsumexp(margins, axis=1) - margins[jnp.arange(len(targets)), targets]
    penalty = ridges[0] * (((value - centre) / unit) ** 2).sum() + ridges[1] * ((score - start) ** 2).sum()
    return ((weights * losses).sum() + penalty / 2) / weights.sum()


def separation(keys, present, signed, gamma, u, tied: float):
    """Along a velocity u: (selected tokens, weight that holds back each other, spread, excess, adverse weight).

    Pair by pair: the weighted mean gap is the unit; a token within `tied` units of the top is selected; weight by which
    no selected token holds back an unselected one is adverse.
    """
    n, T, _ = keys.shape
    gap = np.full((n, T), np.inf)
    for i in range(n):
        reach = [keys[i, t] @ u if present[i, t] else -np.inf for t in range(T)]
        gap[i] = [max(reach) - x for x in reach]
    pairs = [(i, t, s) for i in range(n) for t in range(T) for s in range(T) if signed[i, t, s] > 0]
    unit = sum(signed[i, t, s] * (gap[i, s] - gap[i, t]) for i, t, s in pairs)
    chosen = present & (gap <= tied * max(unit, 0.0))
    held_back, adverse = np.zeros((n, T)), 0.0
    for i, t, s in pairs:
        if chosen[i, t] and not chosen[i, s]:
            held_back[i, s] += signed[i, t, s]
        else:
            adverse += signed[i, t, s]
    if unit <= 0 or not held_back.any():
        return chosen, held_back, np.inf, -np.inf, adverse
    spread = sum(signed[i, t, s] * abs((gap[i, s] - gap[i, t]) / unit - 1) for i, t, s in pairs)
    excess = np.inf
    for i, s in itertools.product(range(n), range(T)):
        if present[i, s] and not chosen[i, s] and gamma[i, s] != gamma[i, gap[i].argmin()]:
            excess = min(excess, gap[i, s] / unit - 1)
    return chosen, held_back, spread, excess, adverse


def stationarity(differences, force, jacobian, norm: float, tolerance: float):
    """(Newton step / (1 + norm), largest eigenvalue of J / |J|) on the span of the differences, shape (m, r)."""
    _, values, right = np.linalg.svd(differences, full_matrices=False)
    basis = right[values > tolerance * values.max(initial=0.0)].T
    if not basis.shape[1]:
        return 0.0, -np.inf
    inner = basis.T @ jacobian @ basis
    size = np.linalg.norm(inner)
    if size == 0:
        return (np.inf if force.any() else 0.0), 0.0
    step = np.linalg.lstsq(inner, basis.T @ force, rcond=None)[0]
    return np.linalg.norm(step) / (1 + norm), np.linalg.eigvalsh((inner + inner.T) / 2).max() / size


class ExactFlow:
    """dp/ds = G(p) by the implicit Euler method in sixty decimal digits: slow, of first order, and never out of digits.

    Steps are halved until two of half the length agree with one to `CLOSE`, grow by half at most, and never take a
    log-weight that is behind by `SEEN` or more further than a part of the way to the one in front.
    """

    DIGITS, CLOSE, SEEN, PART = 60, Decimal("0.05"), 50, Decimal("0.3")

    def __init__(self, keys, gamma):
        self.keys = [[[Decimal(float(x)) for x in row] for row in rows] for rows in np.asarray(keys)]
        self.gamma = [[Decimal(float(x)) for x in row] for row in np.asarray(gamma)]
        self.longest = max(sum(x * x for x in row) for rows in self.keys for row in rows).sqrt()

    def velocity(self, start, lengths: float = 50.0) -> np.ndarray:
        """G/|G| once s is so many times |start| + 1000."""
        with localcontext() as context:
            context.prec = self.DIGITS
            p, s, h = [Decimal(float(x)) for x in start], Decimal(0), Decimal("0.1")
            end = (sum(x * x for x in p).sqrt() + 1000) * Decimal(lengths)
            while s < end:
                h = min(h, self._horizon(p))
                whole = self._step(p, h)
                half = None if whole is None else self._step(p, h / 2)
                halves = None if half is None else self._step(half, h / 2)
                if halves is None or max(abs(a - b) for a, b in zip(whole, halves, strict=True)) > self.CLOSE:
                    h /= 3
                    continue
                p, s, h = halves, s + h, h * Decimal("1.5")
            force = self._field(p)[0]
            return np.array([float(x) for x in force]) / float(sum(x * x for x in force).sqrt())

    def _pairs(self, p):
        """(log-weight, sign, difference of keys, gradient of the log-weight) of every pair."""
        pairs = []
        for keys, gamma in zip(self.keys, self.gamma, strict=True):
            logits = [sum(a * b for a, b in zip(key, p, strict=True)) for key in keys]
            top = max(logits)
            plain = [(x - top).exp() for x in logits]
            total = sum(plain)
            share, log_share = [x / total for x in plain], [x - top - total.ln() for x in logits]
            f = sum(a * b for a, b in zip(share, gamma, strict=True))
            mean = [sum(s * key[c] for s, key in zip(share, keys, strict=True)) for c in range(len(p))]
            rise = [
                sum(s * (g - f) * key[c] for s, g, key in zip(share, gamma, keys, strict=True)) for c in range(len(p))
            ]
            slope = -((1 + f.exp()).ln())  # log|l'| of the logistic loss
            bend = -f.exp() / (1 + f.exp())
            for t, u in itertools.combinations(range(len(keys)), 2):
                if gamma[t] != gamma[u]:
                    ahead = gamma[t] - gamma[u]
                    z = [a - b for a, b in zip(keys[t], keys[u], strict=True)]
                    change = [bend * r + a + b - 2 * m for r, a, b, m in zip(rise, keys[t], keys[u], mean, strict=True)]
                    pairs.append((slope + log_share[t] + log_share[u] + abs(ahead).ln(), ahead > 0, z, change))
        return pairs

    def _field(self, p):
        """G and its derivative."""
        pairs = self._pairs(p)
        largest = max(one[0] for one in pairs)
        weights = [(one[0] - largest).exp() for one in pairs]
        total = sum(weights)
        signed = [w / total if one[1] else -w / total for w, one in zip(weights, pairs, strict=True)]
        d = range(len(p))
        force = [sum(w * one[2][c] for w, one in zip(signed, pairs, strict=True)) for c in d]
        mean = [sum(abs(w) * one[3][c] for w, one in zip(signed, pairs, strict=True)) for c in d]
        jacobian = [
            [sum(w * one[2][a] * (one[3][b] - mean[b]) for w, one in zip(signed, pairs, strict=True)) for b in d]
            for a in d
        ]
        return force, jacobian

    def _horizon(self, p):
        """How long a step may be for log-weights that are behind."""
        log_w = [one[0] for one in self._pairs(p)]
        behind = [x for x in (max(log_w) - one for one in log_w) if x >= self.SEEN]
        return self.PART * min(behind, default=Decimal(10) ** 40) / (4 * self.longest**2)

    def _step(self, p, h):
        """y = p + h G(y), by Newton's method; None where it does not converge."""
        y, n = list(p), len(p)
        for _ in range(12):
            force, jacobian = self._field(y)
            rows = [
                [(1 if a == b else 0) - h * jacobian[a][b] for b in range(n)] + [p[a] + h * force[a] - y[a]]
                for a in range(n)
            ]
            for k in range(n):
                best = max(range(k, n), key=lambda a, k=k: abs(rows[a][k]))
                rows[k], rows[best] = rows[best], rows[k]
                for a in range(n):
                    if a != k:
                        factor = rows[a][k] / rows[k][k]
                        rows[a] = [x - factor * z for x, z in zip(rows[a], rows[k], strict=True)]
            move = [rows[a][n] / rows[a][a] for a in range(n)]
            y = [a + b for a, b in zip(y, move, strict=True)]
            if max(map(abs, move)) < Decimal("1e-6"):
                return y
        return None


def label_margins(rows: np.ndarray) -> np.ndarray:
    """max over |v| = 1 of min_i rows_i'v, at least 0, for rows of shape (B, n, k): the best of the classifiers that put
    some inputs at one margin. Whatever v is taken, its own margin is what is returned."""
    best = np.zeros(len(rows))
    for size in range(1, rows.shape[1] + 1):
        for some in itertools.combinations(range(rows.shape[1]), size):
            part = rows[:, some]
            v = np.einsum(
                "bmk,bm->bk", part, np.linalg.pinv(part @ part.transpose(0, 2, 1), hermitian=True).sum(axis=2)
            )
            length = np.linalg.norm(v, axis=1)
            own = (rows @ v[:, :, None])[:, :, 0].min(axis=1) / np.where(length > 0, length, 1.0)
            best = np.where((length > 0) & (own > best), own, best)
    return best


def loss_rates(sequences: EmbeddedSequences, selection: Selection, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """((Gamma - label margin at p)/q, q), q = max_i (1 - s_ialpha), of points (B, d): nu is any number below them all
    [M, Assumption C]. NaN where q is 0."""
    logits = np.where(sequences.mask, np.einsum("ntd,bd->bnt", sequences.keys, points), -np.inf)
    s = np.exp(logits - logits.max(axis=2, keepdims=True))
    s /= s.sum(axis=2, keepdims=True)
    signed = sequences.labels[:, None, None] * sequences.tokens
    q = np.where(selection.chosen, 0.0, s).sum(axis=2).max(axis=1)
    gamma = label_margins(signed[selection.chosen][None])
    lost = gamma - label_margins(np.einsum("bnt,ntk->bnk", s, signed))
    return np.where(q > 0, lost / np.where(q > 0, q, 1.0), np.nan), q


def exact_loss_rate(sequences: EmbeddedSequences, selection: Selection, p: np.ndarray, digits: int = 60) -> Decimal:
    """`loss_rates` of one p in long decimals, where float64 holds neither q nor what is lost."""
    getcontext().prec = digits
    n, q, attended = sequences.n_inputs, Decimal(0), []
    signed = [[[Decimal(int(y)) * Decimal(x) for x in token] for token in tokens] for y, tokens in _labelled(sequences)]
    for i in range(n):
        keys = [[Decimal(x) for x in key] for key in sequences.keys[i].tolist()]
        logits = [sum(a * Decimal(float(b)) for a, b in zip(key, p, strict=True)) for key in keys]
        present = np.flatnonzero(sequences.mask[i]).tolist()
        top = max(logits[t] for t in present)
        weights = {t: (logits[t] - top).exp() for t in present}
        total = sum(weights.values())
        q = max(q, sum((w for t, w in weights.items() if not selection.chosen[i, t]), Decimal(0)) / total)
        width = range(len(signed[i][0]))
        attended.append([sum(weights[t] * signed[i][t][c] for t in present) / total for c in width])
    selected = [signed[i][t] for i, t in enumerate(selection.indices.tolist())]
    return (_exact_label_margin(selected) - _exact_label_margin(attended)) / q


def _labelled(sequences: EmbeddedSequences):
    return zip(sequences.labels.tolist(), sequences.tokens.tolist(), strict=True)


def _exact_label_margin(rows: list[list[Decimal]]) -> Decimal:
    """`label_margins` in the decimals of the context."""
    best = Decimal(0)
    for size in range(1, min(len(rows), len(rows[0])) + 1):
        for some in itertools.combinations(rows, size):
            gram = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in some] for x in some]
            shares = _solved([[*line, Decimal(1)] for line in gram])
            if shares is None:
                continue
            v = [sum(z * x for z, x in zip(shares, column, strict=True)) for column in zip(*some, strict=True)]
            length = sum(x * x for x in v).sqrt()
            if length:
                best = max(best, min(sum(a * b for a, b in zip(v, x, strict=True)) for x in rows) / length)
    return best


def _solved(table: list[list[Decimal]]) -> list[Decimal] | None:
    """The solution of a linear system by elimination; None if a pivot is 0."""
    for c in range(len(table)):
        lead = max(range(c, len(table)), key=lambda r: abs(table[r][c]))
        table[c], table[lead] = table[lead], table[c]
        if not table[c][c]:
            return None
        table[c] = [x / table[c][c] for x in table[c]]
        for r in range(len(table)):
            if r != c:
                table[r] = [x - table[r][c] * y for x, y in zip(table[r], table[c], strict=True)]
    return [line[-1] for line in table]


def token_graph(sequences, labels):
    """{last: {(preferred, other)}} and {last: components as sets}, by reachability of every pair."""
    edges, tokens = {}, {}
    for sequence, label in zip(sequences, labels, strict=True):
        last = sequence[-1]
        edges.setdefault(last, set()).update((label, token) for token in sequence if token != label)
        tokens.setdefault(last, set()).update(sequence)
    components = {}
    for last, own in edges.items():
        reach = {token: {token} for token in tokens[last]}
        for _ in tokens[last]:
            for a, b in own:
                for token in reach:
                    if a in reach[token]:
                        reach[token].add(b)
        components[last] = {frozenset(b for b in reach[a] if a in reach[b]) for a in reach}
    return edges, components


def next_token_loss(sequences, labels, embeddings, W):
    """Mean over sequences of minus the log of the attention that falls on the label, one token at a time."""
    total = 0.0
    for sequence, label in zip(sequences, labels, strict=True):
        lifted = [np.exp(embeddings[token] @ W @ embeddings[sequence[-1]]) for token in sequence]
        on_label = sum(x for x, token in zip(lifted, sequence, strict=True) if token == label)
        total -= np.log(on_label / sum(lifted))
    return total / len(labels)
