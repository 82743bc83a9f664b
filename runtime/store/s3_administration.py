"""What OpenDAL does not have: look for a bucket, make one, find and drop unfinished uploads, sign a request for others.

These calls are rare and small, so they are signed and sent with the standard library.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ssl
import urllib.parse
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from contracts.errors import StorageRefusedError, StorageUnavailableError
from contracts.limits import MIB, STORE_CALL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()
_MAX_ANSWER_BYTES: Final = 4 * MIB  # a listing has at most 1 000 entries


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """A multipart upload that was begun and neither completed nor aborted."""

    key: str
    upload_id: str
    started: datetime


class S3Administration:
    """Signed calls against one endpoint.

    Args:
        endpoint: URL of the server.
        region: what requests are signed for.
        access_key: who we are.
        secret_key: what we sign with; never shown.
        timeout_seconds: for each call.
    """

    def __init__(
        self, endpoint: str, region: str, access_key: str, secret_key: str, timeout_seconds: float = STORE_CALL_SECONDS
    ) -> None:
        self._endpoint = urllib.parse.urlsplit(endpoint)
        self._region, self._access_key, self._secret_key = region, access_key, secret_key
        self._timeout_seconds = timeout_seconds

    def bucket_exists(self, bucket: str) -> bool:
        """Whether `bucket` is there and we may see it.

        Raises:
            StorageRefusedError: it is not ours to see.
            StorageUnavailableError: the server does not answer.
        """
        status, _ = self._call("HEAD", f"/{bucket}")
        if status in (200, 404):
            return status == 200
        raise _refused(f"looking for bucket {bucket}", status, b"")

    def create_bucket(self, bucket: str) -> bool:
        """Afterwards `bucket` exists; False when it did before.

        Raises:
            StorageRefusedError: we may not make it, or its name is taken by somebody else.
            StorageUnavailableError: the server does not answer.
        """
        body = b""
        if self._region not in ("", "us-east-1"):  # there the element must be left out, elsewhere it must be present
            body = (
                '<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><LocationConstraint>'
                f"{self._region}</LocationConstraint></CreateBucketConfiguration>"
            ).encode()
        status, answer = self._call("PUT", f"/{bucket}", body=body)
        if status == 200:
            return True
        if status == 409 and self.bucket_exists(bucket):
            return False
        raise _refused(f"making bucket {bucket}", status, answer)

    def pending_uploads(self, bucket: str, prefix: str) -> Iterator[PendingUpload]:
        """Unfinished uploads to keys that start with `prefix`."""
        query = {"uploads": "", "prefix": prefix}
        while True:
            status, answer = self._call("GET", f"/{bucket}", query)
            if status != 200:
                raise _refused(f"listing uploads of {bucket}", status, answer)
            root = ET.fromstring(answer)  # noqa: S314 - from the store we trust with the data; entities are refused by expat's limits
            space = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
            for upload in root.iter(f"{space}Upload"):
                yield PendingUpload(
                    key=upload.findtext(f"{space}Key", ""),
                    upload_id=upload.findtext(f"{space}UploadId", ""),
                    started=datetime.fromisoformat(upload.findtext(f"{space}Initiated", "1970-01-01T00:00:00Z")),
                )
            if root.findtext(f"{space}IsTruncated") != "true":
                return
            query |= {
                "key-marker": root.findtext(f"{space}NextKeyMarker", ""),
                "upload-id-marker": root.findtext(f"{space}NextUploadIdMarker", ""),
            }

    def abort_upload(self, bucket: str, upload: PendingUpload) -> None:
        """Afterwards the server has dropped the upload's parts; one that is gone already is fine."""
        path = f"/{bucket}/{urllib.parse.quote(upload.key, safe='/~')}"
        status, answer = self._call("DELETE", path, {"uploadId": upload.upload_id})
        if status not in (200, 204, 404):
            raise _refused(f"aborting an upload to {bucket}/{upload.key}", status, answer)

    def presigned(self, method: str, bucket: str, key: str, headers: Mapping[str, str], seconds: int) -> str:
        """The URL of a request that anybody may send with exactly these headers until `seconds` from now.

        Args:
            method: such as `PUT`.
            bucket: real bucket.
            key: object key.
            headers: names in lower case.
            seconds: at most a week.
        """
        path = f"{self._endpoint.path.rstrip('/')}/{bucket}/{urllib.parse.quote(key, safe='/~')}"
        now = datetime.now(UTC)
        signed = {"host": self._endpoint.netloc, **headers}
        query = _encoded(
            {
                "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
                "X-Amz-Credential": f"{self._access_key}/{self._scope(now)}",
                "X-Amz-Date": f"{now:%Y%m%dT%H%M%SZ}",
                "X-Amz-Expires": str(seconds),
                "X-Amz-SignedHeaders": ";".join(sorted(signed)),
            }
        )
        signature = self._signature(now, (method, path, query), signed, "UNSIGNED-PAYLOAD")
        return f"{self._endpoint.scheme}://{self._endpoint.netloc}{path}?{query}&X-Amz-Signature={signature}"

    def _call(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: bytes = b""
    ) -> tuple[int, bytes]:
        host = self._endpoint.hostname or ""
        port, seconds = self._endpoint.port, self._timeout_seconds
        connection = (
            http.client.HTTPSConnection(host, port, timeout=seconds, context=ssl.create_default_context())
            if self._endpoint.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=seconds)
        )
        path = self._endpoint.path.rstrip("/") + path
        encoded = _encoded(query or {})
        try:
            connection.request(
                method, f"{path}?{encoded}" if encoded else path, body, self._signed(method, path, encoded, body)
            )
            answer = connection.getresponse()
            return answer.status, answer.read(_MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise StorageUnavailableError(
                f"the S3 server at {self._endpoint.geturl()} does not answer: {error}",
                hint="Check s3_endpoint and that the server runs; then repeat.",
                context={"endpoint": self._endpoint.geturl(), "reason": str(error)},
            ) from error
        finally:
            connection.close()

    def _signed(self, method: str, path: str, encoded_query: str, body: bytes) -> dict[str, str]:
        now = datetime.now(UTC)
        payload = hashlib.sha256(body).hexdigest() if body else _EMPTY_SHA256
        headers = {
            "host": self._endpoint.netloc,
            "x-amz-content-sha256": payload,
            "x-amz-date": f"{now:%Y%m%dT%H%M%SZ}",
        }
        signature = self._signature(now, (method, path, encoded_query), headers, payload)
        names = ";".join(sorted(headers))
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self._access_key}/{self._scope(now)},SignedHeaders={names},Signature={signature}"
        )
        return headers

    def _scope(self, now: datetime) -> str:
        return f"{now:%Y%m%d}/{self._region}/s3/aws4_request"

    def _signature(self, now: datetime, request: tuple[str, str, str], headers: Mapping[str, str], payload: str) -> str:
        """AWS Signature Version 4: hash the request, hash that with its scope, sign with a key derived from ours.

        `request` is the method, the path and the encoded query.
        """
        names = sorted(headers)
        canonical = "\n".join([*request, *(f"{name}:{headers[name]}" for name in names), "", ";".join(names), payload])
        scope = self._scope(now)
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        to_sign = f"AWS4-HMAC-SHA256\n{now:%Y%m%dT%H%M%SZ}\n{scope}\n{digest}"
        key = f"AWS4{self._secret_key}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.new(key, to_sign.encode(), "sha256").hexdigest()


def _encoded(query: Mapping[str, str]) -> str:
    return "&".join(
        f"{urllib.parse.quote(name, safe='~')}={urllib.parse.quote(value, safe='~')}"
        for name, value in sorted(query.items())
    )


def _refused(doing: str, status: int, answer: bytes) -> StorageRefusedError | StorageUnavailableError:
    reason = answer[:300].decode(errors="replace")
    context = {"http_status": status, "reason": reason}
    if status >= 500:
        return StorageUnavailableError(
            f"{doing}: the S3 server answered {status}",
            hint="Wait until the server is well; then repeat.",
            context=context,
        )
    return StorageRefusedError(
        f"{doing}: the S3 server answered {status}",
        hint="Check s3_access_key, s3_secret_key and s3_region, and what this key may do.",
        context=context,
    )
