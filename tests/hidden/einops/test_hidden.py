"""einops: axes split, merged and ordered; products and means over named axes.

One test per function judges its values against slices, loops and the formula written out in
float64. Everything else (leading dimensions, layouts, dtypes, gradients, padding) is judged against
the student's own answers to plainer calls, so that a wrong order of axes costs only its own points.
Such a test first checks the value of one call in which every order of axes is the same. Each
function is linear in each of its tensors, which allows a check of gradients without an oracle: for
any v, upstream · f(v) = gradient · v.

Tolerances allow any order of operations, and float32 or float64 inside for half precision. A wrong
call may raise ValueError, and also the RuntimeError (einops' own
errors are RuntimeErrors) or IndexError of the operation that failed. The meta device represents
every other device, except for masked_mean, because x[mask] has no shape there.
"""

import math

import pytest
import torch
from torch import Tensor

from kit import expect
from kit.student import call_each
from tests.probes import einops_reshaping as probes

SEQ, KEYS, HEADS, D, CHANNELS, PATCH = 5, 7, 2, 4, 2, 3
MAGNITUDES = (1e-8, 1e-4, 1.0, 1e5)
EPS64 = torch.finfo(torch.float64).eps
IN_FLOAT32 = "is anything computed in float32, such as a root, a count or a quotient?"
# The largest |result| for |inputs| <= 1.
SUMS = {"attention_scores": math.sqrt(D), "per_head_linear": D, "masked_mean": 1.0}


def sizes(rng, count, low=2, high=9):
    """Distinct sizes, so that no two dimensions can be confused."""
    return (low + torch.randperm(high - low, generator=rng)[:count]).tolist()


def uniform(rng, *shape, dtype=torch.float32):
    """Draw numbers between -1 and 1."""
    return (2 * torch.rand(shape, generator=rng, dtype=torch.float64) - 1).to(dtype)


def some_kept(rng, *shape):
    """A mask that keeps some and drops some positions of each sequence, in varying numbers."""
    order = torch.rand(shape, generator=rng).argsort(-1)
    return order <= torch.randint(0, shape[-1] - 1, (*shape[:-1], 1), generator=rng)


def arguments(function, rng, leading=(4,), dtype=torch.float32):
    """The arguments of a right call of a function. patchify takes exactly one leading dimension."""
    match function:
        case "split_heads":
            return [uniform(rng, *leading, SEQ, HEADS * D, dtype=dtype), HEADS]
        case "merge_heads":
            return [uniform(rng, *leading, HEADS, SEQ, D, dtype=dtype)]
        case "attention_scores":
            return [
                uniform(rng, *leading, SEQ, D, dtype=dtype),
                uniform(rng, *leading, KEYS, D, dtype=dtype),
            ]
        case "per_head_linear":
            return [
                uniform(rng, *leading, HEADS * D, dtype=dtype),
                uniform(rng, HEADS, D, D, dtype=dtype),
            ]
        case "masked_mean":
            return [uniform(rng, *leading, SEQ, D, dtype=dtype), some_kept(rng, *leading, SEQ)]
        case _:
            return [uniform(rng, *leading, CHANNELS, 2 * PATCH, 3 * PATCH, dtype=dtype), PATCH]


def plain_arguments(function, rng, dtype=torch.float32):
    """The arguments of a right call with the most common leading dimensions."""
    leading = (4, 3) if function in ("attention_scores", "per_head_linear") else (4,)
    return arguments(function, rng, leading, dtype)


def floats(args):
    """The indices of the floating-point tensors among the arguments."""
    return [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.is_floating_point()]


def elements(function, args):
    """The number of elements of a right answer."""
    x = args[0]
    match function:
        case "attention_scores":
            return x.numel() // D * KEYS
        case "masked_mean":
            return x.numel() // SEQ
        case _:
            return x.numel()


def answer(student, function, args):
    """Call the student's function and check that the result is usable.

    It must be a float tensor of the right size on the CPU, and not equal to the input.
    """
    got = getattr(student.einops_reshaping, function)(*args)
    return usable(function, args, got)


def answers(student, function, calls):
    """Call the student's function with each of these arguments, one after the other."""
    calls = [tuple(args) for args in calls]
    return student.run(call_each, module="einops_reshaping", function=function, calls=calls)


def check_answers(student, function, calls, checks):
    """Check the answer to each call, given the right one, a tolerance and a hint for each."""
    for got, (want, atol, hint) in zip(answers(student, function, calls), checks, strict=True):
        expect.tensor(got, want, of=function, atol=atol, hint=hint)


