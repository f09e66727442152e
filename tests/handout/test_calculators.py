"""The calculators use the course's formulas: they agree with the reference and with the text."""

import dataclasses
import itertools
import math

import pytest
import torch

from grader.solutions.reference import flop_counting, precision, tensor_memory
from grader.solutions.reference import resource_accounting as accounting
from handout.site import calculator_formulas, calculator_rounding, calculators, micro_batch, wren

FORMS = calculator_formulas.load()
DEVICES = {hw.name: hw for hw in (accounting.A100_80GB, accounting.H100_SXM, accounting.H200_SXM)}
BF16 = torch.bfloat16


def results(name, **given):
    return calculator_formulas.evaluate(FORMS[name], given)[0]


def shown(name, result, **given):
    show = {r.id: r.show for r in FORMS[name].result}[result]
    return calculator_rounding.display(results(name, **given)[result], show).replace("\u00a0", " ")


def line(name, *choices):
    form = FORMS[name]
    _, table = calculator_formulas.evaluate(form)
    found = next(row for row in table if tuple(row[kind].name for kind in form.lines) == choices)
    return {
        column.id: calculator_rounding.display(found[column.id], column.show).replace("\u00a0", " ")
        for column in form.column
    }


# --- the numbers of the course's examples ---------------------------------------------------------


DEFAULTS = {
    ("training-time", "seconds"): "143.93 days",
    ("training-memory", "total"): "40.665 GB",
    ("compute-budget", "N"): "12,632,757,419 (12.63 billion)",
    ("compute-budget", "D"): "252,655,148,374 (252.66 billion)",
    ("model-size", "parameters"): f"{wren.PARAMETERS:,} (1.27 billion)",
    ("tensor", "strides"): "(4, 2)",
    ("tensor", "position"): "10",
    ("number-formats", "in_format"): "1.0012e-08",
}


def test_the_defaults_are_the_numbers_of_the_text():
    assert {of: shown(*of) for of in DEFAULTS} == DEFAULTS
    assert line("training-memory", "float32")["fits"] == "5.0 billion"
    assert line("training-memory", "bfloat16 with a float32 master")["fits"] == "5.0 billion"
    assert line("training-memory", "bfloat16 without a master")["fits"] == "6.7 billion"
    assert results("training-memory")["total"] == wren.PEAK.total
    cells = line("matmul", "H100 SXM", "bfloat16").values()
    assert [*cells] == ["6.291 MB", "341.3", "295.4", "compute", "2.17 µs", "100.0 %"]


# --- the reference's functions give the same ------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_training_time_is_training_days(device, dtype):
    for n, d, count, mfu in itertools.product(
        (1.27e9, 70e9), (3e11, 15e12), (1, 1024), (0.1, 0.5, 1.0)
    ):
        got = results("training-time", N=n, D=d, devices=count, mfu=mfu, device=device, dtype=dtype)
        run = int(n), int(d), DEVICES[device], getattr(torch, dtype), count, mfu
        days = accounting.training_days(*run)
        assert got["seconds"] == pytest.approx(86400 * days, rel=1e-14)
        again = results("training-time", N=n, D=d, recompute=1)["flops"]
        flops = flop_counting.training_flops(int(n), int(d), recompute_forward=True)
        assert again == pytest.approx(flops, rel=1e-15)


def test_matmul_is_the_roofline():
    for m, k, n in [(1024, 1024, 1024), (1, 4096, 4096), (7, 3, 11), (512, 512, 512)]:
        values, table = calculator_formulas.evaluate(FORMS["matmul"], {"m": m, "k": k, "n": n})
        assert values["flops"] == flop_counting.matmul_flops((m, k), (k, n))
        for row in table:
            hw, dtype = DEVICES[row["device"].name], getattr(torch, row["dtype"].name)
            work = values["flops"], row["bytes"], hw, dtype
            expected = {
                "intensity": accounting.matmul_intensity(m, k, n, dtype),
                "ridge": accounting.accelerator_intensity(hw, dtype),
                "seconds": accounting.roofline_seconds(*work),
                "mfu": accounting.attainable_mfu(row["intensity"], hw, dtype),
            }
            assert {key: row[key] for key in expected} == pytest.approx(expected, rel=1e-14)
            assert row["compute_bound"] == accounting.is_compute_bound(*work)


# Heads of keys, features of a head, experts, those of a token, and shared ones.
TODAY = [(4, 24, 1, 1, 0), (2, 40, 6, 2, 1)]


