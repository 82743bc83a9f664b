"""Stage 2: the package's archive is the pinned one and follows the rules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from contracts.errors import DigestMismatchError
from runtime.archive.inspection import inspect_package
from runtime.sizes import readable_size
from tasks.showing import show_markdown
from tasks.stage import stage

if TYPE_CHECKING:
    from contracts.package import PackageManifest
    from contracts.submission import TrainingCodeSubmission
    from runtime.archive.inspection import ArchiveReport
    from tasks.run import Run


@stage(retried=True)
def check_package(run: Run, submission: TrainingCodeSubmission) -> PackageManifest:
    """The manifest of exactly the archive that was pinned, inspected by every rule. In the UI: the manifest.

    Retry: safe, nothing is changed; the archive stays in the cache.

    Raises:
        DigestMismatchError: the archive is not what was pinned, or `package.sha256` is not its digest.
        ObjectMissingError: it is not in the store.
        ArchiveRejectedError: it breaks the archive rules.
        StorageUnavailableError: the store does not answer.
    """
    pinned = submission.package_archive.pinned()
    if pinned.sha256 != submission.package.sha256:
        raise DigestMismatchError(
            f"package.sha256 is {submission.package.sha256[:12]}…, package_archive.sha256 is {pinned.sha256[:12]}…",
            hint="Both name the archive: send the digest that registration answered.",
            context={"package": submission.package.sha256, "package_archive": pinned.sha256},
        )
    with run.installation.cache.object_path(pinned, run.installation.store) as archive:
        inspected = inspect_package(archive, run.installation.archive_limits, sha256=pinned.sha256)
    show_markdown("package", _markdown(inspected.manifest, inspected.report), "The package that runs")
    return inspected.manifest


def _markdown(manifest: PackageManifest, report: ArchiveReport) -> str:
    document = json.dumps(manifest.to_document(), indent=2, ensure_ascii=False)
    return (
        f"# {manifest.key} {manifest.version}\n\n{manifest.name}\n\n"
        f"{report.file_count} files, {readable_size(report.size_bytes)} packed, "
        f"{readable_size(report.uncompressed_bytes)} unpacked\n\n`{report.sha256}`\n\n```json\n{document}\n```\n"
    )
