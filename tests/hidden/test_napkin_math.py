"""napkin_math: bytes and parameters, devices and days, and the model that a budget should train.

Accepted on purpose: an int where a number of days is whole; (N, D) as a list; any order of operations, as floats are compared
up to rounding; any rounding of memory_bytes · (1 − reserve) to whole bytes, as it is whole here. Not asked: configurations
with sizes that are not positive. Hardware and TrainingRecipe are given and not judged: those here are made up.

Oracles are exact integer and rational arithmetic. What fits is asked relative to the student's own bytes_per_parameter, and
parts of a transformer as differences between two of the student's own counts, so that a mistake costs its own test alone.
"""

from fractions import Fraction

import pytest
import torch

from tests import expect
from tests.probes import resource_accounting as probes

# The formulas for floats have at most 9 operations, each of which rounds by at most eps/2 of its result, and at most 3
# integers that are rounded to a float first: 6 eps, and the rest for terms of second order and the oracle's own rounding.
TOLERANCE = 8 * torch.finfo(torch.float64).eps
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn]


def integer(rng, low, high):
    return int(torch.randint(low, high, (), generator=rng))


def uniform(rng, low, high):
    return float(torch.empty((), dtype=torch.float64).uniform_(low, high, generator=rng))


def recipe_of(rng, states=2):
    """The fields of a recipe with dtypes of several sizes, in random order."""
    order = [DTYPES[i] for i in torch.randperm(len(DTYPES), generator=rng).tolist()]
    return {"parameter": order[0], "gradient": order[1], "optimizer_state": tuple(order[2 : 2 + states])}


def device(rng):
    """The fields of a made-up device with one peak for every dtype."""
    return {
        "name": "made up",
        "peak_flops": dict.fromkeys(DTYPES, uniform(rng, 1e13, 9e14)),
        "memory_bandwidth": uniform(rng, 1e11, 9e12),
        "memory_bytes": integer(rng, 10**9, 10**11),
    }


def whole(got, *, of):
    """`got`, once it is known to be an int."""
    expect.value(got, got if type(got) is int else 0, of=of)
    return got


def number_of(got, *, of):
    """`got` as a Fraction, once it is known to be a finite number."""
    got = float(got) if type(got) is int and abs(got) <= 2**53 else got
    expect.number(got, got if type(got) is float else 0.0, of=of, tolerance=0.0)
    expect.that(abs(got) < 1e100, "a number beyond all reason", of=of)  # so that the oracle can go on with it
    return Fraction(got)


def check(got, expected, *, of, hint=None):
    """A number that agrees with an exact one up to rounding."""
    got = float(got) if type(got) is int and abs(got) <= 2**53 else got
    expect.number(got, float(expected), of=of, tolerance=TOLERANCE * abs(float(expected)), hint=hint)


def bytes_of(student, recipe):
    """What the student's own bytes_per_parameter says."""
    got = number_of(student.run(probes.with_recipe, function="bytes_per_parameter", recipe=recipe), of="bytes_per_parameter")
    is_size = got > 0 and got.denominator == 1
    expect.that(is_size, "a parameter takes a whole number of bytes, at least one", of="bytes_per_parameter")
    return int(got)


def max_parameters(student, recipe, memory_bytes, *reserve):
    inputs = {"recipe": recipe, "before": (memory_bytes,), "after": reserve}
    return student.run(probes.with_recipe, function="max_parameters", **inputs)


def min_devices(student, recipe, num_parameters, memory_bytes, *reserve):
    inputs = {"recipe": recipe, "before": (num_parameters,), "after": (memory_bytes, *reserve)}
    return student.run(probes.with_recipe, function="min_devices", **inputs)


def days(student, n, d, hw, dtype, num_devices, mfu):
    inputs = {"hardware": hw, "before": (n, d), "after": (dtype, num_devices, mfu)}
    return student.run(probes.with_hardware, function="training_days", **inputs)


def parameters(student, sizes, **options):
    """What transformer_parameters says, once it is known to be an int."""
    got = student.run(probes.transformer_parameters, config={**sizes, **options})
    return whole(got, of="transformer_parameters")


def pair(got):
    """N and D as exact numbers, once they are known to be two finite floats above 0."""
    expect.that(got is not None, "returned None: is a `return` missing?", of="compute_optimal")
    two = type(got) in (tuple, list) and len(got) == 2
    expect.that(two, f"expected two floats, N and D, got {expect.type_name(got)}", of="compute_optimal")
    for number in got:
        is_float = type(number) is float
        expect.that(is_float, f"expected two floats, got {expect.type_name(number)}", of="compute_optimal", hint="unrounded")
    n, d = (number_of(number, of="compute_optimal") for number in got)
    expect.that(n > 0 and d > 0, "N and D are not both above 0", of="compute_optimal")
    return n, d


