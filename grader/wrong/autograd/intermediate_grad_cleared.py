"""The gradients that backward() leaves are cleared, and those that were there before with them.

hint: torch.autograd.grad returns gradients without leaving them anywhere
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
    for output in outputs.values():
        output.retain_grad()
    total.backward()
    module.zero_grad()
    if x.is_leaf and x.requires_grad:
        x.grad = None
    return {n: torch.zeros_like(outputs[n]) if outputs[n].grad is None else outputs[n].grad for n in names}
