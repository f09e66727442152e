"""The output's projection is not counted.

is: output_projection_forgotten
"""


def transformer_parameters(config):
    d = config.d_model
    block = 3 * d * d + d * config.d_ff * (2 + config.gated_ffn)
    return block * config.num_layers + d * config.vocab_size * (2 - config.tied_embeddings)
