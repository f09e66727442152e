"""The process that runs one test, or several in a row; no other process imports student code.

It runs probes on the code and answers with plain data.

It reads one frame with the submission's sources, then one frame per request, and answers each
request with one frame. Nothing that it sends is trusted: student code shares this process and can
change all of it.

A request names its test. Before the first request of the next test, the process checks whether the
last test left anything behind. If so, it answers "used" and runs no further test.
"""

import errno
import faulthandler
import fcntl
import importlib
import json
import os
import resource
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from importlib.machinery import FileFinder, SourceFileLoader
from types import ModuleType
from typing import Any, NoReturn

from grader.wire import protocol
from grader.worker import leftovers
from grader.worker.forbidden_at_runtime import Tripwire, Violation, Watched, student_place
from kit import forbidden_in_source
from kit.student import StudentPackage, from_cause, seed_generators_of_the_cpu

SIDE = 64
FILE_BYTES = 2**20


def limit_memory(limit_bytes: int) -> None:
    """Have torch itself refuse allocations above the limit.

    The limit is set only when CUDA starts, because setting it earlier would itself start CUDA.
    """
    import torch

    def when_cuda_starts() -> None:
        _, whole = torch.cuda.mem_get_info(0)
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / whole), 0)

    torch.cuda._lazy_call(when_cuda_starts)  # type: ignore[no-untyped-call]


def look_at_device(name: str) -> dict[str, Any] | str:
    """Use the device "cuda" or "cpu" once, as a test would.

    Return a description of the device or, if that fails, the exception as text.

    This runs in a child that has imported no student code.
    """
    try:
        return _look_at_cuda() if name == "cuda" else _look_at_cpu()
    except Exception as e:
        return f"{type(e).__name__}: {e}"[:MAX_TEXT]


def _look_at_cuda() -> dict[str, Any]:
    import torch

    torch.cuda.init()  # type: ignore[no-untyped-call]
    computes = _product_is_right(device="cuda")
    torch.cuda.synchronize()
    free, whole = torch.cuda.mem_get_info()
    return {
        "name": torch.cuda.get_device_name(),
        "capability": "{}.{}".format(*torch.cuda.get_device_capability()),
        "cuda": str(torch.version.cuda),
        "total_bytes": whole,
        "free_bytes": free,
        "computes": computes,
    }


def _look_at_cpu() -> dict[str, Any]:
    """Compute a product, write a file, start a thread and a process: a test may do all of these."""
    computes = _product_is_right("cpu") if "torch" in sys.modules else True
    with open(os.path.join(os.environ["TMPDIR"], "look"), "wb", buffering=0) as file:
        file.write(bytes(FILE_BYTES))
    thread = threading.Thread(target=float)
    thread.start()
    thread.join()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return {"computes": computes}


def _product_is_right(device: str) -> bool:
    import torch

    ones = torch.ones(SIDE, SIDE, device=device)
    return float((ones @ ones).sum()) == SIDE**3


MAX_TEXT = 2000
# File descriptors.
CHANNEL, TRACEBACKS = 3, 4
# One byte, which no core fits into: at 0, the kernel would still start a system's own handler of
# crashes, outside of the box.
MOST_OF_A_CORE = (1, 1) if resource.getrlimit(resource.RLIMIT_CORE)[1] else (0, 0)


def warm_up() -> None:
    """Do once in the zygote what every child does.

    The first calls import modules and resolve symbols of torch's libraries, and every child would
    do so anew.
    """
    leftovers.surroundings()
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
        _use_operators(torch)
    seed_generators_of_the_cpu(0)


