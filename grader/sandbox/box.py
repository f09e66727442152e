"""One zygote in its box: started at once, asked to fork, told to end a test, restarted where it is not clean.

A sandbox knows nothing of submissions: each test brings its sources, so that one warm sandbox can serve many. This module
imports neither torch nor pytest, so that the zygote's slow imports and the grader's own run side by side.
"""

import io
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal

from grader.course import Limits
from grader.errors import GraderFault, SandboxUnavailable
from grader.sandbox import bubblewrap, inherited, seccomp
from grader.sandbox.gpu import Gpu
from grader.sandbox.usage import Usage
from grader.text import printable

Isolation = Literal["bubblewrap", "none"]

START_SECONDS = 120.0
END_SECONDS = 15.0
GIVE_BACK_SECONDS = 5.0
# What keeps an ordinary user from a user namespace: a setting, the value that forbids it, and the line that mends it.
FORBIDDING = [
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    ("kernel/unprivileged_userns_clone", "0", "sudo sysctl kernel.unprivileged_userns_clone=1"),
    ("user/max_user_namespaces", "0", "sudo sysctl user.max_user_namespaces=10000"),
]


class Sandbox:
    """One zygote: started at once, ready some seconds later, so that the caller can do its own slow imports meanwhile.

    Args:
        tests: The course's tests folder; the worker sees its probes.
        isolation: `bubblewrap`, or `none` to debug on a machine without it.
        scratch_bytes: What a test may write to /tmp, all files together.
        gpu: What tests may use; the caller has locked it.

    Attributes:
        usage: What the test that runs takes of the GPU; None without one.

    Raises:
        SandboxUnavailable: Limits that this process inherited are too low, or bubblewrap is missing or too old.
    """

    _control: socket.socket
    _process: "subprocess.Popen[bytes]"
    _pidfd: int | None
    _tell: Callable[["Ending"], None] | None

    def __init__(
        self, tests: Path, *, isolation: Isolation, scratch_bytes: int, gpu: Gpu | None = None
    ) -> None:
        self._tests = tests
        self.isolation = isolation
        self._scratch_bytes = scratch_bytes
        self.gpu = gpu
        self.usage = Usage(gpu) if gpu else None
        inherited.raise_limits(scratch_bytes)
        self._start()

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the zygote and everything in its box."""
        self._end_box()

    def _end_box(self) -> bool:
        """The same; False where not everything has ended in time."""
        self._control.close()  # its end of the socket tells it to kill all that is left and go
        if self._process.returncode is None:
            self._wait_for_bubblewrap()
        ended = True
        if self._pidfd is not None:
            ended = _readable(self._pidfd, END_SECONDS)  # until its last memory is given back
            os.close(self._pidfd)
            self._pidfd = None
        self._forget_files()
        return ended

    def _wait_for_bubblewrap(self) -> None:
        """Until it has ended, with the child that it may have left before that child watched it."""
        process = os.pidfd_open(self._process.pid)
        if not _readable(process, END_SECONDS):
            self._kill()
        os.close(process)
        with suppress(
            ProcessLookupError
        ):  # not reaped yet, so its number still belongs to its group alone
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def spawn(self, limits: Limits, descriptors: list[int]) -> None:
        """Have the zygote fork a child that holds these descriptors.

        Raises:
            GraderFault: The zygote is gone.
        """
        self.wait_until_ready()
        if self.usage:
            self.usage.start()
        self._killed_before = out_of_memory_kills()
        request = {
            "op": "spawn",
            "limits": {
                "memory_bytes": limits.memory_bytes,
                "cpu_seconds": limits.cpu_seconds,
                "processes": limits.processes,
                "file_bytes": limits.file_bytes,
                "scratch_bytes": self._scratch_bytes,
                "device_memory_bytes": limits.device_memory_bytes if self.gpu else None,
            },
        }
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
        except OSError as e:
            raise GraderFault(f"the sandbox ended between two tests: {e}") from None

    def end(self) -> "Ending":
        """Have the zygote end its child and remove what it left; start another zygote where that is not certain.

        Raises:
            GraderFault: The zygote did not answer, or the GPU does not let go of the child. Another one has been started.
        """
        self.end_soon()
        ending = self._ending()
        self._free_the_gpu()
        return ending

    def memory_ran_out(self) -> bool:
        """Whether the kernel has killed a process of this machine for want of memory, since the last `spawn`."""
        return out_of_memory_kills() > self._killed_before

    def end_soon(self, tell: Callable[["Ending"], None] | None = None) -> None:
        """The same, for a test whose answers are all here: nobody waits for it but the next test.

        Args:
            tell: Is told how the test ended, before the next one begins.
        """
        self._unanswered = True
        self._tell = tell
        with suppress(OSError):  # a zygote that is gone shows when its answer is read
            self._control.settimeout(END_SECONDS)
            self._control.send(b'{"op": "end"}')

    def _ending(self) -> "Ending":
        self._unanswered = False
        tell, self._tell = self._tell, None
        try:
            answer = self._control.recv(65536)
            if not answer:
                raise OSError("it closed its socket")
        except OSError as e:
            self._restart()
            raise GraderFault(f"the sandbox stopped answering: {e}") from None
        ending = Ending(**json.loads(answer))
        if tell:
            tell(ending)
        if not ending.clean:
            self._restart()
        return ending

    def _free_the_gpu(self) -> None:
        """Wait until a GPU has back what a child took that has ended; a new box is started where it has not.

        Raises:
            GraderFault: That did not help either.
        """
        if self.usage is None or self.usage.given_back(GIVE_BACK_SECONDS):
            return
        self._restart()
        if not self.usage.given_back(GIVE_BACK_SECONDS):
            held = self.usage.taken_bytes() // 2**20
            raise GraderFault(f"the GPU still holds {held} MiB after the test's process has ended")

    @property
    def facts(self) -> dict[str, Any]:
        """What the zygote says of itself (pid, uid, versions), and `environment`: what there is to know of the GPU, if any."""
        self.wait_until_ready()
        of_gpu = (
            {"gpu": self.gpu.name, "driver": self.gpu.driver, "cuda": str(self._facts["cuda"])}
            if self.gpu
            else {}
        )
        return {**self._facts, "environment": of_gpu}

    @property
    def host_pid(self) -> int:
        """The zygote's process id outside the box."""
        self.wait_until_ready()
        return self._host_pid

    def _restart(self) -> None:
        """End this box and start another one.

        Raises:
            GraderFault: A process of the old one is held by the GPU, which no signal can change.
        """
        self._kill()
        ended = self._end_box()
        self._start()
        if self.gpu and not ended:
            raise GraderFault(
                f"the GPU ({self.gpu.name}) does not let go of a killed process: it may have to be reset"
            )

    def _kill(self) -> None:
        """End the box without asking it. bubblewrap's death alone does not, once the zygote is another user."""
        if self._pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        self._process.kill()

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="grader-")
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        self._info: IO[str] = io.StringIO()
        self._facts: dict[str, Any] = {}
        self._unanswered = False
        self._tell = None
        self._killed_before = 0
        self._host_pid = 0
        self._pidfd = None
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = self._bare(theirs) if self.isolation == "none" else self._boxed(theirs)
        except BaseException:
            self._control.close()
            self._forget_files()
            raise
        finally:
            theirs.close()

    def _forget_files(self) -> None:
        self._info.close()
        self._errors.close()
        self._folder.cleanup()

    def _bare(self, theirs: socket.socket) -> "subprocess.Popen[bytes]":
        """The worker as an ordinary process."""
        root = str(Path(__file__).parent.parent.parent)
        boot = str(Path(__file__).parent.parent / "worker" / "boot.py")
        course = str(self._tests.parent)
        command = [sys.executable, "-s", "-P", boot, str(theirs.fileno()), "0", root, course]
        environment = {"TMPDIR": self._folder.name, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        if self.gpu:
            environment |= self.gpu.environment(alone=False)
            environment |= {
                "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")
            }  # where the driver may be
        return self._popen(command, environment, [theirs.fileno()])

    def _boxed(self, theirs: socket.socket) -> "subprocess.Popen[bytes]":
        """The worker in its box."""
        read_end, info = os.pipe()
        self._info = os.fdopen(read_end)
        try:
            with tempfile.TemporaryFile() as rules:
                rules.write(seccomp.program(cuda=self.gpu is not None))
                rules.seek(0)
                command = bubblewrap.command(
                    control_fd=theirs.fileno(),
                    seccomp_fd=rules.fileno(),
                    info_fd=info,
                    user=bubblewrap.unused_user(),
                    tests=self._tests,
                    scratch_bytes=self._scratch_bytes,
                    gpu=self.gpu,
                )
                # bubblewrap's own environment can be read in the box: it gets none
                return self._popen(command, {}, [theirs.fileno(), info, rules.fileno()])
        finally:
            os.close(info)

    def _popen(
        self, command: list[str], environment: dict[str, str], inherit: list[int]
    ) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            pass_fds=inherit,
            cwd="/",
            process_group=0,  # a terminal's signals are for the grader, which ends the box itself
        )

    def wait_until_ready(self) -> None:
        """Wait for the zygote to have imported everything, and check that its box is as tight as it was asked to be.

        Raises:
            SandboxUnavailable: It cannot be started here, or is not tight; the text says what mends it.
            GraderFault: It takes too long, or the GPU does not let go of the test before.
        """
        if self._unanswered:
            with suppress(
                GraderFault
            ):  # it answered all that it was asked; another one is on its way
                self._ending()
            self._free_the_gpu()
        if self._facts:
            return
        self._control.settimeout(START_SECONDS)
        try:
            hello = self._control.recv(65536)
        except TimeoutError:
            raise GraderFault(f"the sandbox was not ready after {START_SECONDS:.0f} s") from None
        if not hello:
            self._process.wait(END_SECONDS)
            self._errors.seek(0)
            said = printable(
                self._errors.read().decode(errors="replace").strip() or "nothing", 2000
            )
            advice = (
                f"\n{_advice()}" if said.startswith("bwrap:") else ""
            )  # otherwise there was a box, and Python failed in it
            raise SandboxUnavailable(f"the sandbox cannot be started: {said}{advice}")
        facts = json.loads(hello)
        if self.isolation == "bubblewrap":
            self._check(facts)
            self._host_pid = json.loads(self._info.read())["child-pid"]
            with suppress(OSError):  # where memory runs out, the kernel takes the box first
                Path(f"/proc/{self._host_pid}/oom_score_adj").write_text("900")
        else:
            self._host_pid = facts["pid"]
        self._pidfd = os.pidfd_open(self._host_pid)
        self._facts = facts

    def _check(self, facts: dict[str, Any]) -> None:
        """Refuse a box that is not as tight as it was asked to be."""
        must_hold = {
            "it is process 1 of its namespace": facts["pid"] == 1,
            "it is not root": facts["uid"] != 0,
            "it has no capability": facts["capabilities"] == 0,
            "it can gain no privilege": facts["no_new_privileges"],
            "its system calls are filtered": facts["seccomp"] == 2,
            "it can make no user namespace of its own": not facts["nests"],
        }
        if broken := [what for what, holds in must_hold.items() if not holds]:
            raise SandboxUnavailable(
                f"the sandbox started, but this does not hold: {'; '.join(broken)}"
            )


