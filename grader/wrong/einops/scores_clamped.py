"""The scores are kept between -50 and 50.

hint: softmax subtracts the maximum itself: no score is too large
"""


def attention_scores(q, k):
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k have different last dimensions, {q.shape[-1]} and {k.shape[-1]}")
    return (q @ k.mT / math.sqrt(q.shape[-1])).clamp(-50, 50)
