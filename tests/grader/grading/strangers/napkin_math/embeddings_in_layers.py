"""The embeddings are counted in each layer."""


def transformer_parameters(config):
    d = config.d_model
    block = (
        4 * d * d
        + d * config.d_ff * (2 + config.gated_ffn)
        + d * config.vocab_size * (2 - config.tied_embeddings)
    )
    return sum(block for _ in range(config.num_layers))
