"""Read a reply: it answers the request, and has the type that a probe promises."""

import types
import typing
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from grader.base.errors import Crashed, PolicyBroken, StudentFault
from grader.course.courses import Limits
from grader.sandbox import timeout_and_crash
from grader.sandbox.gpus import Gpu
from grader.wire.protocol import Other
from kit.safe_text import printable

Probe = Callable[..., Any]
Check = Callable[[Any], bool]
Place = list[str | int] | None  # file, line, function, text of the line


class _PolicyTold(typing.TypedDict):
    name: str
    where: Place


class _RaisedTold(typing.TypedDict):
    type: str
    kinds: list[str]
    text: str
    errno: str | None
    where: Place
    frames: int


@cache
def promised_by(probe: Probe) -> Check:
    """A check whether a reply has the type that the probe's annotation promises."""
    return check_of(typing.get_type_hints(probe).get("return", Any))


@cache
def check_of(kind: Any) -> Check:
    """A check whether a reply has the type that a probe promises; tests rely on that type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return lambda value: True
    if typing.is_typeddict(kind):
        fields = {name: check_of(of) for name, of in typing.get_type_hints(kind).items()}
        return lambda value: (
            type(value) is dict
            and value.keys() == fields.keys()
            and all(fits(value[name]) for name, fits in fields.items())
        )
    checks = [check_of(argument) for argument in arguments]
    if origin is list:
        return lambda value: type(value) is list and all(map(checks[0], value))
    if origin is tuple:
        return lambda value: (
            type(value) is tuple
            and len(value) == len(checks)
            and all(fits(part) for fits, part in zip(checks, value, strict=True))
        )
    if origin is dict:
        return lambda value: (
            type(value) is dict
            and all(map(checks[0], value))
            and all(map(checks[1], value.values()))
        )
    if origin in (typing.Union, types.UnionType):
        return lambda value: any(fits(value) for fits in checks)
    return lambda value: type(value) is kind


NO_ANSWER = "it sent something that does not answer the request"
# What a child sends instead of a value; see worker/test_process.py.
INSTEAD = {
    "unsendable": check_of(str),
    "policy": check_of(_PolicyTold),
    "raised": check_of(_RaisedTold),
}


def value_of(reply: Any, request: int, limits: Limits, gpu: Gpu | None) -> Any:
    """The value in the reply to a request.

    Args:
        reply: What the child sent.
        request: The number of the request.
        limits: The limits of the test, for the message.
        gpu: The GPU of the test, for the message; or None.

    Raises:
        StudentFault: The reply holds no value; the class of the fault says why.
    """
    if not _answers(reply, request):
        raise Crashed(NO_ANSWER)
    if "value" in reply:
        return reply["value"]
    # Student code may have sent this: a list of tensors, as a text, would take minutes to make.
    kind = next((kind for kind, fits in INSTEAD.items() if fits(reply.get(kind))), "")
    why = reply.get(kind)
    try:
        if kind == "unsendable":
            raise Crashed(f"what it returned cannot be sent: {why}")
        if kind == "policy":
            raise PolicyBroken(f"calls {why['name']}", timeout_and_crash.place(why["where"]))
        if kind == "raised":
            raise timeout_and_crash.exception(why, limits, gpu)
    except StudentFault:
        raise
    except Exception:  # such as a place that is too long
        pass
    raise Crashed(NO_ANSWER)


def finds_a_full_disk(reply: Any) -> bool:
    """Whether the student's code ended with the kernel's error for a full disk."""
    raised = reply.get("raised") if type(reply) is dict else None
    return type(raised) is dict and raised.get("errno") == "ENOSPC"


def is_used(reply: Any, request: int) -> bool:
    """Whether the child refuses a request, because an earlier test has left something behind."""
    return _answers(reply, request) and "used" in reply


def _answers(reply: Any, request: int) -> bool:
    return type(reply) is dict and type(reply.get("id")) is int and bool(reply["id"] == request)


def check(probe: Probe, reply: Any) -> None:
    """Check that a reply has the type that its probe promises.

    Raises:
        StudentFault: The solution returned something else than plain data.
        Crashed: The reply is not the probe's.
    """
    if promised_by(probe)(reply):
        return
    if name := foreign(reply):
        raise StudentFault(
            f"a value of type {printable(name, 100)} came back where plain data is expected"
        )
    raise Crashed("it sent a value that the probe never returns")


def foreign(value: Any) -> str | None:
    """The type name of the first value in a reply that is not plain data."""
    if isinstance(value, Other):
        return value.type_name
    return next((name for name in map(foreign, parts(value)) if name), None)


def parts(value: Any) -> Iterable[Any]:
    """The values directly inside a value of plain data; none in a tensor or an array."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()
