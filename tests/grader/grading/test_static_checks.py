"""Static checks find certain and possible forbidden uses, and ignore code that never runs."""

import pytest

from grader.course import courses
from kit import forbidden_in_source

COURSE = courses.load()
LINEAR = """
import torch
from torch import nn
import torch.nn.functional as F

class Linear(nn.Module):
    def __init__(self, i, o, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(o, i))

    def forward(self, x):
        {}

"""


def found(problem, source):
    """The name, line and certainty of each use."""
    read = forbidden_in_source.read(source.encode(), [COURSE.problem(problem).rules])
    assert read["syntax"] is None
    return [(use["name"], use["line"], use["certain"]) for use in read["uses"]]


def module_of(source):
    """The module that a case of the tables below stands for: those that import are whole."""
    return source if source.startswith(("import ", "from ")) else LINEAR.format(source)


STUBS = """
import abc

def plain(x):
    raise NotImplementedError

def with_text(x):
    '''What it should do.'''
    raise NotImplementedError("linear: see handout")

class Layer:
    async def method(self):
        def inner():
            raise NotImplementedError
        raise NotImplementedError

    @property
    def size(self): raise NotImplementedError()

def careful(x): raise NotImplementedError(print("a call"))

def chained(x): raise NotImplementedError("it") from ValueError("because")

def begun(x):
    y = x
    raise NotImplementedError

def conditional(x):
    if x:
        raise NotImplementedError

def another():
    raise ValueError

def again():
    raise

def empty():
    '''Nothing.'''
"""


def test_functions_that_only_raise_not_implemented_are_stubs():
    """Their lines are reported; a function that does anything else is no stub."""
    assert [5, 9, 14, 18] == sorted(forbidden_in_source.read(STUBS.encode(), [])["stubs"])


# Bodies of `Linear.forward`, which further definitions may follow, and whole modules.
BY_HAND = "return x @ self.weight.T"
CERTAIN = {
    "a call": "return F.linear(x, self.weight)",
    "after a check that raises": "if x is None: raise ValueError\n        return F.linear(x, x)",
    "in a loop and a with": "for _ in x:\n            with torch.no_grad(): F.linear(x, x)",
    "in its own method": "return self.helper(x)\n    def helper(self, x): return F.linear(x, x)",
    "in a helper": "return helper(x)\ndef helper(x): return F.linear(x, x)",
    "in a helper's helper": "return a(x)\ndef a(x): return b(x)\ndef b(x): return F.linear(x, x)",
    "in an inner function": "def inner(y): return F.linear(y, y)\n        return inner(x)",
    "by a local import": "x\n        from torch.nn.functional import linear as f\n        f(x, x)",
    "by another name": "product = F.linear\n        return product(x, self.weight)",
    "a base class": "import torch\nclass Linear(torch.nn.Linear): pass",
    "a base of a base": "import torch\nclass A(torch.nn.Linear): pass\nclass Linear(A): pass",
    "a part that is made": (
        "from torch import nn\nclass MLP(nn.Module):\n"
        "    def __init__(self, d): self.x = nn.Linear(*d)"
    ),
    "only another name": "import torch\nLinear = torch.nn.Linear",
    "an import": "from torch.nn import Linear",
    "when the module is imported": "import torch\nlayer = torch.nn.Linear(2, 3)",
    "between possible ones": "f = lambda: F.linear(x, x); F.linear(x, x); lambda: F.linear(x, x)",
    "text that is run": "return eval('F.' + 'linear')(x, self.weight)",
    "torch imported twice": (
        "import torch\nimport torch.nn.functional\n"
        "def count_parameters(x): torch.nn.functional.linear(x, x)"
    ),
    "a default": "import torch\ndef count_parameters(module, x=torch.nn.Linear(2, 3)): pass",
}
POSSIBLE = {
    "behind a condition": f"if DEBUG: F.linear(x, self.weight)\n        {BY_HAND}",
    "after a return": f"if x is not None: {BY_HAND}\n        return F.linear(x, self.weight)",
    "in a handler": f"try: {BY_HAND}\n        except RuntimeError: return F.linear(x, x)",
    "half of an or": "return self.by_hand(x) or F.linear(x, self.weight)",
    "one of two values": "return F.linear(x, self.weight) if DEBUG else x @ self.weight.T",
    "in a lambda": f"check = lambda: F.linear(x, self.weight)\n        {BY_HAND}",
}
NOTHING = {
    "a self-check": f"{BY_HAND}\nif __name__ == '__main__':\n    print(nn.Linear(2, 3))",
    "a check of types": f"{BY_HAND}\nif torch.jit.TYPE_CHECKING: nn.Linear(2, 3)",
    "a helper that nobody calls": f"{BY_HAND}\ndef helper(): return nn.Linear(2, 3)",
    "a method that nobody calls": f"{BY_HAND}\n    def check(self, x): return F.linear(x, x)",
    "a subclass to compare with": f"{BY_HAND}\nclass Theirs(nn.Linear): pass",
    "behind a return": f"{BY_HAND}\n        return F.linear(x, self.weight)",
    "behind a raise": "raise NotImplementedError\n        return F.linear(x, self.weight)",
    "only a name": f"isinstance(self, nn.Linear); F.linear\n        {BY_HAND}",
    "a comment and an import": "from torch.nn.functional import linear  # linear(x)",
    "its own function of that name": (
        "from torch.nn.functional import linear\ndef linear(x): return x\n"
        "def count_parameters(x): linear(x)"
    ),
    "its own class of that name": (
        "from torch.nn import *\nclass Linear(Module):\n    def __init__(self): Linear.x(self)"
    ),
    "an argument of that name": "return self.go(x, x)\n    def go(self, x, F): return F.linear(x)",
    "a variable of that name": "F = self\n        return F.linear(x)",
    "an import elsewhere": (
        "return linear(x)\ndef f(): from torch.nn.functional import linear\ndef linear(x): return x"
    ),
    "a method called eval": f"self.eval()\n        {BY_HAND}",
    "its own eval": "return eval(x)\ndef eval(x): return x",
}


