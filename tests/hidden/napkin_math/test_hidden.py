"""napkin_math: bytes and parameters, devices and days, and the best model size for a compute
budget.

A float with a whole value fails only the one test for integers. Any order of operations is
accepted, because numbers are compared to within 1e-12, and so are both readings of a reserve such
as 0.1, because all reserves here are exact in binary. Hardware and TrainingRecipe are given, not
judged; these tests use made-up ones. promises/napkin_math.toml lists what the stubs leave open.

The oracles use exact integer and rational arithmetic. What fits in memory is judged relative to the
student's own bytes_per_parameter, and the parts of a transformer as differences between two of the
student's own counts, so that a mistake fails only its own test.
"""

import math
from fractions import Fraction

import pytest
import torch

from kit import expect
from kit.student import call_each
from tests.probes import resource_accounting as probes

TOLERANCE = 1e-12  # relative; a formula that uses logarithms is accurate to about 34 eps
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn]
OTHERS = [torch.int8, torch.int64, torch.bool, torch.complex64, torch.int16]
BIG = 2**53 + 1  # the first int that is not a float


def integer(rng, low, high):
    return int(torch.randint(low, high, (), generator=rng))


def uniform(rng, low, high):
    return float(torch.empty((), dtype=torch.float64).uniform_(low, high, generator=rng))


def recipe_of(rng, states=2, dtypes=DTYPES):
    """The fields of a recipe with dtypes of several sizes, in random order."""
    order = [dtypes[i] for i in torch.randperm(len(dtypes), generator=rng).tolist()]
    return {
        "parameter": order[0],
        "gradient": order[1],
        "optimizer_state": tuple(order[2 : 2 + states]),
    }


def device(rng):
    """The fields of a made-up device with one peak for every dtype."""
    return {
        "name": "made up",
        "peak_flops": dict.fromkeys(DTYPES, uniform(rng, 1e13, 9e14)),
        "memory_bandwidth": uniform(rng, 1e11, 9e12),
        "memory_bytes": integer(rng, 10**9, 10**11),
    }


def number_of(got, *, of):
    """Check that `got` is a finite number, and return it as a Fraction."""
    expect.number(got, got, of=of, tolerance=0.0)
    # The oracle uses this number in later computations.
    expect.that(abs(got) < 1e100, "the number is absurdly large", of=of)
    return Fraction(got)


def check(got, expected, *, of, hint=None):
    """Check that a number agrees with an exact one up to rounding."""
    expect.number(
        got, float(expected), of=of, tolerance=TOLERANCE * abs(float(expected)), hint=hint
    )


def check_count(got, expected, *, of, hint=None):
    """Check a count. A float with a whole value is fine: another test checks the type."""
    expect.number(got, float(expected), of=of, tolerance=0.0, hint=hint)


def bytes_of(student, recipe):
    """The student's own bytes_per_parameter."""
    return bytes_of_each(student, [recipe])[0]


def bytes_of_each(student, recipes):
    """The student's own bytes_per_parameter of each recipe."""
    of, sizes = "bytes_per_parameter", []
    for answer in each_recipe(student, of, [((), recipe, ()) for recipe in recipes]):
        got = number_of(answer, of=of)
        is_size = 0 < got < 1000 and got.denominator == 1
        expect.that(is_size, "expected a whole number of bytes between 1 and 999", of=of)
        sizes.append(int(got))
    return sizes


def max_parameters(student, recipe, memory_bytes, *reserve):
    inputs = {"recipe": recipe, "before": (memory_bytes,), "after": reserve}
    return student.run(probes.with_recipe, function="max_parameters", **inputs)


def min_devices(student, recipe, num_parameters, memory_bytes, *reserve):
    inputs = {"recipe": recipe, "before": (num_parameters,), "after": (memory_bytes, *reserve)}
    return student.run(probes.with_recipe, function="min_devices", **inputs)


def each_recipe(student, function, cases):
    """The answers for cases of (before, recipe, after), one after the other."""
    return student.run(probes.each_case, function=function, kind="recipe", cases=cases)


def days(student, n, d, hw, dtype, num_devices, mfu):
    inputs = {"hardware": hw, "before": (n, d), "after": (dtype, num_devices, mfu)}
    return student.run(probes.with_hardware, function="training_days", **inputs)


