"""`python -m edgemem`, and the command `edgemem`, are the command line.

Until that listens to signals, Ctrl-C ends the process without a word: Python would raise KeyboardInterrupt inside an
import, which may drop it.
"""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from edgemem.cli.main import main

if __name__ == "__main__":
    main(prog_name="edgemem")
