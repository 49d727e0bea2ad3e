"""Plans for several memories: which record lies in which region, and then where in it.

`items` says what there is to place and how much room there is, `prices` gives a lower bound of what it costs.
`search` chooses regions: by rules (`filling`), in windows of time, and by a `sweep` over time that proves its choice.
`packing` makes each region's arena with the strategies, `refusal` says what does not fit, `plan` is the pipeline.
"""

from edgemem.planning.regions.plan import plan_in_regions

__all__ = ["plan_in_regions"]
