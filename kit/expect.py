"""Checks of a student's answers, and the wording of what is wrong with them.

Each function compares an answer with the expected one in a fixed order
(nothing returned, type, shape, dtype, finite, values), and raises `Mismatch` for the first
difference only. A `Mismatch` is always the student's mistake. Any other exception in a hidden test
is a fault of the test.

`render` formats a mismatch for a reader, as public tests do. A grader uses the parts of a mismatch
and leaves out the private values.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from kit.loaded_libraries import is_array, is_scalar, is_tensor
from kit.safe_text import labelled, pointer

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

sandboxed = False  # whether `student` runs in another process; set by whoever runs the tests
MOST_ENTRIES = 10_000  # of an answer that is compared with the wrong ones that have a hint
MOST_PRINTED = 1000  # of a tensor that is described by its entries

READ_TOO_EARLY = "is memory of torch.empty read before it is written?"
# A student's process fills new memory with NaN, so reading unwritten memory gives the same answer
# in every run.
UNWRITTEN = (("NaN", f"{READ_TOO_EARLY} It holds NaN here. Or is 0 divided by 0?"),)
# The same where nothing fills new memory.
UNWRITTEN_HERE = (("NaN", f"{READ_TOO_EARLY} Or is 0 divided by 0?"),)
# Wrong answers, each with a hint.
Hints = Mapping[Any, str] | Sequence[tuple[Any, str]]

NAMES = {"<class 'torch.Tensor'>": "a tensor"}
BRACKETS: dict[type, str] = {list: "[]", tuple: "()", dict: "{}"}


class Mismatch(AssertionError):
    """The student's answer is wrong.

    Args:
        of: The name of the function that answered, such as `element_offset`.
        reason: What is wrong, in a few words that reveal no private value.
        facts: Further lines that reveal no private value, as (label, text).
        values: Lines that only a public test may show: the expected answer, the actual
            answer, the inputs.
        hint: A helpful question or pointer, or None.
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
        self.pair: tuple[Any, Any] | None = None  # expected and got, for a picture of both


def render(mismatch: Mismatch, *, problem: str, section: str) -> str:
    """Format a mismatch with its values for a public test, under the problem and the function.

    Args:
        mismatch: The mismatch that was raised.
        problem: The id of the problem.
        section: The section of the handout on this problem, or "".
    """
    lines = [labelled(label, text) for label, text in (*mismatch.values, *mismatch.facts)]
    head = f"{problem} · {mismatch.of}: {mismatch.reason}"
    return "\n".join([head, *lines, *pointer(mismatch.hint, section)])


def kind(
    got: object,
    wanted: type | tuple[type, ...],
    *,
    of: str,
    name: str = "",
    hint: str | None = None,
    optional: bool = False,
) -> None:
    """Check that `got` has this type. Call it before len(), sorted(), indexing or a `for`.

    A subclass is accepted, as is any mapping for a dict, and a numpy number for a Python number. A
    bool is not accepted as an int.

    Args:
        wanted: One type, or several types of which one suffices.
        name: Which value this is, such as "the norm".
        optional: Whether the function returns None in other cases, so that no `return` is missing.

    Raises:
        Mismatch: `got` has another type.
    """
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    if any(_is_a(got, each) for each in kinds):
        return
    one = _Complaint(of, name, hint=hint)
    one.not_nothing(got, kinds[0], optional=optional)
    one.wrong_type(" or ".join(NAMES.get(str(each), each.__name__) for each in kinds), got)


