"""What a test says when a student's answer is wrong: the one module that owns that wording.

Each function compares what came back with what must hold, in a fixed order (nothing returned, type, shape, dtype, finite,
values), and raises `Mismatch` for the first thing that is wrong, alone. A `Mismatch` is the student's mistake and nothing
else: any other exception in a hidden test is the test's own fault.

`render` writes a mismatch for a reader, as public tests do. A grader takes its parts, and leaves out the private values.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

sandboxed = False  # whether `student` runs in another process; set by whoever runs the tests


# A student's process fills new memory with NaN, so that reading what was never written gives the same answer in each run.
UNWRITTEN = (
    (
        "NaN",
        "is memory of torch.empty read before it is written? It holds NaN here. Or is 0 divided by 0?",
    ),
)


class Mismatch(AssertionError):
    """The student's answer is wrong.

    Args:
        of: The function that answered, as in `element_offset`.
        reason: What is wrong, in a few words that give no private value away.
        facts: Further lines that give none away, as (label, text).
        values: Lines that only a public test may show: what was expected, what came, the inputs.
        hint: A question or a pointer that helps; None where there is none.
    """

    def __init__(
        self,
        of: str,
        reason: str,
        *,
        facts: Sequence[tuple[str, str]] = (),
        values: Sequence[tuple[str, str]] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(f"{of}: {reason}")
        self.of = of
        self.reason = reason
        self.facts = tuple(facts)
        self.values = tuple(values)
        self.hint = hint


def render(mismatch: Mismatch, *, problem: str, section: str) -> str:
    """A mismatch as lines of text with its values, for a public test: headed by the problem and the function.

    Args:
        mismatch: What was raised.
        problem: The id of the problem.
        section: Where the handout treats it.
    """
    hint = f"{mismatch.hint}    " if mismatch.hint else ""
    lines = [
        *mismatch.values,
        *mismatch.facts,
        ("hint" if hint else "see", f"{hint}handout §{section}"),
    ]
    head = f"{problem} · {mismatch.of}: {mismatch.reason}"
    return "\n".join([head, *(f"  {label:<9} {text}" for label, text in lines)])


def kind(
    got: object,
    wanted: type | tuple[type, ...],
    *,
    of: str,
    name: str = "",
    hint: str | None = None,
) -> None:
    """`got` is of this type, so that a test can go on with it: call it before len(), sorted(), indexing or a `for`.

    A subclass is as good, any mapping where a dict is wanted, and a number of numpy's where Python's is. A bool is no int.

    Args:
        wanted: One type, or several of which one will do.
        name: Which value this is, as in "the norm".

    Raises:
        Mismatch: It is of another type.
    """
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    if any(_is_a(got, one) for one in kinds):
        return
    which = f" of {name}" if name else ""
    _not_nothing(got, kinds[0], of, hint, which)
    names = " or ".join("a tensor" if one is Tensor else one.__name__ for one in kinds)
    raise Mismatch(of, f"wrong type{which}: expected {names}, got {type_name(got)}", hint=hint)


def value(
    got: object,
    expected: object,
    *,
    of: str,
    name: str = "",
    inputs: str = "",
    hint: str | None = None,
) -> None:
    """`got` equals `expected` and is of its type, all the way down; `kind` says what counts as the same type.

    For integers, strings, None, dtypes, and tuples, lists and dicts of them. Floats are compared by `number`, tensors by
    `tensor`.

    Args:
        name: Which value this is, as in "first_step".

    Raises:
        Mismatch: It does not.
    """
    which = f" of {name}" if name else ""
    _not_nothing(got, expected, of, hint, which)
    if (problem := _first_difference(got, expected)) is None:
        return
    reason, where = problem
    _fail(
        of,
        reason + which + where,
        expected=_short(expected),
        got=_short(got),
        inputs=inputs,
        hint=hint,
    )


def number(
    got: object,
    expected: float,
    *,
    of: str,
    tolerance: float,
    name: str = "",
    inputs: str = "",
    hint: str | None = None,
) -> None:
    """`got` is a finite number within `tolerance` of `expected`: a float, a whole number as an int, or numpy's of either.

    Args:
        tolerance: The largest difference allowed, in the number's own units.
        name: Which number this is, as in "the loss of step 3".

    Raises:
        Mismatch: It is not.
    """
    which = f" of {name}" if name else ""
    _not_nothing(got, expected, of, hint, which)
    if not (_is_a(got, float) or _is_a(got, int)):
        _fail(of, f"wrong type{which}: expected float, got {type_name(got)}", hint=hint)
    try:
        got = float(got)  # type: ignore[arg-type]
    except OverflowError:
        got = math.inf
    if not math.isfinite(got):
        facts = UNWRITTEN if math.isnan(got) else ()
        _fail(of, f"the number{which} is {got}, not finite", facts=facts, inputs=inputs, hint=hint)
    if not abs(got - expected) <= tolerance:
        expected_text, got_text = _apart(expected, got)
        _fail(
            of,
            f"wrong value{which}",
            expected=expected_text,
            got=got_text,
            facts=[("off by", f"{abs(got - expected):.3g}, tolerance {tolerance:.3g}")],
            inputs=inputs,
            hint=hint,
        )


def tensor(
    got: object,
    expected: Tensor,
    *,
    of: str,
    atol: float = 0.0,
    rtol: float = 0.0,
    inputs: str = "",
    hint: str | None = None,
    name: str = "",
) -> None:
    """`got` is a tensor of the shape, dtype and device type of `expected` with the same values.

    Values agree where |got - expected| <= atol + rtol·|expected|; both 0, the default, asks for equality. A NaN agrees
    with nothing.

    Args:
        name: Which of several tensors this is, as in "exp_avg after step 3".

    Raises:
        Mismatch: It is not.
    """
    which = f" of {name}" if name else ""
    _not_nothing(got, expected, of, hint, which)
    if not isinstance(got, Tensor):
        _fail(of, f"wrong type{which}: expected a tensor, got {type_name(got)}", hint=hint)
    if got.shape != expected.shape:
        shapes = f"expected {tuple(expected.shape)}, got {tuple(got.shape)}"
        _fail(of, f"wrong shape{which}: {shapes}", inputs=inputs, hint=hint)
    if got.dtype != expected.dtype:
        dtypes = f"expected {dtype_name(expected.dtype)}, got {dtype_name(got.dtype)}"
        _fail(of, f"wrong dtype{which}: {dtypes}", inputs=inputs, hint=hint)
    if got.device.type != expected.device.type:
        _fail(
            of,
            f"wrong device{which}: expected {expected.device.type}, got {got.device.type}",
            hint=hint,
        )
    if got.device.type != "meta":
        _same_values(
            got, expected, of=of, atol=atol, rtol=rtol, inputs=inputs, hint=hint, which=which
        )


def that(
    holds: bool,
    reason: str,
    *,
    of: str,
    facts: Sequence[tuple[str, str]] = (),
    values: Sequence[tuple[str, str]] = (),
    hint: str | None = None,
) -> None:
    """A property holds; `reason` says what is wrong where it does not.

    Raises:
        Mismatch: It does not hold.
    """
    if not holds:
        raise Mismatch(of, reason, facts=facts, values=values, hint=hint)


@contextmanager
def raises(
    error: type[Exception] | tuple[type[Exception], ...],
    *,
    of: str,
    when: str,
    hint: str | None = None,
) -> Iterator[None]:
    """The call inside raises `error`. Only its type counts and that it is raised by this call, never its words.

    NotImplementedError counts as "not attempted", never as the error asked for. Make a right call first, in `right_call`, so
    that code which can only fail earns nothing by failing.

    Args:
        when: What is wrong with the call, in words that give no private value away: "an index is out of range".

    Raises:
        Mismatch: Nothing was raised, or another type was.
    """
    wanted = " or ".join(e.__name__ for e in (error if isinstance(error, tuple) else (error,)))
    try:
        yield
    except (NotImplementedError, Mismatch):
        raise
    except error as e:
        if not is_students(e):
            raise
    except Exception as e:
        if not is_students(e):
            raise
        got = getattr(e, "type_name", type(e).__name__)
        raise Mismatch(of, f"expected {wanted} when {when}, got {got}", hint=hint) from None
    else:
        raise Mismatch(of, f"expected {wanted} when {when}, but nothing was raised", hint=hint)


@contextmanager
def right_call(what: str) -> Iterator[None]:
    """The calls inside are right ones, which a test makes before the wrong one that it is about.

    Where one of them fails, the student is told which call it was, and not the rule about the wrong one.

    Args:
        what: The call, in words that give no private value away: "9 tokens, context_length 8".
    """
    try:
        yield
    except Exception as e:
        e.right_call = what  # type: ignore[attr-defined]
        raise


def is_students(error: BaseException) -> bool:
    """Whether an exception came out of the student's code.

    In the student's own process any exception of a call did. Where the student's code runs in a sandbox, its exceptions say so
    by an attribute `from_student`, and every other one is a fault of the grader or of a test, never an answer.
    """
    return bool(
        getattr(error, "from_student", not sandboxed and not getattr(error, "from_grader", False))
    )


def describe(x: object) -> str:
    """An input in a few characters: `float32[2, 3]`, `int 5`."""
    if isinstance(x, Tensor):
        return f"{dtype_name(x.dtype)}{list(x.shape)}"
    if isinstance(x, np.ndarray):
        return f"{x.dtype}{list(x.shape)}"
    return f"{type(x).__name__} {_short(x)}"


def dtype_name(dtype: torch.dtype) -> str:
    """`float32` for torch.float32."""
    return str(dtype).removeprefix("torch.")


def type_name(x: object) -> str:
    """The name of a value's type, also of a value that is no plain data and of which only that name left the sandbox."""
    return str(getattr(x, "type_name", type(x).__name__))