@dataclass(frozen=True)
class Ending:
    """How a child ended, by the zygote's word.

    Attributes:
        clean: Nothing of it is left.
        signal: What ended it, or None.
        exit: What it exited with, or None.
        breach: Which limit for all processes of a test together the zygote ended it for.
        cpu_seconds: What it used of the processor.
        cpu_seconds_of_all: What it and all that it started used.
        memory_bytes: At most as much memory as all of these took together at one time.
    """

    clean: bool
    signal: int | None
    exit: int | None
    breach: Literal["memory", "files", "scratch"] | None
    cpu_seconds: float
    cpu_seconds_of_all: float
    memory_bytes: int


def out_of_memory_kills() -> int:
    """How many processes the kernel has killed for want of memory, in any container; 0 where it does not say."""
    with suppress(OSError, ValueError, StopIteration), open("/proc/vmstat") as f:
        return int(next(line for line in f if line.startswith("oom_kill ")).split()[1])
    return 0


def _readable(descriptor: int, seconds: float) -> bool:
    """Whether there is something to read within these seconds; for descriptors of any number, as select is not."""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def _advice() -> str:
    """What mends a box that does not start, as far as this machine's settings tell."""
    for setting, value, line in FORBIDDING:
        with suppress(OSError):
            if Path("/proc/sys", setting).read_text().strip() == value:
                return f"this machine forbids user namespaces to ordinary users; either run the grader as root, or: {line}"
    return "run the grader as root, or where user namespaces are allowed (in a container: with --privileged)"
