"""gradient_clipping: the norm that comes back, and what the gradients are afterwards.

Accepted on purpose: a norm of any float dtype, computed in the gradients' own, in float32 or in float64, for all entries
at once or from each gradient's norm; the factor as a number or a tensor; foreach operations; work on p.grad.data; a norm
on which autograd is on. Not asked, because the course does not say: a parameter that is listed twice, gradients that are
NaN or infinite or whose squares overflow, sparse ones.

The norm and the factor are judged against float64. Whatever else holds (None, generators, dtypes) is judged by what the
student's own function does with the same gradients in the plain case, so that a mistake in the norm costs the norm.
"""

import math

import pytest
import torch

from tests import expect
from tests.probes import optimizers as probes

OF = "clip_gradient_norm"
SHAPES = [(3,), (2, 4), (), (0,), (5, 1, 2)]


def random_gradients(rng, *, shapes=SHAPES, dtype=torch.float32):
    """Entries between 0.5 and 1.5, or the negatives of that: never all equal, and never of one sign for long."""
    signs = [torch.randint(0, 2, shape, generator=rng) * 2 - 1 for shape in shapes]
    return [((torch.rand(s.shape, generator=rng) + 0.5) * s).to(dtype) for s in signs]


def norm_of(gradients):
    """The norm of all entries together, in float64."""
    return math.sqrt(math.fsum(x * x for g in gradients if g is not None for x in g.double().flatten().tolist()))


def tolerance(gradients):
    """How far rounding may take the norm, relative to itself, and a clipped entry, relative to itself.

    At worst everything happens in the gradients' dtype: squares, the sum of each gradient's, which torch keeps in float32
    at least, the sum over gradients one by one, and the root, which halves what came before; then ε, the factor and the
    product. For n gradients of m entries that is less than n + 8 roundings, and m of float32.
    """
    own = max(torch.finfo(g.dtype).eps for g in gradients if g is not None)
    entries = sum(g.numel() for g in gradients if g is not None)
    return (len(gradients) + 8) * own + entries * torch.finfo(torch.float32).eps


def clip(student, gradients, max_l2_norm, *, eps=None, **how):
    options = {} if eps is None else {"eps": eps}
    return student.run(probes.clipped, gradients=gradients, max_l2_norm=max_l2_norm, options=options, **how)


def check_norm(returned, expected, *, rtol, hint):
    """What came back is a tensor without dimensions, of a float dtype and near the norm."""
    expect.that(returned is not None, "returned None: is a `return` missing?", of=OF, hint=hint)
    if isinstance(returned, torch.Tensor) and returned.is_floating_point():
        returned = returned.double()
    want = torch.tensor(expected, dtype=torch.float64)
    expect.tensor(returned, want, of=OF, rtol=rtol, name="the norm", hint=hint)


def check_gradients(got, expected, *, rtol=0.0, hint):
    for gradient, want in zip(got, expected, strict=True):
        if want is None:
            expect.that(gradient is None, "a gradient that was None is not any more", of=OF, hint=hint)
        else:
            expect.tensor(gradient, want, of=OF, rtol=rtol, name="a gradient", hint=hint)


@pytest.mark.points(3)
def test_returns_the_norm_of_all_gradients(student, rng):
    """The norm is the root of the sum of the squares of every entry of every gradient, of whatever shape."""
    for shapes in (SHAPES, [(7,)], [(2, 3), (4,)]):
        gradients = random_gradients(rng, shapes=shapes)
        got = clip(student, gradients, 1e3)
        hint = "one norm of all entries together: √(Σ g²)"
        check_norm(got["returned"], norm_of(gradients), rtol=tolerance(gradients), hint=hint)


def test_returns_the_norm_before_clipping(student, rng):
    """Where gradients are rescaled as well, what comes back is the norm that they had before."""
    gradients = random_gradients(rng)
    untouched = clip(student, gradients, 1e3)["returned"]
    got = clip(student, gradients, 0.5)["returned"]
    expect.that(isinstance(untouched, torch.Tensor), "no tensor came back", of=OF)
    hint = "is the norm computed before anything is rescaled, and returned as it was?"
    expect.tensor(got, untouched, of=OF, rtol=tolerance(gradients), name="the norm", hint=hint)