@pytest.mark.parametrize(("gated", "tied", "today"), list(itertools.product((0, 1), (0, 1), TODAY)))
def test_model_size_is_transformer_parameters(gated, tied, today):
    sizes = 32000, 2048, 3, 96, 4, 256
    config = flop_counting.TransformerConfig(*sizes, bool(gated), bool(tied), *today)
    given, parameters = micro_batch.sizes_of(config), accounting.transformer_parameters(config)
    got = results("model-size", **given)
    assert got["parameters"] == parameters
    assert results("training-memory", **given)["parameters"] == parameters
    active = dataclasses.replace(config, experts=config.active_experts)
    looked_up = 0 if tied else config.vocab_size * config.d_model
    assert got["of_a_token"] == accounting.transformer_parameters(active) - looked_up
    assert got["cache"] == micro_batch.cache_bytes(config, 1, BF16)


def test_compute_budget_is_compute_optimal():
    for ratio, days in itertools.product((1, 20, 100), (0.5, 14)):
        got = results("compute-budget", ratio=ratio, days=days)
        n, d = accounting.compute_optimal(got["budget"], ratio)
        assert (got["N"], got["D"]) == pytest.approx((n, d), rel=1e-14)
        assert 6 * got["N"] * got["D"] == pytest.approx(got["budget"], rel=1e-14)


def test_what_fits_is_max_parameters():
    _, table = calculator_formulas.evaluate(FORMS["training-memory"], {"devices": 8})
    for row in table:
        recipe = calculator_formulas.TRAINING[row["recipe"].name]
        assert row["each"] == accounting.bytes_per_parameter(recipe)
        memory = 8 * accounting.H100_SXM.memory_bytes
        assert row["fits"] == accounting.max_parameters(memory, recipe)


@pytest.mark.parametrize("recipe", calculator_formulas.TRAINING)
@pytest.mark.parametrize(("vocabulary", "segments"), [(32000, 0), (32000, 6), (16, 6)])
def test_the_total_of_training_memory_is_the_sum_of_its_parts(recipe, vocabulary, segments):
    """Whichever of three moments is the peak; test_micro_batch compares the parts with a step."""
    given = {"recipe": recipe, "vocabulary": vocabulary, "segments": segments, "devices": 4}
    got = results("training-memory", **given)
    parts = ("weights", "gradients", "states", "master", "copies", "activations", "head", "logits")
    assert got["total"] == sum(got[part] for part in parts)
    assert got["share"] == got["total"] / (4 * accounting.H100_SXM.memory_bytes)


@pytest.mark.parametrize("shape", [(12,), (3, 4), (2, 3, 4), (5, 1, 2, 3)])
@pytest.mark.parametrize("view", ["", ".transpose(0, -1)", "[1:]", "[..., ::2]", "[1:2]"])
def test_tensor_is_torchs(shape, view):
    """Bytes and the position of every element agree; the rest of a view is from torch itself."""
    shown = eval(f"x{view}", {"x": torch.arange(math.prod(shape)).reshape(shape)})
    given = {"shape": ", ".join(map(str, shape)), "dtype": "int64", "view": view}
    got = results("tensor", **given, index="")
    assert got["bytes"] == tensor_memory.storage_bytes(shown)
    assert got["shown_bytes"] == tensor_memory.tensor_bytes(shown)
    assert math.isnan(got["position"])
    for index in itertools.product(*map(range, shown.shape)):
        at = results("tensor", **given, index=", ".join(map(str, index)))["position"]
        assert at == shown[index].item() == tensor_memory.element_offset(shown, index)


@pytest.mark.parametrize("name", calculator_formulas.FORMATS)
def test_calculator_rounding_are_torchs(name):
    dtype, info = getattr(torch, name), torch.finfo(getattr(torch, name))
    spec = precision.float_spec(dtype)
    generator = torch.Generator().manual_seed(0)
    width = 640 if name == "float64" else 100
    exponents = (torch.rand(300, generator=generator, dtype=torch.float64) - 0.5) * width
    mantissas = torch.randn(300, generator=generator, dtype=torch.float64)
    numbers = (mantissas * 10.0**exponents).tolist()
    # Ties, the limits and their neighbours, and 0.
    least = spec.smallest_subnormal
    numbers += [0.0, 1.0, -1.5, info.max, -info.max, info.smallest_normal]
    numbers += [least, least / 2, least * 0.75, 1 + spec.eps / 2, 1 + spec.eps * 1.5, 3.0, 448.0]
    for number in filter(math.isfinite, numbers):
        got = results("number-formats", x=number, format=name)
        limits = [got[key] for key in ("largest", "smallest_normal", "smallest", "eps")]
        assert limits == [spec.max, spec.smallest_normal, spec.smallest_subnormal, spec.eps]
        assert got["lost"] == precision.underflows_to_zero(number, dtype) * (number != 0)
        if got["overflows"]:
            continue
        # Via float32, torch rounds twice, so only what float32 can represent is compared.
        exact = number == torch.tensor(number, dtype=torch.float32).item()
        if name in ("float64", "float32") or exact:
            assert got["rounded"] == torch.tensor(number, dtype=torch.float64).to(dtype).item()
        assert abs(got["rounded"] - number) <= got["step"] / 2
        assert got["in_format"] == got["rounded"]


