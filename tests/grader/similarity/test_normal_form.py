# ruff: noqa: E501, examples are one string each
"""What makes no difference in the normal form of code, and what does."""

import contextlib
import itertools
import random
import sys
import textwrap

import pytest

from grader.similarity import normal_form, pairs
from grader.similarity.normal_form import CALLED, RULES, TRANSPARENT, read
from tests.grader.sampling import every
from tests.grader.similarity.copies import DISGUISES, disguised, program
from tests.grader.similarity.hostile import HOSTILE

HEAD = "import math\nimport operator\nimport torch\nimport torch.nn.functional as F\n"
# Each line is a way to write the same computation. Every one of them has to have the same features.
SAME = {
    "operators and functions": [
        "def f(a, b, c):\n return (a @ b + c) * c.T - b",
        "def f(a, b, c):\n return torch.matmul(a, b).add(c).mul(c.t()).sub(b)",
        "def f(a, b, c):\n return operator.sub(c.transpose(0, 1) * (c + a.mm(b)), b)",
        "def f(a, b, c):\n return -b + torch.multiply(c.mT, torch.add(c, torch.bmm(a, b)))",
    ],
    "roots and powers": [
        "def f(n, x):\n return torch.relu(x * (1 / math.sqrt(n)) + x ** 2)",
        "def f(n, x):\n return (x / n ** 0.5 + x.square()).relu()",
        "def f(n, x):\n return F.relu(x.pow(2.0) + n ** (-1 / 2) * x)",
    ],
    "steps with names": [
        "def f(x, w):\n return torch.softmax(x @ w.T, dim=-1).sum(0).exp()",
        "def f(x, w):\n y = x @ w.T\n z = torch.softmax(y, dim=-1)\n z = z.sum(0)\n return z.exp()",
        "def f(x, w):\n def g(y):\n  return y.sum(0)\n h = lambda v: v.exp()\n"
        " return h(g(torch.softmax(x @ w.T, dim=-1)))",
        "def g(v, u):\n return u @ v.T\ndef f(x, w):\n return torch.softmax(g(w, x), dim=-1).sum(0).exp()",
    ],
    "loops": [
        "def f(xs, k):\n return [torch.exp(x.sum() * k) for x in xs if x.grad is not None]",
        "def f(xs, k):\n out = []\n for x in xs:\n  if x.grad is not None:\n"
        "   out.append(torch.exp(x.sum() * k))\n return out",
        "def f(xs, k):\n out = []\n for x in xs:\n  if x.grad is None:\n   continue\n"
        "  out.append((k * x.sum()).exp())\n return out",
        "def f(xs, k):\n out, n = [], 0\n while n < len(xs):\n  x = xs[n]\n"
        "  if x.grad is not None:\n   out.append(torch.exp(x.sum() * k))\n  n += 1\n return out",
        "def f(xs, k):\n out = []\n for n in range(len(xs)):\n  if xs[n].grad is not None:\n"
        "   out.append(torch.exp(xs[n].sum() * k))\n return out",
        "def f(xs, k):\n have = filter(lambda x: x.grad is not None, xs)\n"
        " return list(map(lambda x: torch.exp(x.sum() * k), have))",
    ],
    "sums": [
        "def f(xs):\n return sum(x.numel() * x.element_size() + 3 for x in xs)",
        "def f(xs):\n total = 0\n for x in xs:\n  total += 3 + x.element_size() * x.nelement()\n return total",
        "def f(xs):\n total = 0\n for _, x in enumerate(xs):\n  total = total + (x.numel() * x.element_size() + 3)\n"
        " return total",
    ],
    "conditions": [
        "def f(a, b):\n return torch.exp(a * b + 2) if a.sum() < b.mean() else torch.log(a - b)",
        "def f(a, b):\n if a.sum() < b.mean():\n  return torch.exp(a * b + 2)\n return torch.log(a - b)",
        "def f(a, b):\n if not b.mean() > a.sum():\n  y = torch.log(a - b)\n else:\n  y = torch.exp(2 + b * a)\n return y",
    ],
    "nothing added": [
        "def f(p, g):\n return torch.clamp(p * 3 + g, min=g.mean() * 0.5)",
        "def f(p, g):\n print('x')\n _ = 0\n p = p\n if True:\n  q = p * 3 + g + 0\n unused = q * 7\n"
        " return torch.clamp(q * 1, min=g.mean() / 2)\n print(unused)",
        "def f(p: int, g: 'T') -> 'T':\n '''Doc.'''\n try:\n  q: object = p * 3 + g\n finally:\n  pass\n"
        " for _ in range(1):\n  r = torch.clamp(q, min=g.mean() * (1 - 0.5))\n return getattr(r, 'data')",
        "def f(p, g):\n if True:\n  q = p * 3 + g\n for _ in range(1):\n  q = q\n return torch.clamp(q, min=g.mean() * 0.5)",
        "def f(p, g):\n try:\n  q = p * 3 + g\n finally:\n  pass\n return (lambda it: it)(torch.clamp(q, min=g.mean() * 0.5))",
        "def f(p, g):\n return torch.clamp(p * 3 + g, min=getattr(g, 'mean')() * 0.5)\ndef _spare(a):\n 'No one calls it.'",
        "def f(p, g):\n q = p * 3\n q += g\n return torch.clamp(q, min=g.mean() * 0.5)",
        "def f(p, g):\n q = p * 3\n q = q + g\n return q.clamp(min=g.mean() * 0.5)",
    ],
    "helpers": [
        "def f(p, g):\n return torch.clamp(p * 3 + g, min=g.mean() * 0.5)",
        "def _part(p, g):\n return p * 3 + g\ndef f(p, g):\n return torch.clamp(_part(p, g), min=g.mean() * 0.5)",
        "_part = lambda p, g: p * 3 + g\ndef f(p, g):\n return _part(p, g).clamp(min=g.mean() * 0.5)",
        "def f(p, g):\n def part(a):\n  return a * 3 + g\n return torch.clamp(part(p), min=g.mean() * 0.5)",
        "import torch as tt\ndef f(p, g):\n part = lambda a: a * 3 + g\n return tt.clamp(part(p), min=g.mean() * 0.5)",
    ],
    "attributes of self": [
        "class A:\n def __init__(self, n):\n  self.n = n\n  self.rows = torch.zeros(n, 7)\n"
        " def g(self, x):\n  return torch.exp(x @ self.rows) * self.n",
        "class A:\n def __init__(self, n):\n  self.held_n = n\n  self.held_rows = torch.zeros(n, 7)\n"
        " def g(self, x):\n  return torch.exp(x @ self.held_rows) * self.held_n",
    ],
    "operators in place": [
        "def f(p, g):\n q = g @ p\n q.mul_(3)\n q.add_(g)\n return q.sum(0)",
        "def f(p, g):\n q = g @ p\n q *= 3\n q += g\n return q.sum(0)",
    ],
    "fused operators": [
        "def f(p, g):\n return torch.relu(p.add(g, alpha=2))",
        "def f(p, g):\n return torch.relu(p + 2 * g)",
    ],
    "an argument changed in place": [
        "def f(p, g):\n p.sub_(g * 3 + 1)",
        "def f(p, g):\n p -= g * 3 + 1",
    ],
    "conditions that are known": [
        "def f(p, g):\n q = p * 3\n q = q + g\n return torch.clamp(q, min=g.mean() * 0.5)",
        "def f(p, g):\n q = p * 3\n if True:\n  q = q + g\n return torch.clamp(q, min=g.mean() * 0.5)",
        "def f(p, g):\n q = p * 3\n for _ in range(1):\n  if 0:\n   q = max(p)\n  else:\n   q = q + g\n"
        " return torch.clamp(q, min=g.mean() * 0.5)",
    ],
    "calls of what was computed": [
        "def f(h, x):\n return torch.exp(h[0](x) * 2 + 1)",
        "def f(h, x):\n return torch.exp(h[0](x) * 2 + (lambda it: it)(1))",
    ],
    "a loop without its number": [
        "def f(xs, w):\n total = 0\n for x in xs:\n  total += torch.exp(x @ w)\n return total",
        "def f(xs, w):\n total = 0\n for _place, x in enumerate(xs):\n  total += torch.exp(x @ w)\n return total",
    ],
}  # fmt: skip
# Each first text has features that the other one has too, among more.
KEPT = {
    "bodies of loops as helpers": (
        "def f(xs, w):\n total = 0\n for x in xs:\n  y = torch.exp(x @ w)\n  total += y * x + 3\n return total",
        "def _block(x, total, w):\n y = torch.exp(x @ w)\n total += y * x + 3\n return y, total\n"
        "def f(xs, w):\n total = 0\n for x in xs:\n  y, total = _block(x, total, w)\n return total",
    ),
    "conditions that always hold, with other branches": (
        "def f(p, g):\n q = p * 3 + g\n return torch.clamp(q, min=g.mean() * 0.5)",
        "def f(p, g):\n if len(str(3)) > 0:\n  q = p * 3 + g\n else:\n  unused = str(3).join(['3', '4'])\n"
        " return torch.clamp(q, min=g.mean() * 0.5)",
    ),
}  # fmt: skip


