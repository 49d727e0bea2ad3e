"""Snapshots of PyTorch's memory: `torch.cuda.memory._dump_snapshot`."""

from edgemem_converters.snapshot.snapshot import SnapshotConverter

__all__ = ["SnapshotConverter"]
