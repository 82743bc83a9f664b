"""A Prefect deployment run, as a control plane starts one over REST."""

from __future__ import annotations

from typing import Any

import httpx

from .documents import digest

FLOW, DEPLOYMENT = "execute-training", "platform"


def submit(prefect_api_url: str, submission: dict[str, Any]) -> dict[str, Any]:
    """The run that carries the submission out; the same submission again is answered with the same run.

    Prefect answers a key that it knows with the run that it has, whatever else the request says. So the key has the
    digest of the submission in it: another content under the same execution id then makes a run of its own, which the
    runtime refuses with `conflict`. Whoever needs that answer at once submits by HTTP.
    """
    with httpx.Client(base_url=prefect_api_url, timeout=30) as http:
        deployment = http.get(f"/deployments/name/{FLOW}/{DEPLOYMENT}")
        deployment.raise_for_status()
        run = http.post(
            f"/deployments/{deployment.json()['id']}/create_flow_run",
            json={
                "parameters": {"submission": submission},
                "idempotency_key": f"{submission['execution_id']}-{digest(submission)}",
                "state": {"type": "SCHEDULED"},
            },
        )
        run.raise_for_status()
        return run.json()