def transformer_sizes(rng):
    """Distinct sizes of a small model."""
    heads = integer(rng, 2, 9)
    return {
        "vocab_size": integer(rng, 1000, 60000),
        "context_length": integer(rng, 100, 900),
        "num_layers": integer(rng, 2, 20),
        "d_model": heads * integer(rng, 10, 50),
        "num_heads": heads,
        "d_ff": integer(rng, 1000, 3000),
    }


@pytest.mark.points(2)
def test_bytes_of_parameter_gradient_and_states(student, rng):
    """A parameter takes the bytes of itself, of its gradient and of each number that the optimizer keeps, by dtype."""
    adamw = {"parameter": torch.float32, "gradient": torch.float32, "optimizer_state": (torch.float32,) * 2}
    for recipe in [adamw, *(recipe_of(rng, states) for states in (0, 1, 2, 3))]:
        got = student.run(probes.with_recipe, function="bytes_per_parameter", recipe=recipe)
        expected = sum(d.itemsize for d in (recipe["parameter"], recipe["gradient"], *recipe["optimizer_state"]))
        expect.value(got, expected, of="bytes_per_parameter", hint="one number for each dtype that the recipe lists")


def test_bytes_of_the_master_copy(student, rng):
    """A master copy is kept beside the parameter, so its bytes are added."""
    recipe = recipe_of(rng)
    without = bytes_of(student, recipe)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, recipe["parameter"]):
        got = student.run(probes.with_recipe, function="bytes_per_parameter", recipe={**recipe, "master": dtype})
        expect.value(got, without + dtype.itemsize, of="bytes_per_parameter", hint="is the master copy counted?")


