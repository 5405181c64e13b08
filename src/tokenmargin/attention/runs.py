"""Many runs as one array: of many problems, from many starts, by many methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from tokenmargin._notebook import Told
from tokenmargin.attention.limit import Limit, LimitKind
from tokenmargin.attention.trajectory import Trajectory, judge_together


@dataclass(frozen=True, eq=False, repr=False)
class Runs(Told, Sequence[Any]):
    """An array of trajectories, with an axis for each argument of `follow` that was a list: problems, starts, methods.

    Its columns have the same shape; `runs[0, 1]` is one trajectory, `runs[:, 0]` an array again.
    """

    trajectories: np.ndarray  #: of objects

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of problems, starts and methods, as far as they were lists."""
        return self.trajectories.shape

    def __len__(self) -> int:
        """The length of the first axis."""
        return len(self.trajectories)

    @overload
    def __getitem__(self, which: int) -> Any: ...
    @overload
    def __getitem__(self, which: Any) -> Any: ...
    def __getitem__(self, which: Any) -> Any:
        """One trajectory, or an array of some of them: anything that an array of NumPy is indexed by."""
        some = self.trajectories[which]
        return Runs(some) if isinstance(some, np.ndarray) else some

    def __iter__(self) -> Iterator[Any]:
        """Trajectories, or arrays of them where there is another axis."""
        return (self[j] for j in range(len(self)))

    @property
    def limits(self) -> np.ndarray:
        """The limit of each, as an array of `Limit`; judged together, which is quicker than one by one."""
        judge_together(self.trajectories.ravel().tolist())
        return self._of_each(lambda run: run.limit)

    @property
    def kinds(self) -> np.ndarray:
        """Kind of each limit in a word: diverges, finite, mixed or stalled."""
        return np.array([limit.kind.value for limit in self.limits.ravel()]).reshape(self.shape)

    @property
    def selections(self) -> np.ndarray:
        """Selected tokens of each limit, as an array of `Selection`."""
        return self._of_limits(lambda limit: limit.selection)

    @property
    def velocities(self) -> np.ndarray:
        """Unit velocity of each limit, zeros where it is finite: shape (..., D), or vectors where widths differ."""
        return _stacked(
            self._of_limits(lambda limit: np.zeros_like(limit.velocity) if limit.finite else limit.velocity)
        )

    @property
    def finals(self) -> np.ndarray:
        """Last point of each as one vector: shape (..., D), or vectors where widths differ."""
        return _stacked(self._of_each(lambda run: run.points[-1]))

    def explain(self) -> str:
        """The shape, and how many limits there are of each kind."""
        counts = Counter(limit.kind for limit in self.limits.ravel())
        found = ", ".join(f"{counts[kind]} {kind.value}" for kind in LimitKind if counts[kind])
        return f"{' x '.join(map(str, self.shape))} runs: {found}"

    def __repr__(self) -> str:
        """Show the shape, and judge nothing."""
        return f"Runs({' x '.join(map(str, self.shape))})"

    def _of_limits(self, told: Callable[[Limit], Any]) -> np.ndarray:
        limits = self.limits
        return self._filled(map(told, limits.ravel()))

    def _of_each(self, told: Callable[[Trajectory], Any]) -> np.ndarray:
        return self._filled(map(told, self.trajectories.ravel()))

    def _filled(self, values: Any) -> np.ndarray:
        column = np.empty(self.trajectories.size, dtype=object)
        for j, value in enumerate(values):
            column[j] = value
        return column.reshape(self.shape)


def _stacked(column: np.ndarray) -> np.ndarray:
    """Vectors of one width as numbers, with an axis more; others as they are."""
    if len({len(one) for one in column.ravel()}) != 1:
        return column
    return np.array(column.ravel().tolist()).reshape(*column.shape, -1)
