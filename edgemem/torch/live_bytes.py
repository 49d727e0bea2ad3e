"""The bytes of tensors that are alive while a program of PyTorch runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from edgemem.torch.accesses import tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["LiveBytes"]


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all storages that operators allocate inside the `with` statement, while they are alive.

        with LiveBytes() as live:
            loss = step(model, optimizer, batch)
        print(live.peak)

    What was there before, such as parameters, does not count; nor does workspace that a kernel takes and gives back,
    unless other operators make it, as inside `mse_loss`.

    Attributes:
        peak: the most bytes that were alive at once, at the end of any operator: its inputs and its results are there.
        now: bytes that were alive at the end of the last operator.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = self.now = 0
        self._there: dict[int, StorageWeakRef] = {}  # storages from before, so that their numbers are nobody else's
        self._made: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        for tensor in tensors_in([*args, *kwargs.values()]):
            storage = tensor.untyped_storage()
            if storage._cdata not in self._made and storage._cdata not in self._there:  # noqa: SLF001
                self._there[storage._cdata] = StorageWeakRef(storage)  # noqa: SLF001
        result = func(*args, **kwargs)
        for number in [n for n, (reference, _) in self._made.items() if reference.expired()]:
            self.now -= self._made.pop(number)[1]
        for tensor in tensors_in(result):
            storage = tensor.untyped_storage()
            number = storage._cdata  # noqa: SLF001
            if number not in self._made and number not in self._there and storage.device.type != "meta":
                self._made[number] = (StorageWeakRef(storage), storage.nbytes())
                self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        return result
