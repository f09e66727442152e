"""Hooks that were registered before a wrong name is met stay.

hint: registering can fail as well: it belongs inside try
"""


def intermediate_gradients(module, x, names):
    outputs = {}

    def keep(name):
        def hook(module, args, output):
            outputs[name] = output if output.requires_grad else output.detach().requires_grad_()
            return outputs[name].clone()

        return hook

    handles = []
    for name in names:
        handles.append(module.get_submodule(name).register_forward_hook(keep(name)))
    try:
        with torch.enable_grad():
            total = module(x).sum()
    finally:
        for handle in handles:
            handle.remove()
    gradients = torch.autograd.grad(total, [outputs[name] for name in names], materialize_grads=True)
    return dict(zip(names, gradients))
