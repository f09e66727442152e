"""Every gradient is that of the last submodule that ran.

hint: a closure sees the variable, not the value that it had
"""


def intermediate_gradients(module, x, names):
    outputs = {}

    def keep(name):
        def hook(module, args, output):
            outputs["last"] = output if output.requires_grad else output.detach().requires_grad_()
            return outputs["last"].clone()

        return hook

    with ExitStack() as hooks, torch.enable_grad():
        for name in names:
            hooks.enter_context(module.get_submodule(name).register_forward_hook(keep(name)))
        total = module(x).sum()
    gradients = torch.autograd.grad(
        total,
        [outputs["last"] if name in dict(module.named_modules()) else outputs[name] for name in names],
        materialize_grads=True,
    )
    return dict(zip(names, gradients))
