"""The second call is made again for each input.

hint: one backward pass gives all gradients
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

        def again():
            with torch.random.fork_rng([]), torch.enable_grad(), torch.autocast(*ctx.autocast):
                torch.set_rng_state(ctx.rng)
                return ctx.fn(*inputs)

        for x in inputs:
            if x.requires_grad:
                (x.gradient,) = torch.autograd.grad(again(), x, grad_output, allow_unused=True)
        output = again()
        if output.requires_grad:
            torch.autograd.backward(output, grad_output)
        return None, None, *(x.gradient if x.requires_grad else None for x in inputs)
