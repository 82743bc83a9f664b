"""JSON Schemas (Draft 2020-12) of the documents, generated from the models: `python -m contracts.schemas` writes them.

They say what JSON Schema can: fields, types, bounds, patterns. Rules that span fields are the models' own.
"""

from __future__ import annotations

import json
from pathlib import Path

from contracts.base import CONTRACTS
from contracts.messages import MESSAGES

FOLDER = Path(__file__).parent


def rendered() -> dict[str, str]:
    """File name to content, for every contract and every message that we send."""
    files = {}
    for contract in (*CONTRACTS.values(), *MESSAGES):
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **contract.adapter.json_schema()}
        if contract.version:
            schema["title"] = contract.version
        files[f"{contract.name}.json"] = json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    return files
