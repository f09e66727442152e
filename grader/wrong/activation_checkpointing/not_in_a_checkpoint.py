"""A module-wide list of what is to be computed again, which a checkpoint inside a checkpoint puts out of order.

hint: keep what belongs to a call with that call
"""

_PENDING = []


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, gate, *inputs):
        if gate.requires_grad:
            _PENDING.append((fn, torch.get_rng_state()))
        ctx.autocast = "cpu", torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")
        ctx.save_for_backward(*inputs)
        return fn(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        fn, rng = _PENDING.pop()
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        with torch.random.fork_rng([]), torch.enable_grad(), torch.autocast(*ctx.autocast):
            torch.set_rng_state(rng)
            output = fn(*inputs)
        if output.requires_grad:
            torch.autograd.backward(output, grad_output)
        return None, None, *(x.grad for x in inputs)
