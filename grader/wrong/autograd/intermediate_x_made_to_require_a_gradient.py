"""x is made to require a gradient, and stays so.

hint: x belongs to the caller: x.detach().requires_grad_() is another tensor
"""


def intermediate_gradients(module, x, names):
    outputs = {}
    x.requires_grad_()

    def keep(name):
        def hook(module, args, output):
            outputs[name] = output
            return outputs[name].clone()

        return hook

    with ExitStack() as hooks, torch.enable_grad():
        for name in names:
            hooks.enter_context(module.get_submodule(name).register_forward_hook(keep(name)))
        total = module(x).sum()
    gradients = torch.autograd.grad(total, [outputs[name] for name in names], materialize_grads=True)
    return dict(zip(names, gradients))
