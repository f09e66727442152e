"""Grading on a cluster: Ray's overhead, and the time for a class on different numbers of nodes.

    python benchmarks/cluster.py --measure N [--json FILE]
    python benchmarks/cluster.py --from FILE [--docs docs/cluster.md]

The first command grades a generated class of N twice, on this machine and through Ray. It reports
whether the results are equal, Ray's overhead per submission, and the seconds of each submission.

The second command samples from these seconds, assigns the submissions to the nodes of a simulated
cluster as the executor does, and prints the makespan: the time until the last result is stored. The
ideal is the total work divided by the number of processors, or the longest submission if that takes
longer.

In the simulation, the driver is a single process that assigns and stores one submission at a time,
like the real driver. A node starts its graders in the measured time. In the column for stragglers,
one node in ten is four times slower. In the column for deaths, a node dies after an hour on
average; its submissions are graded again, and a new node replaces it after two minutes. The time of
a GPU part is an assumption. --docs writes the tables into a page, between the comments that name
them.
"""

import argparse
import heapq
import json
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import single

from grader.classroom import gradebook, setups
from grader.classroom.executor import Ended, Executor, LocalExecutor, Started
from grader.classroom.more.ray import RayExecutor
from grader.classroom.records import Student
from grader.course import courses
from grader.report import json_report
from grader.sandbox import levels
from grader.sandbox.pool import usual_jobs
from grader.submission import submissions
from grader.submission.submissions import Submission

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
import make_class

EMPTY_TASKS = 1000
SLOWER = 4.0
SECONDS_BETWEEN_DEATHS = 3600.0
REPLACED_AFTER = 120.0
STORING = "seconds of storing one attempt and its result"


