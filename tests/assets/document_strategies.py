"""Hypothesis strategies: valid documents of every contract, with every field in every form that the contract allows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.assets import documents

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
some_text = texts.filter(bool)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(lambda name: name.strip())
keys = st.from_regex(r"[a-z][a-z0-9_-]{0,10}", fullmatch=True)
kinds = st.sampled_from(["classification", "detection", "detection_obb", "segmentation"])
digests = st.from_regex(r"[0-9a-f]{64}", fullmatch=True)
versions = st.from_regex(
    r"(0|[1-9][0-9]?)\.(0|[1-9][0-9]?)\.(0|[1-9][0-9]?)(-[a-z]{1,4}(\.[0-9]{1,2})?)?(\+b[0-9])?", fullmatch=True
)
formats = st.from_regex(r"[ \t\n]?[A-Za-z0-9][A-Za-z0-9_-]{0,6}[ \t\n]?", fullmatch=True)
frameworks = st.from_regex(r"[ \t\n]?[A-Za-z][A-Za-z0-9_.-]{0,6}[ \t\n]?", fullmatch=True)
counts = st.integers(0, 2**63 - 1)
small = st.integers(0, 9)
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)
segments = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\\\0"), min_size=1, max_size=6)
paths = (
    st.lists(
        segments.filter(lambda part: part.strip(". \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0")), min_size=1, max_size=3
    )
    .map("/".join)
    .filter(lambda path: path[1:3] != ":/")
)
scalars = st.none() | st.booleans() | numbers | texts | st.integers()
free_values = st.recursive(
    scalars, lambda below: st.lists(below, max_size=3) | st.dictionaries(texts, below, max_size=3), max_leaves=6
)
free_maps = st.dictionaries(texts, free_values, max_size=3)
metrics = st.dictionaries(names, numbers, max_size=4)
uuids = st.uuids().flatmap(lambda uuid: st.sampled_from([str(uuid), str(uuid).upper(), uuid.hex, f"{{{uuid}}}"]))
class_names = st.lists(texts, max_size=4)


def unique_names(low: int, high: int) -> st.SearchStrategy[list[str]]:
    return st.lists(names, min_size=low, max_size=high, unique_by=str.strip)


def made(required: dict[str, Any], optional: dict[str, Any] | None = None) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional or {})


def references(bucket: str) -> st.SearchStrategy[dict[str, Any]]:
    return made(
        {"bucket": st.just(bucket), "object_key": paths},
        {"sha256": digests | st.none(), "size_bytes": counts | st.none()},
    )


def pinned(bucket: str) -> st.SearchStrategy[dict[str, Any]]:
    return made({"bucket": st.just(bucket), "object_key": paths, "sha256": digests, "size_bytes": counts})


runtimes = made({"id": some_text}, {"kind": st.just("platform_managed")})
supported_tasks = made(
    {"task_kind": kinds, "data_modalities": unique_names(1, 3)}, {"annotation_kinds": unique_names(0, 3)}
)
model_input_contracts = made(
    {
        "framework": made({"id": frameworks, "version": some_text}),
        "formats": st.lists(formats, min_size=1, max_size=3, unique_by=lambda each: each.strip().lower()),
        "modes": st.lists(st.sampled_from(["initialize", "resume"]), min_size=1, max_size=2, unique=True),
    },
    {
        "required": st.booleans(),
        "require_matching_task_kind": st.booleans(),
        "require_matching_class_names_for_resume": st.booleans(),
    },
)
declarations = st.sampled_from(
    [("model", True), ("model", False), ("checkpoint", False), ("report", False), ("log", False), ("other", False)]
).flatmap(
    lambda pair: made(
        {
            "role": st.just(pair[0]),
            "formats": st.lists(formats, min_size=1, max_size=3),
            "deployable": st.just(pair[1]),
        },
        {"required": st.booleans()},
    )
)
packages = made(
    {
        "protocol_version": st.just("training-code-package/v1"),
        "key": keys,
        "version": versions,
        "name": some_text,
        "runtime": runtimes,
        "entrypoint": paths.map(lambda path: path.strip() + ".py"),
        "supported_tasks": st.lists(supported_tasks, min_size=1, max_size=3),
        "output_contract": made(
            {
                "artifacts": st.lists(
                    declarations, min_size=1, max_size=4, unique_by=lambda each: (each["role"], each["deployable"])
                )
            },
            {"requires_model_metadata": st.booleans()},
        ),
    },
    {
        "description": texts | st.none(),
        "entrypoint_symbol": texts,
        "input_modes": st.lists(
            st.sampled_from(["platform_dataset", "script_managed"]), min_size=1, max_size=2, unique=True
        ),
        "class_names": unique_names(0, 4),
        "parameters_schema": made(
            {"type": st.just("object")},
            {
                "properties": st.dictionaries(
                    keys, st.sampled_from([{"type": "integer"}, {"minimum": 1.5}, True]), max_size=3
                )
            },
        ),
        "model_input_contract": st.none() | model_input_contracts,
    },
)
model_packages = made(
    {
        "protocol_version": st.just("training-model-package/v1"),
        "name": some_text,
        "task_kind": kinds,
        "framework": frameworks,
        "artifact_path": paths.map(lambda path: "artifact/" + path),
        "format": formats,
    },
    {
        "class_names": unique_names(0, 4),
        "resume_checkpoint_path": st.none() | paths.map(lambda path: "resume/" + path),
        "metadata": free_maps,
    },
)
header = {"task_kind": kinds, "data_modalities": st.lists(texts, min_size=1, max_size=3)}
header_options = {"annotation_kinds": st.lists(texts, max_size=3), "class_names": class_names}
item_options = {"split": st.sampled_from(["train", "val", "test", "unspecified"]), "metadata": free_maps}
source_items = made(
    {"item_id": some_text, "media": references("datasets")},
    item_options | {"annotation": st.none() | references("annotations")},
)
pinned_items = made(
    {"item_id": some_text, "media": pinned("datasets")},
    item_options | {"annotation": st.none() | pinned("annotations")},
)
local_items = made({"item_id": some_text, "media_path": paths}, item_options | {"annotation_path": st.none() | paths})


def items_of(item: st.SearchStrategy[dict[str, Any]], least: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(item, min_size=least, max_size=4, unique_by=lambda each: each["item_id"])


source_manifests = made(
    {
        "protocol_version": st.just("training-dataset-source-manifest/v1"),
        **header,
        "items": items_of(source_items, 1),
    },
    header_options,
)
snapshots = made(
    {
        "protocol_version": st.just("training-dataset-source-manifest/v1"),
        **header,
        "items": items_of(pinned_items, 1),
    },
    header_options,
)


def dataset_manifests(kind: str | None = None, *, empty: bool = False) -> st.SearchStrategy[dict[str, Any]]:
    return made(
        {
            "protocol_version": st.just("training-dataset-manifest/v1"),
            **header,
            "task_kind": kinds if kind is None else st.just(kind),
        },
        header_options | {"items": st.just([]) if empty else items_of(local_items, 0)},
    )


cpu_resources = made(
    {},
    {
        "device": st.just("cpu"),
        "gpu_count": st.just(0),
        "cpu_cores": st.floats(0.01, 256) | st.integers(1, 256),
        "memory_bytes": st.integers(1, 2**63 - 1),
        "timeout_seconds": st.integers(1, 604_800) | st.just(60.0),
    },
)
gpu_resources = made({"device": st.just("cuda"), "gpu_count": st.integers(1, 64)})
resources = cpu_resources | gpu_resources
tasks = made({"task_id": st.integers(1, 2**63 - 1), "task_kind": kinds})
identities = made({"key": keys, "version": versions, "sha256": digests})
model_inputs = made(
    {
        "artifact": made(
            {
                "source": st.sampled_from(["uploaded_model_package", "registered_model", "previous_execution"]),
                "object": pinned("models"),
                "format": formats,
                "task_kind": kinds,
                "display_name": some_text,
            },
            {
                "class_names": class_names,
                "framework": st.none() | frameworks,
                "resume_supported": st.booleans(),
                "metadata": free_maps,
            },
        ),
        "mode": st.sampled_from(["initialize", "resume"]),
    }
)
_submission_base = {
    "protocol_version": st.just("training-code-submit/v1"),
    "message_id": uuids,
    "execution_id": uuids,
    "package": identities,
    "package_archive": pinned("default"),
    "runtime": runtimes,
    "resources": resources,
}
_submission_options = {"parameters": free_maps, "model_input": st.none() | model_inputs}
platform_submissions = made(
    {**_submission_base, "task": tasks, "dataset_source_snapshot": pinned("default")},
    _submission_options | {"input_mode": st.just("platform_dataset"), "script_dataset": st.none()},
)
script_submissions = tasks.flatmap(
    lambda task: made(
        {
            **_submission_base,
            "task": st.just(task),
            "input_mode": st.just("script_managed"),
            "script_dataset": dataset_manifests(task["task_kind"], empty=True),
        },
        _submission_options | {"dataset_source_snapshot": st.none()},
    )
)
executions = tasks.flatmap(
    lambda task: made(
        {
            "protocol_version": st.just("training-execution/v1"),
            "execution_id": uuids,
            "task": st.just(task),
            "package": identities,
            "runtime": runtimes,
            "workspace": st.just(documents.execution()["workspace"]),
            "dataset": dataset_manifests(task["task_kind"]),
            "resources": resources,
        },
        {
            "input_mode": st.just("platform_dataset"),
            "parameters": free_maps,
            "package_manifest": st.none() | packages,
        },
    )
)
_event_base = {
    "protocol_version": st.just("training-event/v1"),
    "execution_id": uuids,
    "sequence": counts,
    "occurred_at": st.datetimes(timezones=st.timezones())
    .map(lambda moment: moment.replace(fold=0).isoformat())
    .filter(lambda text: "1000" < text[:4] < "9000"),
}
events = (
    made({**_event_base, "event_type": st.just("phase"), "phase": some_text}, {"message": st.none() | texts})
    | made(
        {**_event_base, "event_type": st.just("log"), "message": some_text},
        {"level": st.sampled_from(["debug", "info", "warning", "error"])},
    )
    | made(
        {**_event_base, "event_type": st.just("metric"), "metrics": metrics.filter(bool)},
        {
            "split": st.sampled_from(["train", "val", "test", "other"]),
            "epoch": st.none() | counts,
            "step": st.none() | small.map(float),
        },
    )
    | made({**_event_base, "event_type": st.just("checkpoint"), "path": paths}, {"message": st.none() | texts})
)
artifacts = made(
    {"path": paths, "role": st.sampled_from(["model", "checkpoint", "report", "log", "other"]), "format": formats},
    {"deployable": st.just(False), "metadata": free_maps},
)
models = made(
    {"task_kind": kinds, "framework": frameworks},
    {
        "class_names": class_names,
        "resume_checkpoint_path": st.none() | paths,
        "preprocessing": free_maps,
        "postprocessing": free_maps,
    },
)
completions = made(
    {},
    {
        "summary": st.none() | texts,
        "metrics": metrics,
        "artifacts": st.lists(artifacts, max_size=3),
        "model": st.none() | models,
    },
)
_errors = made({"stage": some_text, "error_type": some_text, "message": some_text}, {"retryable": st.booleans()})
_measured = artifacts.flatmap(
    lambda artifact: made({"size_bytes": counts}, {"sha256": st.none() | digests}).map(
        lambda measure: artifact | measure
    )
)
_result_base = {"protocol_version": st.just("training-result/v1"), "execution_id": uuids}
results = made(
    {**_result_base, "status": st.just("succeeded")},
    {
        "summary": st.none() | texts,
        "metrics": metrics,
        "artifacts": st.lists(_measured, max_size=1),
        "model": st.none() | models,
    },
) | made({**_result_base, "status": st.sampled_from(["failed", "cancelled"]), "error": _errors})

DOCUMENTS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "package": packages,
    "model_package": model_packages,
    "dataset_source_manifest": source_manifests,
    "dataset_manifest": dataset_manifests(),
    "mq_submission": platform_submissions | script_submissions,
    "execution": executions,
    "event": events,
    "completion": completions,
    "result": results,
}
