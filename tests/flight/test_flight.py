"""The flight: what is predicted is measured, it learns, it resumes, and a wrong part shows."""

import gc
import io
import json
import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from flight import flight_page, flying, model, parts, prediction, story, training_text
from grader.course import courses
from kit.student import StudentPackage
from tests.handout.page_figures import reference_as_assignment

pytestmark = pytest.mark.slow

TINY = model.Size(num_layers=2, d_model=64, num_heads=4, context_length=32, batch=16, steps=150)
MACHINE = prediction.Machine({torch.float32: 1e11, torch.bfloat16: 1e11}, 1e10)
ALL = list(parts.OF_PROBLEM)


@pytest.fixture(scope="module", autouse=True)
def solved():
    gc.freeze()  # some solutions collect garbage
    with reference_as_assignment():
        yield


@pytest.fixture(scope="module", autouse=True)
def tiny():
    """A model that trains in seconds, writes little and measures no machine."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setitem(model.SIZES, "egg", TINY)
        monkeypatch.setattr(flying, "WRITTEN", 20)
        monkeypatch.setattr(prediction, "seconds_of", lambda *_: 0.01)
        yield


@pytest.fixture(scope="module")
def tokens():
    return np.frombuffer(training_text.make(0.4), dtype=np.uint8)


def settings(**changed):
    usual = {"size": "egg", "steps": TINY.steps, "batch": 16, "micro_batch": 16}
    return flying.Settings(**{**usual, **changed})


def fly(used, tokens, folder, **changed):
    folder.mkdir(exist_ok=True)
    return flying.fly(used, settings(**changed), tokens, MACHINE, folder, io.StringIO())


def row(record_or_rows, what):
    return next(r for r in record_or_rows if r.what.startswith(what))


@pytest.mark.parametrize("einops", [True, False])
@pytest.mark.parametrize("autocast", [True, False])
@pytest.mark.parametrize("segments", [0, 2])
def test_bytes_and_flops_are_predicted_exactly(tokens, segments, autocast, einops):
    """With and without checkpoints, autocast and a fused attention, for a part of the batch."""
    used = parts.load([name for name in ALL if einops or name != "einops"])
    chosen = settings(segments=segments, autocast=autocast, micro_batch=4)
    expected = prediction.predicted(used, chosen.shape, chosen, MACHINE)
    rows = prediction.table(used, expected, flying.first_step(used, chosen, tokens), {})
    kept, flops = row(rows, "bytes kept"), row(rows, "FLOPs")
    assert kept.predicted == kept.measured
    if einops:
        assert flops.predicted == flops.measured
    else:
        assert 1 < flops.measured / flops.predicted < 1.1
    parameters, states = row(rows, "parameters"), row(rows, "bytes of weights")
    extra = parameters.measured - parameters.predicted
    positions, norms = 32 * 64, (2 * 2 + 1) * 64
    assert extra == positions + norms
    assert states.measured - states.predicted == 16 * extra
    assert abs(row(rows, "first loss").measured - np.log(256)) < 0.2


@pytest.fixture(scope="module")
def record(tokens, tmp_path_factory):
    return fly(parts.load(ALL), tokens, tmp_path_factory.mktemp("flight"))


@pytest.mark.xdist_group("flight record")
def test_the_reference_learns(record):
    assert len(record.losses) == TINY.steps
    last = row([prediction.Row(**r) for r in record.rows], "last loss").measured
    assert last < record.entropy - 0.3
    assert record.own == ALL
    assert list(record.samples) == ["after 10 steps", "after 100 steps", "after 150 steps"]
    assert all(text.startswith("def ") for text in record.samples.values())


def test_nothing_solved_flies_too(tokens, tmp_path):
    """Given parts stand in for all problems, and the table says which ones would predict."""
    record = fly(parts.load([]), tokens, tmp_path / "run", steps=30)
    assert len(record.losses) == 30
    assert record.losses[-1] < record.losses[0] - 1
    said = {r["what"]: r["reason"] for r in record.rows}
    assert said["parameters"] == "your napkin_math would predict it"
    assert [r["predicted"] for r in record.rows][:3] == [None] * 3


def test_a_stopped_flight_goes_on(tokens, tmp_path, monkeypatch):
    used = parts.load(ALL)
    whole = fly(used, tokens, tmp_path / "whole", steps=30)
    forward, calls = model.Chick.forward, []

    def stopping(self, x):
        calls.extend([1] * torch.is_grad_enabled())  # not while it writes
        if len(calls) == 25:
            raise KeyboardInterrupt
        return forward(self, x)

    monkeypatch.setattr(model.Chick, "forward", stopping)
    with pytest.raises(KeyboardInterrupt):
        fly(used, tokens, tmp_path / "run", steps=30)
    again = fly(used, tokens, tmp_path / "run", steps=30)
    assert len(calls) == 25 + 2 + 10  # a step that is measured, and those after the checkpoint
    assert again.losses == whole.losses


@pytest.mark.proof
def test_a_wrong_part_flies_visibly_worse(tokens, tmp_path):
    """A wrong optimizer learns less; targets that are not shifted teach the model to copy."""
    own = [name for name in ALL if name != "training_loop"]
    used = parts.load(own)
    right = fly(used, tokens, tmp_path / "right", steps=60)
    used._found["AdamW"] = partial(torch.optim.Adam, eps=1.0)  # and the decay is in the gradient
    wrong = fly(used, tokens, tmp_path / "adamw", steps=60)
    assert wrong.losses[-1] > right.losses[-1] + 0.3
    used = parts.load(own)
    get = used.get_batch
    used._found["get_batch"] = lambda *given: get(*given)[:1] * 2
    copying = fly(used, tokens, tmp_path / "batch", steps=60)
    assert copying.losses[-1] < right.losses[-1] - 0.5


@pytest.mark.xdist_group("flight record")
def test_a_card_has_its_numbers_and_its_words(record):
    other = replace(record, name="<b>autocast", samples={"after <b>": "def <script>"})
    again = flying.Record(**json.loads(json.dumps(vars(other))))
    card = ElementTree.fromstring(flight_page.card(again))
    said = ["".join(text.itertext()) for text in card.iter("{http://www.w3.org/2000/svg}text")]
    assert card.get("width") == "1200"
    assert {"<b>autocast", "It writes: def <script>"} <= set(said)
    assert "src='egg-%27/card.svg'" in flight_page.render(["egg-'/card.svg"])
    # A sentence says how large, whose parts, how long, and who was closer.
    rows = [{**r, "bet": 1.0 if r["what"] == prediction.FIRST else None} for r in record.rows]
    other = replace(record, rows=rows, failing=["adamw"])
    told = r"0.1 million parameters, 13 of 13 parts my own, \d+ \w+ on a CPU; my bet was closer "
    assert re.match(told + "than the formula in 0 of 1 lines", flight_page.summary(other))
    card = flight_page.card(other)
    assert "13 of 13 parts my own" in card
    assert "adamw (its tests fail)" in card
    assert f"→ {row([prediction.Row(**r) for r in rows], 'last loss').measured:.2f} in 150" in card


def test_a_loss_below_what_is_possible_is_suspicious():
    """A loop whose targets are the inputs has a loss that no right one has."""
    used, expected = parts.load([]), {prediction.LAST: 3.1}
    for loss, why in ((0.4, "suspicious: such a text allows no loss below 0.5"), (1.2, "the pred")):
        rows = prediction.table(used, expected, {prediction.LAST: loss}, {})
        assert row(rows, "last loss").reason.startswith(why)


@pytest.mark.parametrize("problem", [problem.id for problem in courses.load().problems])
def test_a_right_solution_tells_its_sentence(problem):
    assert hasattr(story, problem), f"flight/story.py needs a function {problem}"
    sentence = story.told(problem, StudentPackage())
    assert re.fullmatch(r"[A-Z][^\[\]]*\d[^\[\]]*\.", sentence)


def test_another_number_tells_nothing():
    """A function that counts elements instead of bytes gives no sentence."""
    wrong = SimpleNamespace(tensor_memory=SimpleNamespace(tensor_bytes=torch.Tensor.numel))
    assert story.told("tensor_memory", wrong) == ""


def test_the_text_is_the_same_each_time():
    made = training_text.make(0.2)
    assert made == training_text.make(0.2)
    assert len(made) == 200_000
    assert b"def " in made
    assert 2 < training_text.entropy(np.frombuffer(made, dtype=np.uint8)) < 4


def test_the_live_line_follows_a_log_that_grows_and_is_cut(tmp_path):
    log, out = tmp_path / "log.jsonl", io.StringIO()
    live = flying.Live(log, 220, 512, out)
    line = '{"loss": 2.5}\n'
    for steps, begun in [(5, '{"los'), (6, ""), (3, ""), (4, ""), (40, ""), (60, "")]:
        log.write_text(line * steps + begun)
        live._look()
        assert live.times[-1][0] == steps
    assert out.getvalue().startswith("step 60/220  loss 2.500  ")


def test_the_curve_fits_a_terminal():
    curve = flight_page.in_text([5.0 - i / 100 for i in range(300)]).splitlines()
    assert sum(line.count("*") for line in curve) == 60
    assert [curve[0].split()[0], curve[-2].split()[0]] == ["4.98", "2.03"]
    assert curve[-1].split() == ["0", "295"]
    odd = [3.0], [float("nan")] * 4, [1.0, float("inf")]
    assert all(map(flight_page.in_text, odd))
