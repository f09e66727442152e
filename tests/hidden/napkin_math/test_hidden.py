"""napkin_math: bytes and parameters, devices and days, and the best model size for a compute
budget.

A float with a whole value fails only the one test for integers. Any order of operations is
accepted, and both readings of a reserve such as 0.1, because all reserves here are exact in binary.
Hardware and TrainingRecipe are given, not judged; these tests use made-up ones.

The oracles use exact integer and rational arithmetic. What fits in memory is judged relative to the
student's own bytes_per_parameter, and the parts of a transformer as differences between two of the
student's own counts, so that a mistake fails only its own test.
"""

import math
from fractions import Fraction

import pytest
import torch

from kit import expect
from tests.hidden import DTYPES, check_number, device, integer, uniform
from tests.probes import resource_accounting as probes


def recipe_of(rng, states=2):
    """The fields of a recipe with dtypes of several sizes, in random order."""
    order = [DTYPES[i] for i in torch.randperm(len(DTYPES), generator=rng).tolist()]
    states = tuple(order[2 : 2 + states])
    return {"parameter": order[0], "gradient": order[1], "optimizer_state": states}


def number_of(got, *, of):
    """Check that `got` is a finite number, and return it as a Fraction."""
    expect.number(got, got, of=of, tolerance=0.0)
    # The oracle uses this number in later computations.
    expect.that(abs(got) < 1e100, "the number is absurdly large", of=of)
    return Fraction(got)


def check_count(got, expected, *, of, hint=None):
    """Check a count. A float with a whole value is fine: another test checks the type."""
    expect.number(got, float(expected), of=of, tolerance=0.0, hint=hint)


def of_recipe(student, function, recipe, *after, before=()):
    inputs = {"recipe": recipe, "before": before, "after": after}
    return student.run(probes.with_recipe, function=function, **inputs)


def bytes_of(student, recipe):
    of = "bytes_per_parameter"
    got = number_of(of_recipe(student, of, recipe), of=of)
    is_size = 0 < got < 1000 and got.denominator == 1
    expect.that(is_size, "expected a whole number of bytes between 1 and 999", of=of)
    return int(got)


def max_parameters(student, recipe, memory_bytes, *reserve):
    return of_recipe(student, "max_parameters", recipe, *reserve, before=(memory_bytes,))


def min_devices(student, recipe, num_parameters, *after):
    return of_recipe(student, "min_devices", recipe, *after, before=(num_parameters,))


def days(student, n, d, hw, *after):
    inputs = {"hardware": hw, "before": (n, d), "after": after}
    return student.run(probes.with_hardware, function="training_days", **inputs)


def parameters(student, sizes, **options):
    got = student.run(probes.transformer_parameters, config={**sizes, **options})
    return number_of(got, of="transformer_parameters")


@pytest.mark.harm("wrong number")
def test_bytes_of_parameter_gradient_and_states(student, rng):
    """A parameter takes the bytes of itself, its gradient and each optimizer state, by dtype."""
    recipes = [recipe_of(rng, states) for states in (0, 1, 2, 3)]
    recipes += [{**recipes[2], "optimizer_state": (dtype,) * 2} for dtype in DTYPES]
    recipes += [{**recipes[2], name: torch.int8} for name in ("parameter", "gradient")]
    for recipe in recipes:
        kept = (recipe["parameter"], recipe["gradient"], *recipe["optimizer_state"])
        got = of_recipe(student, "bytes_per_parameter", recipe)
        hint = "one number for each dtype that the recipe lists"
        check_count(got, sum(d.itemsize for d in kept), of="bytes_per_parameter", hint=hint)


@pytest.mark.harm("wrong number")
def test_bytes_of_the_master_copy(student, rng):
    """A master copy is kept in addition to the parameter, so its bytes are added."""
    for states in (0, 1, 2):
        recipe = recipe_of(rng, states)
        for dtype in (torch.float32, torch.float64, recipe["parameter"]):
            got = of_recipe(student, "bytes_per_parameter", {**recipe, "master": dtype})
            expected = bytes_of(student, recipe) + dtype.itemsize
            check_count(got, expected, of="bytes_per_parameter", hint="is the master copy counted?")


