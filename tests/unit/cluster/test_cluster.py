import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import orjson
import pytest

from contracts.errors import ClusterRefusedError, ClusterUnavailableError, InvalidSettingsError
from runtime.cluster.cluster import Capacity, Cluster
from runtime.settings import Settings
from tests.assets.cluster_documents import job, node, pod, refused

pytestmark = pytest.mark.slow  # the client alone takes a second to import

RUN = "3f1c"


class Api(BaseHTTPRequestHandler):
    """A cluster's API that keeps the documents of one flow run."""

    def do_GET(self):
        self.server.asked.append(self.path)
        path, _, query = self.path.partition("?")
        name = path.rsplit("/", 1)[-1]
        if self.server.status is not None:
            self.answer(self.server.status, {"reason": "as told"})
        elif name in {"jobs", "pods"} and f"labelSelector=prefect.io%2Fflow-run-id%3D{RUN}" not in query:
            self.answer(400, {})
        elif path.startswith("/api/v1/nodes/"):
            self.answer(self.server.node_status, node("Unknown"))
        else:
            self.answer(200, {"items": self.server.items.get(name, [])})

    def do_DELETE(self):
        kind, name = self.path.split("?")[0].rsplit("/", 2)[-2:]
        self.server.deleted.append((kind, name, orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))))
        if not self.server.keeps:
            self.server.items[kind] = []
        self.answer(404 if self.server.keeps == "forgets" else 200, {})

    def answer(self, status, document):
        body = orjson.dumps(document)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def api():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.items, server.status, server.node_status = {"jobs": [job()], "pods": [pod()]}, None, 200
    server.asked, server.deleted, server.keeps = [], [], ""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def settings(api, tmp_path):
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{api.server_port}"}}],
        "users": [{"name": "me", "user": {}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_bytes(orjson.dumps(document))
    return Settings(home=tmp_path, cluster_namespace="training", cluster_kubeconfig=str(path))


@pytest.fixture
def cluster(settings):
    opened = Cluster.open(settings)
    yield opened
    opened.close()


def test_what_is_seen_of_a_run_is_its_job_its_pod_its_events_and_its_node(api, cluster):
    api.items["events"] = [refused("exceeded quota: gpus")]

    seen = cluster.observe(RUN, asked_at=datetime.now(UTC))

    assert (seen.job.name, [one.name for one in seen.pods], seen.node.name) == ("digits-1", ["digits-1-abcde"], "gpu-7")
    assert seen.events[0].message == "exceeded quota: gpus"


def test_a_node_that_we_may_not_look_at_is_left_out(api, cluster):
    api.node_status = 403

    assert cluster.observe(RUN, asked_at=datetime.now(UTC)).node is None


@pytest.mark.parametrize(("status", "fault"), [(403, ClusterRefusedError), (500, ClusterUnavailableError)])
def test_an_api_that_refuses_is_told_from_one_that_is_away(api, cluster, status, fault):
    api.status = status

    with pytest.raises(fault):
        cluster.observe(RUN, asked_at=datetime.now(UTC))


def test_an_api_that_is_gone_is_unavailable(settings, api, cluster):
    path = settings.home / "kubeconfig"
    path.write_bytes(path.read_bytes().replace(str(api.server_port).encode(), b"1"))
    away = Cluster.open(settings)

    with pytest.raises(ClusterUnavailableError):
        away.capacity()
    away.close()


def test_job_and_pod_are_deleted_and_proven_gone(api, cluster):
    assert cluster.remove(RUN, grace_seconds=7, within_seconds=5) == ()

    options = {"propagationPolicy": "Background", "gracePeriodSeconds": 7}
    assert api.deleted == [("jobs", "digits-1", options), ("pods", "digits-1-abcde", options)]


def test_what_does_not_go_is_named(api, cluster):
    api.keeps = "forgets"

    assert cluster.remove(RUN, grace_seconds=7, within_seconds=0) == ("jobs/digits-1", "pods/digits-1-abcde")


def test_capacity_is_that_of_nodes_that_take_pods(api, cluster):
    api.items["nodes"] = [
        {"status": {"allocatable": {"nvidia.com/gpu": "4"}}},
        {"status": {"allocatable": {"nvidia.com/gpu": "2"}}},
        {"status": {"allocatable": {}}},
        {"spec": {"unschedulable": True}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}},
    ]

    assert cluster.capacity() == Capacity(largest_node_gpus=4, gpus=6)


def test_a_cluster_needs_a_namespace_and_a_kubeconfig(settings, tmp_path):
    with pytest.raises(InvalidSettingsError, match="no cluster is set up"):
        Cluster.open(settings.model_copy(update={"cluster_namespace": ""}))
    with pytest.raises(InvalidSettingsError, match="no usable kubeconfig"):
        Cluster.open(settings.model_copy(update={"cluster_kubeconfig": str(tmp_path / "none")}))
