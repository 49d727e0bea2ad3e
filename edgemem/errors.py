"""Every error edgemem raises on purpose.

    EdgememError
    ├── ModelError                     E101  a model or record file cannot be read, or says something impossible
    │   ├── UnknownShapeError          E102  dimensions are missing; names tensors, symbols and the flag that binds them
    │   ├── RuntimeLoadError           E103  a runtime cannot load the model, as where it does not know an operator
    │   └── UnsupportedError           E104  an operator, dtype or format that edgemem does not know
    │       ├── TilingError            E105  an operator cannot be computed in stripes or tiles
    │       └── NumericDifferenceError E106  a changed model's outputs differ from the original's
    ├── PassError                      E107  a change of a model broke its promise, a defect of edgemem
    ├── PlanError                      E201  no plan was made
    │   ├── UnknownStrategyError       E202  the name or an option is not registered; names the ones that are
    │   ├── BudgetExceededError        E203  the plan or the run needs more than the budget or the region holds
    │   └── SolverError                E204  an optional solver failed or found nothing within its limits
    ├── InvalidPlanError               E301  a plan was refused by `verify`; carries every violation
    │   └── StalePlanError             E302  the plan belongs to another graph, order or target
    ├── PlanFileError                  E303  a plan file is truncated, damaged, or from an unknown version
    │   └── NoPlanError                E304  the file carries no plan
    ├── MissingDependencyError         E501  an optional package is needed; names the package to install
    ├── ApkError                       E601  an Android package, or a part of one, cannot be made, read or trusted
    │   └── UnknownAbiError            E602  packages are not made for this machine (ABI)
    ├── RuntimeBindError               E401  a runtime refuses to run inside the plan
    │   ├── RecomputationError         E402  an operator gave other bits when it ran again
    │   └── AdapterError               E403  there is no GPU adapter, or none that is asked for
    └── ToolError                      E502  a tool that builds for a device is missing, or fails

A message says what is wrong and ends with what the user can do about it. Codes are those of docs/errors.md, one a
class; they are never given to another error.
"""

from collections.abc import Sequence
from typing import ClassVar

from edgemem.system.distribution import requirement

__all__ = [
    "AdapterError",
    "ApkError",
    "BudgetExceededError",
    "EdgememError",
    "InvalidPlanError",
    "MissingDependencyError",
    "ModelError",
    "NoPlanError",
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
    """Base of every error that edgemem raises on purpose.

    `code` is the short code of its class, which stays as it is: `edgemem help E101` and docs/errors.md say what to do.
    Commands print it behind the message, and tracebacks below it.
    """

    code: ClassVar[str]

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.add_note(f"{self.code}: `edgemem help {self.code}` says what to do")


class ModelError(EdgememError):
    """A model or record file cannot be read, or says something impossible."""

    code = "E101"


class UnknownShapeError(ModelError):
    """Sizes are unknown because dimensions are.

    `tensors` are the names of the tensors, `symbols` the names that `--dim NAME=VALUE` would bind.
    """

    code = "E102"

    def __init__(self, message: str, *, tensors: Sequence[str] = (), symbols: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.tensors = tuple(tensors)
        self.symbols = tuple(symbols)


class RuntimeLoadError(ModelError):
    """A runtime cannot load a model, as where it does not know an operator."""

    code = "E103"


class UnsupportedError(ModelError):
    """An operator, dtype or format that edgemem does not know."""

    code = "E104"


class TilingError(UnsupportedError):
    """An operator cannot be computed in stripes or tiles. `op` is its name, `why` the reason."""

    code = "E105"

    def __init__(self, op: str, why: str) -> None:
        super().__init__(f"{op} cannot be computed in parts: {why}; leave it out of the stage")
        self.op = op
        self.why = why


class NumericDifferenceError(UnsupportedError):
    """A changed model gives other outputs than the original. `largest` is the largest relative difference."""

    code = "E106"

    def __init__(self, message: str, *, largest: float) -> None:
        super().__init__(message)
        self.largest = largest


class PassError(EdgememError):
    """A change of a model broke its promise: other inputs, outputs or values than the model's. A defect of edgemem."""

    code = "E107"


class PlanError(EdgememError):
    """No plan was made."""

    code = "E201"


class UnknownStrategyError(PlanError):
    """The strategy or one of its options is not registered."""

    code = "E202"


class BudgetExceededError(PlanError):
    """The plan, or a run of a session, does not fit.

    `required` and `available` are bytes; `op` is the operator at the peak, "" for a run, `tensors` those alive there
    with their bytes, largest first. `impossible`: it is proved that no plan of these records fits, rather than that
    none was found; a changed model has others. `remedies`: lines that say what changes of the model would take.
    """

    code = "E203"

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

    code = "E204"


class InvalidPlanError(EdgememError):
    """A plan was refused; `violations` holds every reason."""

    code = "E301"

    def __init__(self, message: str, *, violations: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.violations = tuple(violations)


class StalePlanError(InvalidPlanError):
    """The plan belongs to another graph, order or target."""

    code = "E302"


class PlanFileError(EdgememError):
    """A plan file is truncated, damaged, or from an unknown version."""

    code = "E303"


class NoPlanError(PlanFileError):
    """The file carries no plan."""

    code = "E304"


class MissingDependencyError(EdgememError):
    """An optional package is needed; the message names the command that installs it."""

    code = "E501"

    def __init__(self, package: str, *, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: pip install {requirement(package)}")
        self.package = package
        self.purpose = purpose


class ApkError(EdgememError):
    """An Android package, or a part of one, cannot be made, read or trusted."""

    code = "E601"


class RuntimeBindError(EdgememError):
    """A runtime refuses to run inside the plan."""

    code = "E401"


class AdapterError(RuntimeBindError):
    """There is no GPU adapter, none of the name that was asked for, or it cannot do what is asked."""

    code = "E403"


class RecomputationError(RuntimeBindError):
    """What was evicted and made again has other bits than at first. `op` is the operator that made it."""

    code = "E402"

    def __init__(self, message: str, *, op: str) -> None:
        super().__init__(message)
        self.op = op


class UnknownAbiError(ApkError):
    """Packages are not made for this machine (ABI)."""

    code = "E602"


class ToolError(EdgememError):
    """A tool or library that builds for a device is missing, damaged or fails; the message says what to install."""

    code = "E502"


def error_named(name: str, message: str) -> EdgememError:
    """The error of a class that another process raised; RuntimeBindError for one that needs more than a message."""
    kinds = (
        *(ModelError, UnknownShapeError, RuntimeLoadError, UnsupportedError, PlanError, InvalidPlanError),
        *(StalePlanError, PlanFileError, NoPlanError),
    )
    return {kind.__name__: kind for kind in kinds}.get(name, RuntimeBindError)(message)
