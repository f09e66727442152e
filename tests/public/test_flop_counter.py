"""flop_counter: FLOPs counted while the operators run. Handout §4.2."""

import contextlib

import pytest
import torch
import torch.nn.functional as F

from kit import expect


def test_counts_the_example(student):
    """A 2×3 times a 3×4 matrix takes 2 · 2 · 3 · 4 = 48 FLOPs.

    The addition, and what runs outside the `with`, count as 0.
    """
    a, b = torch.ones(2, 3), torch.ones(3, 4)
    counter = student.flop_counting.FlopCounter()
    with counter:
        result = a @ b + 1
    torch.mm(a, b)
    expect.tensor(result, a @ b + 1, of="FlopCounter", name="the result under the counter")
    expect.value(counter.total, 48, of="FlopCounter", inputs="a[2, 3] @ b[3, 4]")
    expect.value(dict(counter.by_op), {"mm": 48}, of="FlopCounter", inputs="a[2, 3] @ b[3, 4]")


def test_counts_addmm_and_bmm(student):
    """addmm of 2×3 and 3×4 takes 48 FLOPs, bmm of five such pairs 240."""
    a, b = torch.ones(2, 3), torch.ones(3, 4)
    with student.flop_counting.FlopCounter() as counter:
        torch.addmm(torch.zeros(4), a, b)
        torch.bmm(a.expand(5, 2, 3), b.expand(5, 3, 4))
    want = {"addmm": 48, "bmm": 240}
    hints = [
        ({**want, "mm": 48}, "does another counter share the dict? Make it in __init__"),
        ({"bmm": 240}, "addmm is a product, too"),
        ({"addmm": 48}, "bmm is a product, too"),
        ({**want, "addmm": 60}, "the addition counts as 0"),
        ({**want, "bmm": 48}, "each pair of matrices of the batch counts"),
        ({**want, "bmm": 1200}, "both operands have the batch, which counts once"),
        ({"mm": 48, "bmm": 240}, "the key is the operator's own name"),
        ({**want, "addmm": 24}, "addmm's first argument is added, and not multiplied"),
        ({**want, "addmm": 32}, "addmm's first argument is added, and not multiplied"),
    ]
    expect.value(dict(counter.by_op), want, of="FlopCounter", hints=hints)
    expect.value(counter.total, 288, of="FlopCounter")


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64])
def test_counts_products_of_other_dtypes(student, dtype):
    """A multiply and an add are two FLOPs in every dtype: 2 · 2 · 3 · 4."""
    a, b = torch.ones(2, 3, dtype=dtype), torch.ones(3, 4, dtype=dtype)
    with student.flop_counting.FlopCounter() as counter:
        a @ b
    expect.value(counter.total, 48, of="FlopCounter", inputs=f"{dtype} a[2, 3] @ b[3, 4]")


def test_counts_a_training_step(student):
    """10 rows through a 3 → 4 layer take 240 FLOPs forward and 240 for the weight's gradient.

    The data needs no gradient.
    """
    x, weight = torch.ones(10, 3), torch.ones(4, 3, requires_grad=True)
    with student.flop_counting.FlopCounter() as counter:
        F.linear(x, weight).sum().backward()
    hints = {240: "240 of the forward pass, and 240 of the operators of the backward pass"}
    expect.value(counter.total, 480, of="FlopCounter", hints=hints)
    expect.tensor(
        weight.grad, torch.full((4, 3), 10.0), of="FlopCounter", name="the weight's gradient"
    )


def test_counts_attention(student):
    """With b·h·q·k·d = 2·3·4·5·8 = 960, attention takes 4 · 960 = 3,840 forward, 9,600 backward."""
    q = torch.ones(2, 3, 4, 8, requires_grad=True)
    k, v = (torch.ones(2, 3, 5, 8, requires_grad=True) for _ in range(2))
    with student.flop_counting.FlopCounter() as counter:
        F.scaled_dot_product_attention(q, k, v).sum().backward()
    name = "scaled_dot_product_attention"
    back = f"{name}_backward"
    expected = {name: 3840, back: 9600}
    kernel = "attention runs as a kernel whose name is longer: look with OperatorLog"
    hints = [
        ({}, kernel),
        ({name: 3840}, f"the backward pass has a kernel of its own, and the key {back}"),
        ({name: 3840 + 9600}, f"the backward pass has the key {back}"),
        (
            {**expected, back: 7680},
            "the backward pass has five products: the scores once more",
        ),
        ({**expected, name: 1920}, "the product with the values counts, too"),
        ({**expected, name: 3072}, "there are 4 queries, but 5 keys"),
    ]
    got = dict(counter.by_op)
    hint = kernel if any(key not in expected for key in got) else None
    expect.value(got, expected, of="FlopCounter", hint=hint, hints=hints)


def test_counters_nest(student):
    """The outer counter counts what the inner one counts, plus what runs before and after it."""
    a, b = torch.ones(2, 3), torch.ones(3)
    with student.flop_counting.FlopCounter() as outer:
        a @ b
        with student.flop_counting.FlopCounter() as inner:
            a @ b
            b @ b
        a @ b
    expect.value(
        dict(inner.by_op), {"mv": 12, "dot": 6}, of="FlopCounter", inputs="the inner counter"
    )
    expect.value(
        dict(outer.by_op), {"mv": 36, "dot": 6}, of="FlopCounter", inputs="the outer counter"
    )