def _use_operators(torch: Any) -> None:
    """Call common operators once. None of them starts a thread or autograd's engine."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        x = torch.rand(4, 4).to(dtype).requires_grad_()
        y = torch.cat([x.T @ x, (x + 1).relu() * 2]).mean(dim=0).sqrt().log_softmax(dim=0)
        torch.stack([y, y]).detach().clone()[1:, ::2].reshape(-1).double().isfinite().all().item()
    torch.arange(8).view(2, 4).sum(dim=1).tolist()


def main(handover: socket.socket, confine: Callable[..., None], is_own_user: bool) -> NoReturn:
    """Wait for a test, and serve it until the grader closes its channel or kills this process.

    Args:
        handover: The socket that delivers one message: the test's limits, its channel, and a pipe
            for tracebacks.
        confine: Gives up all rights that student code must not have.
        is_own_user: Whether no other processes count as this user's.
    """
    try:
        os.setsid()
        limits, descriptors = _wait_for_a_test(handover)
        handover.detach()  # `_redirect` closes or reuses its descriptor
        channel = _redirect(*descriptors)
        _limit(limits, is_own_user)
        confine()
        if "torch" in sys.modules and not limits["device_memory_bytes"]:
            _fill_uninitialized_memory()
        _show_where_it_ends()
        _serve(channel, on_gpu=bool(limits["device_memory_bytes"]))
    except EOFError:
        os._exit(0)
    except BaseException as e:
        said = str(e) if isinstance(e, LimitTooLow) else traceback.format_exc()
        os.write(TRACEBACKS, said.encode(errors="replace"))
    finally:
        os._exit(70)


def _wait_for_a_test(handover: socket.socket) -> tuple[dict[str, Any], list[int]]:
    message, descriptors, _, _ = socket.recv_fds(handover, 65536, 2)
    if not message:
        raise EOFError
    return json.loads(message), descriptors


def _redirect(*given: int) -> socket.socket:
    """Rearrange the descriptors of the channel and of the pipe for tracebacks.

    Stdin is empty, and what is printed goes nowhere. There are no other descriptors.
    """
    channel, tracebacks = (
        fcntl.fcntl(descriptor, fcntl.F_DUPFD, TRACEBACKS + 1) for descriptor in given
    )
    null = os.open(os.devnull, os.O_RDWR)
    for target, source in enumerate((null, null, null, channel, tracebacks)):
        os.dup2(source, target)
    os.closerange(TRACEBACKS + 1, 4096)
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    # A forgotten `breakpoint()` does nothing, because nobody is at the keyboard.
    sys.breakpointhook = lambda *_args, **_options: None
    return socket.socket(fileno=CHANNEL)


class LimitTooLow(Exception):
    """The grader was started under limits that are lower than those of a test."""


def _limit(limits: dict[str, Any], is_own_user: bool) -> None:
    """Set the limits per process; the zygote checks what all processes use together.

    With a GPU, two of these limits are not set, because CUDA reserves far more address space than
    it uses, and locks pages of its own. The zygote still checks the memory that is really used.
    """
    with open("/proc/self/statm") as f:
        address_space = int(f.read().split()[0]) * resource.getpagesize() + limits["memory_bytes"]
    cpu, processes = limits["cpu_seconds"], limits["processes"] + 1  # one more, for the zygote
    if limits["device_memory_bytes"]:
        limit_memory(limits["device_memory_bytes"])
    without_gpu = [
        (resource.RLIMIT_AS, "ulimit -v", address_space, address_space),
        (resource.RLIMIT_MEMLOCK, "", 0, 0),
    ]
    for which, name, soft, hard in [
        *([] if limits["device_memory_bytes"] else without_gpu),
        (resource.RLIMIT_CPU, "ulimit -t", cpu, cpu + 1),
        *([(resource.RLIMIT_NPROC, "ulimit -u", processes, processes)] if is_own_user else []),
        (resource.RLIMIT_FSIZE, "ulimit -f", limits["file_bytes"], limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, "ulimit -n", 256, 256),
        (resource.RLIMIT_CORE, "", *MOST_OF_A_CORE),
    ]:
        inherited = resource.getrlimit(which)[1]
        if inherited != resource.RLIM_INFINITY and inherited < hard:
            raise LimitTooLow(
                f"the grader was started with `{name}` too low: "
                f"{inherited}, and a test needs {hard}"
            )
        resource.setrlimit(which, (soft, hard))


def _show_where_it_ends() -> None:
    """Have Python print a traceback when this process crashes or runs out of time.

    The zygote sends SIGUSR1 when the wall time is used up; the kernel sends SIGXCPU when the CPU
    time is.
    """
    faulthandler.enable(TRACEBACKS)
    faulthandler.register(signal.SIGUSR1, TRACEBACKS)
    faulthandler.register(signal.SIGXCPU, TRACEBACKS, chain=True)


def _fill_uninitialized_memory() -> None:
    """Make torch.empty and similar functions return NaN (for integers, the largest value).

    Code that forgets to initialise memory then fails the same tests in every run. The mode "warn"
    makes sure that no operation is refused. This is not used with a GPU, because it would select
    slower kernels there.
    """
    # torch.utils.deterministic.fill_uninitialized_memory is on by default.
    # torch.use_deterministic_algorithms would do the same, but it imports torch._dynamo.
    import torch

    torch.set_deterministic_debug_mode("warn")


def _serve(channel: socket.socket, *, on_gpu: bool) -> NoReturn:
    setup = protocol.receive(channel)
    submission, has_begun = None, False

    def end_with(violation: Violation) -> NoReturn:
        """Answer at once, before the code that made the forbidden call can prevent it."""
        try:
            _send(channel, {"id": request["id"], "policy": violation})
        finally:
            os._exit(0)

    while True:
        request = protocol.receive(channel)
        if request["op"] == "run" and submission is None:
            submission = _UnpackedSubmission(setup, end_with, on_gpu=on_gpu)
        if not has_begun:
            # Whatever goes wrong after this message is the student's fault.
            protocol.send(channel, {"begins": True})
            has_begun = True
        answer: dict[str, Any]
        if request["op"] == "inspect":
            read = forbidden_in_source.read
            answer = {
                "value": {
                    path: read(setup["sources"][path], rules)
                    for path, rules in request["rules"].items()
                }
            }
        elif request["op"] == "look":
            answer = {"value": look_at_device(request["device"])}
        else:
            assert submission is not None
            answer = submission.answer(request)
        _send(channel, {"id": request["id"], **answer})


def _send(channel: socket.socket, reply: dict[str, Any]) -> None:
    try:
        frame = protocol.encode(reply, most_bytes=protocol.MAX_ANSWER_BYTES)
    except BaseException as e:  # encoding a student's value can raise anything
        why = (
            _text(e)
            if isinstance(e, protocol.ProtocolError)
            else f"{type(e).__name__[:100]}: {_text(e)}"
        )
        frame = protocol.encode({"id": reply["id"], "unsendable": why})
    protocol.write(channel, frame)


def _loader(imported: dict[ModuleType, list[object]]) -> type[SourceFileLoader]:
    """A loader of the student's modules; notes the state of each after its import."""

    class Loader(SourceFileLoader):
        def exec_module(self, module: ModuleType) -> None:
            super().exec_module(module)
            if not hasattr(module, "__path__"):  # later imports add attributes to a package
                imported[module] = leftovers.state(module)

    return Loader


