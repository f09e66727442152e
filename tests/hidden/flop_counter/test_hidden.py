"""flop_counter: what a counter counts, when it counts, and that it does not change results.

Totals are judged, and the values of by_op, whose keys may have any names. The operators into which
torch.matmul, einsum and linear decompose differ between versions of torch, so only their total is
judged: 2 · K per element of the result. Everything other than a formula is judged in units of the
student's own count of one mm, which must be above 0: so a mistake in a formula costs only that
formula's points, and a counter that counts nothing earns nothing. Fused kernels that a CPU does not
have run on the meta device.
"""

import itertools

import pytest
import torch
import torch.nn.functional as F

from tests.hidden import ExpectOf, sizes
from tests.probes import flop_counting as probes

expect = ExpectOf("FlopCounter")
BY_OP = "FlopCounter.by_op"
ATTENTION = "torch.nn.functional.scaled_dot_product_attention"


def check_total(got, expected, hint=None):
    """Check a counter's total. A float with a whole value is fine: another test checks the type."""
    expect.number(got, expected, name="total", tolerance=1e-12 * expected, hint=hint)


def check_calls(student, calls, hint):
    """Check the counts of calls, given as (function, arguments, options, expected FLOPs)."""
    asked = [call[:3] for call in calls]
    for read, (*_, flops) in zip(student.run(probes.counts, calls=asked), calls, strict=True):
        check_total(read["total"], flops, hint)


def by_op_of(read):
    """Check that a counter's by_op is a dict of numbers, and return those that are not 0."""
    by_op = read["by_op"]
    expect.kind(by_op, dict, of=BY_OP)
    for count in by_op.values():
        expect.number(count, count, of=BY_OP, tolerance=0.0)
    return [count for count in by_op.values() if count]


def check_sum(read):
    hint = "add every product to both, on top of what they already contain"
    total = read["total"]
    own = sum(by_op_of(read))
    expect.number(own, total, of=BY_OP, name="their sum", tolerance=1e-9, hint=hint)


def pair(rng, dtype=torch.float32):
    m, k, n = sizes(rng, 3)
    drawn = [torch.randn(shape, generator=rng, dtype=dtype) for shape in [(m, k), (k, n)]]
    return dict(zip("ab", drawn, strict=True))


def one_mm(student, operands):
    """The student's count of one mm, which must be above 0.

    Tests that are not about a formula use this as their unit.
    """
    (read,) = student.run(probes.counts, calls=[("torch.mm", tuple(operands.values()), {})])
    total = read["total"]
    expect.number(total, total, name="total", tolerance=0.0)
    expect.that(total > 0, "a product counts as 0 FLOPs", hint="2 · m · k · n")
    return total


# --- what is counted


def product(name, m, k, n, b):
    """The shapes of an operator's arguments, and its FLOPs."""
    flops = {"mm": m * k * n, "addmm": m * k * n, "mv": m * k, "dot": k}
    return {
        "mm": [(m, k), (k, n)],
        "addmm": [(n,), (m, k), (k, n)],
        "bmm": [(b, m, k), (b, k, n)],
        "baddbmm": [(1, m, n), (b, m, k), (b, k, n)],
        "mv": [(m, k), (k,)],
        "dot": [(k,), (k,)],
    }[name], 2 * flops.get(name, b * m * k * n)


def check_products(student, rng, names, hint):
    calls = []
    for name in names:
        for number, size in enumerate([sizes(rng, 4), sizes(rng, 4), [5] * 4, [1, 3, 2, 4]]):
            shapes, flops = product(name, *size)
            args = [torch.randn(shape, generator=rng) for shape in shapes]
            calls += [(f"torch.{name}", args, {}, flops)]
            if number == 0:
                calls += [(f"torch.{name}", [x.bfloat16() for x in args], {}, flops)]
                calls += [(f"torch.{name}", [x.to("meta") for x in args], {}, flops)]
    check_calls(student, calls, hint)


# Stays: this test checks the formula itself; a mistake in it also shows in larger computations.
@pytest.mark.harm("wrong number")
def test_counts_mm_and_bmm(student, rng):
    """A product of m×k and k×n takes 2 · m · k · n FLOPs, and a batch of b of them b times that."""
    check_products(student, rng, ["mm"], "2 · m · k · n, from the shapes of the operands")
    check_products(student, rng, ["bmm"], "2 · b · m · k · n")


# Stays: a mistake in addmm also shows in linear layers.
@pytest.mark.harm("wrong number")
def test_counts_addmm_and_baddbmm(student, rng):
    """addmm and baddbmm take as many FLOPs as mm and bmm: the addition is free."""
    hint = "the first argument is added, the next two are multiplied"
    check_products(student, rng, ["addmm", "baddbmm"], hint)


