"""The HTTP API as a process: what it checks and keeps nothing of, who may write, and what one request may cost."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from contracts.base import ANNOUNCED, CONTRACTS, validate
from contracts.limits import MAX_HEADER_BYTES, MAX_JSON_BODY_BYTES
from tests.assets.api_server import ApiServer, finish
from tests.assets.documents import WHOLE, execution, package, result, smallest
from tests.assets.hostile_zips import MANIFEST, MODEL_MANIFEST, model_zip, package_zip

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.service

NEW_TOKEN, OLD_TOKEN = "the-new-token", "the-old-token"
JSON = {"Content-Type": "application/json"}
ZIP = {"Content-Type": "application/zip"}
PATHS = {
    "package": "package",
    "dataset_manifest": "dataset-manifest",
    "dataset_source_manifest": "dataset-source-manifest",
    "execution": "execution",
    "event": "event",
    "result": "result",
    "mq_submission": "mq-submission",
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    home = tmp_path_factory.mktemp("http-api") / "home"
    with ApiServer(home, MTR_API_TOKEN=NEW_TOKEN, MTR_API_PREVIOUS_TOKEN=OLD_TOKEN) as server:
        yield server


def posted(api: ApiServer, path: str, document: Any, headers: dict[str, str] = JSON) -> tuple[int, Any]:
    answer = api.ask("POST", path, document if isinstance(document, bytes) else json.dumps(document).encode(), headers)
    return answer.status, answer.document


# --- what runs here --------------------------------------------------------------------------------------------------


def test_health_says_that_execution_is_off_until_a_setting_turns_it_on(api: ApiServer) -> None:
    found = api.ask("GET", "/health").document
    assert found.pop("version")
    assert found == {
        "status": "ok",
        "service": "model-training-runtime",
        "mode": "contract_validation_only",
        "execution_enabled": False,
        "mq_consumer_enabled": False,
    }


def test_the_contracts_are_those_of_the_platform(api: ApiServer) -> None:
    found = api.ask("GET", "/v1/contracts").document
    assert found == {
        "service": "model-training-runtime",
        "experimental": False,
        "contracts": {
            "package": "training-code-package/v1",
            "dataset_manifest": "training-dataset-manifest/v1",
            "dataset_source_manifest": "training-dataset-source-manifest/v1",
            "model_package": "training-model-package/v1",
            "execution": "training-execution/v1",
            "event": "training-event/v1",
            "result": "training-result/v1",
            "mq_submission": "training-code-submit/v1",
        },
    }


# --- contracts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in ANNOUNCED if name != "model_package"])
@pytest.mark.parametrize("size", ["whole", "smallest"])
def test_a_valid_document_comes_back_normalized_and_is_valid_again(api: ApiServer, name: str, size: str) -> None:
    document = WHOLE[name] if size == "whole" else smallest(name)
    document = document() if callable(document) else document
    path = f"/v1/contracts/{PATHS[name]}/validate"

    status, answer = posted(api, path, document)

    assert (status, answer["valid"], answer["contract"]) == (200, True, CONTRACTS[name].version)
    assert answer["normalized"] == validate(name, json.dumps(document).encode()).to_document()
    assert posted(api, path, answer["normalized"]) == (200, answer)


def test_every_violation_of_a_document_is_named_at_once(api: ApiServer) -> None:
    document = {**smallest("package"), "key": "Digits\n", "surplus": 1, "entrypoint": "../train.py"}

    status, answer = posted(api, "/v1/contracts/package/validate", document)

    assert (status, answer["code"]) == (422, "invalid_document")
    assert sorted(one["path"] for one in answer["context"]["violations"]) == ["entrypoint", "key", "surplus"]
    assert set(answer) == {"detail", "code", "hint", "context"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "is not JSON"),
        (b"[]", "must be an object"),
        (b"{", "is not JSON"),
        (b"\xef\xbb\xbf{}", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
    ],
    ids=["nothing", "a list", "half", "byte order mark", "no UTF-8"],
)
def test_what_is_no_json_object_is_refused(api: ApiServer, body: bytes, said: str) -> None:
    status, answer = posted(api, "/v1/contracts/event/validate", body)
    assert (status, answer["code"]) == (422, "invalid_document")
    assert said in answer["detail"]


@pytest.mark.parametrize("number", ["1e400", "NaN", "-Infinity"])
def test_numbers_that_are_none_are_refused_in_free_maps_too(api: ApiServer, number: str) -> None:
    body = json.dumps({**smallest("mq_submission"), "parameters": "HERE"}).replace('"HERE"', f'{{"x": {number}}}')
    status, answer = posted(api, "/v1/contracts/mq-submission/validate", body.encode())
    assert (status, answer["code"]) == (422, "invalid_document")


def test_a_key_that_is_given_twice_is_refused(api: ApiServer) -> None:
    body = json.dumps(smallest("event"))[:-1] + ', "sequence": 0}'
    status, answer = posted(api, "/v1/contracts/event/validate", body.encode())
    assert (status, [one["path"] for one in answer["context"]["violations"]]) == (422, ["sequence"])


def test_a_document_that_is_too_deep_is_refused(api: ApiServer) -> None:
    body = json.dumps({**smallest("mq_submission"), "parameters": "HERE"}).replace(
        '"HERE"', '{"a":' * 200 + "1" + "}" * 200
    )
    status, answer = posted(api, "/v1/contracts/mq-submission/validate", body.encode())
    assert (status, answer["code"]) == (422, "invalid_document")


def test_a_contract_that_is_none_is_not_found(api: ApiServer) -> None:
    status, answer = posted(api, "/v1/contracts/nothing/validate", {})
    assert (status, answer["code"], answer["detail"]) == (
        404,
        "not_found",
        "there is no POST /v1/contracts/nothing/validate",
    )


@pytest.fixture(scope="module")
def large() -> dict[str, Any]:
    """A source manifest of some 6 MB, which no interpreter parses within a few milliseconds."""
    one = WHOLE["dataset_source_manifest"]
    document: dict[str, Any] = json.loads(json.dumps(one() if callable(one) else one))
    item = document["items"][0]
    document["items"] = [{**item, "item_id": f"{number:08}"} for number in range(20_000)]
    return document


def test_a_large_document_is_answered_as_a_small_one_and_nothing_is_kept(api: ApiServer, large: dict[str, Any]) -> None:
    status, answer = posted(api, "/v1/contracts/dataset-source-manifest/validate", large)
    assert (status, answer["contract"]) == (200, "training-dataset-source-manifest/v1")
    assert answer["normalized"] == validate("dataset_source_manifest", json.dumps(large).encode()).to_document()
    assert spooled(api) == []


def test_a_large_document_is_refused_as_a_small_one(api: ApiServer, large: dict[str, Any]) -> None:
    document = {**large, "surplus": 1}
    status, answer = posted(api, "/v1/contracts/dataset-source-manifest/validate", document)
    assert (status, answer["code"]) == (422, "invalid_document")
    assert [one["path"] for one in answer["context"]["violations"]] == ["surplus"]
    assert spooled(api) == []


def test_a_client_that_leaves_before_a_large_document_is_checked_leaves_nothing(
    api: ApiServer, large: dict[str, Any]
) -> None:
    body = json.dumps(large).encode()
    with api.begin("/v1/contracts/dataset-source-manifest/validate", len(body), JSON) as connection:
        connection.sendall(body)
    assert api.ask("GET", "/health").status == 200
    until = time.monotonic() + 60
    while (spooled(api) or checks_of(api)) and time.monotonic() < until:
        time.sleep(0.05)
    assert (spooled(api), checks_of(api)) == ([], [])
    assert "failed" not in api.log


def checks_of(api: ApiServer) -> list[int]:
    """The processes that check documents for this API."""
    return [child.pid for child in psutil.Process(api.pid).children() if "services.api.checks" in child.cmdline()]


# --- admission -------------------------------------------------------------------------------------------------------


def test_documents_that_agree_are_admitted(api: ApiServer) -> None:
    asked = {"manifest": package(), "execution": execution()}
    assert posted(api, "/v1/admission/execution/validate", asked) == (
        200,
        {"valid": True, "scope": "package_execution"},
    )
    assert posted(api, "/v1/admission/result/validate", {**asked, "result": result()}) == (
        200,
        {"valid": True, "scope": "package_execution_result"},
    )


def test_documents_that_do_not_agree_are_refused_with_every_reason(api: ApiServer) -> None:
    asked = {"manifest": {**package(), "key": "others", "class_names": ["bus", "car"]}, "execution": execution()}
    status, answer = posted(api, "/v1/admission/execution/validate", asked)
    assert (status, answer["code"]) == (422, "admission_refused")
    assert len(answer["context"]["violations"]) == 2


def test_a_result_that_was_not_promised_is_the_requests_fault_here(api: ApiServer) -> None:
    told = {**result(), "artifacts": []}
    asked = {"manifest": package(), "execution": execution(), "result": told}
    status, answer = posted(api, "/v1/admission/result/validate", asked)
    assert (status, answer["code"]) == (422, "result_refused")


def test_every_document_of_an_admission_is_checked_at_once(api: ApiServer) -> None:
    asked = {"manifest": {**package(), "version": "1"}, "execution": {**execution(), "surplus": 1}, "more": 1}
    status, answer = posted(api, "/v1/admission/result/validate", asked)
    assert status == 422
    paths = sorted(one["path"] for one in answer["context"]["violations"])
    assert paths == ["execution.surplus", "manifest.version", "more", "result"]


# --- archives --------------------------------------------------------------------------------------------------------


def test_a_code_package_is_validated_and_inspected(api: ApiServer) -> None:
    content = package_zip()
    facts = {"sha256": hashlib.sha256(content).hexdigest(), "file_count": 2}
    manifest = validate("package", MANIFEST).to_document()

    status, verdict = posted(api, "/v1/packages/archive/validate", content, ZIP)
    unpacked = verdict["uncompressed_bytes"]
    assert (status, verdict) == (200, {"valid": True, **facts, "uncompressed_bytes": unpacked, "manifest": manifest})

    status, found = posted(api, "/v1/packages/archive/inspect", content, ZIP)
    assert (status, found) == (
        200,
        {
            "kind": "training_code_package",
            "valid": True,
            "archive": {**facts, "uncompressed_bytes": unpacked},
            "configuration": manifest,
        },
    )


def test_a_model_package_is_validated_and_inspected(api: ApiServer) -> None:
    content = model_zip()
    facts = {"sha256": hashlib.sha256(content).hexdigest(), "file_count": 3}
    manifest = validate("model_package", MODEL_MANIFEST).to_document()

    status, verdict = posted(api, "/v1/model-packages/archive/validate", content, ZIP)
    unpacked = verdict["uncompressed_bytes"]
    assert (status, verdict) == (200, {"valid": True, **facts, "uncompressed_bytes": unpacked, "manifest": manifest})

    status, found = posted(api, "/v1/model-packages/archive/inspect", content, ZIP)
    assert (status, found["kind"], found["configuration"]) == (200, "training_model_package", manifest)
    assert found["archive"] == {**facts, "uncompressed_bytes": unpacked}


@pytest.mark.parametrize("kind", ["packages", "model-packages"])
@pytest.mark.parametrize("verb", ["validate", "inspect"])
def test_what_is_no_such_archive_is_refused_and_nothing_is_kept(api: ApiServer, kind: str, verb: str) -> None:
    other = package_zip() if kind == "model-packages" else model_zip()
    for content in (b"", b"no zip", other):
        status, answer = posted(api, f"/v1/{kind}/archive/{verb}", content, ZIP)
        assert (status, answer["code"]) == (422, "archive_rejected")
        assert answer["detail"].startswith("the archive is refused: ")
    assert spooled(api) == []


def test_an_archive_must_not_be_said_to_be_something_else(api: ApiServer) -> None:
    status, answer = posted(
        api, "/v1/packages/archive/validate", package_zip(), {"Content-Type": "multipart/form-data"}
    )
    assert (status, answer["code"]) == (415, "unsupported_media_type")


def test_a_client_that_leaves_within_an_archive_leaves_nothing(api: ApiServer) -> None:
    with api.begin("/v1/packages/archive/validate", 10_000_000, ZIP) as connection:
        connection.sendall(b"PK" * 1_000_000)
    assert api.ask("GET", "/health").status == 200
    until = time.monotonic() + 30
    while spooled(api) and time.monotonic() < until:
        time.sleep(0.05)
    assert spooled(api) == []


def spooled(api: ApiServer) -> list[str]:
    """The files of this installation that requests left behind."""
    return [str(path) for path in api.home.rglob("*") if path.is_file() and "store" in path.relative_to(api.home).parts]


# --- who may write ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [NEW_TOKEN, OLD_TOKEN])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_both_tokens_are_valid_at_once(api: ApiServer, token: str, scheme: str) -> None:
    status, answer = posted(api, "/v1/executions", b"{}", {**JSON, "Authorization": f"{scheme} {token}"})
    assert (status, answer["code"]) == (422, "invalid_document")


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Basic {NEW_TOKEN}",
        NEW_TOKEN,
        f"Bearer {NEW_TOKEN}x",
        "Bearer \xff",
    ],
)
@pytest.mark.parametrize(
    "path",
    ["/v1/executions", "/v1/executions/run", "/v1/registrations/packages", "/v1/registrations/dataset-snapshots",
     "/v1/uploads", "/v1/uploads/x/complete", "/v1/executions/x/cancel", "/v1/nothing"],
)  # fmt: skip
def test_whoever_writes_needs_a_token_whatever_the_body_is(
    api: ApiServer, path: str, authorization: str | None
) -> None:
    headers = {**JSON, **({} if authorization is None else {"Authorization": authorization})}
    status, answer = posted(api, path, b"no document", headers)
    assert (status, answer["code"]) == (401, "unauthorized")


def test_a_refusal_without_token_says_which_scheme_is_meant(api: ApiServer) -> None:
    with api.begin("/v1/executions", 0) as connection:
        head = connection.recv(65_536).decode().lower()
    assert head.startswith("http/1.1 401")
    assert "www-authenticate: bearer\r\n" in head


def test_a_token_is_in_no_answer_and_in_no_log(api: ApiServer) -> None:
    for token in ("Bearer a-wrong-secret", f"Bearer {NEW_TOKEN}", f"Basic {NEW_TOKEN}"):
        answer = api.ask("POST", "/v1/executions", b"{}", {**JSON, "Authorization": token})
        assert b"secret" not in answer.body
        assert NEW_TOKEN.encode() not in answer.body
    assert NEW_TOKEN not in api.log
    assert "a-wrong-secret" not in api.log


def test_reading_needs_no_token(api: ApiServer) -> None:
    for path in ("/health", "/ready", "/metrics", "/v1/contracts", "/v1/executions", "/v1/models", "/openapi.json"):
        assert api.ask("GET", path).status == 200


# --- what one request may cost ---------------------------------------------------------------------------------------


def test_a_document_over_its_limit_is_not_read_to_its_end(api: ApiServer) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(4 * MAX_JSON_BODY_BYTES // 1_000_000):
            yield b" " * 1_000_000

    status, answer = raw_chunks(api, "/v1/contracts/event/validate", endless())
    assert (status, answer["code"]) == (413, "request_too_large")


def raw_chunks(api: ApiServer, path: str, pieces: Iterator[bytes]) -> tuple[int, Any]:
    """A chunked POST that is sent on until the server answers, as a client does that never listens before its end."""
    with socket.create_connection(("127.0.0.1", api.port), timeout=60) as connection:
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
        )
        try:
            for piece in pieces:
                connection.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        except ConnectionError:
            pass  # the server has answered and closed: what it said is still there to read
        answer = finish(connection)
    return answer.status, answer.document


def test_a_length_that_is_a_lie_is_not_believed(api: ApiServer) -> None:
    body = json.dumps(smallest("event")).encode()
    with api.begin("/v1/contracts/event/validate", len(body) - 1, JSON) as connection:
        connection.sendall(body[:-1])
        assert finish(connection).status == 422
    with api.begin("/v1/contracts/event/validate", 10**15, JSON) as connection:
        connection.sendall(body)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(65_536) == b""


def test_headers_over_their_limit_are_refused(api: ApiServer) -> None:
    for headers in ({"X-Long": "x" * MAX_HEADER_BYTES}, {f"X-{number}": "x" * 100 for number in range(400)}):
        answer = api.ask("GET", "/health", headers=headers)
        assert (answer.status, answer.code) == (431, "headers_too_large")


def test_a_method_that_a_path_does_not_take_is_refused_with_those_that_it_does(api: ApiServer) -> None:
    answer = api.ask("POST", "/v1/models", b"", {"Authorization": f"Bearer {NEW_TOKEN}"})
    assert (answer.status, answer.code) == (405, "method_not_allowed")


def test_the_openapi_document_describes_every_path(api: ApiServer) -> None:
    document = api.ask("GET", "/openapi.json").document
    assert {f"/v1/contracts/{path}/validate" for path in PATHS.values()} <= set(document["paths"])
    assert {"/v1/executions", "/v1/executions/run", "/v1/executions/{execution_id}/events"} <= set(document["paths"])


def test_the_page_for_people_shows_every_path_and_loads_nothing(api: ApiServer) -> None:
    page = api.ask("GET", "/docs").body.decode()
    for path in api.ask("GET", "/openapi.json").document["paths"]:
        assert f"{path}</code>" in page
    assert not re.search(r"<(?:script|link|img|iframe)|@import|url\(", page)
