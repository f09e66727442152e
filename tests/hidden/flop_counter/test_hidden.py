"""flop_counter: what a counter counts, when it counts, and that it does not change results.

A float with a whole value fails only the one test for integers. Products by operators that the
stub does not name (addmv, addbmm, vdot, convolutions) are never run, and no counter is entered a
second time before it was left.

The operators into which torch.matmul, einsum and linear decompose differ between versions of torch,
so only their total is judged: 2 · K per element of the result. The names in by_op are judged on
calls of single operators. Everything other than a formula is judged in units of the student's own
count of one mm, which must be above 0: so a mistake in a formula costs only that formula's points,
and a counter that counts nothing earns nothing. Fused kernels that a CPU does not have run on the
meta device.
"""

import itertools

import pytest
import torch

from kit import expect
from tests.probes import flop_counting as probes

OF = "FlopCounter"
ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
NO_KERNEL = "without a fused kernel, attention is counted as bmm or mm"
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "mv", "dot")
KEY, KEY_BACKWARD = "scaled_dot_product_attention", "scaled_dot_product_attention_backward"


def sizes(rng, count, low=2, high=9):
    """Distinct sizes, so that no two dimensions can be confused."""
    return (low + torch.randperm(high - low, generator=rng)[:count]).tolist()


def check_total(read, expected, hint=None):
    """Check a counter's total. A float with a whole value is fine: another test checks the type."""
    expect.number(
        read["total"], expected, of=OF, name="total", tolerance=1e-12 * expected, hint=hint
    )


def total_of(read):
    """Check that a counter's total is a number above 0, and return it."""
    total = read["total"]
    expect.number(total, total, of=OF, name="total", tolerance=0.0)
    expect.that(total > 0, "a product counts as 0 FLOPs", of=OF, hint="2 · m · k · n")
    return total


def by_op_of(read):
    """Check that a counter's by_op is a dict of numbers, and return it."""
    by_op = read["by_op"]
    expect.kind(by_op, dict, of=f"{OF}.by_op")
    for count in by_op.values():
        expect.number(count, count, of=f"{OF}.by_op", tolerance=0.0)
    return by_op


def own_total(student, **inputs):
    """The student's count of one product, which must be above 0."""
    return total_of(student.run(probes.counts, cases=[inputs])[0])


def operands(rng, name, size=0, dtype=torch.float32):
    """Tensors for one operator, and the number of FLOPs it takes.

    Args:
        size: The size of all dimensions; 0 for distinct sizes.
    """
    m, k, n, b = [size] * 4 if size else sizes(rng, 4)
    shapes = {
        "mm": [(m, k), (k, n)],
        "addmm": [(m, n), (m, k), (k, n)],
        "bmm": [(b, m, k), (b, k, n)],
        "baddbmm": [(b, m, n), (b, m, k), (b, k, n)],
        "mv": [(m, k), (k,)],
        "dot": [(k,), (k,)],
    }[name]
    flops = {
        "mm": m * k * n,
        "addmm": m * k * n,
        "bmm": b * m * k * n,
        "baddbmm": b * m * k * n,
        "mv": m * k,
        "dot": k,
    }
    return [torch.randn(shape, generator=rng).to(dtype) for shape in shapes], 2 * flops[name]


def qkv(
    rng, *, batch, heads, queries, keys, d, kv_heads=None, v=None, dtype=torch.float32, device="cpu"
):
    """Queries, keys and values for attention."""
    kv_heads = kv_heads or heads
    shapes = [
        (batch, heads, queries, d),
        (batch, kv_heads, keys, d),
        (batch, kv_heads, keys, v or d),
    ]
    if device == "meta":
        return [torch.empty(shape, dtype=dtype, device=device) for shape in shapes]
    return [torch.randn(shape, generator=rng).to(dtype) for shape in shapes]


def pair(rng):
    """Two matrices that can be multiplied."""
    m, k, n = sizes(rng, 3)
    return {"a": torch.randn(m, k, generator=rng), "b": torch.randn(k, n, generator=rng)}


def one_mm(student, operands):
    """The student's count of one mm, which must be above 0.

    Tests that are not about a formula use this as their unit.
    """
    return own_total(student, function="torch.mm", args=(operands["a"], operands["b"]))


# --- what is counted