def main() -> None:
    """Measure or simulate, print the results, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", type=int, metavar="N", help="grade a generated class of N")
    parser.add_argument("--only", nargs="+", default=[], help="problems (default: all)")
    parser.add_argument("--from", dest="source", type=Path, help="the file of --measure --json")
    parser.add_argument("--docs", type=Path, help="write the tables into this page")
    parser.add_argument("--cpus", type=int, default=16, help="processors of a simulated node")
    parser.add_argument("--gpu-seconds", type=float, default=20.0, help="time of a GPU part")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    if not options.measure and not options.source:
        parser.error("give --measure N or --from FILE")
    if options.measure:
        figures = {"environment": single.environment(), **measured(options.measure, options.only)}
        for name, value in figures.items():
            if name != "seconds of each submission":
                print(f"{name:<60} {value}")
        if options.json:
            options.json.write_text(json.dumps(figures, indent=2) + "\n")
    else:
        figures = json.loads(options.source.read_text())
        tables = Replay(figures, options.cpus, options.gpu_seconds).tables()
        print("\n\n".join(tables.values()))
        if options.docs:
            page = options.docs.read_text(encoding="utf-8")
            options.docs.write_text(with_tables(page, tables), encoding="utf-8")


# --- measured -------------------------------------------------------------------------------------


@dataclass
class Timed:
    """The times and results of an executor's run.

    Attributes:
        start: Seconds until the first submission was started.
        wall: Seconds from that moment until the last submission was finished.
        around: For each submission, the executor's overhead: the seconds between its start and its
            end that its result does not count.
        results: The result of each submission, by the hash of its sources.
    """

    start: float
    wall: float
    around: list[float]
    results: dict[str, Any]


def measured(size: int, only: list[str]) -> dict[str, Any]:
    """Grade a generated class on this machine and through Ray."""
    course = courses.load()
    problems = [p for p in course.problems if not only or p.id in only]
    setup = setups.of_today(course, problems, device="cpu", isolation=levels.strongest(), seed=0)
    with tempfile.TemporaryDirectory() as folder:
        pieces = make_class.pieces_of(course, json.loads(make_class.SCORES.read_text()))
        make_class.write_class(Path(folder, "class"), make_class.students_of(size, 0, pieces))
        found = sorted(Path(folder, "class", "submissions").iterdir())
        read = [what for path in found if (what := readable(path))]
        handed_in = list({what.sha256: what for what in read}.values())[:size]
    jobs = usual_jobs()
    here = timed(LocalExecutor(course, setup, jobs=jobs), handed_in)
    there = timed(RayExecutor(course, None, setup, address=None, jobs=jobs), handed_in)
    return {
        "submissions": len(handed_in),
        "problems": only or "all",
        "processes": jobs,
        "submissions that Ray graded differently": sum(
            outcomes(here.results[name]) != outcomes(there.results[name]) for name in here.results
        ),
        "s until the first submission starts, local": round(here.start, 2),
        "s until the first submission starts, Ray": round(there.start, 2),
        "s of all submissions, local": round(here.start + here.wall, 1),
        "s of all submissions, Ray": round(there.start + there.wall, 1),
        "s of all submissions, Ray / local": round(
            (there.start + there.wall) / (here.start + here.wall), 3
        ),
        "ms around a submission, local (median)": round(1000 * statistics.median(here.around), 1),
        "ms around a submission, Ray (median)": round(1000 * statistics.median(there.around), 1),
        f"ms of an empty task of Ray (mean of {EMPTY_TASKS})": round(1000 * empty_task(jobs), 3),
        "s of a submission (mean, a processor each)": round(
            statistics.mean(result.seconds for result in here.results.values()), 2
        ),
        STORING: round(stored(handed_in, setup, here.results), 5),
        "seconds of each submission": [round(r.seconds, 2) for r in here.results.values()],
    }


def readable(path: Path) -> Submission | None:
    """The submission at a path, if there is one."""
    try:
        return submissions.read(path)
    except submissions.SubmissionRefused:
        return None


def stored(handed_in: list[Submission], setup: setups.Setup, results: dict[str, Any]) -> float:
    """Store each submission and its result in a gradebook; return the mean seconds of one."""
    with (
        tempfile.TemporaryDirectory() as folder,
        gradebook.writing(Path(folder, "class.sqlite"), create=True) as book,
    ):
        number = book.setups.number_of(setup)
        started = time.perf_counter()
        for place, what in enumerate(handed_in):
            book.students.enrol([Student(id=f"s{place}")])
            book.attempts.add(f"s{place}", f"s{place}.zip", what)
            book.results.keep(number, results[what.sha256])
        return (time.perf_counter() - started) / len(handed_in)


def timed(executor: Executor, handed_in: list[Submission]) -> Timed:
    """Run an executor on these submissions."""
    left: Iterator[Submission] = iter(handed_in)
    began = time.perf_counter()
    started: dict[str, float] = {}
    took = Timed(0.0, 0.0, [], {})
    for event in executor.run(lambda: next(left, None)):
        now = time.perf_counter()
        if isinstance(event, Started):
            started[event.submission.sha256] = now
            took.start = took.start or now - began
        elif isinstance(event, Ended):
            result = json_report.parse(event.result)
            took.results[event.submission.sha256] = result
            took.around.append(now - started[event.submission.sha256] - result.seconds)
            took.wall = now - began - took.start
    return took


def outcomes(result: Any) -> list[tuple[Any, ...]]:
    """The outcome of each test."""
    return [
        (test.id, test.status, test.score, test.mistake)
        for problem in result.problems
        for test in problem.tests
    ]


def empty_task(jobs: int) -> float:
    """The seconds per Ray task that does nothing."""
    import ray

    ray.init(include_dashboard=False, log_to_driver=False, num_cpus=jobs, logging_level="ERROR")
    try:

        @ray.remote
        def nothing() -> None:
            pass

        ray.get([nothing.remote() for _ in range(100)])
        began = time.perf_counter()
        ray.get([nothing.remote() for _ in range(EMPTY_TASKS)])
        return (time.perf_counter() - began) / EMPTY_TASKS
    finally:
        ray.shutdown()


# --- simulated ------------------------------------------------------------------------------------


@dataclass
class Cluster:
    """A simulated cluster.

    Attributes:
        nodes: The number of nodes.
        slots: The number of graders per node.
        start: Seconds until a node's graders are ready.
        driver: The driver's seconds per submission, for assigning it and storing its result.
        stragglers: The share of slow nodes.
        deaths: Whether nodes die.
    """

    nodes: int
    slots: int
    start: float
    driver: float
    stragglers: float = 0.0
    deaths: bool = False


def makespan(tasks: list[float], cluster: Cluster, seed: int = 0) -> float:
    """Seconds until the last result is stored.

    Args:
        tasks: The seconds of each submission, in the order in which they are assigned.
        cluster: The cluster.
        seed: The seed of the nodes' deaths.
    """
    rng = random.Random(seed)
    waiting = list(reversed(tasks))
    stored, driver_free = 0, 0.0
    events: list[tuple[float, int, float, int, float]] = []  # when, order, task, node, its death
    order = 0

    def dies(now: float) -> float:
        return now + rng.expovariate(1 / SECONDS_BETWEEN_DEATHS) if cluster.deaths else float("inf")

    slow = range(math.ceil(cluster.stragglers * cluster.nodes) if cluster.nodes > 1 else 0)
    for node in range(cluster.nodes):
        death = dies(0.0)
        for _ in range(cluster.slots):
            events.append((cluster.start, order, 0.0, node, death))
            order += 1
    heapq.heapify(events)
    death_of = {node: death for _, _, _, node, death in events}
    now = 0.0
    while stored < len(tasks):
        now, _, task, node, death = heapq.heappop(events)
        if now >= death:  # the node has died in the meantime
            if task:
                waiting.append(task)
            if death == death_of[node]:
                death_of[node] = dies(death + REPLACED_AFTER)
            order += 1
            ready = max(now, death + REPLACED_AFTER) + cluster.start
            heapq.heappush(events, (ready, order, 0.0, node, death_of[node]))
            continue
        if task:
            stored += 1
            driver_free = max(now, driver_free) + cluster.driver
        if waiting:
            next_task = waiting.pop()
            begins = max(now, driver_free)
            takes = next_task * (SLOWER if node in slow else 1.0)
            order += 1
            heapq.heappush(events, (min(begins + takes, death), order, next_task, node, death))
        elif stored < len(tasks):
            order += 1
            heapq.heappush(events, (now + 1.0, order, 0.0, node, death))  # try again later
    return max(now, driver_free)


class Replay:
    """Simulations with the measured times, as tables in Markdown.

    Args:
        figures: The figures that --measure wrote.
        cpus: The number of processors per node.
        gpu_seconds: The assumed seconds of a GPU part.
    """

    def __init__(self, figures: dict[str, Any], cpus: int = 16, gpu_seconds: float = 20.0) -> None:
        self.times: list[float] = figures["seconds of each submission"]
        self.start: float = figures["s until the first submission starts, Ray"]
        of_a_task = figures[f"ms of an empty task of Ray (mean of {EMPTY_TASKS})"] / 1000
        self.driver: float = figures[STORING] + of_a_task
        self.cpus, self.gpu_seconds = cpus, gpu_seconds

    def tables(self) -> dict[str, str]:
        """Each table, by its name."""
        return {"costs": self.costs(), "clusters": self.clusters(), "gpus": self.gpus()}

    def drawn(self, count: int) -> list[float]:
        """The seconds of `count` submissions, sampled from the measured ones."""
        return random.Random(count).choices(self.times, k=count)

    def span(self, tasks: list[float], nodes: int, slots: int, **more: Any) -> float:
        """The makespan of these submissions, in seconds."""
        return makespan(tasks, Cluster(nodes, slots, self.start, self.driver, **more))

    def costs(self) -> str:
        """The cost of grading a class of 1,000."""
        tasks = self.drawn(1000)
        rows = [
            (
                "seconds of a submission on one CPU, mean",
                f"{statistics.mean(self.times):.1f}",
            ),
            ("core-hours of 1,000 submissions", f"{sum(tasks) / 3600:.1f}"),
        ]
        for nodes, cpus in ((1, 2), (1, 16), (1, 64), (4, 16), (20, 16)):
            what = f"{nodes} node{'s' * (nodes > 1)} of {cpus} CPUs"
            rows.append((f"minutes on {what}", f"{self.span(tasks, nodes, cpus) / 60:.0f}"))
        return _table(("a class of 1,000", ""), rows)

    def clusters(self) -> str:
        """The makespan of classes on clusters, relative to the ideal."""
        heading = ("submissions", "nodes", "ideal, s", "makespan, s", "ratio", "longest first")
        rows = []
        for count in (10, 100, 1000, 10000):
            tasks = self.drawn(count)
            for nodes in (1, 5, 20, 200):
                ideal = max(sum(tasks) / (nodes * self.cpus), max(tasks))
                spans = [
                    self.span(tasks, nodes, self.cpus),
                    self.span(sorted(tasks, reverse=True), nodes, self.cpus),
                    self.span(tasks, nodes, self.cpus, stragglers=0.1),
                    self.span(tasks, nodes, self.cpus, deaths=True),
                ]
                ratios = [f"{span / ideal:.2f}" for span in spans]
                rows.append((f"{count:,}", str(nodes), f"{ideal:.0f}", f"{spans[0]:.0f}", *ratios))
        return _table((*heading, "stragglers", "deaths"), rows)

    def gpus(self) -> str:
        """The time for GPU parts, which run one after the other on each GPU."""
        rows = []
        for count, gpus in ((100, 1), (1000, 1), (1000, 4), (10000, 4), (10000, 20)):
            minutes = self.span([self.gpu_seconds] * count, gpus, 1) / 60
            rows.append((f"{count:,}", str(gpus), f"{minutes:.0f}"))
        taking = f"minutes, if one takes {self.gpu_seconds:g} s"
        return _table(("submissions", "GPUs", taking), rows)


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; all columns but the first are numbers."""
    marks = ["---", *["---:"] * (len(heading) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (heading, marks, *rows))


def with_tables(page: str, tables: dict[str, str]) -> str:
    """The page with its tables replaced by these.

    Raises:
        ValueError: The page has no place for a table.
    """
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        start, stop = page.index(begin) + len(begin), page.index(end)
        page = f"{page[:start]}{table}\n{page[stop:]}"
    return page


if __name__ == "__main__":
    main()
