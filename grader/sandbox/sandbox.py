"""Have a zygote fork children for tests; replace its box if cleaning up fails.

A sandbox knows nothing about submissions. Each child gets its own sources, so one warm sandbox can
serve many submissions. This module imports neither torch nor pytest, so that the zygote's slow
imports run in parallel with the grader's own.
"""

import resource
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import kit
from grader.base.errors import GraderFault, SandboxUnavailable, UsageError
from grader.course import courses
from grader.course.courses import Course, Limits
from grader.sandbox import gpu_turns
from grader.sandbox.gpu_readings import GIVE_BACK_SECONDS, Usage
from grader.sandbox.gpus import Gpu
from grader.sandbox.levels import LEVELS, Isolation
from grader.sandbox.levels.level import Plan
from grader.sandbox.running_box import RunningBox
from grader.tools import find
from grader.tools.tool import Tool
from grader.wire.zygote_messages import Activity, Ending, SpawnLimits


class Sandbox:
    """One zygote, which starts in the background.

    The constructor returns at once, and the zygote is ready a few seconds later. Meanwhile, the
    caller can do its own slow imports.

    Args:
        isolation: The level of isolation; `levels.strongest` chooses one.
        gpu: The GPU that tests may use, during a `turn`.
        tests, scratch_bytes, packages, preload, tools: See `Plan`.

    Raises:
        SandboxUnavailable: The limits that this process inherited are too low, or bubblewrap is
            missing or too old.
    """

    def __init__(
        self,
        tests: Path,
        *,
        isolation: Isolation,
        scratch_bytes: int,
        packages: tuple[str, ...] = kit.USUAL_PACKAGES,
        preload: Sequence[str] = ("torch",),
        gpu: Gpu | None = None,
        tools: tuple[Tool, ...] = (),
    ) -> None:
        self.isolation = isolation
        self._plan = Plan(
            tests=tests,
            scratch_bytes=scratch_bytes,
            packages=packages,
            preload=list(preload),
            gpu=gpu,
            tools=tools,
        )
        self.gpu = gpu
        # Measures the GPU memory that the running test uses; None without a GPU.
        self.usage = Usage(gpu) if gpu else None
        self.gpu_works = False  # whether the GPU was found to work, and no test has run since
        self._is_closed = False
        # Held while the box ends or is replaced. A signal may close it in another thread.
        self._changing = threading.Lock()
        raise_limits(scratch_bytes)
        self._start()

    def _start(self) -> None:
        self._unanswered = False  # whether the zygote has not yet told how the last test ended
        self._tell: Callable[[Ending], None] | None = None
        self._box = RunningBox(LEVELS[self.isolation], self._plan)

    @classmethod
    def of(cls, course: Course, *, isolation: Isolation, gpu: Gpu | None = None) -> "Sandbox":
        """Create a sandbox for a course's submissions.

        Raises:
            UsageError: There is a GPU, but the course does not use torch.
            CourseFault: A package of the course is not installed.
        """
        if gpu and not course.uses_torch:
            raise UsageError(
                "--device cuda: tests use a GPU through torch, which is not among the packages of "
                f"{course.list_of_problems}: use --device cpu"
            )
        courses.check_packages(course)
        return cls(
            course.tests,
            isolation=isolation,
            scratch_bytes=course.limits.file_bytes,
            packages=course.packages,
            preload=course.imported_first,
            gpu=gpu,
            tools=find(course.tools),
        )

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the zygote and all other processes in its box; it is not restarted any more.

        Another thread may still be using the sandbox.
        """
        self._is_closed = True
        with self._changing:
            self._box.end()

    @contextmanager
    def turn(self, say: gpu_turns.Say) -> Iterator[None]:
        """Have the GPU alone, if there is one, for the tests of one submission.

        Args:
            say: Called several times a second, with a message, while other graders go first.

        Raises:
            GraderFault: There can be no queue for the GPU on this machine.
        """
        if self.gpu is None:
            yield
            return
        with gpu_turns.turn(self.gpu, say):
            self.gpu_works = False  # other graders have had it meanwhile
            yield
            with suppress(GraderFault):  # the results are complete
                self.wait_until_ready()  # by then, the GPU has released the last test's memory

    def spawn(self, limits: Limits, descriptors: list[int], *, with_compiler: bool = False) -> None:
        """Ask the zygote to fork a child, and pass these file descriptors to the child.

        Args:
            limits: What the child may use.
            descriptors: The child's ends of its channel and pipes.
            with_compiler: Import torch's compiler before the fork.

        Raises:
            GraderFault: The zygote has exited, and has been restarted.
        """
        self.wait_until_ready()
        self.gpu_works = False
        if self.usage:
            self.usage.start()
        request = {
            "op": "spawn",
            "compiler": with_compiler,
            "limits": asdict(_limits(limits, self._plan)),
        }
        try:
            self._box.send(request, descriptors)
        except OSError as e:
            self._restart()
            raise GraderFault(f"the sandbox exited between two tests: {e}") from None

    def end(self) -> Ending:
        """Have the zygote kill its child and remove everything that the child left behind.

        If the clean-up may be incomplete, restart the zygote.

        Raises:
            GraderFault: The zygote did not answer, or the GPU did not release the child's memory.
                In both cases, the zygote has been restarted.
        """
        self.end_soon()
        ending = self._ending()
        self._free_the_gpu()
        return ending

    def activity(self) -> Activity:
        """What the processes of the running test have done so far.

        Raises:
            GraderFault: The zygote did not answer, and has been restarted.
        """
        self._tell_zygote("look")
        return Activity(**self._answer())

    def print_traceback(self) -> None:
        """Have the child print a traceback of all its threads, if it still can."""
        self._tell_zygote("trace")

    def end_soon(self, tell: Callable[[Ending], None] | None = None) -> None:
        """Do the same as `end`, but without waiting; for a test that has all its answers.

        The wait is postponed until the next test.

        Args:
            tell: Called with the test's `Ending` before the next test begins.
        """
        if not self._box.facts:
            return  # the test ended with an earlier box
        self._unanswered = True
        self._tell = tell
        self._tell_zygote("end")

    def _tell_zygote(self, operation: str) -> None:
        # If the zygote has exited, reading its next answer reports that.
        with suppress(OSError):
            self._box.send({"op": operation})

    def _ending(self) -> Ending:
        ending = Ending(**self._answer())
        # Only now: if an exception comes while this waits, the next test waits again.
        self._unanswered = False
        tell, self._tell = self._tell, None
        if tell:
            tell(ending)
        if not ending.clean:
            self._restart()
        return ending

    def _answer(self) -> dict[str, Any]:
        """Return the zygote's answer to the last request."""
        try:
            return self._box.answer()
        except OSError as e:
            self._restart()
            raise GraderFault(f"the sandbox stopped answering: {e}") from None

    def _free_the_gpu(self) -> None:
        """Wait until the GPU has released the memory of a child that exited.

        If that takes too long, restart the box.
        """
        if self.usage is None or self.usage.given_back(GIVE_BACK_SECONDS):
            return
        self._restart()
        if not self.usage.given_back(GIVE_BACK_SECONDS):
            held = self.usage.taken_bytes() // 2**20
            raise GraderFault(f"the GPU still holds {held} MiB after the test's process has ended")

    def require_free_gpu(self) -> None:
        """Wait until the GPU has released what all tests so far have taken.

        Raises:
            GraderFault: It does not, or another program has taken memory meanwhile.
        """
        if self.usage and not self.usage.all_given_back(GIVE_BACK_SECONDS):
            held = self.usage.held_bytes() // 2**20
            raise GraderFault(
                f"the GPU holds {held} MiB more than before the first submission: "
                "end the processes that nvidia-smi lists, or reset the GPU"
            )

    @property
    def promises(self) -> list[str]:
        """The security properties that were verified when the box started.

        Empty before that, and without isolation.
        """
        return self._box.promises

    @property
    def facts(self) -> dict[str, Any]:
        """What the zygote reports about itself: pid, uid, versions.

        Its entry `environment` describes the GPU, if there is one.
        """
        self.wait_until_ready()
        facts = self._box.facts
        environment = {}
        if self.gpu:
            cuda = str(facts.get("cuda"))
            environment = {"gpu": self.gpu.name, "driver": self.gpu.driver, "cuda": cuda}
        return {**facts, "environment": environment}

    @property
    def host_pid(self) -> int:
        """The zygote's process id outside the box."""
        self.wait_until_ready()
        return self._box.host_pid

    def renew(self) -> None:
        """Replace the box by one in which nothing shows what earlier tests did.

        Raises:
            GraderFault: See `wait_until_ready` and `_restart`.
        """
        self.wait_until_ready()  # the last test is charged now
        self._restart()

    def _restart(self) -> None:
        """Stop this box and start another one."""
        with self._changing:
            if self._is_closed:
                raise GraderFault("the sandbox has been closed")
            self._box.kill()
            ended = self._box.end()
            self._start()
        if self.gpu and not ended:
            raise GraderFault(
                f"a killed process still hangs in the driver of the GPU ({self.gpu.name}): "
                "the GPU may have to be reset"
            )

    def wait_until_ready(self) -> None:
        """Wait until the zygote is ready, and its last test has ended.

        Raises:
            SandboxUnavailable: See `RunningBox.wait_until_ready`.
            GraderFault: The start takes too long, or the GPU did not release the memory of the
                previous test.
        """
        if self._unanswered:
            # The previous test has its answers; a dead zygote has been restarted.
            with suppress(GraderFault):
                self._ending()
            self._free_the_gpu()
        self._box.wait_until_ready()