def usable(function, args, got):
    """Check that a result is usable; see `answer`."""
    expect.kind(got, Tensor, of=function)
    reason = f"wrong dtype or device: got {expect.dtype_name(got.dtype)} on {got.device.type}"
    expect.that(got.is_floating_point() and got.device.type == "cpu", reason, of=function)
    expect.that(
        got.numel() == elements(function, args), f"wrong shape: got {tuple(got.shape)}", of=function
    )
    expect.that(not torch.equal(got, args[0]), "the input was returned unchanged", of=function)
    return got


def simplest(function, rng):
    """Arguments whose result is the same for every order of axes, such as one head, and it."""
    x = uniform(rng, 4, SEQ, D)
    return {
        "split_heads": ([x, 1], x.unsqueeze(1)),
        "merge_heads": ([x.unsqueeze(1)], x),
        "attention_scores": ([x[..., :1, :1], x[..., 1:2, 1:2]], x[..., :1, :1] * x[..., 1:2, 1:2]),
        "per_head_linear": ([x, 2 * torch.eye(D).unsqueeze(0)], 2 * x),
        "masked_mean": ([x[:, :1], torch.ones(4, 1, dtype=torch.bool)], x[:, 0]),
        "patchify": ([x[:, :1, None, :], 1], x[:, 0, :, None]),
    }[function]


def check_simplest(student, rng, function):
    """Check a call whose result is the same for every order of axes."""
    args, expected = simplest(function, rng)
    with expect.right_call("the simplest call: one head, one position, or patches of one pixel"):
        got = getattr(student.einops_reshaping, function)(*args)
        expect.tensor(got, expected, of=function, atol=rounding(function, torch.float32))


def rounding(function, dtype, terms=SEQ):
    """The largest rounding error of a result, for inputs up to 1; it is 0 where elements only move.

    A sum of n products is off by at most n·eps times the sum of their absolute values. Inputs that
    are scaled first, the scale itself, the division and the result are rounded as well, each by at
    most eps.
    """
    return (terms + 4) * torch.finfo(dtype).eps * SUMS.get(function, 0.0)


def refuses(student, function, args, *, when, hint=None):
    """Check that the call raises ValueError, or the error of the operation that failed."""
    with expect.raises((ValueError, RuntimeError, IndexError), of=function, when=when, hint=hint):
        getattr(student.einops_reshaping, function)(*args)


def sizes_of_heads(rng):
    """Draw magnitudes and sizes of batch, heads, seq and d: all different, some 1, some equal."""
    for heads, magnitude in [(2, 1e-8), (3, 1.0), (1, 1e5)]:
        batch, seq, d = sizes(rng, 3, 4, 9)
        yield magnitude, batch, heads, seq, d
    for some in [
        (2, 3, 3, 2),
        (3, 2, 1, 4),
        (2, 4, 3, 1),
        (1, 2, 3, 2),
        (1, 4, 3, 1),  # the same features for twice as many heads
        (2, 2, 2, 2),
        (1, 1, 2, 3),
    ]:
        yield 1.0, *some


@pytest.mark.core
@pytest.mark.points(7)
def test_split_heads_gives_each_head_its_slice(student, rng):
    """Head h has the d features from index h·d on, and the head dimension comes before seq."""
    calls, expected = [], []
    for magnitude, batch, heads, seq, d in sizes_of_heads(rng):
        x = magnitude * uniform(rng, batch, seq, heads * d)
        x[:, 0, ::3] = math.inf
        calls.append((x, heads))
        slices = [x[..., h * d : (h + 1) * d] for h in range(heads)]
        expected.append(torch.stack(slices, dim=-3))
    for got, want in zip(answers(student, "split_heads", calls), expected, strict=True):
        hint = "(heads d): the last axis varies fastest; then swap heads and seq"
        expect.tensor(got, want, of="split_heads", hint=hint)


@pytest.mark.core
@pytest.mark.points(7)
def test_merge_heads_puts_the_heads_side_by_side(student, rng):
    """At each position the features of head 0 come first, then those of head 1, and so on."""
    calls, expected = [], []
    for magnitude, batch, heads, seq, d in sizes_of_heads(rng):
        x = magnitude * uniform(rng, batch, heads, seq, d)
        x[:, :, 0, ::3] = -math.inf
        calls.append((x,))
        expected.append(torch.cat([x[:, h] for h in range(heads)], dim=-1))
    for got, want in zip(answers(student, "merge_heads", calls), expected, strict=True):
        expect.tensor(
            got, want, of="merge_heads", hint="seq comes before (heads d), and d varies fastest"
        )


