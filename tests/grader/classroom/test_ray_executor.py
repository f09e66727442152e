"""A class is graded on a real Ray cluster whose nodes join, die and differ in their setup."""

import os
import shutil
import signal
import subprocess
import sys

import msgspec
import pytest

from grader.classroom import gradebook, setups
from grader.classroom.removable.ray_cluster import Grader, Reply
from grader.course import courses
from grader.sandbox import gpu_turns
from grader.sandbox.gpus import Gpu
from grader.submission.submissions import Submission
from kit import handing_in
from tests.grader import small_courses
from tests.grader.classroom.a_class import LISTS, SOLVED, WITH_TORCH, hand_in, hand_in_class, keep
from tests.grader.classroom.raylets import RAY, Raylets
from tests.grader.classroom.test_batches import graded
from tests.grader.processes import started, until
from tests.grader.sandbox.simulated_machine import SIMULATED, UUID, needs_a_compiler

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),
    pytest.mark.skipif(not RAY.exists(), reason="Ray is not installed"),
]


@pytest.fixture(scope="module")
def course(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("course") / "course"
    return shutil.copytree(root / "examples" / "tiny_course", folder)


@pytest.fixture(scope="module")
def raylets():
    cluster = Raylets()
    try:
        cluster.add("one")
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def handed_in(tmp_path):
    """Broken, hostile, wrong and right submissions, and right ones that take up to a second."""
    folder = hand_in_class(tmp_path / "handed_in", WITH_TORCH)
    hand_in_slow(folder, 12)
    return folder


def hand_in_slow(folder, count):
    for i in range(count):
        slow = SOLVED.replace("    e =", f"    import time\n    time.sleep({i % 10 / 10})\n    e =")
        hand_in(folder, f"slow{i}", f"{slow}# {i}\n")


@pytest.fixture
def batch(course, raylets, handed_in):

    def start(book, *options, executor="ray", cluster=raylets):
        command = [sys.executable, "-m", "grader", "batch", handed_in, "--gradebook", book]
        command += ["--course", course, "--executor", executor, *options]
        if executor == "ray":
            command += ["--address", cluster.address]
        return started(command, env=cluster.environment)

    return start


def programs_without_bubblewrap(folder):
    folder.mkdir()
    for program in ("bash", "sh", "ps", "uname", "env"):
        (folder / program).symlink_to(shutil.which(program))
    return folder


def finish(process):
    _, said = process.communicate(timeout=600)
    return process.returncode, said


def found(book, device="cpu"):
    """Each test's outcome, without its message: that about a fork bomb varies."""
    with gradebook.reading(book) as opened:
        setup = opened.setups.current(device)
        grades = opened.results.grades(setup)
        assert set() == {grade.fault for grade in grades.values()} - {""}
        results = {name: opened.results.result(name, setup) for name in grades}
    tests = {name: [t for p in one.problems for t in p.tests] for name, one in results.items()}
    return {n: [(t.id, t.status, t.score, t.mistake, t.rule) for t in tests[n]] for n in tests}


def test_a_nodes_grader_takes_and_returns_bytes(tmp_path):
    """Without Ray, which only calls it. It compares its setup with the driver's, and grades."""
    course = courses.load(small_courses.with_lists(tmp_path / "course"))
    setup = setups.of_today(course, course.problems, device="cpu", isolation="bubblewrap", seed=0)
    older = msgspec.structs.replace(setup, suite_sha256="00" * 32)
    grader, other = (Grader(str(course.root), msgspec.json.encode(s)) for s in (setup, older))
    assert "the suite: 000000000000, there " in msgspec.json.decode(other.get_ready())["refused"]
    with grader._held:
        assert msgspec.json.decode(grader.get_ready(), type=Reply) == Reply()
        ada = Submission("ada", {"assignment/activations.py": LISTS.encode()}, [])
        reply = msgspec.json.decode(grader.grade(msgspec.msgpack.encode(ada)))
    assert (reply["fault"], reply["result"]["score"]) == ("", 3.0)


@pytest.mark.proof
def test_a_class_is_graded_on_a_cluster(batch, handed_in, tmp_path):
    keep(handed_in, "bob", "gil", "ian", "slow1")  # wrong, hostile, unreadable and right
    code, said = finish(batch(tmp_path / "there.sqlite", "--jobs", 1))
    assert code == 0, said
    results = found(tmp_path / "there.sqlite").values()
    assert [0.0, 2.0, 3.0] == sorted(sum(score for _, _, score, *_ in tests) for tests in results)
    assert any(mistake for tests in results for *_, mistake, _ in tests)


@pytest.mark.proof
@needs_a_compiler
def test_a_cluster_takes_turns_on_a_gpu_and_a_killed_grader_ends_its_turn(
    raylets, tmp_path, monkeypatch
):
    """The node's grader waits for a program outside of the cluster."""
    monkeypatch.setenv(gpu_turns.FOLDER_VARIABLE, str(tmp_path / "queues"))
    environment = {**raylets.environment, gpu_turns.FOLDER_VARIABLE: str(tmp_path / "queues")}
    (tmp_path / "in").mkdir()
    for name in ("ada", "bob"):
        solved = handing_in.zipped(courses.sources_in(courses.load().reference))
        (tmp_path / "in" / f"{name}.zip").write_bytes(solved)
    raylets.add("gpu", gpus=1, environment=environment, before=SIMULATED)
    book = tmp_path / "class.sqlite"
    command = [*SIMULATED, sys.executable, "-m", "grader", "batch", tmp_path / "in"]
    command += ["--gradebook", book, "--only", "gpu_memory", "--executor", "ray"]
    command += ["--device", "cuda", "--address", raylets.address]
    try:
        with gpu_turns.turn(Gpu(0, UUID, "Simulated GPU", "1", 1, "", (), ()), print):
            process = started(command, env=environment)
            until(lambda: len(gpu_turns.queue(UUID)) == 2)
            waits = gpu_turns.queue(UUID)[1].process
        until(lambda: [ticket.process for ticket in gpu_turns.queue(UUID)] == [waits])
        os.kill(waits, signal.SIGKILL)
        code, said = finish(process)
    finally:
        raylets.kill("gpu")
    assert code == 0, said
    of_gpu = [
        test for tests in found(book, "cuda").values() for test in tests if "cuda/" in test[0]
    ]
    assert (len(of_gpu) > 2, {status for _, status, *_ in of_gpu}) == (True, {"passed"})


@pytest.mark.proof
def test_a_node_that_is_killed_half_way_costs_no_grade(batch, raylets, tmp_path):
    there = tmp_path / "there.sqlite"
    raylets.add("two")
    raylets.add("victim")
    process = batch(there)
    until(lambda: graded(there) >= 6)
    raylets.kill("victim")
    code, said = finish(process)
    assert code == 0, said
    assert "grader: victim is gone; its submissions are graded elsewhere" in said
    here = tmp_path / "here.sqlite"
    code, said = finish(batch(here, executor="local"))
    assert code == 0, said
    assert found(here) == found(there)
    assert len(found(here)) == 21


@pytest.mark.proof
def test_a_node_that_differs_is_refused_by_name(batch, handed_in, course, raylets, tmp_path):
    keep(handed_in, "ada", "bob", "eve", "fay", "slow8", "slow9")
    changed = shutil.copytree(course, tmp_path / "changed")
    hidden = changed / "tests" / "hidden" / "relu" / "test_hidden.py"
    hidden.write_text(hidden.read_text() + "\n# corrected\n")
    bound = ("bwrap", "--dev-bind", "/", "/", "--bind", changed, course, "--")
    (tmp_path / "older" / "torch-2.6.0.dist-info").mkdir(parents=True)
    metadata = tmp_path / "older" / "torch-2.6.0.dist-info" / "METADATA"
    metadata.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.6.0\n")
    without = programs_without_bubblewrap(tmp_path / "bin")
    names = ("other-suite", "other-torch", "no-bubblewrap")
    try:
        raylets.add("other-suite", before=bound)
        raylets.add("other-torch", environment={"PYTHONPATH": str(tmp_path / "older")})
        raylets.add("no-bubblewrap", environment={"PATH": str(without)})
        book = tmp_path / "class.sqlite"
        code, said = finish(batch(book, "--isolation", "bubblewrap"))
    finally:
        for name in names:
            raylets.kill(name)
    assert code == 0, said
    assert "grader: other-suite is not used: the suite: " in said
    assert "grader: other-torch is not used: torch: 2.13" in said
    assert "there 2.6.0" in said
    assert "grader: no-bubblewrap is not used: bubblewrap" in said
    assert len(found(book)) == 6


@pytest.mark.proof
def test_without_a_node_that_can_grade_nobody_is_blamed(batch, tmp_path):
    cluster = Raylets()
    try:
        without = programs_without_bubblewrap(tmp_path / "bin")
        cluster.add("bare", environment={"PATH": str(without)})
        book = tmp_path / "class.sqlite"
        code, said = finish(batch(book, "--isolation", "bubblewrap", cluster=cluster))
    finally:
        cluster.close()
    assert code == 3, said
    last = said.splitlines()[-1]
    assert "no node of the cluster can grade: bare: bubblewrap is not installed" in last
    assert graded(book) == 0


@pytest.mark.proof
def test_whatever_ends_a_run_the_next_one_goes_on(batch, handed_in, tmp_path):
    for name in ("eve", "fay"):  # a fork bomb and a memory hog take seconds
        (handed_in / f"{name}.zip").unlink()
    book = tmp_path / "class.sqlite"
    process = batch(book)
    until(lambda: graded(book) >= 3)
    process.send_signal(signal.SIGINT)
    code, said = finish(process)
    assert (code, said.splitlines()[-1]) == (
        130,
        f"grader: interrupted; the results so far are in {book}; "
        "run the same command again to continue",
    )
    until(lambda: not graders())
    kept = graded(book)
    process = batch(book)
    until(lambda: graded(book) >= kept + 3)
    process.kill()
    finish(process)
    until(lambda: not graders())
    kept = graded(book)
    process = batch(book)
    until(lambda: graded(book) > kept)
    os.kill(int(graders()[-1].split()[0]), signal.SIGKILL)
    code, said = finish(process)
    assert code == 0, said
    assert f"0 of them new; {19 - kept} to grade" in said
    assert len(found(book)) == 19


def graders():
    listed = subprocess.run(["ps", "-wweo", "pid=,args="], capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if "ray::Grader" in line]


def test_a_cluster_that_is_not_there_and_ray_that_is_not_installed_are_a_sentence(
    typed, course, tmp_path, monkeypatch
):
    folder, book = tmp_path / "in", tmp_path / "class.sqlite"
    folder.mkdir()
    hand_in(folder, "ada", SOLVED)
    batch = ("batch", folder, "--gradebook", book, "--course", course)
    code, _, said = typed(*batch, "--executor", "ray", "--address", "127.0.0.1:9")
    assert (code, "the Ray cluster 127.0.0.1:9" in said, book.exists()) == (2, True, False)
    monkeypatch.setitem(sys.modules, "ray", None)
    told = 'Ray is not installed; install it with `pip install "ray>=2.52"`'
    said = (2, "", f"grader: --executor ray: {told}")
    assert typed(*batch, "--executor", "ray") == said