@pytest.mark.parametrize(
    ("name", "number", "text"),
    [
        ("float8_e4m3fn", 465.0, "448"),
        ("float8_e4m3fn", 464.0, "448"),
        ("float8_e5m2", 65520.0, "∞"),
        ("float16", -65520.0, "−∞"),
        ("float16", 65519.0, "65,504"),
        ("bfloat16", 1e40, "∞"),
        ("float32", 1e38, "1.0000e38"),
        ("float32", -math.inf, "−∞"),
        ("float8_e4m3fn", math.inf, "448"),
    ],
)
def test_a_number_that_is_too_large_becomes_what_torch_makes_of_it(name, number, text):
    assert shown("number-formats", "in_format", x=number, format=name) == text
    value = results("number-formats", x=number, format=name)["in_format"]
    by_torch = torch.tensor(number).to(getattr(torch, name)).double().item()
    # Without an infinity, earlier versions of torch make it NaN.
    assert by_torch == pytest.approx(value, rel=1e-7) or math.isnan(by_torch)


# --- formulas translated to JavaScript ------------------------------------------------------------


OTHERWISE = [
    "a // b", "a % b", "a and b", "a if b else c", "lambda: a", "1 < a < b", "log(a)", "a.sqrt(b)",
    "[a]", "-a ** b", "'a'[0:1]",
]  # fmt: skip


@pytest.mark.parametrize("formula", OTHERWISE)
def test_what_javascript_reads_otherwise_is_refused(formula):
    with pytest.raises(ValueError, match=r"share|function|sign"):
        calculator_formulas.checked(formula)


def test_a_result_uses_only_what_is_above_it(monkeypatch, tmp_path):
    wrong = tmp_path / "calculators.toml"
    text = calculator_formulas.SOURCE.read_text(encoding="utf-8")
    text = text.replace('formula = "product(shape)"', 'formula = "product(shape) + bytes"', 1)
    wrong.write_text(text, encoding="utf-8")
    monkeypatch.setattr(calculator_formulas, "SOURCE", wrong)
    with pytest.raises(ValueError, match="tensor: elements uses bytes"):
        calculator_formulas.load.__wrapped__()


WRITTEN = [
    ("count", 65536.0, "65,536"), ("count", 0.5, "0.50"), ("count", 6.3e24, "6.300e24"),
    ("count", 2415919104.0, "2,415,919,104 (2.42 billion)"), ("count", math.inf, "–"),
    ("bytes", 2415919104.0, "2.416 GB"), ("bytes", 0.0, "0 B"), ("bytes", 9.6e22, "9.600e22 B"),
    ("seconds", 2.17026e-6, "2.17 µs"), ("seconds", 3e-11, "3.000e-11 s"),
    ("seconds", 172800.0, "2.00 days"), ("seconds", 8.64e30, "1.000e26 days"),
    ("integer", 2.5, "3"),  # halves are rounded up, as by toFixed
    ("integer", -0.2, "0"), ("integer", math.nan, "–"),
    ("float", -65504.0, "−65,504"), ("float", -1e-8, "−1.0000e-08"),
    ("percent", 0.0034, "0.34 %"), ("percent", 1.2e21, "1.200e23 %"),
    ("intensity", 0.25, "0.25"), ("intensity", 295.37, "295.4"),
    ("held", math.inf, "∞"), ("held", -math.inf, "−∞"),
    ("list", [20.0, 5.0, 1.0], "(20, 5, 1)"), ("list", [3.0], "(3,)"),
    ("list", [1000.0, 2.0], "(1000, 2)"),
]  # fmt: skip


@pytest.mark.parametrize(("show", "value", "text"), WRITTEN)
def test_numbers_are_written(show, value, text):
    assert calculator_rounding.display(value, show).replace("\u00a0", " ") == text


def test_defaults_are_written_as_typed():
    texts = {70e9: "70e9", 15e12: "15e12", 1024: "1024", 0.5: "0.5", 1e-8: "1e-8", "3, 4": "3, 4"}
    texts[12632.5e6] = "12.6325e9"
    assert {value: calculators.typed(value) for value in texts} == texts
