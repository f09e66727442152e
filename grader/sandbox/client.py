"""One test in a sandbox, seen from the grader: call the student's code, enforce the deadline, say how each call ended."""

import os
import re
import select
import signal
import socket
import time
import types
import typing
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from grader import protocol
from grader.course import Limits
from grader.errors import (
    Crashed,
    GraderFault,
    NotAttempted,
    OutOfMemory,
    PolicyBroken,
    StudentFault,
    TimedOut,
    raised,
)
from grader.sandbox.box import Ending, Sandbox
from grader.sandbox.usage import LOOK_EVERY_SECONDS
from grader.text import printable

Probe = Callable[..., Any]
MAX_DUMP = 64 * 1024  # characters at the end of what was printed in which a traceback is looked for


class Session:
    """One test's child process: made at the first call; gone, with all that it left, when the session is closed.

    Args:
        sandbox: Whose zygote forks it.
        sources: The student's files, path to content.
        limits: What it may use.
        seed: The global generators of random, numpy and torch are set to it before each call.
        forbidden: Dotted names that end the test when they are called.
        seconds: What is left for all tests of the problem; None for no such limit.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        sources: dict[str, bytes],
        limits: Limits,
        *,
        seed: int,
        forbidden: list[str],
        seconds: float | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._setup = {"sources": sources, "seed": seed, "forbidden": forbidden}
        self._limits = limits
        self._cut_short = seconds is not None and seconds < limits.wall_seconds
        self._seconds_left = seconds if seconds is not None and self._cut_short else limits.wall_seconds
        self._channel: socket.socket | None = None
        self._output_fd = -1
        self._output_open = False
        self._output = bytearray()
        self._requests = 0

    def run(self, probe: Probe, inputs: dict[str, Any]) -> Any:
        """What a probe returns for these inputs.

        Raises:
            StudentFault: How the call ended without a value.
            GraderFault: The sandbox failed.
        """
        reply = self._request({"op": "run", "module": probe.__module__, "probe": probe.__name__, "inputs": inputs})
        promised = typing.get_type_hints(probe).get("return", Any)
        if not _fits(reply, promised):
            if foreign := _foreign(reply):
                raise StudentFault(f"a value of type {printable(foreign, 100)} came back where plain data is expected")
            raise Crashed("it answered with something that the probe never gives")
        return reply

    def inspect(self, forbidden: dict[str, list[str]]) -> Any:
        """Syntax errors and forbidden uses of each source, found without running it. See `worker.policy.inspect`."""
        return self._request({"op": "inspect", "forbidden": forbidden})

    def look_at_device(self) -> Any:
        """Whether the GPU works, in a process that runs nothing of the student's. See `worker.device.look`."""
        return self._request({"op": "device"})

    @property
    def printed(self) -> str:
        """What the student's code has printed, as much as is kept."""
        return self._output.decode(errors="replace")

    def close(self) -> None:
        """Have the child ended, if there is one; nobody waits for it."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
            os.close(self._output_fd)
            self._sandbox.end_soon()

    def _request(self, request: dict[str, Any]) -> Any:
        self._sandbox.wait_until_ready()  # which is not the test's time
        started = time.monotonic()
        deadline = started + self._seconds_left
        self._requests += 1
        request = {**request, "id": self._requests, "seconds": self._seconds_left}
        try:
            frames = self._frames(request)
            reply = self._exchange(frames, deadline)
        except protocol.ProtocolError as e:
            self._end()
            raise Crashed(f"it answered with something that is no answer: {e}") from None
        except (StudentFault, GraderFault):
            raise
        except Exception as e:  # by its own type, a test that expects an error could take it for the student's
            raise GraderFault(f"asking the sandbox failed: {type(e).__name__}: {e}") from e
        finally:
            self._seconds_left -= time.monotonic() - started
        return self._value(reply)

    def _frames(self, request: dict[str, Any]) -> list[protocol.Buffer]:
        """What to send: a request that cannot be sent is our fault."""
        try:
            setup = [] if self._channel else protocol.encode(self._open())
            return setup + protocol.encode(request, views=True)
        except protocol.ProtocolError as e:
            raise GraderFault(f"a test asks for more than can be sent: {e}") from None

    def _open(self) -> dict[str, Any]:
        """Have the child forked; what it must be told first."""
        self._channel, theirs = socket.socketpair()
        self._output_fd, write_fd = os.pipe()
        self._output_open = True
        try:
            self._sandbox.spawn(self._limits, [theirs.fileno(), write_fd])
        finally:
            theirs.close()
            os.close(write_fd)
        self._channel.setblocking(False)
        os.set_blocking(self._output_fd, False)
        return self._setup

    def _exchange(self, frames: list[protocol.Buffer], deadline: float) -> Any:
        """Send the request and wait for one reply, reading what is printed and watching the GPU all the while."""
        assert self._channel is not None
        waiting = [memoryview(frame) for frame in frames]
        reader = protocol.FrameReader()
        usage = self._sandbox.usage
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._timed_out()
            if usage and usage.exceeds(self._limits.device_memory_bytes):
                raise self._took_too_much()
            left = min(left, LOOK_EVERY_SECONDS) if usage else left
            channel = self._channel.fileno()
            wanted = [channel, self._output_fd] if self._output_open else [channel]
            readable, writable, _ = select.select(wanted, [channel] if waiting else [], [], left)
            if self._output_fd in readable:
                self._read_output()
            try:
                if writable:
                    waiting = self._write(waiting)
                if channel in readable and reader.read_from(self._channel):
                    return reader.value()
            except BlockingIOError:
                continue
            except (EOFError, ConnectionError):
                raise self._death() from None

    def _write(self, waiting: list[memoryview]) -> list[memoryview]:
        assert self._channel is not None
        sent = self._channel.sendmsg(waiting[:64])
        while waiting and sent >= len(waiting[0]):
            sent -= len(waiting.pop(0))
        if waiting:
            waiting[0] = waiting[0][sent:]
        return waiting

    def _read_output(self) -> None:
        with suppress(BlockingIOError):
            data = os.read(self._output_fd, 65536)
            self._output_open = bool(data)
            self._output += data[: max(0, self._limits.output_bytes - len(self._output))]

    def _end(self) -> Ending:
        assert self._channel is not None
        self._channel.close()
        self._channel = None
        try:
            return self._sandbox.end()
        finally:
            while self._output_open and select.select([self._output_fd], [], [], 0)[0]:
                self._read_output()
            os.close(self._output_fd)

    def _took_too_much(self) -> StudentFault:
        """Its memory on the GPU was past the limit, also by the driver's count, which a test cannot change."""
        self._end()
        return OutOfMemory(f"it took more than {self._device_memory()}, the limit of a test", self._where_it_was())

    def _timed_out(self) -> StudentFault:
        busy = self._sandbox.gpu.busy() if self._sandbox.gpu else False
        self._end()
        why = f"no answer within {self._limits.wall_seconds:g} s, the limit of a test"
        if self._cut_short:
            why = "no answer before the time for all tests of its problem was used up"
        if busy or (busy is None and waited_for_the_gpu(self.printed)):
            why += ", with a kernel still running on the GPU"
        return TimedOut(why, self._where_it_was())

    def _death(self) -> StudentFault:
        """Why a child that closed its channel is no more."""
        ending = self._end()
        where = self._where_it_was()
        if ending.breach == "memory":
            return OutOfMemory(f"its processes together took more than {_size(self._limits.memory_bytes)}", where)
        if ending.breach == "files":
            return Crashed("it made more than 4096 files, the limit of a test", where)
        if ending.signal == signal.SIGXCPU or ending.cpu_seconds >= self._limits.cpu_seconds:
            return TimedOut(f"it used {self._limits.cpu_seconds} s of processor time, the limit of a test", where)
        if ending.signal is not None:
            name = signal.strsignal(ending.signal) or "an unknown signal"
            return Crashed(f"its process was ended by signal {ending.signal} ({name.lower()})", self._where_it_crashed())
        return Crashed(f"its process exited with code {ending.exit} before it answered")

    def _places(self, what: str) -> list[tuple[str, str, str]]:
        """File, line and function of the student's frames, innermost first, in the last traceback that Python printed."""
        _, found, dump = self.printed[-MAX_DUMP:].rpartition(what)
        frames = re.findall(r'File "[^"\n]*?/submission/(assignment/[^"\n]+\.py)", line (\d+) in (\S+)', dump)
        return frames if found else []

    def _where_it_crashed(self) -> str | None:
        """The line that Python was at when a signal ended it."""
        places = self._places("Fatal Python error")
        return "{}:{} in {}".format(*places[0]) if places else None

    def _where_it_was(self) -> str | None:
        """The function that was at work at half of its time. Its line, in a loop, would be another one in each run."""
        places = self._places("Timeout (")
        return "{0} in {2}".format(*places[-1]) if places else None

    def _value(self, reply: Any) -> Any:
        """The value of a reply; whatever is not one raises."""
        if type(reply) is not dict or type(reply.get("id")) is not int or reply["id"] != self._requests:
            raise Crashed("it answered with something that is no answer to what it was asked")
        if "value" in reply:
            return reply["value"]
        if "unsendable" in reply:
            raise Crashed(f"what it returned cannot be sent: {reply['unsendable']}")
        try:
            if "policy" in reply:
                raise PolicyBroken(f"calls {reply['policy']['name']}", _place(reply["policy"]["where"]))
            raise self._raised(reply["raised"])
        except StudentFault:
            raise
        except Exception:  # whatever reading it ran into: nothing in it need be what the worker would send
            raise Crashed("it answered with something that is no answer to what it was asked") from None

    def _raised(self, error: dict[str, Any]) -> StudentFault:
        kinds, text, where = list(error["kinds"]), str(error["text"]), error["where"]
        line = str(where[3]).strip() if where else ""
        if "NotImplementedError" in kinds and re.search(r"\braise\b", line):  # not torch's own
            return NotAttempted(text, _place(where))
        if self._sandbox.gpu and re.search(r"CUDA out of memory|CUDA error: out of memory|STATUS_ALLOC_FAILED", text):
            return OutOfMemory(f"it asked for more than {self._device_memory()}, the limit of a test", _place(where))
        if "MemoryError" in kinds or re.search(r"can't allocate memory|not enough memory", text):
            return OutOfMemory(f"it asked for more than {_size(self._limits.memory_bytes)}, the limit of a test", _place(where))
        if error["errno"] in ("EFBIG", "ENOSPC"):
            return Crashed(f"it wrote more than {_size(self._limits.file_bytes)} of files, the limit of a test", _place(where))
        if error["errno"] == "EAGAIN" or "can't start new thread" in text:
            return Crashed(f"it started more than {self._limits.processes} processes, the limit of a test", _place(where))
        return raised(kinds, str(error["type"]), text, _place(where))

    def _device_memory(self) -> str:
        """How much of the GPU a test may have."""
        assert self._sandbox.gpu is not None
        return f"{_size(self._limits.device_memory_bytes)} of the memory of the GPU ({self._sandbox.gpu.name})"


