"""Every limit of the product, named once, with its reason. All of them are enforced while streaming."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

# Archives (wire contract).
MAX_ARCHIVE_MEMBERS: Final = 5_000
MAX_ARCHIVE_BYTES: Final = 512 * MIB
"""Packed, through the in-memory body of the legacy service's endpoints."""
MAX_UNPACKED_BYTES: Final = 512 * MIB
"""Unpacked, counted on what is really written, never on what a header declares."""
DEFAULT_MAX_UPLOAD_BYTES: Final = 5 * GIB
"""Of a package that is streamed or uploaded directly: the largest object that S3 takes by one PUT."""
MAX_MANIFEST_BYTES: Final = 4 * MIB
"""A manifest with 10 000 class names of 128 bytes and a large parameters schema is under 2 MiB."""
MAX_ENTRY_FILE_BYTES: Final = 256 * KIB
"""An entry file that is parsed to warn of a function that it lacks: 6 000 lines; parsing takes up to a thousand times that."""
MAX_CENTRAL_DIRECTORY_BYTES: Final = 16 * MIB
"""3 KiB a member, many times what real writers need; it is the one part of an archive that is read whole."""
MAX_MEMBER_PATH_BYTES: Final = 1_024
"""Well under Linux's 4 096 for a whole path, the workspace's own path included."""
MAX_MEMBER_NAME_BYTES: Final = 255
"""What the usual file systems keep of one path segment."""
MAX_MEMBER_DEPTH: Final = 64
"""Path segments; unpacking keeps one descriptor open for each folder above the file that it writes."""
MAX_LZMA_DICTIONARY_BYTES: Final = 64 * MIB
"""A member's LZMA header decides how much memory its reader takes; the strongest usual preset needs 64 MiB."""

# Requests over HTTP.
MAX_HEADER_BYTES: Final = 32 * KIB
"""Of a request's address and headers: four times what browsers and proxies send."""
MAX_JSON_BODY_BYTES: Final = 16 * MIB
"""A document that is no data set: a submission or manifest with 10 000 class names is under 2 MiB."""
MAX_VALIDATED_BODY_BYTES: Final = 256 * MIB
"""A data set that is only checked: half a million items. Registering it checks it too, at any size, and streams."""
CHECKED_HERE_BYTES: Final = 1 * MIB
"""A longer body is checked by a process of its own: a parser lets nobody else in, and takes 10 to 50 ms for this."""
REQUEST_ALLOWANCE_SECONDS: Final = 60.0
REQUEST_SLOWEST_BYTES_PER_SECOND: Final = 16 * KIB
"""A body must come at this rate, after a minute's allowance: a client that trickles must not hold us for ever."""

# Streams.
CHUNK_BYTES: Final = 256 * KIB
"""Larger reads gain nothing once hashing is the bottleneck."""
SMALL_OBJECT_BYTES: Final = 128 * KIB
"""Up to here one read call is faster than a stream."""
SINGLE_PUT_BYTES: Final = 8 * MIB
"""Up to here an object is written by one conditional put, above it in parts of this size."""
RECEIVED_BATCH_BYTES: Final = 2 * MIB
"""Of a body, hashed and written by one call in a thread: hops between threads cost nothing at this size."""
FLUSHED_EARLY_BYTES: Final = 64 * MIB
"""Received bytes that the disk is told to take at once: what is left at the end is little, and a small file costs one wait."""
REGISTRATIONS_AT_ONCE: Final = 8
"""Packages that are checked and published at once by one process; further ones wait, received already."""
UPLOAD_PARTS_AT_ONCE: Final = 2
"""Two parts in flight hide the hashing of the next; more only cost memory."""

# A cluster.
POD_OVERHEAD_BYTES: Final = 768 * MIB
"""What a training's pod has beyond the package's own memory: the flow's engine, its libraries, and pages on their way."""
CLUSTER_JOB_SECONDS: Final = 60.0
"""For a worker to make the Job of a run that it has taken; afterwards its absence is a deletion."""