@pytest.mark.points(3)
def test_rescales_a_long_gradient(student, rng):
    """Above max_l2_norm every gradient is multiplied by max_l2_norm / (norm + ε), all by the same number."""
    for share, eps in [(0.9, 0.0), (0.3, 0.5), (0.01, 2.0)]:
        gradients = random_gradients(rng)
        norm = norm_of(gradients)
        limit = share * norm
        got = clip(student, gradients, limit, eps=eps)
        expected = [(g.double() * limit / (norm + eps)).float() for g in gradients]
        hint = "one factor for all of them; ε is added to the norm"
        check_gradients(got["gradients"], expected, rtol=tolerance(gradients), hint=hint)


@pytest.mark.points(2)
def test_leaves_a_short_gradient(student, rng):
    """Up to a norm of max_l2_norm, itself included, no bit of a gradient changes, however large ε is."""
    gradients = random_gradients(rng)
    norm = norm_of(gradients)
    hint = "rescale only where the norm is above the limit"
    for factor, eps in [(100.0, None), (1.1, 0.5 * norm), (2.0, None)]:
        got = clip(student, gradients, factor * norm, eps=eps)
        check_gradients(got["gradients"], gradients, hint=hint)
    exact = [torch.tensor([3.0, -4.0]), torch.tensor([[-12.0]])]  # of the norm 13, without any rounding
    got = clip(student, exact, 13.0)
    check_gradients(got["gradients"], exact, hint=hint)
    got = clip(student, exact, 12.5, eps=0.0)
    expect.that(bool((got["gradients"][0] != exact[0]).all()), "a gradient above the limit stays as it was", of=OF, hint=hint)


def test_default_eps(student, rng):
    """Without eps it is 1e-6, which shows where the norm is about as small."""
    gradients = [g * 1e-6 for g in random_gradients(rng, dtype=torch.float64)]
    named = clip(student, gradients, 1e-6, eps=1e-6)["gradients"]
    got = clip(student, gradients, 1e-6)["gradients"]
    expect.that(bool((named[0] != gradients[0]).all()), "a gradient above the limit stays as it was", of=OF)
    check_gradients(got, named, rtol=tolerance(gradients), hint="is the default that of the signature?")


def test_works_in_place(student, rng):
    """Each gradient stays the same tensor, with its values changed, in any layout; parameters stay as they are."""
    gradients = random_gradients(rng)
    plain = clip(student, gradients, 0.5)["gradients"]
    hint = "p.grad.mul_(...) changes the tensor that p.grad is"
    for transposed in (False, True):
        got = clip(student, gradients, 0.5, transposed=transposed)
        for gradient, before, want in zip(got["held"], gradients, plain, strict=True):
            moved = not before.numel() or bool((gradient != before).any())
            expect.that(moved, "the tensor that was p.grad has its old values", of=OF, hint=hint)
            expect.tensor(gradient, want, of=OF, rtol=tolerance(gradients), name="a gradient", hint=hint)
        expect.that(all(got["are_the_same"]), "p.grad is another tensor than before", of=OF, hint=hint)
        for p, g in zip(got["parameters"], gradients, strict=True):
            expect.tensor(p, g / 3, of=OF, name="a parameter", hint="only gradients change")


def test_takes_a_generator(student, rng):
    """Parameters that can be gone through only once are as good as a list."""
    gradients = random_gradients(rng)
    gradients[1] = None
    plain = clip(student, gradients, 0.5)
    got = clip(student, gradients, 0.5, as_generator=True)
    expect.that(isinstance(plain["returned"], torch.Tensor), "no tensor came back", of=OF)
    hint = "a generator is used up once it has been gone through"
    expect.tensor(got["returned"], plain["returned"], of=OF, name="the norm", hint=hint)
    moved = bool((got["gradients"][0] != gradients[0]).any())
    expect.that(moved, "the gradients of a generator's parameters are not rescaled", of=OF, hint=hint)
    check_gradients(got["gradients"], plain["gradients"], hint=hint)


