from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from contracts.base import validate
from contracts.errors import ArchiveRejectedError, InvalidDocumentError, NotFoundError
from contracts.model_package import ModelPackageManifest
from contracts.strict_json import dump_canonical
from contracts.submission import ModelArtifact
from runtime.registry.model_packages import ModelPackages
from tests.assets.hostile_zips import MODEL_MANIFEST, model_zip

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.store.objects import ObjectStore

PREFIX = "training-code-runtime/model-packages"
MODEL, CHECKPOINT = b"model" * 1000, b"checkpoint" * 1000


def archive(tmp_path: Path, **changes: object) -> Path:
    path = tmp_path / f"{abs(hash(str(changes)))}.zip"
    path.write_bytes(model_zip(**changes))
    return path


def pinned(sha256: str, name: str, content: bytes) -> dict[str, Any]:
    return {
        "bucket": "models",
        "object_key": f"{PREFIX}/{sha256}/{name}",
        "sha256": hashlib.sha256(content).hexdigest(),
        "size_bytes": len(content),
    }


def test_the_registration_has_the_wire_form(local_store: ObjectStore, tmp_path: Path) -> None:
    path = archive(tmp_path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()

    registered = ModelPackages(local_store).register(path, archive_name="start.zip")

    artifact = {
        "source": "uploaded_model_package",
        "format": "npz",
        "task_kind": "classification",
        "class_names": ["0", "1"],
        "framework": "sklearn",
        "metadata": {"trained_on": "digits"},
    }
    assert registered.registration == {
        "manifest": validate(ModelPackageManifest, MODEL_MANIFEST).to_document(),
        "archive": pinned(digest, "source.zip", path.read_bytes()),
        "package_file_name": "start.zip",
        "initialize_artifact": artifact
        | {
            "object": pinned(digest, "initialize.npz", MODEL),
            "display_name": "Digits start",
            "resume_supported": False,
        },
        "resume_artifact": artifact
        | {
            "object": pinned(digest, "resume-checkpoint.npz", CHECKPOINT),
            "display_name": "Digits start (resume checkpoint)",
            "resume_supported": True,
        },
    }
    record = local_store.read_small("models", f"{PREFIX}/{digest}/registration.json", max_bytes=1 << 20)
    assert record == dump_canonical(
        {"reference": registered.registration["archive"], "registration": registered.registration}
    )


def test_the_model_and_the_checkpoint_can_be_read(any_store: ObjectStore, tmp_path: Path) -> None:
    registered = ModelPackages(any_store).register(archive(tmp_path), archive_name="start.zip")

    assert registered.created
    assert registered.resume_artifact is not None
    model = validate(ModelArtifact, registered.initialize_artifact).object.pinned()
    checkpoint = validate(ModelArtifact, registered.resume_artifact).object.pinned()
    assert any_store.read_verified(model, max_bytes=1 << 20) == MODEL
    assert any_store.read_verified(checkpoint, max_bytes=1 << 20) == CHECKPOINT


def test_a_package_without_checkpoint_has_none(local_store: ObjectStore, tmp_path: Path) -> None:
    registered = ModelPackages(local_store).register(
        archive(tmp_path, resume_checkpoint_path=None), archive_name="start.zip"
    )

    assert registered.resume_artifact is None
    assert registered.registration["resume_artifact"] is None


def test_the_longest_name_still_makes_valid_artifacts(local_store: ObjectStore, tmp_path: Path) -> None:
    registered = ModelPackages(local_store).register(archive(tmp_path, name="n" * 255), archive_name="start.zip")

    assert registered.resume_artifact is not None
    assert len(registered.resume_artifact["display_name"]) == 255
    assert registered.resume_artifact["display_name"].endswith("n (resume checkpoint)")


def test_the_same_archive_again_is_answered_as_it_was_registered(any_store: ObjectStore, tmp_path: Path) -> None:
    packages = ModelPackages(any_store)
    first = packages.register(archive(tmp_path), archive_name="first.zip")

    again = packages.register(archive(tmp_path), archive_name="again.zip")

    assert not again.created
    assert again.registration == first.registration


def test_of_many_that_register_one_archive_one_made_it(any_store: ObjectStore, tmp_path: Path) -> None:
    path = archive(tmp_path)

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(lambda n: ModelPackages(any_store).register(path, archive_name=f"{n}.zip"), range(6)))

    assert sorted(outcome.created for outcome in outcomes) == [False] * 5 + [True]
    assert len({outcome.registration["package_file_name"] for outcome in outcomes}) == 1


@pytest.mark.parametrize("name", ["source.zip", "initialize.npz", "resume-checkpoint.npz"])
def test_a_lost_object_is_healed_by_registering_again(local_store: ObjectStore, tmp_path: Path, name: str) -> None:
    packages = ModelPackages(local_store)
    registered = packages.register(archive(tmp_path), archive_name="start.zip")
    lost = local_store.local_path("models", f"{PREFIX}/{registered.archive.sha256}/{name}")
    assert lost is not None
    lost.unlink()

    again = packages.register(archive(tmp_path), archive_name="start.zip")

    assert lost.exists()
    assert not again.created


