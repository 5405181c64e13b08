"""A cluster as a `map`: the same call on many machines, answers in order, few tasks at a time.

The only file that sees Dask. What runs a scheduler and its workers (SLURM, Kubernetes, SSH, one machine) is Dask's
business; here an address is enough. A task whose worker dies is given to another one, and its answer is taken once.
"""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax

from tokenmargin._checks import checked, positive, whole_number
from tokenmargin._fingerprint import RECORDED, of_installation
from tokenmargin._types import Map
from tokenmargin.errors import ClusterError, MissingExtraError

#: Tasks a thread that are with the cluster at a time: one to run, one to have at hand when it is done, and one for the
#: unevenness of tasks, because answers are taken in order.
TASKS_A_THREAD = 3

#: Seconds to wait for the scheduler, and then for the first worker.
PATIENCE = 60.0


@checked
@contextmanager
def map_of(address: str | None, *, patience: float = PATIENCE) -> Iterator[Map]:
    """The built-in `map` without an address, the cluster's with one: what a flag `--scheduler` needs.

    Args:
        address: of a Dask scheduler, such as tcp://host:8786; None stays in this process.
        patience: seconds to wait for the scheduler and its first worker.
    """
    if address is None:
        yield builtins.map
        return
    with cluster_map(address, patience=patience) as over:
        yield over


@checked
@contextmanager
def cluster_map(
    address: str, *, tasks_a_thread: int = TASKS_A_THREAD, patience: float = PATIENCE
) -> Iterator[ClusterMap]:
    """A `map` over the workers of a Dask scheduler, for `tokenize(..., map=...)`, `sweep(..., map=...)` and the like.

        with cluster_map("tcp://host:8786") as over:
            corpus = tokenize(texts, map=over)

    The scheduler and its workers go on when the block ends; tasks that are still with them are taken back.

    Args:
        address: of the scheduler.
        tasks_a_thread: tasks that are with the cluster at a time, for each thread of its workers; inputs are read no
            further ahead than that.
        patience: seconds to wait for the scheduler and its first worker.
    """
    whole_number(tasks_a_thread, "tasks_a_thread", 1)
    positive(patience, "patience")
    client = _connected(address, patience)
    try:
        _check_versions(client, address)
        yield ClusterMap(client, tasks_a_thread)
    finally:
        client.close()


class ClusterMap:
    """`map(function, *iterables)` on a cluster; what `cluster_map` gives."""

    def __init__(self, client: Any, tasks_a_thread: int) -> None:
        """Over the workers that a client knows."""
        self._client, self._tasks_a_thread = client, tasks_a_thread

    def __call__(self, function: Callable[..., Any], *iterables: Iterable[Any]) -> Iterator[Any]:
        """The answers in the order of the inputs, as they are ready; an error of the function is raised here.

        The function, with all that it holds on to, travels once to each worker.
        """
        from cloudpickle import dumps

        # A task of its own and no scattered value: Dask makes it again where the workers that had it are gone.
        shared = self._client.submit(_Work, dumps(function), Surroundings.here(), pure=False)
        waiting: deque[Any] = deque()
        inputs = zip(*iterables)  # noqa: B905  (as the built-in map does: the shortest decides)
        try:
            room = 0
            while True:
                if room == 0:
                    room = max(1, len(waiting), self._room())
                while len(waiting) < room and (arguments := next(inputs, None)) is not None:
                    waiting.append(self._client.submit(_done, shared, arguments, pure=False))
                if not waiting:
                    return
                yield _answer(waiting.popleft())
                room = 0 if len(waiting) * 2 < room else room
        finally:
            self._client.cancel([*waiting, shared])

    def _room(self) -> int:
        """Tasks that may be with the cluster: asked anew now and then, because workers come and go."""
        return self._tasks_a_thread * sum(self._client.nthreads().values())


@dataclass(frozen=True)
class Surroundings:
    """Things that a number may depend on beside the function: the code, and the settings of JAX in this process."""

    installation: str
    x64: bool
    matmul_precision: str | None

    @classmethod
    def here(cls) -> Surroundings:
        """Return those of this process, now."""
        x64, precision = (getattr(jax.config, name) for name in ("jax_enable_x64", "jax_default_matmul_precision"))
        return cls(of_installation(), bool(x64), precision)


