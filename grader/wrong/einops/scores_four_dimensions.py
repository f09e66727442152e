"""Exactly batch and heads are taken as leading dimensions.

hint: `...` stands for any number of leading dimensions
"""


def attention_scores(q, k):
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k have different last dimensions, {q.shape[-1]} and {k.shape[-1]}")
    return torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
