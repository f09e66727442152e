"""The random state of the CPU is kept for the second call, and not the GPU's.

hint: torch.cuda.get_rng_state(device)
device: cuda
"""


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, gate, *inputs):
        ctx.fn = fn
        ctx.rng = torch.get_rng_state(), {}
        devices = ["cpu"] + ["cuda"] * torch.cuda.is_available()
        ctx.autocast = [(d, torch.get_autocast_dtype(d), torch.is_autocast_enabled(d)) for d in devices]
        ctx.save_for_backward(*inputs)
        return fn(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in ctx.saved_tensors]
        cpu, gpus = ctx.rng
        with torch.random.fork_rng(list(gpus)), torch.enable_grad(), contextlib.ExitStack() as stack:
            torch.set_rng_state(cpu)
            for device, state in gpus.items():
                torch.cuda.set_rng_state(state, device)
            for autocast in ctx.autocast:
                stack.enter_context(torch.autocast(*autocast))
            output = ctx.fn(*inputs)
        if output.requires_grad:  # it does not where inputs and parameters are all frozen
            torch.autograd.backward(output, grad_output)
        return None, None, *(x.grad for x in inputs)