def products(x, w, c):
    """Every way to multiply that is counted, with in-place forms, out= and keyword arguments."""
    row, out = x[0, 0], torch.empty(3, 5, dtype=x.dtype)
    yield "matmul of a batch", lambda: x @ w
    yield "linear", lambda: F.linear(x, w.T)
    yield "mv and dot", lambda: (w.T @ row) @ w[0]
    yield "baddbmm", lambda: torch.baddbmm(c, x, w.expand(2, 4, 5), beta=0.5, alpha=2.0)
    yield "addmm with alpha", lambda: torch.addmm(c[0], x[0], w, alpha=3.0)
    yield "addmm_", lambda: c[0].clone().addmm_(x[0], w)
    yield "baddbmm_", lambda: c.clone().baddbmm_(x, w.expand(2, 4, 5))
    yield "mm with out=", lambda: torch.mm(x[0], w, out=out)
    yield "an embedding", lambda: F.embedding(torch.tensor([1, 0]), w)
    yield "element-wise", lambda: (x * 2 + 1).sum(-1).exp()
    yield "two results", lambda: torch.stack(list((x @ w).max(-1)))


FLOPS = [240, 240, 50, 240, 120, 120, 240, 120, 0, 0, 240]


@pytest.mark.parametrize("number", range(len(FLOPS)))
@pytest.mark.parametrize("setting", ["", "inference_mode"])
def test_counts_every_kind_of_product_once(student, number, setting):
    """2 · m · k · n, times the batch size; the results are those without a counter.

    Under inference_mode, matmul and linear arrive undivided, but their parts are counted.
    """
    mode = getattr(torch, setting)() if setting else contextlib.nullcontext()
    with mode:
        numbers = torch.Generator().manual_seed(0)
        x, w = torch.randn(2, 3, 4, generator=numbers).double(), torch.randn(4, 5).double()
        c = torch.ones(2, 3, 5).double()
        name, compute = list(products(x, w, c))[number]
        want = compute().clone()
        with student.flop_counting.FlopCounter() as counter:
            got = compute()
    expect.tensor(got.clone(), want, of="FlopCounter", name=f"the result of {name}")
    expect.value(counter.total, FLOPS[number], of="FlopCounter", inputs=f"{name} {setting}")
    same = {"addmm_": {"addmm": 120}, "baddbmm_": {"baddbmm": 240}}.get(name)
    if same:
        expect.value(dict(counter.by_op), same, of="FlopCounter", inputs=name)


MASKS = {
    "no mask": {},
    "a causal mask": {"is_causal": True},
    "attn_mask": {"attn_mask": torch.eye(4) > 0},
}


@pytest.mark.parametrize("mask", MASKS)
def test_counts_attention_of_other_sizes(student, mask):
    """4 queries and 4 keys, with 8 features each; a mask does not lower the count."""
    q, k, v = (torch.ones(2, 3, 4, 8, requires_grad=True) for _ in range(3))
    with student.flop_counting.FlopCounter() as counter:
        F.scaled_dot_product_attention(q, k, v, **MASKS[mask]).sum().backward()
    inputs = f"b·h·q·k·d = 2·3·4·4·8, {mask}"
    expect.value(counter.total, (4 + 10) * 2 * 3 * 4 * 4 * 8, of="FlopCounter", inputs=inputs)


def test_an_exception_leaves_the_count_and_ends_the_counting(student):
    """An exception reaches the caller. Products before it are counted, later ones are not."""
    a = torch.ones(2, 2)
    counter, kept = student.flop_counting.FlopCounter(), []
    with expect.raises(OSError, of="FlopCounter", when="the block raises OSError"), counter:
        a @ a
        kept.append(counter.total)
        raise OSError
    a @ a
    expect.value(kept, [16], of="FlopCounter", name="total inside the block")
    expect.value(counter.total, 16, of="FlopCounter", name="total after the exception")


def test_two_counters_are_independent(student):
    """A counter that was only created counts nothing, and a new one begins at 0."""
    a = torch.ones(2, 2)
    first, second = student.flop_counting.FlopCounter(), student.flop_counting.FlopCounter()
    a @ a
    with first:
        a @ a
    expect.value([first.total, second.total], [16, 0], of="FlopCounter", name="the two totals")
    expect.value(dict(second.by_op), {}, of="FlopCounter", name="the second by_op")


def test_a_counter_changes_no_computation(student):
    """Random numbers are the same under a counter, and views stay views."""
    x = torch.zeros(4)
    torch.manual_seed(3)
    want = torch.rand(3)
    torch.manual_seed(3)
    with student.flop_counting.FlopCounter():
        got, view = torch.rand(3), x[1:]
        x.add_(1)
    expect.tensor(got, want, of="FlopCounter", name="random numbers under the counter")
    expect.tensor(view, torch.ones(3), of="FlopCounter", name="a view of what was changed")
