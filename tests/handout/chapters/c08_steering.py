"""Chapter 8: gradient clipping, and the learning rate schedule."""

import math

import torch

from grader.solutions.reference import optimizers as op
from handout.site import wren
from tests.handout.chapters.c08_optimizers import BETA1, BETA2, GRADIENTS, later_steps, same
from tests.handout.page_figures import Figures, n, session

F64 = torch.float64
OUTLIER, LATER = 100.0, 1000  # a gradient that is far too long, and the steps after it


def noise_step(beta1: float, beta2: float) -> float:
    """The root mean square of AdamW's steps for gradients of pure noise, in units of lr."""
    generator = torch.Generator().manual_seed(0)
    parameter = torch.zeros(4000, requires_grad=True)
    optimizer = op.AdamW([parameter], lr=1.0, betas=(beta1, beta2), weight_decay=0.0)
    before = parameter.detach().clone()
    for _ in range(1000):
        before.copy_(parameter.detach())
        parameter.grad = torch.randn(4000, generator=generator)
        optimizer.step()
    return (parameter.detach() - before).square().mean().sqrt().item()


def best_rate(width: int, seed: int) -> float:
    """The rate with which a small network of this width ends with the lowest loss."""
    final_loss = session("08_steering.md")[1].final_loss
    return min((3e-3, 3e-2, 3e-1), key=lambda lr: float(final_loss(width, lr, seed)))


