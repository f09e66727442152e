"""Classes of inputs, and programs that are wrong for the inputs of one class only.

A stub promises an answer for every input that its annotations allow: empty tensors and large ones,
each dtype, a second call. `trials` makes a wrong solution for each such class from the reference.
It shows whether a hidden test sends such an input and looks at the answer.

Like `disguise`, this module is added to a submission, and imports nothing from the grader:

    from assignment import inputs
    inputs.wrong_for(globals(), "tensor_bytes", "x", "empty")
"""

import dataclasses
import functools
import inspect
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor
    from torch.nn import Module, Parameter
    from torch.optim import Optimizer
else:

    class Never:
        """A type that no value has."""

    # A process that has not imported a library has no values of its types.
    np, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    Tensor = torch.Tensor if torch else Never
    Module, Parameter = (torch.nn.Module, torch.nn.Parameter) if torch else (Never, Never)
    Optimizer = torch.optim.Optimizer if torch else Never

Test = Callable[[Any], bool]
HUGE, TINY = 1e4, 1e-5  # entries of tensors
BEYOND_FLOATS = 2**53  # the first int that has no neighbour among floats

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTS = ("uint8", "uint16", "int32", "uint32", "int64")
OTHERS = ("complex64", "bool", "uint8", "int64")


def _largest(x: Tensor) -> float:
    """The largest absolute value; 0 if there is none."""
    if not x.numel() or x.device.type == "meta" or not x.is_floating_point():
        return 0.0
    return float(x.detach().double().nan_to_num(0.0, 0.0, 0.0).abs().max())


def _is_infinite(x: Tensor) -> bool:
    return x.device.type != "meta" and bool(x.detach().isinf().any())


def _has_no_nonzero(x: Tensor) -> bool:
    return x.device.type != "meta" and x.numel() > 0 and not bool(x.detach().any())


TENSORS: dict[str, Test] = {
    "0-d": lambda x: x.dim() == 0,
    "1-d": lambda x: x.dim() == 1,
    "2-d": lambda x: x.dim() == 2,
    "3-d or more": lambda x: x.dim() >= 3,
    "empty": lambda x: x.numel() == 0,
    "a size of 1": lambda x: 1 in x.shape,
    "not contiguous": lambda x: not x.is_contiguous(),
    "with an offset": lambda x: x.storage_offset() > 0,
    "expanded": lambda x: any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape, strict=True)),
    "requires grad": lambda x: x.requires_grad,
    "zeros": _has_no_nonzero,
    "huge": lambda x: _largest(x) >= HUGE,
    "tiny": lambda x: 0 < _largest(x) <= TINY,
    "infinite": _is_infinite,
    **{
        name: functools.partial(lambda x, name: str(x.dtype) == f"torch.{name}", name=name)
        for name in (*FLOATS, *OTHERS)
    },
}
NUMBERS: dict[str, Test] = {
    "0": lambda n: n == 0,
    "1": lambda n: n == 1,
    "2**53 or more": lambda n: BEYOND_FLOATS <= n < math.inf,
    "tiny": lambda n: 0 < n <= TINY,
    "infinite": lambda n: n == math.inf,
    "an int": lambda n: type(n) is int,
}
SEQUENCES: dict[str, Test] = {
    "empty": lambda s: len(s) == 0,
    "of one": lambda s: len(s) == 1,
    "of many": lambda s: len(s) > 1,
    "a list": lambda s: type(s) is list,
    "a tuple": lambda s: type(s) is tuple,
    "a generator": lambda s: not hasattr(s, "__len__"),
    "with a 0": lambda s: any(type(n) is int and n == 0 for n in s),
    "with a 1": lambda s: any(type(n) is int and n == 1 for n in s),
    "that repeats one": lambda s: len({id(x) for x in s}) < len(s),
}
MODULES: dict[str, Test] = {
    "in eval mode": lambda m: not m.training,
    "with a frozen parameter": lambda m: any(not p.requires_grad for p in m.parameters()),
    "with a tied parameter": lambda m: (
        len(list(m.parameters())) < len(list(m.named_parameters(remove_duplicate=False)))
    ),
    "with a buffer": lambda m: any(True for _ in m.buffers()),
    "without parameters": lambda m: not any(True for _ in m.parameters()),
    "in float64": lambda m: any(p.dtype == torch.float64 for p in m.parameters()),
}
OPTIMIZERS: dict[str, Test] = {
    "with several groups": lambda o: len(o.param_groups) > 1,
    "without state": lambda o: not o.state,
    "with state": lambda o: bool(o.state),
}
CHOICES: dict[str, Test] = {
    "None": lambda v: v is None,
    "given": lambda v: v is not None,
    "True": lambda v: v is True,
    "False": lambda v: v is False,
    "a str": lambda v: type(v) is str,
    "a Path": lambda v: isinstance(v, os.PathLike),
    "a file": lambda v: hasattr(v, "seek"),
}
ARRAYS: dict[str, Test] = {
    **{name: functools.partial(lambda a, name: a.dtype.name == name, name=name) for name in INTS},
    "of foreign byte order": lambda a: not a.dtype.isnative,
    "a memmap": lambda a: isinstance(a, np.memmap),
    "not a memmap": lambda a: not isinstance(a, np.memmap),
    "read-only": lambda a: not a.flags.writeable,
    "not contiguous": lambda a: not a.flags.c_contiguous,
}
CALLS: dict[str, Callable[[], bool]] = {
    "in no-grad mode": lambda: not torch.is_grad_enabled(),
    "in grad mode": lambda: torch.is_grad_enabled(),
}
LEFT_OUT, AGAIN, SHARED = "left out", "again", "that share memory"


