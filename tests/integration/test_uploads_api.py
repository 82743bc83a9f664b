"""Direct uploads over HTTP: the whole way on both kinds of store, and every way in which it can end otherwise."""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from contracts.limits import ABANDONED_UPLOAD_SECONDS, MIB, UPLOAD_SECONDS
from runtime.registry.uploads import PREFIX, reap_uploads
from runtime.store.objects import ObjectStore
from tests.assets.api_server import ApiServer
from tests.assets.hostile_zips import CODE, Entry, Zip, manifest_entry, model_zip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.assets.api_server import Answer
    from tests.assets.s3_server import S3Server

pytestmark = pytest.mark.service

TOKEN = {"Authorization": "Bearer right"}


@pytest.fixture(scope="module")
def local_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("api") / "home", MTR_API_TOKEN="right") as server:
        yield server


@pytest.fixture(scope="module")
def s3_api(tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server) -> Iterator[ApiServer]:
    prefix = f"up{os.getpid()}"
    ObjectStore.s3(s3_server.settings(prefix)).ensure_buckets()
    home = tmp_path_factory.mktemp("api-s3") / "home"
    with ApiServer(home, MTR_API_TOKEN="right", **s3_server.environment(prefix)) as server:
        yield server


@pytest.fixture(params=["local", "s3"])
def api(request: pytest.FixtureRequest) -> ApiServer:
    found: ApiServer = request.getfixturevalue(f"{request.param}_api")
    return found


@pytest.fixture
def store(api: ApiServer, s3_server: S3Server) -> ObjectStore:
    if "S3_ENDPOINT" in api._settings:
        return ObjectStore.s3(s3_server.settings(f"up{os.getpid()}"))
    return ObjectStore.local(api.home / "store")


@pytest.fixture
def content(request: pytest.FixtureRequest) -> bytes:
    """A package that only this test has."""
    key = f"k{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]}"
    return Zip([manifest_entry(key=key), Entry(b"train.py", CODE)]).build()


def begin(api: ApiServer, content: bytes, **changes: object) -> Answer:
    asked = {
        "kind": "training_code_package",
        "archive_name": "digits.zip",
        "sha256": hashlib.sha256(content).hexdigest(),
        "size_bytes": len(content),
        **changes,
    }
    return api.ask("POST", "/v1/uploads", json.dumps(asked).encode(), TOKEN | {"Content-Type": "application/json"})


def send(api: ApiServer, upload: dict[str, Any], content: bytes) -> Answer:
    """As the answer says, and without a token."""
    return api.ask(upload["method"], upload["url"], content, upload["headers"])


def complete(api: ApiServer, upload: dict[str, Any]) -> Answer:
    return api.ask("POST", f"/v1/uploads/{upload['upload_id']}/complete", b"", TOKEN)


def state(api: ApiServer, upload: dict[str, Any]) -> Any:
    return api.ask("GET", f"/v1/uploads/{upload['upload_id']}").document


def put_into(store: ObjectStore, upload: dict[str, Any], content: bytes) -> None:
    """Past the address that was answered."""
    store.publish_bytes(content, "default", f"{PREFIX}{upload['upload_id']}/content")