def check_operators(student, rng, names, hint):
    """Check that each of these operators takes the FLOPs of its formula."""
    dtypes = (torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128)
    dtypes += (torch.int64, torch.int32, torch.uint8)
    for name in names:
        kinds = [{}, {}, {"size": 1}, {"size": 5}, *({"dtype": dtype} for dtype in dtypes)]
        drawn = [operands(rng, name, **kind) for kind in kinds]
        cases = [{"args": args} for args, _ in drawn]
        cases += [{**cases[0], "views": True}]
        cases += [{"args": [x.to("meta") for x in drawn[1][0]]}]
        expected = [flops for _, flops in (*drawn, *drawn[:2])]
        if name in ("addmm", "baddbmm"):
            for option in ({"alpha": 0}, {"beta": 0}, {"alpha": 2, "beta": 3}):
                cases += [{**cases[0], "options": option}]
                expected += [drawn[0][1]]
            # What is added may be broadcast.
            added, *factors = drawn[0][0]
            for part in (added[(slice(1),) * (added.dim() - 1)], added[(0,) * (added.dim() - 1)]):
                cases += [{"args": [part, *factors]}]
                expected += [drawn[0][1]]
        cases = [{"function": f"torch.{name}", **case} for case in cases]
        got = student.run(probes.counts, cases=cases)
        for read, flops in zip(got, expected, strict=True):
            check_total(read, flops, hint)


# Stays: this test checks the formula itself; a mistake in it also shows in larger computations.
@pytest.mark.core
@pytest.mark.points(3)
def test_counts_mm(student, rng):
    """An m×k times a k×n matrix takes 2 · m · k · n FLOPs: k multiplies and k adds per element."""
    check_operators(student, rng, ["mm"], "2 · m · k · n, from the shapes of the operands")
    pairs = [((1, 7), (7, 1)), ((3, 1), (1, 4)), ((3, 0), (0, 4)), ((0, 3), (3, 4))]
    # As many elements as in the pair before, but other sizes.
    pairs += [((2, 6), (6, 4)), ((4, 3), (3, 8)), ((3, 4), (4, 6))]
    cases = [{"function": "torch.mm", "args": tuple(map(torch.ones, pair))} for pair in pairs]
    got = student.run(probes.counts, cases=cases)
    for read, (a, b) in zip(got, pairs, strict=True):
        check_total(read, 2 * a[0] * a[1] * b[1], "2 · m · k · n, from the shapes of the operands")


# Stays: a mistake in the batch also shows in attention and matmul.
@pytest.mark.core
@pytest.mark.points(2)
def test_counts_bmm(student, rng):
    """A batch of b products takes 2 · b · m · k · n FLOPs."""
    check_operators(student, rng, ["bmm"], "2 · b · m · k · n")


# Stays: a mistake in addmm also shows in linear layers.
@pytest.mark.core
def test_counts_addmm_and_baddbmm(student, rng):
    """addmm and baddbmm take as many FLOPs as mm and bmm: the addition is free."""
    hint = "the first argument is added, the next two are multiplied"
    check_operators(student, rng, ["addmm", "baddbmm"], hint)


# Stays: products with vectors are promised by name; matmul is only one way to run them.
@pytest.mark.core
def test_counts_mv_and_dot(student, rng):
    """A matrix times a vector takes 2 · m · k FLOPs, and the dot product of two vectors 2 · k."""
    check_operators(
        student,
        rng,
        ["mv", "dot"],
        "these are products too: 2 FLOPs per element of the first operand",
    )


def test_counts_in_place_and_out_forms(student, rng):
    """addmm_, baddbmm_ and the out= forms take as many FLOPs as the plain forms."""
    in_place = "the in-place form is another operator with its own name"
    out = "func.overloadpacket is the same for mm.default and mm.out"
    for mode in ("", "inference_mode"):
        cases, hints, plain = [], [], 0
        for name in PRODUCTS:
            args, _ = operands(rng, name)
            inputs = {"function": f"torch.{name}", "args": args, "mode": mode}
            options = {"out": getattr(torch, name)(*args).zero_()}
            cases += [inputs, {**inputs, "options": options}]
            hints += ["", out]
            if name in ("addmm", "baddbmm"):
                cases += [{**inputs, "function": f"torch.Tensor.{name}_"}]
                hints += [in_place]
        for read, hint in zip(student.run(probes.counts, cases=cases), hints, strict=True):
            if hint:
                check_total(read, plain, hint)
            else:
                plain = total_of(read)