CASES = {
    **dict.fromkeys(CERTAIN.values(), (True,)),
    **dict.fromkeys(POSSIBLE.values(), (False,)),
    **dict.fromkeys(NOTHING.values(), ()),
}


@pytest.mark.parametrize(("source", "certain"), CASES.items(), ids=[*CERTAIN, *POSSIBLE, *NOTHING])
def test_only_what_is_sure_to_run_is_certain(source, certain):
    """What stands behind a condition is possible: only a run of the tests shows it.

    What never runs, or is something else, is not reported: a false accusation is worse than a late
    one.
    """
    assert certain == tuple(sure for *_, sure in found("linear", module_of(source)))


def test_a_name_that_one_definition_may_not_call_is_free_in_the_others():
    """intermediate_gradients needs autograd, while linear_backward has to be written without it."""
    call = "import torch\ndef {}(x): return torch.autograd.grad(x, x)"
    assert [("torch.autograd.grad", 2, True)] == found("autograd", call.format("linear_backward"))
    assert [] == found("autograd", call.format("intermediate_gradients"))
    forward = "import torch\ndef intermediate_gradients(f): return torch.func.hessian(f)"
    assert [("torch.func.hessian", 2, True)] == found("autograd", forward)
    # MatMul.backward may be called by name; a call of Tensor.backward is caught when it runs.
    source = "def linear_backward(x): x.backward()"
    assert [("torch.Tensor.backward", 1, False)] == found("autograd", source)


@pytest.mark.parametrize("module", COURSE.modules)
def test_reading_finds_nothing_in_the_reference(module, root):
    """Neither the reference nor a stub has a finding."""
    for folder in ("grader/solutions/reference", "assignment"):
        source = (root / folder / f"{module}.py").read_text()
        for problem in [p for p in COURSE.problems if p.module == module]:
            assert [] == found(problem.id, source)


CONFLICT = "<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> 1f2e3d4\n"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (CONFLICT, 1),
        (f'"""Title\n=======\n"""\n{CONFLICT}', 4),
        (f"y = (\n{CONFLICT}", 2),
        ("x = 1\n=======\nx = 2\n", 2),
        ("x = 1\r\n>>>>>>> other\r\n", 2),
        (f'"""\n{CONFLICT}"""\n', 0),
        ('"""Title\n=======\n"""\nx = (\n', 0),
        ("x = 1 <<<<<<< 2\n", 0),
    ],
)
def test_an_unfinished_merge_is_named(source, line):
    """A heading in a docstring is none, and neither is any text in a file that is Python."""
    found = forbidden_in_source.read(source.encode(), [])["syntax"] or (0, "")
    assert (found[0] if found[1] == forbidden_in_source.UNFINISHED else 0) == line


def test_no_source_is_nested_too_deep_to_be_read():
    """Long sums, long chains of elif, and helpers that call each other can all be read."""
    chain = "if a: pass\n" + "elif a: pass\n" * 900
    calls = "".join(f"def f{i}():\n    f{i - 1}()\n    f{i + 1}()\n" for i in range(2000))
    total = f"x = {' + '.join('1' * 900)}\n"
    assert [] == found("linear", f"{total}{chain}{calls}def count_parameters(): f0()\n")


def test_a_name_that_is_forbidden_in_one_definition_costs_that_definition():
    """The rest of the problem keeps its points, and the tripwire ends no other test."""
    source = b"import torch\ndef mlp_backward(x): return helper(x)\n"
    source += b"def helper(x): return torch.autograd.grad(x, x)"
    (use,) = forbidden_in_source.read(source, [COURSE.problem("autograd").rules])["uses"]
    assert ("mlp_backward", 3, True) == (use["definition"], use["line"], use["certain"])
    rules = [COURSE.problem("linear").rules]
    (whole,) = forbidden_in_source.read(b"from torch.nn import Linear", rules)["uses"]
    assert whole["definition"] == ""


LIMITED = "from torch import set_grad_enabled as s\nwith s(False): pass\n@s(False)\ndef f(): 0\n"


@pytest.mark.parametrize(
    ("source", "settings"),
    [
        ("import torch\ntorch.set_default_dtype(torch.half)\n0", [(2, "torch.set_default_dtype")]),
        ("import torch\ndef f(): torch.set_default_dtype(torch.half)", []),
        (LIMITED, []),
        (f"{LIMITED}s(False)", [(5, "torch.set_grad_enabled")]),
    ],
)
def test_settings_that_a_module_changes_for_all_code_are_reported(source, settings):
    assert settings == forbidden_in_source.read(source.encode(), [])["settings"]
