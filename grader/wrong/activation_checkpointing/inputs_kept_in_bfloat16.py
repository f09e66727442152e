"""The inputs are kept in bfloat16 to take less memory.

hint: the second call has to compute what the first one computed
price: two mistakes in one: what is computed from rounded inputs is wrong, and copies take memory
"""


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, gate, *inputs):
        ctx.fn, ctx.rng = fn, torch.get_rng_state()
        ctx.autocast = "cpu", torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")
        ctx.dtypes = [x.dtype for x in inputs]
        ctx.save_for_backward(*(x.bfloat16() if x.is_floating_point() else x for x in inputs))
        return fn(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        kept = zip(ctx.saved_tensors, ctx.dtypes, ctx.needs_input_grad[2:])
        inputs = [x.detach().to(dtype).requires_grad_(need) for x, dtype, need in kept]
        with torch.random.fork_rng([]), torch.enable_grad(), torch.autocast(*ctx.autocast):
            torch.set_rng_state(ctx.rng)
            output = ctx.fn(*inputs)
        if output.requires_grad:
            torch.autograd.backward(output, grad_output)
        return None, None, *(x.grad for x in inputs)