def value(
    got: object,
    expected: object,
    *,
    of: str,
    name: str = "",
    inputs: str = "",
    hint: str | None = None,
    hints: Hints = (),
    optional: bool = False,
) -> None:
    """Check that `got` equals `expected` and has the same type, at every level of nesting.

    Use it for integers, strings, None, dtypes, and for tuples, lists and dicts of these. `kind`
    defines which types count as the same. Compare floats with `number`, and tensors with `tensor`.

    Args:
        name: Which value this is, such as "first_step".
        optional: Whether the function returns None in other cases, so that no `return` is missing.
        hints: For wrong answers, what may have gone wrong; see `hint_for`.

    Raises:
        Mismatch: The value or its type differs.
    """
    one = _Complaint(of, name, inputs, hint_for(got, hints) or hint, (expected, got))
    one.not_nothing(got, expected, optional=optional)
    if problem := _first_difference(got, expected):
        reason, where = problem
        one.fail(reason + one.which + where, expected=short(expected), got=short(got))


def lines(
    got: object,
    expected: Sequence[str],
    *,
    of: str,
    name: str = "its output",
    inputs: str = "",
    hint: str | None = None,
) -> None:
    """Check that a text, such as a program's output, has these lines.

    Blanks at the end of a line, and empty lines at the end, are never wrong.

    Args:
        name: Which text this is.

    Raises:
        Mismatch: `got` is not a string, or a line differs.
    """
    kind(got, str, of=of, name=name, hint=hint)
    theirs = [line.rstrip() for line in str(got).rstrip().split("\n")] if str(got).strip() else []
    for number, (line, right) in enumerate(zip(theirs, expected, strict=False), 1):
        if line != right.rstrip():
            where = f" {number} of {name}"
            one = _Complaint(of, inputs=inputs, hint=hint)
            one.fail(f"wrong line{where}", expected=short(right), got=short(line))
    if len(theirs) != len(expected):
        which = f"{name} has {len(theirs)} lines"
        more = [("the next line", short(theirs[len(expected)]))] if theirs[len(expected) :] else []
        that(False, f"{which}, not {len(expected)}", of=of, values=more, hint=hint)


def number(
    got: object,
    expected: float,
    *,
    of: str,
    tolerance: float,
    name: str = "",
    inputs: str = "",
    hint: str | None = None,
    hints: Hints = (),
) -> None:
    """Check that `got` is a finite float or int within `tolerance` of `expected`.

    Numbers of Python and of numpy are accepted.

    Args:
        tolerance: The largest difference allowed, in the number's own units.
        name: Which number this is, such as "the loss of step 3".
        hints: For wrong answers, what may have gone wrong; see `hint_for`.

    Raises:
        Mismatch: `got` is not such a number.
    """
    one = _Complaint(of, name, inputs, hint_for(got, hints) or hint)
    one.not_nothing(got, expected)
    if not (_is_a(got, float) or _is_a(got, int)):
        one.wrong_type("float", got)
    try:
        got = float(got)  # type: ignore[arg-type]
    except OverflowError:
        got = math.inf
    if not math.isfinite(got):
        facts = one.unwritten() if math.isnan(got) else ()
        one.fail(f"the number{one.which} is {got}, not finite", facts=facts)
    if not abs(got - expected) <= tolerance:
        expected_text, got_text = _apart(expected, got)
        off = ("off by", f"{abs(got - expected):.3g}, tolerance {tolerance:.3g}")
        one.fail(f"wrong value{one.which}", expected=expected_text, got=got_text, facts=[off])


def tensor(
    got: object,
    expected: "Tensor",
    *,
    of: str,
    atol: float = 0.0,
    rtol: float = 0.0,
    inputs: str = "",
    hint: str | None = None,
    hints: Hints = (),
    name: str = "",
) -> None:
    """Check that `got` is a tensor with the shape, dtype, device type and values of `expected`.

    Values agree if |got - expected| <= atol + rtol·|expected|. With both tolerances 0, the default,
    they must be equal. A NaN agrees with nothing.

    Args:
        name: Which of several tensors this is, such as "exp_avg after step 3".
        hints: For wrong answers, what may have gone wrong; see `hint_for`.

    Raises:
        Mismatch: `got` is not such a tensor.
    """
    one = _Complaint(of, name, inputs, hint_for(got, hints) or hint, (expected, got))
    one.not_nothing(got, expected)
    if not is_tensor(got):
        one.wrong_type("a tensor", got)
    one.same_shape_and_dtype(got, expected)
    if got.device.type != expected.device.type:
        devices = f"expected {expected.device.type}, got {got.device.type}"
        one.fail(f"wrong device{one.which}: {devices}", shows_inputs=False)
    if got.device.type != "meta":
        import torch

        is_complex = expected.dtype.is_complex
        wide = torch.complex128 if is_complex else torch.float64
        exact = not expected.dtype.is_floating_point and not is_complex
        values = got.detach(), expected.detach()
        one.same_values(*values, lambda x: x.to(wide), exact=exact, atol=atol, rtol=rtol)


