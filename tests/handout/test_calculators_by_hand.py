"""The calculators of bill, decoding, all-reduce and checkpoints: by hand.

H100, H200 and A100 do 989.5e12, 989.5e12 and 312e12 FLOP/s in bfloat16, and move 3.35e12, 4.8e12
and 2.039e12 bytes per second.
"""

from math import sqrt

import pytest

from grader.solutions.reference import resource_accounting as accounting
from grader.solutions.reference.flop_counting import TransformerConfig
from handout.site import calculator_formulas, micro_batch, quizzes

H200, A100 = {"device": "H200 SXM"}, {"device": "A100 80GB SXM"}
FP8, ALL = {"dtype": "float8_e4m3fn"}, {"recompute": 1}
ONE = {"N": 1e9, "D": 20e9, "devices": 8, "mfu": 0.4}  # 1.2e20 FLOPs
LLAMA = {"N": 8e9, "layers": 32, "heads": 32, "kv_heads": 8, "sequences": 1}
RING = {"N": 1e9, "devices": 8, "bandwidth": 50e9, "tokens": 10_000}
SAVE = {"N": 1e9, "speed": 1e9, "hours": 1}  # 12 s to write, one failure in 3,600 s

# Calculator and result; inputs and the number by hand.
BY_HAND = {
    ("training-time", "bill"): [
        (ONE, 3 * 1.2e20 / (0.4 * 989.5e12) / 3600),
        (ONE | {"devices": 4096}, 3 * 1.2e20 / (0.4 * 989.5e12) / 3600),
        (ONE | A100 | {"price": 1.2}, 1.2 * 1.2e20 / (0.4 * 312e12) / 3600),
        (ONE | ALL | {"price": 2}, 2 * 1.6e20 / (0.4 * 989.5e12) / 3600),
        (ONE | {"price": 0}, 0),
    ],
    ("decoding", "rate"): [
        (LLAMA | {"tokens": 0}, 3.35e12 / 16e9),
        (LLAMA | {"tokens": 0} | H200, 4.8e12 / 16e9),
        (LLAMA | {"tokens": 0} | FP8, 3.35e12 / 8e9),
        (LLAMA | {"tokens": 0, "devices": 4}, 4 * 3.35e12 / 16e9),
        (LLAMA | {"tokens": 0, "sequences": 64}, 64 * 3.35e12 / 16e9),
        (LLAMA | {"tokens": 0, "sequences": 1000}, 989.5e12 / 16e9),
        (LLAMA | {"tokens": 1000}, 3.35e12 / (16e9 + 131_072_000)),
        (LLAMA | {"tokens": 1000, "kv_heads": 32}, 3.35e12 / (16e9 + 524_288_000)),
        (LLAMA | {"tokens": 1000, "sequences": 64}, 64 * 3.35e12 / (16e9 + 64 * 131_072_000)),
        (LLAMA | {"tokens": 1000} | A100, 2.039e12 / (16e9 + 131_072_000)),
    ],
    ("all-reduce", "seconds"): [
        (RING, 1.75 * 4e9 / 50e9),
        (RING | {"bandwidth": 450e9}, 1.75 * 4e9 / 450e9),
        (RING | {"gradient": "bfloat16"}, 1.75 * 2e9 / 50e9),
        (RING | {"devices": 2}, 4e9 / 50e9),
        (RING | {"devices": 1}, 0),
    ],
    ("all-reduce", "late"): [
        (RING, 0.14 - 4e13 / (0.4 * 989.5e12)),
        (RING | {"tokens": 20_000}, 0),
        (RING | {"mfu": 0.8}, 0.14 - 4e13 / (0.8 * 989.5e12)),
        (RING | A100, 0),
        (RING | {"N": 2e9}, 2 * (0.14 - 4e13 / (0.4 * 989.5e12))),
    ],
    ("checkpoint-interval", "interval"): [
        (SAVE, sqrt(2 * 12 * 3600)),
        (SAVE | {"hours": 4}, 2 * sqrt(2 * 12 * 3600)),
        (SAVE | {"speed": 4e9}, sqrt(2 * 12 * 3600) / 2),
        (SAVE | {"machines": 12}, sqrt(2 * 3600)),
        (SAVE | {"each": 2}, sqrt(2 * 2 * 3600)),
    ],
    ("checkpoint-interval", "cost"): [
        (SAVE, sqrt(2 * 12 / 3600)),
        (SAVE | {"hours": 4}, sqrt(2 * 12 / 3600) / 2),
        (SAVE | {"speed": 4e9}, sqrt(2 * 12 / 3600) / 2),
        (SAVE | {"machines": 12}, sqrt(2 / 3600)),
        (SAVE | {"N": 70e9, "speed": 2e9, "hours": 49.5}, sqrt(2 * 420 / 178_200)),
    ],
}


def result(calculator, which, given):
    return calculator_formulas.evaluate(calculator_formulas.load()[calculator], given)[0][which]


@pytest.mark.parametrize(("calculator", "which"), BY_HAND)
def test_the_numbers_are_those_by_hand(calculator, which):
    for given, want in BY_HAND[calculator, which]:
        assert result(calculator, which, given) == pytest.approx(want, rel=1e-12), given


@pytest.mark.parametrize("kv_heads", [1, 4, 16])
@pytest.mark.parametrize("sequences", [1, 100_000])
def test_decoding_and_the_ring_are_those_of_the_course(kv_heads, sequences):
    config = TransformerConfig(1000, 64, 3, 512, 16, 2048, kv_heads=kv_heads)
    given = {"N": 1e6, "layers": 3, "kv_heads": kv_heads, "head_width": 32, "tokens": 64}
    values, _ = calculator_formulas.evaluate(
        calculator_formulas.load()["decoding"], given | {"heads": 16, "sequences": sequences}
    )
    dtype, hw = quizzes.BF16, accounting.H100_SXM
    assert values["cache"] == micro_batch.cache_bytes(config, 64 * sequences, dtype)
    read = values["weights"] + values["cache"]
    assert values["seconds"] == accounting.roofline_seconds(values["flops"], read, hw, dtype)
    assert values["compute_bound"] == accounting.is_compute_bound(values["flops"], read, hw, dtype)
    sent = result("all-reduce", "sent", {"N": 1e6, "devices": kv_heads})
    assert sent == pytest.approx(quizzes.ring(1e6, quizzes.FP32, kv_heads))
