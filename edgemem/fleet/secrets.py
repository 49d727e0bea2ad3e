"""What rows, tables and logs have of URLs and messages: nothing that lets a reader in."""

from __future__ import annotations

import itertools
import os
import re
from contextlib import suppress
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

__all__ = ["is_url", "public_name", "without_secrets"]

_URL: Final = re.compile(r"[A-Za-z][\w+.-]*://[^\s'\"<>]+")
_CHAIN: Final = re.compile(r"::(?=[A-Za-z][\w+.-]*://)")  # between the URLs of one that fsspec opens through another
_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL", re.IGNORECASE)  # in names of environment variables
_LEAST: Final = 6  # characters of a value that is replaced; shorter ones are parts of other words


def is_url(text: str) -> bool:
    """Whether an argument is a URL and no path."""
    return _URL.match(text) is not None


def public_name(url: str) -> str:
    """A URL without user, password, query and fragment; of one that is damaged, what it begins with."""
    return "::".join(map(_public_part, _CHAIN.split(url)))


def _public_part(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return f"{url.partition('://')[0]}://..."
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def without_secrets(text: str, *urls: str) -> str:
    """A message without secrets: the URLs in it are public names.

    Values of environment variables that look like secrets, and the passwords and queries of `urls`, are replaced:
    libraries quote them without the rest of the URL, too.
    """
    text = _URL.sub(lambda match: public_name(match[0]), text)
    values = {value for name, value in os.environ.items() if len(value) >= _LEAST and _SECRET.search(name)}
    for url in itertools.chain.from_iterable(map(_CHAIN.split, urls)):
        with suppress(ValueError):
            parts = urlsplit(url)
            values |= {parts.query, parts.password or "", unquote(parts.password or "")}
    for value in sorted(values - {""}, key=len, reverse=True):
        text = text.replace(value, "***")
    return text
