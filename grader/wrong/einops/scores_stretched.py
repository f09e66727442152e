"""einsum stretches a last dimension of size 1.

hint: einsum compares sizes, except with 1
"""


def attention_scores(q, k):
    return einsum(q, k, "... q d, ... k d -> ... q k") / math.sqrt(q.shape[-1])
