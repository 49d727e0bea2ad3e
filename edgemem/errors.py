"""Every error edgemem raises on purpose.

    EdgememError
    ├── ModelError               a model or record file cannot be read, or says something impossible
    │   ├── UnknownShapeError    dimensions are missing; names the tensors, symbols and the flag that binds them
    │   ├── RuntimeLoadError     a runtime cannot load the model, as where it does not know an operator
    │   └── UnsupportedError     an operator, dtype or format that edgemem does not know
    │       ├── TilingError      an operator cannot be computed in stripes or tiles
    │       └── NumericDifferenceError  a changed model's outputs differ from the original's
    ├── PlanError                no plan was made
    │   ├── UnknownStrategyError the name or an option is not registered; names the ones that are
    │   ├── BudgetExceededError  the plan or the run needs more than the budget or the region holds
    │   └── SolverError          an optional solver failed or found nothing within its limits
    ├── InvalidPlanError         a plan was refused by `verify`; carries every violation
    │   └── StalePlanError       the plan belongs to another graph, order or target
    ├── PlanFileError            a plan file is truncated, damaged, or from an unknown version
    ├── MissingDependencyError   an optional package is needed; names the package to install
    ├── ApkError                 an Android package, or a part of one, cannot be made, read or trusted
    ├── RuntimeBindError         a runtime refuses to run inside the plan
    │   ├── RecomputationError   an operator gave other bits when it ran again
    │   └── AdapterError         there is no GPU adapter, or none that is asked for
    └── ToolError                a tool that builds for a device is missing, or fails

A message says what is wrong and ends with what the user can do about it.
"""

from collections.abc import Sequence

from edgemem.system.distribution import requirement

__all__ = [
    "AdapterError",
    "ApkError",
    "BudgetExceededError",
    "EdgememError",
    "InvalidPlanError",
    "MissingDependencyError",
    "ModelError",
    "NumericDifferenceError",
    "PassError",
    "PlanError",
    "PlanFileError",
    "RecomputationError",
    "RuntimeBindError",
    "RuntimeLoadError",
    "SolverError",
    "StalePlanError",
    "TilingError",
    "ToolError",
    "UnknownAbiError",
    "UnknownShapeError",
    "UnknownStrategyError",
    "UnsupportedError",
    "error_named",
]


class EdgememError(Exception):
    """Base of every error that edgemem raises on purpose."""


class ModelError(EdgememError):
    """A model or record file cannot be read, or says something impossible."""


class UnknownShapeError(ModelError):
    """Sizes are unknown because dimensions are.

    `tensors` are the names of the tensors, `symbols` the names that `--dim NAME=VALUE` would bind.
    """

    def __init__(self, message: str, *, tensors: Sequence[str] = (), symbols: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.tensors = tuple(tensors)
        self.symbols = tuple(symbols)


class RuntimeLoadError(ModelError):
    """A runtime cannot load a model, as where it does not know an operator."""


class UnsupportedError(ModelError):
    """An operator, dtype or format that edgemem does not know."""


class TilingError(UnsupportedError):
    """An operator cannot be computed in stripes or tiles. `op` is its name, `why` the reason."""

    def __init__(self, op: str, why: str) -> None:
        super().__init__(f"{op} cannot be computed in parts: {why}; leave it out of the stage")
        self.op = op
        self.why = why


class NumericDifferenceError(UnsupportedError):
    """A changed model gives other outputs than the original. `largest` is the largest relative difference."""

    def __init__(self, message: str, *, largest: float) -> None:
        super().__init__(message)
        self.largest = largest


class PassError(EdgememError):
    """A change of a model broke its promise: other inputs, outputs or values than the model's. A defect of edgemem."""


class PlanError(EdgememError):
    """No plan was made."""


class UnknownStrategyError(PlanError):
    """The strategy or one of its options is not registered."""


class BudgetExceededError(PlanError):
    """The plan, or a run of a session, does not fit.

    `required` and `available` are bytes; `op` is the operator at the peak, "" for a run, `tensors` those alive there
    with their bytes, largest first. `impossible`: it is proved that no plan of these records fits, rather than that
    none was found; a changed model has others. `remedies`: lines that say what changes of the model would take.
    """

    def __init__(
        self,
        message: str,
        *,
        required: int,
        available: int,
        op: str = "",
        tensors: Sequence[tuple[str, int]] = (),
        impossible: bool = False,
        remedies: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.remedies = tuple(remedies)
        self.impossible = impossible
        self.required = required
        self.available = available
        self.op = op
        self.tensors = tuple(tensors)


class SolverError(PlanError):
    """An optional solver failed, or found nothing within its limits."""


class InvalidPlanError(EdgememError):
    """A plan was refused; `violations` holds every reason."""

    def __init__(self, message: str, *, violations: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.violations = tuple(violations)


class StalePlanError(InvalidPlanError):
    """The plan belongs to another graph, order or target."""


class PlanFileError(EdgememError):
    """A plan file is truncated, damaged, or from an unknown version."""


class MissingDependencyError(EdgememError):
    """An optional package is needed; the message names the command that installs it."""

    def __init__(self, package: str, *, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: pip install {requirement(package)}")
        self.package = package
        self.purpose = purpose


class ApkError(EdgememError):
    """An Android package, or a part of one, cannot be made, read or trusted."""


class RuntimeBindError(EdgememError):
    """A runtime refuses to run inside the plan."""


class AdapterError(RuntimeBindError):
    """There is no GPU adapter, none of the name that was asked for, or it cannot do what is asked."""


class RecomputationError(RuntimeBindError):
    """What was evicted and made again has other bits than at first. `op` is the operator that made it."""

    def __init__(self, message: str, *, op: str) -> None:
        super().__init__(message)
        self.op = op


class UnknownAbiError(ApkError):
    """Packages are not made for this machine (ABI)."""


class ToolError(EdgememError):
    """A tool or library that builds for a device is missing, damaged or fails; the message says what to install."""


def error_named(name: str, message: str) -> EdgememError:
    """The error of a class that another process raised; RuntimeBindError for one that needs more than a message."""
    kinds = (
        *(ModelError, UnknownShapeError, RuntimeLoadError, UnsupportedError, PlanError, InvalidPlanError),
        *(StalePlanError, PlanFileError),
    )
    return {kind.__name__: kind for kind in kinds}.get(name, RuntimeBindError)(message)
