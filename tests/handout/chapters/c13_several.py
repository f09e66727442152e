"""Chapter 13: gradients that are summed over devices, and decoding."""

import math
import re
from fractions import Fraction

from grader.solutions.reference import flop_counting as fc
from grader.solutions.reference import resource_accounting as ra
from handout.site import micro_batch, quizzes, wren
from tests.handout.chapters.c13_gpu import BF16, BUCKETS, FP32, H100, PEAK
from tests.handout.page_figures import Figures, n

MFU = wren.MFU
# NVIDIA's H100 data sheet: 900 GB/s over NVLink, half of them in each direction.
NVLINK = 450e9
# A network card such as NVIDIA's ConnectX-7, of which a DGX H100 has one per GPU for computing.
CARD_GBIT = 400
CARD = CARD_GBIT * 1e9 / 8


class Chapter(Figures):
    def all_reduce(self) -> None:
        devices, size = wren.DEVICES, FP32.itemsize
        sent = quizzes.ring(1, FP32, devices)
        ring = r"2 \cdot \frac{n - 1}{n} \cdot \text{bytes of the gradients}"
        self.formula("ring_formula", ring, sent == 2 * (devices - 1) / devices * size)
        tokens = wren.MICRO_BATCH * wren.WREN.context_length
        speed = MFU * PEAK
        backward = 2 * fc.training_flops(wren.PARAMETERS, tokens) / 3 / speed
        for link in (NVLINK, CARD):
            seconds = sent * wren.PARAMETERS / link
            rest = max(0.0, seconds - backward)
            longer = rest / wren.STEP_SECONDS
            self.gives(link_row=(link, seconds * 1e3, rest * 1e3, longer * 100))
        needed = {link: sent / 4 * speed / link for link in (NVLINK, CARD)}
        left = sent * wren.PARAMETERS / CARD
        right = 2 * fc.training_flops(wren.PARAMETERS, 1) / 3 * needed[CARD] / speed
        self.formula(
            "hidden_formula",
            r"2 \cdot \frac{n - 1}{n} \cdot \frac{4N}{\text{bandwidth}} "
            r"&\le \frac{4NT}{\text{MFU} \cdot \text{peak FLOP/s}} \\ \Leftrightarrow \quad "
            r"T &\ge 2 \cdot \frac{n - 1}{n} \cdot "
            r"\frac{\text{MFU} \cdot \text{peak FLOP/s}}{\text{bandwidth}}",
            [math.isclose(left, right), size == 4],
        )
        buckets = int(re.search(r"a default size of (\d+) MiB", BUCKETS)[1])
        self.gives(card_gbit=CARD_GBIT, bucket_mib=buckets, backward_ms=backward * 1e3)
        self.gives(backward_flops=f"{n(2 * fc.training_flops(1, 1) // 3)}NT")
        self.gives(gradient_bytes=f"{n(size)}N", micro_tokens=tokens, tokens_nvlink=needed[NVLINK])
        self.gives(tokens_card=needed[CARD])

    def sharding(self) -> None:
        weight, gradient, states = BF16.itemsize, BF16.itemsize, 3 * FP32.itemsize
        total = ra.bytes_per_parameter(wren.RECIPE)
        assert weight + gradient + states == total
        devices = wren.DEVICES
        # A reduce-scatter of the gradients and an all-gather of the weights; in the last stage,
        # weights again for the backward pass.
        numbers_sent = (2, 2, 2, 2 + 1)
        self.held = []
        for numbers, kept in zip(numbers_sent, (total, weight + gradient, weight, 0), strict=True):
            split = total - kept
            parts = [n(kept)] * bool(kept) + [f"{n(split)} / n"] * bool(split)
            self.held.append(kept + Fraction(split, devices))
            held = n(float(self.held[-1]), ".10g")
            self.gives(zero_row=f"{' + '.join(parts)} | {held} | {n(numbers)}")
        self.gives(adamw_bytes=total, zero_weight=weight, zero_gradient=gradient)
        self.gives(zero_states=states)
        for stage in (2, 3, 2, 2, 3, 3):  # as the page names them
            self.gives(zero_stage=stage)

    def decoding(self) -> None:
        model, size = wren.WREN, BF16.itemsize
        weights = size * wren.PARAMETERS
        token = 2 * model.num_layers * model.d_model * size
        cache = model.context_length * token
        flops = fc.transformer_forward_flops(model, 1, model.context_length)
        # The last token's scores and values are those of a full sequence divided by its length.
        attention = (flops["attention_scores"] + flops["attention_values"]) // model.context_length
        assert attention == cache  # one FLOP per byte of cache
        per_token = fc.training_flops(wren.PARAMETERS, 1) // 3 + attention
        most = (H100.memory_bytes - weights) // cache
        for sequences in (1, 8, 64, most):
            read = weights + sequences * cache
            tokens_per_second = sequences * H100.memory_bandwidth / read
            self.gives(decode_sequences=sequences)
            self.gives(decode_row=(read / 1e9, sequences * per_token / read, tokens_per_second))
        ridge = ra.accelerator_intensity(H100, BF16)
        assert per_token / cache < ridge
        today, tokens = quizzes.LLAMA_70B, model.context_length
        parts = fc.transformer_forward_flops(today, 1, tokens)
        read = micro_batch.cache_bytes(today, tokens, BF16)
        of_token = (parts["attention_scores"] + parts["attention_values"]) // tokens
        assert of_token / read == today.num_heads / today.kv_heads
        limit = (2 * quizzes.multiplied(today) + of_token) / read
        self.gives(decode_today=n("Llama 3 70B"), decode_limit_today=limit)
        self.gives(decode_weights=weights)
        self.gives(cache_token=(2, model.num_layers, model.d_model, size, token))
        self.gives(cache_gb=cache / 1e9, cache_flops=size * attention // cache)
        self.gives(cache_intensity=attention // cache, decode_limit=per_token / cache)
        self.gives(device_intensity=ridge)

    def exercises(self) -> None:
        memory = H100.memory_bytes
        for held in map(float, self.held):
            self.gives(ex_stage=(memory, held, memory / held))
        self.gives(ex_device_gb=memory / 1e9)
