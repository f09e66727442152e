"""The forward of each named submodule is replaced, and stays so.

hint: a forward hook needs no change of the module
"""


def intermediate_gradients(module, x, names):
    outputs = {}

    def keep(name):
        def hook(module, args, output):
            outputs[name] = output if output.requires_grad else output.detach().requires_grad_()
            return outputs[name].clone()

        return hook

    with ExitStack() as hooks, torch.enable_grad():
        for name in names:
            submodule = module.get_submodule(name)
            submodule.forward = lambda x, hook=keep(name), old=submodule.forward: hook(None, x, old(x))
        total = module(x).sum()
    gradients = torch.autograd.grad(total, [outputs[name] for name in names], materialize_grads=True)
    return dict(zip(names, gradients))