def parameters(student, sizes, **options):
    """The student's transformer_parameters, as an exact number."""
    got = student.run(probes.transformer_parameters, config={**sizes, **options})
    return number_of(got, of="transformer_parameters")


def pair(got):
    """Check that `got` is two numbers above 0, and return N and D as exact numbers."""
    expect.kind(got, (tuple, list), of="compute_optimal")
    expect.that(
        len(got) == 2, f"expected two numbers, N and D, got {len(got)}", of="compute_optimal"
    )
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


@pytest.mark.core
@pytest.mark.points(2)
def test_bytes_of_parameter_gradient_and_states(student, rng):
    """A parameter takes the bytes of itself, its gradient and each optimizer state, by dtype."""
    adamw = {
        "parameter": torch.float32,
        "gradient": torch.float32,
        "optimizer_state": (torch.float32,) * 2,
    }
    recipes = [recipe_of(rng, states) for states in (0, 1, 2, 3)]
    base = recipes[2]  # its dtypes, and others in one place each
    recipes += [{**base, name: torch.int64} for name in ("parameter", "gradient")]
    recipes += [{**base, name: torch.uint8} for name in ("parameter", "gradient")]
    states = (*base["optimizer_state"], torch.int16, torch.bool, torch.float32)
    recipes += [{**base, "optimizer_state": states[:n]} for n in (3, 5)]
    recipes += [{**base, "optimizer_state": (dtype,) * 2} for dtype in (torch.int8, torch.int64)]
    recipes = [adamw, *recipes, recipe_of(rng, 3, OTHERS)]
    answers = each_recipe(student, "bytes_per_parameter", [((), recipe, ()) for recipe in recipes])
    for got, recipe in zip(answers, recipes, strict=True):
        expected = sum(
            d.itemsize
            for d in (recipe["parameter"], recipe["gradient"], *recipe["optimizer_state"])
        )
        check_count(
            got,
            expected,
            of="bytes_per_parameter",
            hint="one number for each dtype that the recipe lists",
        )


def test_bytes_of_the_master_copy(student, rng):
    """A master copy is kept in addition to the parameter, so its bytes are added."""
    cases = [(recipe_of(rng), dtype) for dtype in (torch.float32, torch.float64, torch.complex64)]
    for states in (0, 1):
        recipe = recipe_of(rng, states)
        cases += [(recipe, recipe[name]) for name in ("parameter", "gradient")]
    for recipe, dtype in cases:
        without = bytes_of(student, recipe)
        got = student.run(
            probes.with_recipe, function="bytes_per_parameter", recipe={**recipe, "master": dtype}
        )
        check_count(
            got,
            without + dtype.itemsize,
            of="bytes_per_parameter",
            hint="is the master copy counted?",
        )


