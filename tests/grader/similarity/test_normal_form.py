"""What makes no difference in the normal form of code, and what does."""

import itertools
import random
import sys

import pytest

from grader.similarity import pairs
from grader.similarity.normal_form import MAX_SOURCE, Definition, read
from tests.grader.similarity.disguised_copies import SEEN_THROUGH, authors, disguised

# Two ways to write the same, which have the same features.
SAME = {
    "names": (
        "def f(a, b):\n c = a @ b.sum(0)\n return c * 2 + b",
        "def g(x, y):\n z = x @ y.sum(0)\n return z * 2 + y",
    ),
    "modules": (
        "import torch\ndef f(x): return torch.relu(x * 2 + 3)",
        "import torch as t\ndef f(x): return t.relu(x * 2 + 3)",
    ),
    "attributes and methods": (
        "class A:\n def g(self, x):\n  self.n = x @ self.h(2 * self.n + 1)\n def h(self, x): 0",
        "class A:\n def k(self, x):\n  self.m = x @ self.l(2 * self.m + 1)\n def l(self, x): 0",
    ),
    "hints": (
        "def f(a, b):\n c = a @ b.sum(0) * 7",
        "def f(a: int, b: 'T' = None) -> dict[str, int]:\n c: list[str] = a @ b.sum(0) * 7",
    ),
    "texts": (
        "def f(a):\n raise ValueError(a.sum(0) + 3, 'one', 'two')",
        "def f(a):\n raise ValueError(a.sum(0) + 3, f'{a} of {a.b}', b'2')",
    ),
    "operands": (
        "def f(a, b):\n return a.sum(0) * 2 + b if a.exp() < b + 1 else a.log() >= b - 1",
        "def f(a, b):\n return b + 2 * a.sum(0) if 1 + b > a.exp() else b - 1 <= a.log()",
    ),
    "numbers": ("x = y.sum(0) * 1000 + 0.5", "x = y.sum(0) * 1_000.0 + 5e-1"),
    "caught and matched": (
        "try: x.f(0)\nexcept E as e: raise F(e.g(1) + 2)\nmatch x:\n case [y]: y.f(0) * 2 + 1",
        "try: x.f(0)\nexcept E as d: raise F(d.g(1) + 2)\nmatch x:\n case [z]: z.f(0) * 2 + 1",
    ),
    "order": (
        "def f(a, b):\n c = a @ b.sum(0) * 2\n if a:\n  d = b @ a.exp() - 3",
        "def g(): 0\ndef f(a, b):\n print(a)\n d = b @ a.exp() - 3\n c = a @ b.sum(0) * 2",
    ),
}  # fmt: skip


def hashes(source):
    return {feature.hash for feature in read(source)[0]}


@pytest.mark.parametrize("name", SAME)
def test_other_ways_to_write_it_have_the_same_features(name):
    """Not a single feature of more than the parameters differs."""
    one, other = map(hashes, SAME[name])
    assert len(one & other) >= 2
    assert one == other


OTHER = [
    "a @ b + a.sum(1) * 2", "a @ b + a.sum(0) * 3", "a @ b - a.sum(0) * 2", "b @ a + a.sum(0) * 9",
    "a @ b + a.mean(0) * 2", "a @ b + a.sum(dim=0) * 2", "a @ b + sum(a) * 2", "a @ b.T + a.sum(0)",
]  # fmt: skip


@pytest.mark.parametrize("other", OTHER)
def test_other_code_has_other_features(other):
    """Operations, names of others, numbers and the order of a matrix product count."""
    one = hashes("def f(a, b):\n return a @ b + a.sum(0) * 2")
    assert len(one) > 1
    assert one != hashes(f"def f(a, b):\n return {other}")


@pytest.mark.parametrize("name", SEEN_THROUGH)
def test_a_disguise_leaves_most_features(name):
    """All of them, unless an expression is split into two."""
    path, text = max(authors()[1].items(), key=lambda item: len(item[1]))
    copy = disguised({path: text}, name)[path]
    before, after = (hashes(one.decode()) for one in (text, copy))
    assert len(before) > 100
    assert len(before & after) >= (0.9 if name == "assignments split" else 1) * len(before)
    assert copy.strip() != text.strip()


def test_lines_are_those_of_the_expression():
    """A feature is marked where it is written first; a definition begins with its decorators."""
    source = (
        "@d\ndef g(a):\n    return (\n        a.sum(1) * 3 + 4\n    )\n\n\nx = y.sum(1) * 3 + 4\n"
    )
    found, definitions = read(source)
    assert definitions == [Definition("g", 1, 5)]
    assert {(4, 4), (3, 5), (8, 8)} == {(one.first, one.last) for one in found}


# --- whatever a file has, it is read or refused ---------------------------------------------------


ODD = {
    "warnings": ("x = '\\d'; assert (x, 1); x is 1", None),
    "a number of 9,000 digits": ("x = 0x" + "f" * 9_000, None),
    "every statement": ("match x:\n case [1, *y] | {'a': y}: pass\nasync def f():\n await x", None),
    "null": ("x = \x00", "is not Python: "),
    "no Python": ("class class", "is not Python: invalid syntax"),
    "too long": ("#" * (MAX_SOURCE + 1), "has more than 400,000 characters"),
    "nested": ("x = " + "-" * 20_000 + "1", "is nested too deeply, or too large"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_code_is_read_or_refused(name):
    """No file may end the command; what cannot be read is refused with the reason."""
    source, said = ODD[name]
    if said is None:
        read(source)
    else:
        with pytest.raises(SyntaxError, match=said):
            read(source)


# Each repeats one part to about n characters.
HOSTILE = {
    "a tuple": lambda n: "x = (" + "0," * (n // 2) + ")",
    "comparisons": lambda n: "x = y" + "<y" * (n // 2),
    "attributes": lambda n: "x = y" + ".z" * 50 + "\nx = y.z" * (n // 8),
    "a long name": lambda n: f"{'y' * n} = x + 1",
    "a long number": lambda n: f"x = 0x{'f' * n}",
    "equal lines": lambda n: "x = f(a * b + c)\n" * (n // 17),
    "functions in functions": lambda n: "".join(f"{' ' * k}def f(x):\n" for k in range(90))
    + " " * 90 + "x = (" + "y," * (n // 2) + ")\n",
    "formats": lambda n: "x = " + "f'{y} {y:{y}}' " * (n // 15),
    "loops of a comprehension": lambda n: "x = [y" + " for y in x if y" * (n // 16) + "]",
    "decorators": lambda n: "@a\n" * (n // 3) + "def f(): pass\n",
    "parameters": lambda n: "def f(" + "".join(f"a{k}," for k in range(n // 7)) + "): pass\n",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_the_time_for_hostile_code_is_linear_in_its_length(name):
    """Whatever a file repeats, it takes a number of calls for each of its characters."""
    text, calls = HOSTILE[name](20_000), itertools.count()
    sys.setprofile(lambda *_: next(calls))
    try:
        read(text)
    finally:
        sys.setprofile(None)
    assert next(calls) < 100 * len(text)


def test_random_bytes_are_no_python():
    """Whatever the bytes, reading ends with features or with a refusal."""
    rng = random.Random(0)
    pairs.works_of([{"a.py": rng.randbytes(2_000)} for _ in range(20)])
