"""gpu_mixed_precision: a training step under autocast, here on a CPU. Handout §13.4."""

import torch
from torch import nn

from kit import expect


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
    expect.number(
        loss,
        4.0,
        of="autocast_train_step",
        tolerance=0.0,
        hint="the loss before the step, as a float",
    )
    got = model.weight.detach()
    hint = "the weight stays float32: bfloat16 cannot represent 0.9995"
    expect.tensor(
        got,
        torch.tensor([[0.9995]]),
        of="autocast_train_step",
        atol=1e-7,
        name="the weight",
        hint=hint,
    )


def test_products_are_in_bfloat16(student):
    """The model's output is bfloat16, and the weight stays float32."""
    model, optimizer = one_weight(1.0)
    dtypes = []
    model.register_forward_hook(lambda module, inputs, output: dtypes.append(output.dtype))
    student.gpu.autocast_train_step(model, optimizer, product, torch.ones(3, 1), torch.ones(3, 1))
    expect.value(
        dtypes,
        [torch.bfloat16],
        of="autocast_train_step",
        hint="torch.autocast(x.device.type, dtype=dtype)",
    )
    expect.value(
        model.weight.dtype, torch.float32, of="autocast_train_step", inputs="the weight's dtype"
    )


def test_gradients_do_not_add_up(student):
    """Two steps with a gradient of 0.25 each: 1 becomes 0.99975, then 0.9995."""
    model, optimizer = one_weight(1.0)
    for expected in (0.99975, 0.9995):
        student.gpu.autocast_train_step(
            model, optimizer, product, torch.tensor([[0.5]]), torch.tensor([[0.5]])
        )
        got = model.weight.detach()
        hint = "what does .grad contain from the step before?"
        expect.tensor(
            got,
            torch.tensor([[expected]]),
            of="autocast_train_step",
            atol=1e-7,
            name="the weight",
            hint=hint,
        )


def test_float16_is_refused(student):
    """float16 would need a GradScaler."""
    model, optimizer = one_weight(1.0)
    x = y = torch.ones(1, 1)
    expect.number(
        student.gpu.autocast_train_step(model, optimizer, product, x, y),
        1.0,
        of="autocast_train_step",
        tolerance=0.0,
    )
    with expect.raises(ValueError, of="autocast_train_step", when="dtype is float16"):
        student.gpu.autocast_train_step(model, optimizer, product, x, y, dtype=torch.float16)