@pytest.mark.core
@pytest.mark.points(8)
def test_attention_scores_are_products_over_root_d(student, rng):
    """Scores are the products of each query with each key, divided by the square root of d."""
    cases = [(1.0, 3, 3, 3, 3, 3), (1.0, 2, 2, 1, 3, 4), (1.0, 2, 3, 3, 1, 5), (1.0, 1, 1, 2, 2, 1)]
    for magnitude, d in zip(MAGNITUDES, (3, 4, 200, *sizes(rng, 1, 2, 5)), strict=True):
        cases.append((magnitude, *sizes(rng, 4, 5, 12), d))
    calls, checks = [], []
    for magnitude, batch, heads, queries, keys, d in cases:
        q = magnitude * uniform(rng, batch, heads, queries, d)
        k = magnitude * uniform(rng, batch, heads, keys, d)
        expected = (q.double() @ k.double().mT / math.sqrt(d)).float()
        largest = float((q.abs() @ k.abs().mT).max()) / math.sqrt(d)
        atol = (d + 4) * torch.finfo(torch.float32).eps * largest  # as in `rounding`
        calls.append((q, k))
        hint = "queries by keys, summed over d; which size goes under the root?"
        checks.append((expected, atol, hint))
        wide = [x.double() / magnitude for x in (q, k)]
        if queries == keys:
            wide = [wide[0], wide[0]]  # one tensor as both
        scores = (wide[0] @ wide[1].mT) / math.sqrt(d)
        atol = 2 * (d + 4) * EPS64 * math.sqrt(d)  # two results, each as in `rounding`
        calls.append(tuple(wide))
        checks.append((scores, atol, IN_FLOAT32))
    check_answers(student, "attention_scores", calls, checks)


@pytest.mark.core
@pytest.mark.points(8)
def test_per_head_linear_gives_each_head_its_matrix(student, rng):
    """Slice h of the features is multiplied by matrix h and fills slice h of the result."""
    cases = [
        (1.0, 2, 3, 3, 3, 3), (1.0, 2, 3, 1, 5, 5), (1.0, 2, 3, 2, 1, 3), (1.0, 2, 3, 2, 3, 1),
        (1.0, 1, 1, 2, 2, 3), (1.0, 3, 2, 1, 1, 1), (1.0, 2, 1, 4, 2, 2),
    ]  # fmt: skip
    for magnitude, square in zip(MAGNITUDES, (True, False, False, True), strict=True):
        batch, seq, heads, d_in, d_out = sizes(rng, 5)
        cases.append((magnitude, batch, seq, heads, d_in, d_in if square else d_out))
    calls, checks = [], []
    for magnitude, batch, seq, heads, d_in, d_out in cases:
        square = d_in == d_out
        x, w = magnitude * uniform(rng, batch, seq, heads * d_in), uniform(rng, heads, d_in, d_out)
        if square:  # as small or large as x
            w, magnitude = magnitude * w, magnitude**2
        slices = [x[..., h * d_in : (h + 1) * d_in].double() @ w[h].double() for h in range(heads)]
        calls.append((x, w))
        atol = (d_in + 4) * torch.finfo(torch.float32).eps * d_in * magnitude
        hint = (
            "name heads, d_in and d_out: which of them is summed over, and which stays next "
            "to heads?"
        )
        checks.append((torch.cat(slices, dim=-1).float(), atol, hint))
        calls.append((x.double(), w.double()))
        atol = 2 * (d_in + 4) * EPS64 * d_in * magnitude  # two results are compared
        checks.append((torch.cat(slices, dim=-1), atol, IN_FLOAT32))
    check_answers(student, "per_head_linear", calls, checks)


@pytest.mark.core
@pytest.mark.points(8)
def test_masked_mean_is_the_mean_of_what_is_kept(student, rng):
    """Each sequence's mean is the sum of its kept positions divided by their number."""
    calls, checks = [], []
    for magnitude in MAGNITUDES:
        batch, seq, d = sizes(rng, 3, 3, 9)
        counts = torch.arange(batch) % seq + 1  # from one position to all of them
        if magnitude == 1.0:  # more than a uint8 can count
            counts, seq = counts + 300, 320
        x = magnitude * (uniform(rng, batch, seq, d) + 1)
        mask = torch.rand(batch, seq, generator=rng).argsort(-1) < counts[:, None]
        expected = torch.stack([x[b][mask[b]].double().mean(0) for b in range(batch)])
        calls.append((x, mask))
        # The inputs go up to 2 · magnitude.
        atol = 2 * magnitude * rounding("masked_mean", torch.float32, terms=seq)
        hint = "which positions are kept, and how many are there in this sequence?"
        checks.append((expected.float(), atol, hint))
        calls.append((x.double(), mask))
        # Two results are compared, and the inputs go up to 2 · magnitude.
        atol = 4 * magnitude * rounding("masked_mean", torch.float64, terms=seq)
        checks.append((expected, atol, IN_FLOAT32))
    check_answers(student, "masked_mean", calls, checks)


