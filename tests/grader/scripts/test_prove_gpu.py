"""scripts/prove_gpu.py: its budget, its results, and a rehearsal of the cheap steps."""

import fcntl
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from grader.sandbox import ioctls
from tests.grader.processes import alive, until
from tests.grader.sandbox.simulated_machine import ROOT, needs_a_compiler
from tests.grader.warm_python import python

pytestmark = pytest.mark.slow

PROVE = ROOT / "scripts" / "prove_gpu.py"
# Runs steps that are Python programs. Its arguments are the folder, the budget, and JSON that gives
# for each step its program, its limit, its usual seconds, and what it needs.
PROGRAM = f"""
import json, os, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT / "scripts" / "gpu")!r})
import running
folder = Path(sys.argv[1])
def judge(code, text):
    return code == 0, text.splitlines()[-1]
steps = [
    running.Step(
        name, "it", ((sys.executable, "-c", program),), judge, usual, limit, needs=needs
    )
    for name, (program, limit, usual, *needs) in json.loads(sys.argv[3]).items()
]
try:
    results = running.Results(folder / "results.json", {{"gpu": "one"}}, steps)
except ValueError as e:
    sys.exit(str(e))
running.run_all(
    steps, results, folder, seconds=float(sys.argv[2]), reasons={{"wings": "it cannot fly"}},
    environment=os.environ, cwd=folder,
)
"""
PRINTS = "print('a figure')"
# Leaves a process in a session of its own, whose id it writes to a file; then it never ends.
HANGS = """
import os, signal, time
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open("left", "w").write(str(os.getpid()))
    time.sleep(1000)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(1000)
"""
# Notes each run in a file.
NOTES = "open('runs', 'a').write('x'); print('noted')"


def command(folder, seconds, **steps):
    """The command line that runs these steps."""
    return [sys.executable, "-c", PROGRAM, str(folder), str(seconds), json.dumps(steps)]


def verdicts(folder):
    """The verdict of each step in the file of results."""
    steps = json.loads((folder / "results.json").read_text())["steps"]
    return {name: step["verdict"] for name, step in steps.items()}


def run(folder, seconds, **steps):
    """Run these steps; return their results."""
    done = subprocess.run(command(folder, seconds, **steps), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "results.json").read_text())["steps"]


def test_each_step_has_a_verdict_and_a_figure(tmp_path):
    """A step passes, fails, breaks, or is not possible on this machine; none stops the next one."""
    got = run(
        tmp_path,
        1000,
        passes=(PRINTS, 300, 1),
        fails=("print('wrong'); raise SystemExit(1)", 300, 1),
        flies=(PRINTS, 300, 1, "wings"),
        last=(PRINTS, 300, 1),
    )
    assert {
        "passes": ["passed", "a figure"],
        "fails": ["failed", "wrong"],
        "flies": ["not possible here", "it cannot fly"],
        "last": ["passed", "a figure"],
    } == {name: [step["verdict"], step["figure"]] for name, step in got.items()}
    assert "-c print('a figure')" in got["passes"]["command"]
    assert "a figure" in (tmp_path / "passes.log").read_text()


def test_what_no_longer_fits_is_not_reached_and_runs_next_time(tmp_path):
    """A step that needs more than what is left is not started; a shorter one still is."""
    steps = {"long": (NOTES, 300, 500), "short": (NOTES, 300, 1)}
    got = run(tmp_path, 100, **steps)
    assert {"long": "not reached", "short": "passed"} == verdicts(tmp_path)
    assert "s were left, and it needs 500 s" in got["long"]["figure"]
    run(tmp_path, 1000, **steps)
    assert {"long": "passed", "short": "passed"} == verdicts(tmp_path)
    assert "xx" == (tmp_path / "runs").read_text(), "a step with a result ran again"


@pytest.mark.parametrize(
    ("limit", "budget", "verdict", "said"),
    [
        (5, 1000, "failed", "not done after 5 s; its last line: "),
        (1000, 5, "not reached", "the time of this call was used up after "),
    ],
)
def test_a_step_that_hangs_is_ended_with_all_its_processes(limit, budget, verdict, said, tmp_path):
    """Its own limit is its failure; the end of the budget is not."""
    got = run(tmp_path, budget, hangs=(HANGS, limit, 1))
    assert verdict == got["hangs"]["verdict"]
    assert got["hangs"]["figure"].startswith(said)
    if (tmp_path / "left").exists():  # on a very slow machine, it did not get that far
        assert [] == alive([int((tmp_path / "left").read_text())])


def test_after_a_kill_the_next_call_goes_on(tmp_path):
    """What was running counts as not reached, its processes are ended, and results stay."""
    steps = {"first": (NOTES, 300, 1), "second": (HANGS, 300, 1)}
    killed = subprocess.Popen(command(tmp_path, 1000, **steps), stdout=subprocess.DEVNULL)
    until(lambda: (tmp_path / "left").exists() and (tmp_path / "left").read_text())
    killed.kill()
    killed.wait()
    assert {"first": "passed", "second": "not reached"} == verdicts(tmp_path)
    left = int((tmp_path / "left").read_text())
    assert [left] == alive([left])
    run(tmp_path, 1000, first=steps["first"], second=(PRINTS, 300, 1))
    assert {"first": "passed", "second": "passed"} == verdicts(tmp_path)
    assert "x" == (tmp_path / "runs").read_text()
    assert [] == alive([left])


def test_two_calls_at_once_are_refused(tmp_path):
    """They would write the same files."""
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = prove(tmp_path, "--rehearse", "--only", "find")
    assert (2, True) == (done.returncode, "another call is using" in done.stderr), done.stderr


