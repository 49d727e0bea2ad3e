"""Decoders with growing caches, exported by transformers with random weights.

    python tests/bench/serving/export_decoders.py FOLDER [gpt2_tiny llama_tiny gpt2_124m gpt2_250m llama_135m]

Needs torch, transformers and onnx. Each file is decoder_NAME.onnx with the inputs `input_ids` [batch, sequence],
`attention_mask` [batch, past + sequence] and `past_key_values.N.key|value` [batch, heads, past, head size], and the
outputs `logits` and `present.N.key|value` [batch, heads, past + sequence, head size].
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, DynamicCache, GPT2Config, LlamaConfig

CONFIGS = {
    "gpt2_tiny": GPT2Config(n_layer=2, n_head=4, n_embd=64, n_positions=512, vocab_size=256),
    "llama_tiny": LlamaConfig(
        num_hidden_layers=2,
        hidden_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=160,
        vocab_size=256,
        max_position_embeddings=512,
    ),
    "gpt2_124m": GPT2Config(),
    "gpt2_250m": GPT2Config(n_layer=16, n_head=16, n_embd=1024),  # more than 1 GB as float32
    # The sizes of SmolLM-135M.
    "llama_135m": LlamaConfig(
        num_hidden_layers=30,
        hidden_size=576,
        num_attention_heads=9,
        num_key_value_heads=3,
        intermediate_size=1536,
        vocab_size=49152,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
    ),
}


class Decoder(torch.nn.Module):  # type: ignore[misc]
    """A causal language model whose cache comes and goes as plain tensors."""

    def __init__(self, model: Any, layers: int) -> None:
        super().__init__()
        self.model = model
        self.layers = layers

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, *past: torch.Tensor) -> Any:
        cache = DynamicCache()
        for layer in range(self.layers):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
            # Without the concatenation with an empty tensor that `update` traces.
            cache.layers[layer].keys, cache.layers[layer].values = past[2 * layer], past[2 * layer + 1]
        result = self.model(
            input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True, return_dict=True
        )
        present = []
        for layer in result.past_key_values.layers:
            present += [layer.keys, layer.values]
        return (result.logits, *present)


def export(name: str, folder: Path) -> Path:
    """Write the decoder of this name into the folder; its path."""
    torch.manual_seed(0)
    config = CONFIGS[name]
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config).eval()
    layers = config.num_hidden_layers
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = config.hidden_size // config.num_attention_heads
    past = [torch.randn(2, heads, 5, size) for _ in range(2 * layers)]
    feeds = (torch.randint(0, config.vocab_size, (2, 3)), torch.ones(2, 8, dtype=torch.int64), *past)
    names = [f"{layer}.{kind}" for layer in range(layers) for kind in ("key", "value")]
    batch, sequence, total = {0: "batch"}, {0: "batch", 1: "sequence"}, {0: "batch", 1: "total"}
    axes = {"input_ids": sequence, "attention_mask": total, "logits": sequence}
    axes |= {f"past_key_values.{n}": {**batch, 2: "past"} for n in names}
    axes |= {f"present.{n}": {**batch, 2: "total"} for n in names}
    path = folder / f"decoder_{name}.onnx"
    torch.onnx.export(
        Decoder(model, layers),
        feeds,
        str(path),
        input_names=["input_ids", "attention_mask", *(f"past_key_values.{n}" for n in names)],
        output_names=["logits", *(f"present.{n}" for n in names)],
        dynamic_axes=axes,
        opset_version=17,
        dynamo=False,
    )
    return path


if __name__ == "__main__":
    target = Path(sys.argv[1])
    for each in sys.argv[2:] or CONFIGS:
        print(export(each, target), flush=True)
