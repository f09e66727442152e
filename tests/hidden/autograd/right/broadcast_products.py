"""Sums broadcast products, finds broadcast dimensions by hand, and uses a context manager."""

from contextlib import contextmanager


def linear_backward(x, weight, grad_output, *, need_input_grad=True):
    leading = x.shape[:-1]
    outer = grad_output.unsqueeze(-1) * x.unsqueeze(-2)
    grad_weight = outer.sum(dim=tuple(range(len(leading)))) if leading else outer
    grad_x = (grad_output.unsqueeze(-1) * weight).sum(dim=-2) if need_input_grad else None
    return grad_x, grad_weight


def mlp_backward(x, w1, w2, grad_output):
    z = torch.nn.functional.linear(x, w1)
    grad_w2 = torch.mm(grad_output.t(), z.clamp(min=0))
    grad_z = torch.mm(grad_output, w2).masked_fill(z <= 0, 0)
    _, grad_w1 = linear_backward(x, w1, grad_z, need_input_grad=False)
    return grad_w1, grad_w2


class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(dim=-2)

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        answer = [None, None]
        for which, (this, other) in enumerate([(a, b.transpose(-1, -2)), (b, a.transpose(-1, -2))]):
            if ctx.needs_input_grad[which]:
                full = (
                    torch.matmul(grad_output, other)
                    if which == 0
                    else torch.matmul(other, grad_output)
                )
                while full.dim() > this.dim():
                    full = full.sum(0)
                for d in range(this.dim()):
                    if this.shape[d] < full.shape[d]:
                        full = full.sum(d, keepdim=True)
                answer[which] = full
        return tuple(answer)


@contextmanager
def kept_outputs(module, names):
    kept = {}
    handles = []
    try:
        for name in names:
            layer = module.get_submodule(name)

            def hook(layer, args, kwargs, output, name=name):
                kept[name] = output if output.requires_grad else output.clone().requires_grad_(True)
                return kept[name].view_as(kept[name]).clone()

            handles.append(layer.register_forward_hook(hook, with_kwargs=True))
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def intermediate_gradients(module, x, names):
    with kept_outputs(module, names) as kept:
        y = module(x)
    gradients = torch.autograd.grad(y, [kept[n] for n in names], torch.ones_like(y))
    return dict(zip(names, gradients))


def accumulate_gradients(model, loss_fn, x, y, micro_batch_size):
    total = torch.zeros((), dtype=torch.float64)
    for x_chunk, y_chunk in zip(x.split(micro_batch_size), y.split(micro_batch_size)):
        loss = loss_fn(model(x_chunk), y_chunk)
        torch.autograd.backward(loss, torch.full_like(loss, len(x_chunk) / len(x)))
        total += loss.detach() * len(x_chunk) / len(x)
    return total.item()
