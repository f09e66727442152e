"""gradient_clipping: the norm that is returned, and the gradients afterwards.

Accepted on purpose: a norm of any float dtype, computed in the gradients' own dtype, in float32 or
in float64, over all entries at once or from each gradient's norm; the factor as a number or a
tensor; a factor that is clamped at 1 and always applied; foreach operations; work on p.grad.data;
a norm that still requires grad. A norm that is a Python number counts as its value and fails only
the test about the type.

A norm that is wrong makes the factor wrong, too. Everything else is judged against the student's
own function on the same gradients in a list.
"""

import math

import pytest
import torch

from tests.hidden import ExpectOf
from tests.probes import optimizers as probes

expect = ExpectOf("clip_gradient_norm")

SHAPES = [(3,), (2, 4), (), (5, 1, 2)]
SIZES = (1e-4, 1.0, 1e4)


def random_gradients(rng, *, shapes=SHAPES, size=1.0, dtype=torch.float32):
    """Draw entries with absolute values of 0.5 to 1.5 times a size and random signs."""
    signs = [torch.randint(0, 2, shape, generator=rng) * 2 - 1 for shape in shapes]
    entries = [torch.rand(s.shape, generator=rng, dtype=torch.float64) + 0.5 for s in signs]
    return [(e * s * size).to(dtype) for e, s in zip(entries, signs, strict=True)]


def norm_of(gradients):
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


def clip(student, gradients, max_l2_norm, *, eps=None, **how):
    options = {} if eps is None else {"eps": eps}
    given = {"gradients": gradients, "max_l2_norm": max_l2_norm, "options": options, **how}
    return student.run(probes.clipped, **given)


def norm_in(returned, *, hint=None):
    """The returned norm as a number. Another test judges its type."""
    if isinstance(returned, torch.Tensor) and returned.numel() == 1:
        returned = returned.item()
    expect.kind(returned, (float, int), name="the norm", hint=hint)
    return float(returned)


def check_norm(returned, expected, *, rtol, hint):
    norm = norm_in(returned, hint=hint)
    expect.number(norm, expected, tolerance=rtol * expected, name="the norm", hint=hint)


def check_same_norm(got, plain, *, rtol, hint):
    """Check that two calls returned the same norm. Other tests ask that there is one."""
    if plain["returned"] is not None:
        check_norm(got["returned"], norm_in(plain["returned"]), rtol=rtol, hint=hint)


def check_gradients(got, expected, *, rtol, hint):
    for gradient, want in zip(got, expected, strict=True):
        if want is None:
            reason = "a parameter without a gradient has one after the call"
            expect.that(gradient is None, reason, hint=hint)
        else:
            expect.tensor(gradient, want, rtol=rtol, name="a gradient", hint=hint)


def check_shorter(got, before):
    """Check that a gradient above the limit changed.

    Code that leaves all gradients alone must not earn points for the details of clipping.
    """
    for gradient in got:
        expect.kind(gradient, torch.Tensor, name="a gradient")
    pairs = zip(got, before, strict=True)
    is_changed = any(g.shape == old.shape and bool((g != old).any()) for g, old in pairs)
    reason = "no gradient changed although the norm is above the limit"
    expect.that(is_changed, reason, hint="change the tensor p.grad itself")


@pytest.mark.harm("trains worse")
def test_rescales_a_long_gradient(student, rng):
    """If the norm exceeds max_l2_norm, every gradient is multiplied by max_l2_norm / (norm + ε)."""
    hint = "every gradient is multiplied by max / (norm + ε), with one norm of all of them"
    for size in SIZES:
        for share, relative_eps in [(0.9, 0.5), (0.01, 2.0), (0.3, None)]:
            gradients = random_gradients(rng, size=size)
            norm = norm_of(gradients)
            eps = None if relative_eps is None else relative_eps * size
            got = clip(student, gradients, share * norm, eps=eps)["gradients"]
            factor = share * norm / (norm + (1e-6 if eps is None else eps))
            expected = [(g.double() * factor).float() for g in gradients]
            check_gradients(got, expected, rtol=tolerance(gradients), hint=hint)


@pytest.mark.harm("trains worse")
def test_leaves_a_short_gradient(student, rng):
    """If the norm is not above max_l2_norm, the gradients stay as they are."""
    hint = "only a norm above max_l2_norm changes a gradient"
    for size in (0.3, 1.0):
        gradients = random_gradients(rng, size=size)
        check_shorter(clip(student, gradients, 0.1 * size)["gradients"], gradients)
        for limit in (10 * norm_of(gradients), math.inf):
            got = clip(student, gradients, limit)["gradients"]
            check_gradients(got, gradients, rtol=tolerance(gradients), hint=hint)


@pytest.mark.harm("trains worse")
def test_takes_a_generator(student, rng):
    """The parameters may come from any iterable, such as the generator model.parameters()."""
    gradients = random_gradients(rng)
    plain = clip(student, gradients, 0.5)
    check_shorter(plain["gradients"], gradients)
    rtol, hint = tolerance(gradients), "a generator is used up after one loop: go through it once"
    for kind in ("model.parameters()", "a generator", "a tuple"):
        got = clip(student, gradients, 0.5, passed_as=kind)
        check_gradients(got["gradients"], plain["gradients"], rtol=rtol, hint=hint)
        check_same_norm(got, plain, rtol=rtol, hint=hint)


# Stays: the test of half precision sees a wrong norm, too, but is worth next to nothing.
@pytest.mark.harm("wrong number")
def test_returns_the_norm_of_all_gradients(student, rng):
    """The norm is the root of the sum of the squares of all entries of all gradients."""
    hint = "one norm of all entries together: √(Σ g²)"
    for size in SIZES:
        for shapes in (SHAPES, [(40, 50)], [(2, 3)] * 150):
            gradients = random_gradients(rng, shapes=shapes, size=size)
            got = clip(student, gradients, math.inf)["returned"]
            check_norm(got, norm_of(gradients), rtol=tolerance(gradients), hint=hint)


