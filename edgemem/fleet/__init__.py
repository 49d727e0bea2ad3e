"""One command on many models: tasks in child processes, on threads here or on a cluster, cached; a row each."""

from typing import Final

__all__ = ["RESULTS"]

RESULTS: Final = (".parquet", ".csv", ".json")  # endings of files of results