# Stays: in practice products are written this way; a mistake here also shows in the operators that
# they become.
@pytest.mark.core
@pytest.mark.points(4)
def test_counts_what_matmul_becomes_once(student, rng):
    """matmul, einsum, tensordot and linear take 2 · K per element of the result, counted once."""
    m, k, n, b, c = sizes(rng, 5)
    # Each entry: the function, its arguments before the tensors, the tensors' shapes, and the size
    # that is summed over.
    calls = [
        ("torch.matmul", [], [(b, m, k), (k, n)], k),
        ("torch.matmul", [], [(b, 1, m, k), (c, k, n)], k),
        ("torch.matmul", [], [(m, k), (b, k, n)], k),
        ("torch.matmul", [], [(k,), (k, n)], k),
        ("torch.matmul", [], [(m, k), (k,)], k),
        ("torch.matmul", [], [(k,), (k,)], k),
        ("torch.inner", [], [(b, m, k), (n, k)], k),
        ("torch.einsum", ["bmk,kn->bmn"], [(b, m, k), (k, n)], k),
        ("torch.einsum", ["bcmk,bcnk->bcmn"], [(b, c, m, k), (b, c, n, k)], k),
        ("torch.tensordot", [], [(b, k, m), (k, m, n)], k * m),
        ("torch.nn.functional.linear", [], [(k,), (n, k)], k),
        ("torch.nn.functional.linear", [], [(m, k), (n, k)], k),
        ("torch.nn.functional.linear", [], [(b, m, k), (n, k)], k),
        ("torch.nn.functional.linear", [], [(b, c, m, k), (n, k), (n,)], k),
    ]
    cases, expected = [], []
    for function, before, shapes, summed in calls:
        args = [*before, *(torch.randn(shape, generator=rng) for shape in shapes)]
        options = {"dims": 2} if function == "torch.tensordot" else {}
        result = getattr(
            torch.nn.functional if "linear" in function else torch, function.rpartition(".")[2]
        )(*args, **options)
        cases += [{"function": function, "args": args, "options": options}]
        expected += [2 * summed * result.numel()]
    hint = "which operators does the operator log show for this call?"
    for read, flops in zip(student.run(probes.counts, cases=cases), expected, strict=True):
        check_total(read, flops, hint)


# Stays: counting a backward pass is the counter's purpose; code that misses it also misses the
# backward pass of attention.
@pytest.mark.core
@pytest.mark.points(4)
def test_counts_the_backward_pass(student, rng):
    """A layer's backward pass is two products, or one if its input needs no gradient."""
    batch, *dims = sizes(rng, 4)
    x = torch.randn(batch, dims[0], generator=rng)
    weights = [torch.randn(o, i, generator=rng) for i, o in itertools.pairwise(dims)]
    forward = 2 * batch * sum(w.numel() for w in weights)
    for needs in (False, True):
        inputs = {"x": x, "weights": weights, "x_needs_gradient": needs}
        got_forward, got_backward = student.run(probes.mlp, **inputs)
        check_total(got_forward, forward, "2 · rows · in · out for each layer")
        backward = 2 * forward - (0 if needs else 2 * batch * weights[0].numel())
        check_total(
            got_backward,
            backward,
            "the backward pass reaches __torch_dispatch__ without any extra code",
        )


def test_counts_no_other_work(student, rng):
    """Look-ups, element-wise operators, norms, reductions and views count as 0 FLOPs here."""
    one_mm(student, pair(rng))
    results = student.run(probes.no_products, x=torch.randn(5, 5, generator=rng))
    expect.parts(results, 2, of=OF)
    for read in results:
        check_total(read, 0, "count only the operators that the stub lists")


@pytest.mark.core
@pytest.mark.points(3)
def test_attention_forward(student, rng):
    """Fused attention takes 2 · b·h·q·k · (d + v) FLOPs, for scores and values, masked or not."""
    cases, expected = [], []
    for options, dtype, square in [
        ({}, torch.float32, False),
        ({"is_causal": True}, torch.float32, False),
        ({"is_causal": True}, torch.float32, True),
        ({"attn_mask": torch.ones(5, 6).tril() > 0, "scale": 0.5}, torch.float32, False),
        ({}, torch.bfloat16, False),
    ]:
        batch, heads, d = sizes(rng, 3, 2, 6)
        queries, keys = (5, 6) if "attn_mask" in options else sizes(rng, 2, 6, 12)
        keys = queries if square else keys
        args = qkv(rng, batch=batch, heads=heads, queries=queries, keys=keys, d=8 * d, dtype=dtype)
        cases += [{"function": ATTENTION, "args": args, "options": options}]
        expected += [4 * batch * heads * queries * keys * 8 * d]
    hint = (
        "the operator log shows which kernel ran; every query meets every key, even behind a mask"
    )
    for read, flops in zip(student.run(probes.counts, cases=cases), expected, strict=True):
        check_total(read, flops, hint)


# Stays: the kernels of GPUs, which another test runs, are not those that a student meets on a CPU.
def test_attention_of_grouped_heads(student, rng):
    """With fewer key heads than query heads, each query head still computes scores and values."""
    batch, kv_heads, group, queries, keys, d = sizes(rng, 6, 2, 10)
    cases, expected = [], []
    for heads, options in [(kv_heads * group, {"enable_gqa": True}), (kv_heads, {})]:
        args = qkv(
            rng, batch=batch, heads=heads, kv_heads=kv_heads, queries=queries, keys=keys, d=d
        )
        cases += [{"function": ATTENTION, "args": args, "options": options}]
        expected += [4 * batch * heads * queries * keys * d]
    hint = "which heads are counted, those of the queries or of the keys?"
    for read, flops in zip(student.run(probes.counts, cases=cases), expected, strict=True):
        check_total(read, flops, hint)