def waited_for_the_gpu(printed: str) -> bool:
    """Whether a thread of the last traceback that Python printed was inside torch.cuda."""
    _, found, dump = printed[-MAX_DUMP:].rpartition("Timeout (")
    return bool(found) and re.search(r'most recent call first\):\n +File "[^"\n]*/torch/cuda/', dump) is not None


def _fits(value: Any, kind: Any) -> bool:
    """Whether a reply is what a probe's annotation promises; a test reads it without asking again."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if typing.is_typeddict(kind):
        fields = typing.get_type_hints(kind)
        return type(value) is dict and value.keys() == fields.keys() and all(_fits(value[k], fields[k]) for k in fields)
    if origin is list:
        return type(value) is list and all(_fits(v, arguments[0]) for v in value)
    if origin is tuple:
        return type(value) is tuple and len(value) == len(arguments) and all(map(_fits, value, arguments))
    if origin is dict:
        return type(value) is dict and all(_fits(k, arguments[0]) and _fits(v, arguments[1]) for k, v in value.items())
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, argument) for argument in arguments)
    return type(value) is kind


def _foreign(value: Any) -> str | None:
    """The type of the first value in a reply that is no plain data, by its name."""
    if isinstance(value, protocol.Other):
        return value.type_name
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return next((name for name in map(_foreign, inner) if name), None)


def _place(where: list[Any] | None) -> str | None:
    if not where:
        return None
    file, line, function, _ = where
    return printable(f"{file}:{line}" + (f" in {function}" if function and function != "<module>" else ""), 200)


def _size(count: int) -> str:
    """`2 GiB` for 2**31."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:g} {unit}"
    return f"{count} bytes"
