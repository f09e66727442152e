"""Parameters are looked for in fn.parameters(), which a plain function does not have.

hint: fn may be a lambda that takes its parameters from around it
"""


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, count, *args):
        ctx.fn, ctx.count, ctx.rng = fn, count, torch.get_rng_state()
        ctx.autocast = "cpu", torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")
        ctx.save_for_backward(*args)
        return fn(*args[:count])

    @staticmethod
    def backward(ctx, grad_output):
        args = ctx.saved_tensors
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in args[: ctx.count]]
        with torch.random.fork_rng([]), torch.enable_grad(), torch.autocast(*ctx.autocast):
            torch.set_rng_state(ctx.rng)
            output = ctx.fn(*inputs)
        tensors = [*inputs, *args[ctx.count :]]
        wanted = [x for x in tensors if x.requires_grad]
        found = iter(torch.autograd.grad(output, wanted, grad_output, allow_unused=True))
        return None, None, *(next(found) if x.requires_grad else None for x in tensors)


def checkpoint(fn, *inputs):
    parameters = list(fn.parameters()) if isinstance(fn, nn.Module) else []
    return _Recompute.apply(fn, len(inputs), *inputs, *parameters)