class Chapter(Figures):
    def clipping(self) -> None:
        values = [[3.0], [0.0, 4.0]]

        def clipped(largest: float, eps: float = 1e-6) -> tuple[list[torch.Tensor], float]:
            parameters = [
                torch.zeros(len(value), dtype=F64, requires_grad=True) for value in values
            ]
            for parameter, value in zip(parameters, values, strict=True):
                parameter.grad = torch.tensor(value, dtype=F64)
            norm = op.clip_gradient_norm(parameters, largest, eps).item()
            return [parameter.grad for parameter in parameters], norm

        whole = [torch.tensor(value, dtype=F64) for value in values]
        lengths = [g.norm().item() for g in whole]
        gradients, norm = clipped(1.0, 5.0)
        holds = math.isclose(norm**2, sum(length**2 for length in lengths))
        self.formula("norm_of_norms", "‖g‖² = ‖g₁‖² + ‖g₂‖² + …", holds)
        self.gives(gradients=whole, first_norm=lengths[0], second_norm=lengths[1])
        self.gives(joint_norm=([length**2 for length in lengths], norm), clip_eps=5)
        self.gives(clip_factor=(1, norm, 5), clipped=gradients)
        eps = 1e-6
        gradients, _ = clipped(1.0)
        off = 1 - gradients[0].item() / (whole[0][0].item() / norm)
        length = torch.cat(gradients).norm().item()
        self.gives(clip_usual_eps=eps, clipped_usual=gradients, clip_off=off * 1e7)
        self.gives(clip_parts=10**7, clipped_norm=length)
        _, norm = clipped(5.0)
        self.gives(whole_norm=norm)
        powers = [2.0**k for k in range(16)]
        half = next(x for x in powers if torch.tensor(x).half().square().isinf())
        stop = next(x for x in powers if torch.tensor(x).bfloat16() + 1 == x)
        self.gives(half_square=half, bfloat_stop=stop)

    def outlier(self) -> None:
        moved = later_steps([OUTLIER, *[1.0] * LATER], before=1.0)
        assert later_steps([1.0], before=1.0) == [1.0]
        halved = later_steps([g / 2 for g in GRADIENTS], before=0.0)
        assert all(same(halved, later_steps(GRADIENTS, before=0.0)))
        self.gives(beta1=f"β₁ = {n(BETA1)}", beta2=f"β₂ = {n(BETA2)}")
        self.gives(outlier=OUTLIER, outlier_step=moved[0], later_step=moved[100], later_count=LATER)
        self.gives(later_sum=sum(moved[1:]))
        # Chowdhery et al. (2022), section 5.1.
        self.gives(palm_spikes=20, palm_back=100, palm_least=200, palm_most=500)

    def schedule(self) -> None:
        most, least, w, c = 1.0, 0.1, 10, 30

        def rate(it: int) -> float:
            return op.lr_cosine_schedule(it, most, least, w, c)

        cosines = [math.cos(math.pi * (it - w) / (c - w)) for it in range(w, c)]
        by_hand = [least + (most - least) * (1 + cosine) / 2 for cosine in cosines]
        holds = same([rate(it) for it in range(w, c)], by_hand)
        self.formula("cosine_formula", "min + (max − min) · (1 + cos(π x)) / 2", holds)
        self.gives(first_rate=rate(0), cosine_bottom=1 + math.cos(math.pi))
        shrunk = {beta: math.sqrt((1 - beta) / (1 + beta)) for beta in (0.7, BETA1)}
        holds = [abs(noise_step(beta, BETA2) / about - 1) < 0.05 for beta, about in shrunk.items()]
        self.formula("noise_formula", "√((1 − β₁) / (1 + β₁))", holds)
        self.gives(noise_step=shrunk[BETA1])
        its = [0, 5, 10, 15, 20, 25, 30, 1000]
        self.gives(max=most, min=least, w=w, c=c, its=its, rates=[rate(it) for it in its])
        it = 15
        x = (it - w) / (c - w)
        cosine = math.cos(math.pi * x)
        self.gives(it=it, x=(it - w, c - w, x))
        self.gives(rate_at_it=(least, most - least, 1, cosine, 2, rate(it)))

    def peaks(self) -> None:
        # Brown et al. (2020), table 2.1; Llama 3: The Llama 3 Herd of Models, table 3.
        gpt3 = {125e6: 6.0e-4, 1.3e9: 2.0e-4, 13e9: 1.0e-4, 175e9: 0.6e-4}
        llama = {8e9: 3.0e-4, 405e9: 0.8e-4}
        for row in (*gpt3.items(), *llama.items()):
            self.gives(peak_row=row)
        (small, high), *_, (large, low) = gpt3.items()
        assert 0.95 < (large / small) ** (1 / 3) / (high / low) < 1.2, "about the cube root"
        # On a power law between the two GPT-3 models whose sizes are nearest.
        below, at, above = 1.3e9, 8e9, 13e9
        share = math.log(at / below) / math.log(above / below)
        self.gives(at_eight=at)
        self.gives(times_gpt3=llama[at] / (gpt3[below] * (gpt3[above] / gpt3[below]) ** share))
        self.gives(more_parameters=large / small, lower_rate=high / low, name_thirteen=13)
        self.gives(name_largest=175, name_eight=8, name_llama=405, llama=3)
        # OPT's notes: "56% through", section "Training Stability".
        self.gives(opt=175, opt_lower=n("2/3"))
        peak, batch, warmup, floor = gpt3[1.3e9], 1e6, 375e6, 0.1
        iterations = round(warmup / wren.STEP_TOKENS)
        lowest = op.lr_cosine_schedule(wren.STEPS, peak, floor * peak, iterations, wren.STEPS)
        assert round(batch / wren.STEP_TOKENS, 1) == 1.9, "twice as many tokens"
        self.gives(wren_peak=peak, xl_batch=batch, wren_lowest=lowest, wren_warmup_tokens=warmup)
        self.gives(wren_floor=100 * floor, wren_warmup=(warmup, wren.STEP_TOKENS, iterations))
        self.gives(wren_warmup_share=100 * iterations / wren.STEPS)

    def exercises(self) -> None:
        gradients = [torch.tensor([0.6], dtype=F64), torch.tensor([0.8], dtype=F64)]
        parameters = [g.clone().requires_grad_() for g in gradients]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.clone()
        joint = op.clip_gradient_norm(parameters, 0.5, eps=0.0)
        a, b = (parameter.grad.item() for parameter in parameters)
        self.gives(ex_norm_a=0.6, ex_norm_b=0.8, ex_max=0.5, ex_joint=float(joint), ex_clipped_a=a)
        self.gives(ex_clipped_b=b)
        # Seed 0 is on the page.
        best = {width: [best_rate(width, seed) for seed in range(1, 5)] for width in (16, 128)}
        assert best[16].count(3e-2) >= 3, best
        assert best[128].count(3e-3) >= 3, best
        self.gives(ex_narrow=16, ex_wide=128, ex_jump=30000)