class _UnpackedSubmission:
    """Writes the student's files to disk, installs the tripwire, and runs probes on the files."""

    def __init__(
        self, setup: dict[str, Any], on_violation: Callable[[Violation], NoReturn], *, on_gpu: bool
    ) -> None:
        self._scratch = os.environ["TMPDIR"]
        self._folder = f"{self._scratch}/submission"
        files = {f"{self._folder}/assignment/__init__.py": b""}
        files |= {f"{self._folder}/{path}": source for path, source in setup["sources"].items()}
        for folder in {os.path.dirname(path) for path in files}:
            os.makedirs(folder, exist_ok=True)
        for path, source in files.items():
            with open(path, "wb") as file:  # pathlib would take twice as long
                file.write(source)
        self._imported: dict[ModuleType, list[object]] = {}
        self._loader = _loader(self._imported)
        sys.path.insert(0, self._folder)
        sys.path_hooks.insert(0, self._finder)
        tripwire = Tripwire(setup["forbidden"], setup["by_hand"], self._folder, on_violation)
        student = StudentPackage()
        self._student = Watched(student, tripwire, setup["by_hand"])
        self._on_gpu = on_gpu
        self._test: int | None = None
        self._before = leftovers.surroundings()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one probe; return its value, or a description of the exception that it raised.

        If an earlier test left something behind, name that instead, and do not run the probe.
        """
        if request["test"] != self._test:
            used = self._test is not None and self._left_over()
            if used:
                return {"used": used}
            self._test = request["test"]
            os.chdir(self._scratch)
        seed_generators_of_the_cpu(request["seed"])
        if self._on_gpu:
            sys.modules["torch"].manual_seed(request["seed"])
        try:
            probe = getattr(importlib.import_module(request["module"]), request["probe"])
            return {"value": probe(self._student, **request["inputs"])}
        except BaseException as e:
            return {"raised": self._describe(e)}

    def _finder(self, path: str) -> FileFinder:
        """Find the student's modules."""
        if not path.startswith(self._folder):
            raise ImportError
        return FileFinder(path, (self._loader, [".py"]))

    def _left_over(self) -> list[str]:
        """What earlier tests left behind in this process that may affect the next test."""
        try:
            emptied = leftovers.empty(self._scratch, keep=self._folder)
            changed = leftovers.changed(self._before) + ([] if emptied else ["files"])
            return changed + leftovers.changed_modules(self._imported)
        except BaseException:  # student code may have changed anything
            return ["a process that cannot be checked"]

    def _describe(self, error: BaseException) -> dict[str, Any]:
        """Describe an exception for the grader, as text and numbers."""
        where, frames = student_place(error, self._folder)
        text = _text(error)
        if isinstance(error, SyntaxError) and (error.filename or "").startswith(self._folder):
            where = [
                str(error.filename).removeprefix(self._folder).lstrip("/"),
                error.lineno or 0,
                "",
                error.text or "",
            ]
            line = (error.text or "").encode("utf-8", "replace")
            if forbidden_in_source.unfinished_merge(line, 1):
                text = forbidden_in_source.UNFINISHED
        return {
            "type": type(error).__name__[:100],
            "kinds": [t.__name__ for t in type(error).__mro__ if t.__module__ == "builtins"],
            "text": text + _said_by_argparse(error) + from_cause(error)[:MAX_TEXT],
            "errno": errno.errorcode.get(getattr(error, "errno", None) or 0),
            "where": where,
            "frames": frames,
        }


def _said_by_argparse(error: BaseException) -> str:
    """Why argparse ended the program, which it prints instead of raising it."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    of_argparse = [f for f in frames if f.f_code.co_filename.endswith("/argparse.py")]
    told = [f.f_locals.get("message") for f in of_argparse if f.f_code.co_name == "error"]
    return f": {told[0][:MAX_TEXT]}" if told and isinstance(told[0], str) else ""


def _text(error: BaseException) -> str:
    try:
        return str(error)[:MAX_TEXT]
    except Exception as e:
        return f"(its text cannot be read: {type(e).__name__})"
