"""A Prefect deployment run, as a control plane starts one over REST."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx

from .documents import digest

FLOW, DEPLOYMENT = "execute-training", "platform"
PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)


def submit(prefect_api_url: str, submission: dict[str, Any]) -> dict[str, Any]:
    """The run that carries the submission out; the same submission again is answered with the same run.

    Prefect answers a key that it knows with the run that it has, whatever else the request says. So the key has the
    digest of the submission in it: another content under the same execution id then makes a run of its own, which the
    runtime refuses with `conflict`. Whoever needs that answer at once submits by HTTP.

    Raises:
        httpx.HTTPError: Prefect did not answer, or refused, for longer than a server under load does.
    """
    with httpx.Client(base_url=prefect_api_url, timeout=30) as http:
        deployment = _answer(lambda: http.get(f"/deployments/name/{FLOW}/{DEPLOYMENT}"))
        request = {
            "parameters": {"submission": submission},
            "idempotency_key": f"{submission['execution_id']}-{digest(submission)}",
            "state": {"type": "SCHEDULED"},
        }
        return _answer(lambda: http.post(f"/deployments/{deployment['id']}/create_flow_run", json=request))


def _answer(ask: Callable[[], httpx.Response]) -> dict[str, Any]:
    """What a successful answer says. A busy Prefect server answers 503; thanks to the key, asking again is safe."""
    for pause in PAUSES_SECONDS:
        if (answer := ask()).status_code != httpx.codes.SERVICE_UNAVAILABLE:
            break
        time.sleep(pause)
    else:
        answer = ask()
    answer.raise_for_status()
    return answer.json()
