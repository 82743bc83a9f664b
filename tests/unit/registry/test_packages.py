from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from contracts.errors import ArchiveRejectedError, ConflictError, InvalidDocumentError, NotFoundError
from contracts.package import PackageManifest
from contracts.strict_json import dump_canonical
from runtime.registry.packages import Packages, version_order
from tests.assets.hostile_zips import CODE, MANIFEST, Entry, Zip, manifest_entry

if TYPE_CHECKING:
    from pathlib import Path

    from contracts.references import Pinned
    from runtime.store.objects import ObjectStore

PREFIX = "training-code-runtime/packages"


def archive(tmp_path: Path, code: bytes = CODE, **changes: object) -> Path:
    path = tmp_path / f"{abs(hash((code, str(changes))))}.zip"
    path.write_bytes(Zip([manifest_entry(**changes), Entry(b"train.py", code)]).build())
    return path


def stored(store: ObjectStore) -> list[str]:
    return list(store.list("default", "training-code-runtime/"))


def test_a_registered_package_is_found_with_its_bytes(any_store: ObjectStore, tmp_path: Path) -> None:
    registered = Packages(any_store).register(archive(tmp_path), archive_name="digits-0.1.0.zip")

    found = Packages(any_store).find("digits", "0.1.0")
    assert registered.created
    assert not found.created
    assert (found.registration, found.archive, found.manifest) == (
        registered.registration,
        registered.archive,
        registered.manifest,
    )
    content = any_store.read_verified(found.archive, max_bytes=1 << 20)
    assert content == archive(tmp_path).read_bytes()


def test_the_registration_and_its_record_have_the_wire_form(local_store: ObjectStore, tmp_path: Path) -> None:
    registered = Packages(local_store).register(archive(tmp_path), archive_name="C:\\Users\\me\\digits.zip")

    reference = {
        "bucket": "default",
        "object_key": f"{PREFIX}/digits/0.1.0/{registered.archive.sha256}.zip",
        "sha256": registered.archive.sha256,
        "size_bytes": archive(tmp_path).stat().st_size,
    }
    assert registered.registration == {
        "manifest": PackageManifest.model_validate(MANIFEST).to_document(),
        "archive": reference,
        "package_file_name": "digits.zip",
    }
    record = local_store.read_small("default", f"{PREFIX}/digits/0.1.0/registration.json", max_bytes=1 << 20)
    assert record == dump_canonical({"reference": reference, "registration": registered.registration})


@pytest.mark.parametrize(
    ("name", "stored"), [("", "digits-0.1.0.zip"), ("   ", "digits-0.1.0.zip"), ("folder/", "folder")]
)
def test_an_archive_without_a_name_is_named_after_its_package(
    local_store: ObjectStore, tmp_path: Path, name: str, stored: str
) -> None:
    registered = Packages(local_store).register(archive(tmp_path), archive_name=name)

    assert registered.registration["package_file_name"] == stored


def test_the_same_archive_again_is_answered_as_it_was_registered(any_store: ObjectStore, tmp_path: Path) -> None:
    packages = Packages(any_store)
    first = packages.register(archive(tmp_path), archive_name="first.zip")

    again = packages.register(archive(tmp_path), archive_name="again.zip")

    assert not again.created
    assert again.registration == first.registration
    assert again.registration["package_file_name"] == "first.zip"


def test_another_archive_of_the_same_version_is_a_conflict_and_changes_nothing(
    any_store: ObjectStore, tmp_path: Path
) -> None:
    packages = Packages(any_store)
    first = packages.register(archive(tmp_path), archive_name="first.zip")
    before = stored(any_store)

    with pytest.raises(ConflictError, match=r"digits 0\.1\.0 exists with digest") as refused:
        packages.register(archive(tmp_path, b"other = True\n"), archive_name="second.zip")

    assert refused.value.context["registered"] == first.archive.sha256
    assert stored(any_store) == before
    assert packages.find("digits", "0.1.0").archive == first.archive


def test_a_refused_archive_leaves_nothing_in_the_store(local_store: ObjectStore, tmp_path: Path) -> None:
    path = tmp_path / "bad.zip"
    path.write_bytes(Zip([manifest_entry(), Entry(b"train.py", CODE), Entry(b".env", b"x")]).build())

    with pytest.raises(ArchiveRejectedError):
        Packages(local_store).register(path, archive_name="bad.zip")

    assert stored(local_store) == []


