"""Grade on a Ray cluster: one actor per processor of each node, each with a warm sandbox.

Ray starts processes on other machines and reports which of them have died. The driver decides
everything else: which node may grade, which submission goes to which node, and what to retry.

The machines exchange only bytes: a submission as MessagePack, its result as JSON. Ray pickles the
objects that its processes exchange, so nothing that comes from a student may be any other type.
"""

import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import ExitStack, chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from grader.base.errors import GraderFault, SandboxUnavailable, UsageError
from grader.classroom import setups
from grader.classroom.executor import (
    TICK_SECONDS,
    BatchEvent,
    Cluster,
    Ended,
    Noted,
    Started,
    Take,
    fault_of,
    graded,
)
from grader.classroom.setups import Setup
from grader.course import courses
from grader.course.courses import GRADER_BYTES, Course
from grader.sandbox import gpus
from grader.sandbox.levels import Isolation
from grader.sandbox.sandbox import Sandbox
from grader.submission.submissions import Submission
from kit.safe_text import one_line

MIB = 2**20
LOOK_SECONDS = 2.0  # how often the list of nodes is read
WITHOUT_NODES_SECONDS = 60.0  # how long a batch waits for a node that can grade
DEATHS = 3  # a node is no longer used after this many of its graders died without a result between
CONNECT_SECONDS = 10.0


class Reply(msgspec.Struct):
    result: msgspec.Raw = msgspec.Raw(b"null")  # the result as JSON; null if there is none
    fault: str = ""  # why there is no result
    refused: str = ""  # why this node cannot grade any submission


class Grader:
    """Grades on a node: an actor class, whose instances Ray runs in separate processes.

    The course's folder is the same on each machine; None for the course that comes with the grader.
    The setup is the driver's, as JSON.
    """

    def __init__(self, folder: str | None, setup: bytes) -> None:
        self._folder = Path(folder) if folder else None
        self._setup = msgspec.json.decode(setup, type=Setup)
        self._held = ExitStack()

    def get_ready(self) -> bytes:
        """Compare this node with the driver, and start the sandbox; return a `Reply`."""
        try:
            self._course = courses.load(self._folder)
            if different := self._differences():
                return msgspec.json.encode(Reply(refused="; ".join(different)))
            gpu = None
            if self._setup.device == "cuda":
                gpu = self._held.enter_context(gpus.opened())
            box = Sandbox.of(self._course, isolation=self._setup.isolation, gpu=gpu)
            self._sandbox = self._held.enter_context(box)
            from grader.grading.grade import import_libraries  # and torch, as the sandbox does

            import_libraries(self._course)
            self._sandbox.wait_until_ready()
        except (GraderFault, UsageError) as e:
            return msgspec.json.encode(Reply(refused=str(e)))
        return msgspec.json.encode(Reply())

    def _differences(self) -> list[str]:
        ours = self._setup
        known = {problem.id: problem for problem in self._course.problems}
        problems = [known[name] for name in ours.problems if name in known]
        theirs = setups.of_today(
            self._course, problems, device=ours.device, isolation=ours.isolation, seed=ours.seed
        )
        return setups.differences(ours, theirs, then="there")

    def grade(self, submission: bytes) -> bytes:
        """Grade a submission given as MessagePack; return a `Reply`."""
        try:
            what = msgspec.msgpack.decode(submission, type=Submission)
            result = graded(what, self._course, self._sandbox, self._setup)
            reply = Reply(result=msgspec.Raw(result))
        except SandboxUnavailable:
            # This node could grade before: the driver gets another grader, as if this one had died.
            raise
        except Exception as e:  # one submission never stops the others
            reply = Reply(fault=fault_of(e))
        return msgspec.json.encode(reply)


@dataclass
class _Node:
    name: str  # the name shown to people
    graders: int  # the number of graders that its resources allow
    refused: str = ""  # why it is not used; empty if it is used
    gone: bool = False  # whether it has died or left the cluster
    deaths: int = 0  # how many of its graders have died since the last result

    @property
    def used(self) -> bool:
        """Whether it receives submissions."""
        return not self.refused and not self.gone