@pytest.mark.core
@pytest.mark.points(3)
def test_attention_backward(student, rng):
    """The backward pass of fused attention takes 2 · b·h·q·k · (3d + 2v) FLOPs: 5 products.

    The backward pass computes the scores again, and then four products for the gradients.
    """
    # The first causal mask is of a square, the other mask of 5 queries and 6 keys.
    masks = [
        {},
        {"is_causal": True},
        {"is_causal": True},
        {"attn_mask": torch.ones(5, 6).tril() > 0},
    ]
    for number, options in enumerate(masks):
        batch, heads, queries, keys, d = sizes(rng, 5, 2, 10)
        keys = queries if number == 1 else keys
        queries, keys = (5, 6) if "attn_mask" in options else (queries, keys)
        args = qkv(rng, batch=batch, heads=heads, queries=queries, keys=keys, d=d)
        inputs = {
            "function": ATTENTION,
            "args": args,
            "needs_gradient": [True] * 3,
            "options": options,
        }
        got = student.run(probes.forward_and_backward, **inputs)
        hint = (
            "which argument of the backward kernel comes first, and how many products does "
            "it compute?"
        )
        check_total(got["backward"], 10 * batch * heads * queries * keys * d, hint)


def test_attention_without_a_fused_kernel(student, rng):
    """Attention without a fused kernel counts as its products: two forward and four backward.

    It makes no difference whether autograd records the backward pass.
    """
    batch, heads, queries, keys, d, v = sizes(rng, 6, 2, 10)
    for width, options, recorded in [(v, {}, True), (d, {"dropout_p": 0.25}, False)]:
        args = qkv(rng, batch=batch, heads=heads, queries=queries, keys=keys, d=d, v=width)
        inputs = {
            "function": ATTENTION,
            "args": args,
            "needs_gradient": [True] * 3,
            "options": options,
            "recorded": recorded,
        }
        got = student.run(probes.forward_and_backward, **inputs)
        forward = 2 * batch * heads * queries * keys * (d + width)
        check_total(got["forward"], forward, "is each product counted once, as bmm?")
        check_total(got["backward"], 2 * forward, "is each product counted once, as bmm?")


# The arguments of each kernel before is_causal, the last one.
KERNELS = {"flash": (0.25,), "efficient": (None, True, 0.25), "cudnn": (None, True, 0.25)}


@pytest.mark.parametrize("kernel", KERNELS)
def test_attention_by_a_kernel_of_a_gpu(student, rng, kernel):
    """GPU kernels have the same formulas, masked or not, with fewer key heads or wide values."""
    batch, heads, queries, keys, d, v = (8 * size for size in sizes(rng, 6))
    function = f"torch.ops.aten._scaled_dot_product_{kernel}_attention"
    kv_heads = heads // (1 if kernel == "efficient" else 8)
    for causal in (False, True):
        # In the second call the values alone are wider or, if they cannot be, there are as many
        # keys as queries.
        if kernel == "efficient":
            v += 8 * causal
        else:
            v, keys = d, queries if causal else keys
        args = qkv(
            rng,
            batch=batch,
            heads=heads,
            kv_heads=kv_heads,
            queries=queries,
            keys=keys,
            d=d,
            v=v,
            dtype=torch.float16,
            device="meta",
        )
        extra = (*KERNELS[kernel], causal)
        inputs = {"function": function, "args": args, "needs_gradient": [True] * 3, "extra": extra}
        got = student.run(probes.forward_and_backward, **inputs)
        pairs = 2 * batch * heads * queries * keys
        hint = "the stub's names are examples: any kernel may take the place of the *"
        check_total(got["forward"], pairs * (d + v), hint)
        hint = "the scores again, then the gradients of probabilities, v, q and k"
        check_total(got["backward"], pairs * (3 * d + 2 * v), hint)


def test_totals_are_integers(student, rng):
    """Totals are exact Python integers, even for runs so large that they overflow int64."""
    m, k, n = (2**25 + 2 * i + 1 for i in sizes(rng, 3, 1, 1000))
    shapes = {
        "torch.mm": [(m, k), (k, n)],
        "torch.bmm": [(5, m, k), (5, k, n)],
        "torch.addmm": [(n,), (m, k), (k, n)],
        "torch.baddbmm": [(5, 1, n), (5, m, k), (5, k, n)],
        "torch.mv": [(m * k, 25), (25,)],
        "torch.dot": [(25 * m * k,), (25 * m * k,)],
    }
    cases = [
        {"function": name, "args": [torch.empty(x, device="meta", dtype=torch.int8) for x in made]}
        for name, made in shapes.items()
    ]
    got = student.run(probes.reads, cases=cases)
    reads = list(zip([m * k * n] * 4 + [25 * m * k] * 2, got, strict=True))
    function = "torch.ops.aten._scaled_dot_product_flash_attention"
    args = qkv(rng, batch=3, heads=7, queries=m, keys=n, d=8, dtype=torch.float16, device="meta")
    inputs = {"function": function, "args": args, "needs_gradient": [True] * 3}
    both = student.run(probes.forward_and_backward, **inputs)
    reads += [(21 * m * n, both["forward"]), (21 * m * n, both["backward"])]
    for number in (n for _, got in reads for n in (total_of(got), *by_op_of(got).values())):
        expect.kind(
            number,
            int,
            of=OF,
            name="a count",
            hint="use integers throughout: / gives a float, // does not",
        )
    # The products of the sizes are odd and larger than 2**53, so they do not divide a number that
    # was rounded to a float or that lost the bits above 64.
    hint = "a float is exact only up to 2**53, and a 64-bit integer of numpy or torch overflows"
    for divisor, got in reads:
        exact = got["total"] % divisor == 0
        expect.that(exact, "a large total is not exact", of=OF, hint=hint)


