"""Gradients of the inputs are asked for alone, so fn's parameters get none.

hint: fn uses parameters that are not among its inputs
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
            wanted = [x for x in inputs if x.requires_grad]
            for x, g in zip(wanted, torch.autograd.grad(output, wanted, grad_output) if wanted else []):
                x.grad = g
        return None, None, *(x.grad for x in inputs)
