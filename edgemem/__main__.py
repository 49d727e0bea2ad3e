"""`python -m edgemem`, and the command `edgemem`, are the command line.

Until that listens to signals, Ctrl-C ends the process without a word: Python would raise KeyboardInterrupt inside an
import, which may drop it. NumPy's OpenBLAS, whose functions edgemem does not call, gets one thread: it starts one for
each processor, and where one cannot be started for want of memory it sends the process a SIGINT.
"""

import os
import signal
import sys
from importlib import import_module

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

try:
    import_module("edgemem.system.distribution")
    from edgemem.cli.main import main
except ImportError as e:
    if e.name != "edgemem":
        raise
    sys.exit(f"Error: {e}")  # files of another project lie over ours

if __name__ == "__main__":
    main(prog_name="edgemem")