def test_a_development_package_claims_no_version(any_store: ObjectStore, tmp_path: Path) -> None:
    packages = Packages(any_store)
    first = packages.store_development(archive(tmp_path), archive_name="a.zip")
    edited = packages.store_development(archive(tmp_path, b"edited = True\n"), archive_name="a.zip")

    assert first.created
    assert edited.created
    assert first.archive.key != edited.archive.key
    assert packages.list() == []
    with pytest.raises(NotFoundError):
        packages.find("digits", "0.1.0")


def test_a_development_package_again_is_not_new(any_store: ObjectStore, tmp_path: Path) -> None:
    packages = Packages(any_store)
    packages.store_development(archive(tmp_path), archive_name="a.zip")

    assert not packages.store_development(archive(tmp_path), archive_name="a.zip").created


def test_a_development_package_can_be_registered_as_it_is(local_store: ObjectStore, tmp_path: Path) -> None:
    packages = Packages(local_store)
    development = packages.store_development(archive(tmp_path), archive_name="a.zip")

    registered = packages.register(archive(tmp_path), archive_name="a.zip")

    assert registered.created
    assert registered.archive == development.archive


def test_of_many_that_claim_a_version_with_different_archives_one_wins(any_store: ObjectStore, tmp_path: Path) -> None:
    paths = [archive(tmp_path, f"number = {number}\n".encode()) for number in range(8)]

    def register(path: Path) -> Pinned | None:
        try:
            return Packages(any_store).register(path, archive_name=path.name).archive
        except ConflictError:
            return None

    with ThreadPoolExecutor(8) as pool:
        winners = [archive for archive in pool.map(register, paths) if archive is not None]

    assert winners == [Packages(any_store).find("digits", "0.1.0").archive]


def test_of_many_that_claim_a_version_with_one_archive_one_made_it(any_store: ObjectStore, tmp_path: Path) -> None:
    path = archive(tmp_path)

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda n: Packages(any_store).register(path, archive_name=f"{n}.zip"), range(8)))

    assert sorted(outcome.created for outcome in outcomes) == [False] * 7 + [True]
    assert len({outcome.registration["package_file_name"] for outcome in outcomes}) == 1


