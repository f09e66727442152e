"""gpu_mixed_precision: a training step under autocast, here on a CPU. Handout §13.4."""

import torch
from torch import nn

from kit import expect

STEP = "autocast_train_step"


def one_weight(value):
    """A model that multiplies one number by one weight, and plain gradient descent."""
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(value)
    return model, torch.optim.SGD(model.parameters(), lr=0.001)


def product(output, y):
    """A loss whose gradient with respect to the output is y."""
    return (output.float() * y).mean()


def test_the_example(student):
    """A weight of 1 with a gradient of 4, clipped to 0.5: the weight becomes 0.9995."""
    model, optimizer = one_weight(1.0)
    x, y = torch.tensor([[2.0]]), torch.tensor([[2.0]])
    loss = student.gpu.autocast_train_step(model, optimizer, product, x, y, max_norm=0.5)
    expect.number(loss, 4.0, of=STEP, tolerance=0.0, hint="the loss before the step, as a float")
    got = model.weight.detach()
    hint = "the weight stays float32: bfloat16 cannot represent 0.9995"
    expect.tensor(got, torch.tensor([[0.9995]]), of=STEP, atol=1e-7, name="the weight", hint=hint)


def test_products_are_in_bfloat16(student):
    """The model's output is bfloat16, and the weight stays float32."""
    model, optimizer = one_weight(1.0)
    dtypes = []
    model.register_forward_hook(lambda module, inputs, output: dtypes.append(output.dtype))
    student.gpu.autocast_train_step(model, optimizer, product, torch.ones(3, 1), torch.ones(3, 1))
    hint = "torch.autocast(x.device.type, dtype=dtype)"
    expect.value(dtypes, [torch.bfloat16], of=STEP, hint=hint)
    expect.value(model.weight.dtype, torch.float32, of=STEP, inputs="the weight's dtype")
    expect.value(model.training, True, of=STEP, name="training after the step")


def test_gradients_do_not_add_up(student):
    """Two steps with a gradient of 0.25 each: 1 becomes 0.99975, then 0.9995."""
    (model, optimizer), half = one_weight(1.0), torch.tensor([[0.5]])
    for expected in (0.99975, 0.9995):
        student.gpu.autocast_train_step(model, optimizer, product, half, half)
        got = model.weight.detach()
        hint = "what does .grad contain from the step before?"
        name = "the weight"
        expect.tensor(got, torch.tensor([[expected]]), of=STEP, atol=1e-7, name=name, hint=hint)


def test_float16_is_refused(student):
    """float16 would need a GradScaler."""
    model, optimizer = one_weight(1.0)
    x, y = torch.ones(1, 1), torch.ones(1, 1)
    loss = student.gpu.autocast_train_step(model, optimizer, product, x, y)
    expect.number(loss, 1.0, of=STEP, tolerance=0.0)
    for dtype in (torch.float16, torch.float64):
        with expect.raises(ValueError, of="autocast_train_step", when=f"dtype is {dtype}"):
            student.gpu.autocast_train_step(model, optimizer, product, x, y, dtype=dtype)


def two_weights(optimizer=torch.optim.SGD, **options):
    """Two weights of 1 whose product with x is the output, each a group of its own."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    for p in model.parameters():
        nn.init.ones_(p)
    groups = [{"params": list(part.parameters())} for part in model]
    return model, optimizer(groups, **{"lr": 0.5, **options})


def weights_of(model):
    """Both weights."""
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_all_gradients_are_clipped_together(student):
    """Two gradients of 4 have the norm 4√2; clipped to √2 they are 1: 1 − 0.5 · 1 = 0.5.

    With max_norm 6 they stay as they are: 1 − 0.5 · 4 = −1.
    """
    for limit, want in ((2**0.5, 0.5), (6.0, -1.0)):
        model, optimizer = two_weights()
        x, y = torch.tensor([[2.0]]), torch.tensor([[2.0]])
        student.gpu.autocast_train_step(model, optimizer, product, x, y, max_norm=limit)
        got, inputs = weights_of(model), f"two gradients of 4, max_norm {limit:.4g}"
        alone = 1 - 2**0.5 / 2
        hints = {alone: "both gradients share one norm and one factor"} if limit < 2 else {}
        hints |= {-1.0: "clip between the backward pass and the step"} if limit < 2 else {}
        more = {"atol": 1e-5, "inputs": inputs, "hints": hints}
        expect.tensor(got, torch.full((2,), want), of=STEP, **more)


def test_gradients_of_zero(student):
    """A loss that does not depend on the weights moves nothing, and no weight becomes NaN."""
    model, optimizer = two_weights()
    x, y = torch.ones(1, 1), torch.zeros(1, 1)
    student.gpu.autocast_train_step(model, optimizer, product, x, y)
    name = "the weights after gradients of 0"
    expect.tensor(weights_of(model), torch.ones(2), of=STEP, name=name)


class Watching(nn.Linear):
    """A layer that notes the dtype of its input, its mode, and autocast in the backward pass."""

    def __init__(self):
        super().__init__(1, 1, bias=False)
        nn.init.ones_(self.weight)
        self.frozen = nn.Parameter(torch.ones(1), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(1))
        self.seen = []

    def forward(self, x):
        self.seen.append((x.dtype, self.training, torch.is_autocast_enabled("cpu")))
        y = super().forward(x)
        y.register_hook(lambda _: self.seen.append(torch.is_autocast_enabled("cpu")))
        return y


def test_only_the_forward_pass_is_under_autocast(student):
    """x stays float32, eval mode stays, and the backward pass runs without autocast.

    With dtype float32, nothing runs under autocast. Old gradients have no effect: AdamW leaves a
    weight alone that has no gradient.
    """
    of = "autocast_train_step"
    for dtype in (torch.bfloat16, torch.float32):
        model = Watching().eval()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        x, y = torch.ones(1, 1), torch.ones(1, 1)
        student.gpu.autocast_train_step(model, optimizer, product, x, y, dtype=dtype)
        is_on = dtype is torch.bfloat16
        want = [(torch.float32, False, is_on), False]
        name = (
            "x.dtype, training and autocast in the forward pass, and autocast in the backward pass"
        )
        expect.value(model.seen, want, of=of, name=name, inputs=f"dtype {dtype}")
        expect.value(model.training, False, of=of, name="training after the step")
        on = torch.is_autocast_enabled("cpu")
        expect.value(on, False, of=of, name="autocast after the step")
        for name, p in (("an unused", model.unused), ("a frozen", model.frozen)):
            name = f"{name} weight with an old gradient"
            expect.tensor(p.detach(), torch.ones(1), of=of, name=name)
