"""What the stateless endpoints say of a body, as bytes in and bytes out: here, or in a process of its own.

`python -m services.api.checks NAME` checks its standard input.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from contracts import strict_json
from contracts.admission import admit_execution, admit_result
from contracts.base import CONTRACTS, validate
from contracts.errors import InvalidDocumentError
from contracts.execution import ExecutionRequest
from contracts.package import PackageManifest
from contracts.result import TrainingResult
from contracts.violations import kind_of
from services.api.apart import answer_standard_input

if TYPE_CHECKING:
    from collections.abc import Callable

    from contracts.base import Document

_MODELS: Final[dict[str, type[Document]]] = {
    "manifest": PackageManifest,
    "execution": ExecutionRequest,
    "result": TrainingResult,
}


def _normalized(name: str, content: bytes) -> bytes:
    document = validate(name, content)
    answer = {"valid": True, "contract": CONTRACTS[name].version, "normalized": document.to_document()}
    return strict_json.dump(answer)


def _admit_execution(content: bytes) -> bytes:
    manifest, execution = _documents(content, ("manifest", "execution"))
    admit_execution(manifest, execution)
    return strict_json.dump({"valid": True, "scope": "package_execution"})


def _admit_result(content: bytes) -> bytes:
    manifest, execution, result = _documents(content, ("manifest", "execution", "result"))
    admit_execution(manifest, execution)
    admit_result(manifest, execution, result)
    return strict_json.dump({"valid": True, "scope": "package_execution_result"})


def _documents(content: bytes, names: tuple[str, ...]) -> list[Any]:
    """The named documents, each valid by itself.

    Raises:
        InvalidDocumentError: one is not there or not valid, or there is something else; every violation at once.
    """
    given = strict_json.parse(content, contract="admission")
    if not isinstance(given, dict):
        raise InvalidDocumentError.of("admission", [{"path": "", "message": f"is {kind_of(given)}, must be an object"}])
    found = [{"path": name, "message": "is not a field here"} for name in given if name not in names]
    documents = []
    for name in names:
        if name not in given:
            found.append({"path": name, "message": "required here"})
            continue
        try:
            documents.append(validate(_MODELS[name], given[name]))
        except InvalidDocumentError as refused:
            violations: Any = refused.context["violations"]
            found += [{**one, "path": f"{name}.{one['path']}".rstrip(".")} for one in violations]
    if found:
        raise InvalidDocumentError.of("admission", found)
    return documents


CHECKS: Final[dict[str, Callable[[bytes], bytes]]] = {
    **{name: partial(_normalized, name) for name in CONTRACTS},
    "admission_of_execution": _admit_execution,
    "admission_of_result": _admit_result,
}
"""Name -> what answers the body of a request, or raises the error that refuses it."""


def main(name: str) -> int:
    """Answers what lies on standard input, on standard output. See the module."""
    return answer_standard_input(CHECKS[name])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