# Stays: products with vectors are promised by name; matmul is only one way to run them.
@pytest.mark.harm("wrong number")
def test_counts_mv_and_dot(student, rng):
    """A matrix times a vector takes 2 · m · k FLOPs, and the dot product of two vectors 2 · k."""
    hint = "these are products too: 2 FLOPs per element of the first operand"
    check_products(student, rng, ["mv", "dot"], hint)


# Stays: in practice products are written this way; a mistake here also shows in the operators that
# they become.
@pytest.mark.harm("wrong number")
def test_counts_what_matmul_becomes_once(student, rng):
    """matmul, einsum and linear take 2 · K FLOPs per element of the result, counted once.

    The same holds for attention without a fused kernel.
    """
    m, k, n, b, c = sizes(rng, 5)
    operands = [[(b, m, k), (k, n)], [(b, 1, m, k), (c, k, n)], [(m, k), (b, k, n)]]
    operands += [[(k,), (k, n)], [(m, k), (k,)], [(k,), (k,)]]
    layers = [[(k,), (n, k)], [(b, m, k), (n, k)], [(b, c, m, k), (n, k), (n,)]]
    # Each entry: the function, its arguments before the tensors, and the tensors' shapes.
    cases = [(torch.matmul, [], shapes) for shapes in operands]
    cases += [(torch.einsum, ["bmk,bkn->bmn"], [(b, m, k), (b, k, n)])]
    cases += [(torch.einsum, ["bcmk,bcnk->bcmn"], [(b, c, m, k), (b, c, n, k)])]
    cases += [(F.linear, [], shapes) for shapes in layers]
    calls = []
    for function, before, shapes in cases:
        args = [*before, *(torch.randn(shape, generator=rng) for shape in shapes)]
        path = "torch." + "nn.functional." * (function is F.linear) + function.__name__
        calls += [(path, args, {}, 2 * k * function(*args).numel())]
    for width, options in [(k, {"dropout_p": 0.25}), (k + 1, {})]:
        args = qkv(rng, batch=b, heads=c, queries=m, keys=n, d=k, v=width)
        calls += [(ATTENTION, args, options, 2 * b * c * m * n * (k + width))]
    check_calls(student, calls, "which operators does the operator log show for this call?")


# Stays: counting a backward pass is the counter's purpose; code that misses it also misses the
# backward pass of attention.
@pytest.mark.harm("wrong number")
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
        hint = "the backward pass reaches __torch_dispatch__ without any extra code"
        check_total(got_backward, backward, hint)


# Stays: other tests run other work by chance only, such as the ReLU between two layers.
@pytest.mark.harm("wrong number")
def test_counts_no_other_work(student, rng):
    """Look-ups, element-wise operators, norms, reductions and views count as 0 FLOPs here."""
    one_mm(student, pair(rng))
    total = student.run(probes.no_products, x=torch.randn(5, 5, generator=rng))
    check_total(total, 0, "count only the operators that the stub lists")


def qkv(rng, *, batch, heads, queries, keys, d, kv_heads=None, v=None):
    kv_heads = kv_heads or heads
    shapes = [(batch, heads, queries, d), (batch, kv_heads, keys, d)]
    shapes += [(batch, kv_heads, keys, v or d)]
    return [torch.randn(shape, generator=rng) for shape in shapes]


def attention(rng):
    """Attention of distinct sizes with each kind of mask, as (q, k and v, options, b·h·q·k·d)."""
    mask = torch.ones(5, 6).tril() > 0
    for options in ({}, {"is_causal": True}, {"attn_mask": mask, "scale": 0.5}):
        batch, heads, d, queries, keys = sizes(rng, 5, 2, 10)
        queries, keys = (5, 6) if "attn_mask" in options else (queries, keys)
        args = qkv(rng, batch=batch, heads=heads, queries=queries, keys=keys, d=d)
        yield args, options, batch * heads * queries * keys * d
        if "is_causal" in options:
            yield [args[0]] * 3, options, batch * heads * queries * queries * d


# Stays: this is the kernel that a student meets; a mistake in it shows in those of GPUs, too.
@pytest.mark.harm("wrong number")
def test_attention_forward(student, rng):
    """Fused attention takes 2 · b·h·q·k · (d + v) FLOPs, for scores and values, masked or not."""
    calls = [(ATTENTION, args, options, 4 * n) for args, options, n in attention(rng)]
    _, args, _, flops = calls[0]
    calls += [(ATTENTION, [x.bfloat16() for x in args], {}, flops)]
    hint = (
        "the operator log shows which kernel ran; every query meets every key, even behind a mask"
    )
    check_calls(student, calls, hint)


