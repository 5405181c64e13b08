"""How long a step of training takes on many devices, and what memory it needs: a formula with measured bandwidths.

A one-layer step cannot do without seven passes over memory: E is read for E[p v], then E and both moments of AdamW are
read and written, E'R being formed on the way; whatever the batch, as long as it holds fewer tokens than the table. Each
device does its share of the columns. Between devices one all-reduce of 2V numbers is needed; as a ring it sends
2 (n-1)/n times its bytes through each device's slowest link, in 2 (n-1) rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenmargin._checks import checked, positive, whole_number

#: Passes over E, or over an array of its size, that a one-layer step with AdamW cannot do without.
PASSES = 7

#: What a step took on an H200 over the time of those passes at the speed at which it copies, measured by
#: `python -m benchmarks.one_layer --gpu`.
OVER_FLOOR = 1.28

#: Arrays of the size of E that stay: E itself and two moments.
KEPT = 3

#: Columns of E[p v].
READINGS = 2


@checked
@dataclass(frozen=True)
class Machine:
    """Devices and the links between them, in bytes and seconds.

    Args:
        memory_bandwidth: of one device, bytes a second.
        link_bandwidth: between devices of one host, bytes a second in one direction.
        network_bandwidth: between hosts, bytes a second and device in one direction.
        devices_a_host: devices that the fast links join.
        round_seconds: that a message of no length takes.
        over_floor: time of a step over that of its passes at this bandwidth.
    """

    memory_bandwidth: float
    link_bandwidth: float
    network_bandwidth: float
    devices_a_host: int = 8
    round_seconds: float = 5e-6
    over_floor: float = OVER_FLOOR

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("memory_bandwidth", "link_bandwidth", "network_bandwidth", "round_seconds", "over_floor"):
            positive(getattr(self, name), name)
        whole_number(self.devices_a_host, "devices_a_host", 1)


@dataclass(frozen=True)
class StepForecast:
    """What a step is expected to take."""

    memory_bytes: float  #: on each device, for parameters and the optimiser
    compute_seconds: float  #: passes over memory
    communication_seconds: float  #: the all-reduce

    @property
    def seconds(self) -> float:
        """Of a step, nothing hidden behind anything else."""
        return self.compute_seconds + self.communication_seconds


@checked
def forecast_step(
    vocabulary_size: int,
    width: int,
    devices: int,
    machine: Machine,
    *,
    gram_numbers: int = 0,
    itemsize: int = 4,
) -> StepForecast:
    """Memory and time of a one-layer step of AdamW on E of shape (V, d), its columns spread over the devices.

    memory = 3 V d b / n, compute = 7 c V d b / (n M), communication = 2 (n-1)/n (2V + G) b / L + 2 (n-1) t, with b
    bytes a number, M the bandwidth of memory, c what a step takes over its passes, L the bandwidth of the slowest link
    in use and t the time of an empty message.

    Args:
        vocabulary_size: V.
        width: d, which the number of devices divides.
        devices: n.
        machine: bandwidths.
        gram_numbers: G, numbers of the Gram blocks of a batch, sum U^2, which two layers send too; the time of their
            products is not in this formula.
        itemsize: b.
    """
    for name, value, least in (("vocabulary_size", vocabulary_size, 1), ("width", width, 1), ("devices", devices, 1)):
        whole_number(value, name, least)
    whole_number(gram_numbers, "gram_numbers", 0)
    whole_number(itemsize, "itemsize", 1)
    share = vocabulary_size * width * itemsize / devices
    sent = 2 * (devices - 1) / devices * (READINGS * vocabulary_size + gram_numbers) * itemsize
    slowest = machine.link_bandwidth if devices <= machine.devices_a_host else machine.network_bandwidth
    rounds = 2 * (devices - 1) * machine.round_seconds
    compute = machine.over_floor * PASSES * share / machine.memory_bandwidth
    return StepForecast(KEPT * share, compute, sent / slowest + rounds)
