"""Computes with float32 tensors and returns a Python float."""


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < 0 or warmup_iters < 0 or warmup_iters > cosine_cycle_iters:
        raise ValueError("0 <= it and 0 <= warmup_iters <= cosine_cycle_iters do not all hold")
    largest, smallest = torch.tensor([max_learning_rate, min_learning_rate])
    if it < warmup_iters:
        rate = largest * it / warmup_iters
    elif it < cosine_cycle_iters:
        angle = torch.tensor(it - warmup_iters) / (cosine_cycle_iters - warmup_iters) * torch.pi
        rate = smallest + (largest - smallest) * (1 + torch.cos(angle)) / 2
    else:
        rate = smallest
    return rate.item()
