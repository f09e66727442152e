"""gradient_clipping: the norm that is returned, and the gradients afterwards.

Accepted on purpose: a norm of any float dtype in which it fits, computed in the gradients' own
dtype, in float32 for half precision, or in float64, over all entries at once or from each
gradient's norm; the factor as a number or a tensor; foreach operations; work on p.grad.data; a norm
that still requires grad. A norm that is a Python number, or a tensor of one element with some
dimensions, counts as its value and fails only the test about the type.

One mistake has one price. The norm is judged against float64 in tests of its own; the factor may
follow from the right norm or from the norm that the student's function returns. Everything else
(None, dtypes, tensors that must stay the same, iterables) is judged against the student's own
function on the same gradients in a list.
"""

import itertools
import math

import pytest
import torch

from kit import expect
from tests.probes import optimizers as probes

OF = "clip_gradient_norm"
SHAPES = [(3,), (2, 4), (), (0,), (5, 1, 2)]
SIZES = (1e-8, 1e-4, 1.0, 1e4)
WIDE_SIZES = (1e-90, 1.0, 1e90)  # of float64; their squares fit into no narrower dtype


def random_gradients(rng, *, shapes=SHAPES, size=1.0, dtype=torch.float32):
    """Draw entries with absolute values of 0.5 to 1.5 times a size and random signs."""
    signs = [torch.randint(0, 2, shape, generator=rng) * 2 - 1 for shape in shapes]
    entries = [torch.rand(s.shape, generator=rng, dtype=torch.float64) + 0.5 for s in signs]
    return [(e * s * size).to(dtype) for e, s in zip(entries, signs, strict=True)]


def norm_of(gradients):
    """The norm of all entries together, in float64."""
    return math.hypot(*(x for g in gradients for x in g.double().flatten().tolist()))


def tolerance(gradients):
    """The largest relative rounding error of the norm, and of a clipped entry.

    In the worst case every step rounds in the gradients' dtype: squaring, adding up the gradients'
    sums one by one, the root, ε, the factor and the product. Only the sum within one gradient is
    kept in float32 or wider by torch. The root halves the relative error so far. For n gradients of
    m entries, this is less than n + 8 roundings in their dtype and m roundings in float32 or wider.
    """
    own = max(torch.finfo(g.dtype).eps for g in gradients)
    entries = sum(g.numel() for g in gradients)
    return (len(gradients) + 8) * own + entries * min(own, torch.finfo(torch.float32).eps)


def call(gradients, max_l2_norm, *, eps=None, **how):
    """The inputs of one call."""
    options = {} if eps is None else {"eps": eps}
    return {"gradients": gradients, "max_l2_norm": max_l2_norm, "options": options, **how}


def clip(student, gradients, max_l2_norm, **how):
    return student.run(probes.clipped, **call(gradients, max_l2_norm, **how))


def clip_each(student, calls):
    """The result of each of these calls, together with the gradients before it."""
    results = student.run(probes.clipped_each, calls=calls)
    return [(of["gradients"], got) for of, got in zip(calls, results, strict=True)]


def norm_in(returned, *, hint=None):
    """The returned norm as a number. Another test judges its type."""
    if (
        isinstance(returned, torch.Tensor)
        and returned.layout == torch.strided
        and returned.device.type == "cpu"
    ):
        returned = (
            returned.item() if returned.numel() == 1 and returned.is_floating_point() else returned
        )
    expect.kind(returned, (float, int), of=OF, name="the norm", hint=hint)
    return float(returned)


def kind_of(norm):
    """Whether a norm is a tensor, and if so whether of a float dtype."""
    return isinstance(norm, torch.Tensor) and ("float" if norm.is_floating_point() else "other")


def check_norm(returned, expected, *, rtol, hint):
    """Check that the returned value is near the norm."""
    norm = norm_in(returned, hint=hint)
    expect.number(norm, expected, of=OF, tolerance=rtol * expected, name="the norm", hint=hint)


def check_same_norm(got, plain, *, rtol, hint):
    """Check that two calls returned the same norm, if the first returned one."""
    try:
        norm = norm_in(plain["returned"])
    except expect.Mismatch:
        return  # another test judges the norm
    if 0 <= norm < math.inf:
        check_norm(got["returned"], norm, rtol=rtol, hint=hint)


def check_gradients(got, expected, *, rtol=0.0, hint):
    for gradient, want in zip(got, expected, strict=True):
        if want is None:
            expect.that(
                gradient is None,
                "a parameter without a gradient has one after the call",
                of=OF,
                hint=hint,
            )
        else:
            expect.tensor(gradient, want, of=OF, rtol=rtol, name="a gradient", hint=hint)


