"""Rewrite the reference, to test the suite on more than hand-written mistakes.

`derived_trials` adds this module to a solution. It is sent into the sandbox as part of the
submission, so it imports only what a submission may import, and nothing from the grader. Each
function replaces definitions in the module that calls it:

    from assignment import rewrites

    rewrites.junk(globals(), ["split_heads"], rewrites.JUNK["nan"])
"""

import dataclasses
import functools
import inspect
import math
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

Values = dict[str, Any]
Junk = Callable[[tuple[Any, ...], Values], object]


def _first(args: tuple[Any, ...], kwargs: Values) -> Any:
    return next(iter([*args, *kwargs.values()]), None)


def _numbers(args: tuple[Any, ...], kwargs: Values) -> list[Any]:
    return [n for n in [*args, *kwargs.values()] if isinstance(n, (int, float))]


# What every call answers, made of its arguments.
JUNK: dict[str, Junk] = {
    "None": lambda *_: None,
    "0": lambda *_: 0,
    "1": lambda *_: 1,
    "7": lambda *_: 7,
    "-1": lambda *_: -1,
    "a huge int": lambda *_: 10**40,
    "a huge negative int": lambda *_: -(10**40),
    "0.0": lambda *_: 0.0,
    "0.5": lambda *_: 0.5,
    "nan": lambda *_: math.nan,
    "inf": lambda *_: math.inf,
    "-inf": lambda *_: -math.inf,
    "a complex number": lambda *_: 1j,
    "True": lambda *_: True,
    "False": lambda *_: False,
    "an empty text": lambda *_: "",
    "a text": lambda *_: "text",
    "bytes": lambda *_: b"bytes",
    "an empty list": lambda *_: [],
    "an empty tuple": lambda *_: (),
    "an empty dict": lambda *_: {},
    "a list": lambda *_: [1, 2],
    "a tuple of three": lambda *_: (1, "a", None),
    "nested containers": lambda *_: {"a": [1, (2, {3: []})]},
    "keys that do not sort": lambda *_: {1: 1, "a": 2, None: 3},
    "a set": lambda *_: {1, "a"},
    "a generator": lambda *_: (n for n in range(3)),
    "a function": lambda *_: len,
    "an object": lambda *_: object(),
    "a class": lambda *_: dict,
    "a module": lambda *_: math,
    "the first argument": _first,
    "the last argument": lambda args, kwargs: next(iter([*kwargs.values(), *args][::-1]), None),
    "all arguments": lambda args, kwargs: (*args, *kwargs.values()),
    "the first number doubled": lambda args, kwargs: 2 * sum(_numbers(args, kwargs)[:1]),
    "numbers multiplied": lambda args, kwargs: math.prod(_numbers(args, kwargs)),
    "numbers added": lambda args, kwargs: sum(_numbers(args, kwargs)),
}


def _numpy() -> Any:
    return sys.modules["numpy"]


OF_NUMPY: dict[str, Junk] = {
    "an array": lambda *_: _numpy().zeros(3, dtype="float32"),
    "an array of int64": lambda *_: _numpy().arange(6).reshape(2, 3),
    "an array of objects": lambda *_: _numpy().array([None, 1], dtype=object),
}


def junk(module: Values, names: Iterable[str], made: Junk, *, hollow: bool = True) -> None:
    """Make the named functions, and all methods of the named classes, answer with junk.

    Args:
        made: One of the values of `JUNK`, or of another such table.
        hollow: Whether a class keeps its name, its bases and an `__init__` with the original's
            signature; otherwise calling the class returns the junk.
    """

    def answer(*args: Any, **kwargs: Any) -> object:
        return made(args, kwargs)

    for name in names:
        is_hollow = hollow and isinstance(module[name], type)
        module[name] = _hollow(module[name], answer) if is_hollow else answer


def _hollow(original: type, answer: Callable[..., object]) -> type:
    """A class like the original whose methods all return the constant."""

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = inspect.signature(original.__init__).bind(self, *args, **kwargs)  # type: ignore[misc]
        bound.apply_defaults()
        given = dict(list(bound.arguments.items())[1:])
        torch = sys.modules.get("torch")
        if torch and isinstance(self, torch.optim.Optimizer):
            torch.optim.Optimizer.__init__(self, given.pop("params"), given)
        else:
            super(made, self).__init__()  # type: ignore[arg-type]

    body: Values = {"__doc__": original.__doc__}
    for name, value in vars(original).items():
        if isinstance(value, staticmethod):
            body[name] = staticmethod(answer)
        elif isinstance(value, types.FunctionType):
            body[name] = (
                init if name == "__init__" else functools.partialmethod(_without_self, answer)
            )
        elif isinstance(value, property):
            body[name] = property(answer)
    made: type = type(original.__name__, original.__bases__, body)
    return made


def _without_self(self: object, answer: Callable[..., object], *args: Any, **kwargs: Any) -> object:
    return answer(*args, **kwargs)


TYPES: dict[str, Callable[[Any], Any]] = {
    "numpy's floats": lambda x: _numpy().float64(x) if type(x) is float else x,
    "numpy's ints": lambda x: _numpy().int64(x) if type(x) is int and abs(x) < 2**63 else x,
    "ordered dicts": lambda x: OrderedDict(x) if type(x) is dict else x,
    "mappings": lambda x: types.MappingProxyType(x) if type(x) is dict else x,
}


def map_answers(module: Values, names: Iterable[str], change: Callable[[Any], Any]) -> None:
    """Change what the named functions return to callers outside their module.

    Values inside containers and dataclasses are changed too.
    """
    for name in names:
        if isinstance(module[name], types.FunctionType):
            module[name] = _changed(module[name], change, module)


def _changed(
    function: Callable[..., Any], change: Callable[[Any], Any], module: Values
) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        answer = function(*args, **kwargs)
        return answer if sys._getframe(1).f_globals is module else _deep(change, answer)

    return wrapped


def _deep(change: Callable[[Any], Any], value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value,
            **{f.name: _deep(change, getattr(value, f.name)) for f in dataclasses.fields(value)},
        )
    if type(value) is dict:
        return change({key: _deep(change, inner) for key, inner in value.items()})
    if type(value) in (list, tuple):
        return change(type(value)(_deep(change, inner) for inner in value))
    return change(value)


def by_logarithms(a: Any, b: Any, sign: int) -> Any:
    """a · b, or a / b for the sign -1: as exp(log a ± log b), where both are positive numbers."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and a > 0 and b > 0:
        return math.exp(math.log(a) + sign * math.log(b))
    return a * b if sign > 0 else a / b


def by_fractions(a: Any, b: Any, sign: int) -> Any:
    """a · b, or a / b for the sign -1: exactly, as a fraction."""
    if all(isinstance(n, (int, float, Fraction)) and math.isfinite(n) for n in (a, b)):
        a, b = Fraction(a), Fraction(b)
    return a * b if sign > 0 else a / b


def as_float(x: Any) -> Any:
    """A fraction as a float, and anything else as it is."""
    return float(x) if isinstance(x, Fraction) else x