def _is_a(value: object, wanted: type) -> bool:
    """Whether a value is as good as one of this type."""
    if isinstance(value, (bool, np.bool_)):
        return wanted in (bool, object)
    if wanted is dict:
        return isinstance(value, Mapping)
    if wanted in (int, float) and isinstance(value, np.generic):
        return isinstance(value, np.integer if wanted is int else np.floating)
    return isinstance(value, wanted)


def _not_nothing(got: object, expected: object, of: str, hint: str | None, which: str = "") -> None:
    if got is None and expected is not None:
        raise Mismatch(of, f"returned None{which}: is a `return` missing?", hint=hint)


def _fail(
    of: str,
    reason: str,
    *,
    expected: str | None = None,
    got: str | None = None,
    inputs: str = "",
    facts: Sequence[tuple[str, str]] = (),
    hint: str | None,
) -> NoReturn:
    values = [
        (label, text)
        for label, text in (("expected", expected), ("got", got), ("inputs", inputs))
        if text
    ]
    raise Mismatch(of, reason, facts=facts, values=values, hint=hint)


def _first_difference(got: object, expected: object) -> tuple[str, str] | None:
    """What differs first between two plain values, as (reason, where), or None."""
    if not _is_a(got, type(expected)):
        return f"wrong type: expected {type_name(expected)}, got {type_name(got)}", ""
    if isinstance(expected, (tuple, list)) and isinstance(got, (tuple, list)):
        if len(got) != len(expected):
            return f"wrong length: expected {len(expected)}, got {len(got)}", ""
        pairs = [(f" at [{i}]", g, e) for i, (g, e) in enumerate(zip(got, expected, strict=True))]
    elif isinstance(expected, dict) and isinstance(got, Mapping):
        if got.keys() != expected.keys():
            missing, more = len(expected.keys() - got.keys()), len(got.keys() - expected.keys())
            return f"wrong keys: {missing} missing, {more} too many", ""
        pairs = [(f" at [{k!r}]", got[k], e) for k, e in expected.items()]
    else:
        return None if bool(got == expected) else ("wrong value", "")
    for where, g, e in pairs:
        if (inner := _first_difference(g, e)) is not None:
            return inner[0], where + inner[1]
    return None