def check_shorter(got, before):
    """Check that a gradient above the limit changed.

    Code that leaves all gradients alone must not earn points for the details of clipping.
    """
    for gradient in got:
        expect.kind(gradient, torch.Tensor, of=OF, name="a gradient")
    pairs = zip(got, before, strict=True)
    expect.that(
        any(g.shape == old.shape and bool((g != old).any()) for g, old in pairs),
        "no gradient changed although the norm is above the limit",
        of=OF,
        hint="change the tensor p.grad itself",
    )


def own_norms(student, each):
    """The norm that the student's function returns for each of these lists of gradients.

    It is the right one if the returned value is none that a norm can be.
    """
    norms = []
    for gradients, got in clip_each(student, [call(gradients, 1e30) for gradients in each]):
        try:
            norm = norm_in(got["returned"])
        except expect.Mismatch:
            norm = math.nan
        norms.append(norm if 0 <= norm <= math.inf else norm_of(gradients))
    return norms


@pytest.mark.core
@pytest.mark.points(11)
def test_rescales_a_long_gradient(student, rng):
    """If the norm exceeds max_l2_norm, every gradient is multiplied by max_l2_norm / (norm + ε)."""
    cases = [
        (1e-8, 0.9, 0.5),
        (1e-8, 0.01, 2.0),
        (1e-4, 0.3, 0),
        (1e4, 0.9, 0),
        (1e4, 0, 0.5),
        (1.0, 0.3, 0),
        (1.0, 0.01, 1),
        (1.0, None, 1),
        (1.0, None, 1e-7),
        (1.0, 0.3, 10, torch.float64),
    ]
    each = [
        random_gradients(rng, size=size, dtype=(*dtype, torch.float32)[0])
        for size, _, _, *dtype in cases
    ]
    calls, factors = [], []
    owns = own_norms(student, each)
    for (size, share, relative_eps, *_), gradients, own in zip(cases, each, owns, strict=True):
        right = norm_of(gradients)
        if size != 1.0 and not 0 < own < math.inf:
            continue  # another test judges the norm
        # None is the int 1, which is below the norm of entries near 1.
        limit, eps = (
            1 if share is None else share * min(right, own),
            relative_eps * (size if size != 1.0 else 1),
        )
        if own + eps == 0:
            continue  # another test judges the norm
        calls.append(call(gradients, limit, eps=eps))
        factors.append((limit / (own + eps), limit / (right + eps)))
    results = clip_each(student, calls)
    for (gradients, got), (of_own, of_right) in zip(results, factors, strict=True):
        rtol, hint = tolerance(gradients), "every gradient is multiplied by max / (norm + ε)"
        try:
            check_rescaled(got["gradients"], gradients, of_own, rtol=rtol, hint=hint)
        except expect.Mismatch:
            check_rescaled(got["gradients"], gradients, of_right, rtol=rtol, hint=hint)


def check_rescaled(got, gradients, factor, *, rtol, hint):
    """Check that the gradients are those of before, times a factor."""
    expected = [(g.double() * factor).to(g.dtype) for g in gradients]
    check_gradients(got, expected, rtol=rtol, hint=hint)


# Stays: only this test has limits far above the norm.
@pytest.mark.core
@pytest.mark.points(5)
def test_leaves_a_short_gradient(student, rng):
    """If the norm is not above max_l2_norm, the gradients stay exactly as they are."""
    hint = "only a norm above max_l2_norm changes a gradient"
    cases = [(1.0, (10, math.inf)), (1e-8, (10,)), (1e-4, (1000,)), (1e4, (10,))]
    each = [random_gradients(rng, size=size) for size, _ in cases]
    to_shorten, to_leave = [], []
    owns = own_norms(student, each)
    for (size, factors), gradients, own in zip(cases, each, owns, strict=True):
        right = norm_of(gradients)
        if size != 1.0 and not 0 < own < math.inf:
            continue  # another test judges the norm
        to_shorten.append(call(gradients, 0.1 * min(right, own)))
        for limit in (2**53, *(factor * max(right, own) for factor in factors)):
            # With an ε this small, a factor that is clamped at 1 is exactly 1.
            to_leave.append(call(gradients, limit, eps=1e-6 * right))
    results = clip_each(student, to_shorten + to_leave)
    for gradients, got in results[: len(to_shorten)]:
        check_shorter(got["gradients"], gradients)
    for gradients, got in results[len(to_shorten) :]:
        check_gradients(got["gradients"], gradients, hint=hint)


