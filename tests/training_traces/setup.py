"""How a large model is trained: its shape, its parallelism, and what is done to save memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

__all__ = ["SETUPS", "TrainingSetup"]


@dataclass(frozen=True, slots=True)
class TrainingSetup:
    """One rank of a training run, as a launcher of Megatron-LM or FSDP would have it.

    Attributes:
        layers: transformer layers of the whole model, a multiple of `pipeline * chunks`.
        hidden: width of the model.
        heads: attention heads.
        ffn: width of the feed-forward network (of each expert, with `experts`).
        vocabulary: of the embedding and the logits.
        sequence: tokens of a sequence.
        micro_batch: sequences of a microbatch.
        microbatches: of an iteration, a multiple of `pipeline` with `chunks` above 1.
        tensor: ranks that share each layer (tensor parallelism, with sequence parallelism).
        pipeline: stages of the pipeline.
        rank: the stage whose requests these are; stage 0 has most microbatches under way.
        chunks: parts of the model that each stage has (virtual pipeline, the interleaved schedule); 1: 1F1B.
        attention: `flash` keeps no scores; `scores` keeps those of all pairs of tokens, as GPT-2 was trained.
        recompute: `full` keeps only the input of each layer and runs it again in the backward pass.
        zero_stage: what is sharded over `shards` ranks: 1 optimizer states, 3 weights and gradients, too; 0 nothing.
        shards: ranks for `zero_stage`.
        offloads: activations of a layer are copied to the host and back.
        experts: experts of each rank in each layer; 0: a dense feed-forward network.
        top_k: experts of a token.
        skew: how unevenly routers choose experts: shape of the gamma distribution of their popularity; small is uneven.
        iterations: recorded; the optimizer makes its states in the first one.
        seed: of the routers.
    """

    layers: int = 24
    hidden: int = 1024
    heads: int = 16
    ffn: int = 4096
    vocabulary: int = 50304
    sequence: int = 1024
    micro_batch: int = 16
    microbatches: int = 8
    tensor: int = 1
    pipeline: int = 4
    rank: int = 0
    chunks: int = 1
    attention: Literal["flash", "scores"] = "flash"
    recompute: Literal["none", "full"] = "none"
    zero_stage: Literal[0, 1, 3] = 0
    shards: int = 8
    offloads: bool = False
    experts: int = 0
    top_k: int = 2
    skew: float = 4.0
    iterations: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        if self.layers % (self.pipeline * self.chunks):
            raise ValueError("layers are a multiple of pipeline * chunks")
        if self.chunks > 1 and self.microbatches % self.pipeline:
            raise ValueError("microbatches are a multiple of pipeline, with chunks")
        if self.experts and self.tensor > 1:
            raise ValueError("experts are not split: tensor is 1 with them")
        if not 0 <= self.rank < self.pipeline:
            raise ValueError("rank is a stage of the pipeline")

    @property
    def tokens(self) -> int:
        """Of a microbatch."""
        return self.sequence * self.micro_batch

    @property
    def layers_of_chunk(self) -> int:
        """Layers that one pass of one microbatch goes through."""
        return self.layers // (self.pipeline * self.chunks)


# GPT-2 of 345 million parameters on four stages, as in STWeaver's Figure 2; a mixture of experts with the widths of
# Qwen1.5-MoE-A2.7B; a model with the widths of Llama 2 7B for ZeRO and offloading. Recomputation makes room for a
# microbatch of twice the size.
_GPT2: Final = TrainingSetup(attention="scores")
_GPT2_RECOMPUTED: Final = replace(_GPT2, micro_batch=32, recompute="full")
_MOE: Final = TrainingSetup(
    layers=8,
    hidden=2048,
    ffn=1408,
    vocabulary=151936,
    sequence=2048,
    micro_batch=4,
    pipeline=2,
    zero_stage=1,
    experts=8,
    top_k=4,
)
_LLAMA: Final = TrainingSetup(
    layers=8,
    hidden=4096,
    heads=32,
    ffn=11008,
    vocabulary=32000,
    sequence=4096,
    micro_batch=1,
    microbatches=4,
    pipeline=1,
)

SETUPS: Final = {
    "1f1b": _GPT2,
    "virtual_pipeline": replace(_GPT2, chunks=3),
    "recompute": _GPT2_RECOMPUTED,
    "virtual_pipeline_recompute": replace(_GPT2_RECOMPUTED, chunks=3),
    "last_stage": replace(_GPT2, rank=3),
    "tensor_parallel": replace(_LLAMA, tensor=4, micro_batch=4, pipeline=2, microbatches=8),
    "zero": replace(_LLAMA, zero_stage=3),
    "zero_recompute": replace(_LLAMA, zero_stage=3, recompute="full", micro_batch=2),
    "offload": replace(_LLAMA, zero_stage=3, offloads=True),
    "moe": _MOE,
    "moe_recompute": replace(_MOE, recompute="full", micro_batch=8),
    "moe_virtual_pipeline": replace(_MOE, chunks=2),
    "moe_virtual_pipeline_recompute": replace(_MOE, chunks=2, recompute="full", micro_batch=8),
    "large": replace(_GPT2_RECOMPUTED, layers=96, chunks=6, microbatches=64),
}
