"""One test's process: it alone imports the student's code, runs probes on it, and answers with plain data.

It reads a frame with the submission's sources and then a frame a request, and answers each with one frame. Nothing that it
says is believed: a student's code shares this process and can change all of it.
"""

import errno
import faulthandler
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


def main(handover: socket.socket) -> NoReturn:
    """Wait to be given a test, and serve it until the grader closes its channel or this process is killed.

    Args:
        handover: Where one message comes from: the test's limits, its channel, and the pipe for what it prints.
    """
    try:
        os.setsid()
        limits, (channel_fd, output_fd) = _wait_for_a_test(handover)
        channel = _redirect(channel_fd, output_fd)
        _limit(limits)
        faulthandler.enable(sys.stderr)
        _serve(channel)
    except EOFError:
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(70)


def _wait_for_a_test(handover: socket.socket) -> tuple[dict[str, Any], list[int]]:
    message, descriptors, _, _ = socket.recv_fds(handover, 65536, 2)
    if not message:
        raise EOFError
    return json.loads(message), descriptors


def _redirect(channel_fd: int, output_fd: int) -> socket.socket:
    """Nothing to read, everything printed goes to the pipe, and the channel is the only other descriptor."""
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in [(channel_fd, 1000), (null, 0), (output_fd, 1), (output_fd, 2), (1000, 3)]:
        os.dup2(source, target)
    os.closerange(4, 4096)
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    return socket.socket(fileno=3)


def _limit(limits: dict[str, Any]) -> None:
    """Limits of each process; the zygote looks after the sum of them.

    With a GPU there are two fewer: CUDA reserves far more addresses than memory, and locks pages of its own. The sum of what is
    really used is still looked at.
    """
    with open("/proc/self/statm") as f:
        address_space = int(f.read().split()[0]) * resource.getpagesize() + limits["memory_bytes"]
    cpu = limits["cpu_seconds"]
    if limits["device_memory_bytes"]:
        device.limit_memory(limits["device_memory_bytes"])
    without_gpu = [(resource.RLIMIT_AS, address_space, address_space), (resource.RLIMIT_MEMLOCK, 0, 0)]
    for which, soft, hard in [
        *([] if limits["device_memory_bytes"] else without_gpu),
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_NPROC, limits["processes"] + 1, limits["processes"] + 1),  # and the zygote
        (resource.RLIMIT_FSIZE, limits["file_bytes"], limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, 256, 256),
        (resource.RLIMIT_CORE, 0, 0),
    ]:
        resource.setrlimit(which, (soft, hard))


def _serve(channel: socket.socket) -> NoReturn:
    setup = protocol.receive(channel)
    test = None

    def end_with(violation: policy.Violation) -> NoReturn:
        """Answer before the code that called what is forbidden can do anything about it."""
        try:
            _send(channel, {"id": request["id"], "policy": violation})
        finally:
            os._exit(0)

    while True:
        request = protocol.receive(channel)
        answer: dict[str, Any]
        if request["op"] == "inspect":
            answer = {"value": policy.inspect(setup["sources"], request["forbidden"])}
        elif request["op"] == "device":
            answer = {"value": device.look()}
        else:
            test = test or _Test(setup, end_with)
            answer = test.answer(request)
        _send(channel, {"id": request["id"], **answer})


def _send(channel: socket.socket, reply: dict[str, Any]) -> None:
    try:
        protocol.send(channel, reply)
    except protocol.ProtocolError as e:
        protocol.send(channel, {"id": reply["id"], "unsendable": str(e)})


class _Test:
    """The student's files on disk and importable, the tripwire set, and the probes."""

    def __init__(self, setup: dict[str, Any], on_violation: Callable[[policy.Violation], NoReturn]) -> None:
        scratch = Path(os.environ["TMPDIR"])
        self._folder = str(scratch / "submission")
        self._seed = setup["seed"]
        for path, source in {"assignment/__init__.py": b"", **setup["sources"]}.items():
            target = Path(self._folder, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source)
        os.chdir(scratch)
        sys.path.insert(0, self._folder)
        policy.Tripwire(setup["forbidden"], self._folder, on_violation)
        self._student = importlib.import_module("tests.probes").Student()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one probe: its value, or what was raised."""
        with suppress(RuntimeError):  # it needs a thread
            faulthandler.dump_traceback_later(request["seconds"] / 2, file=sys.stderr)  # if it never ends: where it was
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