# The object store (defaults of `StoreDeadlines`).
STORE_CALL_SECONDS: Final = 5.0
"""One answer, or the next bytes of one. A healthy server needs milliseconds."""
STORE_WRITE_SECONDS: Final = 15.0
"""One part of an upload: 8 MiB at 0.6 MB/s."""
STORE_RETRY_SECONDS: Final = 10.0
"""No new try is begun after so long without progress; a server that restarts is back in 1 to 5 s."""
STORE_SLOWEST_BYTES_PER_SECOND: Final = 64 * KIB
"""A whole object must come at this rate, after a minute's allowance: a server that trickles must not hold us for ever."""
STORE_STREAM_ALLOWANCE_SECONDS: Final = 60.0
ABANDONED_WRITE_SECONDS: Final = 86_400.0
"""A staged write that is older belongs to a process that was killed; the longest upload takes hours."""
MAX_REMEMBERED_OBJECTS: Final = 1_024
"""Objects that were found right, by etag, so that further parts of them need no second hashing; some 300 bytes each."""
MAX_DIRECT_UPLOAD_BYTES: Final = 5 * GIB
"""The largest object that S3 takes by one PUT."""
UPLOAD_SECONDS: Final = 86_400.0
"""A direct upload's time, from its beginning to its completion: 5 GiB at the slowest rate that a store is given."""
ABANDONED_UPLOAD_SECONDS: Final = 2 * UPLOAD_SECONDS
"""An upload that is older is reaped: expired, or completed, a day ago, so that its client has been able to learn of it."""
MAX_SNAPSHOT_BYTES: Final = 4 * GIB
"""A pinned manifest: 10 000 000 items of 400 bytes."""

# Documents.
MAX_DATASET_ITEMS: Final = 10_000_000
MAX_CLASS_NAMES: Final = 10_000
MAX_COUNT: Final = 2**63 - 1
"""The greatest integer of a typed field: what databases and file systems can count."""
MAX_DOCUMENT_DEPTH: Final = 100
"""Nesting; a recursive reader must not be driven into the stack's end."""
LARGE_DOCUMENT_BYTES: Final = 64 * MIB
"""A source manifest that is longer is pinned alone: at some ten times its length in memory, two might be too many."""
MAX_GIVEN_DOCUMENT_BYTES: Final = 8 * GIB
"""A document that a person names, read whole: a source manifest of ten million items has some 4 GB; a device has no end."""
MAX_REREAD_BYTES: Final = 16 * MIB
"""A text that is no strict JSON is read a second time up to here, in under a second, to name the fields at fault."""
MAX_VIOLATIONS: Final = 1_000
"""Named of one document: a person corrects the first ten; 12 MB of unknown fields would be 200 MB of complaints."""
MAX_RECORD_BYTES: Final = 64 * MIB
"""A registration record or stored submission: a manifest twice, and room."""

# User schemas.
SCHEMA_CHECK_SECONDS: Final = 5.0
"""Checking a user's JSON Schema and values: a pattern such as `(a+)+$` never ends."""

# Training processes (defaults; settings of the same meaning override them).
DEFAULT_IDLE_TIMEOUT_SECONDS: Final = 180.0
DEFAULT_MAX_OUTPUT_BYTES: Final = 64 * MIB
DEFAULT_MAX_PROCESSES: Final = 1_024
"""Data loaders start tens of processes a GPU; a fork bomb thousands a second."""
DEFAULT_MAX_WORKSPACE_BYTES: Final = 100 * GIB
MAX_PROTOCOL_LINE_BYTES: Final = 16 * MIB
"""A completion of 128 artifacts with metadata; a plain line is cut at the same length."""
TERMINATE_GRACE_SECONDS: Final = 10.0
"""Between SIGTERM and SIGKILL, time for a package to write a checkpoint."""
STARTUP_SECONDS: Final = 120.0
"""From a launch to the package's first line: a Python on a cold network disk; the package's own imports count as training."""
RESULT_LINGER_SECONDS: Final = 30.0
"""Between a result and the end of its process: exit handlers, CUDA's teardown. Afterwards it is ended; the result stands."""
SURVIVOR_SECONDS: Final = 5.0
"""Between a training process's end and that of all it started: pools' workers and resource trackers go in under one."""
MAX_EVENTS: Final = 1_000_000
"""Typed events of one training: one a second for eleven days."""
THREADS_PER_PROCESS: Final = 8
"""Threads a package may have for each process that it may have: data loaders and math libraries start one a core."""
MIN_FREE_DISK_BYTES: Final = 512 * MIB
"""A package that would leave less than this on the workspace's disk is ended: journal and ledger need room to say so."""
JOURNAL_OUTPUT_BURST: Final = 200
JOURNAL_OUTPUT_LINES_PER_SECOND: Final = 20
"""Plain lines that a journal takes, at once and for long: what a person can follow. The output log has them all."""
JOURNAL_PAGE_BYTES: Final = 64 * KIB
"""What a follower is given at once, and holds: a thousand of them take 64 MiB."""
MAX_TOLD_ENTRY_BYTES: Final = 1 * MIB
"""An entry that a follower is given; a longer one, of a package that prints megabytes without a line's end, is only mentioned."""

