# Right solutions of gradient_clipping in other styles; see grader/solutions/fragments.py.

# [foreach] Uses torch._foreach operations, as torch's own function does.
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


# [in_the_gradients_dtype] Computes each norm in its gradient's dtype; at or below the limit, the
# factor is 1.
def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    if max_l2_norm < 0:
        raise ValueError("negative max_l2_norm")
    gradients = [p.grad.detach() for p in parameters if p.grad is not None]
    norm = sum((g.norm().double() ** 2 for g in gradients), start=torch.zeros(())).sqrt()
    factor = torch.where(norm > max_l2_norm, max_l2_norm / (norm + eps), torch.ones_like(norm))
    if factor != 1:
        for g in gradients:
            g *= factor
    return norm


# [one_long_vector] Joins all gradients into one float64 vector, scales it and copies its parts
# back.
import math

import torch


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    owners = [p for p in parameters if p.grad is not None]
    rows = [p.grad.detach().reshape(-1).to(torch.float64) for p in owners]
    vector = torch.cat([torch.zeros(1, dtype=torch.float64), *rows])
    norm = math.sqrt(torch.dot(vector, vector))
    if norm > max_l2_norm:
        vector = vector * max_l2_norm / (norm + eps)
        parts = vector[1:].split([p.grad.numel() for p in owners])
        for p, part in zip(owners, parts):
            p.grad.detach().copy_(part.view(p.grad.shape))
    return torch.scalar_tensor(norm, dtype=torch.float32)
