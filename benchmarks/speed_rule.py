"""How often the rule for points for speed is wrong, on simulated machines that drift and stutter.

    python benchmarks/speed_rule.py [--traces N] [--seed N] [--json FILE]

Each trace is one measurement by the code of `kit/speed.py`, from the first call to the verdict.
Only the calls are simulated: each takes the time that the machine has for it at that moment.

A false fail is code that is fast enough and is called too slow. It costs a student points, so the
rule keeps it below 1 % even for code that is exactly at the limit. A false pass is code that is too
slow and is not called so. Close to the limit there are many of them, because doubt counts for the
student; the last columns show how soon they become rare.
"""

import argparse
import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kit import ratio, timed
from kit.expect import Mismatch
from kit.speed import Speed

LIMIT = 1.5
# The true ratio, relative to the limit.
RATIOS = (0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
OVERHEAD = 0.2  # of the reference's time
DIGEST = timed.digest_of(0)


@dataclass
class Machine:
    """A machine whose speed changes.

    Attributes:
        noise: The spread of the time of equal calls, as a share.
        of_process: The spread of the times in different processes, such as by addresses.
        drift: How much slower it becomes as it gets warm, within minutes; it also goes up and down
            by a third of this. A call of the reference takes one second.
        throttles: The factor while its clock rate is low, and the mean seconds of either state.
        bursts: The mean factor that neighbours add, and the mean seconds with and without them.
        spikes: The share of calls that are interrupted, which take up to ten times as long.
    """

    noise: float = 0.02
    of_process: float = 0.02
    drift: float = 0.0
    throttles: tuple[float, float] = (1.0, math.inf)
    bursts: tuple[float, float, float] = (0.0, 1.0, math.inf)
    spikes: float = 0.0
    now: float = 0.0
    chance: random.Random = field(default_factory=random.Random)
    _throttled: bool = False
    _throttled_until: float = -1.0
    _busy: bool = True
    _busy_until: float = -1.0
    _wave: float = 0.0

    def begin(self, seed: int) -> None:
        """Begin a trace, at a random moment of the machine's life."""
        self.chance.seed(seed)
        self.now, self._wave = 0.0, self.chance.uniform(0, 2 * math.pi)
        self._throttled, self._busy = self.chance.random() < 0.5, self.chance.random() < 0.5
        self._throttled_until = self._busy_until = -1.0

    def process(self) -> float:
        """The factor of a new process."""
        return math.exp(self.chance.gauss(0, self.of_process))

    def spend(self, seconds: float) -> None:
        """Let a call take place that takes so long on an undisturbed machine."""
        factor = 1 + self.drift * (1 - math.exp(-self.now / 300))
        factor *= 1 + self.drift / 3 * math.sin(self.now / 40 + self._wave)
        factor *= self._throttle() * self._neighbours() * math.exp(self.chance.gauss(0, self.noise))
        if self.chance.random() < self.spikes:
            factor *= 1 + 9 * self.chance.random()
        self.now += seconds * max(0.1, factor)

    def _throttle(self) -> float:
        factor, mean = self.throttles
        if math.isfinite(mean) and self.now > self._throttled_until:
            self._throttled = not self._throttled
            self._throttled_until = self.now + self.chance.expovariate(1 / mean)
        return factor if self._throttled and math.isfinite(mean) else 1.0

    def _neighbours(self) -> float:
        factor, with_them, without = self.bursts
        if math.isfinite(without) and self.now > self._busy_until:
            self._busy = not self._busy
            mean = with_them if self._busy else without
            self._busy_until = self.now + self.chance.expovariate(1 / mean)
        return 1 + self.chance.expovariate(1 / factor) if self._busy and factor else 1.0


def machines() -> dict[str, Machine]:
    """The simulated machines; 20 s are about two blocks."""
    return {
        "quiet": Machine(),
        "drift": Machine(drift=0.3),
        "throttling": Machine(throttles=(1.6, 30.0)),
        "neighbours": Machine(bursts=(0.7, 20.0, 40.0), spikes=0.05),
        "all of it": Machine(
            noise=0.05, of_process=0.05, drift=0.2, throttles=(1.6, 60.0),
            bursts=(0.5, 20.0, 60.0), spikes=0.05,
        ),
    }  # fmt: skip


class SimulatedTurn:
    """Calls that take the machine's time."""

    is_timed = True

    def __init__(self, machine: Machine, seconds: float) -> None:
        self._machine, self._factor, self._seconds = machine, machine.process(), seconds

    def run(self, probe: Callable[..., object], **inputs: object) -> object:
        """Answer what a right function answers."""
        if probe is timed.kept:
            return 0
        if probe is timed.made:
            return []
        whole = OVERHEAD + (self._seconds if probe is timed.timed else 0.0)
        self._machine.spend(self._factor * whole)
        return DIGEST

    def close(self) -> None:
        """Nothing."""


def inputs(*_: object) -> list[object]:
    """No inputs."""
    return []


def measured(machine: Machine, true_ratio: float, seed: int) -> tuple[str, int]:
    """One trace: the verdict, and the number of pairs."""
    machine.begin(seed)
    told: list[str] = []
    speed = Speed(
        lambda side, *_: SimulatedTurn(machine, true_ratio if side == "student" else 1.0),
        packages=(),
        record=told.append,
        clock=lambda: machine.now,
        chance=random.Random(seed),
    )
    says = "fast enough"
    try:
        speed.at_most(LIMIT, "m.f", inputs=inputs, check=lambda *_: None)
    except Mismatch:
        says = "too slow"
    if says != "too slow" and "too noisy" in told[0]:
        says = "in doubt"
    return says, int(told[0].split(" pairs")[0].rpartition(" ")[2])


def rates(traces: int, seed: int, ratios: tuple[float, ...] = RATIOS) -> dict[str, list[Counter]]:
    """For each machine and ratio, how often each verdict was given."""
    found: dict[str, list[Counter]] = {}
    for number, (name, machine) in enumerate(machines().items()):
        found[name] = []
        for place, relative in enumerate(ratios):
            count: Counter = Counter()
            for trace in range(traces):
                key = ((seed * 100 + number) * 100 + place) * 10**6 + trace
                says, pairs = measured(machine, relative * LIMIT, key)
                count[says] += 1
                count["pairs"] += pairs
            found[name].append(count)
    return found


def wrong(count: Counter, relative: float) -> float:
    """The share of wrong verdicts."""
    of = sum(count[says] for says in ("fast enough", "in doubt", "too slow"))
    slow = count["too slow"] / of
    return slow if relative <= 1 else 1 - slow


def table(found: dict[str, list[Counter]], traces: int) -> str:
    """The rates as text."""
    heads = [f"{relative:g}×" for relative in RATIOS]
    kinds = ["false fail" if relative <= 1 else "false pass" for relative in RATIOS]
    lines = [
        f"{traces} traces per cell; the true ratio relative to the limit, and wrong verdicts in %",
        f"{'machine':<12}" + "".join(f"{head:>12}" for head in heads),
        f"{'':<12}" + "".join(f"{kind:>12}" for kind in kinds),
    ]
    for name, counts in found.items():
        shares = [100 * wrong(count, r) for count, r in zip(counts, RATIOS, strict=True)]
        lines.append(f"{name:<12}" + "".join(f"{share:>12.2f}" for share in shares))
        pairs = [count["pairs"] / traces for count in counts]
        lines.append(f"{'  pairs':<12}" + "".join(f"{mean:>12.0f}" for mean in pairs))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=int, default=400, help="per cell (default: 400)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    started = time.monotonic()
    found = rates(options.traces, options.seed)
    print(table(found, options.traces))
    print(f"looks after {', '.join(str(ratio.PAIRS * groups) for groups, _ in ratio.LOOKS)} pairs")
    print(f"{time.monotonic() - started:.0f} s")
    if options.json:
        figures = {"traces": options.traces, "limit": LIMIT, "ratios": RATIOS, "verdicts": found}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