# Stays: code that misses these operators has no key for them either.
@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_counts_the_same_without_autograd(student, rng, mode):
    """Under no_grad and inference_mode the same products run and the counts are the same."""
    m, k, n, b, c = sizes(rng, 5)
    attended = qkv(rng, batch=b, heads=c, queries=m, keys=n, d=k)
    grouped = qkv(rng, batch=b, heads=1, queries=n, keys=n, d=k)[1:]
    calls = [
        ("torch.mm", [(m, k), (k, n)], {}),
        ("torch.matmul", [(b, m, k), (k, n)], {}),
        ("torch.matmul", [(b, 1, m, k), (c, k, n)], {}),
        ("torch.nn.functional.linear", [(b, m, k), (n, k), (n,)], {}),
        (ATTENTION, attended, {}),
        (ATTENTION, attended, {"dropout_p": 0.25}),
        (ATTENTION, attended, {"attn_mask": torch.ones(m, n).tril() > 0}),
        (ATTENTION, [attended[0], *grouped], {"enable_gqa": True}),
        (ATTENTION, [attended[0]] * 3, {"is_causal": True}),
        ("torch.einsum", ["bmk,bnk->bmn", (b, m, k), (b, n, k)], {}),
        ("torch.tensordot", [(b, m, k), (k, n)], {"dims": 1}),
        ("torch.inner", [(m, k), (n, k)], {}),
        ("torch.matmul", [(b, m, k), (k, n)], {"out": torch.empty(b, m, n)}),
        ("torch.linalg.multi_dot", [[torch.ones(m, k), torch.ones(k, n), torch.ones(n, b)]], {}),
    ]
    cases = []
    for function, args, options in calls:
        args = [torch.randn(x, generator=rng) if isinstance(x, tuple) else x for x in args]
        cases += [{"function": function, "args": args, "options": options}]
    own = [total_of(read) for read in student.run(probes.counts, cases=cases)]
    hint = "a composite operator may arrive undecomposed: see func.decompose in the docstring"
    for kind in [mode] + ["inference_tensors"] * (mode == "inference_mode"):
        got = student.run(probes.counts, cases=[{**case, "mode": kind} for case in cases])
        for read, usual in zip(got, own, strict=True):
            check_total(read, usual, hint)
    if mode == "no_grad":
        return
    # Nested counters, in the same mode.
    a, b = torch.randn(b, m, k, generator=rng), torch.randn(k, n, generator=rng)
    unit = own_total(student, function="torch.matmul", args=(a, b))
    inputs = {"steps": NESTED, "function": "torch.matmul", "mode": mode}
    hint = "each counter sees the parts of a composite operator exactly once"
    reads = student.run(probes.session, a=a, b=b, **inputs)
    for read, times in zip(reads, NESTED_TIMES, strict=True):
        check_total(read, times * unit, hint)


# --- by_op


def check_sum(read, hint):
    """Check that the values of by_op add up to the total."""
    total = total_of(read)
    alike = abs(sum(by_op_of(read).values()) - total) <= 1e-12 * total
    expect.that(alike, "its sum is not the total", of=f"{OF}.by_op", hint=hint)


def check_keys(read, kind, hint):
    """Check that by_op has at most this key. Another test judges whether it is empty."""
    by_op = by_op_of(read)
    expect.value(list(by_op), [kind] if by_op else [], of=f"{OF}.by_op", name="the keys", hint=hint)


def test_names_of_operators(student, rng):
    """by_op's only key is the operator's plain name, also for in-place and out= forms."""
    one_mm(student, pair(rng))
    calls = [(f"torch.{name}", name, {}) for name in PRODUCTS]
    calls += [(f"torch.Tensor.{name}_", name, {}) for name in ("addmm", "baddbmm")]
    calls += [(function, name, {"out": True}) for function, name, _ in calls[:6]]
    calls += [("torch.addmm", "addmm", {"beta": 0}), ("torch.baddbmm", "baddbmm", {"alpha": 0})]
    cases = []
    for function, name, options in calls:
        args, _ = operands(rng, name)
        options = {"out": getattr(torch, name)(*args)} if "out" in options else options
        cases += [{"function": function, "args": args, "options": options}]
    cases += [{**case, "mode": "inference_mode"} for case in cases]
    got = student.run(probes.reads, cases=cases)
    expect.that(len(by_op_of(got[0])) > 0, "by_op is empty after a product", of=f"{OF}.by_op")
    hint = (
        "use the aten name without overload and kernel: addmm_ and mm.out count under addmm and mm"
    )
    for read, (_, name, _) in zip(got, calls * 2, strict=True):
        check_keys(read, name, hint)
    args, _ = operands(rng, "bmm")
    inputs = {"function": "torch.bmm", "args": args, "needs_gradient": [True] * 2}
    got = student.run(probes.forward_and_backward, **inputs)
    check_keys(got["backward"], "bmm", "only attention has another key in the backward pass")


