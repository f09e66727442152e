"""One test's process: it alone imports the student's code, runs probes on it, and answers with plain data.

It reads a frame with the submission's sources and then a frame a request, and answers each with one frame. Nothing that it
says is believed: a student's code shares this process and can change all of it.
"""

import errno
import faulthandler
import fcntl
import importlib
import json
import os
import random
import resource
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch

from grader import protocol
from grader.worker import device, policy

MAX_TEXT = 2000
CHANNEL, TRACEBACKS = (
    3,
    4,
)  # descriptors; what a student's code prints cannot push a traceback out of its own pipe


def main(handover: socket.socket) -> NoReturn:
    """Wait to be given a test, and serve it until the grader closes its channel or this process is killed.

    Args:
        handover: Where one message comes from: the test's limits, its channel, and pipes for what it prints and for tracebacks.
    """
    try:
        os.setsid()
        limits, descriptors = _wait_for_a_test(handover)
        handover.detach()  # `_redirect` closes its descriptor, or gives its number to another
        channel = _redirect(*descriptors)
        _limit(limits)
        if not limits["device_memory_bytes"]:
            _fill_uninitialized_memory()
        faulthandler.enable(TRACEBACKS)
        _serve(channel)
    except EOFError:
        os._exit(0)
    except LimitTooLow as e:
        print(e, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(70)


def _wait_for_a_test(handover: socket.socket) -> tuple[dict[str, Any], list[int]]:
    message, descriptors, _, _ = socket.recv_fds(handover, 65536, 3)
    if not message:
        raise EOFError
    return json.loads(message), descriptors


def _redirect(*given: int) -> socket.socket:
    """Nothing to read, everything printed goes to its pipe, and the channel and Python's tracebacks are the only others.

    Args:
        given: The channel, the pipe for what is printed, the pipe for tracebacks.
    """
    channel, output, tracebacks = (
        fcntl.fcntl(descriptor, fcntl.F_DUPFD, TRACEBACKS + 1) for descriptor in given
    )
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in [
        (null, 0),
        (output, 1),
        (output, 2),
        (channel, CHANNEL),
        (tracebacks, TRACEBACKS),
    ]:
        os.dup2(source, target)
    os.closerange(TRACEBACKS + 1, 4096)
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    return socket.socket(fileno=CHANNEL)


class LimitTooLow(Exception):
    """Whoever started the grader has limited it to less than a test may use."""


def _limit(limits: dict[str, Any]) -> None:
    """Limits of each process; the zygote looks after the sum of them.

    With a GPU there are two fewer: CUDA reserves far more addresses than memory, and locks pages of its own. The sum of what is
    really used is still looked at.

    Raises:
        LimitTooLow: One is lower already, and cannot be raised.
    """
    with open("/proc/self/statm") as f:
        address_space = int(f.read().split()[0]) * resource.getpagesize() + limits["memory_bytes"]
    cpu = limits["cpu_seconds"]
    if limits["device_memory_bytes"]:
        device.limit_memory(limits["device_memory_bytes"])
    without_gpu = [
        (resource.RLIMIT_AS, "ulimit -v", address_space, address_space),
        (resource.RLIMIT_MEMLOCK, "", 0, 0),
    ]
    for which, name, soft, hard in [
        *([] if limits["device_memory_bytes"] else without_gpu),
        (resource.RLIMIT_CPU, "ulimit -t", cpu, cpu + 1),
        (
            resource.RLIMIT_NPROC,
            "ulimit -u",
            limits["processes"] + 1,
            limits["processes"] + 1,
        ),  # and the zygote
        (resource.RLIMIT_FSIZE, "ulimit -f", limits["file_bytes"], limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, "ulimit -n", 256, 256),
        (resource.RLIMIT_CORE, "", 0, 0),
    ]:
        inherited = resource.getrlimit(which)[1]
        if inherited != resource.RLIM_INFINITY and inherited < hard:
            raise LimitTooLow(
                f"`{name}` of whoever started the grader is too low: {inherited}, and a test needs {hard}"
            )
        resource.setrlimit(which, (soft, hard))


def _fill_uninitialized_memory() -> None:
    """Have torch.empty and its relatives give NaN (integers: their largest), in place of whatever lay in memory.

    Code that forgets to initialise then fails the same tests in every run. Only warnings are asked for: no operation may be
    refused. Not with a GPU, where this would choose slower kernels.
    """
    torch.use_deterministic_algorithms(
        True, warn_only=True
    )  # torch.utils.deterministic.fill_uninitialized_memory is on


def _serve(channel: socket.socket) -> NoReturn:
    setup = protocol.receive(channel)
    test, has_begun = None, False

    def end_with(violation: policy.Violation) -> NoReturn:
        """Answer before the code that called what is forbidden can do anything about it."""
        try:
            _send(channel, {"id": request["id"], "policy": violation})
        finally:
            os._exit(0)

    while True:
        request = protocol.receive(channel)
        if request["op"] == "run" and test is None:
            test = _Test(setup, end_with)
        if not has_begun:
            protocol.send(
                channel, {"begins": True}
            )  # what goes wrong from here on is the student's
            has_begun = True
        answer: dict[str, Any]
        if request["op"] == "inspect":
            read = importlib.import_module("tests.probes.delegation").read
            answer = {
                "value": {
                    path: read(setup["sources"][path], rules)
                    for path, rules in request["rules"].items()
                }
            }
        elif request["op"] == "look":
            answer = {"value": device.look(request["device"])}
        else:
            assert test is not None
            answer = test.answer(request)
        _send(channel, {"id": request["id"], **answer})


def _send(channel: socket.socket, reply: dict[str, Any]) -> None:
    try:
        frame = protocol.encode(reply)
    except BaseException as e:  # a student's value can raise anything when it is looked at
        why = (
            _text(e)
            if isinstance(e, protocol.ProtocolError)
            else f"{type(e).__name__[:100]}: {_text(e)}"
        )
        frame = protocol.encode({"id": reply["id"], "unsendable": why})
    for buffer in frame:
        channel.sendall(buffer)


class _Test:
    """The student's files on disk and importable, the tripwire set, and the probes."""

    def __init__(
        self, setup: dict[str, Any], on_violation: Callable[[policy.Violation], NoReturn]
    ) -> None:
        scratch = Path(os.environ["TMPDIR"])
        self._folder = str(scratch / "submission")
        self._seed = setup["seed"]
        for path, source in {"assignment/__init__.py": b"", **setup["sources"]}.items():
            target = Path(self._folder, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source)
        os.chdir(scratch)
        sys.path.insert(0, self._folder)
        tripwire = policy.Tripwire(setup["forbidden"], setup["by_hand"], self._folder, on_violation)
        student = importlib.import_module("tests.probes").Student()
        self._student = policy.Watched(student, tripwire, setup["by_hand"])

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one probe: its value, or what was raised."""
        with suppress(RuntimeError):  # it needs a thread
            faulthandler.dump_traceback_later(
                request["seconds"] / 2, file=TRACEBACKS
            )  # if it never ends: where it was
        random.seed(self._seed)
        np.random.seed(self._seed % 2**32)
        torch.manual_seed(self._seed)
        try:
            probe = getattr(importlib.import_module(request["module"]), request["probe"])
            answer = {"value": probe(self._student, **request["inputs"])}
        except BaseException as e:
            answer = {"raised": self._describe(e)}
        faulthandler.cancel_dump_traceback_later()
        return answer

    def _describe(self, error: BaseException) -> dict[str, Any]:
        """What the grader needs to know of an exception, as text and numbers."""
        where = policy.student_place(error, self._folder)
        if isinstance(error, SyntaxError) and (error.filename or "").startswith(self._folder):
            where = [
                str(error.filename).removeprefix(self._folder).lstrip("/"),
                error.lineno or 0,
                "",
                error.text or "",
            ]
        return {
            "type": type(error).__name__[:100],
            "kinds": [t.__name__ for t in type(error).__mro__ if t.__module__ == "builtins"],
            "text": _text(error),
            "errno": errno.errorcode.get(getattr(error, "errno", None) or 0),
            "where": where,
        }


def _text(error: BaseException) -> str:
    try:
        return str(error)[:MAX_TEXT]
    except Exception as e:
        return f"(its text cannot be read: {type(e).__name__})"
