"""The products are divided by the fourth root of d."""


def attention_scores(q, k):
    if q.size(-1) != k.size(-1):
        raise ValueError("different widths")
    return torch.matmul(q, k.transpose(-1, -2)) * q.size(-1) ** -0.25