def test_names_of_composite_operators(student, rng):
    """matmul, linear and einsum count under the names of their parts, in every mode."""
    m, k, n, b = sizes(rng, 4)
    hint = "the docstring lists all keys: which operator computes this product?"
    cases = []
    for function, *args in [
        ("torch.matmul", (b, m, k), (k, n)),
        ("torch.matmul", (m, k), (k,)),
        ("torch.nn.functional.linear", (b, m, k), (n, k), (n,)),
        ("torch.einsum", "bmk,bnk->bmn", (b, m, k), (b, n, k)),
    ]:
        args = [torch.randn(x, generator=rng) if isinstance(x, tuple) else x for x in args]
        for mode in ("", "no_grad", "inference_mode"):
            cases += [{"function": function, "args": args, "mode": mode}]
    results = student.run(probes.reads, cases=cases)
    expect.parts(results, len(cases), of=OF)
    for read in results:
        others = sum(name not in PRODUCTS for name in by_op_of(read))
        reason = f"{others} keys that the docstring does not list"
        expect.that(others == 0, reason, of=f"{OF}.by_op", hint=hint)
        check_sum(read, hint)
    a, b = torch.randn(b, m, k, generator=rng), torch.randn(k, n, generator=rng)
    for mode in ("", "inference_mode"):
        inputs = {"steps": NESTED, "function": "torch.matmul", "mode": mode}
        results = student.run(probes.session, a=a, b=b, **inputs)
        expect.parts(results, len(NESTED_TIMES), of=OF)
        for read in results:
            check_sum(read, "a second product of a kind is added to the first one")


def test_names_of_products_of_nothing(student, rng):
    """An operator that ran has a key, even if it took 0 FLOPs."""
    one_mm(student, pair(rng))
    m, k = sizes(rng, 2)
    calls = [
        ("mm", [(0, k), (k, m)]),
        ("mv", [(m, 0), (0,)]),
        ("dot", [(0,), (0,)]),
        ("addmm", [(m,), (m, 0), (0, m)]),
        ("bmm", [(0, m, k), (0, k, m)]),
        ("baddbmm", [(2, m, m), (2, m, 0), (2, 0, m)]),
    ]
    cases = [
        {"function": f"torch.{name}", "args": list(map(torch.ones, shapes)), "mode": mode}
        for mode in ("", "inference_mode")
        for name, shapes in calls
    ]
    names = [name for name, _ in calls] * 2
    kernel = "torch.ops.aten._scaled_dot_product_flash_attention"
    size = {"batch": 0, "heads": 3, "queries": m, "keys": k, "d": 8}
    cases += [{"function": kernel, "args": qkv(rng, **size, dtype=torch.float16, device="meta")}]
    hint = "by_op has one key per kind of operator that ran"
    for read, name in zip(student.run(probes.reads, cases=cases), [*names, KEY], strict=True):
        expect.value(list(by_op_of(read)), [name], of=f"{OF}.by_op", name="the keys", hint=hint)


def test_names_of_attention(student, rng):
    """Fused attention has one key for forward and one for backward, whichever kernel ran.

    Attention without a fused kernel has the keys of its products, in every mode.
    """
    size = {"batch": 2, "heads": 3, "queries": 4, "keys": 5, "d": 8}
    for function, extra, device in [
        (ATTENTION, (), "cpu"),
        ("torch.ops.aten._scaled_dot_product_flash_attention", (), "meta"),
        ("torch.ops.aten._scaled_dot_product_efficient_attention", (None, True), "meta"),
        ("torch.ops.aten._scaled_dot_product_cudnn_attention", (None, True), "meta"),
    ]:
        dtype = torch.float16 if device == "meta" else torch.float32
        args = qkv(rng, **size, dtype=dtype, device=device)
        inputs = {"function": function, "args": args, "needs_gradient": [True] * 3, "extra": extra}
        got = student.run(probes.forward_and_backward, **inputs)
        if device == "cpu":
            expect.that(
                len(by_op_of(got["forward"])) > 0,
                "by_op is empty after attention",
                of=f"{OF}.by_op",
            )
        check_keys(got["forward"], KEY, "leave out the kernel's name")
        check_keys(got["backward"], KEY_BACKWARD, "leave out the kernel's name")
    usual, mask = qkv(rng, **size), torch.ones(4, 5).tril() > 0
    half, wide = [x.bfloat16() for x in usual], qkv(rng, **size, v=16)
    fused = [(usual, {}), (usual, {"is_causal": True}), (usual, {"attn_mask": mask}), (half, {})]
    others = [(usual, {"dropout_p": 0.25}), (wide, {})]
    for mode in ("", "no_grad", "inference_mode"):
        cases = [
            {"function": ATTENTION, "args": args, "options": options, "mode": mode}
            for args, options in fused + others
        ]
        got = student.run(probes.reads, cases=cases)
        expect.parts(got, len(cases), of=OF)
        for read in got[: len(fused)]:
            check_keys(read, KEY, "which key does this attention have without a mode?")
        for read in got[len(fused) :]:
            expect.that(
                KEY not in by_op_of(read), "no fused kernel ran", of=f"{OF}.by_op", hint=NO_KERNEL
            )