def test_who_loses_the_race_with_another_archive_is_told_of_the_winner(
    local_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    winner = Packages(local_store).register(archive(tmp_path), archive_name="winner.zip")
    loser = Packages(local_store)
    monkeypatch.setattr(loser._records, "find", lambda _key: None)  # it looked before the winner wrote

    with pytest.raises(ConflictError, match=winner.archive.sha256[:12]):
        loser.register(archive(tmp_path, b"late = True\n"), archive_name="loser.zip")

    assert sorted(stored(local_store)) == sorted(
        [winner.archive.key, f"{PREFIX}/digits/0.1.0/registration.json"]
    )  # nothing of the loser's


def test_a_received_archive_is_registered_with_its_bytes(any_store: ObjectStore, tmp_path: Path) -> None:
    content = archive(tmp_path).read_bytes()
    with any_store.spool() as spool:
        spool.write(content)
        registered = Packages(any_store).register(spool, archive_name="digits.zip")

    assert registered.created
    assert registered == replace(Packages(any_store).find("digits", "0.1.0"), created=True)
    assert any_store.read_verified(registered.archive, max_bytes=1 << 20) == content


def test_a_received_archive_that_is_refused_is_named_as_it_came(local_store: ObjectStore) -> None:
    content = Zip([manifest_entry(), Entry(b"train.py", CODE), Entry(b".env", b"x")]).build()

    with local_store.spool() as spool:
        spool.write(content)
        with pytest.raises(ArchiveRejectedError, match=r"digits\.zip is refused"):
            Packages(local_store).register(spool, archive_name="C:\\Users\\me\\digits.zip")

    assert stored(local_store) == []


def test_a_lost_archive_is_healed_by_registering_it_again(local_store: ObjectStore, tmp_path: Path) -> None:
    packages = Packages(local_store)
    registered = packages.register(archive(tmp_path), archive_name="a.zip")
    lost = local_store.local_path("default", registered.archive.key)
    assert lost is not None
    lost.unlink()

    again = packages.register(archive(tmp_path), archive_name="a.zip")

    assert not again.created
    assert local_store.read_verified(again.archive, max_bytes=1 << 20) == archive(tmp_path).read_bytes()


@pytest.mark.parametrize(
    ("key", "version"), [("digits", "0.1.1"), ("other", "0.1.0"), ("../digits", "0.1.0"), ("digits", "..\n"), ("", "")]
)
def test_what_is_not_registered_is_not_found(local_store: ObjectStore, tmp_path: Path, key: str, version: str) -> None:
    packages = Packages(local_store)
    packages.register(archive(tmp_path), archive_name="a.zip")

    with pytest.raises(NotFoundError, match="is registered"):
        packages.find(key, version)


def test_packages_are_listed_by_key_and_by_precedence_of_versions(any_store: ObjectStore, tmp_path: Path) -> None:
    packages = Packages(any_store)
    for key, version in (("b", "1.10.0"), ("b", "1.9.0"), ("a", "2.0.0"), ("b", "1.10.0-rc.2"), ("b", "1.10.0-rc.10")):
        packages.register(archive(tmp_path, key=key, version=version), archive_name="a.zip")

    assert [(one.manifest.key, one.manifest.version) for one in packages.list()] == [
        ("a", "2.0.0"),
        ("b", "1.9.0"),
        ("b", "1.10.0-rc.2"),
        ("b", "1.10.0-rc.10"),
        ("b", "1.10.0"),
    ]


def test_versions_are_ordered_as_semantic_versions_are() -> None:
    ordered = ["1.0.0-1", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0", "1.0.0+b", "1.0.1"]

    assert sorted(set(ordered), key=version_order) == ordered


# --- records of others -------------------------------------------------------------------------------------------------


def reference(sha256: str = "a" * 64) -> dict[str, Any]:
    key = f"{PREFIX}/digits/0.1.0/{sha256}.zip"
    return {"bucket": "default", "object_key": key, "sha256": sha256, "size_bytes": 1000}


def record(**changes: Any) -> dict[str, Any]:
    registration = {"manifest": MANIFEST, "archive": reference(), "package_file_name": "digits.zip"}
    return {"reference": reference(), "registration": registration} | changes


def put(store: ObjectStore, content: bytes) -> None:
    store.publish_bytes(content, "default", f"{PREFIX}/digits/0.1.0/registration.json")


def test_a_record_of_the_present_service_is_read(any_store: ObjectStore) -> None:
    written = record()
    written["registration"]["note"] = "a field of theirs"
    put(any_store, dump_canonical(written))

    found = Packages(any_store).find("digits", "0.1.0")

    assert found.archive.sha256 == "a" * 64
    assert found.manifest.entrypoint == "train.py"
    assert found.registration["note"] == "a field of theirs"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not JSON"),
        (b"[]", "reference|registration: must be an object"),
        (json.dumps(record(registration=None)).encode(), "registration: must be an object"),
        (json.dumps(record(reference=None)).encode(), "reference: must be an object"),
        (json.dumps(record(reference=reference("b" * 64))).encode(), "names another object"),
        (
            json.dumps(record(registration={"archive": reference()})).encode(),
            "registration.manifest: must be an object",
        ),
        (
            json.dumps(
                record(registration={"archive": reference(), "manifest": {**MANIFEST, "key": "other"}})
            ).encode(),
            "belongs under another key",
        ),
        (
            json.dumps(
                record(registration={"archive": reference(), "manifest": {**MANIFEST, "version": "x"}})
            ).encode(),
            "version",
        ),
        (json.dumps(record(reference={**reference(), "sha256": None})).encode(), "sha256"),
    ],
)
def test_an_unreadable_record_is_named_and_never_overwritten(
    local_store: ObjectStore, tmp_path: Path, content: bytes, said: str
) -> None:
    put(local_store, content)

    with pytest.raises(InvalidDocumentError, match=said) as refused:
        Packages(local_store).register(archive(tmp_path), archive_name="a.zip")

    assert refused.value.context["key"] == f"{PREFIX}/digits/0.1.0/registration.json"
    assert stored(local_store) == [f"{PREFIX}/digits/0.1.0/registration.json"]
