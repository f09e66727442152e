"""Common mistakes fail a public test, and right solutions pass all of them."""

import importlib.util
import json
import subprocess
import sys

import pytest

from grader.course import courses
from grader.solutions import mistakes
from grader.solutions.mistakes import Change, Mistake
from tests.grader.warm_python import python

COURSE = courses.load()
# The mistakes that the handout names first or that surprised students. A new problem may have none.
TOLD = {
    "tensor_memory": ["four_bytes_an_element"],
    "storage_views": ["storage_offset_forgotten", "size_one_in_the_way", "windows_copied"],
    "precision": ["spec_e4m3fn_as_ieee"],
    "einops": ["split_d_before_heads", "mean_times_mask"],
    "flop_formulas": ["multiply_add_is_one"],
    "flop_counter": ["class_level_dict"],
    "roofline": ["seconds_summed"],
    "napkin_math": ["master_forgotten"],
    "autograd": ["linear_upstream_ignored", "matmul_upstream_ignored"],
    "linear": ["weight_transposed"],
    "optimizers": ["sgd_dampened"],
    "adamw": ["eps_inside_root", "eps_scaled_by_bias_correction", "no_bias_correction"],
    "gradient_clipping": ["square_forgotten", "root_forgotten"],
    "lr_schedule": ["warmup_from_min", "warmup_one_ahead"],
    "get_batch": ["last_start_missing", "one_start_too_many", "whole_dataset_converted"],
    "checkpoint": ["parameters_only", "model_put_back_only", "pickle_trusted"],
    "training_loop": ["first_group_only", "learning_rate_after_the_step", "no_zero_grad"],
    "activation_checkpointing": ["each_tensor_counted"],
    "gpu_memory": ["reserved_for_allocated"],
    "gpu_timing": ["clock_of_the_cpu"],
    "gpu_prefetch": ["no_wait"],
    "gpu_mixed_precision": ["half_precision_weights"],
}
# Of all known mistakes. Many of them are subtle and cost little.
SHARE = 0.6


def predicted(root, *arguments):
    """The JSON output of scripts/predicted.py."""
    command = [python(), root / "scripts" / "predicted.py", *arguments, "--json"]
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=True, timeout=900
    )
    return json.loads(done.stdout)


def test_a_mistake_that_does_not_fit_is_named_and_the_others_are_tried(root, monkeypatch):
    """The script tries every mistake that it can try."""
    path = root / "scripts" / "predicted.py"
    spec = importlib.util.spec_from_file_location("predicted", path)
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "fails", lambda test, package: not package.endswith("_right"))
    problem = COURSE.problem("linear")
    gone = Mistake(problem=problem.id, name="gone", says="-", changes=(Change("no such text", ""),))
    known = mistakes.load(COURSE.mistakes, problem.id)[0]
    found, broken = script.outcomes(COURSE, problem, [gone, known])
    assert found == {known.name: True}
    assert broken == [
        "linear.toml: mistake gone, in the reference: expected `old` exactly once, got `no such "
        "text` 0 times"
    ]


@pytest.mark.slow
def test_what_commonly_goes_wrong_fails_a_public_test(root):
    """Students see the most common mistakes before they hand in."""
    names = sorted({name for names in TOLD.values() for name in names})
    found = predicted(root, *TOLD, "--only", *names)
    untold = [
        f"{problem}: {name}"
        for problem, names in TOLD.items()
        for name in names
        if not found[problem].get(name)
    ]
    assert untold == []


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("half", [0, 1])
def test_no_right_solution_fails_a_public_test(root, half):
    """Every variant of the reference passes every public test."""
    found = predicted(root, *[p.id for p in COURSE.problems[half::2]], "--right")
    assert [(p, name) for p, of in found.items() for name, fails in of.items() if fails] == []
    assert all(found.values())


@pytest.mark.proof
@pytest.mark.slow
def test_most_known_mistakes_fail_a_public_test(root):
    """Hidden tests check more, but most mistakes that cost points show in the public tests.

    In each problem, some do.
    """
    found = predicted(root)
    assert [problem for problem, of in found.items() if not any(of.values())] == []
    outcomes = [fails for of in found.values() for fails in of.values()]
    assert sum(outcomes) >= SHARE * len(outcomes)
