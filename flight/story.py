"""What a problem that turns green says of Wren: a function for each, with its sentence.

A function is named like its problem. It calls the student's own code, in the process of the tests,
and `python -m assignment` prints the sentence if the answer is the number in brackets. The inputs
are small or have no memory. No operator runs on the meta device, whose first one takes torch
seconds. The handout derives most of the numbers.
"""

import io
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flight.model import SIZES
from flight.prediction import BF16
from kit import gpu_stand_in

SIZE = SIZES["wren"]
D, FF, LAYERS, CONTEXT = SIZE.d_model, SIZE.d_ff, SIZE.num_layers, SIZE.context_length
PARAMETERS, TOKENS = 1_273_495_552, 25_469_911_040


def told(problem: str, of: Any) -> str:
    """The sentence for a problem, or "" if the student's package gives another number."""
    call = globals()[problem]
    sentence = " ".join(call.__doc__.split())
    return sentence.replace("[", "").replace("]", "") if f"[{call(of)}]" in sentence else ""


def tensor_memory(of: Any) -> str:
    """Wren's weights take [5.09] GB in float32: they fit."""
    return f"{of.tensor_memory.tensor_bytes(torch.empty(PARAMETERS, device='meta')) / 1e9:.2f}"


def storage_views(of: Any) -> str:
    """A text of a million tokens has [998,977] windows for Wren to read, and none is a copy."""
    return f"{len(of.tensor_memory.sliding_windows(torch.zeros(10**6), CONTEXT, 1)):,}"


def precision(of: Any) -> str:
    """In bfloat16, the next number after 1 is [0.78] % away. Wren's updates are smaller, so its
    weights stay in float32.
    """
    return f"{100 * of.precision.float_spec(BF16).eps:.2f}"


def einops(of: Any) -> str:
    """Wren's 2,048 features are 16 heads now, of [128] features each."""
    return str(of.einops_reshaping.split_heads(torch.zeros(1, 2, D), 16).shape[-1])


def flop_formulas(of: Any) -> str:
    """To read one sequence of 1,024 tokens, Wren takes [2.81] · 10¹² FLOPs."""
    flops = of.flop_counting.transformer_forward_flops(SIZE, 1, CONTEXT)
    return f"{sum(flops.values()) / 1e12:.2f}"


def flop_counter(of: Any) -> str:
    """Your counter saw one of Wren's products pass by: [33.6] million FLOPs for a token."""
    with of.flop_counting.FlopCounter() as counter:
        torch.zeros(1, D) @ torch.zeros(D, FF)
    return f"{counter.total / 1e6:.1f}"


def roofline(of: Any) -> str:
    """From [361] tokens on, Wren's feed-forward product keeps an H100 busy; with fewer, it waits
    for the memory.
    """
    module = of.resource_accounting
    return str(module.min_rows(D, FF, module.H100_SXM, BF16))


def napkin_math(of: Any) -> str:
    """On 8 H100, Wren's training takes [17.1] hours: about 410 dollars."""
    module = of.resource_accounting
    return f"{24 * module.training_days(PARAMETERS, TOKENS, module.H100_SXM, BF16, 8, 0.4):.1f}"


def autograd(of: Any) -> str:
    """The gradient of one of Wren's feed-forward matrices takes [67.1] MB, as the matrix does."""
    x, weight, grad_output = torch.zeros(1, D), torch.zeros(FF, D), torch.zeros(1, FF)
    return f"{of.autograd.linear_backward(x, weight, grad_output)[1].numel() * 4 / 1e6:.1f}"


def linear(of: Any) -> str:
    """Matrix by matrix, Wren has [1,273,495,552] parameters."""
    shapes = [*[(D, D)] * 4, (D, FF), (FF, D)] * LAYERS
    matrices = [nn.Linear(*shape, bias=False, device="meta") for shape in shapes]
    embedding = nn.Embedding(SIZE.vocab_size, D, device="meta")
    return f"{of.linear.count_parameters(nn.ModuleList([embedding, *matrices])):,}"


def optimizers(of: Any) -> str:
    """AdamW keeps [10.2] GB of state for Wren, twice as much as the weights take."""
    adamw = torch.optim.AdamW([_with_gradient(torch.ones(1000))])
    adamw.step()
    return f"{of.optimizers.optimizer_state_bytes(adamw) / 1000 * PARAMETERS / 1e9:.1f}"


