"""Right answers with one hostile value in one place.

`validate` grades the reference with such answers. Whatever a test does with an answer before it has
judged it, the result must be neither a fault of the grader nor a long computation.
"""

import hashlib
import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from grader.grading.local_student import LocalBox, LocalSession, as_data
from grader.proof.changed_fields import with_another
from grader.sandbox.reply_checks import Probe, promised_by
from grader.wire.protocol import MAX_INT_BITS
from kit.loaded_libraries import is_tensor

Place = tuple[Any, ...]  # the keys that lead to a value inside an answer, as `changed_fields.Keys`
TRIES = (
    8  # places of an answer to try until the changed answer has the type that its probe promises
)


def _more(old: Any) -> Any:
    if isinstance(old, dict):
        return {**old, "another key": 1.0, 7: None}
    return [*old, *old, None] if isinstance(old, list) else (old, old)


def _fewer(old: Any) -> Any:
    if isinstance(old, dict):
        return dict(list(old.items())[1:])
    return type(old)(list(old)[1:]) if isinstance(old, (list, tuple)) else None


VALUES: dict[str, Callable[[Any], Any]] = {
    "None": lambda old: None,
    "True": lambda old: True,
    "-1": lambda old: -1,
    "0": lambda old: 0,
    "2**53": lambda old: 2**53,
    "2**63": lambda old: 2**63,
    "a huge int": lambda old: 2 ** (MAX_INT_BITS - 1),
    "a huge negative int": lambda old: -(2 ** (MAX_INT_BITS - 1)),
    "nan": lambda old: math.nan,
    "inf": lambda old: math.inf,
    "-inf": lambda old: -math.inf,
    "1e308": lambda old: 1e308,
    "5e-324": lambda old: 5e-324,
    "an empty text": lambda old: "",
    "a long text": lambda old: "x" * 100_000,
    "bytes": lambda old: b"\0" * 100_000,
    "an empty list": lambda old: [],
    "a long list": lambda old: [0.5] * 50_000,
    "a deep list": lambda old: [[[[[[[[[[]]]]]]]]]],
    "odd keys": lambda old: {None: 1, 0.5: [], (1, 2): {}, "": math.nan},
    "more parts": _more,
    "fewer parts": _fewer,
}


def _tensor(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A change of a tensor; a number gives a tensor too, as a student may return one."""

    def changed(old: Any) -> Any:
        if is_tensor(old):
            return change(old.detach())
        return change(sys.modules["torch"].ones(2, 3))

    return changed


@cache
def _of_numpy() -> dict[str, Callable[[Any], Any]]:
    import numpy as np

    return {
        "an array": lambda old: np.ones(3, dtype=np.float32),
        "an array of longdouble": lambda old: np.ones((2, 3), dtype=np.longdouble),
        "an array of bool": lambda old: np.ones((2, 0), dtype=bool),
    }


@cache
def _of_torch() -> dict[str, Callable[[Any], Any]]:
    import torch

    from grader.wire.torch_codec import DTYPES

    return {
        **{f"as {name}": _tensor(lambda x, to=dtype: x.to(to)) for name, dtype in DTYPES.items()},  # type: ignore[misc]
        "no elements": _tensor(lambda x: x.new_zeros(0, 3)),
        "one element": _tensor(lambda x: x.new_ones(())),
        "one more dimension": _tensor(lambda x: x[None]),
        "another shape": _tensor(lambda x: x.new_ones(2, 3, 1, 5)),
        "on meta": _tensor(lambda x: x.to("meta")),
        "expanded": _tensor(lambda x: x.new_ones(1).expand(3, 7)),
        "a million elements": _tensor(lambda x: x.new_ones(1000, 1000)),
        "NaN everywhere": _tensor(lambda x: torch.full(x.shape, math.nan)),
        "infinite everywhere": _tensor(lambda x: torch.full(x.shape, math.inf)),
        "a dtype": lambda old: torch.float32,
    }


def values() -> dict[str, Callable[[Any], Any]]:
    """The hostile values by name, each made of the value that it replaces.

    There are none of a library that this process has not imported.
    """
    found = _of_torch() if "torch" in sys.modules else {}
    return found | (_of_numpy() if "numpy" in sys.modules else {}) | VALUES


class HostileSession(LocalSession):
    """Answers with one hostile value in one place of some of its answers.

    Args:
        which: One of `values()`.
        round: Selects the answers and the places.
    """

    def __init__(
        self, box: LocalBox, sources: dict[str, bytes], *_: Any, which: str, round: int, **__: Any
    ) -> None:
        super().__init__(box, sources)
        self._which, self._round = which, round
        self._random = random.Random(0)

    def begin_test(self, seed: int) -> None:
        """Begin another test: set its seed, and select other places."""
        super().begin_test(seed)
        digest = hashlib.sha256(f"{seed}:{self._which}:{self._round}".encode()).digest()
        self._random = random.Random(digest)

    def run(self, probe: Probe, inputs: dict[str, Any]) -> Any:
        """Return what a probe returns for these inputs; every second time, with a hostile value."""
        value = super().run(probe, inputs)
        return value if self._random.random() < 0.5 else self._spoilt(value, promised_by(probe))

    def _spoilt(self, value: Any, fits: Callable[[Any], bool]) -> Any:
        """The value with a hostile part; unchanged if no such value could leave the sandbox."""
        everywhere = list(places(value))
        for place in self._random.sample(everywhere, min(TRIES, len(everywhere))):
            spoilt = as_data(with_another(value, place, values()[self._which], grows=False))
            if fits(spoilt):
                return spoilt
        return value


def places(value: Any) -> Iterator[Place]:
    """Every place inside an answer, first the answer as a whole."""
    yield ()
    inside: Any = ()
    if isinstance(value, Mapping):
        inside = value.items()
    elif isinstance(value, (list, tuple)):
        inside = ((str(place), part) for place, part in enumerate(value))
    for key, part in inside:
        yield from ((key, *place) for place in places(part))