@pytest.mark.core
@pytest.mark.points(8)
def test_patchify_orders_patches_and_pixels(student, rng):
    """Patches go row by row, and so do a patch's pixels, with each pixel's channels together."""
    cases = [
        (1.0, 2, 1, 2, 2, 2), (1.0, 2, 2, 3, 1, 3), (1.0, 2, 2, 3, 3, 1), (1.0, 2, 2, 3, 1, 1),
        (1.0, 3, 2, 2, 3, 3), (1.0, 3, 1, 2, 2, 3), (1.0, 2, 2, 1, 2, 3), (1e5, 1, 1, 1, 3, 4),
        (1.0, 1, 2, 3, 2, 2), (1.0, 2, 3, 2, 2, 3),
    ]  # fmt: skip
    cases += [(magnitude, patch, *sizes(rng, 4)) for patch, magnitude in [(2, 1e-8), (3, 1.0)]]
    calls, checks = [], []
    for magnitude, patch, batch, c, h, w in cases:
        images = magnitude * uniform(rng, batch, c, h * patch, w * patch)
        images[:, 0, 0, ::3] = math.inf
        rows = [images[:, :, i * patch : (i + 1) * patch] for i in range(h)]
        patches = [row[..., j * patch : (j + 1) * patch] for row in rows for j in range(w)]
        pixels = [
            torch.cat([x[:, :, r, s] for r in range(patch) for s in range(patch)], dim=1)
            for x in patches
        ]
        calls.append((images, patch))
        hint = (
            "(h w) and (p p c): give the two p's different names, and check which axis "
            "varies fastest"
        )
        checks.append((torch.stack(pixels, dim=1), 0.0, hint))
    check_answers(student, "patchify", calls, checks)


def check_leading_dimensions(student, rng, function):
    """Check that with 0 to 3 leading dimensions each entry is treated as if it were alone."""
    hint = (
        "`...` in a pattern, negative dimensions, and x.shape[:-1] work for any number of "
        "leading dimensions"
    )
    check_simplest(student, rng, function)
    each = [(), (3,), (2, 3), (2, 1, 3)]
    calls = [arguments(function, rng, leading) for leading in each]
    shared = 1 if function == "per_head_linear" else 2  # w has no leading dimensions
    flat = [
        [
            x.reshape(-1, *x.shape[len(leading) :]) if isinstance(x, Tensor) and i < shared else x
            for i, x in enumerate(args)
        ]
        for args, leading in zip(calls, each, strict=True)
    ]
    empty = (2, 0)
    results = answers(student, function, [*flat, *calls, arguments(function, rng, empty)])
    for leading, args, batch, got in zip(each, flat, results, results[len(flat) :], strict=False):
        batch = usable(function, args, batch)
        fits = batch.dim() > 0 and batch.shape[0] == math.prod(leading)
        expect.that(
            fits,
            "the result does not have one entry for each entry of a leading dimension",
            of=function,
            hint=hint,
        )
        atol = 2 * rounding(function, torch.float32)  # two results are compared
        expect.tensor(
            got, batch.reshape(*leading, *batch.shape[1:]), of=function, atol=atol, hint=hint
        )
    hint = "a size of 0 leaves nothing for a -1 in a shape, and no list to stack"
    expect.tensor(results[-1], batch.new_zeros(*empty, *batch.shape[1:]), of=function, hint=hint)


def check_layouts(student, rng, function):
    """Check that views of any kind give the same results as contiguous tensors."""
    hint = "does the code assume a contiguous input?"
    args = plain_arguments(function, rng)
    tensors = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
    cases = []
    for which in tensors:
        x = args[which]
        repeated = [*args[:which], x[:1].repeat(len(x), *[1] * (x.dim() - 1)), *args[which + 1 :]]
        for plain, view in [
            (args, x.transpose(0, -1).contiguous().transpose(0, -1)),
            (args, torch.stack([x, x], dim=-1)[..., 1]),
            (repeated, x[:1].expand(x.shape)),
        ]:
            cases.append((plain, [*args[:which], view, *args[which + 1 :]]))
    if len(floats(args)) == 2:  # windows of one vector
        one = torch.cat([x.flatten() for x in args])
        windows = one.split([x.numel() for x in args])
        cases.append((args, [w.view(x.shape) for w, x in zip(windows, args, strict=True)]))
    zeros = [[*args[:i], torch.zeros_like(args[i]), *args[i + 1 :]] for i in floats(args)]
    plain = list({id(plain): plain for plain in [args, *(plain for plain, _ in cases)]}.values())
    of_plain = answers(student, function, [*plain, *zeros])
    right = {id(p): usable(function, p, got) for p, got in zip(plain, of_plain, strict=False)}
    with expect.right_call("an input that is a view of a storage"):
        results = answers(student, function, [views for _, views in cases])
    for got, (of, _) in zip(results, cases, strict=True):
        atol = 2 * rounding(function, torch.float32)
        expect.tensor(got, right[id(of)], of=function, atol=atol, hint=hint)
    for got in of_plain[len(plain) :]:  # zeros give zeros
        expect.tensor(got, torch.zeros_like(right[id(args)]), of=function)


def check_half_precision(student, rng, function):
    """Check that float16 and bfloat16 inputs give results of the same dtype."""
    hint = "what dtype do the tensors have that you create, or divide by?"
    dtypes = (torch.float16, torch.bfloat16)
    narrow = [plain_arguments(function, rng, dtype=dtype) for dtype in dtypes]
    wide = [[x.double() if i in floats(args) else x for i, x in enumerate(args)] for args in narrow]
    results = answers(student, function, [*wide, *narrow])
    for dtype, args, own, got in zip(dtypes, wide, results, results[2:], strict=False):
        # Two results are compared; the wide one is rounded only at the end.
        atol = 2 * rounding(function, dtype)
        want = usable(function, args, own).to(dtype)
        expect.tensor(got, want, of=function, atol=atol, hint=hint)
    if function == "attention_scores":
        many = torch.full((1, 70_000), 0.125, dtype=torch.float16)  # d does not fit into float16
        own = student.einops_reshaping.attention_scores(many.double(), many.double())
        expect.kind(own, Tensor, of=function)
        got = student.einops_reshaping.attention_scores(many, many)
        expect.tensor(got, own.half(), of=function, atol=0.02, hint="is d a tensor of this dtype?")


def check_float64(student, rng, function):
    """Check that float64 inputs give float64 results in full precision."""
    hint = "is anything computed in float32?"
    args = plain_arguments(function, rng, dtype=torch.float64)
    calls = [args]
    for i in floats(args):
        v = uniform(rng, *args[i].shape, dtype=torch.float64)
        calls += [[*args[:i], x, *args[i + 1 :]] for x in (v, args[i] + 1e-10 * v)]
    before, *results = answers(student, function, calls)
    before = usable(function, args, before)
    for along_v, after, given in zip(results[::2], results[1::2], calls[1::2], strict=True):
        along_v = usable(function, given, along_v)
        expect.that(
            along_v.shape == before.shape, "the shape of the result depends on values", of=function
        )
        # The function is linear. Two results are compared, and their inputs were rounded once more.
        # The change of 1e-10 is far larger than these errors.
        atol = 4 * rounding(function, torch.float64) + 4 * torch.finfo(torch.float64).eps
        expect.tensor(
            after, before.double() + 1e-10 * along_v.double(), of=function, atol=atol, hint=hint
        )


def check_device(student, rng, function):
    """Check a call with meta tensors, which represent any device other than the CPU."""
    args = plain_arguments(function, rng)
    on_cpu = answer(student, function, args)
    with expect.right_call("tensors on the meta device, which has shapes and no data"):
        got = getattr(student.einops_reshaping, function)(
            *(x.to("meta") if isinstance(x, Tensor) else x for x in args)
        )
    expect.tensor(
        got, on_cpu.to("meta"), of=function, hint="a tensor that you create needs device=x.device"
    )


def check_kinds_of_input(student, rng, function):
    """Check inputs of any memory layout, dtype and device; the result keeps dtype and device."""
    check_simplest(student, rng, function)
    check_layouts(student, rng, function)
    check_half_precision(student, rng, function)
    check_float64(student, rng, function)
    if function != "masked_mean":
        check_device(student, rng, function)


def cases_of_gradients(function, rng):
    """Arguments for which gradients have to flow: the plain ones, and those of special cases."""
    plain = plain_arguments(function, rng)
    if function == "masked_mean":
        plain[1][0] = False  # nothing is kept
        yield plain
        yield [plain[0], torch.zeros_like(plain[1])]
        yield [plain[0], torch.ones_like(plain[1])]
    else:
        yield plain
    yield simplest(function, rng)[0]
    yield plain_arguments(function, rng, torch.bfloat16)
    yield [
        x.transpose(0, -1).contiguous().transpose(0, -1) if isinstance(x, Tensor) else x
        for x in plain_arguments(function, rng, torch.float64)
    ]


def check_gradients(student, rng, function):
    """Check that each floating-point input gets its gradient, and that no input is changed."""
    check_simplest(student, rng, function)
    cases = list(cases_of_gradients(function, rng))
    each = answers(student, function, cases)
    for expected in each:
        expect.kind(expected, Tensor, of=function)
    upstreams = [
        uniform(rng, *expected.shape, dtype=args[0].dtype)
        for expected, args in zip(each, cases, strict=True)
    ]
    calls = list(zip(cases, upstreams, strict=True))
    results = student.run(probes.gradients_each, function=function, calls=calls)
    for (args, upstream), expected, got in zip(calls, each, results, strict=True):
        for name in ("output", "without_gradients"):
            atol = 2 * rounding(function, expected.dtype)
            expect.tensor(got[name], expected, of=function, atol=atol)
        expect.kind(got["changed_copies"], Tensor, of=function)
        expect.tensor(
            got["changed"],
            got["changed_copies"],
            of=function,
            atol=atol,
            name="the result after a change of the inputs in place",
            hint="what stays from the call before it?",
        )
        directions = {i: uniform(rng, *args[i].shape, dtype=args[i].dtype) for i in floats(args)}
        along = answers(
            student, function, [[*args[:i], v, *args[i + 1 :]] for i, v in directions.items()]
        )
        for place, ((i, v), along_v) in enumerate(zip(directions.items(), along, strict=True)):
            both = got["gradients"][place], got["alone"][place]
            check_gradients_of(function, args[i], both, upstream, v, along_v)
    check_inputs_are_left(student, function, cases)


def check_gradients_of(function, x, gradients, upstream, v, along_v):
    """Check gradients of one argument: upstream · f(v) = gradient · v for any v."""
    hint = (
        "is there a .detach(), .data, .item() or numpy on the way, or a torch.tensor() of "
        "computed values? Is there a case without a graph?"
    )
    for gradient in gradients:
        expect.that(gradient is not None, "no gradient reaches an input", of=function, hint=hint)
        expect.tensor(gradient.to("meta"), x.to("meta"), of=function, name="a gradient")
        expect.that(
            bool(gradient.isfinite().all()),
            "a gradient is NaN or infinite",
            of=function,
            hint="a quotient 0 / 0 has a gradient of NaN even if its value is replaced afterwards",
        )
    expect.kind(along_v, Tensor, of=function)
    expect.that(
        along_v.shape == upstream.shape,
        "the shape of the result depends on values",
        of=function,
    )
    # Both sums consist of the same products. Each result is at most SUMS and has the rounding
    # error that `rounding` allows; so has each entry of the gradient.
    eps = torch.finfo(upstream.dtype).eps
    each = (max(SEQ, KEYS) + 4) * eps * SUMS.get(function, 1.0)
    expected = (upstream.double() * along_v.double()).sum()
    for gradient in gradients:
        difference = expected - (gradient.double() * v.double()).sum()
        agree = abs(float(difference)) <= 2 * each * max(upstream.numel(), v.numel())
        expect.that(agree, "the gradient of an input is wrong", of=function, hint=hint)


def check_inputs_are_left(student, function, cases):
    """Check that the function gives tensors, and does not change its input tensors."""
    calls = [tuple(x.clone() if isinstance(x, Tensor) else x for x in args) for args in cases]
    results = student.run(probes.kept_each, function=function, calls=calls)
    for args, got in zip(cases, results, strict=True):
        expect.kind(got["result"], Tensor, of=function)
        for after, before in zip(got["inputs"], args, strict=True):
            if isinstance(before, Tensor):
                hint = "operations that end in _, and q /= …, work in place"
                expect.tensor(after, before, of=function, name="an input after the call", hint=hint)
        expect.generators_left(got["generators_changed"], of=function)


@pytest.mark.points(2)
def test_split_heads_takes_any_leading_dimensions(student, rng):
    """With 0 to 3 leading dimensions, split_heads treats each entry as if it were alone."""
    check_leading_dimensions(student, rng, "split_heads")


@pytest.mark.points(2)
def test_split_heads_takes_any_kind_of_input(student, rng):
    """split_heads takes any memory layout, dtype and device, and keeps dtype and device."""
    check_kinds_of_input(student, rng, "split_heads")


@pytest.mark.points(2)
def test_split_heads_passes_gradients(student, rng):
    """The gradient of the result reaches x, and x itself is not changed."""
    check_gradients(student, rng, "split_heads")


@pytest.mark.points(2)
def test_merge_heads_takes_any_leading_dimensions(student, rng):
    """With 0 to 3 leading dimensions, merge_heads treats each entry as if it were alone."""
    check_leading_dimensions(student, rng, "merge_heads")


@pytest.mark.points(2)
def test_merge_heads_takes_any_kind_of_input(student, rng):
    """merge_heads takes any memory layout, dtype and device, and keeps dtype and device."""
    check_kinds_of_input(student, rng, "merge_heads")


@pytest.mark.points(2)
def test_merge_heads_passes_gradients(student, rng):
    """The gradient of the result reaches x, and x itself is not changed."""
    check_gradients(student, rng, "merge_heads")


@pytest.mark.points(2)
def test_attention_scores_takes_any_leading_dimensions(student, rng):
    """With 0 to 3 leading dimensions, attention_scores treats each entry as if it were alone."""
    check_leading_dimensions(student, rng, "attention_scores")


@pytest.mark.points(2)
def test_attention_scores_takes_any_kind_of_input(student, rng):
    """attention_scores takes any memory layout, dtype and device, and keeps dtype and device."""
    check_kinds_of_input(student, rng, "attention_scores")


@pytest.mark.points(2)
def test_attention_scores_passes_gradients(student, rng):
    """The gradient of the result reaches q and k, and neither is changed."""
    check_gradients(student, rng, "attention_scores")


@pytest.mark.points(2)
def test_per_head_linear_takes_any_leading_dimensions(student, rng):
    """With 0 to 3 leading dimensions, per_head_linear treats each entry as if it were alone."""
    check_leading_dimensions(student, rng, "per_head_linear")


@pytest.mark.points(2)
def test_per_head_linear_takes_any_kind_of_input(student, rng):
    """per_head_linear takes any memory layout, dtype and device, and keeps dtype and device."""
    check_kinds_of_input(student, rng, "per_head_linear")


@pytest.mark.points(2)
def test_per_head_linear_passes_gradients(student, rng):
    """The gradient of the result reaches x and w, and neither is changed."""
    check_gradients(student, rng, "per_head_linear")


@pytest.mark.points(2)
def test_masked_mean_takes_any_leading_dimensions(student, rng):
    """With 0 to 3 leading dimensions, masked_mean treats each entry as if it were alone."""
    check_leading_dimensions(student, rng, "masked_mean")


@pytest.mark.points(2)
def test_masked_mean_takes_any_kind_of_input(student, rng):
    """masked_mean takes any memory layout, dtype and device, and keeps dtype and device."""
    check_kinds_of_input(student, rng, "masked_mean")


@pytest.mark.points(2)
def test_masked_mean_passes_gradients(student, rng):
    """The gradient of the result reaches x, and neither x nor the mask is changed."""
    check_gradients(student, rng, "masked_mean")


@pytest.mark.points(2)
def test_patchify_takes_any_kind_of_input(student, rng):
    """patchify takes any memory layout, dtype and device, and keeps dtype and device."""
    check_kinds_of_input(student, rng, "patchify")


@pytest.mark.points(2)
def test_patchify_passes_gradients(student, rng):
    """The gradient of the result reaches the images, and they are not changed."""
    check_gradients(student, rng, "patchify")


# Stays: 0 / 0 is the common mistake; the test of gradients only meets it on the way.
@pytest.mark.points(3)
def test_masked_mean_is_zero_where_nothing_is_kept(student, rng):
    """A sequence without kept positions gives zeros, and the others are not affected.

    This also holds in half precision.
    """
    x = uniform(rng, 3, 1, D)  # sequences of one position
    mask = torch.tensor([[True], [False], [True]])
    got = student.einops_reshaping.masked_mean(x, mask)
    atol = 2 * rounding("masked_mean", torch.float32)
    expect.tensor(got, x[:, 0] * mask, of="masked_mean", atol=atol, hint="what is 0 divided by 0?")
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x, mask = arguments("masked_mean", rng, dtype=dtype)
        expected = answer(student, "masked_mean", [x, mask])
        expect.that(
            expected.shape == (4, D),
            f"wrong shape: expected (4, {D}), got {tuple(expected.shape)}",
            of="masked_mean",
        )
        calls, checks = [], []
        for empty in ([1], [0, 2], [0, 1, 2, 3]):
            mask_now, expected_now = mask.clone(), expected.clone()
            mask_now[empty], expected_now[empty] = False, 0.0
            calls.append((x, mask_now))
            atol = 2 * rounding("masked_mean", dtype)
            checks.append((expected_now, atol, "what is 0 divided by 0?"))
        check_answers(student, "masked_mean", calls, checks)


@pytest.mark.points(3)
def test_masked_mean_does_not_look_at_what_is_not_kept(student, rng):
    """NaN and infinity have no effect where mask is False, but do where mask is True."""
    x, mask = arguments("masked_mean", rng)
    expected = answer(student, "masked_mean", [x, mask])
    for padding in (math.nan, math.inf, -math.inf):
        got = student.einops_reshaping.masked_mean(
            torch.where(mask.unsqueeze(-1), x, padding), mask
        )
        atol = 2 * rounding("masked_mean", torch.float32)
        expect.tensor(
            got,
            expected,
            of="masked_mean",
            atol=atol,
            hint="0 · NaN is NaN: select, do not multiply",
        )
    first_kept = mask.int().argmax(-1)
    for kept in (math.nan, math.inf):
        x[torch.arange(len(x)), first_kept] = kept
        for mask_now in (mask, torch.ones_like(mask)):
            got = answer(student, "masked_mean", [x, mask_now])
            reason = f"a kept position is {kept}, but the mean does not show it"
            expect.that(
                not bool(got.isfinite().any()),
                reason,
                of="masked_mean",
                hint="replace only what the mask leaves out",
            )


