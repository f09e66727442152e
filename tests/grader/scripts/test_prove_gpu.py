"""scripts/prove_gpu.py: its budget, its results, and a rehearsal of the cheap steps."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.grader.processes import alive, ran, until
from tests.grader.sandbox.simulated_machine import ROOT, needs_a_compiler

pytestmark = pytest.mark.slow

PROVE = ROOT / "scripts" / "prove_gpu.py"
# Runs the command with steps that are Python programs. Its arguments are the folder, the budget,
# and JSON that gives for each step its program, its limit, its usual seconds, and what it needs.
PROGRAM = f"""
import json, sys
sys.path.insert(0, {str(ROOT / "scripts")!r})
import prove_gpu
from steps import Step
def judge(code, text):
    return code == 0, text.splitlines()[-1]
steps = [
    Step(name, "it", ((sys.executable, "-c", program),), judge, usual, limit, tuple(needs))
    for name, (program, limit, usual, *needs) in json.loads(sys.argv[3]).items()
]
prove_gpu.table.steps = lambda folder, rehearsal: steps
prove_gpu._facts = dict
prove_gpu._missing = lambda facts, needs: {{"wings": "it cannot fly"}}
sys.argv = ["prove_gpu.py", sys.argv[1], "--seconds", sys.argv[2]]
sys.exit(prove_gpu.main())
"""
PRINTS = "print('a figure')"
# Has a child, whose id it writes to a file; then neither ends.
HANGS = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if not os.fork():
    open("{folder}/left", "w").write(str(os.getpid()))
time.sleep(1000)
"""
NOTES = "open('{folder}/runs', 'a').write('x'); print('noted')"


def command(folder, seconds, **steps):
    """The command line that runs these steps."""
    filled = {name: (text.format(folder=folder), *more) for name, (text, *more) in steps.items()}
    return [sys.executable, "-c", PROGRAM, str(folder), str(seconds), json.dumps(filled)]


def run(folder, seconds, **steps):
    """Run these steps; return the exit code, and the verdict and the figure of each."""
    done = subprocess.run(command(folder, seconds, **steps), capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    found = json.loads((folder / "results.json").read_text())
    return done.returncode, {name: (one["verdict"], one["figure"]) for name, one in found.items()}


def test_each_step_has_a_verdict_and_a_figure(tmp_path):
    """A step passes, fails, breaks, or is not possible on this machine; none stops the next one."""
    wrong = "print('wrong'); raise SystemExit(1)"
    steps = {
        "passes": (PRINTS, 300, 1),
        "fails": (wrong, 300, 1),
        "flies": (PRINTS, 300, 1, "wings"),
    }
    assert run(tmp_path, 1000, **steps, last=(PRINTS, 300, 1)) == (
        1,
        {
            "passes": ("passed", "a figure"),
            "fails": ("failed", "wrong"),
            "flies": ("not possible here", "it cannot fly"),
            "last": ("passed", "a figure"),
        },
    )
    assert "a figure" in (tmp_path / "passes.log").read_text()


def test_what_no_longer_fits_is_not_reached_and_runs_next_time(tmp_path):
    """A step that needs more than what is left is not started; a shorter one still is."""
    steps = {"long": (NOTES, 300, 500), "short": (NOTES, 300, 1)}
    code, got = run(tmp_path, 100, **steps)
    assert (1, "not reached", ("passed", "noted")) == (code, got["long"][0], got["short"])
    assert "s were left, and it needs 500 s" in got["long"][1]
    assert (0, dict.fromkeys(steps, ("passed", "noted"))) == run(tmp_path, 1000, **steps)
    assert "xx" == (tmp_path / "runs").read_text(), "a step with a result ran again"


@pytest.mark.parametrize(
    ("limit", "budget", "verdict", "said"),
    [
        (4, 1000, "failed", "not done after 4 s; its last line: "),
        (1000, 4, "not reached", "the time of this call was used up after "),
    ],
)
def test_a_step_that_hangs_is_ended_with_its_processes(limit, budget, verdict, said, tmp_path):
    """Its own limit is its failure; the end of the budget is not."""
    _, got = run(tmp_path, budget, hangs=(HANGS, limit, 1))
    assert verdict == got["hangs"][0]
    assert got["hangs"][1].startswith(said)
    if (tmp_path / "left").exists():  # on a very slow machine, it did not get that far
        assert [] == alive([int((tmp_path / "left").read_text())])


def test_after_an_interrupt_the_next_call_goes_on(tmp_path):
    """What was running counts as not reached, its processes are ended, and results stay."""
    steps = {"first": (NOTES, 300, 1), "second": (HANGS, 300, 1)}
    stopped = subprocess.Popen(command(tmp_path, 1000, **steps), stdout=subprocess.DEVNULL)
    until(lambda: (tmp_path / "left").exists() and (tmp_path / "left").read_text())
    stopped.terminate()
    assert 143 == stopped.wait()
    assert [] == alive([int((tmp_path / "left").read_text())])
    code, got = run(tmp_path, 1000, first=steps["first"], second=(PRINTS, 300, 1))
    assert (0, ("passed", "a figure")) == (code, got["second"])
    assert "x" == (tmp_path / "runs").read_text()


@pytest.mark.parametrize("text", ["[]", "{", '{"one": {"verdict": "passed"}}'])
def test_a_file_that_has_no_results_is_not_overwritten(tmp_path, text):
    (tmp_path / "results.json").write_text(text)
    line = command(tmp_path, 100, one=(PRINTS, 300, 1))
    done = ran(line)
    assert (2, True) == (done.returncode, "name another folder" in done.stderr)
    assert text == (tmp_path / "results.json").read_text()


# --- the command ----------------------------------------------------------------------------------


def prove(folder, *options):
    """Run the command."""
    line = [sys.executable, str(PROVE), str(folder), *options]
    return ran(line)


@pytest.mark.proof
@pytest.mark.xdist_group("simulated gpu")
@needs_a_compiler
def test_the_first_step_passes_on_the_simulated_gpu(tmp_path):
    """The machine is described, the step runs in the real sandbox, and the others wait."""
    done = prove(tmp_path, "--rehearse", "--only", "find")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CUDA 13.0" in done.stdout
    steps = json.loads((tmp_path / "rehearsal.json").read_text())
    assert steps["find"]["figure"].startswith("Simulated GPU, driver 999.99, level bubblewrap")
    assert ["passed", "not reached"] == [steps[name]["verdict"] for name in ("find", "flight")]


@pytest.mark.proof
@pytest.mark.xdist_group("simulated gpu")
@needs_a_compiler
def test_every_step_ends_as_the_table_says(tmp_path):
    """None hangs, such as one that waits for a turn that it has itself."""
    done = prove(tmp_path, "--rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    steps = json.loads((tmp_path / "rehearsal.json").read_text())
    assert "not reached" not in {step["verdict"] for step in steps.values()}


def test_a_step_that_does_not_exist_is_a_wrong_command(tmp_path):
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
