"""Chapter 0: the shapes of a layer, and the parameters of published models."""

from dataclasses import replace

import torch

from grader.solutions.reference import flop_counting as fc
from grader.solutions.reference import resource_accounting as ra
from handout.site import micro_batch, wren
from handout.site.calculator_formulas import SLIM
from tests.handout.chapters.c05_resource_accounting import GPT3
from tests.handout.page_figures import Figures, n

PURE = SLIM  # weights in bfloat16
GATED = {"gated_ffn": True}
TIED = {"tied_embeddings": True}


def expert_counts(experts, active, shared):
    """Options of a model: all experts, those chosen for a token, and those of every token."""
    return {"experts": experts, "active_experts": active, "shared_experts": shared}


GROUPED = {**GATED, "kv_heads": 8}
Model = fc.TransformerConfig
# The published sizes, and the published number of parameters.
MODELS = {
    "GPT-2 XL": (Model(50257, 1024, 48, 1600, 25, 6400, **TIED), 1_557_611_200),
    "GPT-3": (GPT3, 174_600_000_000),
    "Llama 2 70B": (Model(32000, 4096, 80, 8192, 64, 28672, **GROUPED), 68_976_648_192),
    "Llama 3 8B": (Model(128256, 8192, 32, 4096, 32, 14336, **GROUPED), 8_030_261_248),
    "Llama 3 70B": (Model(128256, 8192, 80, 8192, 64, 28672, **GROUPED), 70_553_706_496),
    "Gemma 7B": (
        Model(256128, 8192, 28, 3072, 16, 24576, **GATED, **TIED, head_width=256),
        786_825_216 + 7_751_248_896,  # with and without the embedding
    ),
    "Qwen3 32B": (
        Model(151936, 32768, 64, 5120, 64, 25600, **GROUPED, head_width=128),
        32_800_000_000,
    ),
    "Mixtral 8x7B": (
        Model(32000, 32768, 32, 4096, 32, 14336, **GROUPED, experts=8, active_experts=2),
        46_702_792_704,
    ),
    "Qwen1.5 MoE": (
        Model(151936, 8192, 24, 2048, 16, 1408, **GATED, **expert_counts(60, 4, 4)),
        14_300_000_000,
    ),
    "DeepSeek-V3": (
        Model(
            129280, 4096, 61, 7168, 128, 2048, **GATED, head_width=128, **expert_counts(256, 8, 1)
        ),
        671_000_000_000,
    ),
}
DENSE_LAYERS, DENSE_WIDTH = 3, 18432  # of DeepSeek-V3
# Its matrices for attention: queries by way of 1,536 features, keys and values of 512, and 64
# features of each query, and of one key, for positions.
LATENT = [(7168, 1536), (1536, 128 * 192), (7168, 512 + 64), (512, 128 * 256), (128 * 128, 7168)]


def norms(config):
    return (2 * config.num_layers + 1) * config.d_model


def corrected(name):
    """Our count, with the two corrections of DeepSeek-V3."""
    config, _ = MODELS[name]
    size = ra.transformer_parameters(config)
    if name != "DeepSeek-V3":
        return size
    experts = replace(config, num_layers=config.num_layers - DENSE_LAYERS)
    dense = replace(config, vocab_size=0, num_layers=DENSE_LAYERS, d_ff=DENSE_WIDTH)
    dense = replace(dense, experts=1, active_experts=1, shared_experts=0)
    return sum(map(ra.transformer_parameters, (experts, dense))) - latent_fewer(config)


def latent_fewer(config):
    """How many parameters fewer than four whole matrices per layer."""
    whole = 2 * config.d_model * (config.query_width + config.kv_width)
    return config.num_layers * (whole - sum(rows * columns for rows, columns in LATENT))