def adamw(of: Any) -> str:
    """At Wren's full rate, AdamW moves a weight by about [0.0002], however steep the slope is."""
    weight = _with_gradient(torch.tensor([123.0]))
    of.optimizers.AdamW([weight], lr=2e-4, weight_decay=0.0).step()
    return f"{-weight.item():.4f}"


def gradient_clipping(of: Any) -> str:
    """A bad batch gave a gradient of length 50. Wren follows one of length [1.00]."""
    gradient = torch.full((100,), 5.0)
    of.optimizers.clip_gradient_norm([_with_gradient(gradient)], 1.0)
    return f"{gradient.norm():.2f}"


def lr_schedule(of: Any) -> str:
    """Halfway down its cosine, at step 24,647, Wren learns at a rate of [0.00011]."""
    return f"{of.optimizers.lr_cosine_schedule(24_647, 2e-4, 2e-5, 715, 48_580):.5f}"


def get_batch(of: Any) -> str:
    """Wren's first micro-batch is here: [8,192] tokens, and the one that follows each of them."""
    return f"{of.data.get_batch(np.zeros(9_999, dtype=np.uint16), 8, CONTEXT, 'cpu')[0].numel():,}"


def checkpoint(of: Any) -> str:
    """A machine has failed, and Wren goes on at step [30,000]."""
    model, file = nn.Linear(2, 2), io.BytesIO()
    adamw = torch.optim.AdamW(model.parameters())
    of.checkpointing.save_checkpoint(model, adamw, 30_000, file)
    file.seek(0)
    return f"{of.checkpointing.load_checkpoint(file, model, adamw):,}"


def training_loop(of: Any) -> str:
    """Wren's first loss is [10.37], that of a guess among 32,000 tokens. Now it learns."""
    model = nn.Embedding(9, SIZE.vocab_size)
    nn.init.zeros_(model.weight)
    config = of.training.TrainConfig(1, 1, 4, 2e-4, 2e-5, 0)
    text = np.arange(9, dtype=np.uint16)
    result = of.training.train(model, torch.optim.SGD(model.parameters()), text, config)
    return f"{result.losses[0]:.2f}"


def activation_checkpointing(of: Any) -> str:
    """With a checkpoint at each layer, Wren keeps [0.20] GB for a sequence instead of 1.81."""
    module, x = of.activation_checkpointing, torch.zeros(1, D, requires_grad=True)
    model = module.CheckpointedSequential([nn.Tanh() for _ in range(LAYERS)], LAYERS)
    return f"{module.saved_activation_bytes(lambda: model(x)) * CONTEXT / 1e9:.2f}"


def gpu_memory(of: Any) -> str:
    """The residual stream of Wren's micro-batch adds [67.1] MB to the peak."""
    with gpu_stand_in.gpu():
        peak = of.gpu.peak_memory(lambda: torch.empty(8 * CONTEXT, D, device="cuda"))
    return f"{peak.peak_above_before / 1e6:.1f}"


def gpu_timing(of: Any) -> str:
    """Your clock can time Wren's GELU now: no H100 takes less than [0.72] ms for it."""
    with gpu_stand_in.gpu(kernel_seconds=[0.00072] * 3) as gpu:
        return f"{1e3 * of.gpu.time_kernel(gpu.kernel, warmup=1, repeats=2):.2f}"


def gpu_prefetch(of: Any) -> str:
    """Each of Wren's GPUs got the [65,536] tokens of a step while it computed."""
    batches = [(torch.zeros(8, CONTEXT), torch.zeros(8, CONTEXT))] * 8
    with gpu_stand_in.gpu():
        return f"{sum(x.numel() for x, _ in of.gpu.Prefetcher(iter(batches), 'cuda')):,}"


def gpu_mixed_precision(of: Any) -> str:
    """One of Wren's steps takes a weight from 1 to [0.9998], which bfloat16 would round to 1."""
    model, x = nn.Linear(1, 1, bias=False), torch.ones(1, 1)
    nn.init.ones_(model.weight)
    sgd = torch.optim.SGD(model.parameters(), lr=2e-4)
    of.gpu.autocast_train_step(model, sgd, lambda output, _: output.mean(), x, x)
    return f"{model.weight.item():.4f}"


def _with_gradient(gradient: Tensor) -> nn.Parameter:
    """A parameter of zeros."""
    weight = nn.Parameter(torch.zeros_like(gradient))
    weight.grad = gradient
    return weight
