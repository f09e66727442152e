"""flop_counter: FLOPs counted while the operators run. Handout §4.2."""

import pytest
import torch
import torch.nn.functional as F

from kit import expect


def counts(counter):
    """The values of by_op that are not 0, in order; the keys may have any names."""
    expect.kind(counter.by_op, dict, of="FlopCounter.by_op")
    return sorted(count for count in counter.by_op.values() if count)


def has_results():
    """Check that an operator has a result under a counter; making a tensor takes 0 FLOPs."""
    of, hint = "FlopCounter.__torch_dispatch__", "return what func(*args, **kwargs) returned"
    expect.that(torch.empty(0) is not None, "it returns None", of=of, hint=hint)


def test_counts_the_example(student):
    """A 2×3 times a 3×4 matrix takes 2 · 2 · 3 · 4 = 48 FLOPs.

    The addition, and what runs outside the `with`, count as 0.
    """
    a, b = torch.ones(2, 3), torch.ones(3, 4)
    counter = student.flop_counting.FlopCounter()
    with counter:
        has_results()
        result = a @ b + 1
    torch.mm(a, b)
    expect.tensor(result, a @ b + 1, of="FlopCounter", name="the result under the counter")
    hints = {24: "a multiply and an add are two FLOPs", 56: "an addition counts as 0"}
    hints |= {96: "the product after the `with` does not count"}
    expect.value(counter.total, 48, of="FlopCounter", inputs="a[2, 3] @ b[3, 4]", hints=hints)
    expect.value(counts(counter), [48], of="FlopCounter.by_op", inputs="a[2, 3] @ b[3, 4]")


def test_counts_addmm_and_bmm(student):
    """addmm of 2×3 and 3×4 takes 48 FLOPs, bmm of five such pairs 240."""
    a, b = torch.ones(2, 3), torch.ones(3, 4)
    with student.flop_counting.FlopCounter() as counter:
        has_results()
        torch.addmm(torch.zeros(4), a, b)
        torch.bmm(a.expand(5, 2, 3), b.expand(5, 3, 4))
    added = "addmm's first argument is added, and not multiplied"
    hints = [
        ([48, 48, 240], "does another counter share the dict? Make it in __init__"),
        ([240], "addmm is a product, too"),
        ([48], "bmm is a product, too"),
        ([60, 240], "the addition counts as 0"),
        ([48, 48], "each pair of matrices of the batch counts"),
        ([48, 1200], "both operands have the batch, which counts once"),
        ([24, 240], added),
        ([32, 240], added),
        ([288], "by_op has a key for each operator"),
    ]
    inputs = "addmm of [2, 3] and [3, 4]; bmm of five such pairs"
    expect.value(counts(counter), [48, 240], of="FlopCounter.by_op", inputs=inputs, hints=hints)
    expect.value(counter.total, 288, of="FlopCounter", inputs=inputs)


def test_counts_a_training_step(student):
    """10 rows through a 3 → 4 layer take 240 FLOPs forward and 240 for the weight's gradient.

    The data needs no gradient.
    """
    x, weight = torch.ones(10, 3), torch.ones(4, 3, requires_grad=True)
    with student.flop_counting.FlopCounter() as counter:
        has_results()
        F.linear(x, weight).sum().backward()
    hints = {240: "240 of the forward pass, and 240 of the operators of the backward pass"}
    inputs = "10 rows through a 3 → 4 layer, and the backward pass"
    expect.value(counter.total, 480, of="FlopCounter", inputs=inputs, hints=hints)
    name = "the weight's gradient"
    expect.tensor(weight.grad, torch.full((4, 3), 10.0), of="FlopCounter", name=name)


def attention_passes(student, q, k, v, **options):
    """The totals of attention's forward pass and of its backward pass."""
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    with student.flop_counting.FlopCounter() as forward:
        has_results()
        result = F.scaled_dot_product_attention(q, k, v, **options)
    with student.flop_counting.FlopCounter() as backward:
        has_results()
        result.sum().backward()
    return forward.total, backward.total


def test_counts_attention(student):
    """With b·h·q·k·d = 2·3·4·5·8 = 960, attention takes 4 · 960 = 3,840 forward, 9,600 backward."""
    q, k, v = torch.ones(2, 3, 4, 8), torch.ones(2, 3, 5, 8), torch.ones(2, 3, 5, 8)
    inputs = "b·h·q·k·d = 2·3·4·5·8"
    forward, backward = attention_passes(student, q, k, v)
    hints = {
        0: "attention runs as a kernel whose name is longer: look with OperatorLog",
        1920: "the product with the values counts, too",
        3072: "there are 4 queries, but 5 keys",
    }
    name = "the forward pass"
    expect.value(forward, 3840, of="FlopCounter", name=name, inputs=inputs, hints=hints)
    hints = {
        0: "the backward pass has a kernel of its own: look with OperatorLog",
        3072: "its first argument is a gradient; q, k and v follow, and it has five products",
        3840: "the backward pass has five products: the scores once more, and four gradients",
        7680: "the backward pass has five products: the scores once more",
    }
    name = "the backward pass"
    expect.value(backward, 9600, of="FlopCounter", name=name, inputs=inputs, hints=hints)


MASKS = {
    "no mask": {},
    "a causal mask": {"is_causal": True},
    "attn_mask": {"attn_mask": torch.eye(4) > 0},
}


