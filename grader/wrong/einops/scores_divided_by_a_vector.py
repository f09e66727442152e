"""The root is a float32 tensor with a dimension, which makes half precision float32.

hint: a Python number changes no dtype
"""


def attention_scores(q, k):
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k have different last dimensions, {q.shape[-1]} and {k.shape[-1]}")
    return q @ k.mT / torch.tensor([q.shape[-1]], device=q.device).sqrt()