def array(
    got: object,
    expected: "np.ndarray[Any, Any]",
    *,
    of: str,
    atol: float | None = None,
    rtol: float | None = None,
    inputs: str = "",
    hint: str | None = None,
    hints: Hints = (),
    name: str = "",
) -> None:
    """Check that `got` is a NumPy array with the shape, dtype and values of `expected`.

    The values agree as those of `tensor` do, but a test of floats has to state a tolerance, because
    another order of a sum gives other last digits; `atol=0` asks for equal ones. A number is not an
    array, not even NumPy's, which leaves a sandbox as a Python number: compare it with `number`.

    Args:
        name: Which of several arrays this is.
        hints: For wrong answers, what may have gone wrong; see `hint_for`.

    Raises:
        Mismatch: `got` is not such an array.
        TypeError: The test states no tolerance for floats.
    """
    import numpy as np

    exact = expected.dtype.kind not in "fc"
    if not exact and atol is None and rtol is None:
        raise TypeError("expect.array: floats need atol= or rtol=; atol=0 asks for equal ones")
    one = _Complaint(of, name, inputs, hint_for(got, hints) or hint, (expected, got))
    one.not_nothing(got, expected)
    if not is_array(got):
        one.wrong_type("an array", got)
    one.same_shape_and_dtype(got, expected)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        one.same_values(
            got, expected, lambda x: x.astype(wide), exact=exact, atol=atol or 0.0, rtol=rtol or 0.0
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
    """Check that a property holds; `reason` describes what is wrong if it does not.

    Raises:
        Mismatch: The property does not hold.
    """
    if not holds:
        raise Mismatch(of, reason, facts=facts, values=values, hint=hint)


def parts(got: Sized, number: int, *, of: str, name: str = "answers") -> None:
    """Check that a list or dict has this many parts. Call it before a loop that zips nothing.

    Args:
        name: What the parts are.

    Raises:
        Mismatch: It has more parts, or fewer.
    """
    that(len(got) == number, f"expected {number} {name}, got {len(got)}", of=of)


def generators_left(changed: Sequence[str], *, of: str) -> None:
    """Check that a call has changed no global random generator.

    Args:
        changed: The names of those that it has changed; see `watching_generators` of tests/probes.
        of: The function.

    Raises:
        Mismatch: It has changed one.
    """
    reason = "a global random generator has changed its state"
    which = [("generator", name) for name in changed]
    hint = "a generator of your own leaves the global ones alone"
    that(not changed, reason, of=of, facts=which, hint=hint)


@contextmanager
def raises(
    error: type[Exception] | tuple[type[Exception], ...],
    *,
    of: str,
    when: str,
    hint: str | None = None,
) -> Iterator[None]:
    """Check that the call inside raises an exception of type `error`. Its text never matters.

    NotImplementedError counts as "not attempted", never as the expected error. Make a correct call
    first, in `right_call`, so that code that always fails earns nothing here.

    Args:
        error: The type, or several: of Python, or of a module that the course gives.
        when: What is wrong with the call, in words that reveal no private value, such as "an index
            is out of range".

    Raises:
        Mismatch: Nothing was raised, or an exception of another type.
    """
    types = error if isinstance(error, tuple) else (error,)
    wanted = " or ".join(e.__name__ for e in types)
    try:
        yield
    except (NotImplementedError, Mismatch):
        raise
    except Exception as e:
        if not is_students(e):
            raise
        got = getattr(e, "type_name", type(e).__name__)
        if isinstance(e, error) or any(_is_of(e, got, one) for one in types):
            return
        raise Mismatch(of, f"expected {wanted} when {when}, got {got}", hint=hint) from None
    else:
        raise Mismatch(of, f"expected {wanted} when {when}, but nothing was raised", hint=hint)


def _is_of(raised: Exception, name: str, wanted: type[Exception]) -> bool:
    """Whether an exception from the sandbox, which has only names, was of this type."""
    is_builtin = wanted.__module__ == "builtins"
    return wanted.__name__ in (getattr(raised, "kinds", ()) if is_builtin else (name,))


@contextmanager
def right_call(what: str) -> Iterator[None]:
    """Mark correct calls that a test makes before the wrong call that it checks.

    If one of these calls fails, the student sees which call it was, not the rule about
    the wrong call.

    Args:
        what: The call, in words that reveal no private value, such as "9 tokens, context_length 8".
    """
    try:
        yield
    except Exception as e:
        e.right_call = what  # type: ignore[attr-defined]
        raise


@contextmanager
def suspecting(hint: str) -> Iterator[None]:
    """Give this hint if the call inside raises, as with a wrong shape, which torch's words hide."""
    try:
        yield
    except (RuntimeError, IndexError) as e:
        e.hint = hint  # type: ignore[union-attr]
        raise


def hint_for(got: object, hints: Hints) -> str | None:
    """The hint that belongs to a wrong answer, or None if it is none of the known ones.

    Args:
        got: The answer.
        hints: For each wrong answer, what may have gone wrong; the first that fits counts. Five
            digits of a number decide. A number also stands for a tensor of equal entries. For
            tensors, give pairs instead of a dict.
    """
    pairs = hints.items() if isinstance(hints, Mapping) else hints
    try:
        return next((hint for wrong, hint in pairs if _is_about(got, wrong)), None)
    except Exception:  # nobody has judged this answer yet: it may be a sparse tensor, or 10**400
        return None


def _is_about(got: Any, wrong: Any) -> bool:
    """Whether an answer is a certain wrong one."""
    if isinstance(got, (tuple, list)) and isinstance(wrong, (tuple, list)):
        return len(got) == len(wrong) and all(map(_is_about, got, wrong))
    if (mine := _entries(got)) is not None:
        theirs = _entries(wrong)
        if theirs is not None:
            return bool(got.shape == wrong.shape) and _is_about(mine, theirs)
        return bool(mine) and len(set(mine)) == 1 and _is_about(mine[0], wrong)
    if isinstance(got, bool) or isinstance(wrong, bool):
        return got is wrong
    if isinstance(got, (int, float)) and isinstance(wrong, (int, float)):
        return math.isclose(got, wrong, rel_tol=1e-5)
    return type(got) is type(wrong) and not is_tensor(got) and bool(got == wrong)


def _entries(x: Any) -> list[Any] | None:
    """The entries of a tensor or of an array, or None if there are none or too many."""
    if is_tensor(x) and x.device.type != "meta" and x.numel() <= MOST_ENTRIES:
        x = x.detach()
    elif not (is_array(x) and x.size <= MOST_ENTRIES):
        return None
    entries: list[Any] = x.reshape(-1).tolist()
    return entries


def is_students(error: BaseException) -> bool:
    """Whether an exception came from the student's code.

    If the student's code runs in this process, every exception of a call came from it. If the
    student's code runs in a sandbox, its exceptions have an attribute `from_student`. Every other
    exception is a fault of the grader or of a test, never an answer.
    """
    return bool(
        getattr(error, "from_student", not sandboxed and not getattr(error, "from_grader", False))
    )


def describe(x: object) -> str:
    """Describe an input in a few characters, such as `float32[2, 3]` or `int 5`."""
    if is_tensor(x):
        return f"{dtype_name(x.dtype)}{list(x.shape)}"
    if is_array(x):
        return f"{x.dtype}{list(x.shape)}"
    return f"{type(x).__name__} {short(x)}"


def dtype_name(dtype: "torch.dtype | np.dtype[Any]") -> str:
    """`float32` for torch.float32, and for NumPy's."""
    return str(dtype).removeprefix("torch.")


def type_name(x: object) -> str:
    """The name of a value's type, even if only this name could leave the sandbox."""
    return str(getattr(x, "type_name", type(x).__name__))


def _is_a(value: object, wanted: type) -> bool:
    """Whether a value is accepted as one of this type."""
    if isinstance(value, bool):
        return wanted in (bool, object)
    if wanted is dict:
        return isinstance(value, Mapping)
    if wanted in (bool, int, float, object) and is_scalar(value):
        return wanted is object or value.dtype.kind in {bool: "b", int: "iu", float: "f"}[wanted]
    return isinstance(value, wanted)


class _Complaint:
    """What every complaint about an answer says besides its reason.

    Args:
        name: Which of several values this is; empty if there is one.
        pair: What is expected and what came, if a picture of both may help.
    """

    def __init__(
        self,
        of: str,
        name: str = "",
        inputs: str = "",
        hint: str | None = None,
        pair: tuple[Any, Any] | None = None,
    ) -> None:
        self.of, self.inputs, self.hint, self.pair = of, inputs, hint, pair
        self.which = f" of {name}" if name else ""

    def fail(
        self,
        reason: str,
        *,
        expected: str = "",
        got: str = "",
        facts: Sequence[tuple[str, str]] = (),
        shows_inputs: bool = True,
    ) -> NoReturn:
        """Raise the Mismatch."""
        inputs = self.inputs if shows_inputs else ""
        values = [("expected", expected), ("got", got), ("inputs", inputs)]
        values = [(label, text) for label, text in values if text]
        error = Mismatch(self.of, reason, facts=facts, values=values, hint=self.hint)
        error.pair = self.pair
        raise error

    def wrong_type(self, expected: str, got: object) -> NoReturn:
        """Say that it should be something else."""
        what = f"expected {expected}, got {type_name(got)}"
        self.fail(f"wrong type{self.which}: {what}", shows_inputs=False)

    def not_nothing(self, got: object, expected: object, *, optional: bool = False) -> None:
        """Refuse None where something is expected."""
        if got is not None or expected is None:
            return
        if optional:
            reason = "returned None where there is a result"
        elif self.which:
            reason = f"None instead{self.which}"
        else:
            reason = "returned None: is a `return` missing?"
        self.fail(reason, shows_inputs=False)

    def unwritten(self) -> tuple[tuple[str, str], ...]:
        """Guesses about NaN; none beside a hint, which knows more."""
        if self.hint:
            return ()
        return UNWRITTEN if sandboxed else UNWRITTEN_HERE

    def same_shape_and_dtype(self, got: Any, expected: Any) -> None:
        """Compare the shapes and the dtypes of two tensors or arrays."""
        if got.shape != expected.shape:
            shapes = f"expected {tuple(expected.shape)}, got {tuple(got.shape)}"
            self.fail(f"wrong shape{self.which}: {shapes}")
        if got.dtype != expected.dtype:
            dtypes = f"expected {dtype_name(expected.dtype)}, got {dtype_name(got.dtype)}"
            self.fail(f"wrong dtype{self.which}: {dtypes}")

    def same_values(
        self,
        got: Any,
        expected: Any,
        widened: Callable[[Any], Any],
        *,
        exact: bool,
        atol: float,
        rtol: float,
    ) -> None:
        """Compare the values of two tensors or of two arrays.

        Args:
            widened: Converts either of them to float64 or complex128.
            exact: Whether they are whole numbers or bools.
        """
        g, e = (got, expected) if exact else (widened(got), widened(expected))
        if is_tensor(g) and _agree_at_once(g, e, 0.0 if exact or rtol else atol):
            return
        agrees = g == e
        if not exact and not bool(agrees.all()):
            distance = abs(g - e)
            # An infinite distance is too far, even from infinity, whose share is infinite as well.
            agrees |= (distance <= atol + rtol * abs(e)) & (distance < math.inf)
        if bool(agrees.all()):
            return
        entries = math.prod(g.shape)
        if not exact:
            is_nan, bad = g != g, ~(abs(g) < math.inf)
            if bool((bad & (abs(e) < math.inf) | is_nan).any()):
                facts = self.unwritten() if bool(is_nan.any()) and not is_array(g) else ()
                which = f"{int(bad.sum())} of {entries} entries{self.which}"
                self.fail(f"{which} are NaN or infinite", facts=facts)
        wrong = ~agrees
        first = _place_of(int((1 * wrong.reshape(-1)).argmax()), g.shape)
        difference = float(abs(widened(got) - widened(expected)).max())
        difference = math.inf if math.isnan(difference) else difference
        terms = [f"{atol:.3g}"] * bool(atol) + [f"{rtol:.3g}·|expected|"] * bool(rtol)
        tolerance = "tolerance " + (" + ".join(terms) if terms and not exact else "0")
        expected_text, got_text = _apart(e[first].item(), g[first].item())
        which = f"{int(wrong.sum())} of {entries} entries"
        self.fail(
            f"wrong values{self.which} (shape and dtype are right)",
            expected=f"{expected_text} at {list(first)}",
            got=got_text,
            facts=[("differ", f"{which}, by up to {difference:.3g}; {tolerance}")],
        )


def _first_difference(got: object, expected: object) -> tuple[str, str] | None:
    """The first difference between two plain values as (reason, where), or None."""
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
            return inner[0], where + inner[1].removeprefix(" at ")
    return None


def _agree_at_once(g: Any, e: Any, atol: float) -> bool:
    """Whether two tensors of a shape and a dtype agree; False where that takes longer to tell."""
    import torch

    if torch.equal(g, e):
        return True
    # A difference that is NaN or infinite is never below an infinite one.
    return 0 < atol < math.inf and float((g - e).abs().max()) <= atol


def _place_of(number: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The indices of the entry with this number, counted row by row."""
    place: list[int] = []
    for size in reversed(shape):
        number, index = divmod(number, size)
        place.insert(0, index)
    return tuple(place)


def _apart(expected: complex, got: complex) -> tuple[str, str]:
    """Two numbers as text, with just enough digits for floats to differ."""
    if isinstance(expected, int) and isinstance(got, int):
        return str(expected), str(got)
    texts = [(f"{expected:.{digits}g}", f"{got:.{digits}g}") for digits in (6, 9, 17)]
    return next((pair for pair in texts if pair[0] != pair[1]), texts[0])


def short(x: object, limit: int = 200) -> str:
    """The repr of a value, cut; a large value costs no more than a small one."""
    text = "".join(itertools.islice(_pieces(x, limit), limit + 1))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _pieces(x: object, limit: int) -> Iterator[str]:
    """The repr of a value, piece by piece; each piece has at least one character."""
    if type(x) in BRACKETS and x:
        brackets = BRACKETS[type(x)]
        yield brackets[0]
        for place, part in enumerate(x):  # type: ignore[arg-type, var-annotated]
            yield from [", "] * bool(place)
            yield from _pieces(part, limit)
            if type(x) is dict:
                yield ": "
                yield from _pieces(x[part], limit)
        yield "," * (type(x) is tuple and len(x) == 1) + brackets[1]
    elif isinstance(x, (str, bytes, bytearray)):
        yield repr(x[: limit + 1])
    elif (is_tensor(x) or is_array(x)) and math.prod(x.shape) > MOST_PRINTED:
        yield describe(x)  # torch would print all entries of a tensor of small dimensions
    else:
        yield repr(x)
