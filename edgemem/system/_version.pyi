# Written by the build; pyproject.toml has the template.
VERSION: str
