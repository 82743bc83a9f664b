"""`mtr validate`: any document or ZIP of the contracts, every violation with its path."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from contracts import strict_json
from contracts.base import CONTRACTS, guess_contract, validate
from contracts.errors import ArchiveRejectedError, ArchiveTooLargeError, InvalidDocumentError, UsageError
from runtime.archive.entrypoint import note_missing_symbol
from runtime.archive.inspection import find_kind, inspect_model_package, inspect_package
from runtime.requests import packed, read_document
from services.cli.options import Json, command_group, example
from services.cli.terminal import Terminal, table

app = command_group("Check documents and ZIPs against the contracts.")

INVALID: Final = 2
"""The exit code when a document is refused."""

_ZIP_SIGNATURE: Final = b"PK"


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What one file is. `contract` is the version it says, or was asked, to follow; None where it says none."""

    path: str
    contract: str | None
    normalized: dict[str, Any] | None = None
    violations: list[dict[str, str]] = field(default_factory=list)

    @property
    def valid(self) -> bool:
        return self.normalized is not None

    def to_document(self) -> dict[str, Any]:
        if self.valid:
            return {"valid": True, "contract": self.contract, "normalized": self.normalized}
        return {"valid": False, "violations": self.violations}


@app.command("validate", epilog=example("mtr validate training_package.json submission.json digits.zip"))
def validate_files(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Documents, ZIPs, package folders, or - for stdin.")
    ],
    as_contract: Annotated[
        str | None,
        typer.Option("--as", metavar="CONTRACT", help="What they are meant to be; else their protocol_version says."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Check each file and print every violation with its path.

    With --json, one file's answer is one verdict; several files' is {"valid", "documents"}, each with its path.
    """
    with Terminal.open(as_json=as_json) as terminal:
        contract = None if as_contract is None else _contract_name(as_contract)
        verdicts = [_verdict(file, contract, terminal) for file in files]
        valid = all(verdict.valid for verdict in verdicts)
        document: Any = verdicts[0].to_document()
        if len(verdicts) > 1:
            document = {
                "valid": valid,
                "documents": [{"path": verdict.path, **verdict.to_document()} for verdict in verdicts],
            }
        terminal.answer(document, *(view for verdict in verdicts for view in _views(verdict)))
        return 0 if valid else INVALID


def _contract_name(given: str) -> str:
    wanted = given.strip().replace("-", "_")
    for name, contract in CONTRACTS.items():
        if wanted == name or given == contract.version:
            return name
    raise UsageError(f"--as {given!r} is no contract", hint=f"Use one of {', '.join(CONTRACTS)}.")


def _verdict(file: str, contract: str | None, terminal: Terminal) -> _Verdict:
    try:
        if Path(file).is_dir() or _is_zip(file):
            return _archive_verdict(file, contract, terminal)
        document = strict_json.parse(read_document(Path(file)))
        contract = contract or guess_contract(document)
        normalized = validate(contract, document).to_document()
    except InvalidDocumentError as refused:
        return _Verdict(file, contract and _version(contract), violations=_violations(refused))
    return _Verdict(file, _version(contract), normalized)


def _is_zip(file: str) -> bool:
    path = Path(file)
    if path.suffix.lower() == ".zip":
        return path.is_file()
    if not path.is_file():
        return False
    try:
        with path.open("rb") as source:
            return source.read(len(_ZIP_SIGNATURE)) == _ZIP_SIGNATURE
    except OSError:
        return False  # reading it as a document then says why it cannot be read


def _archive_verdict(file: str, contract: str | None, terminal: Terminal) -> _Verdict:
    if contract not in {None, "package", "model_package"}:
        raise UsageError(
            f"{file} is an archive, no {contract} document", hint="Use --as package or --as model_package for it."
        )
    name = contract or "package"  # what a folder is that cannot even be packed
    try:
        with packed(Path(file), terminal.note) as archive:
            name = contract or _archive_contract(archive)
            if name == "package":
                manifest = inspect_package(archive).manifest
                note_missing_symbol(archive, manifest, terminal.note)
                return _Verdict(file, _version(name), manifest.to_document())
            model = inspect_model_package(archive)
    except (ArchiveRejectedError, ArchiveTooLargeError, InvalidDocumentError) as refused:
        return _Verdict(file, _version(name), violations=_violations(refused))
    return _Verdict(file, _version(name), model.manifest.to_document())


def _archive_contract(archive: Path) -> str:
    """What the archive means to be; one that does not say is judged as the code package that most are."""
    try:
        return "model_package" if find_kind(archive) == "training_model_package" else "package"
    except (ArchiveRejectedError, ArchiveTooLargeError):
        return "package"


def _version(contract: str) -> str:
    return CONTRACTS[contract].version or contract


def _violations(refused: InvalidDocumentError | ArchiveRejectedError | ArchiveTooLargeError) -> list[dict[str, str]]:
    found = refused.context.get("violations")
    return found if isinstance(found, list) and found else [{"path": "", "message": refused.message}]


def _views(verdict: _Verdict) -> list[Any]:
    if verdict.valid:
        return [Text.assemble(("valid ", "bold green"), f"{verdict.path}: {verdict.contract}")]
    said = f"{verdict.path}: " + (f"no valid {verdict.contract}" if verdict.contract else "no document of a contract")
    rows = [(one["path"] or "(document)", one["message"]) for one in verdict.violations]
    return [Text.assemble(("refused ", "bold red"), said), table("violations", ("path", "message"), rows)]
