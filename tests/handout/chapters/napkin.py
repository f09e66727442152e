"""The napkin page's recipes; tests/handout/test_quizzes.py checks its problems."""

import torch

from grader.solutions.reference import flop_counting as fc
from grader.solutions.reference import resource_accounting as ra
from handout.site import micro_batch, quizzes, wren
from tests.handout.page_figures import Figures, n


class Chapter(Figures):
    def beginning(self) -> None:
        llama, ring = quizzes.LLAMA, quizzes.ring
        cache = micro_batch.cache_bytes(llama, 1, torch.bfloat16)
        forward, both = fc.linear_flops(1, 1, 1), fc.linear_flops(1, 1, 1, backward=True)
        self.gives(bf16_bytes=torch.bfloat16.itemsize)
        self.gives(adamw_bytes=ra.bytes_per_parameter(wren.RECIPE))
        self.gives(cache_bytes=cache // (llama.num_layers * llama.kv_width))
        self.gives(six=f"{n(fc.training_flops(1, 1))}ND")
        self.gives(eight=f"{n(fc.training_flops(1, 1, recompute_forward=True))}ND")
        self.gives(mfu_low=0.3)  # between the runs that chapter 4 lists
        self.gives(mfu_high=0.45, logit_bytes=micro_batch.LOGIT, backward_rule=both - forward)
        self.gives(section_devices=13.5)
        self.formula(
            "ring",
            "2(n − 1)/n",
            [ring(1, torch.int8, devices) == 2 * (devices - 1) / devices for devices in (2, 8, 64)],
        )