def hashes(source):
    """The features of a source without imports."""
    return {feature.hash for feature in read(HEAD + source)[0]}


@pytest.mark.parametrize("name", SAME)
def test_other_ways_to_write_it_have_the_same_features(name):
    """Not a single feature differs."""
    first, *others = [hashes(source) for source in SAME[name]]
    assert first
    assert [first] * len(others) == others


@pytest.mark.parametrize("name", KEPT)
def test_a_disguise_that_adds_something_hides_nothing(name):
    """All features of the original are there."""
    original, disguise = map(hashes, KEPT[name])
    assert len(original) > 2
    assert original <= disguise


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a * b + 2", "a * b + 3"),
        ("a @ b + a.sum() * 2", "b @ a + b.sum(0) / a"),
        ("torch.exp(a - b).sum(0)", "torch.log(a - b).sum(0)"),
        ("(a - b) ** 2 + a", "(a - b) ** 3 + a"),
    ],
)
def test_other_computations_have_other_features(one, other):
    """Constants, operations and the order of a matrix product count."""
    assert hashes(f"def f(a, b):\n return {one}") != hashes(f"def f(a, b):\n return {other}")


# The share of features that stays, where it is small: these disguises still cost something.
LEAST = {"fifteen of these together": 0.6}


@pytest.mark.parametrize("name", DISGUISES)
def test_a_disguise_leaves_most_features(name):
    """The program has every kind of statement that a disguise changes."""
    whole = {"m.py": program(3)}
    before = {f.hash for f in read(whole["m.py"])[0]}
    text = disguised(whole, name)["m.py"]
    after = {f.hash for f in read(text)[0]}
    assert len(before) > 100
    assert len(before & after) >= LEAST.get(name, 0.9) * len(before)
    if name != "reprinted by a formatter, comments removed":
        assert text != disguised(whole, "reprinted by a formatter, comments removed")["m.py"]


