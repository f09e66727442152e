"""Uses einsum, setup_context and tensor hooks, and adds gradients to .grad by hand."""

from einops import einsum, rearrange


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    grad_weight = einsum(
        rearrange(grad_output, "... o -> (...) o"),
        rearrange(x, "... i -> (...) i"),
        "n o, n i -> o i",
    )
    if not need_input_grad:
        return None, grad_weight
    return einsum(grad_output, weight, "... o, o i -> ... i"), grad_weight


def mlp_backward(x, w1, w2, grad_output):
    z = torch.einsum("bi,hi->bh", x, w1)
    slope = (z > 0).to(z.dtype)
    grad_z = torch.einsum("bo,oh,bh->bh", grad_output, w2, slope)
    return torch.einsum("bh,bi->hi", grad_z, x), torch.einsum("bo,bh->oh", grad_output, z * slope)


class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(a, b):
        return torch.einsum("...mk,...kn->...mn", a, b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(False)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        if grad_output is None:
            return None, None
        a, b = ctx.saved_tensors
        grad_a = grad_b = None
        if ctx.needs_input_grad[0]:
            grad_a = MatMul._reduced(torch.einsum("...mn,...kn->...mk", grad_output, b), a.shape)
        if ctx.needs_input_grad[1]:
            grad_b = MatMul._reduced(torch.einsum("...mk,...mn->...kn", a, grad_output), b.shape)
        return grad_a, grad_b

    @staticmethod
    def _reduced(gradient, shape):
        missing = gradient.dim() - len(shape)
        padded = (1,) * missing + tuple(shape)
        dims = [d for d, size in enumerate(padded) if size == 1 and gradient.shape[d] != 1]
        if dims:
            gradient = gradient.sum(dim=dims, keepdim=True)
        return gradient.reshape(shape)


def numerical_gradient(f, inputs, eps=1e-6):
    """Step along unit vectors that have the input's shape."""
    points = [x.detach() for x in inputs]

    def along(k, direction):
        moved = points[k] + eps * direction, points[k] - eps * direction
        above, below = (f(*points[:k], p, *points[k + 1 :]) for p in moved)
        return (above - below) / (2 * eps)

    gradients = []
    for k, x in enumerate(points):
        units = (
            torch.eye(x.numel(), dtype=x.dtype).reshape(x.numel(), *x.shape) if x.numel() else []
        )
        slopes = [along(k, unit).to(x.dtype) for unit in units]
        gradients.append(torch.stack(slopes).reshape(x.shape) if slopes else torch.zeros_like(x))
    return tuple(gradients)


def intermediate_gradients(module, x, names):
    """Catch the gradients with hooks on the outputs; a copy of x requires a gradient."""
    table, caught = dict(module.named_modules()), {}
    if missing := [name for name in names if name not in table]:
        raise ValueError(f"{missing} are no submodules")
    with ExitStack() as listening:
        for name in names:

            def hook(_module, _args, output, name=name):
                output.register_hook(lambda g: caught.__setitem__(name, g.clone()))

            listening.callback(table[name].register_forward_hook(hook).remove)
        x = x.detach().requires_grad_()
        leaves = [p for p in module.parameters() if p.requires_grad]
        torch.autograd.grad(module(x).sum(), [*leaves, x], allow_unused=True)
    return {name: caught[name] for name in names}


def accumulate_gradients(model, loss_fn, x, y, micro_batch_size):
    parameters = [p for p in model.parameters() if p.requires_grad]
    mean = 0.0
    for rows in torch.arange(len(x)).split(micro_batch_size):
        share = len(rows) / len(x)
        loss = loss_fn(model(x[rows]), y[rows])
        mean += share * float(loss.detach())
        for p, gradient in zip(
            parameters, torch.autograd.grad(loss, parameters, allow_unused=True)
        ):
            if gradient is not None:
                p.grad = share * gradient if p.grad is None else p.grad + share * gradient
    return mean