def test_leaves_a_gradient_at_the_limit(student, rng):
    """A norm of exactly max_l2_norm, even 0, leaves the gradients exactly as they are; one just
    above it does not. Limits, ε and norms may be as large or small as float64 allows.
    """
    hint = "only if ‖g‖ > max_l2_norm, and not where they are equal"
    (sign,) = torch.randint(0, 2, (1,), generator=rng).tolist()
    to_shorten, to_leave = [], []
    for scale in (2.0**-20, 1.0, 2.0**20, -1.0):
        # The norm is exactly 5, as 9 + 16 = 25.
        gradients = [torch.tensor([3.0, 0.0]) * scale, torch.tensor([[4.0 - 8 * sign]]) * scale]
        to_shorten.append(call(gradients, 2 * abs(scale)))
        to_leave.append(call(gradients, 5 * abs(scale)))
    # Float32 has no such number.
    one = [torch.tensor([0.0, 1.0 + 2.0**-30], dtype=torch.float64)]
    to_leave.append(call(one, 1.0 + 2.0**-30))
    zeros = [torch.zeros(3), torch.zeros(2, 2)]
    for limit, eps in ((0, None), (0.5, None), (0, 0), (0.5, 0.0)):
        to_leave.append(call(zeros, limit, eps=eps))
    above = [torch.tensor([1.0 + 2.0**-31], dtype=torch.float64)]  # so near that ε halves it
    to_shorten.append(call(above, 1.0, eps=1.0))
    # The rest is judged against the student's own gradients at size 1.
    wide, sizes = random_gradients(rng, dtype=torch.float64), (2.0**-300, 2.0**300)
    others = [call(wide, 0.5, eps=0)]
    others += [call([g * size for g in wide], 0.5 * size, eps=0) for size in sizes]
    others += [call(wide, 0), call(wide, 0, eps=0), call(gradients, 1e200)]
    results = iter(clip_each(student, [*to_shorten, *to_leave, *others]))
    for before, got in itertools.islice(results, len(to_shorten)):
        check_shorter(got["gradients"][-1:], before[-1:])
    for before, got in itertools.islice(results, len(to_leave)):
        check_gradients(got["gradients"], before, hint=hint)
    own, *of_sizes, own_at_0, at_0, far = (got["gradients"] for _, got in results)
    for size, got in zip(sizes, of_sizes, strict=True):
        hint_on_size = "neither the norm nor the factor is a float32, or compared with a fixed one"
        expected = [g * size for g in own]
        check_gradients(got, expected, rtol=2 * tolerance(wide), hint=hint_on_size)
    check_gradients(at_0, own_at_0, hint="a limit of 0 needs no ε")
    check_gradients(far, gradients, hint="compare the norms, not their squares")


# Stays: this is the plain case, and the other tests of the norm are about half precision or lists.
@pytest.mark.core
@pytest.mark.points(6)
def test_returns_the_norm_of_all_gradients(student, rng):
    """The norm is the root of the sum of the squares of all entries of all gradients."""
    sizes = [(size, torch.float32) for size in SIZES]
    sizes += [(size, torch.float64) for size in WIDE_SIZES]
    calls = []
    for i, (size, dtype) in enumerate(sizes):
        shapes = (SHAPES, [(40, 50)], [(2, 3)] * 150)[i % 3]
        gradients = random_gradients(rng, shapes=shapes, size=size, dtype=dtype)
        gradients[-1] = gradients[0].reshape(shapes[-1]) if i % 3 else gradients[-1]  # equal ones
        calls.append(call(gradients, 1e3 * norm_of(gradients)))
    for gradients, got in clip_each(student, calls):
        hint = "one norm of all entries together: √(Σ g²)"
        check_norm(got["returned"], norm_of(gradients), rtol=tolerance(gradients), hint=hint)


@pytest.mark.points(2)
def test_returns_the_norm_before_clipping(student, rng):
    """The function returns the norm from before any rescaling."""
    for shapes in (SHAPES, [()]):
        gradients = [g.abs() for g in random_gradients(rng, shapes=shapes)]
        before = norm_in(clip(student, gradients, 1e3)["returned"])
        expect.that(before > 0 or shapes != SHAPES, "the norm of gradients is 0", of=OF)
        if before == 0:
            continue  # another test judges the norm
        for limit, earlier in [(0.4, False), (1e-3, True), (math.inf, True), (0, False)]:
            got = clip(student, gradients, limit, earlier=earlier)
            if 0 < limit < 1 and shapes == SHAPES:
                check_shorter(got["gradients"], gradients)
            hint = "compute the norm in every call, and before you rescale anything"
            check_norm(got["returned"], before, rtol=tolerance(gradients), hint=hint)
            if earlier:
                hint = "a later call must not change an earlier result"
                check_norm(got["first"], 2 * before, rtol=2 * tolerance(gradients), hint=hint)


