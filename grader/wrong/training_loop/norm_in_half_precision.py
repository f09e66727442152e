"""The norm is computed in half precision, in which squares of small gradients are 0.

hint: float16 ends at 65,504, and below 6e-8 it is 0
"""


def _clip(optimizer, max_norm):
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = torch.cat([g.flatten().half() for g in gradients]).square().sum().sqrt().float()
    for gradient in gradients if max_norm is not None and norm > max_norm else []:
        gradient.mul_(max_norm / norm)
    return norm.item()