@pytest.mark.harm("wrong number")
def test_returns_the_norm_before_clipping(student, rng):
    """The function returns the norm from before any rescaling."""
    hint = "compute the norm before you rescale anything"
    gradients = random_gradients(rng)
    before = norm_in(clip(student, gradients, 1e3)["returned"])
    for limit in (0.4, 1e-3):
        got = clip(student, gradients, limit)
        check_shorter(got["gradients"], gradients)
        check_norm(got["returned"], before, rtol=tolerance(gradients), hint=hint)


@pytest.mark.harm("crash")
def test_works_in_place(student, rng):
    """Each p.grad is changed where it is, in any memory layout; parameters stay as they are."""
    gradients = random_gradients(rng)
    plain = clip(student, gradients, 0.5)
    check_shorter(plain["gradients"], gradients)
    for views in (False, True):
        got = clip(student, gradients, 0.5, views=views)
        for view, want in zip(got["views"], plain["gradients"], strict=True):
            name, hint = "a view of p.grad, made before the call", "p.grad.mul_ works in place"
            expect.tensor(view, want, rtol=tolerance(gradients), name=name, hint=hint)
        for p, g in zip(got["parameters"], gradients, strict=True):
            hint = "clipping changes only gradients, never a parameter"
            expect.tensor(p, g / 3, name="a parameter", hint=hint)


@pytest.mark.harm("crash")
def test_skips_parameters_without_a_gradient(student, rng):
    """Parameters whose gradient is None, at any position, are skipped and stay without one."""
    gradients = random_gradients(rng)
    plain = clip(student, gradients, 0.5)
    check_shorter(plain["gradients"], gradients)
    got = clip(student, [None, gradients[0], None, *gradients[1:], None], 0.5)
    hint = "where p.grad is None, continue with the next parameter"
    expected = [None, plain["gradients"][0], None, *plain["gradients"][1:], None]
    check_gradients(got["gradients"], expected, rtol=tolerance(gradients), hint=hint)
    check_same_norm(got, plain, rtol=tolerance(gradients), hint=hint)


# Stays: what ends in an error without any gradient costs more than a number in place of a tensor.
@pytest.mark.harm("crash")
def test_no_gradient_at_all(student, rng):
    """If no parameter has a gradient, or all gradients are zeros, the norm is 0."""
    some = clip(student, random_gradients(rng), 1e3)["returned"]
    expect.that(norm_in(some) > 0, "the norm of gradients is not positive")
    for gradients, passed_as in [
        ([None, None], "a list"),
        ([None], "model.parameters()"),
        ([torch.zeros(2), torch.zeros(3)], "a list"),
    ]:
        got = clip(student, gradients, 1.0, passed_as=passed_as)
        hint = "without any gradient the norm is 0"
        check_norm(got["returned"], 0.0, rtol=0.0, hint=hint)
        check_gradients(got["gradients"], gradients, rtol=0.0, hint=hint)


@pytest.mark.harm("rare")
def test_the_norm_is_a_tensor(student):
    """The norm is returned as a 0-dimensional tensor of a float dtype."""
    hint = "not a Python number and not a tensor with a dimension"
    for gradients in ([-torch.ones(3)], [torch.zeros(3)], [None]):
        returned = clip(student, gradients, 1e3)["returned"]
        expect.kind(returned, torch.Tensor, name="the norm", hint=hint)
        dimensions, dtype = returned.dim(), expect.dtype_name(returned.dtype)
        expect.that(dimensions == 0, f"the norm has {dimensions} dimensions", hint=hint)
        expect.that(returned.is_floating_point(), f"the norm is of dtype {dtype}", hint=hint)
        positive = gradients[0] is not None and bool(gradients[0].any())
        expect.that((float(returned) > 0) == positive, "the norm is wrong")


@pytest.mark.harm("rare")
def test_half_precision(student, rng):
    """The norm is right in float16, where squares overflow, and in bfloat16, where sums stop."""
    hint = "in float16 the square of 256 is infinite, and that of 1e-4 is 0"
    for size in (400.0, 1e-4):
        gradients = random_gradients(rng, size=size, dtype=torch.float16)
        norm, rtol = norm_of(gradients), tolerance(gradients)
        check_norm(clip(student, gradients, 2e4)["returned"], norm, rtol=rtol, hint=hint)
        got = clip(student, gradients, 0.5 * norm)["gradients"]
        expected = [(g.double() * (0.5 * norm / (norm + 1e-6))).half() for g in gradients]
        check_gradients(got, expected, rtol=2 * rtol, hint=hint)
    mixed = [*random_gradients(rng), *random_gradients(rng, dtype=torch.bfloat16)]
    norm, rtol = norm_of(mixed), tolerance(mixed)
    expected = [(g.double() * (0.5 * norm / (norm + 1e-6))).to(g.dtype) for g in mixed]
    got = clip(student, mixed, 0.5 * norm)["gradients"]
    check_gradients(got, expected, rtol=2 * rtol, hint="one norm of all gradients, in any dtypes")
    # The first square is 256, and bfloat16 has no odd numbers above that.
    many = [torch.full((1,), x, dtype=torch.bfloat16) for x in (16.0, *[0.9] * 100)]
    hint = "add up in float32 or wider: a sum in bfloat16 stops growing"
    check_norm(clip(student, many, 1e3)["returned"], norm_of(many), rtol=0.05, hint=hint)