@pytest.mark.points(2)
def test_works_in_place(student, rng):
    """Each p.grad stays the same tensor, in any memory layout and dtype, as do the parameters."""
    gradients = random_gradients(rng)
    plain = clip(student, gradients, 0.5)
    check_shorter(plain["gradients"], gradients)
    hint = "p.grad.mul_(...) changes the tensor in place"
    got = clip(student, gradients, 0)
    same = got["are_the_same"]
    expect.that(same, "with a limit of 0, p.grad is another tensor", of=OF, hint=hint)
    check_gradients(got["inside"], got["gradients"], hint=hint)
    for views, dtypes in [
        (False, [torch.float32] * 5),
        (True, [torch.float32] * 5),
        (True, [torch.float64] * 5),
        (False, [torch.bfloat16] * 5),
        (True, [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float32]),
    ]:
        own = [g.to(dtype) for g, dtype in zip(gradients, dtypes, strict=True)]
        rtol = tolerance(gradients) + tolerance(own)
        got = clip(student, own, 0.5, views=views)
        check_same_norm(got, plain, rtol=rtol, hint=None)
        for gradient, want, dtype in zip(got["inside"], plain["gradients"], dtypes, strict=True):
            name = "a view of p.grad, made before the call"
            expect.tensor(gradient, want.to(dtype), of=OF, rtol=rtol, name=name, hint=hint)
        expect.that(
            got["are_the_same"], "p.grad is a different tensor than before", of=OF, hint=hint
        )
        for p, g in zip(got["parameters"], own, strict=True):
            hint_on_p = "clipping changes only gradients, never a parameter"
            expect.tensor(p, g / 3, of=OF, name="a parameter", hint=hint_on_p)


@pytest.mark.points(2)
def test_half_precision(student, rng):
    """A norm that fits into half precision is right although the squares of entries do not."""
    hint = "in float16 the square of 256 is infinite, and that of 1e-4 is 0"
    calls = []
    for dtype, size in [
        (torch.float16, 400.0),
        (torch.float16, 1e-4),
        (torch.bfloat16, 400.0),
        (torch.float16, 1.0),
    ]:
        gradients = random_gradients(rng, size=size, dtype=dtype)
        norm, own = norm_of(gradients), [g.float() for g in gradients]
        # With a limit of half the norm, no gradient gets close to the smallest float16.
        calls += [call(gradients, 10 * norm), call(own, 0.5 * norm, eps=0.0)]
        calls.append(call(gradients, 0.5 * norm, eps=0.0))
    results = clip_each(student, calls)
    for (gradients, got), (_, wide), (_, clipped) in zip(*[iter(results)] * 3, strict=True):
        check_norm(got["returned"], norm_of(gradients), rtol=tolerance(gradients), hint=hint)
        check_gradients(got["gradients"], gradients, hint=hint)
        expected = [g.to(gradients[0].dtype) for g in wide["gradients"]]
        check_gradients(clipped["gradients"], expected, rtol=2 * tolerance(gradients), hint=hint)
    gradients = [
        torch.ones(3, dtype=torch.float16),
        *random_gradients(rng, shapes=[(3,)], size=1e6),
    ]
    # The first square is 256, and bfloat16 has no odd numbers above that.
    many = [torch.full((1,), x, dtype=torch.bfloat16) for x in (16.0, *[0.9] * 100)]
    # The factor does not fit into float16 here, but the clipped gradient does.
    one = random_gradients(rng, shapes=[(1,)], size=3e4, dtype=torch.float16)
    calls = [call(of, 1e9) for of in (gradients, gradients[::-1], many)]
    calls += [call(of, 1e-3, eps=0.0) for of in ([g.float() for g in one], one)]
    *mixed, (_, of_many), (own, wide), (_, got) = clip_each(student, calls)
    for before, of_mixed in mixed:
        hint = "the norm of all gradients need not fit into the dtype of one of them"
        check_norm(of_mixed["returned"], norm_of(before), rtol=tolerance(before), hint=hint)
    hint = "add up in float32 or wider: a sum in bfloat16 stops growing"
    check_norm(of_many["returned"], norm_of(many), rtol=0.05, hint=hint)
    check_shorter(wide["gradients"], own)
    hint, rtol = "compute the factor in float32 or wider", 2 * tolerance(one)
    expected = [g.half() for g in wide["gradients"]]
    check_gradients(got["gradients"], expected, rtol=rtol, hint=hint)


