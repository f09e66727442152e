"""`python -m assignment race`: counted FLOPs, a table, and entries that somebody else repeats."""

import json
import re

import pytest
import torch

from flight import race
from kit.handing_in import ENTRY

pytestmark = pytest.mark.slow

BUDGET = 3 * 10**7
SMALL = {"layers": 1, "width": 16, "heads": 2, "context": 8, "batch": 2, "rate": 1e-2}
USUAL = {name: usual for name, (usual, _, _) in race.NUMBERS.items()}
RECIPE = USUAL | SMALL


@pytest.fixture
def root(tmp_path):
    """A folder whose text for validation is unlike that to train on."""
    for number in range(20):
        path = tmp_path / race.TEXT[number % 2] / f"test_m{number // 2}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        held_out = number // 2 == 9
        path.write_bytes((b"pass\r\n" if held_out else b"x = 1\n") * 40)
    (tmp_path / "assignment").mkdir()
    problems = "".join(f'[[problem]]\nid = "m{number}"\n' for number in range(10))
    (tmp_path / "assignment" / "problems.toml").write_text(problems)
    return tmp_path


def entry_of(root, recipe=RECIPE, budget=BUDGET, **changed):
    path = root / "entry.json"
    told = {"name": "ada", **race.fly(root, recipe, budget), **changed}
    path.write_text(json.dumps(told), encoding="utf-8")
    return path


def test_the_flops_are_those_of_the_products():
    """A forward pass of a token takes 2 per weight, and 4 · context · width per layer; 3 passes."""
    weights = 12 * 4 * 128**2 + 256 * 128
    scores = 4 * 4 * 128 * 128
    assert race.step_flops(USUAL) == 3 * (2 * weights + scores) * 4 * 128


@pytest.mark.proof  # two threads beside other tests take long
def test_an_entry_is_repeated_on_a_machine_of_another_speed(root, capsys):
    threads, runs = torch.get_num_threads(), []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            runs.append(race.fly(root, RECIPE, BUDGET))
        assert race.check(root, entry_of(root), BUDGET) == 0
    finally:
        torch.set_num_threads(threads)
    assert len({(run["flops"], run["steps"]) for run in runs}) == 1
    assert runs[0]["flops"] <= BUDGET < runs[0]["flops"] + race.step_flops(RECIPE)
    assert max(run["loss"] for run in runs) - min(run["loss"] for run in runs) < race.TOLERANCE
    assert "the entry is repeated" in capsys.readouterr().out


def test_a_test_of_the_students_own_changes_no_text(root):
    before = race.course_text(root)[2]
    (root / "tests" / "public" / "test_mine.py").touch()
    assert race.course_text(root)[2] == before


def test_what_would_take_days_is_refused(root, capsys):
    """A check compares an entry's numbers before it trains."""
    with pytest.raises(ValueError, match="expected a recipe of at most 100,000 steps; got "):
        race.fly(root, RECIPE | {"width": 8, "batch": 1}, race.BUDGET)
    path = entry_of(root, loss=0.1, steps=1)
    assert race.check(root, path, BUDGET) == 1
    assert "loss: " not in capsys.readouterr().out


FLY, COUNT, TEXT = race.fly, race.step_flops, race.course_text


def trained_on_the_validation_text(root):
    _, held_out, digest = TEXT(root)
    return held_out, held_out, digest


@pytest.mark.parametrize(
    ("patched", "by", "says", "told"),
    [
        ("course_text", trained_on_the_validation_text, {}, "loss: the entry says"),
        ("step_flops", lambda recipe: COUNT(recipe) // 2, {}, "steps: the entry says"),
        (
            "fly",
            lambda root, recipe, budget: FLY(root, recipe, 3 * budget),
            {"budget": BUDGET, "flops": BUDGET},
            "steps: the entry says",
        ),
        ("TEXT", race.TEXT[1:], {}, "text: the entry says"),
        ("BUDGET", BUDGET, {"loss": float("nan")}, "loss: the entry says nan"),
    ],
)
def test_a_cheat_is_noticed(root, capsys, patched, by, says, told):
    """The author's program may be another one; a recipe has no code, and has to give its entry."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(race, patched, by)
        path = entry_of(root, **says)
    assert race.check(root, path, BUDGET) == 1
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"text": "validation.py"}, "a recipe has the numbers layers, width"),
        ({"batch": True}, "batch: expected a whole number from 1 to 256; got True"),
        ({"rate": float("nan")}, "rate: expected a number from 1e-06 to 1; got nan"),
        ({"heads": 3}, "heads: 3 does not divide the width 16"),
        ({"batch": 256}, "FLOPs, more than the budget"),
        ({"layers": 24, "width": 1024}, "at most 2 GB of memory; got one of 4.86 GB: choose a sma"),
        ({"width": 64, "heads": 64, "context": 1024, "batch": 256}, "got one of 70.2 GB: choose"),
        ({"width": 512, "context": 1024, "batch": 99}, "got one of 4.73 GB: choose a smaller"),
        ({"rate": 1.0, "beta1": 0.0, "beta2": 0.0, "decay": 10.0, "clip": 1e3}, "not finite at"),
    ],
)
def test_what_is_no_recipe_is_refused(root, changed, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        race.fly(root, {**RECIPE, **changed}, BUDGET)


def test_the_best_entry_is_handed_in(root, capsys, monkeypatch):
    """A worse one, and a better one of another text, leave it; what is broken is no entry."""
    monkeypatch.setattr(race, "BUDGET", BUDGET)
    options = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]
    assert race.main(root, [*options, "--rate", "1e-6", "--name", "a\nb"]) == 0
    kept = root / "assignment" / ENTRY
    best = race.read(kept)
    assert (best["name"], best["recipe"]) == ("a\\nb", {**RECIPE, "rate": 1e-6})
    table = json.loads((root / race.FOLDER / "race.json").read_text())
    table += [{**best, "loss": best["loss"] - 1, "text": "another"}]
    table += [1, {"loss": 0.1}, {**best, "loss": 0.1, "recipe": {"seed": 1}}]
    (root / race.FOLDER / "race.json").write_text(json.dumps(table))
    assert race.main(root, options) == 0  # it learns what the validation text is not
    assert race.read(kept) == best
    assert "of another text" in capsys.readouterr().out
    assert race.main(root, ["--check", "nothing.json"]) == 2
    assert "there is no file nothing.json" in capsys.readouterr().err
    for broken in ("", "[]", "{}", json.dumps({**best, "loss": "0"})):
        kept.write_text(broken)
        assert race.main(root, ["--check", str(kept)]) == 2
        assert "is no entry" in capsys.readouterr().err