@pytest.mark.core
@pytest.mark.points(2)
def test_by_op_adds_up_to_the_total(student, rng):
    """by_op maps each kind of operator to the FLOPs of its calls; the values add up to total."""
    times = sizes(rng, 1, 3, 7)[0]
    got = student.run(probes.several_kinds, times=times, **pair(rng))
    total, counts = total_of(got), list(by_op_of(got).values())
    hint = "add every product to both, on top of what they already contain"
    expect.that(
        all(count > 0 for count in counts),
        "a value of by_op is not above 0",
        of=f"{OF}.by_op",
        hint=hint,
    )
    expect.number(
        sum(counts), total, of=f"{OF}.by_op", name="their sum", tolerance=1e-12 * total, hint=hint
    )
    # In a mixture, each operator counts under its own key.
    calls = [(f"torch.{name}", operands(rng, name)[0]) for name in ("mv", "bmm", "mm", "dot")]
    calls += [(ATTENTION, qkv(rng, batch=2, heads=3, queries=4, keys=5, d=8))]
    cases = [{"function": function, "args": args} for function, args in calls]
    got = student.run(probes.counts, cases=cases)
    own = [total_of(read) * (1 + (i == 2)) for i, read in enumerate(got)]
    read = student.run(probes.mixture, calls=[*calls, calls[2]])
    sorted_counts = sorted(by_op_of(read).values())
    same = len(sorted_counts) == len(own) and all(
        abs(g - o) <= 1e-12 * o for g, o in zip(sorted_counts, sorted(own), strict=True)
    )
    reason = "operators of several kinds do not count as they do alone"
    expect.that(same, reason, of=f"{OF}.by_op", hint="one key per kind of operator")
    check_total(read, sum(own), "add every product to both")


# --- when it counts


NESTED = ["make x", "make y", "enter x", "run", "enter y", "run", "read x", "run", "leave y", "run"]
NESTED += ["leave x", "read x", "read y"]
NESTED_TIMES = [2, 4, 2]
# The same two counters, the other way round.
AGAIN = ["enter y", "enter x", "run", "read y", "leave x", "leave y", "read x", "read y"]
AGAIN_TIMES = [3, 5, 3]


def check_session(student, inputs, steps, expected, hint):
    """Check that each "read" returns the expected multiple of the count of one mm."""
    unit = one_mm(student, inputs)
    reads = student.run(probes.session, steps=steps, **inputs)
    expect.that(len(reads) == len(expected), f"{len(reads)} reads, not {len(expected)}", of=OF)
    for read, times in zip(reads, expected, strict=True):
        check_total(read, times * unit, hint)
    return reads


def check_by_op_too(reads, hint):
    """Check that by_op is non-empty exactly where the total is above 0."""
    for read in reads:
        filled = any(count != 0 for count in by_op_of(read).values())
        reason = (
            "by_op has counts where the total is 0"
            if filled
            else "by_op is empty where the total is not 0"
        )
        expect.that(filled == (read["total"] > 0), reason, of=f"{OF}.by_op", hint=hint)


# Stays: counters that share a dict or a total fail wherever a test uses two of them.
def test_counters_are_independent(student, rng):
    """A new counter starts at 0 and does not share its counts with others."""
    steps = [
        "make x",
        "make y",
        "enter x",
        "run",
        "run",
        "leave x",
        "enter y",
        "run",
        "leave y",
        "make z",
    ]
    steps += ["read x", "read y", "read z"]
    hint = "create everything that belongs to one counter in __init__"
    check_by_op_too(check_session(student, pair(rng), steps, [2, 1, 0], hint), hint)


# Stays: a mode that starts too early or ends too late also shows in every test of several steps.
def test_counts_inside_the_with_only(student, rng):
    """Operators that run before or after the `with` are not counted."""
    steps = ["run", "make x", "run", "read x", "enter x", "run", "leave x", "run", "read x"]
    check_session(
        student, pair(rng), steps, [0, 1], "use TorchDispatchMode's own __enter__ and __exit__"
    )


