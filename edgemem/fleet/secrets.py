"""What rows, tables and logs have of URLs and messages: nothing that lets a reader in."""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import urlsplit, urlunsplit

__all__ = ["is_url", "public_name", "without_secrets"]

_URL: Final = re.compile(r"[A-Za-z][\w+.-]*://[^\s'\"<>]+")
_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL", re.IGNORECASE)  # in names of environment variables
_LEAST: Final = 6  # characters of a value that is replaced; shorter ones are parts of other words


def is_url(text: str) -> bool:
    """Whether an argument is a URL and no path."""
    return _URL.match(text) is not None


def public_name(url: str) -> str:
    """A URL without user, password, query and fragment; of one that is damaged, what it begins with."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return f"{url.partition('://')[0]}://..."
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def without_secrets(text: str) -> str:
    """A message whose URLs are public names, and without the values of environment variables that look like secrets."""
    text = _URL.sub(lambda match: public_name(match[0]), text)
    for name, value in os.environ.items():
        if len(value) >= _LEAST and _SECRET.search(name):
            text = text.replace(value, "***")
    return text