@pytest.mark.points(2)
def test_max_parameters_is_rounded_down(student, rng):
    """As many parameters fit as have room as a whole."""
    recipe = recipe_of(rng)
    size = bytes_of(student, recipe)
    for count in (integer(rng, 2, 9), integer(rng, 10**9, 10**10)):
        for rest in {0, 1, size // 2, size - 1}:
            got = max_parameters(student, recipe, size * count + rest)
            expect.value(got, count, of="max_parameters", hint="a parameter that fits by half does not fit")
    got = max_parameters(student, recipe, max(1, size - 1))
    expect.value(got, max(1, size - 1) // size, of="max_parameters")


@pytest.mark.points(2)
def test_min_devices_is_rounded_up(student, rng):
    """Devices that are full are enough; one parameter more takes one device more."""
    recipe = recipe_of(rng)
    size = bytes_of(student, recipe)
    each, devices = integer(rng, 10**6, 10**9), integer(rng, 2, 900)
    for count, expected in [
        (1, 1),
        (each, 1),
        (each + 1, 2),
        (each * devices - 1, devices),
        (each * devices, devices),
        (each * devices + 1, devices + 1),
        (each * devices + each // 2, devices + 1),
    ]:
        got = min_devices(student, recipe, count, size * each)
        expect.value(got, expected, of="min_devices", hint="what is not held by the last full device takes one more")


def test_min_devices_shares_the_state_byte_by_byte(student, rng):
    """Devices are filled to the last byte: memory that no whole parameter fits into is not lost on each of them."""
    recipe = recipe_of(rng)
    size = bytes_of(student, recipe)
    for devices in (integer(rng, 2, 9), integer(rng, 10, 99)):
        memory = size * integer(rng, 100, 10**9) + size - 1
        got = min_devices(student, recipe, devices * memory // size, memory)
        expect.value(got, devices, of="min_devices", hint="divide the bytes of all parameters by the bytes of a device")


def test_counts_are_exact_past_2_to_the_53(student, rng):
    """Counts are integers, so they are exact however large they are."""
    recipe = recipe_of(rng)
    size = bytes_of(student, recipe)
    count = 2 * integer(rng, 2**55, 2**56) + 1  # odd, so that no float past 2**53 is it
    got = max_parameters(student, recipe, size * count)
    expect.value(got, count, of="max_parameters", hint="which step rounds to a float?")
    got = min_devices(student, recipe, 3 * count - 1, 3 * size)
    expect.value(got, count, of="min_devices", hint="which step rounds to a float?")


@pytest.mark.points(2)
def test_reserve_is_kept_free(student, rng):
    """A reserve of a quarter leaves three quarters of each device's memory."""
    recipe = recipe_of(rng)
    for reserve in (0.25, 0.75, 0.125, 0.5, 0.0):
        memory = 8 * integer(rng, 10**6, 10**9)
        usable = int(memory * (1 - reserve))  # exact, as the memory is a multiple of 8
        got, alone = max_parameters(student, recipe, memory, reserve), max_parameters(student, recipe, usable)
        expect.value(got, whole(alone, of="max_parameters"), of="max_parameters", hint="usable = memory · (1 − reserve)")
        count = integer(rng, 10**10, 10**12)
        got, alone = min_devices(student, recipe, count, memory, reserve), min_devices(student, recipe, count, usable)
        expect.value(got, whole(alone, of="min_devices"), of="min_devices", hint="usable = memory · (1 − reserve)")


def test_reserve_is_a_fraction(student, rng):
    """A reserve below 0, or of everything or more, is a ValueError that names reserve."""
    recipe = recipe_of(rng)
    max_parameters(student, recipe, 10**9, 0.5)
    min_devices(student, recipe, 10**9, 10**9, 0.5)
    for reserve in (-0.25, 1.0, 20.0):
        with expect.raises(ValueError, of="max_parameters", when=f"reserve is {reserve}", naming="reserve"):
            max_parameters(student, recipe, 10**9, reserve)
        with expect.raises(ValueError, of="min_devices", when=f"reserve is {reserve}", naming="reserve"):
            min_devices(student, recipe, 10**9, 10**9, reserve)


@pytest.mark.points(3)
def test_training_days(student, rng):
    """A run takes 6 FLOPs for each parameter and token, at the share of all devices' peak that the MFU says."""
    for mfu in (uniform(rng, 0.1, 0.9), 0.25, 1.0):
        hw, n, d = device(rng), integer(rng, 10**8, 10**11), integer(rng, 10**9, 10**13)
        num_devices = integer(rng, 2, 5000)
        speed = num_devices * Fraction(mfu) * Fraction(hw["peak_flops"][torch.bfloat16])
        got = days(student, n, d, hw, torch.bfloat16, num_devices, mfu)
        hint = "6ND FLOPs by FLOP/s that are reached makes seconds"
        check(got, 6 * n * d / speed / 86400, of="training_days", hint=hint)


def test_training_days_take_the_peak_of_the_dtype(student, rng):
    """The days follow from the peak of the dtype that is given, whatever the device's other peaks are."""
    hw = device(rng)
    run = (10**9, integer(rng, 10**10, 10**11))
    for dtype, peak in hw["peak_flops"].items():
        others = {**dict.fromkeys(DTYPES, 2 * peak), torch.int8: peak / 2, dtype: peak}
        got = days(student, *run, {**hw, "peak_flops": others}, dtype, 8, 0.5)
        alone = number_of(days(student, *run, hw, dtype, 8, 0.5), of="training_days")
        check(got, alone, of="training_days", hint="hw.peak_flops[dtype]")


def test_training_days_refuses_a_dtype_without_a_peak(student, rng):
    """A dtype that the device has no peak for is a ValueError that names dtype."""
    hw = device(rng)
    days(student, 10**9, 10**10, hw, torch.float32, 8, 0.5)
    for dtype in (torch.float8_e5m2, torch.int8):
        with expect.raises(ValueError, of="training_days", when="hw has no peak for the dtype", naming="dtype"):
            days(student, 10**9, 10**10, hw, dtype, 8, 0.5)


def test_training_days_refuses_an_mfu_that_is_none(student, rng):
    """An MFU of 0, below it or above 1, a percentage for one, is a ValueError that names mfu."""
    hw = device(rng)
    days(student, 10**9, 10**10, hw, torch.bfloat16, 8, 1.0)
    for mfu in (0.0, -0.5, 1.01, 40.0):
        with expect.raises(ValueError, of="training_days", when=f"mfu is {mfu}", naming="mfu"):
            days(student, 10**9, 10**10, hw, torch.bfloat16, 8, mfu)


def test_counts_below_one_are_refused(student, rng):
    """No parameters, tokens, devices or bytes are a ValueError that names the argument."""
    recipe, hw = recipe_of(rng), device(rng)
    max_parameters(student, recipe, 10**9)
    min_devices(student, recipe, 10**9, 10**9)
    days(student, 10**9, 10**9, hw, torch.bfloat16, 8, 0.5)
    for bad in (0, -(10**9)):
        with expect.raises(ValueError, of="max_parameters", when=f"memory_bytes is {bad}", naming="memory_bytes"):
            max_parameters(student, recipe, bad)
        for name, counts in [("num_parameters", (bad, 10**9)), ("memory_bytes", (10**9, bad))]:
            with expect.raises(ValueError, of="min_devices", when=f"{name} is {bad}", naming=name):
                min_devices(student, recipe, *counts)
        for name, (n, d, num_devices) in [
            ("num_parameters", (bad, 10**9, 8)),
            ("num_tokens", (10**9, bad, 8)),
            ("num_devices", (10**9, 10**9, bad)),
        ]:
            with expect.raises(ValueError, of="training_days", when=f"{name} is {bad}", naming=name):
                days(student, n, d, hw, torch.bfloat16, num_devices, 0.5)


@pytest.mark.points(2)
def test_parameters_of_a_layer(student, rng):
    """A layer adds four d_model × d_model matrices of attention and two d_model × d_ff matrices, and nothing else."""
    for options in ({}, {"tied_embeddings": True}):
        sizes, more = transformer_sizes(rng), integer(rng, 1, 20)
        deeper = {**sizes, "num_layers": sizes["num_layers"] + more}
        got = parameters(student, deeper, **options) - parameters(student, sizes, **options)
        d, ff = sizes["d_model"], sizes["d_ff"]
        hint = "by how much does the count grow with each layer? no biases, no gains"
        expect.value(got, more * (4 * d * d + 2 * d * ff), of="transformer_parameters", hint=hint)


def test_parameters_of_a_gated_network(student, rng):
    """A gated feed-forward network has a third d_model × d_ff matrix in each layer."""
    sizes = transformer_sizes(rng)
    got = parameters(student, sizes, gated_ffn=True) - parameters(student, sizes)
    expected = sizes["num_layers"] * sizes["d_model"] * sizes["d_ff"]
    expect.value(got, expected, of="transformer_parameters", hint="a gate is one matrix more, of the size asked for")


@pytest.mark.points(2)
def test_parameters_of_the_embeddings(student, rng):
    """Tied embeddings are one vocab_size × d_model matrix, untied ones two, and positions take none."""
    sizes = transformer_sizes(rng)
    for tied, matrices in [(True, 1), (False, 2)]:
        once, twice = (
            parameters(student, {**sizes, "num_layers": n * sizes["num_layers"]}, tied_embeddings=tied) for n in (1, 2)
        )
        expected = matrices * sizes["vocab_size"] * sizes["d_model"]
        hint = "what is left without layers: tokens in, and tokens out"
        expect.value(2 * once - twice, expected, of="transformer_parameters", hint=hint)


@pytest.mark.points(2)
def test_compute_optimal_spends_the_budget(student, rng):
    """6 · N · D is the budget."""
    for ratio in ((), (uniform(rng, 5, 15),), (uniform(rng, 30, 200),)):
        flops = 10 ** (uniform(rng, 15, 26) if ratio else uniform(rng, 1, 3))
        n, d = pair(student.resource_accounting.compute_optimal(flops, *ratio))
        near = abs(6 * n * d - Fraction(flops)) <= Fraction(TOLERANCE) * Fraction(flops)
        expect.that(near, "6 · N · D is not flops", of="compute_optimal", hint="put D = ratio · N into 6ND = flops")


def test_compute_optimal_has_so_many_tokens_per_parameter(student, rng):
    """The model is trained on tokens_per_parameter tokens for each parameter, 20 by default."""
    for ratio in ((), (uniform(rng, 5, 15),), (uniform(rng, 30, 200),)):
        n, d = pair(student.resource_accounting.compute_optimal(10 ** uniform(rng, 15, 26), *ratio))
        expected = n * Fraction(*ratio or (20,))
        near = abs(d - expected) <= Fraction(TOLERANCE) * expected
        expect.that(near, "D is not tokens_per_parameter · N", of="compute_optimal", hint="(N, D), in this order")


def test_compute_optimal_refuses_no_budget(student):
    """A budget or a ratio that is not above 0 is a ValueError that names the argument."""
    student.resource_accounting.compute_optimal(1e20, 10.0)
    for bad in (0.0, -1e20):
        with expect.raises(ValueError, of="compute_optimal", when=f"flops is {bad}", naming="flops"):
            student.resource_accounting.compute_optimal(bad)
        with expect.raises(
            ValueError, of="compute_optimal", when=f"tokens_per_parameter is {bad}", naming="tokens_per_parameter"
        ):
            student.resource_accounting.compute_optimal(1e20, bad)
