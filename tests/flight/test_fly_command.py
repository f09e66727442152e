"""`python -m assignment fly`, as a student runs it in the unpacked bundle."""

import re
import shutil
import subprocess
import sys

import pytest

from flight import fly_command, parts, prediction
from grader.course import courses
from grader.publish import student_bundle
from kit.student_command import previous_check, submit
from tests.grader.warm_python import python

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("bundle")]

COURSE = courses.load()
NAME = "hatchling, batch 8, 2 segments, no momentum, no warm-up"
SOLVED = ("linear", "optimizers", "einops_reshaping", "data", "training")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The bundle, with half of the problems solved and one of them wrongly."""
    root = tmp_path_factory.mktemp("bundle")
    for path, content in student_bundle.student(COURSE, None).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    for name in SOLVED:
        shutil.copy(COURSE.reference / f"{name}.py", root / "assignment")
    for path in (root / "flight").glob("*.py"):  # it measures and writes less, with a small model
        text = re.sub(r"= ?0\.1?5\)", "=0.01)", path.read_text("utf-8")).replace("= 160", "= 16")
        path.write_text(text.replace("(5, 128, 4, 128", "(2, 32, 2, 32"), "utf-8")
    with (root / "assignment" / "optimizers.py").open("a", encoding="utf-8") as module:
        module.write("\n\ndef clip_gradient_norm(*given, **named):\n    return of_none()\n")
        module.write("\n\ndef of_none():\n    return 1 / 0\n")
    # The tests of all other problems have run already, and those of the solved ones have passed.
    others = [p for p in COURSE.problems if p.id not in ("gradient_clipping", "get_batch")]
    passed = [p.id for p in others if p.module in SOLVED]
    problems = [{"id": p.id, "module": p.module} for p in others]
    files = previous_check.Files.now(root, COURSE.modules)
    previous_check.read(root).write(root, files, problems, {*passed})
    return root


def fly(folder, *options):
    words = [python(), "-m", "assignment", "fly", *options]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=550)


def test_half_of_the_parts_fly(folder, capsys):
    """Solved parts are used, a failing one is told as in the public tests, and given ones help."""
    done = fly(folder, "--size", "egg", "--steps", "4", "--batch", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "yours: linear, einops, adamw, get_batch, training_loop" in done.stdout
    assert "given: gradient_clipping, checkpoint" in done.stdout
    assert "gradient_clipping: raised ZeroDivisionError" in done.stdout
    assert not re.search("^(next|first failure)$", done.stdout, re.MULTILINE)
    assert "your flop_formulas would predict it" in done.stdout
    assert done.stdout.index("predicted, before anything runs") < done.stdout.index("flying egg")
    assert "after 4 steps it writes:" in done.stdout
    assert "your bets" not in done.stdout
    assert "given: gradient_clipping, checkpoint, " in (
        folder / "flights" / "egg-4_steps-batch_2" / "card.svg"
    ).read_text(encoding="utf-8")
    page = (folder / "flights" / "index.html").read_text(encoding="utf-8")
    assert "src='egg-4_steps-batch_2/card.svg'" in page
    files = {path: path.read_bytes() for path in (folder / "flights").rglob("*.*")}
    assert fly_command.main(folder, ["--size", "egg", "--steps", "4", "--batch", "2"]) == 0
    shown = capsys.readouterr().out
    assert "is finished. With --again, it flies anew" in shown
    assert done.stdout.endswith(shown.partition("today.\n\n")[2])
    assert files == {path: path.read_bytes() for path in (folder / "flights").rglob("*.*")}


def stop(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("moment", ["Machine.measured", "_bets"])
def test_ctrl_c_before_the_flight_is_one_line(folder, monkeypatch, capsys, moment):
    monkeypatch.setattr(fly_command, "_own", lambda root, mine: ([], []))
    monkeypatch.setattr(prediction, "seconds_of", lambda *_: 1.0)
    monkeypatch.setattr(f"flight.fly_command.{moment}", stop)
    assert fly_command.main(folder, ["--size", "egg", "--steps", "3"]) == 130
    assert capsys.readouterr().err == "\nstopped\n"


@pytest.mark.parametrize("own", [[], ["training_loop"]])
@pytest.mark.parametrize("is_kept", [False, True])
def test_ctrl_c_in_the_flight_says_what_is_kept(tmp_path, monkeypatch, capsys, own, is_kept):
    """Only the student's loop keeps a checkpoint, and not from the first step on."""
    monkeypatch.setattr(fly_command.flying, "fly", stop)
    if is_kept:
        (tmp_path / "run.pt").touch()
    settings = fly_command._settings(fly_command._parser().parse_args([]))
    assert fly_command._fly(tmp_path, parts.Parts(own), settings, None, None, tmp_path, {}) == 130
    _, begins, _, ends = capsys.readouterr().out.splitlines()
    assert ("goes on" in begins, "starts over" in begins) == (bool(own), not own)
    assert ends.endswith("goes on" if own and is_kept else "starts over")


