"""Writes the JSON Schemas into this folder and removes those of contracts that are gone."""

from __future__ import annotations

from contracts.schemas import FOLDER, rendered


def main() -> None:
    """Afterwards the folder holds exactly the schemas that the models say."""
    files = rendered()
    for name, content in files.items():
        (FOLDER / name).write_text(content, encoding="utf-8")
    for path in FOLDER.glob("*.json"):
        if path.name not in files:
            path.unlink()


if __name__ == "__main__":
    main()
