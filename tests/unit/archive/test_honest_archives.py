"""Archives that real writers make are accepted, whatever they leave open."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from contracts.errors import ArchiveRejectedError, ArchiveTooLargeError, InvalidDocumentError
from runtime.archive.extraction import extract
from runtime.archive.inspection import find_kind, inspect_model_package, inspect_package
from runtime.archive.limits import ArchiveLimits
from tests.assets.hostile_zips import (
    CODE,
    DEFLATED,
    DESCRIPTOR,
    FULL16,
    FULL32,
    STORED,
    UTF8,
    End,
    Entry,
    Header,
    Zip,
    deflate,
    extra_field,
    honest,
    manifest_entry,
    model_entries,
    model_zip,
    package_zip,
    unicode_path,
    zip64_end,
    zip64_field,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return tmp_path / "package.zip"


class OneWay(io.RawIOBase):
    """A pipe: `zipfile` cannot go back, so it writes data descriptors."""

    def __init__(self, out) -> None:
        self.out = out

    def writable(self) -> bool:
        return True

    def write(self, content) -> int:
        return self.out.write(content)


def write(path: Path, method: int, *, force_zip64: bool, streamed: bool) -> None:
    with path.open("wb") as out, zipfile.ZipFile(OneWay(out) if streamed else out, "w", method) as archive:
        archive.mkdir("empty")
        for name, content in (
            ("training_package.json", manifest_entry().content),
            ("train.py", CODE),
            ("data/é.bin", bytes(range(256)) * 3000),
        ):
            with archive.open(name, "w", force_zip64=force_zip64) as member:
                member.write(content)
        archive.comment = b"built by hand"


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True], ids=["seekable", "streamed"])
@pytest.mark.parametrize("force_zip64", [False, True], ids=["32-bit", "zip64"])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_zipfile_writes_is_accepted_and_unpacks_to_its_bytes(
    package: Path, *, method: int, force_zip64: bool, streamed: bool
) -> None:
    write(package, method, force_zip64=force_zip64, streamed=streamed)

    report = inspect_package(package).report
    extract(package, package.parent / "code")

    assert report.file_count == 3
    assert report.uncompressed_bytes == len(manifest_entry().content) + len(CODE) + 768_000
    assert (package.parent / "code" / "data" / "é.bin").read_bytes() == bytes(range(256)) * 3000
    assert (package.parent / "code" / "empty").is_dir()


def accepted(path: Path, entries: list[Entry], **fields) -> None:
    path.write_bytes(Zip(entries, **fields).build())
    inspect_package(path)


def test_a_descriptor_may_come_without_its_signature(package: Path) -> None:
    packed = deflate(CODE)
    code = Entry(
        b"train.py",
        CODE,
        DEFLATED,
        flags=DESCRIPTOR,
        local=Header(crc32=0, packed=0, size=0),
        descriptor=struct.pack("<3L", zlib.crc32(CODE), len(packed), len(CODE)),
    )
    accepted(package, [manifest_entry(), code])


def test_a_streamed_header_may_say_the_size_already(package: Path) -> None:
    """Info-ZIP, writing into a pipe, knows the size and neither the packed size nor the checksum."""
    packed = deflate(CODE)
    code = Entry(
        b"train.py",
        CODE,
        DEFLATED,
        flags=DESCRIPTOR,
        local=Header(crc32=0, packed=0),
        descriptor=struct.pack("<4s3L", b"PK\7\x08", zlib.crc32(CODE), len(packed), len(CODE)),
    )
    accepted(package, [manifest_entry(), code])


def test_a_folder_may_have_zip64_sizes(package: Path) -> None:
    """Info-ZIP with `-fz`."""
    both = Header(packed=FULL32, size=FULL32, extra=zip64_field(0, 0))
    accepted(package, honest(Entry(b"src/", mode=stat.S_IFDIR | 0o755, both=both)))


def test_a_utf8_name_needs_no_flag(package: Path) -> None:
    """Info-ZIP on Linux writes names as the file system has them, and says nothing about it."""
    accepted(package, honest(Entry("é.txt".encode(), b"x")))

    extract(package, package.parent / "code")

    assert (package.parent / "code" / "é.txt").read_text() == "x"


def test_an_end_record_may_leave_everything_to_zip64(package: Path) -> None:
    content = package_zip()
    directory_at = content.index(b"PK\1\2")
    directory_end = len(content) - 22
    end64 = zip64_end(2, directory_end - directory_at, directory_at, at=directory_end)
    accepted(package, honest(), end=End(entries=FULL16, size=FULL32, offset=FULL32, zip64=end64))


def test_a_zip64_field_may_repeat_what_the_header_says(package: Path) -> None:
    packed = len(deflate(CODE))
    code = Entry(b"train.py", CODE, DEFLATED, central=Header(size=FULL32, extra=zip64_field(len(CODE), packed)))
    accepted(package, [manifest_entry(), code])


def test_a_unicode_path_field_may_say_the_same_name(package: Path) -> None:
    raw = "é.txt".encode()
    accepted(package, honest(Entry(raw, b"x", both=Header(extra=unicode_path(raw, "é.txt")))))


def test_a_name_that_is_not_utf8_is_code_page_437(package: Path) -> None:
    accepted(package, honest(Entry("é.txt".encode("cp437"), b"x")))

    extract(package, package.parent / "code")

    assert (package.parent / "code" / "é.txt").read_text() == "x"


def test_unknown_extra_fields_and_padding_are_passed_over(package: Path) -> None:
    padded = Header(extra=extra_field(0x5455, b"\3\0\0\0\0") + b"\0\0\0")
    accepted(package, honest(Entry(b"a", b"x", both=padded)))


def test_a_folder_may_be_packed_as_an_empty_stream(package: Path) -> None:
    accepted(package, honest(Entry(b"src/", b"", DEFLATED, mode=stat.S_IFDIR | 0o755, attributes=0x10)))


def test_windows_separators_are_read_as_folders(package: Path) -> None:
    accepted(package, [manifest_entry(entrypoint="src/train.py"), Entry(b"src\\train.py", CODE)])

    extract(package, package.parent / "code")

    assert (package.parent / "code" / "src" / "train.py").read_bytes() == CODE


def test_members_that_start_with_a_dot_folder_lie_at_the_root(package: Path) -> None:
    accepted(
        package,
        [Entry(b"./", mode=stat.S_IFDIR | 0o755), *(replace(one, name=b"./" + one.name) for one in honest())],
    )


def test_an_archive_comment_is_allowed(package: Path) -> None:
    accepted(package, honest(), comment=b"PK is not a signature")


def test_5000_members_are_accepted(package: Path) -> None:
    package.write_bytes(package_zip(*(Entry(b"f%d" % number) for number in range(4998))))

    assert inspect_package(package).report.file_count == 5000


def test_the_report_is_about_the_file_as_it_lies_there(package: Path) -> None:
    package.write_bytes(package_zip(Entry(b"src/", mode=stat.S_IFDIR | 0o755)))

    report = inspect_package(package).report

    assert report.size_bytes == package.stat().st_size
    assert report.file_count == 2
    assert len(report.sha256) == 64


def test_a_limit_on_the_packed_size_is_applied_before_anything_is_read(package: Path) -> None:
    package.write_bytes(b"not even a ZIP file")

    with pytest.raises(ArchiveTooLargeError, match="has 19 bytes, the limit is 10"):
        inspect_package(package, ArchiveLimits(max_packed_bytes=10))


def test_a_model_package_may_bring_files_that_a_code_package_may_not(package: Path) -> None:
    package.write_bytes(Zip([*model_entries(), Entry(b"requirements.txt", b"torch")]).build())

    assert inspect_model_package(package).manifest.format == "npz"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"artifact_path": "weights/other.npz"}, "names it as artifact_path, and it is not a file in the archive"),
        ({"resume_checkpoint_path": "weights"}, "names it as resume_checkpoint_path, and it is not a file"),
    ],
)
def test_a_model_package_must_have_the_files_that_it_names(package: Path, changes: dict[str, str], said: str) -> None:
    package.write_bytes(model_zip(**changes))

    with pytest.raises(ArchiveRejectedError, match=said):
        inspect_model_package(package)


def test_a_model_package_with_an_empty_model_is_refused(package: Path) -> None:
    manifest, _, checkpoint = model_entries()
    package.write_bytes(Zip([manifest, Entry(b"weights/model.npz", b"", STORED), checkpoint]).build())

    with pytest.raises(ArchiveRejectedError, match="names it as artifact_path, and it is empty"):
        inspect_model_package(package)


def test_a_model_package_that_names_its_manifest_as_model_is_an_invalid_document(package: Path) -> None:
    package.write_bytes(model_zip(artifact_path="training_model_package.json"))

    with pytest.raises(InvalidDocumentError, match="artifact_path"):
        inspect_model_package(package)


def test_a_manifest_may_name_files_the_long_way(package: Path) -> None:
    package.write_bytes(model_zip(artifact_path="./weights//model.npz"))

    assert inspect_model_package(package).report.file_count == 3


def test_the_kind_of_an_archive_is_seen_by_its_manifest(package: Path) -> None:
    package.write_bytes(model_zip())
    assert find_kind(package) == "training_model_package"
    package.write_bytes(package_zip())
    assert find_kind(package) == "training_code_package"


@pytest.mark.parametrize(
    ("entries", "said"), [([Entry(b"a", b"x")], "has neither"), ([*model_entries(), *honest()], "has both")]
)
def test_an_archive_of_no_kind_or_of_both_is_refused(package: Path, entries: list[Entry], said: str) -> None:
    package.write_bytes(Zip(entries).build())

    with pytest.raises(ArchiveRejectedError, match=said):
        find_kind(package)


def test_utf8_names_are_kept(package: Path) -> None:
    accepted(package, honest(Entry("データ/一.txt".encode(), b"x", flags=UTF8)))
