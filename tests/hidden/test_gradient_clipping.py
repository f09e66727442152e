"""gradient_clipping: the norm that is returned, and the gradients afterwards.

Accepted on purpose: a norm of any float dtype, computed in the gradients' own dtype, in float32 or
in float64, over all entries at once or from each gradient's norm; the factor as a number or a
tensor; a factor clamped at 1, as in torch's own function; foreach operations; work on p.grad.data;
a norm that still requires grad. A norm that is a Python number, or a tensor of one element with
some dimensions, counts as its value and fails only the test about the type. Not tested, because the
course does not specify it: a parameter that is listed twice, gradients that are NaN or infinite or
whose squares overflow, sparse gradients, a limit of 0.

Parameters are passed as a generator, because model.parameters() is one. The norm and the factor are
judged against float64, for gradients from 1e-8 to 1e4. Everything else (None, dtypes, tensors that
must stay the same) is judged against the student's own function on the same gradients in the plain
case, so a mistake in the norm costs only the norm's points.
"""

import math

import pytest
import torch

from tests import expect
from tests.probes import optimizers as probes

OF = "clip_gradient_norm"
SHAPES = [(3,), (2, 4), (), (0,), (5, 1, 2)]
SIZES = (1e-8, 1e-4, 1.0, 1e4)


def random_gradients(rng, *, shapes=SHAPES, size=1.0, dtype=torch.float32):
    """Draw entries with absolute values of 0.5 to 1.5 times a size and random signs."""
    signs = [torch.randint(0, 2, shape, generator=rng) * 2 - 1 for shape in shapes]
    return [((torch.rand(s.shape, generator=rng) + 0.5) * s * size).to(dtype) for s in signs]


def norm_of(gradients):
    """The norm of all entries together, in float64."""
    return math.sqrt(
        math.fsum(x * x for g in gradients if g is not None for x in g.double().flatten().tolist())
    )


def tolerance(gradients):
    """The largest relative rounding error of the norm, and of a clipped entry.

    In the worst case every step rounds in the gradients' dtype: squaring, adding up the gradients'
    sums one by one, the root, ε, the factor and the product. Only the sum within one gradient is
    kept in float32 or wider by torch. The root halves the relative error so far. For n gradients of
    m entries, this is less than n + 8 roundings in their dtype and m roundings in float32.
    """
    own = max(torch.finfo(g.dtype).eps for g in gradients if g is not None)
    entries = sum(g.numel() for g in gradients if g is not None)
    return (len(gradients) + 8) * own + entries * torch.finfo(torch.float32).eps


def clip(student, gradients, max_l2_norm, *, eps=None, **how):
    options = {} if eps is None else {"eps": eps}
    return student.run(
        probes.clipped, gradients=gradients, max_l2_norm=max_l2_norm, options=options, **how
    )


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


def check_norm(returned, expected, *, rtol, hint):
    """Check that the returned value is near the norm."""
    norm = norm_in(returned, hint=hint)
    expect.number(norm, expected, of=OF, tolerance=rtol * expected, name="the norm", hint=hint)


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
    """Check that each gradient above the limit changed.

    Code that leaves all gradients alone must not earn points for the details of clipping.
    """
    for gradient, old in zip(got, before, strict=True):
        expect.kind(gradient, torch.Tensor, of=OF, name="a gradient")
        changed = gradient.shape == old.shape and (not old.numel() or bool((gradient != old).any()))
        hint = (
            "change the tensor p.grad itself; model.parameters() is a generator, so you can "
            "go through it only once"
        )
        expect.that(
            changed,
            "a gradient did not change although the norm is above the limit",
            of=OF,
            hint=hint,
        )


@pytest.mark.core
@pytest.mark.points(11)
def test_rescales_a_long_gradient(student, rng):
    """If the norm exceeds max_l2_norm, every gradient is multiplied by max_l2_norm / (norm + ε)."""
    for size in SIZES:
        for share, relative_eps in [(0.9, 0.0), (0.3, 0.5), (0.01, 2.0)]:
            gradients = random_gradients(rng, size=size)
            norm = norm_of(gradients)
            limit, eps = share * norm, relative_eps * size
            got = clip(student, gradients, limit, eps=eps)
            expected = [(g.double() * limit / (norm + eps)).float() for g in gradients]
            hint = "every gradient is multiplied by max_l2_norm / (norm + ε)"
            check_gradients(got["gradients"], expected, rtol=tolerance(gradients), hint=hint)


@pytest.mark.core
@pytest.mark.points(5)
def test_leaves_a_short_gradient(student, rng):
    """If the norm is below max_l2_norm, the gradients stay exactly as they are."""
    for size in SIZES:
        gradients = random_gradients(rng, size=size)
        norm = norm_of(gradients)
        check_shorter(clip(student, gradients, 0.1 * norm)["gradients"], gradients)
        for factor in (10.0, 1000.0):
            # With an ε this small, a factor that is clamped at 1 is exactly 1.
            got = clip(student, gradients, factor * norm, eps=1e-6 * norm)
            check_gradients(
                got["gradients"], gradients, hint="only a norm above max_l2_norm changes a gradient"
            )