def _holds(which: str, value: Any) -> bool:
    """Whether a value, or one of its parts, is of a class."""
    if isinstance(value, Tensor):
        return which in TENSORS and TENSORS[which](value)
    if isinstance(value, Module):
        return which in MODULES and MODULES[which](value)
    if isinstance(value, Optimizer):
        return which in OPTIMIZERS and OPTIMIZERS[which](value)
    if value is None or isinstance(value, (bool, str, os.PathLike)) or hasattr(value, "seek"):
        return which in CHOICES and CHOICES[which](value)
    if isinstance(value, (int, float)):
        return (which in NUMBERS and NUMBERS[which](value)) or which == "given"
    if np is not None and isinstance(value, np.ndarray):
        return which in ARRAYS and ARRAYS[which](value)
    if isinstance(value, (list, tuple)):
        own = which in SEQUENCES and SEQUENCES[which](value)
        return own or any(_holds(which, _judged(x)) for x in value if not isinstance(x, str))
    return which == "given"


def _judged(part: Any) -> Any:
    """What is classified of one part of a sequence: the gradient of a parameter that has one."""
    grad = part.grad if isinstance(part, Parameter) else None
    return part if grad is None else grad


def _shares(values: list[Any]) -> bool:
    tensors = [
        x
        for value in values
        for x in (value if isinstance(value, (list, tuple)) else [value])
        if isinstance(x, Tensor) and x.device.type != "meta" and x.numel()
    ]
    return len({x.untyped_storage().data_ptr() for x in tensors}) < len(tensors)


# --- wrong answers --------------------------------------------------------------------------------


class _Nothing(Exception):
    """The program is wrong, but there is no answer to change."""


def _spoilt(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, Tensor):
        return _spoilt_tensor(value)
    if np is not None and isinstance(value, np.ndarray):
        return value + 1
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value + abs(value) + 1 if math.isfinite(value) else 0.0
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: _spoilt(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **fields)
    if isinstance(value, Mapping):
        return {key: _spoilt(inner) for key, inner in value.items()} or {"another": 1}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_spoilt, value)) if value else type(value)([1])
    return 0 if value is None else None


def _spoilt_tensor(value: Tensor) -> Tensor:
    if not value.numel() or value.device.type == "meta":
        return torch.ones(2, 3, dtype=torch.int16)
    if value.dtype == torch.bool:
        return ~value
    if not value.is_floating_point():
        return value + 1
    number = value.nan_to_num(0.0, 0.0, 0.0)
    return number + number.abs() + 1