@pytest.mark.core
@pytest.mark.points(2)
def test_max_parameters_is_rounded_down(student, rng):
    """A parameter fits only if all of its bytes fit."""
    recipe = recipe_of(rng)
    size = bytes_of(student, recipe)
    counts = (0, 1, integer(rng, 2, 9), integer(rng, 10**9, 10**10))
    some = [(count, rest) for count in counts for rest in {0, 1, size // 2, size - 1}]
    cases = [((size * count + rest,), recipe, ()) for count, rest in some]
    answers = each_recipe(student, "max_parameters", cases)
    for got, (count, _) in zip(answers, some, strict=True):
        hint = "a parameter of which half fits does not fit"
        check_count(got, count, of="max_parameters", hint=hint)
    # The same memory for parameters of another size.
    count, rest = some[-1]
    states = (*recipe["optimizer_state"], torch.float32)
    larger = {**recipe, "optimizer_state": states, "master": torch.float64}
    size = bytes_of(student, larger)
    got = max_parameters(student, larger, size * count + rest)
    check_count(got, count + rest // size, of="max_parameters", hint="the bytes of this recipe")
    got = max_parameters(student, recipe, size * count + rest)
    expected = (size * count + rest) // bytes_of(student, recipe)
    check_count(got, expected, of="max_parameters", hint="the bytes of this recipe")


@pytest.mark.core
@pytest.mark.points(2)
def test_min_devices_is_rounded_up(student, rng):
    """Devices that are exactly full are enough; any remainder needs one more device."""
    recipe = recipe_of(rng)
    size = bytes_of(student, recipe)
    each, devices = integer(rng, 10**6, 10**9), integer(rng, 2, 900)
    for count, expected in [
        (0, 0),
        (1, 1),
        (each, 1),
        (each + 1, 2),
        (each * devices, devices),
        (each * devices + 1, devices + 1),
        (each * devices + each // 2, devices + 1),
    ]:
        got = min_devices(student, recipe, count, size * each)
        check_count(
            got,
            expected,
            of="min_devices",
            hint="a remainder needs one more device, even if it does not fill that device",
        )
    # The same parameters in another recipe.
    states = (*recipe["optimizer_state"], torch.float32)
    larger = {**recipe, "optimizer_state": states, "master": torch.float64}
    got = min_devices(student, larger, each * devices + each // 2, size * each)
    total = bytes_of(student, larger) * (each * devices + each // 2)
    check_count(got, -(-total // (size * each)), of="min_devices", hint="the bytes of this recipe")


def test_only_the_result_is_rounded(student, rng):
    """Devices share the parameters exactly: neither bytes nor parameters of each are rounded."""
    recipe = recipe_of(rng)
    size = bytes_of(student, recipe)
    # Both sides are the same quotient. On the right, nothing but the quotient could be rounded.
    some = size * integer(rng, 5, 50) + 1
    cases = [(0, 1), (0, some)]
    cases += [(eighths, 8 * integer(rng, 5, 50) + 1) for eighths in (1, 2, 3, 5, 6, 7)]
    asked = []
    for eighths, memory in cases:
        for count in (memory * (8 - eighths) * integer(rng, 500, 900), integer(rng, 10**5, 10**6)):
            asked += [((count,), recipe, (memory, eighths / 8))]
            asked += [((8 * count * size,), recipe, (size * memory * (8 - eighths),))]
    answers = each_recipe(student, "min_devices", asked)
    for got, whole in zip(answers[::2], answers[1::2], strict=True):
        expected = number_of(whole, of="min_devices")
        check_count(got, expected, of="min_devices", hint="round up once, at the end")
    # Of a usable memory of a whole number minus 1/8, the last parameter does not fit.
    memory = 8 * size * integer(rng, 5, 50) - 1
    got = max_parameters(student, recipe, memory, 7 / 8)
    expected = number_of(max_parameters(student, recipe, memory // 8), of="max_parameters")
    check_count(got, expected, of="max_parameters", hint="round down once, at the end")
    one, two = (min_devices(student, recipe, n * size, size * size) for n in (1, 1 + size))
    differ = number_of(one, of="min_devices") < number_of(two, of="min_devices")
    expect.that(differ, "more parameters do not need more devices", of="min_devices")


@pytest.mark.points(2)
def test_reserve_is_kept_free(student, rng):
    """The reserve is a fraction of each device's memory that stays free."""
    recipe, hint = recipe_of(rng), "usable = memory_bytes · (1 − reserve)"
    fits, needs = [], []
    for reserve in (2.0**-24, 1 - 2.0**-24, 2.0**-17, 0.25, 0.75, 0.125, 0.5, 0, 0.0):
        memory, count = 2**24 * integer(rng, 10**3, 10**5), integer(rng, 10**11, 10**12)
        usable = int(memory * (1 - reserve))  # exact, as the memory is a multiple of 2**24
        fits += [((memory,), recipe, (reserve,)), ((usable,), recipe, ())]
        needs += [((count,), recipe, (memory, reserve)), ((count,), recipe, (usable,))]
    fits = each_recipe(student, "max_parameters", fits)
    needs = each_recipe(student, "min_devices", needs)
    for fit, fit_alone, many, many_alone in zip(
        fits[::2], fits[1::2], needs[::2], needs[1::2], strict=True
    ):
        check_count(fit, number_of(fit_alone, of="max_parameters"), of="max_parameters", hint=hint)
        check_count(many, number_of(many_alone, of="min_devices"), of="min_devices", hint=hint)
    for all_of_it in (1, 1.0):
        got = max_parameters(student, recipe, memory, all_of_it)
        check_count(got, 0, of="max_parameters", hint="a reserve of 1 leaves no memory")
    # The reserve of 0 comes last, so that a constant cannot pass.
    half_fit, half_many = (
        max_parameters(student, recipe, memory, 0.5),
        min_devices(student, recipe, count, memory, 0.5),
    )
    expect.that(
        number_of(half_fit, of="max_parameters") < fit,
        "a reserve changes nothing",
        of="max_parameters",
        hint=hint,
    )
    expect.that(
        number_of(half_many, of="min_devices") > many,
        "a reserve changes nothing",
        of="min_devices",
        hint=hint,
    )


@pytest.mark.core
@pytest.mark.points(4)
def test_training_days(student, rng):
    """A run takes 6·N·D FLOPs at a speed of num_devices · MFU · peak FLOP/s."""
    runs = []
    for n, d in [(10**4, 10**6), (10**9, 10**11), (10**12, 10**14)]:
        for mfu in (uniform(rng, 0.1, 0.9), uniform(rng, 0.001, 0.01)):
            n, d = integer(rng, n, 9 * n), integer(rng, d, 9 * d)
            runs += [(n, d, integer(rng, 2, 5000), mfu)]
    n, d = integer(rng, 10**6, 10**7), integer(rng, 10**8, 10**9)
    runs += [(n, d, 1, 1.0), (n, d, 8, 1), (n, d, 8, 1e-9), (BIG, d, 8, 0.5), (n, BIG, 8, 0.5)]
    runs += [(1, d, 8, 0.5), (n, 1, 8, 0.5), (0, d, 8, 0.5), (n, 0, 8, 0.5)]
    runs = [(*run, device(rng)) for run in runs]
    hw, first = device(rng), (n, d, 8, 0.5)
    one_changed = [first, (n + 1, d, 8, 0.5), (n, d + 1, 8, 0.5), (n, d, 9, 0.5), (n, d, 8, 0.25)]
    runs += [(*run, hw) for run in one_changed] + [(*first, device(rng))]
    for n, d, num_devices, mfu, hw in runs:
        speed = num_devices * Fraction(mfu) * Fraction(hw["peak_flops"][torch.bfloat16])
        got = days(student, n, d, hw, torch.bfloat16, num_devices, mfu)
        hint = "6ND FLOPs divided by the achieved FLOP/s gives seconds; the result is not rounded"
        check(got, 6 * n * d / speed / 86400, of="training_days", hint=hint)


def test_training_days_take_the_peak_of_the_dtype(student, rng):
    """The days depend only on the peak of the given dtype; a dtype without a peak is an error."""
    hw, hint = device(rng), "hw.peak_flops[dtype]"
    run = (10**9, integer(rng, 10**10, 10**11))
    for dtype, peak in hw["peak_flops"].items():
        others = {**dict.fromkeys(DTYPES, 2 * peak), torch.int8: peak / 2, dtype: peak}
        inputs = {"hardware": {**hw, "peak_flops": others}, "befores": [run]}
        after = (dtype, 8, 0.5)
        (got,) = student.run(
            probes.with_hardware_each, function="training_days", after=after, **inputs
        )
        alone = number_of(days(student, *run, hw, dtype, 8, 0.5), of="training_days")
        check(got, alone, of="training_days", hint=hint)
    twice = number_of(
        days(student, *run, {**hw, "peak_flops": {dtype: 2 * peak}}, dtype, 8, 0.5),
        of="training_days",
    )
    expect.that(
        twice != alone, "twice the peak does not change the days", of="training_days", hint=hint
    )
    del hw["peak_flops"][torch.bfloat16]
    for n, missing in [(run[0], torch.float8_e5m2), (0, torch.float8_e5m2), (1, torch.bfloat16)]:
        with expect.raises(
            (ValueError, KeyError),
            of="training_days",
            when="hw has no peak for the dtype",
            hint=hint,
        ):
            days(student, n, run[1], hw, missing, 8, 0.5)


def test_percentages_are_refused(student, rng):
    """A reserve or an MFU above 1, such as 20 for 20 %, raises a ValueError: both are fractions."""
    recipe, hw = recipe_of(rng), device(rng)

    def train(share, n=10**9, d=10**10, num_devices=8):
        return days(student, n, d, hw, torch.bfloat16, num_devices, share)

    def fit(share, memory=10**9):
        return max_parameters(student, recipe, memory, share)

    def need(share, count=10**9):
        return min_devices(student, recipe, count, 10**9, share)

    # Neither an amount of 0 nor a single device makes a percentage valid.
    for of, ask, amounts in [
        ("max_parameters", fit, [(0,)]),
        ("min_devices", need, [(0,), (1,)]),
        ("training_days", train, [(0,), (10**9, 0), (10**9, 10**10, 1)]),
    ]:
        with expect.right_call("a fraction of 0.5"):
            expect.that(number_of(ask(0.5), of=of) > 0, "not above 0", of=of)
        when = f"{'mfu' if of == 'training_days' else 'reserve'} is a percentage"
        shares = [(percent,) for percent in (1.0 + 2.0**-52, 1.5, 2, 20, 40.0, BIG)]
        for arguments in shares + [(30, *amount) for amount in amounts]:
            with expect.raises(ValueError, of=of, when=when):
                ask(*arguments)


@pytest.mark.core
@pytest.mark.points(2)
def test_parameters_of_a_layer(student, rng):
    """A layer adds exactly four d_model × d_model matrices and two d_model × d_ff matrices."""
    cases = [(transformer_sizes(rng), {}), (transformer_sizes(rng), {"tied_embeddings": True})]
    width = integer(rng, 2, 90)
    cases += [(dict.fromkeys(transformer_sizes(rng), width), {})]  # all sizes are equal
    some = {"num_layers": 0, "d_ff": 0, "vocab_size": 0, "num_heads": 1, "context_length": 1}
    base = transformer_sizes(rng)
    cases += [({**base, name: size}, {}) for name, size in some.items()]
    cases += [({**base, "d_ff": base["d_ff"] + 1}, {})]
    for sizes, options in cases:
        more = integer(rng, 1, 20)
        deeper = {**sizes, "num_layers": sizes["num_layers"] + more}
        got = parameters(student, deeper, **options) - parameters(student, sizes, **options)
        d, ff = sizes["d_model"], sizes["d_ff"]
        hint = "by how much does the count grow with each layer? no biases, no gains"
        check_count(
            float(got), more * (4 * d * d + 2 * d * ff), of="transformer_parameters", hint=hint
        )


def test_parameters_of_a_gated_network(student, rng):
    """A gated feed-forward network has a third d_model × d_ff matrix in each layer."""
    for options in ({}, {"tied_embeddings": True}):
        sizes = transformer_sizes(rng)
        gated = parameters(student, sizes, gated_ffn=True, **options)
        expected = sizes["num_layers"] * sizes["d_model"] * sizes["d_ff"]
        check_count(
            float(gated - parameters(student, sizes, **options)),
            expected,
            of="transformer_parameters",
            hint="a gate is one more matrix of size d_model × d_ff",
        )


def test_configs_of_another_class(student, rng):
    """A configuration may be any object with the eight fields; it need not be a dataclass."""
    sizes = {**transformer_sizes(rng), "gated_ffn": True, "tied_embeddings": False}
    counts = [parameters(student, sizes), parameters(student, sizes, tied_embeddings=True)]
    expect.that(counts[0] > counts[1], "tying saves nothing", of="transformer_parameters")
    for kind in ("namespace", "named tuple", "slots"):
        got = student.run(probes.transformer_parameters, config=sizes, kind=kind)
        check_count(got, counts[0], of="transformer_parameters", hint="read the fields by name")


@pytest.mark.points(2)
def test_parameters_of_the_embeddings(student, rng):
    """Embeddings are one vocab_size × d_model matrix if tied, else two, and none for positions."""
    sizes, width = transformer_sizes(rng), integer(rng, 2, 90)
    equal = dict.fromkeys(sizes, width)
    cases = [(sizes, True, 1), (sizes, False, 2), (equal, True, 1), (equal, False, 2)]
    cases += [({**sizes, "vocab_size": 1}, True, 1), ({**sizes, "context_length": 0}, False, 2)]
    for sizes, tied, matrices in cases:
        deeper = {**sizes, "num_layers": 2 * sizes["num_layers"]}
        once, twice = (
            parameters(student, config, tied_embeddings=tied) for config in (sizes, deeper)
        )
        expected = matrices * sizes["vocab_size"] * sizes["d_model"]
        hint = "the parameters outside the layers: token embeddings in, logits out"
        check_count(float(2 * once - twice), expected, of="transformer_parameters", hint=hint)


@pytest.mark.core
@pytest.mark.points(2)
def test_compute_optimal_spends_the_budget(student, rng):
    """The compute-optimal N and D use the whole budget: 6 · N · D = flops."""
    budgets = [10 ** uniform(rng, exponent - 1, exponent) for exponent in (2, 12, 26)]
    budgets += [1, 1e-6, integer(rng, 100, 1000), BIG, 10**26 + 1]
    ratios = ((), (uniform(rng, 5, 15),), (uniform(rng, 30, 200),), (1,), (1e-6,), (BIG,))
    calls = [(flops, *ratio) for ratio in ratios for flops in budgets]
    inputs = {"module": "resource_accounting", "function": "compute_optimal", "calls": calls}
    for got, (flops, *_) in zip(student.run(call_each, **inputs), calls, strict=True):
        n, d = pair(got)
        near = abs(6 * n * d - Fraction(flops)) <= Fraction(TOLERANCE) * Fraction(flops)
        hint = "substitute D = ratio · N into 6ND = flops; do not round N and D"
        expect.that(near, "6 · N · D is not flops", of="compute_optimal", hint=hint)
    for none in ((0,), (0.0,), (0, 5.0)):
        got = student.resource_accounting.compute_optimal(*none)
        expect.kind(got, (tuple, list), of="compute_optimal")
        numbers = [number_of(number, of="compute_optimal") for number in got]
        expect.that(numbers == [0, 0], "a budget of 0 gives more than 0", of="compute_optimal")


def test_compute_optimal_has_so_many_tokens_per_parameter(student, rng):
    """The model is trained on tokens_per_parameter tokens per parameter, 20 by default."""
    drawn = [uniform(rng, 5, 15), uniform(rng, 30, 200), integer(rng, 2, 19)]
    flops = 10 ** uniform(rng, 15, 26)
    for ratio in ((), *((number,) for number in (*drawn, 1, 1e-6, BIG))):
        n, d = pair(student.resource_accounting.compute_optimal(flops, *ratio))
        expected = n * Fraction(*ratio or (20,))
        # The tolerance is loose because another test judges the rounding of N and D.
        near = abs(d - expected) <= expected / 10**6
        expect.that(
            near,
            "D is not tokens_per_parameter · N",
            of="compute_optimal",
            hint="return (N, D), in this order",
        )


# Parameters, tokens and MFU.
EXTREMES = [(1, 10**12, 0.5), (10**12, 1, 0.5), (BIG, 10**9, 1), (10**9, BIG, 1.0)]
EXTREMES += [(10**10, 10**9, 1e-9)]


class TooClose(Exception):
    """A rounding error could decide between two answers."""


def offer_of(rng):
    """The fields of an offer of made-up devices."""
    nodes, per_node = integer(rng, 1, 30), integer(rng, 1, 9)
    if integer(rng, 0, 2):
        nodes, per_node = 60, 1
    hw = device(rng)
    peaks = torch.empty(len(DTYPES), dtype=torch.float64).uniform_(1e13, 9e14, generator=rng)
    hw["peak_flops"] = dict(zip(hw["peak_flops"], peaks.tolist(), strict=True))
    offer = {"hw": hw, "dollars": uniform(rng, 0.5, 9)}
    return {**offer, "devices_per_node": per_node, "nodes": nodes}


def usable(offer, size, flops, dtype, share, max_days):
    """The exact bill and devices of an offer, or None; raises TooClose near a rounding."""
    hw = offer["hw"]
    if dtype not in hw["peak_flops"]:
        return None
    days_on_one = flops / (Fraction(hw["peak_flops"][dtype]) * Fraction(share) * 86400)
    held, fast = Fraction(size, hw["memory_bytes"]), days_on_one / Fraction(max_days)
    # The smallest share of a device still takes a whole one.
    if any(number > 0.5 and abs(number - round(number)) < 1e-6 for number in (fast, held)):
        raise TooClose
    nodes = math.ceil(Fraction(math.ceil(max(held, fast)), offer["devices_per_node"]))
    bill = 24 * days_on_one * Fraction(offer["dollars"])
    return None if nodes > offer["nodes"] else (bill, nodes * offer["devices_per_node"])


def best_of(offers, *asked):
    """The number and devices of the cheapest offer, or None; raises if two are nearly alike."""
    bills = [(found, number) for number, o in enumerate(offers) if (found := usable(o, *asked))]
    ordered = sorted(bills)
    if len(ordered) > 1 and ordered[1][0][0] - ordered[0][0][0] < ordered[0][0][0] / 10**6:
        raise TooClose
    return {"offer": ordered[0][1], "devices": ordered[0][0][1]} if ordered else None


def clusters(rng, recipes, *, count):
    """Cases of a model, a recipe, a share, a number of days and offers, with the answer.

    Args:
        rng: Draws the cases.
        recipes: The recipes to draw from, each with its bytes per parameter.
        count: The number of cases.
    """
    cases = []
    while len(cases) < count:
        recipe, size = recipes[integer(rng, 0, len(recipes))]
        dtype = DTYPES[integer(rng, 0, len(DTYPES))]
        n, d, share = integer(rng, 10**9, 10**11), 10 ** integer(rng, 9, 13), uniform(rng, 0.1, 0.9)
        if len(cases) < len(EXTREMES):
            n, d, share = EXTREMES[len(cases)]
        offers = [offer_of(rng) for _ in range(integer(rng, 1, 6))]
        for offer in offers:  # up to 60 devices hold the model
            offer["hw"]["memory_bytes"] = 100 + int(12 * n / uniform(rng, 0.5, 60))
        one = 6 * n * d / (offers[0]["hw"]["peak_flops"][dtype] * share * 86400)
        max_days = one / uniform(rng, 0.5, 60)
        if max_days > 1 and len(cases) % 2:
            max_days = int(max_days)
        if len(cases) == 6:  # the tokens of up to 60 devices in a day
            max_days, d = 1, 1 + int(d / max_days)
        if len(cases) == 7:
            max_days = BIG
        if len(cases) > 8 and len(cases) % 3 == 1:  # a device that does not compute in the dtype
            peaks = offers[0]["hw"]["peak_flops"]
            offers[0]["hw"]["peak_flops"] = {t: peak for t, peak in peaks.items() if t != dtype}
        try:
            answer = best_of(offers, n * size, 6 * n * d, dtype, share, max_days)
        except TooClose:
            continue
        wanted = (answer is None) == (len(cases) % 5 == 4 and len(cases) > 8)
        if wanted:
            cases.append(((n, d), recipe, (dtype, share, max_days), offers, answer))
    return cases


@pytest.mark.core
@pytest.mark.points(5)
def test_cheapest_cluster(student, rng):
    """The cheapest offer that holds the model and finishes in time, with its fewest whole nodes.

    None if no offer does both.
    """
    of = "cheapest_cluster"
    recipes = [recipe_of(rng, i % 4) for i in range(12)]
    for recipe in recipes[::2]:
        recipe["master"] = DTYPES[integer(rng, 0, len(DTYPES))]
    sizes = bytes_of_each(student, recipes)
    cases, answers = [], []
    for *case, offers, answer in clusters(rng, list(zip(recipes, sizes, strict=True)), count=30):
        cases.append([*case, tuple(offers) if len(offers) % 2 else offers])
        answers.append(answer)
    cases.append([*case, []])
    answers.append(None)
    few = [cases[start : start + 10] for start in range(0, len(cases), 10)]  # for a request's limit
    returned = [got for part in few for got in student.run(probes.cheapest_clusters, cases=part)]
    for got, answer in zip(returned, answers, strict=True):
        if answer is None:
            hint = "no offer, too few nodes, or no peak for the dtype: none can be used"
            expect.value(got, None, of=of, hint=hint)
            continue
        expect.kind(got, dict, of=of, hint="a pair: the offer and the number of its devices")
        expect.value(
            got["offer"],
            answer["offer"],
            of=of,
            hint="compare the bills of the whole run, of those offers that can be used",
        )
        expect.value(
            got["devices"],
            answer["devices"],
            of=of,
            hint="whole nodes, enough of them for the memory and for the time",
        )
    # An offer that differs in its device's name alone costs the same.
    (*case, offers), answer = next(pair for pair in zip(cases, answers, strict=True) if pair[1])
    best = offers[answer["offer"]]
    alike = [best, {**best, "hw": {**best["hw"], "name": "another"}}]
    free = {**best, "dollars": 0}
    just_enough = {**best, "nodes": answer["devices"] // best["devices_per_node"]}
    orders = [alike, [just_enough], [free, best], [best, free]]
    few = [[*case, offers] for offers in orders]
    got, enough, *of_free = student.run(probes.cheapest_clusters, cases=few)
    expect.kind(enough, dict, of=of, hint="an offer may have just the nodes that are needed")
    expect.kind(got, dict, of=of, hint="a pair: the offer and the number of its devices")
    is_one = got["offer"] in (0, 1) and got["devices"] == answer["devices"]
    expect.that(is_one, "neither of two offers that cost the same is returned", of=of)
    for got, offers in zip(of_free, orders[2:], strict=True):
        expect.kind(got, dict, of=of, hint="a pair: the offer and the number of its devices")
        name, hint = "the offer, if one costs nothing", "a bill of 0 is a bill, too"
        expect.value(got["offer"], offers.index(free), of=of, name=name, hint=hint)


def test_counts_are_integers(student, rng):
    """Counts of bytes, parameters and devices are integers."""
    recipe = recipe_of(rng)
    one = student.run(probes.with_recipe, function="bytes_per_parameter", recipe=recipe)
    fit = [
        max_parameters(student, recipe, memory, *share)
        for memory in (10**9, 10**11)
        for share in ((), (0.25,))
    ]
    many = [
        min_devices(student, recipe, 10**12, memory, *share)
        for memory in (10**9, 10**11)
        for share in ((), (0.25,))
    ]
    sizes = transformer_sizes(rng)
    models = [
        student.run(probes.transformer_parameters, config={**sizes, "vocab_size": size})
        for size in (10**3, 10**5)
    ]
    answers = {
        "bytes_per_parameter": [one],
        "max_parameters": fit,
        "min_devices": many,
        "transformer_parameters": models,
    }
    for of, counts in answers.items():
        for got in counts:
            expect.kind(
                got,
                int,
                of=of,
                hint=(
                    "// of two integers is an integer; / gives a float, and so does "
                    "arithmetic with 0.0"
                ),
            )
            expect.that(got > 0, "a count is not above 0", of=of)
    expect.that(fit[0] < fit[2], "more memory does not hold more parameters", of="max_parameters")
    expect.that(many[0] > many[2], "more memory does not need fewer devices", of="min_devices")
    expect.that(
        models[0] < models[1],
        "a larger vocabulary does not have more parameters",
        of="transformer_parameters",
    )
    check_beyond_floats(student, recipe, sizes)


def check_beyond_floats(student, recipe, sizes):
    """Check counts above 2⁵³, which a float cannot tell apart."""
    size = bytes_of(student, recipe)
    hint = "a float is exact only up to 2⁵³: use integers, and a Fraction for the reserve"

    def same(got, expected, of):
        exact = number_of(got, of=of) == expected
        expect.that(exact, "a large count is not exact", of=of, hint=hint)

    for more in (2**53 + 2**52, 2**120 + 2**52):
        for memory, expected in [(4 * size * more, 4 * more), (4 * size * more - 1, 4 * more - 1)]:
            same(max_parameters(student, recipe, memory), expected, "max_parameters")
            fit = number_of(max_parameters(student, recipe, 3 * memory), of="max_parameters")
            same(max_parameters(student, recipe, 4 * memory, 0.25), fit, "max_parameters")
        for count, expected in [(12 * more, 3 * more), (12 * more + 1, 3 * more + 1)]:
            same(min_devices(student, recipe, count, 4 * size), expected, "min_devices")
            many = number_of(min_devices(student, recipe, count, 3 * size), of="min_devices")
            same(min_devices(student, recipe, count, 4 * size, 0.25), many, "min_devices")
    for count, expected in [(7 * BIG, 7), (7 * BIG + 1, 8)]:
        same(min_devices(student, recipe, count, size * BIG), expected, "min_devices")
    less, model = (  # a float gives whole numbers, too
        parameters(student, {**sizes, "vocab_size": 2**53 + tokens, "d_model": 1, "num_heads": 1})
        for tokens in (1, 2)
    )
    same(int(model), less + 2, "transformer_parameters")
    # With an odd width, the matrices of a layer have odd numbers of parameters.
    odd = 2**30 + 1
    wide = {"d_model": odd, "num_heads": 1, "d_ff": odd + 2**20, "vocab_size": 1, "num_layers": 1}
    for options in ({}, {"gated_ffn": True}):
        two, three = (
            parameters(student, {**sizes, **wide, "num_layers": layers}, **options)
            for layers in (2, 3)
        )
        same(int(three) % odd, 0, "transformer_parameters")
        same(int(two) % odd, 0, "transformer_parameters")