@pytest.mark.harm("wrong number")
def test_attention_backward(student, rng):
    """The backward pass of fused attention takes 2 · b·h·q·k · (3d + 2v) FLOPs: 5 products.

    The backward pass computes the scores again, and then four products for the gradients.
    """
    for args, options, n in attention(rng):
        got = student.run(probes.passes, function=ATTENTION, args=args, options=options)
        hint = (
            "which argument of the backward kernel comes first, and how many products does "
            "it compute?"
        )
        check_total(got["backward"]["total"], 10 * n, hint)


@pytest.mark.harm("rare")
def test_attention_of_grouped_heads(student, rng):
    """With fewer key heads than query heads, each query head still computes scores and values."""
    batch, kv_heads, group, queries, keys, d = sizes(rng, 6, 2, 10)
    heads = kv_heads * group
    args = qkv(rng, batch=batch, heads=heads, kv_heads=kv_heads, queries=queries, keys=keys, d=d)
    flops = 4 * batch * heads * queries * keys * d
    hint = "which heads are counted, those of the queries or of the keys?"
    check_calls(student, [(ATTENTION, args, {"enable_gqa": True}, flops)], hint)


# The arguments of each kernel before is_causal, the last one.
KERNELS = {"flash": (0.0,), "efficient": (None, True, 0.0)}


@pytest.mark.harm("wrong number")
def test_attention_by_the_kernels_of_gpus(student, rng):
    """GPU kernels have the same formulas, masked or not, and with values of another width."""
    for kernel, causal in itertools.product(KERNELS, (False, True)):
        batch, heads, queries, keys, d, v = (8 * size for size in sizes(rng, 6))
        v = v if kernel == "efficient" else d
        shapes = [(batch, heads, queries, d), (batch, heads, keys, d), (batch, heads, keys, v)]
        got = student.run(
            probes.passes,
            function=f"torch.ops.aten._scaled_dot_product_{kernel}_attention",
            args=[torch.empty(shape, dtype=torch.float16, device="meta") for shape in shapes],
            extra=(*KERNELS[kernel], causal),
        )
        pairs = 2 * batch * heads * queries * keys
        hint = "the stub's name is an example: any kernel may take its place"
        check_total(got["forward"]["total"], pairs * (d + v), hint)
        hint = "the scores again, then the gradients of probabilities, v, q and k"
        check_total(got["backward"]["total"], pairs * (3 * d + 2 * v), hint)


@pytest.mark.harm("wrong number")
def test_totals_are_integers(student, rng):
    """Totals are exact Python integers, even for runs so large that they overflow int64."""
    m, k, n = (2**25 + 2 * i + 1 for i in sizes(rng, 3, 1, 1000))

    def empty(*shapes, dtype=torch.int8):
        return [torch.empty(shape, dtype=dtype, device="meta") for shape in shapes]

    calls = [
        ("torch.mm", empty((m, k), (k, n)), {}),
        ("torch.bmm", empty((5, m, k), (5, k, n)), {}),
        ("torch.addmm", empty((n,), (m, k), (k, n)), {}),
    ]
    reads = list(zip([m * k * n] * 3, student.run(probes.counts, calls=calls), strict=True))
    args = empty((3, 7, m, 8), (3, 7, n, 8), (3, 7, n, 8), dtype=torch.float16)
    function = "torch.ops.aten._scaled_dot_product_flash_attention"
    both = student.run(probes.passes, function=function, args=args)
    reads += [(21 * m * n, both["forward"]), (21 * m * n, both["backward"])]
    for divisor, read in reads:
        hint = "use integers throughout: / gives a float, // does not"
        for number in (read["total"], *by_op_of(read)):
            expect.kind(number, int, name="a count", hint=hint)
        # The products of the sizes are odd and larger than 2**53, so they do not divide a number
        # that was rounded to a float or that lost the bits above 64.
        hint = "a float is exact only up to 2**53, and a 64-bit integer of numpy or torch overflows"
        exact = read["total"] > 0 and read["total"] % divisor == 0
        expect.that(exact, "a large total is not exact", hint=hint)