@pytest.mark.harm("wrong number")
def test_max_parameters_is_rounded_down(student, rng):
    """A parameter fits only if all of its bytes fit."""
    for recipe in (recipe_of(rng), {**recipe_of(rng), "master": torch.float64}):
        size = bytes_of(student, recipe)
        for count in (1, integer(rng, 2, 9), integer(rng, 10**9, 10**10)):
            for rest in {0, 1, size // 2, size - 1}:
                got = max_parameters(student, recipe, size * count + rest)
                hint = "a parameter of which half fits does not fit"
                check_count(got, count, of="max_parameters", hint=hint)


@pytest.mark.harm("wrong number")
def test_min_devices_is_rounded_up(student, rng):
    """Devices that are exactly full are enough; any remainder needs one more device.

    Devices share the parameters exactly: only their number is rounded.
    """
    for recipe in (recipe_of(rng), {**recipe_of(rng), "master": torch.float64}):
        size = bytes_of(student, recipe)
        each, devices = integer(rng, 10**6, 10**9), integer(rng, 2, 900)
        cases = [(1, 1), (each, 1), (each + 1, 2), (each * devices, devices)]
        cases += [(each * devices + more, devices + 1) for more in (1, each // 2)]
        for count, expected in cases:
            got = min_devices(student, recipe, count, size * each)
            hint = "a remainder needs one more device, even if it does not fill that device"
            check_count(got, expected, of="min_devices", hint=hint)
        memory, count = size * integer(rng, 5, 50) + size // 2, integer(rng, 10**5, 10**6)
        got, expected = min_devices(student, recipe, count, memory), -(-count * size // memory)
        check_count(got, expected, of="min_devices", hint="round up once, at the end")


@pytest.mark.harm("wrong number")
def test_reserve_is_kept_free(student, rng):
    """The reserve is a fraction of each device's memory that stays free."""
    recipe, hint = recipe_of(rng), "usable = memory_bytes · (1 − reserve)"
    memory, count = 2**10 * integer(rng, 10**6, 10**7), integer(rng, 10**11, 10**12)
    calls = {
        "max_parameters": lambda *after: max_parameters(student, recipe, *after),
        "min_devices": lambda *after: min_devices(student, recipe, count, *after),
    }
    for reserve in (0.25, 0.75, 0.125, 0.0):
        usable = int(memory * (1 - reserve))  # exact, as the memory is a multiple of 8
        # Compare with the student's own answers, so that wrong rounding costs nothing here.
        for of, count_of in calls.items():
            alone = number_of(count_of(usable), of=of)
            check_count(count_of(memory, reserve), alone, of=of, hint=hint)
    for of, shares in [("max_parameters", (0.5, 0.0)), ("min_devices", (0.0, 0.5))]:
        less, more = (number_of(calls[of](memory, share), of=of) for share in shares)
        expect.that(less < more, "a reserve changes nothing", of=of, hint=hint)


@pytest.mark.harm("wrong number")
def test_training_days(student, rng):
    """A run takes 6·N·D FLOPs at a speed of num_devices · MFU · the dtype's peak FLOP/s."""
    hint = "6ND FLOPs divided by the achieved FLOP/s gives seconds, which are not rounded"
    for least in (10**6, 10**9, 10**12):
        for dtype in DTYPES:
            for num_devices, mfu in [(1, 1.0), (integer(rng, 2, 5000), uniform(rng, 0.1, 0.9))]:
                n, d = integer(rng, least, 9 * least), integer(rng, 100 * least, 900 * least)
                hw = device(rng)
                speed = num_devices * Fraction(mfu) * Fraction(hw["peak_flops"][dtype])
                got = days(student, n, d, hw, dtype, num_devices, mfu)
                check_number(got, 6 * n * d / speed / 86400, of="training_days", hint=hint)


@pytest.mark.harm("not refused")
def test_percentages_are_refused(student, rng):
    """A reserve or an MFU above 1, such as 20 for 20 %, raises a ValueError: both are fractions."""
    recipe, hw = recipe_of(rng), device(rng)
    for of, ask in [
        ("max_parameters", lambda share: max_parameters(student, recipe, 10**9, share)),
        ("min_devices", lambda share: min_devices(student, recipe, 10**9, 10**9, share)),
        ("training_days", lambda mfu: days(student, 10**9, 10**10, hw, DTYPES[0], 8, mfu)),
    ]:
        with expect.right_call("a fraction of 0.5"):
            expect.that(number_of(ask(0.5), of=of) > 0, "not above 0", of=of)
        when = f"{'mfu' if of == 'training_days' else 'reserve'} is a percentage"
        for percent in (1.5, 20, 40.0):
            with expect.raises(ValueError, of=of, when=when):
                ask(percent)


@pytest.mark.harm("not refused")
def test_a_dtype_without_a_peak_is_refused(student, rng):
    """A dtype without a peak raises an error; no other dtype's peak is used instead."""
    hw, of = device(rng), "training_days"
    with expect.right_call("a dtype that the device has a peak for"):
        got = days(student, 10**9, 10**10, hw, torch.bfloat16, 8, 0.5)
        expect.that(number_of(got, of=of) > 0, "not above 0", of=of)
    del hw["peak_flops"][torch.bfloat16]
    for dtype in (torch.bfloat16, torch.float8_e5m2):
        with expect.raises((ValueError, KeyError), of=of, when="hw has no peak for the dtype"):
            days(student, 10**9, 10**10, hw, dtype, 8, 0.5)


def transformer_sizes(rng):
    heads = integer(rng, 2, 9)
    return {
        "vocab_size": integer(rng, 1000, 60000),
        "context_length": integer(rng, 100, 900),
        "num_layers": integer(rng, 2, 20),
        "d_model": heads * integer(rng, 10, 50),
        "num_heads": heads,
        "d_ff": integer(rng, 1000, 3000),
    }


@pytest.mark.harm("wrong number")
def test_parameters_of_a_layer(student, rng):
    """A layer adds exactly four d_model × d_model matrices and two d_model × d_ff matrices."""
    equal = dict.fromkeys(transformer_sizes(rng), integer(rng, 2, 90))
    cases = [(transformer_sizes(rng), {}), (transformer_sizes(rng), {"tied_embeddings": True})]
    for sizes, options in [*cases, (equal, {})]:
        more = integer(rng, 1, 20)
        deeper = {**sizes, "num_layers": sizes["num_layers"] + more}
        got = parameters(student, deeper, **options) - parameters(student, sizes, **options)
        d, ff = sizes["d_model"], sizes["d_ff"]
        hint = "by how much does the count grow with each layer? no biases, no gains"
        expected = more * (4 * d * d + 2 * d * ff)
        check_count(float(got), expected, of="transformer_parameters", hint=hint)


@pytest.mark.harm("wrong number")
def test_parameters_of_a_gated_network(student, rng):
    """A gated feed-forward network has a third d_model × d_ff matrix in each layer."""
    for options in ({}, {"tied_embeddings": True}):
        sizes = transformer_sizes(rng)
        gated = parameters(student, sizes, gated_ffn=True, **options)
        got = float(gated - parameters(student, sizes, **options))
        expected = sizes["num_layers"] * sizes["d_model"] * sizes["d_ff"]
        hint = "a gate is one more matrix of size d_model × d_ff"
        check_count(got, expected, of="transformer_parameters", hint=hint)


@pytest.mark.harm("wrong number")
def test_parameters_of_the_embeddings(student, rng):
    """Embeddings are one vocab_size × d_model matrix if tied, else two, and none for positions."""
    sizes = transformer_sizes(rng)
    for tied, matrices in [(True, 1), (False, 2)]:
        deeper = {**sizes, "num_layers": 2 * sizes["num_layers"]}
        once, twice = (parameters(student, one, tied_embeddings=tied) for one in (sizes, deeper))
        expected = matrices * sizes["vocab_size"] * sizes["d_model"]
        hint = "the parameters outside the layers: token embeddings in, logits out"
        check_count(float(2 * once - twice), expected, of="transformer_parameters", hint=hint)


# Stays: only here do heads and experts count; each other test would charge for them as well.
@pytest.mark.harm("wrong number")
def test_parameters_of_a_layer_of_today(student, rng):
    """A layer has matrices of query_width and of kv_width, and all of its experts."""
    sizes = transformer_sizes(rng)
    d, ff, heads = sizes["d_model"], sizes["d_ff"], sizes["num_heads"]
    width, experts, shared = 60 + integer(rng, 0, 9), integer(rng, 5, 9), integer(rng, 2, 4)
    some = {"experts": experts, "active_experts": 2, "shared_experts": shared}
    for options, more in [
        ({"kv_heads": 1}, 2 * d * (d // heads) - 2 * d * d),
        ({"head_width": width}, 4 * d * heads * width - 4 * d * d),
        (some, (experts + shared - 1) * 2 * d * ff),
    ]:
        got = parameters(student, sizes, **options) - parameters(student, sizes)
        expected = sizes["num_layers"] * more
        hint = f"a change of {', '.join(options)}: which matrices change with it?"
        check_count(float(got), expected, of="transformer_parameters", hint=hint)
    # With as many matrices as the student's own gated network has: another test judges those.
    gated = [{**sizes, **options} for options in ({}, {"d_ff": 2 * ff}, some)]
    one, wider, more = (parameters(student, config, gated_ffn=True) for config in gated)
    unit = sizes["num_layers"] * d * ff
    expected = (experts + shared - 1) * round((wider - one) / unit) * unit
    check_count(float(more - one), expected, of="transformer_parameters", hint="all are gated")


@pytest.mark.harm("wrong number")
def test_compute_optimal(student, rng):
    """6 · N · D is the whole budget, and D is tokens_per_parameter · N, by default 20 · N."""
    of = "compute_optimal"
    for ratio in ((), (uniform(rng, 5, 15),), (integer(rng, 30, 200),)):
        for exponent in (3, 12, 26):
            flops = 10 ** uniform(rng, exponent - 1, exponent)
            got = student.resource_accounting.compute_optimal(flops, *ratio)
            expect.kind(got, (tuple, list), of=of)
            expect.that(len(got) == 2, f"expected two numbers, N and D, got {len(got)}", of=of)
            n = math.sqrt(flops / 6 / (ratio or (20,))[0])
            hint = "substitute D = ratio · N into 6ND = flops, and return (N, D), in this order"
            for number, expected in zip(got, (n, flops / 6 / n), strict=True):
                check_number(number, expected, of=of, hint=hint)


# --- cheapest_cluster


class TooClose(Exception):
    """A rounding error could decide between two answers."""


def offer_of(rng):
    nodes, per_node = integer(rng, 1, 30), integer(rng, 1, 9)
    if integer(rng, 0, 2):
        nodes, per_node = 60, 1
    offer = {"hw": device(rng), "dollars": uniform(rng, 0.5, 9)}
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


def clusters(student, rng, *, offers, count, wanted=True):
    """Inputs of cheapest_cluster, with the right answer.

    Args:
        offers: The least and the most number of offers.
        count: The number of cases.
        wanted: Whether an offer can be used.
    """
    recipes = [recipe_of(rng, i % 4) for i in range(6)]
    recipes = [{**r, "master": DTYPES[i]} if i < 3 else r for i, r in enumerate(recipes)]
    sizes = [bytes_of(student, recipe) for recipe in recipes]
    cases = []
    while len(cases) < count:
        which, dtype = integer(rng, 0, len(recipes)), DTYPES[integer(rng, 0, len(DTYPES))]
        n, d, share = integer(rng, 10**9, 10**11), 10 ** integer(rng, 9, 13), uniform(rng, 0.1, 0.9)
        made = [offer_of(rng) for _ in range(integer(rng, offers[0], offers[1] + 1))]
        for offer in made:  # up to 60 devices hold the model
            offer["hw"]["memory_bytes"] = 100 + int(12 * n / uniform(rng, 0.5, 60))
        one = 6 * n * d / (made[0]["hw"]["peak_flops"][dtype] * share * 86400)
        max_days = one / uniform(rng, 0.5, 60)
        if len(made) > 1 and len(cases) % 3 == 1:  # a device that does not compute in the dtype
            del made[0]["hw"]["peak_flops"][dtype]
        try:
            answer = best_of(made, n * sizes[which], 6 * n * d, dtype, share, max_days)
        except TooClose:
            continue
        if wanted == (answer is not None):
            inputs = {"before": (n, d), "recipe": recipes[which], "offers": made}
            cases.append(({**inputs, "after": (dtype, share, max_days)}, answer))
    return cases


def chosen(student, inputs, name):
    got = student.run(probes.cheapest_cluster, **inputs)
    hint = "a pair: the offer and the number of its devices"
    hint = "how many nodes take the memory, and how many the days?" if got is None else hint
    expect.kind(got, dict, of="cheapest_cluster", hint=hint, optional=True)
    return got[name]


@pytest.mark.harm("wrong number")
def test_cheapest_cluster_rents_the_fewest_nodes(student, rng):
    """An offer's whole nodes hold the training state together and finish in time."""
    for inputs, answer in clusters(student, rng, offers=(1, 1), count=12):
        just_enough = answer["devices"] // inputs["offers"][0]["devices_per_node"]
        for nodes in (inputs["offers"][0]["nodes"], just_enough):
            offers = [{**inputs["offers"][0], "nodes": nodes}]
            got = chosen(student, {**inputs, "offers": offers}, "devices")
            hint = "whole nodes, enough of them for the memory and for the time"
            expect.value(got, answer["devices"], of="cheapest_cluster", name="devices", hint=hint)


@pytest.mark.harm("wrong number")
def test_cheapest_cluster_has_the_lowest_bill(student, rng):
    """Of the offers that can be used, the one whose whole run costs least is chosen."""
    for inputs, answer in clusters(student, rng, offers=(2, 6), count=15):
        hint = "compare the bills of the whole run, of those offers that can be used"
        best, size = inputs["offers"][answer["offer"]], 2 * answer["devices"]
        dearer = {"dollars": 1.2 * best["dollars"], "devices_per_node": size, "nodes": 1}
        offers = [*inputs["offers"], {**best, **dearer}]  # half of whose devices are not needed
        got = chosen(student, {**inputs, "offers": offers}, "offer")
        expect.value(got, answer["offer"], of="cheapest_cluster", name="the offer", hint=hint)


@pytest.mark.harm("wrong number")
def test_cheapest_cluster_of_no_offer(student, rng):
    """None if no offer has enough nodes for the memory and for the time."""
    inputs, _ = clusters(student, rng, offers=(1, 1), count=1)[0]
    chosen(student, inputs, "offer")
    for inputs, _ in clusters(student, rng, offers=(1, 3), count=6, wanted=False):
        got = student.run(probes.cheapest_cluster, **inputs)
        hint = "too few nodes, or no peak for the dtype: no offer can be used"
        expect.value(got, None, of="cheapest_cluster", hint=hint)


@pytest.mark.harm("wrong number")
def test_counts_are_integers(student, rng):
    """Counts of bytes, parameters and devices are integers."""
    recipe, sizes = recipe_of(rng), transformer_sizes(rng)
    hint = "// of two integers is an integer; / gives a float, and so does arithmetic with 0.0"
    for of, counts in {
        "bytes_per_parameter": [
            of_recipe(student, "bytes_per_parameter", r) for r in (recipe_of(rng, 0), recipe)
        ],
        "max_parameters": [max_parameters(student, recipe, 10**9, r) for r in (0.25, 0.0)],
        "min_devices": [min_devices(student, recipe, 10**12, 10**9, r) for r in (0.0, 0.25)],
        "transformer_parameters": [
            student.run(probes.transformer_parameters, config={**sizes, "vocab_size": size})
            for size in (10**3, 10**5)
        ],
    }.items():
        for got in counts:
            expect.kind(got, int, of=of, hint=hint)
        grows = of == "bytes_per_parameter" or 0 < counts[0] < counts[1]
        expect.that(grows and counts[0] > 0, "the counts do not grow as they should", of=of)
