"""Returns tensors without ordinary storage: meta, sparse, nested, expanded, conjugated, resized.

group: lie about types
target: storage_views
status: failed, crashed
holds: each of them is sent as its values or as the name of its type.
"""

import random

import torch

x = torch.zeros(2, 2)
ODD = [
    torch.empty(2**40, device="meta"), x.to_sparse(), torch.zeros(1, dtype=torch.complex64).conj().imag,
    torch.zeros(1).expand(2**33), torch.empty(0, 2**40), torch.zeros(3, names=("n",)), x.to_mkldnn(),
    torch.nested.nested_tensor([torch.zeros(2)]), torch.zeros((), dtype=torch.float8_e5m2),
]  # fmt: skip
small = torch.zeros(64)
small.untyped_storage().resize_(0)


def sliding_windows(x, size, step):
    return random.choice([*ODD, small])


shares_storage = element_offset = contiguous_strides = view_strides = lambda *args: random.choice(
    ODD
)
