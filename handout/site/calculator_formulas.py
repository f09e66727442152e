"""The calculators' formulas: read from calculators.toml, evaluated, and written as JavaScript.

A formula is text that means the same in Python and in JavaScript. `checked` makes sure of that, so
the page gets the formula unchanged. The functions in FUNCTIONS exist in only one of the languages,
so each of them has a counterpart in static/calculators.js, and
tests/handout/test_calculators_in_browser.py checks that the two agree.
"""

import ast
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import msgspec
import torch

from grader.solutions.reference import precision
from grader.solutions.reference import resource_accounting as accounting

SOURCE = Path(__file__).parents[1] / "calculators.toml"
Values = dict[str, Any]


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A field of the form; see the comment in calculators.toml."""

    id: str
    label: str
    kind: Literal["number", "count", "text", "view", "flag", "device", "dtype", "recipe", "format"]
    default: float | str
    min: float | None = None
    max: float | None = None
    max_of: str | None = None
    divides: str | None = None
    of_device: bool = False
    infinite: bool = False
    hint: str = ""


class Result(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A computed line, or a column of the table."""

    id: str
    label: str
    formula: str
    show: str
    lead: bool = False


class Calculator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One calculator: its form, its results, and a table with a line for each choice of `lines`."""

    id: str
    title: str
    about: str
    input: list[Input]
    result: list[Result]
    column: list[Result] = []
    lines: list[str] = []
    dtypes: list[str] = []


# --- what can be chosen ---------------------------------------------------------------------------


def name_of(dtype: torch.dtype) -> str:
    """The name of a dtype without its module, such as `float32`."""
    return str(dtype).removeprefix("torch.")


_FLOATS = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.float8_e4m3fn, torch.float8_e5m2),
)
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.bool)
DTYPES: dict[str, Values] = {
    name_of(dtype): {"name": name_of(dtype), "size": dtype.itemsize}
    for dtype in (*_FLOATS, *_INTEGERS)
}
DEVICES: dict[str, Values] = {
    hw.name: {
        "name": hw.name,
        "peak": {name_of(dtype): peak for dtype, peak in hw.peak_flops.items()},
        "bandwidth": hw.memory_bandwidth,
        "memory": hw.memory_bytes,
    }
    for hw in (accounting.A100_80GB, accounting.H100_SXM, accounting.H200_SXM)
}
_FP32, _BF16 = torch.float32, torch.bfloat16
# AdamW in float32; with bfloat16 weights and gradients, with and without a float32 master copy.
FULL = accounting.TrainingRecipe(_FP32, _FP32, (_FP32, _FP32))
MASTER = accounting.TrainingRecipe(_BF16, _BF16, (_FP32, _FP32), _FP32)
SLIM = accounting.TrainingRecipe(_BF16, _BF16, (_FP32, _FP32))
LOWEST = accounting.TrainingRecipe(_BF16, _BF16, (_BF16, _BF16))
TRAINING = {
    "float32": FULL,
    "bfloat16 with a float32 master": MASTER,
    "bfloat16 without a master": SLIM,
    "bfloat16 throughout": LOWEST,
}
RECIPES = {
    name: {
        "name": name,
        "parameter": recipe.parameter.itemsize,
        "gradient": recipe.gradient.itemsize,
        "states": sum(dtype.itemsize for dtype in recipe.optimizer_state),
        "master": recipe.master.itemsize if recipe.master else 0,
    }
    for name, recipe in TRAINING.items()
}


def _format(dtype: torch.dtype) -> Values:
    spec = precision.float_spec(dtype)
    # If the largest exponent is reserved for infinity and NaN, the largest number follows IEEE
    # 754's rule.
    by_rule = 2.0 ** (2 ** (spec.exponent_bits - 1) - 1) * (2 - 2.0**-spec.mantissa_bits)
    bits = {"exponent_bits": spec.exponent_bits, "mantissa_bits": spec.mantissa_bits}
    return {"name": name_of(dtype), **bits, "no_infinity": int(spec.max != by_rule)}


def recipe_name(recipe: accounting.TrainingRecipe) -> str:
    """The name of a recipe, as a calculator offers it."""
    return next(name for name, one in TRAINING.items() if one == recipe)


FORMATS = {name_of(dtype): _format(dtype) for dtype in _FLOATS}
CHOICES: dict[str, dict[str, Values]] = {
    "dtype": DTYPES, "device": DEVICES, "recipe": RECIPES, "format": FORMATS
}  # fmt: skip


def choices(calculator: Calculator, kind: str) -> list[str]:
    """The names that a field or a table of this calculator offers to choose from."""
    if kind == "dtype" and calculator.dtypes:
        return calculator.dtypes
    if kind == "dtype" and any(field.of_device for field in calculator.input):
        return [
            name for name in DTYPES if any(name in device["peak"] for device in DEVICES.values())
        ]
    return list(CHOICES[kind])


# --- formulas -------------------------------------------------------------------------------------


def _floor_log2(x: float) -> float:
    """The exponent of the largest power of two that is not above x."""
    if x == 0:
        return -math.inf
    return math.frexp(x)[1] - 1 if math.isfinite(x) else x


def _held(rounded: float, largest: float, no_infinity: float) -> float:
    """The value that a format stores for a rounded number.

    A number that is too large becomes infinity, or the largest number of a format without infinity,
    as in torch 2.13; earlier versions make it NaN.
    """
    if abs(rounded) <= largest:
        return rounded
    return math.copysign(largest if no_infinity else math.inf, rounded)


def _viewed(shape: Sequence[float], view: str) -> SimpleNamespace:
    """Shape, strides and offset of a view of a contiguous tensor, from torch itself.

    Raises:
        ValueError: The view uses something that the page does not offer.
    """
    tree = ast.parse(f"x{view}", mode="eval")
    if unknown := [node for node in ast.walk(tree) if not isinstance(node, _OF_A_VIEW)]:
        raise ValueError(f"not part of a view: {ast.unparse(unknown[0])!r} in {view!r}")
    x = torch.empty([int(size) for size in shape], device="meta")
    # The expression comes from our own files and tests, and is checked.
    shown = eval(compile(tree, "view", "eval"), {"__builtins__": {}}, {"x": x})
    return SimpleNamespace(
        shape=list(map(float, shown.shape)),
        strides=list(map(float, shown.stride())),
        offset=float(shown.storage_offset()),
        contiguous=float(shown.is_contiguous()),
    )


_OF_A_VIEW = (
    *(ast.Expression, ast.Name, ast.Load, ast.Attribute, ast.Call, ast.Subscript, ast.Slice),
    *(ast.Tuple, ast.Constant, ast.UnaryOp, ast.USub),
)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "sqrt": math.sqrt,
    "round_even": lambda x: float(round(x)) if math.isfinite(x) else x,
    "floor_log2": _floor_log2,
    "held": _held,
    "product": math.prod,
    "viewed": _viewed,
    "dot": lambda a, b: sum(x * y for x, y in zip(a, b, strict=True)) if a else math.nan,
}
_ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.USub, ast.Compare, ast.Call, ast.Name, ast.Load,
    ast.Attribute, ast.Subscript, ast.Constant, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow,
    ast.Eq, ast.NotEq, ast.Gt, ast.GtE, ast.Lt,
)  # fmt: skip


def checked(formula: str) -> ast.Expression:
    """Parse a formula, and check that it means the same in Python and in JavaScript.

    Raises:
        ValueError: The formula contains something that the two languages do not share.
    """
    tree = ast.parse(formula, mode="eval")
    for node in ast.walk(tree):
        is_shared = isinstance(node, _ALLOWED)
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
                pass
            case ast.Call():
                raise ValueError(
                    f"not a function of the calculators: {ast.unparse(node.func)!r} in {formula!r}"
                )
            case ast.UnaryOp(operand=ast.BinOp(op=ast.Pow())):
                raise ValueError(f"JavaScript allows no sign before a base of **: {formula!r}")
            case ast.Compare():
                is_shared = len(node.ops) == 1
        if not is_shared:
            raise ValueError(
                f"Python and JavaScript do not share this: {ast.unparse(node)!r} in {formula!r}"
            )
    return tree


def names(formula: str) -> list[str]:
    """The values that a formula uses, in alphabetical order."""
    found = {node.id for node in ast.walk(checked(formula)) if isinstance(node, ast.Name)}
    return sorted(found - FUNCTIONS.keys())


@cache
def load() -> dict[str, Calculator]:
    """The calculators by id. Every formula is checked."""
    listed = msgspec.convert(
        tomllib.loads(SOURCE.read_text(encoding="utf-8"))["calculator"], list[Calculator]
    )
    for calculator in listed:
        known = {field.id for field in calculator.input} | set(calculator.lines)
        for result in [*calculator.result, *calculator.column]:
            if unknown := [name for name in names(result.formula) if name not in known]:
                raise ValueError(
                    f"{calculator.id}: {result.id} uses {', '.join(unknown)}, not defined above it"
                )
            known.add(result.id)
    return {calculator.id: calculator for calculator in listed}


def inputs(calculator: Calculator, given: Mapping[str, Any] | None = None) -> Values:
    """The values of a calculator's inputs: the given ones, or the defaults.

    Lists and numbers are floats, and choices are names.
    """
    values: Values = {}
    for field in calculator.input:
        value = (given or {}).get(field.id, field.default)
        if field.kind in CHOICES:
            values[field.id] = SimpleNamespace(**CHOICES[field.kind][value])
        elif field.kind == "view":
            values[field.id] = str(value)
        elif field.kind == "text":
            values[field.id] = [float(part) for part in str(value).split(",") if part.strip()]
        else:
            values[field.id] = float(value)
    return values


def evaluate(
    calculator: Calculator, given: Mapping[str, Any] | None = None
) -> tuple[Values, list[Values]]:
    """Every result of a calculator for some inputs, and the lines of its table."""
    values = _computed(calculator.result, inputs(calculator, given))
    if not calculator.lines:
        return values, []
    table = []
    for line in product(*(choices(calculator, kind) for kind in calculator.lines)):
        chosen = zip(calculator.lines, line, strict=True)
        of_line = {kind: SimpleNamespace(**CHOICES[kind][name]) for kind, name in chosen}
        table.append(_computed(calculator.column, values | of_line))
    return values, table


def _computed(results: list[Result], values: Values) -> Values:
    values = dict(values)
    for result in results:
        code = compile(checked(result.formula), "calculators.toml", "eval")
        # The formula comes from our own file and is checked.
        values[result.id] = eval(code, {"__builtins__": {}}, FUNCTIONS | values)
    return values


# --- the page's half ------------------------------------------------------------------------------


def javascript() -> str:
    """calculators_data.js: choices and forms as JSON, and formulas as functions.

    It is generated from calculators.toml and must not be edited.
    """
    data = {"choices": CHOICES, "dtypes": {c.id: choices(c, "dtype") for c in load().values()}}
    forms, functions = [], []
    for calculator in load().values():
        forms.append(msgspec.to_builtins(calculator))
        for result in [*calculator.result, *calculator.column]:
            used = ", ".join(names(result.formula))
            source = ast.unparse(checked(result.formula)).replace("==", "===").replace("!=", "!==")
            functions.append(f'  "{calculator.id}.{result.id}": ({{ {used} }}) => {source},')
    shared = ", ".join(FUNCTIONS)
    return (
        "// Made from handout/calculators.toml; not to be edited.\n"
        f"window.HANDOUT_DATA = {msgspec.json.encode(data | {'calculators': forms}).decode()};\n"
        f"window.HANDOUT_FORMULAS = ({{ {shared} }}) => ({{\n" + "\n".join(functions) + "\n});\n"
    )
