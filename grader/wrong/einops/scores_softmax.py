"""The softmax over the keys is taken as well.

hint: scores are what softmax is applied to
"""


def attention_scores(q, k):
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k have different last dimensions, {q.shape[-1]} and {k.shape[-1]}")
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1)