class _Work:
    """The function on a worker, unpacked once there, in the surroundings of the process that asks."""

    def __init__(self, packed: bytes, there: Surroundings) -> None:
        self.packed, self.there = packed, there

    @cached_property
    def function(self) -> Callable[..., Any]:
        from cloudpickle import loads

        made: Callable[..., Any] = loads(self.packed)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _Work, (self.packed, self.there)


def _done(work: _Work, arguments: tuple[Any, ...]) -> Any:
    """One task, on a worker."""
    there = work.there
    if of_installation() != there.installation:
        raise ClusterError(
            f"a worker runs other code or other versions ({of_installation()}) than the process that asks "
            f"({there.installation}), so that its numbers may differ: install the same tokenmargin, "
            f"{', '.join(RECORDED[1:])} and Python on both."
        )
    with jax.enable_x64(there.x64), jax.default_matmul_precision(there.matmul_precision):
        return work.function(*arguments)


def _answer(future: Any) -> Any:
    """The result of a task, with what can happen to a task said in words."""
    from distributed import CancelledError, KilledWorker
    from distributed.comm import CommClosedError

    try:
        return future.result()
    except KilledWorker as problem:
        raise ClusterError(
            f"workers died again and again at one task ({problem}): it may need more memory than a worker has. Give "
            "workers more memory or fewer threads, or tasks less to do."
        ) from None
    except (CancelledError, CommClosedError, TimeoutError) as problem:
        raise ClusterError(
            f"the scheduler was lost while tasks were with it ({problem}): start it again and give the same command; "
            "what was kept in a folder is not computed again."
        ) from None


def _connected(address: str, patience: float) -> Any:
    """A client of the scheduler at this address, once it has a worker."""
    try:
        from distributed import Client
        from distributed.comm import resolve_address
    except ImportError:
        raise MissingExtraError("Working on a cluster", "cluster") from None
    try:
        # Asked first: a client that fails at what is no address leaves a thread behind that hangs.
        resolve_address(address)
        client = Client(address, timeout=patience, set_as_default=False)
    except (OSError, TimeoutError, TypeError, ValueError) as problem:
        raise ClusterError(
            f"no scheduler answers at {address!r} ({type(problem).__name__}): give the address that `dask scheduler` "
            "prints, such as tcp://host:8786, and see that this machine can reach it."
        ) from None
    try:
        client.wait_for_workers(1, timeout=patience)
    except TimeoutError:
        client.close()
        raise ClusterError(
            f"the scheduler at {address} had no worker for {patience:g} seconds: start some, as with `dask worker "
            f"{address}`, or wait longer where they stand in a queue."
        ) from None
    return client


def _check_versions(client: Any, address: str) -> None:
    """Raise if the scheduler or a worker has another Python or other packages; of workers that come later, tasks do."""
    found = client.get_versions(check=False, packages=list(RECORDED))
    own = _told(found["client"])
    for who, about in {"the scheduler": found["scheduler"], **found["workers"]}.items():
        theirs = _told(about)
        names = [name for name in own if name not in RECORDED] if who == "the scheduler" else list(own)
        differing = [
            f"{name} {theirs.get(name)} there, {own[name]} here" for name in names if theirs.get(name) != own[name]
        ]
        if differing:
            raise ClusterError(
                f"{who} of the cluster at {address} has other versions ({'; '.join(differing)}), so that its numbers "
                "may differ or tasks may not be understood: install the same on all machines."
            )


def _told(about: dict[str, Any] | None) -> dict[str, str | None]:
    """Versions by package; of Python the first two numbers, which is what pickled functions depend on."""
    packages = dict((about or {}).get("packages", {}))
    packages["python"] = ".".join(str(packages.get("python")).split(".")[:2])
    return {name: packages.get(name) for name in ("python", "dask", "distributed", "cloudpickle", *RECORDED)}