def test_programs_of_other_seeds_share_little():
    """Otherwise the test above would say nothing."""
    one, other = ({f.hash for f in read(program(seed))[0]} for seed in (3, 4))
    assert len(one & other) < 0.25 * len(one)


def test_lines_are_those_of_the_expression():
    """A feature is marked where it is written, also if a helper computes it."""
    source = (
        "def g(a):\n    return (\n        a.sum() * 3 + 4\n    )\n\n\ndef f(x):\n    return g(x)\n"
    )
    found, definitions = read(source)
    assert [("g", 1, 4), ("f", 7, 8)] == definitions
    assert {(3, 3)} == {(one.first, one.last) for one in found}


ODD = {
    "nested functions": "".join(f"{' ' * n}def f{n}(x):\n" for n in range(90)) + " " * 90 + "pass",
    "calls that double": "def f0(x):\n return x + 1\n" + "".join(
        f"def f{n}(x):\n return f{n - 1}(x) * f{n - 1}(x + {n})\n" for n in range(1, 40)
    ),
    "a function that calls itself": "def f(x):\n return f(f(x - 1)) + f(x)\n" * 50,
    "directions": "x = '''" + "\u202e<b>\n" * 20_000 + "'''",
    "warnings": "x = '\\d'; assert (x, 1); x is 1",
    "nothing": "",
    "a byte order mark": "\ufeffx = 1",
    "null": "x = \x00",
    "no Python": "class class",
    "too long": "#" * 2_000_000,
    "a power that is too large": "x = 1e-300 ** -2",
    "a getattr of a number": "x = getattr(torch, 0x" + "f" * 9_000 + ")(y)",
    "a getattr of an operation": "x = getattr(torch, '**')(y) ** 2 + getattr(torch, '#')",
    "too many arguments": "x = range(1, 2, 3, 4), lerp(weight=1), pow(1, 2, 3, 4), zip(), enumerate()",
    "classes": "class A:0\n" * 30_000,
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_code_is_read_or_refused(name):
    """No file may end the command; what cannot be read is refused."""
    with contextlib.suppress(SyntaxError):
        read(ODD[name])


@pytest.mark.parametrize("seed", range(20))
def test_names_may_be_those_of_operations(seed):
    """A student's variable may be called collect, item or range, and a call have any arguments."""
    words = [*CALLED, *RULES.keys() - {"**", "[]"}, *TRANSPARENT, "collect", "tuple", "zip", "map"]
    words += ["enumerate", "items", "item", "len", "either", "eq", "phi", "self", "lerp", "addcmul"]
    rng = random.Random(seed)
    for _ in range(100):
        a, b, c, d, e = rng.choices(words, k=5)
        read(
            f"def f({a}):\n for {b} in {c}:\n  {d} = {e}[{b}] ** {a}\n"
            f" if {d}({a}, {c}, *{b}):\n  return {e}({d}.{a}({b}), {c}()) / {d}[{c}({a})]\n"
        )


@pytest.mark.parametrize("name", every(3, HOSTILE))
def test_the_time_for_hostile_code_is_linear_in_its_length(name, monkeypatch):
    """Whatever a file repeats, it takes a number of calls for each of its characters."""
    monkeypatch.setattr(normal_form, "FILE_STEPS", 0)  # which is the same for files of all lengths
    text, calls = HOSTILE[name](20_000), itertools.count()
    sys.setprofile(lambda *_: next(calls))
    try:
        read(text)
    except SyntaxError:
        pass
    finally:
        sys.setprofile(None)
    assert next(calls) < 500 * len(text)


def test_a_statement_that_is_too_deep_does_not_hide_the_others():
    """Otherwise one line would hide a whole file."""
    deep = "z = " + "(" * 60 + " + ".join(["y.a(1)"] * 400) + ")" * 60 + "\n"
    body = textwrap.dedent(program(5))
    alone = {f.hash for f in read(body)[0]}
    assert alone <= {f.hash for f in read(body + "\n" + deep)[0]}


def test_a_file_that_is_not_python_is_named():
    """A student whose file cannot be compared is not overlooked."""
    (work,) = pairs.works_of([{"a.py": b"def", "b.py": b"x = 1", "notes.txt": b"x"}])
    assert {"a.py": "is not Python: invalid syntax"} == work.unread
    assert {"b.py"} == work.files.keys()


def test_random_bytes_are_no_python():
    """Whatever the bytes, reading ends with features or with a refusal."""
    rng = random.Random(0)
    pairs.works_of([{"a.py": rng.randbytes(2_000)} for _ in range(20)])