@pytest.mark.points(2)
def test_skips_parameters_without_a_gradient(student, rng):
    """Parameters whose gradient is None, at any position, are skipped and stay without one."""
    gradients = random_gradients(rng)
    plain = clip(student, gradients, 0.5)
    check_shorter(plain["gradients"], gradients)
    with_none = [None, gradients[0], None, *gradients[1:], None]
    got = clip(student, with_none, 0.5, frozen=True)
    hint = "where p.grad is None, and only there, continue with the next parameter"
    expected = [None, plain["gradients"][0], None, *plain["gradients"][1:], None]
    check_gradients(got["gradients"], expected, rtol=tolerance(gradients), hint=hint)
    check_same_norm(got, plain, rtol=tolerance(gradients), hint=hint)
    got = clip(student, with_none, math.inf)
    check_gradients(got["gradients"], with_none, hint=hint)


@pytest.mark.points(3)
def test_takes_any_iterable(student, rng):
    """The parameters may come from any iterable, such as a generator, and a list stays as it is."""
    gradients = random_gradients(rng)
    rtol, hint = tolerance(gradients), "a generator is used up after one loop: go through it once"
    for count in (len(gradients), 1):
        kinds = (
            "a list",
            "a generator",
            "model.parameters()",
            "an iterator",
            "a tuple",
            "the values of a dict",
            "an iterable object",
        )
        calls = [call(gradients[:count], 0.5, passed_as=kind) for kind in kinds]
        (before, plain), *others = clip_each(student, calls)
        check_shorter(plain["gradients"], before)
        expect.that(plain["is_unchanged"], "the caller's list is another list now", of=OF)
        for _, got in others:
            check_gradients(got["gradients"], plain["gradients"], rtol=rtol, hint=hint)
            check_same_norm(got, plain, rtol=rtol, hint=hint)


def test_no_gradient_at_all(student, rng):
    """If no parameter has a gradient, or all gradients are zeros, the norm is 0."""
    some = clip(student, random_gradients(rng), 1e3)["returned"]
    expect.that(norm_in(some) > 0, "the norm of gradients is not positive", of=OF)
    for gradients, limit, passed_as in [
        ([], 1.0, "a list"),
        ([], 1.0, "a generator"),
        ([None, None], 1.0, "a list"),
        ([None], 0, "a list"),
        ([torch.zeros(2)], 1.0, "a list"),
        ([torch.zeros(0)], 1.0, "a list"),
    ]:
        got = clip(student, gradients, limit, passed_as=passed_as)["returned"]
        hint = "without any gradient the norm is 0, as a tensor"
        check_norm(got, 0.0, rtol=0.0, hint=hint)
        # Another test asks for a tensor of a float dtype where there are gradients.
        expect.that(
            kind_of(got) == kind_of(some),
            "without any gradient the norm has another type",
            of=OF,
            hint=hint,
        )


def test_the_norm_is_a_tensor(student, rng):
    """The norm is returned as a 0-dimensional tensor of a float dtype."""
    hint = "not a Python number and not a tensor with a dimension"
    seen = []
    for factor in (1.0, 4.0):
        gradients = [factor * g for g in random_gradients(rng)]
        returned = clip(student, gradients, 1e3)["returned"]
        expect.kind(returned, torch.Tensor, of=OF, name="the norm", hint=hint)
        expect.that(
            returned.dim() == 0, f"the norm has {returned.dim()} dimensions", of=OF, hint=hint
        )
        dtype = expect.dtype_name(returned.dtype)
        expect.that(returned.is_floating_point(), f"the norm is of dtype {dtype}", of=OF, hint=hint)
        seen.append(norm_in(returned))
    expect.that(
        seen[0] < seen[1], "gradients about four times as long do not have a larger norm", of=OF
    )
    large = random_gradients(rng, size=1e90, dtype=torch.float64)
    norm = norm_in(clip(student, [None, *large], 1e100)["returned"])
    hint = "the gradients decide about the dtype, not a parameter without one"
    expect.that(math.isfinite(norm), "a norm that fits into float64 is infinite", of=OF, hint=hint)


def test_default_eps(student, rng):
    """The default eps is 1e-6, which matters when the norm is about that small."""
    gradients = random_gradients(rng, size=1e-6)
    named = clip(student, gradients, 1e-14, eps=1e-6)["gradients"]
    check_shorter(named, gradients)
    got = clip(student, gradients, 1e-14)["gradients"]
    check_gradients(
        got, named, rtol=tolerance(gradients), hint="does the default match the signature?"
    )
