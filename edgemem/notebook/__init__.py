"""How results look in a notebook: plain HTML without scripts, from figures alone."""
