"""Checks the hidden tests for a CUDA device, as far as a machine without one can.

The CUDA tests of CPU problems create every tensor on the device that they are given, so the
reference has to pass them on a CPU as well. The CUDA tests of gpu.py repeat that module's stand-in
tests, and none of these may be missing.
"""

import importlib
import inspect
import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from grader.course import courses
from grader.solutions.reference import checkpointing
from kit import expect
from kit.student import StudentPackage
from tests.probes import checkpointing as probes

COURSE = courses.load()
HIDDEN = Path(__file__).resolve().parents[2] / "hidden"
FILES = sorted(HIDDEN.glob("*/test_cuda.py"))
OF_CPU_PROBLEMS = [f for f in FILES if COURSE.problem(f.parent.name).device == "cpu"]


def functions_of(problem, file="test_cuda"):
    """Yield the test functions of a problem's hidden tests, once per choice of parameters."""
    module = importlib.import_module(f"tests.hidden.{problem}.{file}")
    for test, function in vars(module).items():
        if test.startswith("test_"):
            marks = [m for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
            choices = [[(m.args[0], value) for value in m.args[1]] for m in marks]
            yield from ((test, function, dict(chosen)) for chosen in itertools.product(*choices))


@pytest.mark.parametrize("problem", [f.parent.name for f in OF_CPU_PROBLEMS])
@pytest.mark.parametrize("seed", range(3))
def test_reference_passes_on_a_cpu(problem, seed):
    student = StudentPackage("grader.solutions.reference")
    for name, function, chosen in functions_of(problem):
        given = {"student": student, "rng": torch.Generator().manual_seed(seed), "device": "cpu"}
        given |= chosen
        wanted = inspect.signature(function).parameters
        try:
            function(**{key: value for key, value in given.items() if key in wanted})
        except expect.Mismatch as e:
            pytest.fail(f"{name} {chosen}: {e} {e.facts} {e.values}")


@pytest.mark.parametrize(
    "problem", [p for p in COURSE.problems if p.device == "cuda"], ids=lambda p: p.id
)
def test_every_test_of_the_stand_in_is_one_for_a_gpu(problem):
    """Every test of gpu.py that takes a device also runs on a real GPU."""
    here = {test: function for test, function, _ in functions_of(problem.id, "test_hidden")}
    on_both = {test for test in here if "device" in inspect.signature(here[test]).parameters}
    there = {test for test, _, _ in functions_of(problem.id)}
    assert on_both
    assert on_both <= there


# --- a CUDA build of torch on a machine without a driver, as pip installs it on Linux -------------


@pytest.mark.parametrize("probe", [probes.unfit, probes.damaged])
def test_no_optimizer_asks_the_driver_about_simulated_gpus(probe, monkeypatch):
    """There, an optimizer's step asks the driver whether a CUDA graph is captured."""

    def ask_the_driver(self):
        raise RuntimeError("CUDA driver version is insufficient for CUDA runtime version")

    asking = [name for name in probes.CHECKS_OF_GRAPHS if hasattr(torch.optim.Optimizer, name)]
    assert asking, "this version of torch has another name for it"
    for name in asking:
        monkeypatch.setattr(torch.optim.Optimizer, name, ask_the_driver)
    got = probe(SimpleNamespace(checkpointing=checkpointing))
    assert got
    assert all(ending["raised"] for ending in got.values())
