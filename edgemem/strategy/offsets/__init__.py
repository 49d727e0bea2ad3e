"""Offset calculation (Pisarchyk & Lee 2020, §5): one file a strategy, imported here in the order they are listed."""

from edgemem.strategy.offsets import naive  # noqa: F401, I001  (the order of registration)
from edgemem.strategy.offsets import greedy_by_size  # noqa: F401
from edgemem.strategy.offsets import greedy_by_breadth  # noqa: F401
from edgemem.strategy.offsets import greedy_in_order  # noqa: F401
from edgemem.strategy.offsets import strip_packing  # noqa: F401
from edgemem.strategy.offsets import pyramid  # noqa: F401
from edgemem.strategy.offsets import search  # noqa: F401
from edgemem.strategy.offsets import spatio_temporal  # noqa: F401
from edgemem.strategy.offsets import mip  # noqa: F401
from edgemem.strategy.offsets import litert_arena  # noqa: F401