def _limits(limits: Limits, plan: Plan) -> SpawnLimits:
    """The limits of a test that the zygote enforces."""
    return SpawnLimits(
        memory_bytes=limits.memory_bytes,
        cpu_seconds=limits.cpu_seconds,
        processes=limits.processes,
        file_bytes=limits.file_bytes,
        scratch_bytes=plan.scratch_bytes,
        device_memory_bytes=limits.device_memory_bytes if plan.gpu else None,
    )


# --- limits that the grader inherits --------------------------------------------------------------


KIB, GIB = 2**10, 2**30


def raise_limits(scratch_bytes: int) -> None:
    """Raise each inherited limit that is lower than the grader, its sandbox and usual tests need.

    Args:
        scratch_bytes: How much a test may write.

    Raises:
        SandboxUnavailable: A limit cannot be raised far enough; the message says which one, and
            what value it needs.
    """
    # A limit, the option of `ulimit` that shows it, what it restricts, the smallest sufficient
    # value, and the size and name of the unit in which people read it.
    for which, option, of, least, unit, name in (
        (resource.RLIMIT_NOFILE, "-n", "open files", 256, 1, ""),
        (resource.RLIMIT_NPROC, "-u", "processes", 64, 1, ""),
        # Each process has this time for itself, and the grader's own uses the most.
        (resource.RLIMIT_CPU, "-t", "processor time", 120, 1, " s"),
        (resource.RLIMIT_FSIZE, "-f", "the size of files", scratch_bytes, KIB, " KiB"),
        (resource.RLIMIT_AS, "-v", "address space", 4 * GIB, KIB, " KiB"),
        (resource.RLIMIT_DATA, "-d", "data in memory", 4 * GIB, KIB, " KiB"),
        (resource.RLIMIT_STACK, "-s", "stacks", 8 * KIB * KIB, KIB, " KiB"),
    ):
        soft, hard = resource.getrlimit(which)
        if _covers(soft, least):
            continue
        if not _covers(hard, least):
            raise SandboxUnavailable(
                f"the limit on {of} (ulimit {option}) is {hard // unit}{name} here, "
                f"and grading needs {-(-least // unit)}{name}: "
                "start the grader from a shell or job whose hard limit is at least that high"
            )
        # That of processes counts all of this user's, whatever they are.
        resource.setrlimit(which, (hard if which == resource.RLIMIT_NPROC else least, hard))


def _covers(limit: int, least: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= least