@dataclass(eq=False)
class _Actor:
    """A grader on a node, as the driver knows it."""

    node: str  # the id of its node
    handle: Any  # ray's handle of the actor
    call: Any  # ray's reference to the running call; None if the grader is idle
    # The submission that it grades; None while it starts or is idle.
    submission: Submission | None = None


class RayExecutor:
    """Grades on the nodes of a Ray cluster; nodes may join and die during a batch.

    The course's folder must exist on each node; it is None for the course that comes with the
    grader. A node with another setup is not used. Without an address, the cluster is the one that
    this machine belongs to; if there is none, one is started.
    """

    def __init__(
        self,
        course: Course,
        folder: Path | None,
        setup: Setup,
        *,
        address: str | None,
        jobs: int | None,
    ) -> None:
        self._cluster = f"the Ray cluster {address}" if address else "a Ray cluster"
        self._folder = str(folder.resolve()) if folder else None
        self._setup, self._address, self._jobs = setup, address, jobs
        of_a_test = max(course.limits_of(course.problem(p)).memory_bytes for p in setup.problems)
        self._memory_bytes = of_a_test + GRADER_BYTES
        self._nodes: dict[str, _Node] = {}
        self._actors: list[_Actor] = []

    def run(self, take: Take) -> Generator[BatchEvent, None, None]:
        """Grade submissions until none is left; see `Executor`."""
        yield Noted(f"connecting to {self._cluster}" if self._address else "starting Ray")
        self._ray = _connected(self._address, self._cluster)
        self._looked = 0.0
        self._usable = time.monotonic()
        waiting: Submission | None = None
        try:
            while True:
                yield from self._look_at_nodes()
                waiting = waiting or take()
                for actor in self._actors:
                    if waiting and actor.call is None and self._nodes[actor.node].used:
                        yield self._start(actor, waiting)
                        waiting = take()
                if not waiting and not any(actor.submission for actor in self._actors):
                    break
                self._require_a_node()
                calls = {actor.call: actor for actor in self._actors if actor.call}
                for call in self._wait(list(calls)):
                    if calls[call] in self._actors:
                        yield from self._finish(calls[call])
                yield None
        finally:
            for actor in self._actors:
                self._ray.kill(actor.handle)
            self._ray.shutdown()

    def _wait(self, calls: list[Any]) -> list[Any]:
        """A call that has finished, if one does within TICK_SECONDS."""
        if not calls:
            time.sleep(TICK_SECONDS)
            return []
        done, _ = self._ray.wait(calls, timeout=TICK_SECONDS, fetch_local=False)
        return list(done)

    def _start(self, actor: _Actor, submission: Submission) -> Started:
        actor.call = actor.handle.grade.remote(msgspec.msgpack.encode(submission))
        actor.submission = submission
        return Started(submission, self._nodes[actor.node].name)

    def _finish(self, actor: _Actor) -> Iterator[BatchEvent]:
        call, submission = actor.call, actor.submission
        actor.call = actor.submission = None
        node = self._nodes[actor.node]
        try:
            reply = msgspec.json.decode(self._ray.get(call), type=Reply)
        except self._ray.exceptions.RayError as e:
            self._forget(actor)
            node.deaths += 1
            if submission:
                fault = f"the grading process on {node.name} was killed"
                yield Ended(submission, fault=fault, lost=True)
            if node.deaths >= DEATHS:
                yield from self._refuse(actor.node, f"its graders die: {_reason(e)}")
            return
        if reply.refused:
            self._forget(actor)
            yield from self._refuse(actor.node, reply.refused)
        elif submission:
            node.deaths = 0
            yield Ended(submission, bytes(reply.result), reply.fault)

    def _look_at_nodes(self) -> Iterator[Noted]:
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        alive = {node["NodeID"]: node for node in self._ray.nodes() if node["Alive"]}
        for key in self._nodes.keys() - alive.keys():
            if not self._nodes[key].gone:
                self._nodes[key].gone = True
                self._forget_idle(key)
                yield Noted(
                    f"{self._nodes[key].name} is gone; its submissions are graded elsewhere"
                )
        for key in alive.keys() - self._nodes.keys():
            node = self._nodes[key] = self._described(alive[key])
            if node.refused:
                yield Noted(f"{node.name} is not used: {node.refused}")
        present = Counter(actor.node for actor in self._actors)
        for key in alive:
            node = self._nodes[key]
            for _ in range(node.graders - present[key] if node.used else 0):
                if self._jobs is None or len(self._actors) < self._jobs:
                    self._actors.append(self._actor_on(key))

    def _described(self, node: dict[str, Any]) -> _Node:
        """A node from Ray's description, with the number of graders that its resources allow."""
        has = node["Resources"]
        named = node.get("NodeName", "") not in ("", node["NodeManagerAddress"])
        name = node["NodeName"] if named else node["NodeManagerHostname"]
        if any(other.name == name and not other.gone for other in self._nodes.values()):
            name = f"{name} ({node['NodeID'][:6]})"
        graders, memory = int(has.get("CPU", 0)), int(has.get("memory", 0))
        if self._setup.device == "cuda":
            graders = min(graders, int(has.get("GPU", 0)))
        refused = ""
        if graders and memory < self._memory_bytes:
            refused = (
                f"Ray may use {memory // MIB} MiB of its memory, and a grader needs "
                f"{self._memory_bytes // MIB} MiB"
            )
        return _Node(name, min(graders, memory // self._memory_bytes), refused)

    def _actor_on(self, node: str) -> _Actor:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        options = {
            "num_cpus": 1,
            "num_gpus": 1 if self._setup.device == "cuda" else 0,
            "memory": self._memory_bytes,
            "max_restarts": 0,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False),
        }
        remote = self._ray.remote(**options)(Grader)
        handle = remote.remote(self._folder, msgspec.json.encode(self._setup))
        return _Actor(node, handle, handle.get_ready.remote())

    def _forget(self, actor: _Actor) -> None:
        self._actors.remove(actor)
        self._ray.kill(actor.handle)

    def _forget_idle(self, node: str) -> None:
        for actor in [a for a in self._actors if a.node == node and not a.submission]:
            self._forget(actor)

    def _refuse(self, key: str, why: str) -> Iterator[Noted]:
        """Stop using a node; its other graders may still finish their submissions."""
        node = self._nodes[key]
        if node.used:
            node.refused = one_line(why, 300)
            self._forget_idle(key)
            yield Noted(f"{node.name} is not used: {node.refused}")

    def _require_a_node(self) -> None:
        now = time.monotonic()
        if self._actors:
            self._usable = now
            return
        refused = [f"{node.name}: {node.refused}" for node in self._nodes.values() if node.refused]
        if refused or now - self._usable > WITHOUT_NODES_SECONDS:
            needs = "a processor" if self._setup.device == "cpu" else "a processor and a GPU"
            what = "; ".join(refused[:5]) or f"none has {needs}"
            raise GraderFault(f"no node of the cluster can grade: {what}")


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def require(address: str | None, isolation: Isolation) -> None:
    """Refuse options that cannot work on any cluster, before anything is read or written."""
    try:
        import ray  # noqa: F401 - checks whether it is installed
    except ImportError:
        raise UsageError(
            '--executor ray: Ray is not installed; install it with `pip install "ray>=2.52"`'
        ) from None
    if address and "://" in address:
        raise UsageError(
            f"--address {address}: expected HOST:PORT or `auto`; run this command on a machine "
            "of the cluster"
        )
    if isolation == "none":
        raise UsageError(
            "--isolation none: not on a cluster, because a submission that reaches the network "
            "could control all of the cluster's machines"
        )
    if address and address != "auto":
        _require_listener(address)


def _connected(address: str | None, where: str) -> Any:
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send nothing about a class to others
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        # Ray's processes import from the current folder, which may hold files of strangers.
        with chdir(courses.PACKAGE.parent):
            ray.init(
                address=address,
                include_dashboard=False if address is None else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as e:
        raise UsageError(f"{where} cannot be used: {_reason(e)}") from None
    return ray


def _require_listener(address: str) -> None:
    """Check quickly that a cluster listens; Ray itself would keep trying for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise UsageError(f"--address {address}: expected HOST:PORT or `auto`")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as e:
        raise UsageError(f"the Ray cluster {address} cannot be reached: {e}") from None


CLUSTER = Cluster("all machines of a Ray cluster", require, RayExecutor)
