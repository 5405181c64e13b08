"""The flow of many problems to norm 1e6: our Rosenbrock step in lanes against diffrax's implicit solvers under vmap.

Same field, same tolerance, same stopping norm; diffrax runs its recommended stiff solvers with analytic Jacobians by
autodiff and the whole batch in lockstep. Prints the ratio of times and the share of problems each solver finished.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.alternating import alternate
from benchmarks.att_svm import trial
from tokenmargin import AttentionRisk, Flow
from tokenmargin.attention import Outcome, follow_all

PROBLEMS, WIDTH, NORM, ATOL, RTOL, MAX_STEPS = 256, 10, 1e6, 1e-4, 1e-9, 4000


def by_diffrax(solver_name: str, objectives: list[AttentionRisk]):
    import diffrax
    import optimistix

    solver = getattr(diffrax, solver_name)()
    systems = jax.tree.map(lambda *x: jnp.stack(x), *(o.field for o in objectives))

    def one(system):
        def reached(t, y, args, **kwargs):
            return jnp.sqrt(jnp.sum(y**2)) - NORM

        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: system.force(y)),
            solver,
            t0=0.0,
            t1=1e12,
            dt0=1e-2,
            y0=jnp.zeros(WIDTH),
            stepsize_controller=diffrax.PIDController(rtol=RTOL, atol=ATOL),
            event=diffrax.Event(reached, optimistix.Newton(1e-6, 1e-6)),
            max_steps=MAX_STEPS,
            throw=False,
        )
        return solution.ys[-1]

    run = jax.jit(jax.vmap(one))
    return lambda: np.asarray(run(systems))


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    objectives = [AttentionRisk(trial(rng, WIDTH)[0]) for _ in range(PROBLEMS)]
    starts = np.zeros((PROBLEMS, WIDTH))
    method = Flow(until_norm=NORM, atol=ATOL, rtol=RTOL)

    def ours():
        return follow_all(objectives, starts, method)

    done = np.mean([t.outcome is not Outcome.STEPS_SPENT for t in ours()])
    print(f"Flow to norm {NORM:.0e}, {PROBLEMS} problems (n=4, T=6, d={WIDTH}); ours finished {done:.1%}")
    for name in ("Kvaerno3", "Kvaerno5"):
        peer = by_diffrax(name, objectives)
        ends = peer()
        finished = np.mean(np.linalg.norm(ends, axis=1) >= 0.99 * NORM)
        print(alternate(f"against diffrax {name}", ours, peer, rounds=3), f"  peer finished {finished:.1%}")


if __name__ == "__main__":
    main()