# Stays: a counter that is late, or that starts again, also fails where counters are nested.
def test_attributes_are_up_to_date(student, rng):
    """total and by_op are up to date at any time inside the `with`, also if it is entered again."""
    steps = ["make x", "enter x", "read x", "run", "read x", "run", "run", "read x", "leave x"]
    steps += ["read x", "run", "enter x", "run", "read x", "leave x", "read x"]
    hint = "update them with every operator, and go on counting if the counter is entered again"
    check_by_op_too(check_session(student, pair(rng), steps, [0, 1, 3, 3, 4, 4], hint), hint)


# Stays: counters that do not nest fail under inference_mode as well.
def test_counters_nest(student, rng):
    """A nested counter counts what runs inside it, and the outer counter counts that too."""
    check_session(
        student,
        pair(rng),
        NESTED + AGAIN,
        NESTED_TIMES + AGAIN_TIMES,
        "run the operator so that the outer counter sees it exactly once",
    )


def test_exceptions_pass_through(student, rng):
    """An exception passes through the `with`; the counter keeps its counts and stops counting.

    An operator that raises an exception itself is not counted.
    """
    inputs = pair(rng)
    unit = one_mm(student, inputs)
    for function, mode, end in [
        ("torch.mm", "", "operator"),
        ("torch.matmul", "", "interrupt"),
        ("torch.matmul", "inference_mode", "error"),
    ]:
        options = {"function": function, "mode": mode, "end": end}
        got = student.run(probes.after_exception, **options, **inputs)
        expect.that(got["failed"], "an operator's exception does not reach the caller", of=OF)
        reason = "an exception inside the `with` does not reach the caller"
        expect.that(got["escaped"], reason, of=OF)
        hint = "count an operator once it has run, and keep the counts after an exception"
        check_total(got["read"], 2 * unit, hint)
        # Another test judges whether an outer counter counts too much.
        check_total({"total": min(total_of(got["outer"]), 3 * unit)}, 3 * unit, hint)
        if mode == "" and function == "torch.mm":
            keys = len(by_op_of(got["read"]))
            reason = "an operator that raised an exception has a key"
            expect.that(keys <= 1, reason, of=f"{OF}.by_op", hint=hint)
        hint = "use TorchDispatchMode's own __exit__, also after an exception"
        check_total(got["read_later"], 2 * unit, hint)
        check_by_op_too([got["read"], got["read_later"]], hint)
        hint = "a counter that is entered again goes on counting, also after an exception"
        check_total(got["read_again"], 3 * unit, hint)


# --- what it changes


def check_unchanged(student, rng, work, hint, **options):
    """Check that work gives the same facts and bit-equal tensors with and without a counter."""
    m, k, n = sizes(rng, 3)
    inputs = [
        torch.randn(shape, generator=rng, dtype=torch.float64) for shape in [(m, k), (k, n), (m, n)]
    ]
    one_mm(student, {"a": inputs[0], "b": inputs[1]})
    got = student.run(probes.with_and_without, work=work, inputs=inputs, **options)
    with_counter, without = got["with_counter"], got["without"]
    expect.value(with_counter["facts"], without["facts"], of=OF, hint=hint)
    count = len(with_counter["tensors"])
    expect.value(count, len(without["tensors"]), of=OF, hint=hint)
    for i in range(count):
        expect.tensor(
            with_counter["tensors"][i],
            without["tensors"][i],
            of=OF,
            name="a result under the counter",
            hint=hint,
        )


def test_results_are_the_same(student, rng):
    """Under a counter, operators give the same values, dtypes and shapes as without one."""
    check_unchanged(
        student,
        rng,
        "values",
        "are all arguments passed on, including keyword arguments, and is the result returned?",
    )


def test_results_in_inference_mode_are_the_same(student, rng):
    """Under inference_mode, composite operators give the same values as without a counter."""
    hint = "an operator that is decomposed needs every argument too"
    check_unchanged(student, rng, "products", hint, inference=True)


# Stays: other tests see a copy by chance only, where a result is written to later.
def test_views_and_in_place_results_are_the_same(student, rng):
    """Views stay views, in-place operators run once, and out= operators return the out= tensor."""
    hint = "run the operator once and return its result, not a copy"
    for inference in (False, True):
        check_unchanged(student, rng, "aliasing", hint, inference=inference)


def test_gradients_are_the_same(student, rng):
    """Results require gradients as before, and the backward pass gives the same gradients."""
    check_unchanged(student, rng, "gradients", "return the operator's own result to autograd")


def test_random_numbers_are_the_same(student, rng):
    """A counter draws nothing from torch's generator."""
    for inference in (False, True):
        hint = "does an operator run a second time?"
        check_unchanged(student, rng, "random_numbers", hint, inference=inference)
