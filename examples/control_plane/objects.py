"""The platform's own objects: where a control plane puts the files of its data sets.

In production these lie in the platform's S3 already, and this module is not needed: the runtime is only told their keys.
"""

from __future__ import annotations

import hashlib
import hmac
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlsplit

import httpx


class Objects(Protocol):
    """A place for objects, in the logical buckets that documents name."""

    def put(self, bucket: str, key: str, path: Path) -> None:
        """Afterwards the file's bytes lie at `key`."""


class Folders:
    """The local store of an installation without S3 (`.mtr/store`): one folder a bucket."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, bucket: str, key: str, path: Path) -> None:
        """Afterwards the file's bytes lie at `key`."""
        destination = self.root / bucket / key
        if not destination.exists():
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, destination)


class S3:
    """Buckets of an S3 server, written with one signed PUT an object (AWS signature, version 4).

    Args:
        endpoint: the server's URL.
        access_key: who we are.
        secret_key: the proof.
        region: what requests are signed for.
        buckets: the real bucket of each logical one.
    """

    def __init__(
        self, endpoint: str, access_key: str, secret_key: str, region: str, buckets: Mapping[str, str]
    ) -> None:
        self._host = urlsplit(endpoint).netloc
        self._http = httpx.Client(base_url=endpoint, timeout=60)
        self._access_key, self._secret_key, self._region = access_key, secret_key, region
        self._buckets = buckets

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> S3:
        """The server and the buckets by the platform's own names."""
        return cls(
            environ["S3_ENDPOINT"],
            environ["S3_ACCESS_KEY"],
            environ["S3_SECRET_KEY"],
            environ.get("S3_REGION", "us-east-1"),
            {
                "datasets": environ.get("S3_DATASETS_BUCKET", "auto-ml-datasets"),
                "annotations": environ.get("S3_ANNOTATIONS_BUCKET", "auto-ml-annotations"),
            },
        )

    def put(self, bucket: str, key: str, path: Path) -> None:
        """Afterwards the file's bytes lie at `key`."""
        content = path.read_bytes()
        place = f"/{self._buckets[bucket]}/{quote(key)}"
        answer = self._http.put(place, content=content, headers=self._signed("PUT", place, content))
        answer.raise_for_status()

    def _signed(self, method: str, path: str, content: bytes) -> dict[str, str]:
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        scope = f"{now[:8]}/{self._region}/s3/aws4_request"
        headers = {"host": self._host, "x-amz-content-sha256": hashlib.sha256(content).hexdigest(), "x-amz-date": now}
        names = ";".join(headers)
        listed = "".join(f"{name}:{value}\n" for name, value in headers.items())
        request = f"{method}\n{path}\n\n{listed}\n{names}\n{headers['x-amz-content-sha256']}"
        to_sign = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = f"AWS4{self._secret_key}".encode()
        for part in (*scope.split("/"), to_sign):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        credential = f"AWS4-HMAC-SHA256 Credential={self._access_key}/{scope}"
        return {**headers, "authorization": f"{credential}, SignedHeaders={names}, Signature={key.hex()}"}
