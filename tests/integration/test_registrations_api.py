"""Registering over HTTP: large bodies in little memory, every refusal with its status, and nothing left of what broke off."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from contracts.limits import GIB, MIB
from runtime.store.objects import ObjectStore
from tests.assets.api_server import ApiServer, finish
from tests.assets.hostile_zips import CODE, MANIFEST, Entry, Zip, manifest_entry, model_zip

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.assets.s3_server import S3Server

pytestmark = pytest.mark.service

PACKAGES, MODELS, SNAPSHOTS = (
    f"/v1/registrations/{kind}" for kind in ("packages", "model-packages", "dataset-snapshots")
)
TOKEN = {"Authorization": "Bearer right"}
ZIP = TOKEN | {"Content-Type": "application/zip"}
JSON = TOKEN | {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def local_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("api") / "home", MTR_API_TOKEN="right") as server:
        yield server


@pytest.fixture(scope="module")
def s3_api(tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server) -> Iterator[ApiServer]:
    prefix = f"api{os.getpid()}"
    ObjectStore.s3(s3_server.settings(prefix)).ensure_buckets()
    home = tmp_path_factory.mktemp("api-s3") / "home"
    with ApiServer(home, MTR_API_TOKEN="right", **s3_server.environment(prefix)) as server:
        yield server


@pytest.fixture(params=["local", "s3"])
def api(request: pytest.FixtureRequest) -> ApiServer:
    found: ApiServer = request.getfixturevalue(f"{request.param}_api")
    return found


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A package key that only this test uses."""
    return f"k{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]}"


def package(key: str, code: bytes = CODE, *more: Entry) -> bytes:
    return Zip([manifest_entry(key=key), Entry(b"train.py", code), *more]).build()


def stored_files(server: ApiServer) -> list[str]:
    """Every file of the server's own store and of what it was receiving."""
    store = server.home / "store"
    return sorted(str(path.relative_to(store)) for path in store.rglob("*") if path.is_file())


def spooled(server: ApiServer) -> list[Path]:
    return [
        path
        for folder in ("store/.spool", "spool")
        if (server.home / folder).is_dir()
        for path in (server.home / folder).iterdir()
    ]