def test_skips_parameters_without_a_gradient(student, rng):
    """Parameters whose gradient is None have no part in it, wherever they stand, and stay without one."""
    gradients = random_gradients(rng)
    plain = clip(student, gradients, 0.5)
    with_none = [None, gradients[0], None, *gradients[1:], None]
    got = clip(student, with_none, 0.5)
    hint = "go on with the next parameter where p.grad is None"
    expect.that(isinstance(plain["returned"], torch.Tensor), "no tensor came back", of=OF)
    expect.tensor(got["returned"], plain["returned"], of=OF, rtol=tolerance(gradients), name="the norm", hint=hint)
    expected = [None, plain["gradients"][0], None, *plain["gradients"][1:], None]
    check_gradients(got["gradients"], expected, rtol=tolerance(gradients), hint=hint)
    expect.that(all(got["are_the_same"][i] for i in (0, 2, -1)), "a gradient that was None is not any more", of=OF, hint=hint)


def test_of_no_gradient_at_all(student):
    """Without a gradient, or without a parameter, the norm is a 0 without dimensions, in a list or a generator."""
    for gradients in ([None, None], []):
        for as_generator in (False, True):
            got = clip(student, gradients, 1.0, as_generator=as_generator)
            hint = "what is stacked or summed may be an empty list; the answer is a tensor all the same"
            check_norm(got["returned"], 0.0, rtol=0.0, hint=hint)
            check_gradients(got["gradients"], gradients, hint=hint)


def test_a_gradient_of_zeros(student):
    """Zeros have the norm 0 and stay zeros, also where ε is 0."""
    gradients = [torch.zeros(3), torch.zeros(2, 2)]
    for limit, eps in [(1.0, 0.0), (1.0, None), (0.0, 0.0)]:
        got = clip(student, gradients, limit, eps=eps)
        check_norm(got["returned"], 0.0, rtol=0.0, hint="the root of 0 is 0")
        check_gradients(got["gradients"], gradients, hint="is something divided by 0?")


def test_a_limit_of_zero(student, rng):
    """A max_l2_norm of 0 is a right one: it makes every gradient 0."""
    gradients = random_gradients(rng)
    got = clip(student, gradients, 0.0)
    expected = [torch.zeros_like(g) for g in gradients]
    check_gradients(got["gradients"], expected, hint="0 is not negative, and every norm is above it")


def test_gradients_of_every_dtype(student, rng):
    """Gradients of float64 and bfloat16, and of several dtypes together, keep theirs; float64 keeps its precision."""
    shapes = [(3,), (2, 4), (300,)]
    wide = random_gradients(rng, shapes=shapes, dtype=torch.bfloat16)
    dtypes = [[torch.float64] * 3, [torch.bfloat16] * 3, [torch.float32, torch.bfloat16, torch.float64]]
    for kinds in dtypes:
        gradients = [g.to(dtype) for g, dtype in zip(wide, kinds, strict=True)]
        got = clip(student, gradients, 0.5, eps=0.0)
        plain = clip(student, [g.float() for g in wide], 0.5, eps=0.0)["gradients"]
        expected = [g.to(dtype) for g, dtype in zip(plain, kinds, strict=True)]
        hint = "does the factor or the norm assume one dtype?"
        check_gradients(got["gradients"], expected, rtol=tolerance([*gradients, *plain]), hint=hint)
        expect.that(isinstance(got["returned"], torch.Tensor), "no tensor came back", of=OF)
    gradients = random_gradients(rng, dtype=torch.float64)
    got = clip(student, gradients, 0.5)["gradients"]
    factor = got[0][0] / gradients[0][0]
    # The factor is good to half an eps for either entry, and each product and quotient is rounded once.
    hint = "are float64 gradients turned into float32 on the way?"
    check_gradients(got, [g * factor for g in gradients], rtol=4 * torch.finfo(torch.float64).eps, hint=hint)


def test_refuses_a_negative_limit(student, rng):
    """A negative max_l2_norm is a ValueError that names it."""
    gradients = random_gradients(rng)
    clip(student, gradients, 1.0)
    for limit in (-1.0, -1e-9):
        with expect.raises(ValueError, of=OF, when="max_l2_norm is negative", naming="max_l2_norm"):
            clip(student, gradients, limit)
