"""Prints what the product needs from others, a requirement a line: `python requirements.py EXTRA,EXTRA`.

The image installs these before our code is copied, so that a change of ours does not install them again.
"""

import sys
import tomllib
from pathlib import Path


def requirements(project: dict, extras: list[str]) -> list[str]:
    """The dependencies of `project`, those of `extras` included, ours left out.

    Raises:
        KeyError: an extra that there is not.
    """
    groups = project["optional-dependencies"]
    own = f"{project['name']}["
    return [
        one
        for one in (*project["dependencies"], *(each for extra in extras for each in groups[extra]))
        if not one.startswith(own)
    ]


if __name__ == "__main__":
    described = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    print("\n".join(requirements(described, [extra for extra in sys.argv[1].split(",") if extra])))
