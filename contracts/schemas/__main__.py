"""`python -m contracts.schemas [--check]`: writes the JSON Schemas into this folder, or says which of them are not current."""

from __future__ import annotations

import sys

from contracts.schemas import FOLDER, rendered


def main(arguments: list[str]) -> int:
    """Afterwards the folder holds exactly the schemas that the models say; with `--check` it is only compared.

    Returns:
        How many files differed, at most 1: the exit status of a check.
    """
    files = rendered()
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    if arguments == ["--check"]:
        differing = sorted(name for name in files.keys() | there.keys() if files.get(name) != there.get(name))
        if differing:
            sys.stderr.write(f"not current: {', '.join(differing)}; run `make generated`\n")
        return min(1, len(differing))
    for name in there.keys() - files.keys():
        (FOLDER / name).unlink()
    for name, content in files.items():
        (FOLDER / name).write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
