"""The runtime's HTTP API, as a control plane calls it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

ENDED = ("succeeded", "failed", "cancelled")


class RefusedError(Exception):
    """The runtime's answer to a call that it does not carry out: every one has the same four fields."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(f"{status} {body.get('code')}: {body.get('detail')}\n→ {body.get('hint')}")
        self.status, self.code, self.context = status, body.get("code"), body.get("context", {})


class Api:
    """One runtime.

    Args:
        url: its address, such as `http://127.0.0.1:8012`.
        token: what write requests bear; empty where the runtime asks for none.
    """

    def __init__(self, url: str, token: str = "") -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        # Registering reads every byte of a data set: the answer may take its time, the connection may not.
        self._http = httpx.Client(base_url=url, headers=headers, timeout=httpx.Timeout(10, read=600, write=600))

    # --- what is registered before anything runs ---------------------------------------------------------------------

    def preview_snapshot(self, source_manifest: dict[str, Any]) -> dict[str, Any]:
        """The manifest as the runtime reads it. Nothing is stored, and no object is read."""
        return self._post("/v1/contracts/dataset-source-manifest/validate", json=source_manifest)["normalized"]

    def register_snapshot(self, source_manifest: dict[str, Any]) -> dict[str, Any]:
        """The registration of the pinned data set, after every byte of it was read. Again, it is the same one."""
        return self._post("/v1/registrations/dataset-snapshots", json=source_manifest)

    def inspect_package(self, archive: Path, *, of_model: bool = False) -> dict[str, Any]:
        """What a ZIP would be registered as. Nothing is stored, and nothing in it is run."""
        with archive.open("rb") as content:
            return self._post(f"/v1/{_kind(of_model)}/archive/inspect", content=content, headers=ZIP)

    def register_package(self, archive: Path, *, of_model: bool = False) -> dict[str, Any]:
        """The registration of a ZIP; its version is claimed for exactly these bytes."""
        with archive.open("rb") as content:
            return self._post(
                f"/v1/registrations/{_kind(of_model)}",
                content=content,
                headers=ZIP,
                params={"archive_name": archive.name},
            )

    def upload_package(self, archive: Path, *, of_model: bool = False) -> dict[str, Any]:
        """As `register_package`, the bytes going straight to the store: the API only signs and checks them.

        Announced are the digest and the size; what arrives is those bytes, or nothing is registered.
        """
        with archive.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        upload = self._post(
            "/v1/uploads",
            json={
                "kind": "training_model_package" if of_model else "training_code_package",
                "archive_name": archive.name,
                "sha256": digest,
                "size_bytes": archive.stat().st_size,
            },
        )
        with archive.open("rb") as content:
            # No token goes along: the address is the permission, and it may be a store's.
            sent = httpx.request(
                upload["method"], upload["url"], content=content, headers=upload["headers"], timeout=600
            )
        _require_success(sent)
        return self._post(f"/v1/uploads/{upload['upload_id']}/complete")

    # --- executions --------------------------------------------------------------------------------------------------

    def submit(self, submission: dict[str, Any]) -> dict[str, Any]:
        """The execution as it was accepted (202). The same document again is answered alike, another one with 409."""
        return self._post("/v1/executions", json=submission)

    def execution(self, execution_id: str) -> dict[str, Any]:
        """Its state, stage, error, result, artifacts and model."""
        return self._get(f"/v1/executions/{execution_id}")

    def executions_of(self, task_id: int) -> list[dict[str, Any]]:
        """All executions of one task of the platform, the newest first."""
        return self._get("/v1/executions", params={"task_id": task_id})["executions"]

    def cancel(self, execution_id: str) -> dict[str, Any]:
        """The execution, which is asked to end; its end is told like every other."""
        return self._post(f"/v1/executions/{execution_id}/cancel")

    def follow(self, execution_id: str, *, appears_within_seconds: float = 0.0) -> Iterator[dict[str, Any]]:
        """What happens in an execution, as it happens, to its end; a connection that breaks costs nothing.

        Args:
            execution_id: which.
            appears_within_seconds: what was sent by the broker or by Prefect is known a moment later.
        """
        self._await(execution_id, appears_within_seconds)
        last_id = ""
        while True:
            headers = {"last-event-id": last_id} if last_id else {}
            try:
                with self._http.stream("GET", f"/v1/executions/{execution_id}/events", headers=headers) as answer:
                    _require_success(answer)
                    for event in _server_sent_events(answer.iter_lines()):
                        last_id = event.get("id", last_id)
                        yield json.loads(event["data"])
            except httpx.TransportError:
                time.sleep(1)  # and go on after the last event that arrived
            if self.execution(execution_id)["state"] in ENDED:
                return

    def fetch(self, execution_id: str, sha256: str, destination: Path) -> int:
        """Afterwards `destination` holds the artifact, byte for byte what the runtime verified; its size is answered.

        Raises:
            ValueError: other bytes came; nothing is kept.
        """
        partial, digest = destination.with_name(f"{destination.name}.partial"), hashlib.sha256()
        try:
            with (
                self._http.stream(
                    "GET", f"/v1/executions/{execution_id}/artifacts/{sha256}", follow_redirects=True
                ) as answer,
                partial.open("wb") as out,
            ):
                _require_success(answer)
                for chunk in answer.iter_bytes():
                    digest.update(chunk)
                    out.write(chunk)
            if digest.hexdigest() != sha256:
                raise ValueError(f"{digest.hexdigest()} came instead of {sha256}")
            return partial.rename(destination).stat().st_size
        finally:
            partial.unlink(missing_ok=True)

    def _await(self, execution_id: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.execution(execution_id)
            except RefusedError as refused:
                if refused.status != httpx.codes.NOT_FOUND or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def _get(self, path: str, **request: Any) -> dict[str, Any]:
        return _require_success(self._http.get(path, **request)).json()

    def _post(self, path: str, **request: Any) -> dict[str, Any]:
        return _require_success(self._http.post(path, **request)).json()


ZIP = {"content-type": "application/zip"}


def _kind(of_model: bool) -> str:  # noqa: FBT001 - one of two
    return "model-packages" if of_model else "packages"


def _require_success(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    answer.read()
    try:
        body = answer.json()
    except ValueError:  # a proxy in between
        body = {"detail": answer.text[:500]}
    raise RefusedError(answer.status_code, body)


def _server_sent_events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """`field: value` lines, an empty line after each event; what begins with a colon keeps the connection alive."""
    event: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            event[name] = f"{event[name]}\n{value}" if name in event else value
        else:
            if "data" in event:
                yield event
            event = {}