def test_a_refused_archive_leaves_nothing_in_the_store(local_store: ObjectStore, tmp_path: Path) -> None:
    with pytest.raises(ArchiveRejectedError):
        ModelPackages(local_store).register(archive(tmp_path, artifact_path="none.npz"), archive_name="start.zip")

    assert list(local_store.list("models", "training-code-runtime/")) == []


def test_nothing_is_left_of_what_was_unpacked(local_store: ObjectStore, tmp_path: Path) -> None:
    ModelPackages(local_store).register(archive(tmp_path), archive_name="start.zip")

    assert list((tmp_path / "store" / ".spool").iterdir()) == []


def test_a_received_archive_is_registered_with_its_model_and_checkpoint(any_store: ObjectStore, tmp_path: Path) -> None:
    content = archive(tmp_path).read_bytes()
    with any_store.spool() as spool:
        spool.write(content)
        registered = ModelPackages(any_store).register(spool, archive_name="start.zip")

    assert registered.created
    assert any_store.read_verified(registered.archive, max_bytes=1 << 20) == content
    assert registered.resume_artifact is not None
    for artifact, expected in ((registered.initialize_artifact, MODEL), (registered.resume_artifact, CHECKPOINT)):
        pinned = validate(ModelArtifact, artifact).object.pinned()
        assert any_store.read_verified(pinned, max_bytes=1 << 20) == expected


def test_a_model_package_is_found_by_its_digest(any_store: ObjectStore, tmp_path: Path) -> None:
    registered = ModelPackages(any_store).register(archive(tmp_path), archive_name="start.zip")

    assert ModelPackages(any_store).find(registered.archive.sha256).registration == registered.registration


@pytest.mark.parametrize("sha256", ["0" * 64, "", "../" * 10, "A" * 64])
def test_what_is_not_registered_is_not_found(local_store: ObjectStore, sha256: str) -> None:
    with pytest.raises(NotFoundError, match="is registered"):
        ModelPackages(local_store).find(sha256)


def test_model_packages_are_listed_by_name(any_store: ObjectStore, tmp_path: Path) -> None:
    packages = ModelPackages(any_store)
    for name in ("b", "c", "a"):
        packages.register(archive(tmp_path, name=name), archive_name="start.zip")

    assert [one.manifest.name for one in packages.list()] == ["a", "b", "c"]


def test_a_record_of_the_present_service_is_read(local_store: ObjectStore) -> None:
    put(local_store, record())

    found = ModelPackages(local_store).find("a" * 64)

    assert found.initialize_artifact["display_name"] == "Start"
    assert found.resume_artifact is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"initialize_artifact": None}, "registration.initialize_artifact: required here"),
        ({"initialize_artifact": "x"}, "registration.initialize_artifact: must be an object"),
        ({"initialize_artifact": {}}, "object: required here"),
        ({"archive": pinned("a" * 64, "source.zip", b"other")}, "reference: names another object"),
    ],
)
def test_an_unreadable_record_is_named(local_store: ObjectStore, changes: dict[str, Any], said: str) -> None:
    written = record()
    written["registration"].update(changes)
    put(local_store, written)

    with pytest.raises(InvalidDocumentError, match=said) as refused:
        ModelPackages(local_store).find("a" * 64)

    assert refused.value.context["key"] == f"{PREFIX}/{'a' * 64}/registration.json"


def test_a_record_under_another_digest_is_refused(local_store: ObjectStore) -> None:
    put(local_store, record(), under="b" * 64)

    with pytest.raises(InvalidDocumentError, match="belongs under another key"):
        ModelPackages(local_store).find("b" * 64)


def record() -> dict[str, Any]:
    """As the legacy service writes it; what it leaves out has a default."""
    reference = {**pinned("a" * 64, "source.zip", b""), "sha256": "a" * 64}
    manifest = {
        key: value for key, value in MODEL_MANIFEST.items() if key not in ("metadata", "resume_checkpoint_path")
    }
    initialize = {
        "source": "uploaded_model_package",
        "object": pinned("a" * 64, "initialize.npz", MODEL),
        "format": "npz",
        "task_kind": "classification",
        "class_names": ["0", "1"],
        "display_name": "Start",
    }
    registration = {
        "manifest": manifest,
        "archive": reference,
        "package_file_name": "start.zip",
        "initialize_artifact": initialize,
    }
    return json.loads(json.dumps({"reference": reference, "registration": registration}))


def put(store: ObjectStore, written: dict[str, Any], under: str = "a" * 64) -> None:
    store.publish_bytes(dump_canonical(written), "models", f"{PREFIX}/{under}/registration.json")
