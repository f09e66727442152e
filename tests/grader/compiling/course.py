"""A small course with a compiler: C++ that ctypes loads, and torch.compile if torch is wanted."""

from pathlib import Path

from tests.grader.small_courses import LIMITS, MAIN

NATIVE = '''"""Given: compile C++ for ctypes."""

import ctypes
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path


def library(source: str) -> ctypes.CDLL:
    """The library of this source; it is compiled if it has not been compiled yet."""
    folder = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR", tempfile.gettempdir()), "native")
    file = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:20]}.so"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [os.environ.get("CXX", "g++"), "-xc++", "-O1", "-shared", "-fPIC", "-", "-o"]
        subprocess.run(
            [*command, str(file)], input=source, text=True, capture_output=True, check=True
        )
    return ctypes.CDLL(str(file))
'''
DOTS = '''"""Chapter 1: products in C++."""

import ctypes

from assignment.native import library

SOURCE = """
extern "C" double dot(const double* a, const double* b, long n) {
    double sum = 0;
    for (long i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}
"""


def dot(a: list[float], b: list[float]) -> float:
    """The sum of the products, computed by C++.

    Example:
        (1, 2) and (3, 4) have 1 · 3 + 2 · 4 = 11.

    Handout §1.1 · `python -m assignment check dot`
    """
    # BEGIN SOLUTION(dot)
    compiled = library(SOURCE)
    compiled.dot.restype = ctypes.c_double
    numbers = ctypes.c_double * len(a)
    return compiled.dot(numbers(*a), numbers(*b), ctypes.c_long(len(a)))
    # END SOLUTION
'''
FUSED = '''"""Chapter 1: a fused function."""

import torch


def fused(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The sum of 2 x + y along the last axis, as one kernel.

    Example:
        For x = (1, 2) and y = (3, 4) it is 5 + 8 = 13.

    Handout §1.2 · `python -m assignment check fused`
    """
    # BEGIN SOLUTION(fused)
    return _compiled(x, y)
    # END SOLUTION


@torch.compile(dynamic=False)
def _compiled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * 2 + y).sum(-1)
'''
PROBES = {
    "dots": '''"""Compile the products."""

from typing import Any


def compile_dot(student: Any) -> None:
    """Call the function once: its C++ does not depend on the numbers."""
    student.dots.dot([1.0], [2.0])
''',
    "fusion": '''"""Compile the fused function."""

from typing import Any

import torch

SHAPES = ((8, 16),)


def compile_fused(student: Any) -> None:
    """Call the function with each shape of the tests."""
    for shape in SHAPES:
        student.fusion.fused(torch.zeros(shape), torch.zeros(shape))
''',
}
HIDDEN = {
    "dot": '''"""dot."""

import pytest

from kit import expect


@pytest.mark.harm("wrong number")
@pytest.mark.parametrize("length", [3, 50])
def test_the_sum_of_products(student, rng, length):
    """The products of numbers at the same place are added up."""
    a, b = ([rng.uniform(-1, 1) for _ in range(length)] for _ in range(2))
    expected = sum(x * y for x, y in zip(a, b, strict=True))
    got = student.dots.dot(a, b)
    expect.number(got, expected, of="dot", tolerance=1e-9, hint="a sum?")
''',
    "fused": '''"""fused."""

import pytest
import torch

from kit import expect


@pytest.mark.harm("wrong number")
@pytest.mark.parametrize("shape", [(8, 16)])
def test_the_sum_along_the_last_axis(student, rng, shape):
    """2 x + y is summed along the last axis."""
    x, y = (torch.randn(shape, generator=rng) for _ in range(2))
    got = student.fusion.fused(x, y)
    expect.tensor(got, 2 * x.sum(-1) + y.sum(-1), of="fused", atol=1e-4, hint="which axis?")
''',
}
PUBLIC = {
    "dot": "    expect.number(student.dots.dot([1.0, 2.0], [3.0, 4.0]), 11.0, "
    'of="dot", tolerance=1e-9)\n',
    "fused": "    got = student.fusion.fused(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))\n"
    '    expect.tensor(got, torch.tensor(13.0), of="fused", atol=1e-6)\n',
}
MISTAKES = {"dot": ("sum += a[i] * b[i]", "sum += a[i] + b[i]"), "fused": ("x * 2 + y", "x + y")}


def written(folder: Path, *, torch: bool = False, seconds: int = 60) -> Path:
    """Write the course and its stubs' module; return its folder."""
    module, name = ("fusion", "fused") if torch else ("dots", "dot")
    listed = (
        f'packages = ["torch"]\npreload = ["torch._dynamo"]\n{LIMITS}'
        if torch
        else (f"packages = []\n{LIMITS}")
    )
    listed += (
        f'\n[[problem]]\nid = "{name}"\nmodule = "{module}"\nfunctions = ["{name}"]\n'
        f'points = 2\nsection = "1.1"\n'
        f'compiler = {{probe = "compile_{name}", seconds = {seconds}}}\n'
    )
    imports = "import torch\n\n" if torch else ""
    old, new = MISTAKES[name]
    files = {
        "assignment/problems.toml": listed,
        "assignment/__init__.py": '"""A small course."""\n',
        "assignment/__main__.py": MAIN,
        "assignment/native.py": NATIVE,
        "solutions/reference/native.py": NATIVE,
        f"solutions/reference/{module}.py": FUSED if torch else DOTS,
        f"tests/hidden/{name}/wrong.edits": (
            f"[wrong] It is wrong.\nhint: read it again\nprice: this is the whole problem\n"
            f"- {old}\n+ {new}\n"
        ),
        "tests/__init__.py": '"""Tests."""\n',
        "tests/conftest.py": '"""The fixtures."""\n\npytest_plugins = ["kit.fixtures"]\n',
        "tests/probes/__init__.py": '"""Probes."""\n',
        f"tests/probes/{module}.py": PROBES[module],
        f"tests/hidden/{name}/test_hidden.py": HIDDEN[name],
        f"tests/public/test_{name}.py": (
            f'"""{name}: the handout\'s example."""\n\n{imports}from kit import expect\n\n\n'
            f'def test_the_worked_example(student):\n    """The worked example."""\n{PUBLIC[name]}'
        ),
        "handout/index.md": "# A small course\n",
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder
