"""einops: axes split, merged and ordered; products and means over named axes.

One test per function judges its values against slices, loops and the formula written out in
float64. Everything else (leading dimensions, layouts, dtypes, gradients) is judged against the
student's own answers to plainer calls, so that a wrong order of axes costs only its own points.
Such a test leaves out a function whose value is wrong even where every order of axes is the same.
Each function is linear in each of its tensors, which allows a check of gradients without an oracle:
for any v, upstream · f(v) = gradient · v.

Tolerances allow any order of operations, and float32 or float64 inside for half precision. A wrong
call may raise ValueError, and also the RuntimeError (einops' own errors are RuntimeErrors) or
IndexError of the operation that failed.
"""

import itertools
import math

import pytest
import torch
from torch import Tensor

from kit import expect
from tests.hidden import answer_that_keeps, sizes
from tests.probes import einops_reshaping as probes

SEQ, KEYS, HEADS, D, CHANNELS, PATCH = 5, 7, 2, 4, 2, 3
# The largest |result| for |inputs| <= 1, of the functions that compute something.
SUMS = {"attention_scores": math.sqrt(D), "per_head_linear": D, "masked_mean": 1.0}
WITH_ANY_LEADING = ["split_heads", "merge_heads", *SUMS]
FUNCTIONS = [*WITH_ANY_LEADING, "patchify"]


def uniform(rng, *shape):
    """Draw numbers between -1 and 1."""
    return 2 * torch.rand(shape, generator=rng) - 1


def some_kept(rng, *shape):
    """A mask that keeps some and drops some positions of each sequence, in varying numbers."""
    order = torch.rand(shape, generator=rng).argsort(-1)
    return order <= torch.randint(0, shape[-1] - 1, (*shape[:-1], 1), generator=rng)


def arguments(function, rng, leading=(4,)):
    """The arguments of a right call of a function. patchify takes exactly one leading dimension."""
    match function:
        case "split_heads":
            return [uniform(rng, *leading, SEQ, HEADS * D), HEADS]
        case "merge_heads":
            return [uniform(rng, *leading, HEADS, SEQ, D)]
        case "attention_scores":
            return [uniform(rng, *leading, SEQ, D), uniform(rng, *leading, KEYS, D)]
        case "per_head_linear":
            return [uniform(rng, *leading, HEADS * D), uniform(rng, HEADS, D, D)]
        case "masked_mean":
            return [uniform(rng, *leading, SEQ, D), some_kept(rng, *leading, SEQ)]
        case _:
            return [uniform(rng, *leading, CHANNELS, 2 * PATCH, 3 * PATCH), PATCH]


def plain_arguments(function, rng):
    """The arguments of a right call with the most common leading dimensions."""
    two = function in ("attention_scores", "per_head_linear")
    return arguments(function, rng, (4, 3) if two else (4,))


def floats(args):
    """The places of the floating-point tensors among the arguments."""
    return [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.is_floating_point()]


def answer(student, function, args):
    got = getattr(student.einops_reshaping, function)(*args)
    expect.kind(got, Tensor, of=function)
    return got


def rounding(function, dtype=torch.float32, terms=SEQ):
    """The largest rounding error of a result, for inputs up to 1; it is 0 where elements only move.

    A sum of n products is off by at most n·eps times the sum of their absolute values. Inputs that
    are scaled first, the scale itself, the division and the result are rounded as well, each by at
    most eps.
    """
    return (terms + 4) * torch.finfo(dtype).eps * SUMS.get(function, 0.0)


def simplest(function, rng):
    """A call whose result is the same for every order of axes, and its result."""
    x = uniform(rng, 4, SEQ, D)
    q, k = x[:, None, :1, :1], x[:, None, 1:2, 1:2]
    return {
        "split_heads": ([x, 1], x.unsqueeze(1)),
        "merge_heads": ([x.unsqueeze(1)], x),
        "attention_scores": ([q, k], q * k),
        "per_head_linear": ([x, 2 * torch.eye(D).unsqueeze(0)], 2 * x),
        "masked_mean": ([x[:, :1], torch.ones(4, 1, dtype=torch.bool)], x[:, 0]),
        "patchify": ([x[:, :1, None, :], 1], x[:, 0, :, None]),
    }[function]


def judged(student, rng, functions=FUNCTIONS):
    """The functions whose simplest value is right, at least one. Other tests judge the others."""
    with expect.right_call("the simplest call: one head, one position, or patches of one pixel"):
        calls = {function: simplest(function, rng) for function in functions}
        module = student.einops_reshaping
        got = {function: getattr(module, function)(*args) for function, (args, _) in calls.items()}
        found = [function for function in functions if agree(got[function], calls[function][1])]
    reason = "no function of this module gives the value of the simplest call"
    expect.that(len(found) > 0, reason, of=functions[0])
    return found


def agree(got, expected):
    return (
        isinstance(got, Tensor)
        and (got.shape, got.dtype, got.device) == (expected.shape, expected.dtype, expected.device)
        and bool(((got - expected).abs() <= 1e-5).all())
    )


# --- the value of each function


@pytest.mark.harm("trains worse")
def test_split_heads_gives_each_head_its_slice(student, rng):
    """Head h has the d features from index h·d on, and the head dimension comes before seq."""
    hint = "(heads d): the last axis varies fastest; then swap heads and seq"
    for batch, heads, seq, d in [sizes(rng, 4), (2, 3, 3, 2), (1, 1, 2, 3)]:
        x = uniform(rng, batch, seq, heads * d)
        expected = torch.stack([x[..., h * d : (h + 1) * d] for h in range(heads)], dim=-3)
        got = student.einops_reshaping.split_heads(x, heads)
        expect.tensor(got, expected, of="split_heads", hint=hint)


@pytest.mark.harm("trains worse")
def test_merge_heads_puts_the_heads_side_by_side(student, rng):
    """At each position the features of head 0 come first, then those of head 1, and so on."""
    hint = "seq comes before (heads d), and d varies fastest"
    for batch, heads, seq, d in [sizes(rng, 4), (2, 3, 3, 2), (1, 1, 2, 3)]:
        x = uniform(rng, batch, heads, seq, d)
        expected = torch.cat([x[:, h] for h in range(heads)], dim=-1)
        got = student.einops_reshaping.merge_heads(x)
        expect.tensor(got, expected, of="merge_heads", hint=hint)


@pytest.mark.harm("trains worse")
def test_attention_scores_are_products_over_root_d(student, rng):
    """Scores are the products of each query with each key, divided by the square root of d."""
    hint = "queries by keys, summed over d; which size goes under the root?"
    for batch, heads, queries, keys, d in [sizes(rng, 5), (2, 3, 3, 3, 3), (1, 1, 2, 2, 64)]:
        q, k = uniform(rng, batch, heads, queries, d), uniform(rng, batch, heads, keys, d)
        expected = (q.double() @ k.double().mT / math.sqrt(d)).float()
        atol = (d + 4) * torch.finfo(torch.float32).eps * math.sqrt(d)  # as in `rounding`
        got = student.einops_reshaping.attention_scores(q, k)
        expect.tensor(got, expected, of="attention_scores", atol=atol, hint=hint)


@pytest.mark.harm("trains worse")
def test_per_head_linear_gives_each_head_its_matrix(student, rng):
    """Slice h of the features is multiplied by matrix h and fills slice h of the result."""
    hint = (
        "name heads, d_in and d_out: which of them is summed over, and which stays next to heads?"
    )
    for batch, seq, heads, d_in, d_out in [sizes(rng, 5), (2, 3, 3, 3, 3), (2, 2, 1, 4, 2)]:
        x, w = uniform(rng, batch, seq, heads * d_in), uniform(rng, heads, d_in, d_out)
        slices = [x[..., h * d_in : (h + 1) * d_in].double() @ w[h].double() for h in range(heads)]
        atol = (d_in + 4) * torch.finfo(torch.float32).eps * d_in
        got = student.einops_reshaping.per_head_linear(x, w)
        expected = torch.cat(slices, dim=-1).float()
        expect.tensor(got, expected, of="per_head_linear", atol=atol, hint=hint)


@pytest.mark.harm("trains worse")
def test_masked_mean_is_the_mean_of_what_is_kept(student, rng):
    """Each sequence's mean is the sum of its kept positions divided by their number."""
    hint = "which positions are kept, and how many are there in this sequence?"
    for batch, seq, d in [sizes(rng, 3, 3, 9), (3, 1, 2), (2, 300, 2)]:
        counts = torch.arange(batch) % seq + max(1, seq - batch)  # several numbers, up to seq
        x = uniform(rng, batch, seq, d) + 0.5
        mask = torch.rand(batch, seq, generator=rng).argsort(-1) < counts[:, None]
        expected = torch.stack([x[b][mask[b]].double().mean(0) for b in range(batch)]).float()
        atol = 2 * rounding("masked_mean", terms=seq)  # inputs go up to 1.5
        got = student.einops_reshaping.masked_mean(x, mask)
        expect.tensor(got, expected, of="masked_mean", atol=atol, hint=hint)


@pytest.mark.harm("wrong number")
def test_patchify_orders_patches_and_pixels(student, rng):
    """Patches go row by row, and so do a patch's pixels, with each pixel's channels together."""
    hint = "(h w) and (p p c): give the two p's different names; which axis varies fastest?"
    for patch, batch, c, h, w in [(2, *sizes(rng, 4)), (3, 2, 2, 2, 3), (2, 1, 3, 3, 2)]:
        images = uniform(rng, batch, c, h * patch, w * patch)
        rows = [images[:, :, i * patch : (i + 1) * patch] for i in range(h)]
        patches = [row[..., j * patch : (j + 1) * patch] for row in rows for j in range(w)]
        places = list(itertools.product(range(patch), repeat=2))
        pixels = [torch.cat([x[:, :, r, s] for r, s in places], dim=1) for x in patches]
        got = student.einops_reshaping.patchify(images, patch)
        expect.tensor(got, torch.stack(pixels, dim=1), of="patchify", hint=hint)


@pytest.mark.harm("wrong number")
def test_masked_mean_is_zero_where_nothing_is_kept(student, rng):
    """A sequence without kept positions gives zeros, and the others are not affected.

    This also holds in half precision.
    """
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x, mask = arguments("masked_mean", rng)
        x = x.to(dtype)
        expected = answer(student, "masked_mean", [x, mask])  # another test judges it
        expect.tensor(expected.to("meta"), x[:, 0].to("meta"), of="masked_mean")
        expect.that(bool(expected.any()), "every mean is 0", of="masked_mean")
        for empty in ([1], [0, 2]):
            now, want = mask.clone(), expected.clone()
            now[empty], want[empty] = False, 0.0
            got = student.einops_reshaping.masked_mean(x, now)
            atol = 2 * rounding("masked_mean", dtype)
            expect.tensor(got, want, of="masked_mean", atol=atol, hint="what is 0 divided by 0?")


@pytest.mark.harm("crash")
def test_masked_mean_does_not_look_at_what_is_not_kept(student, rng):
    """NaN and infinity have no effect where the mask is False."""
    x, mask = arguments("masked_mean", rng)
    expected = answer(student, "masked_mean", [x, mask])  # another test judges it
    expect.tensor(expected.to("meta"), x[:, 0].to("meta"), of="masked_mean")
    expect.that(bool(expected.any()), "every mean is 0", of="masked_mean")
    for padding in (math.nan, math.inf):
        padded = torch.where(mask.unsqueeze(-1), x, padding)
        got = student.einops_reshaping.masked_mean(padded, mask)
        atol, hint = 2 * rounding("masked_mean"), "0 · NaN is NaN: select, do not multiply"
        expect.tensor(got, expected, of="masked_mean", atol=atol, hint=hint)


# --- all functions


@pytest.mark.harm("crash")
def test_functions_take_any_leading_dimensions(student, rng):
    """With no or several leading dimensions, each entry is treated as if it were alone."""
    hint = (
        "`...` in a pattern, negative dimensions, and x.shape[:-1] work for any number of "
        "leading dimensions"
    )
    for function in judged(student, rng, WITH_ANY_LEADING):
        shared = 1 if function == "per_head_linear" else 2  # w has no leading dimensions
        for leading in [(), (3,), (2, 3), (2, 1, 3)]:
            args = arguments(function, rng, leading)
            tensors = [x for x in args if isinstance(x, Tensor)][:shared]
            flat = [x.reshape(-1, *x.shape[len(leading) :]) for x in tensors]
            batch = answer(student, function, [*flat, *args[len(flat) :]])
            fits = batch.dim() > 0 and batch.shape[0] == math.prod(leading)
            reason = "the result does not have one entry for each entry of a leading dimension"
            expect.that(fits, reason, of=function, hint=hint)
            want = batch.reshape(*leading, *batch.shape[1:])
            got = getattr(student.einops_reshaping, function)(*args)
            atol = 2 * rounding(function)  # two results are compared
            expect.tensor(got, want, of=function, atol=atol, hint=hint)


@pytest.mark.harm("crash")
def test_inputs_need_not_be_contiguous(student, rng):
    """Transposed and strided views give the same results as contiguous tensors."""
    hint = "does the code assume a contiguous input?"
    for function in judged(student, rng):
        args = plain_arguments(function, rng)
        expected = answer(student, function, args)
        for i, x in enumerate(args):
            if isinstance(x, Tensor):
                turned = x.transpose(0, -1).contiguous().transpose(0, -1)
                for view in (turned, torch.stack([x, x], dim=-1)[..., 1]):
                    got = answer(student, function, [*args[:i], view, *args[i + 1 :]])
                    atol = 2 * rounding(function)
                    expect.tensor(got, expected, of=function, atol=atol, hint=hint)


@pytest.mark.harm("crash")
def test_results_keep_the_dtype(student, rng):
    """Results have the dtype of the inputs, in half precision and in float64, and its accuracy.

    A sum over many positions does not stop growing in bfloat16.
    """
    hint = "what dtype do the tensors have that you create, or divide by?"
    functions = judged(student, rng)
    for function in functions:
        for dtype in (torch.float16, torch.bfloat16, torch.float64):
            args = plain_arguments(function, rng)
            narrow = [x.to(dtype) if i in floats(args) else x for i, x in enumerate(args)]
            wide = [x.float() if i in floats(args) else x for i, x in enumerate(narrow)]
            want = answer(student, function, wide).to(dtype)
            got = getattr(student.einops_reshaping, function)(*narrow)
            # Two results are compared.
            atol = rounding(function, dtype) + rounding(function)
            expect.tensor(got, want, of=function, atol=atol, hint=hint)
        # A factor that a float32 cannot hold. Every function is linear in each of its inputs.
        factor, places = 1 + 2.0**-30, floats(args)
        plain = [x.double() if i in places else x for i, x in enumerate(args)]
        finer = [x * factor if i in places else x for i, x in enumerate(plain)]
        want = answer(student, function, plain) * factor ** len(places)
        atol, hint = 4 * rounding(function, torch.float64), "is float64 computed in float32?"
        expect.tensor(answer(student, function, finer), want, of=function, atol=atol, hint=hint)
    mask = torch.arange(1000) < torch.tensor([[1], [999]])
    hint = "is the sum taken in the inputs' dtype, where it stops growing? Is the count changed?"
    for dtype in (torch.float64, torch.bfloat16) if "masked_mean" in functions else ():
        # A sum in float32 or wider; its result, the count and the quotient in the dtype.
        got = student.einops_reshaping.masked_mean(torch.ones(2, 1000, 3, dtype=dtype), mask)
        eps, want = torch.finfo(dtype).eps, torch.ones(2, 3, dtype=dtype)
        atol = 1000 * min(eps, torch.finfo(torch.float32).eps) + 4 * eps
        expect.tensor(got, want, of="masked_mean", atol=atol, hint=hint)


@pytest.mark.harm("trains worse")
def test_gradients_reach_every_input(student, rng):
    """The gradient of the result reaches each floating-point input."""
    hint = "is there a .detach(), .data, .item() or numpy on the way, or a torch.tensor()?"
    for function in judged(student, rng):
        args = plain_arguments(function, rng)
        upstream = uniform(rng, *answer(student, function, args).shape)
        options = {"function": function, "args": args, "upstream": upstream}
        gradients = student.run(probes.gradients, **options)
        for i, gradient in zip(floats(args), gradients, strict=True):
            reason = "no gradient reaches an input"
            expect.that(gradient is not None, reason, of=function, hint=hint)
            expect.tensor(gradient.to("meta"), args[i].to("meta"), of=function, name="a gradient")
            v = uniform(rng, *args[i].shape)
            along_v = answer(student, function, [*args[:i], v, *args[i + 1 :]])
            fits = along_v.shape == upstream.shape
            expect.that(fits, "the shape of the result depends on values", of=function)
            # Sums of fewer than 2,000 numbers below 16, in float64, whose rounding errors are those
            # of float32 each.
            difference = (upstream.double() * along_v).sum() - (gradient.double() * v).sum()
            right = abs(float(difference)) < 2000 * 16 * 20 * torch.finfo(torch.float32).eps
            expect.that(right, "the gradient of an input is wrong", of=function, hint=hint)


# Stays: where each call gets copies, only this test sees the inputs after a call.
@pytest.mark.harm("not refused")
def test_inputs_are_left_as_they_were(student, rng):
    """No function changes its input tensors."""
    hint = "operations that end in _, and q /= …, work in place"
    for function in judged(student, rng):
        args = plain_arguments(function, rng)
        got = answer_that_keeps(student, "einops_reshaping", function, args, hint=hint)
        expect.kind(got["result"], Tensor, of=function)


def refuses(student, function, args, *, when, hint):
    """Check that the call raises ValueError, or the error of the operation that failed."""
    with expect.raises((ValueError, RuntimeError, IndexError), of=function, when=when, hint=hint):
        getattr(student.einops_reshaping, function)(*args)


@pytest.mark.harm("not refused")
def test_sizes_that_do_not_divide_are_refused(student, rng):
    """heads has to divide the features, and patch the height and the width of the images."""
    x, images = uniform(rng, 3, 6, 8), uniform(rng, 2, 3, 4, 6)
    with expect.right_call("8 features and 4 heads, or 4×6 pixels and patch 2"):
        answer(student, "split_heads", [x, 4])
        answer(student, "patchify", [images, 2])
    when = "heads does not divide the last dimension"
    hint = "what is left over after the last head?"
    for heads in (3, 5):
        refuses(student, "split_heads", [x, heads], when=when, hint=hint)
    when, hint = "patch does not divide height and width", "what is left over at the border?"
    for shape, patch in [((6, 8), 3), ((8, 6), 3), ((7, 7), 2), ((4, 9), 6)]:
        refuses(student, "patchify", [uniform(rng, 2, 3, *shape), patch], when=when, hint=hint)


@pytest.mark.harm("not refused")
def test_shapes_that_do_not_fit_are_refused(student, rng):
    """A mask has the shape of x without its last dimension, and x has heads · d_in features."""
    x, w = uniform(rng, 4, SEQ, HEADS * D), uniform(rng, HEADS, D, D)
    with expect.right_call("a mask, and matrices, that fit x"):
        answer(student, "masked_mean", [x, torch.ones(4, SEQ, dtype=torch.bool)])
        answer(student, "per_head_linear", [x, w])
    when = "mask does not have the shape of x without its last dimension"
    for shape in [(SEQ,), (1, SEQ), (4, 1), (4, SEQ + 1)]:
        mask, hint = torch.ones(shape, dtype=torch.bool), "is a mask of this shape broadcast?"
        refuses(student, "masked_mean", [x, mask], when=when, hint=hint)
    when = "the last dimension of x is not heads · d_in"
    hint = "reshape accepts any matching number of elements"
    for width in (HEADS * D + 1, HEADS * D * 2, D, HEADS):
        refuses(student, "per_head_linear", [uniform(rng, 4, SEQ, width), w], when=when, hint=hint)
    refuses(student, "per_head_linear", [x, w[:, :1]], when=when, hint=hint)