def test_split_heads_refuses_heads_that_do_not_fit(student, rng):
    """If heads does not divide the last dimension, split_heads raises a ValueError."""
    x = uniform(rng, 3, 6, 8)
    with expect.right_call("8 features, 4 heads"):
        answer(student, "split_heads", [x, 4])
    for heads in (3, 5, 16):
        when = "heads does not divide the last dimension"
        refuses(
            student,
            "split_heads",
            [x, heads],
            when=when,
            hint="what is left over after the last head?",
        )


def test_patchify_refuses_patches_that_do_not_fit(student, rng):
    """If patch does not divide height and width, patchify raises a ValueError."""
    with expect.right_call("4×6 pixels, patch 2"):
        answer(student, "patchify", [uniform(rng, 2, 3, 4, 6), 2])
    for shape, patch in [
        ((6, 8), 3),
        ((8, 6), 3),
        ((4, 4), 8),
        ((7, 7), 2),
        ((4, 9), 6),
        ((6, 8), 4),
        ((8, 6), 4),
        ((2, 8), 4),
        ((10, 6), 4),
    ]:
        images = uniform(rng, 2, 3, *shape)
        when = "patch does not divide height and width"
        refuses(
            student, "patchify", [images, patch], when=when, hint="what is left over at the border?"
        )


def test_masked_mean_refuses_a_mask_of_another_shape(student, rng):
    """masked_mean raises a ValueError unless mask has x's shape without the last dimension."""
    x = uniform(rng, 4, SEQ, D)
    with expect.right_call("a mask of the shape of x without its last dimension"):
        answer(student, "masked_mean", [x, torch.ones(4, SEQ, dtype=torch.bool)])
        answer(student, "masked_mean", [x[0], torch.ones(SEQ, dtype=torch.bool)])
    for shape in [
        (SEQ,),
        (1, SEQ),
        (4, 1),
        (4, SEQ, 1),
        (4, SEQ + 1),
        (4, SEQ, D),
        (1, 4, SEQ),
        (2, 4, SEQ),
        (),
        (1,),
    ]:
        when, hint = (
            "mask does not have the shape of x without its last dimension",
            "is a mask of this shape broadcast?",
        )
        mask = torch.ones(shape, dtype=torch.bool)
        refuses(student, "masked_mean", [x, mask], when=when, hint=hint)
        if shape != (SEQ,):
            refuses(student, "masked_mean", [x[0], mask], when=when, hint=hint)


def test_products_refuse_an_axis_of_another_size(student, rng):
    """An axis that is summed over must have the same size in both; a size of 1 is not broadcast."""
    x, w = uniform(rng, 4, 3, HEADS * D), uniform(rng, HEADS, D, D)
    with expect.right_call("per_head_linear of an x and a w that fit"):
        answer(student, "per_head_linear", [x, w])
    hint = (
        "is each size what w's shape requires? einsum broadcasts an axis of size 1, and "
        "reshape accepts any matching number of elements"
    )
    for width in (HEADS * D + 1, HEADS * D * 2, HEADS, D, 1):
        when = "the last dimension of x is not heads · d_in"
        refuses(student, "per_head_linear", [uniform(rng, 4, 3, width), w], when=when, hint=hint)
        refuses(student, "per_head_linear", [uniform(rng, width), w], when=when, hint=hint)
    q, k = uniform(rng, 4, 3, SEQ, D), uniform(rng, 4, 3, KEYS, D)
    with expect.right_call("attention_scores of queries and keys with 4 features"):
        answer(student, "attention_scores", [q, k])
    narrow = w[:, :1]  # its d_in is 1, which einsum would stretch
    when = "the last dimension of x is not heads · d_in"
    refuses(student, "per_head_linear", [x, narrow], when=when, hint=hint)
    refuses(student, "per_head_linear", [x[..., :1], w[:1]], when=when, hint=hint)  # one head
    for d in (D + 1, D - 1, 1):
        when = "q and k have different last dimensions"
        other_q = q[..., :1].expand(4, 3, SEQ, d)
        other_k = k[..., :1].expand(4, 3, KEYS, d)
        refuses(student, "attention_scores", [q, other_k], when=when, hint=hint)
        refuses(student, "attention_scores", [other_q, k], when=when, hint=hint)
        refuses(student, "attention_scores", [other_q[0, 0], k[0, 0]], when=when, hint=hint)
