"""Every fenced block of README.md and docs/*.md is run, compiled or read: see `page.py` for the rules."""