# This machine's own places (defaults; settings override them).
DEFAULT_CACHE_MAX_BYTES: Final = 100 * GIB
"""The cache of dataset objects, packages and models; what an execution uses is never removed for it."""
DEFAULT_MAX_ATTEMPTS: Final = 3
"""Attempts of one execution when the machine fails it; a fault that strikes three times is not chance."""
MAX_SETTINGS_BYTES: Final = 1 * MIB
"""`mtr.toml`, or a data set's `data.yaml`, read whole."""

# The platform's settings.
MAX_PLATFORM_SETTINGS_BYTES: Final = 1 * MIB
"""The platform's whole YAML document, other services' sections included; Nacos itself takes 100 KB by default."""
MAX_NACOS_ANSWER_BYTES: Final = 4 * MIB
"""The document as a JSON string, each character escaped at worst, and what is said about it."""
MAX_PLATFORM_SETTINGS_DEPTH: Final = 32
"""Ours has four levels."""
MAX_PLATFORM_SETTINGS_NODES: Final = 100_000
"""Values of it, aliases written out: nine aliases a level, nine levels deep, are 400 million."""
NACOS_CALL_SECONDS: Final = 2.0
"""A connection, or the next bytes of an answer. A healthy server needs milliseconds."""
NACOS_SECONDS: Final = 5.0
"""One read in all: a login, two API versions, a second server."""
PLATFORM_SETTINGS_POLL_SECONDS: Final = 3.0
"""Between two reads of a program that serves: the age of what it answers from; one small request each."""
PLATFORM_SETTINGS_WARN_SECONDS: Final = 60.0
"""A warning that stays true is said again after so long."""
LAST_GOOD_SECONDS: Final = 24 * 3600.0
"""How long another process may use what was read last on this machine: over a night's outage, not for ever."""

# The ledger.
LEDGER_BUSY_SECONDS: Final = 30.0
"""How long a writer waits for another's transaction; ours take milliseconds."""
LEDGER_CONNECT_SECONDS: Final = 10.0
"""For a server's first answer, and between the questions whether a silent one is still there."""
CLAIM_EXPIRY_SECONDS: Final = 90.0
"""An owner on another machine that has been silent for so long has lost its execution; it reports every 15 s."""

# The HTTP API's long answers.
DOWNLOADS_READ_AT_ONCE: Final = 16
"""Pieces of downloads that are read from the store at the same moment; each takes a thread for milliseconds."""
JOURNALS_READ_AT_ONCE: Final = 4
"""Pages of journals, likewise: a page takes a fraction of a millisecond."""
FOLLOW_POLL_SECONDS: Final = 0.25
"""How often a follower looks whether a journal has grown; a look costs microseconds."""
FOLLOW_HEARTBEAT_SECONDS: Final = 15.0
"""Proxies commonly end a connection that says nothing for 30 to 60 s."""
MAX_LISTED: Final = 1_000
"""Entries of one page of a list; a page of executions is under 2 MiB."""
RUN_ALLOWANCE_SECONDS: Final = 600.0
"""A synchronous run is waited for so much longer than its training may take: for others before it, inputs and artifacts."""
MAX_RUN_ENTRIES: Final = 10_000
"""Events, and log lines, that the answer of a synchronous run carries, the last ones; all of them are in the journal."""
PROBE_SECONDS: Final = 2.0
"""For a dependency to answer `/ready`; a healthy one needs milliseconds, and whoever asks waits for it."""
PROBE_MEMORY_SECONDS: Final = 1.0
"""For so long an answer of `/ready` is given again, so that asking often costs the dependencies nothing."""

