"""Hooks store a number per saved tensor; the first unpack calls fn again.

device: cpu
"""


class _Keep(torch.autograd.Function):
    """Saves the inputs, so that an outer checkpoint can drop them."""

    @staticmethod
    def forward(ctx, gate, *inputs):
        ctx.save_for_backward(*inputs)
        return gate.clone()

    @staticmethod
    def backward(ctx, grad):
        raise AssertionError("nothing depends on the result")


class _Call:
    def __init__(self, fn, inputs):
        self.fn, self.saved, self.count = fn, None, 0
        self.kept = _Keep.apply(torch.zeros((), requires_grad=True), *inputs).grad_fn
        self.needs = [x.requires_grad for x in inputs]
        self.rng = torch.get_rng_state()
        self.autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def pack(self, x):
        self.count += 1
        return self.count - 1

    def unpack(self, number):
        if self.saved is None:
            inputs = self.kept.saved_tensors
            self.saved = []
            enabled, dtype = self.autocast
            before = torch.get_rng_state()
            torch.set_rng_state(self.rng)
            hooks = torch.autograd.graph.saved_tensors_hooks(
                lambda x: self.saved.append(x.detach()), lambda x: x
            )
            with torch.enable_grad(), torch.autocast("cpu", dtype=dtype, enabled=enabled), hooks:
                self.fn(*(x.detach().requires_grad_(g) for x, g in zip(inputs, self.needs)))
            torch.set_rng_state(before)
        return self.saved[number]


def checkpoint(fn, *inputs):
    call = _Call(fn, inputs)
    with torch.autograd.graph.saved_tensors_hooks(call.pack, call.unpack):
        return fn(*inputs)


class CheckpointedSequential(nn.Sequential):
    def __init__(self, layers, segments):
        if segments > len(layers):
            raise ValueError(f"segments={segments} for {len(layers)} layers")
        super().__init__(*layers)
        self.segments = segments

    def forward(self, x):
        size, longer = divmod(len(self), self.segments)
        start = 0
        for i in range(self.segments):
            end = start + size + (i < longer)
            x = checkpoint(lambda x, part=slice(start, end): self.run(x, part), x)
            start = end
        return x

    def run(self, x, part):
        for layer in list(self)[part]:
            x = layer(x)
        return x