@pytest.mark.core
@pytest.mark.points(6)
def test_returns_the_norm_of_all_gradients(student, rng):
    """The norm is the root of the sum of the squares of all entries of all gradients."""
    for size in SIZES:
        for shapes in (SHAPES, [(7,)], [(2, 3), (4,)]):
            gradients = random_gradients(rng, shapes=shapes, size=size)
            got = clip(student, gradients, 1e3 * norm_of(gradients))
            hint = "one norm of all entries together: √(Σ g²)"
            check_norm(got["returned"], norm_of(gradients), rtol=tolerance(gradients), hint=hint)


@pytest.mark.points(2)
def test_returns_the_norm_before_clipping(student, rng):
    """The function returns the norm from before any rescaling."""
    gradients = random_gradients(rng)
    before = norm_in(clip(student, gradients, 1e3)["returned"])
    got = clip(student, gradients, 0.5)
    check_shorter(got["gradients"], gradients)
    hint = "compute the norm before you rescale anything"
    check_norm(got["returned"], before, rtol=tolerance(gradients), hint=hint)


@pytest.mark.points(2)
def test_works_in_place(student, rng):
    """Each p.grad stays the same tensor, in any memory layout, and the parameters do not change."""
    gradients = random_gradients(rng)
    plain = clip(student, gradients, 0.5)["gradients"]
    check_shorter(plain, gradients)
    hint = "p.grad.mul_(...) changes the tensor in place"
    for transposed in (False, True):
        got = clip(student, gradients, 0.5, transposed=transposed)
        for gradient, want in zip(got["held"], plain, strict=True):
            name = "the tensor that p.grad was before the call"
            expect.tensor(gradient, want, of=OF, rtol=tolerance(gradients), name=name, hint=hint)
        expect.that(
            all(got["are_the_same"]), "p.grad is a different tensor than before", of=OF, hint=hint
        )
        for p, g in zip(got["parameters"], gradients, strict=True):
            expect.tensor(
                p,
                g / 3,
                of=OF,
                name="a parameter",
                hint="clipping changes only gradients, never a parameter",
            )


@pytest.mark.points(2)
def test_skips_parameters_without_a_gradient(student, rng):
    """Parameters whose gradient is None, at any position, are skipped and stay without one."""
    gradients = random_gradients(rng)
    plain = clip(student, gradients, 0.5)
    check_shorter(plain["gradients"], gradients)
    with_none = [None, gradients[0], None, *gradients[1:], None]
    got = clip(student, with_none, 0.5)
    hint = "where p.grad is None, continue with the next parameter"
    expected = [None, plain["gradients"][0], None, *plain["gradients"][1:], None]
    check_gradients(got["gradients"], expected, rtol=tolerance(gradients), hint=hint)
    same = all(got["are_the_same"][i] for i in (0, 2, -1))
    expect.that(same, "a parameter without a gradient has one after the call", of=OF, hint=hint)


def test_no_gradient_at_all(student, rng):
    """If no parameter has a gradient, the norm is 0."""
    some = norm_in(clip(student, random_gradients(rng), 1e3)["returned"])
    expect.that(some > 0, "the norm of gradients is not positive", of=OF)
    got = clip(student, [], 1.0)
    check_norm(
        got["returned"], 0.0, rtol=0.0, hint="without any gradient the norm is 0, as a tensor"
    )


def test_the_norm_is_a_tensor(student, rng):
    """The norm is returned as a 0-dimensional tensor."""
    gradients = random_gradients(rng)
    seen = []
    for factor in (1.0, 4.0):
        returned = clip(student, [factor * g for g in gradients], 1e3)["returned"]
        hint = "not a Python number and not a tensor with a dimension"
        expect.kind(returned, torch.Tensor, of=OF, name="the norm", hint=hint)
        expect.that(
            returned.dim() == 0, f"the norm has {returned.dim()} dimensions", of=OF, hint=hint
        )
        seen.append(norm_in(returned))
    expect.that(seen[0] < seen[1], "gradients four times as long do not have a larger norm", of=OF)


def test_default_eps(student, rng):
    """The default eps is 1e-6, which matters when the norm is about that small."""
    gradients = random_gradients(rng, size=1e-6)
    named = clip(student, gradients, 1e-14, eps=1e-6)["gradients"]
    check_shorter(named, gradients)
    got = clip(student, gradients, 1e-14)["gradients"]
    check_gradients(
        got, named, rtol=tolerance(gradients), hint="does the default match the signature?"
    )
