# Right solutions of lr_schedule in other styles; see grader/solutions/fragments.py.

# [a_number_of_numpy] Returns every rate as np.float64, which is a subclass of float.
import numpy as np


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < warmup_iters:
        return np.float64(max_learning_rate) * it / warmup_iters
    if it >= cosine_cycle_iters:
        return np.float64(min_learning_rate)
    progress = np.float64(it - warmup_iters) / (cosine_cycle_iters - warmup_iters)
    share = (1 + np.cos(np.pi * progress)) / 2
    return min_learning_rate + (max_learning_rate - min_learning_rate) * share


# [in_float32] Computes with float32 tensors and returns a Python float.
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


# [progress_cut_off] Clamps the progress to at most 1, and always applies the cosine, as cos².
def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    length = cosine_cycle_iters - warmup_iters
    if min(it, warmup_iters, length) < 0:
        raise ValueError(f"{it=}, {warmup_iters=} or {cosine_cycle_iters=} is wrong")
    if it < warmup_iters:
        return it * max_learning_rate / warmup_iters
    x = min(1.0, (it - warmup_iters) / length) if length else 1.0
    weight = math.cos(math.pi * x / 2) ** 2
    return weight * max_learning_rate + (1 - weight) * min_learning_rate
