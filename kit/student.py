"""The student's package as tests see it, and functions that call it."""

import copy
import functools
import importlib
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypedDict

Probe = Callable[..., Any]


class StudentPackage:
    """A student's package.

    `student.linear.Linear` is the student's class; `student.run(probe, x=x)` runs a probe on the
    package.

    This class imports the package into the current process, so a debugger can step into it. The
    grader gives hidden tests a sandboxed student with the same two interfaces, where
    `student.module.function(...)` takes and returns plain data. A module may seed the global
    generators when it is imported; a test does not see that.
    """

    def __init__(self, package: str = "assignment") -> None:
        self._package = package

    def __getattr__(self, module: str) -> Any:
        if module.startswith("_"):
            raise AttributeError(module)
        name = f"{self._package}.{module}"
        package = sys.modules.get(self._package)
        if "." in self._package and hasattr(package, module) and name not in sys.modules:
            return getattr(package, module)  # what a package inside defines itself
        with nullcontext() if name in sys.modules else keeping_generators():
            found = importlib.import_module(name)
        return StudentPackage(name) if hasattr(found, "__path__") else found

    def run(self, probe: Probe, **inputs: Any) -> Any:
        """Return what `probe` returns for these inputs."""
        return probe(self, **inputs)


def load(student: Any, *, module: str) -> None:
    """Import one module."""
    functools.reduce(getattr, module.split("."), student)


def call(
    student: Any, *, module: str, function: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call one function of one module and return what it returns."""
    return _function(student, module, function)(*args, **kwargs)


def _function(student: Any, module: str, function: str) -> Any:
    """A function of a module, which may be in a package inside, as in "model.layers"."""
    return functools.reduce(getattr, [*module.split("."), function], student)


def call_each(
    student: Any, *, module: str, function: str, calls: list[tuple[Any, ...]]
) -> list[Any]:
    """Call one function with each of these arguments, one after the other."""
    called = _function(student, module, function)
    return [called(*args) for args in calls]


class ResultAndInputs(TypedDict):
    """The result of `call_and_keep_inputs`."""

    result: Any
    inputs: list[Any]
    generators_changed: list[str]


def call_and_keep_inputs(
    student: Any, *, module: str, function: str, args: tuple[Any, ...]
) -> ResultAndInputs:
    """Call one function; return its result, and the inputs and generators as the call left them."""
    called = _function(student, module, function)
    with watching_generators() as changed:
        result = called(*args)
    return {"result": result, "inputs": list(args), "generators_changed": changed}


def from_cause(error: BaseException) -> str:
    """What an exception was raised from, in a line of its own; "" if from nothing."""
    cause = error.__cause__
    try:
        return "" if cause is None else f"\n(from {type(cause).__name__}: {cause})"
    except Exception:  # the cause cannot be printed
        return ""


def seed_generators(seed: int) -> None:
    """Seed the global generators of Python, and of numpy and torch where they are imported."""
    seed_generators_of_the_cpu(seed)
    if (torch := sys.modules.get("torch")) and torch.cuda.is_available():
        torch.manual_seed(seed)


def seed_generators_of_the_cpu(seed: int) -> None:
    """Do the same, but leave the generators of GPUs alone.

    Even without a GPU, torch.manual_seed would note down, with a traceback, a seed for each kind of
    GPU that may appear later; that takes longer than the rest.
    """
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed % 2**32)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(seed)


@contextmanager
def keeping_generators() -> Iterator[None]:
    """Set the global generators of the CPU to the same states again at the end of the block."""
    states: list[tuple[Callable[[Any], object], Any]] = [(random.setstate, random.getstate())]
    if numpy := sys.modules.get("numpy"):
        states.append((numpy.random.set_state, numpy.random.get_state()))
    if torch := sys.modules.get("torch"):
        states.append((torch.set_rng_state, torch.get_rng_state()))
    try:
        yield
    finally:
        for put, state in states:
            put(state)


@contextmanager
def watching_generators() -> Iterator[list[str]]:
    """List the global random generators whose state is different after the block."""
    # A generator that is then set to its seed again has another state, too.
    random.random()
    if numpy := sys.modules.get("numpy"):
        numpy.random.random()
    if torch := sys.modules.get("torch"):
        torch.rand(1)
    before = states_of_generators()
    changed: list[str] = []
    yield changed
    after = states_of_generators()
    changed += [name for name, state in before.items() if state != after[name]]


def states_of_generators() -> dict[str, Any]:
    """The state of each global random generator on the CPU."""
    found: dict[str, Any] = {"random": random.getstate()}
    if numpy := sys.modules.get("numpy"):
        state = numpy.random.get_state()
        found["numpy"] = (state[1].tobytes(), *state[2:])
    if torch := sys.modules.get("torch"):
        found["torch"] = torch.get_rng_state().numpy().tobytes()
    return found


def generator_of(seed: int, packages: Sequence[str]) -> Any:
    """A generator with this seed.

    It is a torch.Generator in a course that uses torch, a NumPy Generator in one that uses NumPy,
    and otherwise a random.Random.

    Args:
        seed: A whole number of at most 63 bits.
        packages: The names of the packages that the course lists.
    """
    if "torch" in packages:
        import torch

        return torch.Generator().manual_seed(seed)
    if "numpy" in packages:
        import numpy as np

        return np.random.default_rng(seed)
    return random.Random(seed)


def copy_of_generator(generator: Any) -> Any:
    """A generator of the same kind in the same state."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(generator, torch.Generator):
        return torch.Generator().set_state(generator.get_state())
    return copy.deepcopy(generator)