def aged(store: ObjectStore, upload: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The same upload, begun so long ago: its id is its age."""
    old_id = upload["upload_id"]
    milliseconds = int((time.time() - seconds) * 1000)
    new_id = f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}{old_id[13:]}"
    for name in ("upload.json", "content"):
        key = f"{PREFIX}{old_id}/{name}"
        if store.exists("default", key):
            store.publish_bytes(store.read_small("default", key, max_bytes=MIB), "default", f"{PREFIX}{new_id}/{name}")
            store.remove("default", key)
    return upload | {"upload_id": new_id, "url": upload["url"].replace(old_id, new_id)}


def test_a_package_is_uploaded_and_registered(api: ApiServer, store: ObjectStore, content: bytes) -> None:
    upload = begin(api, content).document
    assert send(api, upload, content).status == 200

    answer = complete(api, upload)

    archive = answer.document["registration"]["archive"]
    assert (answer.status, answer.document["created"]) == (200, True)
    assert store.read_small(archive["bucket"], archive["object_key"], max_bytes=MIB) == content


def test_it_is_registered_as_the_registration_endpoint_would(api: ApiServer, content: bytes) -> None:
    upload = begin(api, content).document
    send(api, upload, content)
    completed = complete(api, upload).document

    again = api.ask("POST", "/v1/registrations/packages?archive_name=again.zip", content, TOKEN).document

    assert again == {"created": False, "registration": completed["registration"]}


def test_a_model_package_is_uploaded_and_registered(api: ApiServer, content: bytes) -> None:
    model = model_zip(name=hashlib.sha256(content).hexdigest())
    upload = begin(api, model, kind="training_model_package").document
    send(api, upload, model)

    answer = complete(api, upload)

    assert (answer.status, answer.document["created"]) == (200, True)
    assert answer.document["registration"]["initialize_artifact"]["format"] == "npz"


def test_completing_again_answers_the_same(api: ApiServer, content: bytes) -> None:
    upload = begin(api, content).document
    send(api, upload, content)
    first = complete(api, upload)

    again = complete(api, upload)

    assert (again.status, again.body) == (200, first.body)


def test_the_put_goes_to_the_store_itself(s3_api: ApiServer, s3_server: S3Server, content: bytes) -> None:
    upload = begin(s3_api, content).document

    assert upload["url"].startswith(s3_server.endpoint)


def test_a_store_of_local_folders_is_reached_through_the_api(local_api: ApiServer, content: bytes) -> None:
    upload = begin(local_api, content).document

    assert upload["url"] == f"{local_api.address}/v1/uploads/{upload['upload_id']}/content"


def test_the_address_that_clients_see_is_the_configured_one(tmp_path: Any, content: bytes) -> None:
    with ApiServer(tmp_path / "home", MTR_BASE_URL="https://training.example/api/") as server:
        upload = begin(server, content).document

    assert upload["url"] == f"https://training.example/api/v1/uploads/{upload['upload_id']}/content"


def test_an_upload_tells_how_far_it_is(api: ApiServer, content: bytes) -> None:
    upload = begin(api, content).document
    seen = [state(api, upload)["state"]]
    send(api, upload, content)
    seen.append(state(api, upload)["state"])
    complete(api, upload)
    seen.append(state(api, upload)["state"])

    assert seen == ["waiting", "received", "completed"]


def test_how_far_it_is_tells_no_secret(local_api: ApiServer, content: bytes) -> None:
    upload = begin(local_api, content).document

    assert upload["headers"]["X-Upload-Secret"] not in json.dumps(state(local_api, upload))


def test_the_log_has_no_secret(tmp_path: Any, content: bytes) -> None:
    with ApiServer(tmp_path / "home") as server:
        upload = begin(server, content).document
        send(server, upload, content)
        server.stop()

        assert upload["headers"]["X-Upload-Secret"] not in server.log


def test_other_bytes_than_announced_are_refused_at_once(local_api: ApiServer, content: bytes) -> None:
    upload = begin(local_api, content).document

    answer = send(local_api, upload, content[:-1] + b"x")

    assert (answer.status, answer.code) == (409, "digest_mismatch")


def test_more_bytes_than_announced_are_refused_at_once(local_api: ApiServer, content: bytes) -> None:
    upload = begin(local_api, content).document

    answer = send(local_api, upload, content + b"x")

    assert (answer.status, answer.code) == (413, "archive_too_large")


def test_the_store_refuses_other_bytes_than_announced(s3_api: ApiServer, content: bytes) -> None:
    upload = begin(s3_api, content).document

    assert send(s3_api, upload, content[:-1] + b"x").status in (400, 403)


def test_other_bytes_in_the_store_are_not_registered(api: ApiServer, store: ObjectStore, content: bytes) -> None:
    upload = begin(api, content).document
    put_into(store, upload, content[:-1] + b"x")

    answer = complete(api, upload)

    assert (answer.status, answer.code) == (409, "digest_mismatch")


def test_an_upload_without_its_bytes_is_not_registered(api: ApiServer, content: bytes) -> None:
    upload = begin(api, content).document

    answer = complete(api, upload)

    assert (answer.status, answer.code) == (409, "upload_incomplete")


def test_an_archive_that_breaks_the_rules_is_not_registered(api: ApiServer, content: bytes) -> None:
    bad = Zip([manifest_entry(key="bad"), Entry(b"train.py", CODE), Entry(b".env", content)]).build()
    upload = begin(api, bad).document
    send(api, upload, bad)

    answer = complete(api, upload)

    assert (answer.status, answer.code) == (422, "archive_rejected")


def test_a_version_that_is_taken_is_a_conflict(api: ApiServer, content: bytes) -> None:
    upload = begin(api, content).document
    send(api, upload, content)
    key = json.loads(content[content.index(b"{") : content.index(b"PK", 4)])["key"]
    other = Zip([manifest_entry(key=key), Entry(b"train.py", b"first = True\n")]).build()
    api.ask("POST", "/v1/registrations/packages", other, TOKEN)

    answer = complete(api, upload)

    assert (answer.status, answer.code) == (409, "conflict")


def test_an_upload_over_the_limit_is_not_begun(tmp_path: Any, content: bytes) -> None:
    with ApiServer(tmp_path / "home", MTR_MAX_UPLOAD_BYTES="100") as server:
        answer = begin(server, content)

    assert (answer.status, answer.code) == (413, "archive_too_large")


@pytest.mark.parametrize(
    "changes", [{"kind": "dataset"}, {"sha256": "x"}, {"size_bytes": 0}, {"size_bytes": "9"}, {"more": 1}]
)
def test_what_is_announced_wrongly_is_refused_by_its_field(
    local_api: ApiServer, content: bytes, changes: dict[str, object]
) -> None:
    answer = begin(local_api, content, **changes)

    assert (answer.status, answer.code) == (422, "invalid_document")
    assert [violation["path"] for violation in answer.document["context"]["violations"]] == list(changes)


def test_an_expired_upload_is_not_registered(api: ApiServer, store: ObjectStore, content: bytes) -> None:
    upload = begin(api, content).document
    put_into(store, upload, content)

    answer = complete(api, aged(store, upload, UPLOAD_SECONDS + 60))

    assert (answer.status, answer.code) == (410, "upload_expired")


def test_an_expired_upload_says_so(api: ApiServer, store: ObjectStore, content: bytes) -> None:
    upload = aged(store, begin(api, content).document, UPLOAD_SECONDS + 60)

    assert state(api, upload)["state"] == "expired"


def test_an_expired_address_takes_no_bytes(local_api: ApiServer, content: bytes) -> None:
    store = ObjectStore.local(local_api.home / "store")
    upload = aged(store, begin(local_api, content).document, UPLOAD_SECONDS + 60)

    answer = send(local_api, upload, content)

    assert (answer.status, answer.code) == (410, "upload_expired")


def test_a_guessed_secret_takes_no_bytes(local_api: ApiServer, content: bytes) -> None:
    upload = begin(local_api, content).document

    answer = local_api.ask("PUT", upload["url"], content, {"X-Upload-Secret": "guessed"})

    assert (answer.status, answer.code) == (404, "not_found")


def test_without_a_secret_no_bytes_are_taken(local_api: ApiServer, content: bytes) -> None:
    upload = begin(local_api, content).document

    answer = local_api.ask("PUT", upload["url"], content, TOKEN)

    assert (answer.status, answer.code) == (422, "invalid_document")


def test_an_abandoned_upload_is_gone(api: ApiServer, store: ObjectStore, content: bytes) -> None:
    upload = begin(api, content).document
    put_into(store, upload, content)

    answer = api.ask("DELETE", f"/v1/uploads/{upload['upload_id']}", headers=TOKEN)

    assert answer.status == 204
    assert list(store.list("default", f"{PREFIX}{upload['upload_id']}/")) == []


def test_a_reaped_upload_is_not_found(api: ApiServer, store: ObjectStore, content: bytes) -> None:
    upload = begin(api, content).document
    put_into(store, upload, content)
    upload = aged(store, upload, ABANDONED_UPLOAD_SECONDS + 60)
    reap_uploads(store)

    answer = complete(api, upload)

    assert (answer.status, answer.code) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/uploads"), ("POST", "/v1/uploads/x/complete"), ("DELETE", "/v1/uploads/x")]
)
def test_uploads_are_begun_and_ended_with_the_token(local_api: ApiServer, method: str, path: str) -> None:
    assert local_api.ask(method, path, b"{}", {"Content-Type": "application/json"}).status == 401


@pytest.mark.parametrize("upload_id", ["x", "0190b5a0-0000-7000-8000-000000000000", "..%2Fx"])
def test_what_is_no_upload_is_not_found(local_api: ApiServer, upload_id: str) -> None:
    assert local_api.ask("GET", f"/v1/uploads/{upload_id}").status == 404
