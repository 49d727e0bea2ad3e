"""`python -m edgemem` is the command line."""

from edgemem.cli.main import main

if __name__ == "__main__":
    main(prog_name="edgemem")
