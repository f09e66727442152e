"""An output that the result does not depend on makes autograd raise.

hint: zeros of its shape: materialize_grads
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
            hooks.enter_context(module.get_submodule(name).register_forward_hook(keep(name)))
        total = module(x).sum()
    gradients = torch.autograd.grad(total, [outputs[name] for name in names])
    return dict(zip(names, gradients))
