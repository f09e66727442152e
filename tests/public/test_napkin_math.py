"""napkin_math: memory, devices, days and the best model for a training budget. Handout §5.2."""

import torch

from kit import expect
from tests.probes import resource_accounting as probes

BF16, FP32 = torch.bfloat16, torch.float32


def test_bytes_and_parameters_of_the_examples(student):
    """8 H100 have memory for 40.0e9 parameters at 16 bytes each, or for 53.3e9 at 12 bytes each."""
    ra = student.resource_accounting
    for recipe, per_parameter, expected in [
        (ra.TrainingRecipe(FP32, FP32, (FP32, FP32)), 16, 40_000_000_000),
        (ra.TrainingRecipe(BF16, BF16, (FP32, FP32), master=FP32), 16, 40_000_000_000),
        (ra.TrainingRecipe(BF16, BF16, (FP32, FP32)), 12, 53_333_333_333),
    ]:
        got, has_master = ra.bytes_per_parameter(recipe), recipe.master is not None
        alone = "two states, the parameter and its gradient, and no master copy"
        master = "the master copy counts, too"
        hints = {12: master} if has_master else {per_parameter + 4: alone}
        of, inputs = "bytes_per_parameter", str(recipe)
        expect.value(got, per_parameter, of=of, inputs=inputs, hints=hints)
        got = ra.max_parameters(8 * 80_000_000_000, recipe)
        gib = "this takes a GB for a GiB; the memory is in bytes"
        hints = {640 * 2**30 // per_parameter: gib, 640 * 10**9 // 2**30: gib}
        of, inputs = "max_parameters", f"640e9 bytes, {per_parameter} bytes per parameter"
        hints = [(got, "round down")] if got == expected + 1 else hints
        expect.value(got, expected, of=of, inputs=inputs, hints=hints)


def test_min_devices_of_the_example(student):
    """70e9 parameters at 16 bytes each fill 14 devices of 80e9 bytes.

    One more parameter needs a 15th device, and with half the memory it takes 28.
    """
    ra = student.resource_accounting
    recipe = ra.TrainingRecipe(FP32, FP32, (FP32, FP32))
    for count, reserve, expected in [
        (70_000_000_000, 0.0, 14),
        (70_000_000_001, 0.0, 15),
        (70_000_000_000, 0.5, 28),
    ]:
        inputs = f"{count} parameters of 16 bytes, 80e9 bytes per device, reserve {reserve}"
        got = ra.min_devices(count, recipe, 80_000_000_000, reserve)
        hints = {
            14: {15: "14 devices are just enough: round up with -(-n // d), not with n // d + 1"},
            15: {14: "round up: one more parameter needs one more device"},
            28: {14: "the reserve leaves half of each device", 21: "the reserve is of the memory"},
        }[expected]
        expect.value(got, expected, of="min_devices", inputs=inputs, hints=hints)


def test_training_days_of_the_examples(student):
    """70e9 parameters on 15e12 tokens take 143.93 days on 1024 H100 at MFU 0.5.

    1.27e9 parameters on 300e9 tokens take 6.68 days on 8 H100.
    """
    ra = student.resource_accounting
    for n, d, devices, expected in [
        (70_000_000_000, 15_000_000_000_000, 1024, 143.93),
        (1_270_000_000, 300_000_000_000, 8, 6.68),
    ]:
        inputs = f"{n:g} parameters, {d:g} tokens, H100_SXM, bfloat16, {devices} devices, mfu 0.5"
        got = ra.training_days(n, d, ra.H100_SXM, BF16, devices, 0.5)
        days = 6 * n * d / (989.5e12 * devices * 0.5) / 86_400
        hints = {
            days / 3: "2ND is the forward pass alone",
            days * 4 / 3: "6ND: no recomputation",
            days / 2: "the devices reach the MFU times the peak, which is the one without sparsity",
            days / 4: "divide by the MFU: a lower one takes longer",
            days * devices: "all devices work at the same time",
            days * 24: "in days, not in hours",
            days * 86_400: "in days, not in seconds",
        }
        more = {"tolerance": 0.005, "inputs": inputs, "hints": hints}
        expect.number(got, expected, of="training_days", **more)


def test_percentages_are_refused(student):
    """An MFU or a reserve of 50 is a percentage and raises a ValueError."""
    ra = student.resource_accounting
    with expect.right_call("an MFU of 0.5"):
        ra.training_days(1_000_000, 1_000_000, ra.H100_SXM, BF16, 1, 0.5)
    with expect.raises(ValueError, of="training_days", when="mfu is 50"):
        ra.training_days(1_000_000, 1_000_000, ra.H100_SXM, BF16, 1, 50)
    recipe = ra.TrainingRecipe(FP32, FP32, (FP32, FP32))
    for of, ask in [
        ("max_parameters", lambda reserve: ra.max_parameters(1000, recipe, reserve)),
        ("min_devices", lambda reserve: ra.min_devices(10, recipe, 1000, reserve)),
    ]:
        with expect.right_call("a reserve of 0.5"):
            ask(0.5)
        with expect.raises(ValueError, of=of, when="reserve is 50"):
            ask(50)


def test_transformer_parameters_of_the_example(student):
    """vocab_size 10, d_model 4, d_ff 16 and 2 layers give 464 parameters; 424 tied, 592 gated.

    Half the heads of keys and values save 2·16 of them, and each further FFN adds 2·128.
    """
    sizes = {
        "vocab_size": 10,
        "context_length": 7,
        "num_layers": 2,
        "d_model": 4,
        "num_heads": 2,
        "d_ff": 16,
    }
    for options, expected in [
        ({}, 464),
        ({"tied_embeddings": True}, 424),
        ({"gated_ffn": True}, 592),
        ({"kv_heads": 1}, 432),
        ({"head_width": 3}, 528),
        ({"experts": 3, "active_experts": 1, "shared_experts": 1}, 1_232),
        ({"experts": 3, "shared_experts": 1, "gated_ffn": True}, 1_744),
    ]:
        got = student.run(probes.transformer_parameters, config={**sizes, **options})
        hints = {
            464: {
                424: "the LM head is a matrix of its own if it is not tied",
                272: "there are two layers",
                492: "positions have no parameters here",
                468: "the gains of the norms do not count",
                480: "the gains of the norms do not count",
                484: "the gains of the norms do not count",
                432: "attention has four matrices, one of them for its output",
            },
            424: {464: "a tied LM head is the embedding, which counts once"},
            592: {464: "a gated FFN has three matrices", 448: "d_ff is as it is given"},
        }.get(expected, {})
        inputs = str({**sizes, **options})
        expect.value(got, expected, of="transformer_parameters", inputs=inputs, hints=hints)


def test_cheapest_cluster_of_the_example(student):
    """For 1e9 parameters in half a day, one node of H100 is cheaper than three nodes of A100.

    An A100 costs a third as much per hour. With a second node missing, or within a tenth of a day
    on one node, an offer cannot be used.
    """
    ra = student.resource_accounting
    recipe = ra.TrainingRecipe(FP32, FP32, (FP32, FP32))
    h100 = ra.Offer(ra.H100_SXM, dollars=3.0, devices_per_node=8, nodes=4)
    a100 = ra.Offer(ra.A100_80GB, dollars=1.0, devices_per_node=8, nodes=4)
    few = ra.Offer(ra.A100_80GB, dollars=0.1, devices_per_node=8, nodes=2)
    for offers, max_days, expected in [
        ([h100, a100], 0.5, (h100, 8)),
        ([a100, h100], 0.5, (h100, 8)),
        ([a100], 0.5, (a100, 24)),
        ([a100, few], 0.5, (a100, 24)),
        ([h100], 0.15, (h100, 24)),
        ([h100, a100], 0.1, None),
    ]:
        model = (1_000_000_000, 20_000_000_000, recipe, BF16, 0.4)
        got = ra.cheapest_cluster(*model, max_days, offers)
        names = ", ".join(f"{offer.nodes} nodes of {offer.hw.name}" for offer in offers)
        inputs = f"1e9 parameters, 20e9 tokens, MFU 0.4, {max_days} days; {names}"
        if expected is None:
            expect.value(got, None, of="cheapest_cluster", inputs=inputs)
        else:
            expect.kind(got, (tuple, list), of="cheapest_cluster", optional=True)
            right = len(got) == 2 and got[0] == expected[0] and got[1] == expected[1]
            wanted = f"{expected[1]} devices of {expected[0].hw.name}"
            is_one = len(got) == 2 and isinstance(got[0], ra.Offer) and isinstance(got[1], int)
            told = f"{got[1]} devices of {got[0].hw.name}" if is_one else expect.short(got)
            values = [("expected", wanted), ("got", told), ("inputs", inputs)]
            hint = "whole nodes are rented, of 8 devices each" if is_one and got[1] % 8 else None
            expect.that(right, "wrong cluster", of="cheapest_cluster", values=values, hint=hint)


def test_compute_optimal_of_the_examples(student):
    """12,000 FLOPs should train 10 parameters on 200 tokens.

    1.915e22 FLOPs should train 12.6e9 parameters on 253e9 tokens.
    """
    for flops, n, d in [(12_000.0, 10.0, 200.0), (1.915e22, 12.63e9, 252.7e9)]:
        got = student.resource_accounting.compute_optimal(flops)
        expect.kind(got, (tuple, list), of="compute_optimal")
        expect.that(len(got) == 2, "expected two numbers, (N, D)", of="compute_optimal")
        hints = {
            (flops / 40) ** 0.5: "6ND is the whole training, 2ND the forward pass alone",
            (flops / 6) ** 0.5: "D is 20 N",
            d: "N comes first, then D",
            flops / 120: "N is a root: 6 · N · 20 N are the FLOPs",
        }
        for name, number, expected in zip("ND", got, (n, d), strict=True):
            more = {"tolerance": 1e-3 * expected, "inputs": f"flops {flops:g}"}
            more |= {"name": name, "hints": hints if name == "N" else {}}
            expect.number(number, expected, of="compute_optimal", **more)


def a_gpu(student, **changes):
    """A device of 1000 bytes with 1e12 FLOP/s in float32 and 8e12 in bfloat16."""
    given = {
        "name": "a GPU",
        "peak_flops": {FP32: 1e12, BF16: 8e12},
        "memory_bandwidth": 1e10,
        "memory_bytes": 1000,
    }
    return student.resource_accounting.Hardware(**{**given, **changes})


def test_reserve_and_rounding_by_hand(student):
    """A quarter of 100 bytes is kept free: 75 // 16 = 4 parameters.

    125 parameters of 16 bytes fill two devices of 1000 bytes: they share the parameters exactly.

    80 parameters of 12 bytes need 960 of 1000 bytes: one device, or two if a tenth is free.
    """
    ra = student.resource_accounting
    recipe = ra.TrainingRecipe(FP32, FP32, (FP32, FP32))
    for memory, reserve, want in [(100, 0.25, 4), (100, 0.0, 6)]:
        got = ra.max_parameters(memory, recipe, reserve)
        inputs = f"{memory} bytes, reserve {reserve}"
        expect.value(got, want, of="max_parameters", inputs=f"{inputs}, 16 bytes per parameter")
    hints = {3: "do not round the parameters of each device: round once, at the end"}
    inputs = "125 parameters of 16 bytes, 1000 bytes per device"
    got = ra.min_devices(125, recipe, 1000)
    expect.value(got, 2, of="min_devices", inputs=inputs, hints=hints)
    small = ra.TrainingRecipe(BF16, BF16, (FP32, FP32))
    for count, reserve, want in [(80, 0.0, 1), (80, 0.1, 2)]:
        inputs = f"{count} parameters of 12 bytes, 1000 bytes per device, reserve {reserve}"
        got = ra.min_devices(count, small, 1000, reserve)
        expect.value(got, want, of="min_devices", inputs=inputs)


def test_compute_optimal_with_another_ratio(student):
    """N = √(180 / 45) = 2 for 7.5 tokens per parameter. N = √(450 / 72) = 2.5 is not rounded."""
    for flops, ratio, n in [(180.0, 7.5, 2.0), (450.0, 12.0, 2.5)]:
        got = student.resource_accounting.compute_optimal(flops, ratio)
        hints = {
            (flops / 120) ** 0.5: "tokens_per_parameter is an argument, and 20 its default",
            2: "neither N nor D is rounded",
            3: "neither N nor D is rounded",
        }
        for name, number, want in zip(("N", "D"), got, (n, ratio * n), strict=True):
            more = {"name": name, "inputs": f"{flops} FLOPs, {ratio} tokens per parameter"}
            more |= {"hints": hints if name == "N" else {}}
            expect.number(number, want, of="compute_optimal", tolerance=1e-6, **more)


def test_cheapest_cluster_by_hand(student):
    """100 parameters of 16 bytes need two devices of 1000 bytes, and 2.2 days of one in float32.

    Within one day that takes three devices, and two where time does not matter. Dollars are for one
    device: a larger node is not cheaper by itself. A master copy is a part of the training state.
    """
    ra = student.resource_accounting
    recipe = ra.TrainingRecipe(FP32, FP32, (FP32, FP32))
    hw, other = a_gpu(student), a_gpu(student, peak_flops={FP32: 1e12, BF16: 1e12})
    single = ra.Offer(hw, dollars=1.0, devices_per_node=1, nodes=9)
    node = ra.Offer(hw, dollars=1.1, devices_per_node=4, nodes=9)
    slower = ra.Offer(other, dollars=0.9, devices_per_node=1, nodes=9)
    three = ra.Offer(hw, dollars=0.5, devices_per_node=1, nodes=3)
    useless = ra.Offer(a_gpu(student, peak_flops={BF16: 8e12}), 0.1, 1, 9)
    for what, offers, max_days, want in [
        ("2.2 days of work within one day", [single], 1.0, (single, 3)),
        ("100 days are enough for any number of devices", [single], 100.0, (single, 2)),
        ("a device without a peak for float32 comes first", [useless, single], 1.0, (single, 3)),
        ("nodes of 4 at 1.1 dollars, or of 1 at 1 dollar", [node, single], 1.0, (single, 3)),
        ("two devices that differ in bfloat16 alone", [single, slower], 1.0, (slower, 3)),
        ("the first offer has just the nodes that are needed", [three, single], 1.0, (three, 3)),
    ]:
        tokens = 316_800_000_000_000  # 6 · 100 · tokens = 2.2 · 86,400 · 1e12
        got = ra.cheapest_cluster(100, tokens, recipe, FP32, 1.0, max_days, offers)
        expect.kind(got, (tuple, list), of="cheapest_cluster", optional=True)
        hints = {1: "2 devices hold 1600 bytes of training state", 5: "the larger number does both"}
        more = {"name": "the devices", "inputs": what, "hints": hints}
        expect.value(got[1], want[1], of="cheapest_cluster", **more)
        expect.that(got[0] == want[0], f"another offer is cheaper: {what}", of="cheapest_cluster")
    with_master = ra.TrainingRecipe(BF16, BF16, (FP32, FP32), master=FP32)
    got = ra.cheapest_cluster(70, 1, with_master, FP32, 1.0, 1.0, [single])
    expect.kind(got, (tuple, list), of="cheapest_cluster", optional=True)
    what = "70 parameters of 16 bytes, 4 of which are the master copy's"
    expect.value(got[1], 2, of="cheapest_cluster", name="the devices", inputs=what)
