"""Mechanisms, free of Prefect: archives, store, ledger, registry, materialization, execution, ONNX."""
