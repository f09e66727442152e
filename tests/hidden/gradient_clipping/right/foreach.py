"""Uses torch._foreach operations, as torch's own function does."""


@torch.no_grad()
def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    if max_l2_norm < 0:
        raise ValueError("max_l2_norm is negative")
    grads = []
    for p in parameters:
        if p.grad is None:
            continue
        grads.append(p.grad)
    if len(grads) == 0:
        return torch.tensor(0.0)
    norms = torch._foreach_norm(grads, 2.0)
    total = torch.linalg.vector_norm(torch.stack(norms))
    if bool(total > max_l2_norm):
        # The quotient of the two need not fit into float16.
        torch._foreach_div_(grads, float(total) + eps)
        torch._foreach_mul_(grads, float(max_l2_norm))
    return total