@pytest.mark.parametrize("mask", MASKS)
def test_counts_attention_of_other_sizes(student, mask):
    """4 queries and 4 keys, with 8 features each; a mask does not lower the count."""
    q, k, v = (torch.ones(2, 3, 4, 8) for _ in range(3))
    inputs = f"b·h·q·k·d = 2·3·4·4·8, {mask}, both passes"
    total = sum(attention_passes(student, q, k, v, **MASKS[mask]))
    expect.value(total, (4 + 10) * 2 * 3 * 4 * 4 * 8, of="FlopCounter", inputs=inputs)


def test_counts_attention_by_a_kernel_of_a_gpu(student):
    """8 features of a query and 16 of a value: 2 · 480 · (8 + 16), and 2 · 480 · (24 + 32).

    There are 2·3·4·20 = 480 pairs. On the meta device, a GPU's kernel runs without a GPU.
    """
    kernel = torch.ops.aten._scaled_dot_product_efficient_attention
    options, sizes = {"device": "meta", "requires_grad": True}, [(4, 8), (20, 8), (20, 16)]
    q, k, v = (torch.empty(2, 3, *size, **options) for size in sizes)
    with student.flop_counting.FlopCounter() as forward:
        has_results()
        result, *_ = kernel(q, k, v, None, True)
    with student.flop_counting.FlopCounter() as backward:
        has_results()
        result.sum().backward()
    inputs = "b·h·q·k = 2·3·4·20, d = 8, v = 16, _scaled_dot_product_efficient_attention"
    hints = {0: "any kernel may run: compare the beginning of the name"}
    hints |= {15_360: "v may be wider than d", 30_720: "v may be wider than d"}
    for name, counter, want in [("forward", forward, 23_040), ("backward", backward, 53_760)]:
        more = {"name": f"the {name} pass", "inputs": inputs, "hints": hints}
        expect.value(counter.total, want, of="FlopCounter", **more)


def test_counters_nest(student):
    """The outer counter counts what the inner one counts, plus what runs before and after it."""
    a, b = torch.ones(2, 3), torch.ones(3)
    with student.flop_counting.FlopCounter() as outer:
        has_results()
        a @ b
        with student.flop_counting.FlopCounter() as inner:
            has_results()
            a @ b
            b @ b
        a @ b
    inputs = "mv (12 FLOPs), inside it mv and dot (6), and mv again"
    hints = [([12], "dot is a product, too"), ([6], "mv is a product, too")]
    name = "the inner by_op"
    expect.value(counts(inner), [6, 12], of="FlopCounter", name=name, inputs=inputs, hints=hints)
    expect.value(counts(outer), [6, 36], of="FlopCounter", name="the outer by_op", inputs=inputs)
    expect.value(outer.total, 42, of="FlopCounter", name="the outer total", inputs=inputs)


def products(x, w, c):
    """Many ways to multiply, some with keyword arguments, and work without a product."""
    row = x[0, 0]
    yield "matmul of a batch", lambda: x @ w, 240
    yield "linear", lambda: F.linear(x, w.T), 240
    yield "mv and dot", lambda: (w.T @ row) @ w[0], 50
    yield "baddbmm", lambda: torch.baddbmm(c, x, w.expand(2, 4, 5), beta=0.5, alpha=2.0), 240
    yield "addmm with alpha", lambda: torch.addmm(c[0], x[0], w, alpha=3.0), 120
    yield "an embedding", lambda: F.embedding(torch.tensor([1, 0]), w), 0
    yield "element-wise", lambda: (x * 2 + 1).sum(-1).exp(), 0
    yield "two results", lambda: torch.stack(list((x @ w).max(-1))), 240


@pytest.mark.parametrize("number", range(8))
def test_counts_every_kind_of_product_once(student, number):
    """2 · m · k · n, times the batch size; the results are those without a counter."""
    numbers = torch.Generator().manual_seed(0)
    x, w = torch.randn(2, 3, 4, generator=numbers).double(), torch.randn(4, 5).double()
    name, compute, flops = list(products(x, w, torch.ones(2, 3, 5).double()))[number]
    want = compute()
    with student.flop_counting.FlopCounter() as counter:
        has_results()
        got = compute()
    hint = "func(*args, **kwargs) has the result: return it as it is"
    expect.tensor(got, want, of="FlopCounter", name=f"the result of {name}", hint=hint)
    expect.value(counter.total, flops, of="FlopCounter", inputs=name)


def test_counts_are_exact_however_large(student):
    """Two square matrices of 2²⁵ + 1 take more FLOPs than a float or an int64 holds exactly."""
    side = 2**25 + 1
    a = torch.empty(side, side, dtype=torch.int8, device="meta")
    with student.flop_counting.FlopCounter() as counter:
        has_results()
        torch.mm(a, a)
    expect.value(counter.total, 2 * side**3, of="FlopCounter", inputs=f"two {side}×{side} matrices")


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
    """A counter that was only created counts nothing, and one that is entered again goes on."""
    a = torch.ones(2, 2)
    first, second = student.flop_counting.FlopCounter(), student.flop_counting.FlopCounter()
    a @ a
    for _ in range(2):
        with first:
            a @ a
    hints = [([16, 0], "a counter that is entered again goes on counting")]
    totals = [first.total, second.total]
    expect.value(totals, [32, 0], of="FlopCounter", name="the two totals", hints=hints)
    expect.value(counts(second), [], of="FlopCounter", name="the second by_op")


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