@pytest.mark.parametrize(
    ("said", "bet"),
    [
        ([""], 27.4e6),
        (["1,200 MB"], 1.2e9),
        (["2e1"], 2e7),
        (["many", "-1", "nan", "6,1", "1 GB", "3"], 3e6),
    ],
)
def test_a_bet_is_a_number_in_the_unit_shown(monkeypatch, said, bet):
    """Enter keeps the formula's, and what is no positive number is asked for again."""
    answers = iter(said)
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    assert fly_command._bet(prediction.Row("bytes kept", 27.4e6, None, "bytes")) == bet
    assert list(answers) == []


def test_a_flight_that_goes_on_keeps_its_bets(monkeypatch, tmp_path):
    rows = [prediction.Row("first loss", 5.5, None, "nats")]
    assert fly_command._bets(tmp_path / "bets.json", rows) == {}
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "4")
    assert fly_command._bets(tmp_path / "bets.json", rows) == {"first loss": 4.0}
    (tmp_path / "cut.json").write_text('{"first')
    assert fly_command._bets(tmp_path / "cut.json", rows) == {"first loss": 4.0}
    monkeypatch.setattr("builtins.input", None)
    assert fly_command._bets(tmp_path / "bets.json", rows) == {"first loss": 4.0}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--checkpointing", "5"], "activation_checkpointing"),
        (["--autocast"], "training_loop"),
        (["--batch", "4", "--micro-batch", "2"], "training_loop"),
    ],
)
def test_a_switch_names_the_problem_that_it_needs(options, problem):
    settings = fly_command._settings(fly_command._parser().parse_args(options))
    with pytest.raises(submit.Refused, match=f"your {problem}"):
        fly_command._check_parts(settings, ["linear"])
    fly_command._check_parts(settings, [problem])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--micro-batch", "99"], "--micro-batch 99 is more than the batch of 4"),
        (["--steps", "0"], "--steps: expected at least 1; got 0"),
        (["--micro-batch", "0"], "--micro-batch: expected at least 1; got 0"),
        (["--checkpointing", "9"], "--checkpointing is between 0 and 5"),
    ],
)
def test_settings_that_cannot_fly_are_refused_at_once(tmp_path, capsys, options, said):
    assert fly_command.main(tmp_path, options) == 2
    assert said in capsys.readouterr().err


def test_a_flight_is_named_by_its_switches():
    switches = ["--no-momentum", "--no-warmup", "--checkpointing", "2", "--batch", "8"]
    for words, name in (([], "hatchling"), (switches, NAME)):
        assert fly_command._settings(fly_command._parser().parse_args(words)).name == name


def test_a_part_that_breaks_is_named(folder):
    """A part that is used although its tests fail is told with its line, without a traceback."""
    done = fly(folder, "--size", "egg", "--batch", "2", "--mine", "gradient_clipping")
    assert done.returncode == 1
    assert "gradient_clipping (its tests fail)" in " ".join(done.stdout.split())
    last = len((folder / "assignment" / "optimizers.py").read_text(encoding="utf-8").splitlines())
    told = (
        f"\nassignment/optimizers.py:{last} raised ZeroDivisionError: division by zero\nlook with "
    )
    assert re.match(told + "`python -m assignment check .*gradient_clipping", done.stderr)