def _same_values(
    got: Tensor,
    expected: Tensor,
    *,
    of: str,
    atol: float,
    rtol: float,
    inputs: str,
    hint: str | None,
    which: str,
) -> None:
    exact = not expected.dtype.is_floating_point and not expected.dtype.is_complex
    wide = torch.complex128 if expected.dtype.is_complex else torch.float64
    g, e = got.detach(), expected.detach()
    if not exact:
        g, e = g.to(wide), e.to(wide)
        bad = ~torch.isfinite(g)
        if bool((bad & torch.isfinite(e) | g.isnan()).any()):
            facts = UNWRITTEN if bool(g.isnan().any()) else ()
            _fail(
                of,
                f"{int(bad.sum())} of {g.numel()} entries{which} are NaN or infinite",
                facts=facts,
                inputs=inputs,
                hint=hint,
            )
    wrong = g != e if exact else ~((g == e) | ((g - e).abs() <= atol + rtol * e.abs()))
    if not bool(wrong.any()):
        return
    first = tuple(int(i) for i in wrong.nonzero()[0])
    difference = float((g.to(wide) - e.to(wide)).abs().nan_to_num(torch.inf).max())
    terms = [f"{atol:.3g}"] * bool(atol) + [f"{rtol:.3g}·|expected|"] * bool(rtol)
    tolerance = "tolerance " + (" + ".join(terms) if terms and not exact else "0")
    expected_text, got_text = _apart(e[first].item(), g[first].item())
    _fail(
        of,
        f"wrong values{which} (shape and dtype are right)",
        expected=f"{expected_text} at {list(first)}",
        got=got_text,
        facts=[
            (
                "differ",
                f"{int(wrong.sum())} of {wrong.numel()} entries, by up to {difference:.3g}; {tolerance}",
            )
        ],
        inputs=inputs,
        hint=hint,
    )


def _apart(expected: complex, got: complex) -> tuple[str, str]:
    """Two numbers as text, floats with as few digits as tell them apart."""
    if isinstance(expected, int) and isinstance(got, int):
        return str(expected), str(got)
    texts = [(f"{expected:.{digits}g}", f"{got:.{digits}g}") for digits in (6, 9, 17)]
    return next((pair for pair in texts if pair[0] != pair[1]), texts[0])


def _short(x: object, limit: int = 200) -> str:
    text = repr(x)
    return text if len(text) <= limit else text[: limit - 1] + "…"
