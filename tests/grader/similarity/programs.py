"""Programs made at random, with every kind of statement that a copier disguises."""

import random

CALLS = ["exp", "log", "relu", "tanh", "abs", "sigmoid", "sin", "cos"]


def _expression(rng, names):
    one, other, third = (rng.choice(names) for _ in range(3))
    number = rng.choice([2, 3, 7, 11, 0.25, 0.75, 1e-3, 5.5])
    return rng.choice([
        f"torch.{rng.choice(CALLS)}({one} * {number} + {other}) @ {third}",
        f"({one} @ {other}.T).{rng.choice(CALLS)}() - {number}",
        f"torch.{rng.choice(CALLS)}({one}) / ({other} + {number})",
        f"{one}.sum({rng.randrange(3)}) * {other}.grad + {number} * {third}",
    ])  # fmt: skip


def _function(rng, name):
    """One function with a ternary, loops, a comprehension, a test, an inner function and steps."""
    names = ["x", "w", "b"]
    make = lambda: _expression(rng, names)  # noqa: E731
    return f"""
def {name}(x, w, b):
    def inner(v):
        return {_expression(rng, ["v", "x"])}
    first = {make()}
    second = {make()}
    scale = {make()} if x.sum() < {rng.randrange(9)} else {make()}
    rows = [{_expression(rng, ["row", "w"])} for row in x if row.grad is not None]
    kept = []
    for step in range(len(w)):
        kept.append({_expression(rng, ["w[step]", "b"])})
    total = {rng.randrange(2, 9)}
    for row in b:
        part = {_expression(rng, ["row", "first"])}
        whole = {_expression(rng, ["row", "part"])}
        total += torch.{rng.choice(CALLS)}(whole * part + {rng.randrange(2, 99)})
    if scale.numel() > {rng.randrange(99)}:
        raise ValueError(f"scale is {{scale}}")
    if x.dim() == {rng.randrange(9)}:
        second = {make()}
    else:
        second = {_expression(rng, ["second", "x"])}
    first.mul_({rng.randrange(2, 9)}).add_(second, alpha={rng.randrange(2, 9)})
    if total.sum() > {rng.randrange(99)}:
        return inner(first @ second) + torch.relu(w)
    return torch.stack(rows + kept) * total + _helper_{name}(scale) - _short_{name}(w)


def _helper_{name}(a):
    kept = {_expression(rng, ["a"])}
    return torch.{rng.choice(CALLS)}(kept * {rng.randrange(2, 99)})


def _short_{name}(a):
    return {_expression(rng, ["a"])}
"""


def program(seed, functions=4):
    """The source of a module."""
    rng = random.Random(seed)
    held = f"""
class Held:
    def __init__(self, size):
        self.size = size
        self.rows = torch.zeros(size, {rng.randrange(99)})

    def forward(self, x):
        return {_expression(rng, ["x", "self.rows"])} * self.size
"""
    parts = [_function(rng, f"f{n}") for n in range(functions)]
    return '"""A module."""\n\nimport math\nimport torch\n' + held + "".join(parts)
