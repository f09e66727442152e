"""The queries are scaled in place.

hint: q /= … changes the caller's tensor; q / … does not
"""


def attention_scores(q, k):
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k have different last dimensions, {q.shape[-1]} and {k.shape[-1]}")
    q /= math.sqrt(q.shape[-1])
    return q @ k.mT
