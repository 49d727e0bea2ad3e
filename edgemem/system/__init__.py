"""What the operating system gives: files, child processes, folders for caches, memory of the process."""
