"""One command on many models: tasks in child processes, on threads here or on a cluster, cached; a row each."""