def test_results_of_another_machine_are_refused(tmp_path):
    """They are not overwritten, and neither is a file that has no results."""
    for text in (json.dumps({"schema": 1, "machine": {"gpu": "another"}, "steps": {}}), "[]", "{"):
        (tmp_path / "results.json").write_text(text)
        done = subprocess.run(
            command(tmp_path, 100, one=(PRINTS, 300, 1)), capture_output=True, text=True
        )
        assert 1 == done.returncode
        assert "name another folder" in done.stderr
        assert text == (tmp_path / "results.json").read_text()


# --- the command ----------------------------------------------------------------------------------


def prove(folder, *options):
    """Run the command."""
    line = [sys.executable, str(PROVE), str(folder), *options]
    return subprocess.run(line, capture_output=True, text=True, timeout=3000)


@pytest.mark.proof
@pytest.mark.xdist_group("simulated gpu")
@needs_a_compiler
def test_the_cheap_steps_pass_on_the_simulated_gpu(tmp_path):
    """The machine is described, the steps run in the real sandbox, and the others wait."""
    only = ("--only", "find", "--only", "second")
    done = prove(tmp_path, "--rehearse", *only)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CUDA 13.0" in done.stdout
    steps = json.loads((tmp_path / "results.json").read_text())["steps"]
    assert steps["find"]["figure"].startswith("Simulated GPU, driver 999.99, level bubblewrap")
    assert ["passed", "passed"] == [steps[name]["verdict"] for name in ("find", "second")]
    assert "it waits, after " in steps["second"]["figure"]
    assert "not reached" == steps["flight"]["verdict"]


@pytest.mark.proof
@pytest.mark.xdist_group("simulated gpu")
@needs_a_compiler
def test_every_step_ends_as_the_table_says(tmp_path):
    """None hangs, such as one that waits for a turn that it has itself."""
    done = prove(tmp_path, "--rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    steps = json.loads((tmp_path / "results.json").read_text())["steps"]
    assert "2 of 2 seeds have full points" == steps["seeds-0"]["figure"]
    assert "not reached" not in {step["verdict"] for step in steps.values()}


def test_a_step_that_does_not_exist_is_a_wrong_command(tmp_path):
    """The message names the steps, and nothing is written."""
    done = prove(tmp_path / "out", "--only", "nothing")
    assert (2, True) == (done.returncode, "the steps are find, reference, " in done.stderr)
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_so(tmp_path):
    """A missing device is neither a failure nor a wrong command, and leaves no results."""
    done = prove(tmp_path)
    assert 3 == done.returncode
    assert "prove_gpu.py: there is no NVIDIA GPU here" in done.stderr
    assert not (tmp_path / "results.json").exists()


def test_the_packed_bubblewrap_needs_nothing_of_the_machine(tmp_path):
    """With an empty environment and none of this machine's libraries, it makes a box."""
    program = """
    import sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[1])
    import pack_gpu
    print(pack_gpu.pack_bubblewrap(Path(sys.argv[2]), "3.12"))
    """
    line = [sys.executable, "-c", textwrap.dedent(program), str(ROOT / "scripts"), str(tmp_path)]
    subprocess.run(line, check=True, capture_output=True)
    shown = [f"--ro-bind {tmp_path / name} /{name}" for name in sorted(os.listdir(tmp_path))]
    box = [str(tmp_path / "bwrap"), *" ".join(shown).split(), "/bwrap", "--version"]
    # In a root that has the packed files and a shell alone.
    shell = ["--ro-bind", "/bin/sh", "/bin/sh", "--ro-bind", "/lib64", "/lib64"]
    libraries = [w for d in ("/lib", "/usr/lib") for w in ("--ro-bind-try", d, d)]
    done = subprocess.run([box[0], *shell, *libraries, *box[1:]], env={}, capture_output=True)
    assert (0, True) == (done.returncode, done.stdout.startswith(b"bubblewrap ")), done.stderr


# --- the script that shows what CUDA needs and the landlock level denies, with a program as CUDA


ASKS = """
import fcntl
null = open("/dev/null")
for request in {requests}:
    try:
        fcntl.ioctl(null, request)
    except OSError as e:
        print(e.errno)
open("{file}").close()
"""


def test_what_the_level_would_deny_is_listed(root):
    """A listed request is not named; the program's own calls have their usual results."""
    listed = ioctls.READ_AND_WRITE | 32 << 16 | ioctls.TYPE | ioctls.OF_THE_GPU["RM_CONTROL"]
    requests = [listed, *ioctls.TRIED.values()]
    program = ASKS.format(requests=requests, file="/etc/passwd")
    command = [python(), "-m", "scripts.asked_of_driver", sys.executable, "-c", program]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert 1 == done.returncode, done.stderr
    lines = done.stdout.splitlines()
    assert len(requests) == lines.count("25"), "ENOTTY, as without the script"
    asked = [line for line in lines if line.startswith("asked ")]
    assert sorted(f"asked /dev/null for {r:#010x}" for r in ioctls.TRIED.values()) == asked
    assert "opened /etc/passwd" in lines
    assert not any("torch" in line for line in lines)
    assert lines[-1].startswith(f"{len(ioctls.TRIED)} requests and ")


def test_without_a_program_it_says_what_to_write(root):
    """Misuse has the exit code of misuse."""
    command = [python(), "-m", "scripts.asked_of_driver"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert 2 == done.returncode
    assert "python -m scripts.asked_of_driver python -c" in done.stderr