def await_true(holds: Any, what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def large_package(folder: Path, key: str, size_bytes: int) -> Path:
    """A package with one stored member of random bytes, so that nothing gains from their being alike."""
    path = folder / "large.zip"
    piece = os.urandom(MIB)
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        archive.writestr("training_package.json", json.dumps({**MANIFEST, "key": key}))
        archive.writestr("train.py", CODE)
        with archive.open("data.bin", "w", force_zip64=True) as member:
            for _ in range(size_bytes // MIB):
                member.write(piece)
    return path


# --- packages --------------------------------------------------------------------------------------------------------


def test_a_package_is_registered_with_its_bytes(api: ApiServer, key: str) -> None:
    content = package(key)
    digest = hashlib.sha256(content).hexdigest()

    answer = api.ask("POST", f"{PACKAGES}?archive_name=digits.zip", content, ZIP)

    assert answer.status == 200, answer.body
    registration = answer.document["registration"]
    assert answer.document["created"] is True
    assert registration["manifest"]["key"] == key
    assert registration["package_file_name"] == "digits.zip"
    assert registration["archive"] == {
        "bucket": "default",
        "object_key": f"training-code-runtime/packages/{key}/0.1.0/{digest}.zip",
        "sha256": digest,
        "size_bytes": len(content),
    }


def test_the_same_package_again_is_answered_as_it_was_registered(api: ApiServer, key: str) -> None:
    first = api.ask("POST", f"{PACKAGES}?archive_name=first.zip", package(key), ZIP).document

    again = api.ask("POST", f"{PACKAGES}?archive_name=again.zip", package(key), ZIP)

    assert (again.status, again.document) == (200, {"created": False, "registration": first["registration"]})


def test_a_body_of_unannounced_length_is_taken(local_api: ApiServer, key: str) -> None:
    content = package(key)

    answer = local_api.ask("POST", PACKAGES, (content[at : at + 7] for at in range(0, len(content), 7)), ZIP)

    assert (answer.status, answer.document["created"]) == (200, True)


def test_another_archive_of_a_version_is_a_conflict(api: ApiServer, key: str) -> None:
    api.ask("POST", PACKAGES, package(key), ZIP)

    answer = api.ask("POST", PACKAGES, package(key, b"other = True\n"), ZIP)

    assert (answer.status, answer.code) == (409, "conflict")


def test_an_archive_that_breaks_the_rules_is_refused_before_its_version_is_looked_at(api: ApiServer, key: str) -> None:
    api.ask("POST", PACKAGES, package(key), ZIP)

    answer = api.ask("POST", PACKAGES, package(key, CODE, Entry(b".env", b"SECRET=1")), ZIP)

    assert (answer.status, answer.code) == (422, "archive_rejected")
    assert answer.document["context"]["violations"][0]["path"] == ".env"


def test_a_manifest_that_breaks_its_contract_is_refused(local_api: ApiServer, key: str) -> None:
    content = Zip([manifest_entry(key=key, version="one"), Entry(b"train.py", CODE)]).build()

    answer = local_api.ask("POST", PACKAGES, content, ZIP)

    assert (answer.status, answer.code) == (422, "invalid_document")


@pytest.mark.parametrize("content", [b"", b"no zip file"])
def test_what_is_no_archive_is_refused(local_api: ApiServer, content: bytes) -> None:
    answer = local_api.ask("POST", PACKAGES, content, ZIP)

    assert (answer.status, answer.code) == (422, "archive_rejected")


def test_nothing_is_left_of_a_refused_archive(local_api: ApiServer, key: str) -> None:
    before = stored_files(local_api)

    local_api.ask("POST", PACKAGES, package(key, CODE, Entry(b".env", b"SECRET=1")), ZIP)

    assert stored_files(local_api) == before


@pytest.mark.parametrize("path", [PACKAGES, MODELS, SNAPSHOTS])
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
def test_without_the_token_nothing_is_read(local_api: ApiServer, path: str, headers: dict[str, str]) -> None:
    answer = local_api.ask("POST", path, b"", headers)

    assert answer.status == 401


def test_clients_that_register_the_same_bytes_at_once_get_one_registration(api: ApiServer, key: str) -> None:
    content = package(key)
    names = [f"{PACKAGES}?archive_name={number}.zip" for number in range(6)]
    with ThreadPoolExecutor(6) as clients:
        answers = list(clients.map(lambda path: api.ask("POST", path, content, ZIP), names))

    assert sorted(answer.document["created"] for answer in answers) == [False] * 5 + [True]
    assert len({json.dumps(answer.document["registration"]) for answer in answers}) == 1


def test_of_clients_that_register_different_bytes_at_once_one_wins(api: ApiServer, key: str) -> None:
    contents = [package(key, f"number = {number}\n".encode()) for number in range(6)]
    with ThreadPoolExecutor(6) as clients:
        answers = list(clients.map(lambda content: api.ask("POST", PACKAGES, content, ZIP), contents))

    assert sorted(answer.status for answer in answers) == [200] + [409] * 5


def test_nothing_is_left_of_those_who_lose(local_api: ApiServer, key: str) -> None:
    contents = [package(key, f"number = {number}\n".encode()) for number in range(6)]
    with ThreadPoolExecutor(6) as clients:
        list(clients.map(lambda content: local_api.ask("POST", PACKAGES, content, ZIP), contents))

    assert len([path for path in stored_files(local_api) if f"/{key}/" in path]) == 2  # the archive and the record


def test_a_client_that_leaves_in_between_leaves_nothing(api: ApiServer, key: str) -> None:
    content = package(key, bytes(9 * MIB))
    with api.begin(PACKAGES, len(content), ZIP) as connection:
        connection.sendall(content[: 8 * MIB])
        await_true(lambda: spooled(api), "something is being received")

    await_true(lambda: not spooled(api), "what was received is gone")
    assert api.ask("POST", PACKAGES, content, ZIP).document["created"] is True


def test_a_body_that_ends_before_its_announced_length_registers_nothing(local_api: ApiServer, key: str) -> None:
    content = package(key)
    with local_api.begin(PACKAGES, len(content) + 1, ZIP) as connection:
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)

    await_true(lambda: not spooled(local_api), "what was received is gone")
    assert not [path for path in stored_files(local_api) if f"/{key}/" in path]


def test_nothing_is_left_by_a_server_that_is_killed_while_it_receives(tmp_path: Path, key: str) -> None:
    content = package(key, bytes(9 * MIB))
    with ApiServer(tmp_path / "home", MTR_API_TOKEN="right") as server:
        with server.begin(PACKAGES, len(content), ZIP) as connection:
            connection.sendall(content[: 8 * MIB])
            await_true(lambda: spooled(server), "something is being received")
            server.kill()
        server.start()
        answer = server.ask("POST", PACKAGES, content, ZIP)

        assert answer.document["created"] is True
        assert spooled(server) == []


def test_an_archive_over_the_limit_is_refused_while_it_arrives(tmp_path: Path) -> None:
    with ApiServer(tmp_path / "home", MTR_API_TOKEN="right", MTR_MAX_UPLOAD_BYTES=str(MIB)) as server:
        with server.begin(PACKAGES, 100 * GIB, ZIP) as connection:
            connection.sendall(bytes(MIB + 1))
            answer = finish(connection)

        assert (answer.status, answer.code) == (413, "archive_too_large")
        assert spooled(server) == []


def test_an_archive_that_unpacks_to_more_than_the_limit_is_refused(tmp_path: Path, key: str) -> None:
    with ApiServer(tmp_path / "home", MTR_API_TOKEN="right", MTR_MAX_UPLOAD_BYTES=str(MIB)) as server:
        answer = server.ask("POST", PACKAGES, package(key, CODE, Entry(b"zeros.bin", bytes(2 * MIB), 8)), ZIP)

    assert (answer.status, answer.code) == (413, "archive_too_large")


def test_a_gibibyte_is_registered_in_less_than_200_mb(tmp_path: Path, key: str) -> None:
    large = large_package(tmp_path, key, GIB)
    with ApiServer(tmp_path / "home", MTR_API_TOKEN="right") as server:
        answer = server.send_file(PACKAGES, large, ZIP)

        assert (answer.status, answer.document["created"]) == (200, True)
        assert server.peak_bytes < 200_000_000


# --- model packages --------------------------------------------------------------------------------------------------


def test_a_model_package_is_registered_with_its_artifacts(api: ApiServer, key: str) -> None:
    content = model_zip(name=key)
    digest = hashlib.sha256(content).hexdigest()

    answer = api.ask("POST", f"{MODELS}?archive_name=start.zip", content, ZIP)

    registration = answer.document["registration"]
    assert (answer.status, answer.document["created"]) == (200, True)
    prefix = f"training-code-runtime/model-packages/{digest}/"
    assert [
        registration[name]["object"]["object_key"].removeprefix(prefix)
        for name in ("initialize_artifact", "resume_artifact")
    ] == ["initialize.npz", "resume-checkpoint.npz"]


def test_the_same_model_package_again_is_answered_as_it_was_registered(api: ApiServer, key: str) -> None:
    first = api.ask("POST", MODELS, model_zip(name=key), ZIP).document

    again = api.ask("POST", MODELS, model_zip(name=key), ZIP)

    assert again.document == {"created": False, "registration": first["registration"]}


def test_a_model_package_without_its_model_is_refused(local_api: ApiServer) -> None:
    answer = local_api.ask("POST", MODELS, model_zip(artifact_path="none.npz"), ZIP)

    assert (answer.status, answer.code) == (422, "archive_rejected")


# --- data sets -------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(api: ApiServer, s3_server: S3Server) -> ObjectStore:
    if "S3_ENDPOINT" in api._settings:
        return ObjectStore.s3(s3_server.settings(f"api{os.getpid()}"))
    return ObjectStore.local(api.home / "store")


def source(keys: list[str], **more: object) -> bytes:
    items = [{"item_id": key, "media": {"bucket": "datasets", "object_key": key, **more}} for key in keys]
    document = {
        "protocol_version": "training-dataset-source-manifest/v1",
        "task_kind": "classification",
        "data_modalities": ["image"],
        "class_names": ["é"],
        "items": items,
    }
    return json.dumps(document).encode()


def test_a_snapshot_is_pinned_and_stored_under_its_digest(api: ApiServer, store: ObjectStore, key: str) -> None:
    for number in range(3):
        store.publish_bytes(f"image {number}".encode(), "datasets", f"{key}/{number}.png")

    answer = api.ask("POST", SNAPSHOTS, source([f"{key}/{number}.png" for number in range(3)]), JSON)

    assert answer.status == 200, answer.body
    registration = answer.document["registration"]
    assert answer.document["created"] is True
    assert [item["media"]["sha256"] for item in registration["source_manifest"]["items"]] == [
        hashlib.sha256(f"image {number}".encode()).hexdigest() for number in range(3)
    ]
    reference = registration["object"]
    assert reference["object_key"] == f"training-code-runtime/dataset-snapshots/{reference['sha256']}.json"
    content = store.read_small("default", reference["object_key"], max_bytes=MIB)
    assert json.loads(content) == registration["source_manifest"]
    assert hashlib.sha256(content).hexdigest() == reference["sha256"]


def test_the_same_data_set_again_is_the_same_snapshot(api: ApiServer, store: ObjectStore, key: str) -> None:
    store.publish_bytes(b"image", "datasets", f"{key}.png")
    first = api.ask("POST", SNAPSHOTS, source([f"{key}.png"]), JSON).document

    again = api.ask("POST", SNAPSHOTS, source([f"{key}.png"]), JSON)

    assert again.document == {"created": False, "registration": first["registration"]}


def test_a_data_set_whose_objects_are_missing_is_refused(api: ApiServer, key: str) -> None:
    answer = api.ask("POST", SNAPSHOTS, source([f"{key}-none.png"]), JSON)

    assert (answer.status, answer.code) == (422, "object_missing")


def test_a_data_set_that_states_another_digest_is_a_conflict(api: ApiServer, store: ObjectStore, key: str) -> None:
    store.publish_bytes(b"image", "datasets", f"{key}.png")

    answer = api.ask("POST", SNAPSHOTS, source([f"{key}.png"], sha256="0" * 64), JSON)

    assert (answer.status, answer.code) == (409, "digest_mismatch")


def test_a_source_manifest_that_breaks_its_contract_names_every_field(local_api: ApiServer) -> None:
    answer = local_api.ask("POST", SNAPSHOTS, b'{"task_kind": "Digits", "items": []}', JSON)

    assert (answer.status, answer.code) == (422, "invalid_document")
    assert {violation["path"] for violation in answer.document["context"]["violations"]} >= {
        "protocol_version",
        "task_kind",
        "items",
    }


def test_a_large_source_manifest_is_pinned(api: ApiServer, store: ObjectStore, key: str) -> None:
    store.publish_bytes(b"image", "datasets", f"{key}.png")
    items = [
        {
            "item_id": str(number),
            "media": {"bucket": "datasets", "object_key": f"{key}.png"},
            "metadata": {"note": "x" * 200},
        }
        for number in range(60_000)
    ]
    document = json.loads(source([f"{key}.png"])) | {"items": items}

    answer = api.ask("POST", SNAPSHOTS, json.dumps(document).encode(), JSON)

    assert answer.status == 200, answer.body[:500]
    assert len(answer.document["registration"]["source_manifest"]["items"]) == 60_000


def test_a_large_source_manifest_that_is_refused_says_why(api: ApiServer, key: str) -> None:
    items = [
        {
            "item_id": str(number),
            "media": {"bucket": "datasets", "object_key": f"{key}-none.png"},
            "metadata": {"note": "x" * 900},
        }
        for number in range(2_000)
    ]
    document = json.loads(source([f"{key}-none.png"])) | {"items": items}

    answer = api.ask("POST", SNAPSHOTS, json.dumps(document).encode(), JSON)

    assert (answer.status, answer.code) == (422, "object_missing")