class Chapter(Figures):
    def layer(self) -> None:
        one, context = replace(wren.WREN, num_layers=1, vocab_size=1), wren.WREN.context_length
        d, d_ff, bf16 = one.d_model, one.d_ff, torch.bfloat16.itemsize
        parts = fc.transformer_forward_flops(one, 1, context)
        square, wide, back = f"{d:,} × {d:,}", f"{d:,} × {d_ff:,}", f"{d_ff:,} × {d:,}"
        rows = [
            (f"{n(square)}, three times | ", 3 * d * d, ["qkv"], d + 3 * d),
            ("", 0, ["attention_scores", "attention_values"], 0),
            (f"{n(square)} | ", d * d, ["attention_output"], d),
            (f"{n(wide)} and {n(back)} | ", 2 * d * d_ff, ["ffn"], d + 2 * d_ff),
        ]
        kept = 2 * bf16 * d  # the inputs of both norms
        for matrices, size, names, numbers in rows:
            flops = sum(parts[name] for name in names) // context
            kept += bf16 * numbers
            self.gives(
                layer_row=f"{matrices}{n(size, ',')} | {n(flops, ',')} | {n(bf16 * numbers, ',')}"
            )
        size, flops = sum(row[1] for row in rows), sum(parts.values()) - parts["lm_head"]
        assert size == ra.transformer_parameters(one) - d  # of a vocabulary of one token
        assert kept == micro_batch.layer_bytes(one, 1, PURE)
        self.gives(layer_row=(size, flops // context, kept), kept=bf16 * d)
        self.gives(forward_rule=fc.linear_flops(1, 1, 1))

    def today(self) -> None:
        llama, _ = MODELS["Llama 3 70B"]
        all_heads = replace(llama, kv_heads=llama.num_heads)
        cache, full = (
            micro_batch.cache_bytes(config, 1, torch.bfloat16) for config in (llama, all_heads)
        )
        mixtral, _ = MODELS["Mixtral 8x7B"]
        active = ra.transformer_parameters(replace(mixtral, experts=mixtral.active_experts))
        self.gives(llama_kv=llama.kv_heads, llama_heads=llama.num_heads)
        self.gives(llama_name=n("Llama 3 70B"), llama_cache=cache / 1e6)
        self.gives(llama_cache_full=full / 1e6, active_mixtral=active)
        self.gives(all_mixtral=ra.transformer_parameters(mixtral))
        self.gives(experts_rule=f"{n(fc.training_flops(1, 1))}ND")

    def models(self) -> None:
        """Ten models, each within half a percent, and exactly where the number is exact."""
        left_out = 0.0
        for name, (config, published) in MODELS.items():
            ours = corrected(name)
            assert abs(ours / published - 1) < 0.005, name
            left_out = max(left_out, 100 * (1 - ours / published))
            self.gives(model_name=n(name), model_sizes=(config.num_layers, config.d_model))
            heads = config.num_heads, config.kv_heads or config.num_heads
            self.gives(model_heads=(heads, config.query_width // config.num_heads))
            ffn = n(config.d_ff, ",")
            if config.experts > 1:
                ffn += f", {n(config.active_experts)} of {n(config.experts)}"
            if config.shared_experts:
                ffn += f" + {n(config.shared_experts)}"
            self.gives(model_ffn=ffn, model_rest=(config.vocab_size, ours, published))
        self.gives(left_out=left_out, some_active=2, some_experts=8, some_shared=4)
        self.gives(dense_layers=DENSE_LAYERS, dense_width=DENSE_WIDTH)
        self.gives(latent_fewer=latent_fewer(MODELS["DeepSeek-V3"][0]))
        exactly = ["Llama 2 70B", "Llama 3 8B", "Llama 3 70B", "Gemma 7B", "Mixtral 8x7B"]
        for name in exactly:
            config, published = MODELS[name]
            routers = config.num_layers * config.d_model * config.experts * (config.experts > 1)
            assert ra.transformer_parameters(config) + norms(config) + routers == published
        config, published = MODELS["GPT-2 XL"]
        # Its norms have biases, too, and each of its four products in a layer has a bias.
        biases = norms(config) + config.num_layers * (5 * config.d_model + config.d_ff)
        more = norms(config) + biases + config.context_length * config.d_model
        assert ra.transformer_parameters(config) + more == published