@pytest.mark.harm("wrong number")
def test_by_op_has_the_flops_of_each_operator(student, rng):
    """by_op maps each operator to the FLOPs of all its calls; the values add up to total."""
    one_mm(student, pair(rng))
    names = ["mv", "bmm", "mm", "dot", "addmm"]
    shapes = [product(name, *sizes(rng, 4))[0] for name in names]
    args = [[torch.randn(shape, generator=rng) for shape in of_one] for of_one in shapes]
    calls = [(f"torch.{name}", each, {}) for name, each in zip(names, args, strict=True)]
    # The student's own counts, so that a mistake in a formula costs nothing here.
    own = [read["total"] for read in student.run(probes.counts, calls=calls)]
    own[names.index("mm")] *= 2
    read = student.run(probes.count_together, calls=[*calls, calls[names.index("mm")]])
    got, expected = sorted(by_op_of(read)), sorted(count for count in own if count)
    hint = "a key per operator, whose value grows with each call"
    expect.value(len(got), len(expected), of=BY_OP, name="the number of keys", hint=hint)
    for count, alone in zip(got, expected, strict=True):
        expect.number(count, alone, of=BY_OP, tolerance=1e-9, hint=hint)
    check_sum(read)
    check_total(read["total"], sum(own), "add every product to both")


# --- when it counts


def check_session(student, inputs, steps, expected, hint):
    """Check that each "read" returns the expected multiple of the count of one mm."""
    unit = one_mm(student, inputs)
    reads = student.run(probes.session, steps=steps, **inputs)
    expect.parts(reads, len(expected))
    for read, times in zip(reads, expected, strict=True):
        check_total(read["total"], times * unit, hint)
        check_sum(read)


# Stays: counters that share a dict or a total fail wherever a test uses two of them.
@pytest.mark.harm("wrong number")
def test_counts_what_runs_inside_its_own_with(student, rng):
    """A counter starts at 0, counts inside its own `with` only, and is up to date at any time."""
    steps = ["make x", "make y", "run", "read x", "enter x", "run", "read x", "run", "leave x"]
    steps += ["run", "read x", "enter y", "run", "leave y", "read x", "read y"]
    hint = "create everything that belongs to one counter in __init__"
    check_session(student, pair(rng), steps, [0, 1, 2, 2, 1], hint)


@pytest.mark.harm("wrong number")
def test_goes_on_when_it_is_entered_again(student, rng):
    """A counter that was left keeps its counts, and goes on counting if it is entered again."""
    steps = ["make x", "enter x", "run", "leave x", "run", "enter x", "run", "run", "leave x"]
    check_session(student, pair(rng), [*steps, "read x"], [3], "reset nothing in __enter__")


@pytest.mark.harm("wrong number")
def test_counters_nest(student, rng):
    """A nested counter counts what runs inside it, and the outer counter counts that too."""
    steps = ["make x", "make y", "enter x", "run", "enter y", "run", "read x", "run", "leave y"]
    steps += ["run", "leave x", "read x", "read y"]
    hint = "run the operator so that the outer counter sees it exactly once"
    check_session(student, pair(rng), steps, [2, 4, 2], hint)


@pytest.mark.harm("crash")
def test_an_exception_passes_through(student, rng):
    """An exception passes through the `with`; the counter keeps its counts and stops counting."""
    inputs = pair(rng)
    unit = one_mm(student, inputs)
    got = student.run(probes.after_exception, **inputs)
    hint = "use TorchDispatchMode's own __exit__"
    reason = "an exception inside the `with` does not reach the caller"
    expect.that(got["escaped"], reason, hint=hint)
    check_total(got["total"], unit, hint)
    check_total(got["total_later"], unit, hint)


# --- what it changes


def check_unchanged(student, rng, works, hint):
    """Check that work gives the same facts and bit-equal tensors with and without a counter."""
    operands = pair(rng, torch.float64)
    one_mm(student, operands)
    shape = (len(operands["a"]), operands["b"].shape[1])
    inputs = [*operands.values(), torch.randn(shape, generator=rng, dtype=torch.float64)]
    for work in works:
        got = student.run(probes.with_and_without, work=work, inputs=inputs)
        changed, usual = got["with_counter"], got["without"]
        expect.value(changed["facts"], usual["facts"], hint=hint)
        expect.parts(changed["tensors"], len(usual["tensors"]))
        for tensor, expected in zip(changed["tensors"], usual["tensors"], strict=True):
            expect.tensor(tensor, expected, name="a result under the counter", hint=hint)


@pytest.mark.harm("trains worse")
def test_results_and_gradients_are_the_same(student, rng):
    """Under a counter, operators and backward passes give the same results as without one."""
    hint = "are all arguments passed on, including keyword arguments, and is the result returned?"
    check_unchanged(student, rng, ["values", "gradients"], hint)


# Stays: other tests see a copy by chance only, where a result is written to later.
@pytest.mark.harm("trains worse")
def test_operators_run_once(student, rng):
    """In-place operators and draws of random numbers run once, and views stay views."""
    hint = "run the operator once and return its result, not a copy"
    check_unchanged(student, rng, ["aliasing", "random_numbers"], hint)