def _gradients(values: Any) -> Iterator[Tensor]:
    """The gradients of parameters among the arguments, which the function may have changed."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _gradients(value)
        elif isinstance(value, Parameter) and value.grad is not None:
            yield value.grad


def _spoil_in_place(x: Tensor) -> None:
    with torch.no_grad():
        if x.numel() and x.device.type != "meta":
            x.copy_(_spoilt_tensor(x))


# --- wrong programs -------------------------------------------------------------------------------


def wrong_for(module: dict[str, Any], function: str, parameter: str, which: str) -> None:
    """Make a function, or a method of a class, wrong for inputs of one class.

    Args:
        module: The globals of the module.
        function: The name of a function, or of a class and its method.
        parameter: The parameter whose values are classified. "" classifies the call as a whole;
            for a step of an optimizer, "parameter" and "gradient" classify each parameter.
        which: The class.
    """
    owner, _, method = function.partition(".")
    if not method:
        module[function] = _wrong(module[function], parameter, which)
        return
    original = inspect.getattr_static(module[owner], method)
    if method == "step":
        changed = _wrong_step(original, parameter, which)
    elif method == "__init__":
        changed = _wrong_init(original, parameter, which)
    else:
        changed = _wrong(getattr(original, "__func__", original), parameter, which)
    setattr(
        module[owner],
        method,
        staticmethod(changed) if isinstance(original, staticmethod) else changed,
    )


def _wrong(original: Callable[..., Any], parameter: str, which: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        args, kwargs, applies = _classified(original, args, kwargs, parameter, which)
        if not applies:
            return original(*args, **kwargs)
        try:
            answer = original(*args, **kwargs)
        except Exception:
            return 0
        for gradient in _gradients(args):
            _spoil_in_place(gradient)
        if answer is None and inspect.signature(original).return_annotation in (None, "None"):
            raise _Nothing
        return _spoilt(answer)

    return wrapped


def _wrong_init(original: Callable[..., None], parameter: str, which: str) -> Callable[..., None]:
    @functools.wraps(original)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        args, kwargs, applies = _classified(original, (self, *args), kwargs, parameter, which)
        original(*args, **kwargs)
        if applies and isinstance(self, Module):
            for p in self.parameters():
                _spoil_in_place(p)
        elif applies:
            raise _Nothing

    return wrapped


def _wrong_step(original: Callable[..., Any], parameter: str, which: str) -> Callable[..., Any]:
    """A step that also changes the parameters of a class by mistake."""

    @functools.wraps(original)
    def wrapped(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        args, kwargs, applies = _classified(original, (self, *args), kwargs, parameter, which)
        answer = original(*args, **kwargs)
        for group in self.param_groups:
            for p in group["params"]:
                value = {"parameter": p, "gradient": p.grad}.get(parameter)
                if p.grad is not None and (applies or (value is not None and _holds(which, value))):
                    _spoil_in_place(p)
        return answer

    return wrapped


def _classified(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    parameter: str,
    which: str,
) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """The arguments, generators still unused, and whether they are of a class."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return args, kwargs, False
    given = bound.arguments
    if not parameter:
        return args, kwargs, _is_call(which, list(given.values()))
    name, _, field = parameter.partition(".")
    if name not in given:
        return args, kwargs, which == LEFT_OUT
    if isinstance(given[name], Iterator):
        kept = list(given[name])
        given[name] = iter(kept)
        return bound.args, bound.kwargs, which == "a generator" or _holds(which, kept)
    value = getattr(given[name], field) if field else given[name]
    return bound.args, bound.kwargs, _holds(which, value)


def _is_call(which: str, values: list[Any]) -> bool:
    if which == SHARED:
        return _shares(values)
    if which != AGAIN:
        return CALLS[which]()
    calls = vars(values[0]).setdefault("_calls_of_inputs", [0])
    calls[0] += 1
    return bool(calls[0] > 1)
