# Right solutions of autograd in other styles; see grader/solutions/fragments.py.

# [einsum] Uses einsum, setup_context and tensor hooks, and adds gradients to .grad by hand.
from einops import einsum, rearrange


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    rows = rearrange(grad_output, "... o -> (...) o"), rearrange(x, "... i -> (...) i")
    grad_weight = einsum(*rows, "n o, n i -> o i")
    if not need_input_grad:
        return None, grad_weight
    return einsum(grad_output, weight, "... o, o i -> ... i"), grad_weight


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
        units = torch.eye(x.numel(), dtype=x.dtype).reshape(x.numel(), *x.shape)
        slopes = [along(k, unit).to(x.dtype) for unit in units]
        gradients.append(torch.stack(slopes).reshape(x.shape))
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
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        for p, gradient in zip(parameters, gradients):
            if gradient is not None:
                p.grad = share * gradient if p.grad is None else p.grad + share * gradient
    return mean


# [loops] Loops over vectors, batches and elements, and indexes them by hand.
import itertools


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    rows_x = x.reshape(-1, x.shape[-1])
    rows_g = grad_output.reshape(-1, grad_output.shape[-1])
    grad_weight = torch.zeros_like(weight)
    for row, upstream in zip(rows_x, rows_g):
        grad_weight = grad_weight + torch.outer(upstream, row)
    if not need_input_grad:
        return None, grad_weight
    return (rows_g @ weight).reshape(x.shape), grad_weight


class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.matmul(a, b)

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        batch = grad_output.shape[:-2]
        needs = zip((a, b), ctx.needs_input_grad)
        gradients = [torch.zeros_like(x) if need else None for x, need in needs]
        views = [None if g is None else g.expand(*batch, *g.shape[-2:]) for g in gradients]
        wide_a, wide_b = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
        for index in itertools.product(*map(range, batch)):
            if views[0] is not None:
                views[0][index] += grad_output[index] @ wide_b[index].T
            if views[1] is not None:
                views[1][index] += wide_a[index].T @ grad_output[index]
        return tuple(gradients)


def numerical_gradient(f, inputs, eps=1e-6):
    """Change the inputs themselves, and put the old numbers back."""
    result = []
    for x in inputs:
        gradient = torch.empty_like(x, requires_grad=False)
        for index in itertools.product(*map(range, x.shape)):
            saved = x.data[index].clone()
            try:
                with torch.no_grad():
                    x.data[index] = saved + eps
                    above = float(f(*inputs))
                    x.data[index] = saved - eps
                    below = float(f(*inputs))
            finally:
                x.data[index] = saved
            gradient[index] = (above - below) / (eps + eps)
        result.append(gradient)
    return tuple(result)


def intermediate_gradients(module, x, names):
    """Run one forward and one backward pass per name."""
    known = dict(module.named_modules())
    answer = {}
    for name in names:
        seen = []

        def hook(_module, _args, output):
            seen.append(output.detach().requires_grad_())
            return seen[0] * 1

        handle = known[name].register_forward_hook(hook)
        try:
            total = module(x).sum()
        finally:
            handle.remove()
        (answer[name],) = torch.autograd.grad(total, seen)
    return answer


# [sums_left_to_autograd] MatMul leaves broadcast sums to autograd.
class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        grad_a = (grad_output @ b.mT) if ctx.needs_input_grad[0] else None
        grad_b = (a.mT @ grad_output) if ctx.needs_input_grad[1] else None
        return grad_a, grad_b
