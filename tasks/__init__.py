"""One module a stage: a retriable Prefect task that calls `runtime` and leaves its artifact in the UI."""
