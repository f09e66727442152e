"""Loops over slices, joins them with stack and cat, and takes means of boolean selections."""


def split_heads(x, heads):
    if x.shape[-1] % heads != 0:
        raise ValueError(f"cannot make {heads} heads of {x.shape[-1]} features")
    return torch.stack(x.chunk(heads, dim=-1), dim=-3)


def merge_heads(x):
    return torch.cat(x.unbind(dim=-3), dim=-1)


def attention_scores(q, k):
    if q.shape[-1] != k.shape[-1]:
        raise ValueError("q and k must have as many features")
    root = math.sqrt(k.shape[-1])
    rows = [(query.unsqueeze(-2) * k).sum(dim=-1) / root for query in q.unbind(dim=-2)]
    return torch.stack(rows, dim=-2)


def per_head_linear(x, w):
    if x.shape[-1] != w.shape[0] * w.shape[1]:
        raise ValueError("x has the wrong number of features for w")
    return torch.cat(
        [part @ matrix for part, matrix in zip(x.split(w.shape[1], dim=-1), w)], dim=-1
    )


def masked_mean(x, mask):
    if x.dim() != mask.dim() + 1:
        raise ValueError("mask must have one dimension less than x")
    if x.dim() > 2:
        if len(x) != len(mask):
            raise ValueError(f"mask has {len(mask)} entries where x has {len(x)}")
        means = [masked_mean(one, keep) for one, keep in zip(x, mask)]
        return torch.stack(means) if means else x.sum(dim=-2)
    kept = x[mask]
    return kept.mean(dim=0) if len(kept) else x.new_zeros(x.shape[-1]) * kept.sum()


def patchify(images, patch):
    height, width = images.shape[2], images.shape[3]
    if height % patch or width % patch:
        raise ValueError(f"a patch of {patch} does not fit into {height} × {width}")
    patches = []
    for top in range(0, height, patch):
        for left in range(0, width, patch):
            piece = images[:, :, top : top + patch, left : left + patch]
            patches.append(piece.movedim(1, -1).reshape(len(images), -1))
    return torch.stack(patches, dim=1)
