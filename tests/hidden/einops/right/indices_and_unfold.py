"""Uses unfold for patches, indices for heads, bmm on flat batches, float64, and an eps."""

import torch.nn.functional as F


def split_heads(x, heads):
    if x.shape[-1] % heads:
        raise ValueError(f"heads={heads} for {x.shape[-1]} features")
    columns = torch.arange(x.shape[-1], device=x.device).reshape(heads, 1, -1)
    rows = torch.arange(x.shape[-2], device=x.device).reshape(1, -1, 1)
    return x[..., rows, columns]


def merge_heads(x):
    moved = x.movedim(-3, -2).contiguous()
    return moved.view(moved.shape[:-2] + (moved.shape[-2] * moved.shape[-1],))


def attention_scores(q, k):
    if q.shape[-1] != k.shape[-1]:
        raise ValueError("the last dimensions of q and k differ")
    flat_q, flat_k = q.reshape(-1, *q.shape[-2:]).double(), k.reshape(-1, *k.shape[-2:]).double()
    scores = torch.bmm(flat_q, flat_k.transpose(1, 2)) / torch.sqrt(
        torch.tensor(q.shape[-1], dtype=torch.float64)
    )
    return scores.reshape(*q.shape[:-1], k.shape[-2]).to(q.dtype)


def per_head_linear(x, w):
    heads, d_in, _ = w.shape
    if heads * d_in != x.shape[-1]:
        raise ValueError("x has another number of features than w takes")
    return x.double().to(x.dtype) @ torch.block_diag(*w)


def masked_mean(x, mask):
    if mask.shape != x.shape[:-1]:
        raise ValueError(f"the mask's shape is not {tuple(x.shape[:-1])}")
    wide = x.double()
    total = torch.where(mask.unsqueeze(-1), wide, torch.zeros_like(wide)).sum(dim=-2)
    return (total / mask.double().sum(dim=-1, keepdim=True).clamp(min=1e-8)).to(x.dtype)


def patchify(images, patch):
    b, c, height, width = images.shape
    if height % patch or width % patch:
        raise ValueError(f"patch={patch} for images of {height}×{width}")
    columns = F.unfold(images, patch, stride=patch)  # b, c·p·p, patches
    return (
        columns.reshape(b, c, patch * patch, -1)
        .permute(0, 3, 2, 1)
        .reshape(b, -1, patch * patch * c)
    )