# What the platform is told.
MAX_TOLD_CHARACTERS: Final = 16_000
"""Of one log message (wire contract)."""
MAX_TOLD_LOGS: Final = 10_000
"""Log messages of one execution: one every 9 s for a day. A broker and a task's page are no log store; the journal is."""
TOLD_LINES_AT_ONCE: Final = 10
"""New lines of one look, a second, that become a message each; of more, those of one level are joined."""

# ONNX files, opened in a process of their own.
MAX_ONNX_BYTES: Final = 2 * GIB - 1
"""Protobuf holds no more; a larger model would need files beside it, and an artifact is one file."""
ONNX_CHECK_SECONDS: Final = 300.0
"""2 GiB take 10 s on one core; the rest is for a busy machine and a cold disk."""
ONNX_CHECK_MEMORY_BYTES: Final = 1 * GIB
"""For the readers themselves and what a graph computes from constants..."""
ONNX_CHECK_COPIES: Final = 4
"""...and this many times the file: a session holds weights twice while it loads, and once more where it repacks them."""
MAX_ONNX_REPORT_BYTES: Final = 1 * MIB
"""Names and shapes of inputs and outputs: thousands of tensors."""

# Local data sets that are imported.
MAX_DATASET_FOLDER_DEPTH: Final = 32
"""Folders below a class folder; a tree that is deeper is a loop."""
MAX_LABEL_FILE_BYTES: Final = 64 * MIB
"""A YOLO label file, or a list of image paths: a million lines."""
MAX_COCO_BYTES: Final = 2 * GIB
"""A COCO file, parsed in memory at some five times its size; the largest in common use has 0.5 GiB."""
IMPORT_THREADS: Final = 16
"""Files that are hashed and uploaded at once; near stores gain nothing above it."""

# Having accepted executions carried out.
DISPATCH_SWEEP_SECONDS: Final = 30.0
"""How long an execution waits at most whose acceptor died before it could ring; a look costs one query."""
DISPATCH_UNTOLD_SECONDS: Final = 30.0
"""An execution that nobody rang for is left so long to its acceptor, which may be about to carry it out itself."""
DISPATCH_FIRST_PAUSE_SECONDS: Final = 10.0
DISPATCH_LONGEST_PAUSE_SECONDS: Final = 300.0
"""Between two starts of an execution that came to no end, doubled from the first to the longest: a start costs ten seconds of a core."""

# The message broker.
MAX_SUBMISSION_BYTES: Final = 16 * MIB
"""A submission with a model of 10 000 class names and large parameters is under 4 MiB; it is read whole."""
BROKER_CONNECT_SECONDS: Final = 10.0
"""To connect and say who we are; a healthy broker needs milliseconds."""
BROKER_CONFIRM_SECONDS: Final = 10.0
"""Until the broker has confirmed a message; one that is short of memory or disk lets publishers wait."""
BROKER_FIRST_PAUSE_SECONDS: Final = 1.0
BROKER_LONGEST_PAUSE_SECONDS: Final = 30.0
"""Between two tries to reach a broker that is away, doubled from the first to the longest."""
DELIVERY_HOLD_SECONDS: Final = 300.0
"""How long a delivery waits for a ledger that is away before it is given back; RabbitMQ takes it back itself after 30 minutes."""
OUTBOX_POLL_SECONDS: Final = 1.0
"""How often the bridge looks for messages that other processes left in the outbox; a look is one query by an index."""
OUTBOX_MESSAGES_AT_ONCE: Final = 100
"""Read and marked together; a bridge that is killed sends at most so many again."""
OUTBOX_LEASE_SECONDS: Final = 45.0
"""When a bridge that publishes is silent for so long another one takes its place; more than two confirms take."""
UNROUTABLE_PAUSE_SECONDS: Final = 10.0
"""Before a message is tried again that no queue of the platform took."""
