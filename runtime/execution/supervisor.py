"""The process between the runtime and a package: it confines the package, watches it, and ends every process of it.

Started as `python -I -S supervisor.py REPORT_FD` by `process.py`, in a session of its own, standard library only: it
must start fast, and live on when its parent does not. Its stdin is a pipe: the first line is the order, then come
commands, and its end means that the parent is gone.

```
parent (flow)  ->  supervisor  ->  init  ->  runner (the package)  ->  whatever the package starts
```

1. The supervisor becomes the subreaper of everything below it, and asks the kernel for a signal should its parent die.
2. It forks the init into namespaces of its own, as many as the machine allows: processes (with IPC), files, network.
   A namespace that is refused is left out and named in the report; nothing else changes.
3. The init arranges what the package can see and write, waits for the parent's word, gives up every privilege, and
   starts the runner; it is the runner's parent and, in its namespace, process 1.
4. The supervisor measures memory, processes and disk of the whole tree and ends it when one goes over its limit.
5. When the runner has ended by itself, what it started has a moment to end too; what has not is named in the report.
6. Whatever happens it ends the whole tree: with a process namespace by ending its process 1, which the kernel makes
   the end of all; without one by killing every descendant until none is left. If the supervisor itself is killed, the
   init dies with it (death signal), and the parent looks for the rest by its mark.

| command | answer |
|---|---|
| `go` | starts the runner: `{"event": "running", "pid"}` |
| `stacks` | asks Python processes for their stacks: `{"event": "stacks"}` |
| `terminate` | SIGTERM to the runner |
| `kill` | ends the tree |
| `end` | after `exited`: ends what is left of the tree without waiting for it |

Reports: `ready` (isolation), `running`, `limit` (which one, how much), `stacks`, `exited` (the runner, by itself), and
`ended`, always the last.
"""

# ruff: noqa: S108 - temporary folders are what this confines
from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import select
import signal
import stat
import struct
import sys
import time

TYPE_CHECKING = False  # as type checkers know it; importing typing would take longer than all of the above
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

MEASURE_SECONDS = 0.05
"""Between two looks at memory and processes; the most that a package can allocate meanwhile is a few hundred MiB."""
DISK_SECONDS = 0.25
WALK_PAUSE_SECONDS = 1.0
WALK_STEP = 1_000
"""Files looked at between two looks at memory: about 5 ms."""
BUSY_SHARE = 10
"""Measuring takes at most one part in so many of a core."""
END_SECONDS = 20.0
"""A killed process that is still there after this hangs in the kernel; the report names it."""
OUTLIVE_PAUSE_SECONDS = 0.02
"""Between two looks at whether what the runner left has ended: honest packages wait no longer than they must."""
NAMED_SURVIVORS = 50
"""Processes whose names the report has; it counts all of them."""

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x20000,
    0x8000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 0x1000, 0x4000, 0x40000
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER = 1, 4, 24, 36
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
CAPABILITIES = 64
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP, AF_INET, SOCK_DGRAM = 0x8913, 0x8914, 1, 2, 2

FEATURES = ("network", "filesystem", "processes")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
GPU_DEVICES = ("nvidia", "dri", "kfd", "infiniband")

libc = ctypes.CDLL(None, use_errno=True)
PAGE = os.sysconf("SC_PAGE_SIZE")


class RefusedError(Exception):
    """The machine does not allow a namespace; `features` are those that cannot be had."""

    def __init__(self, features: tuple[str, ...], reason: str) -> None:
        super().__init__(reason)
        self.features = features


def call(function: str, *arguments: Any) -> int:
    """The answer of a function of the C library.

    Raises:
        OSError: it failed.
    """
    answer: int = getattr(libc, function)(*arguments)
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), function)
    return answer


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mounts."""
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    call("mount", *texts, ctypes.c_ulong(flags), None if options is None else options.encode())


def set_read_only(path: str, *, read_only: bool, recursive: bool = False) -> None:
    """Makes one mount, or with `recursive` all below it too, read-only or writable."""
    on, off = (MOUNT_ATTR_RDONLY, 0) if read_only else (0, MOUNT_ATTR_RDONLY)
    attributes = struct.pack("QQQQ", on, off, 0, 0)
    flags = AT_RECURSIVE if recursive else 0
    number = ctypes.c_long(SYS_MOUNT_SETATTR)
    call("syscall", number, AT_FDCWD, os.fsencode(path), flags, attributes, ctypes.c_size_t(len(attributes)))


# --- what the package sees -------------------------------------------------------------------------------------------


def enter_namespaces(features: list[str]) -> None:
    """Afterwards this process is in new namespaces, or its next child is: processes get theirs by being forked.

    Raises:
        RefusedError: the machine does not allow it, neither directly nor through a user namespace.
    """
    flags = 0
    if "processes" in features:
        flags |= CLONE_NEWPID | CLONE_NEWIPC
    if "filesystem" in features:
        flags |= CLONE_NEWNS
    if "network" in features:
        flags |= CLONE_NEWNET
    if not flags:
        return
    try:
        call("unshare", flags)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise RefusedError(tuple(features), f"unshare: {error.strerror}") from error
    else:
        return
    user, group = os.getuid(), os.getgid()
    try:
        call("unshare", flags | CLONE_NEWUSER)
        for name, content in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(content)
    except OSError as error:
        raise RefusedError(tuple(features), f"unshare, also in a user namespace: {error.strerror}") from error


def raise_loopback() -> None:
    """Afterwards 127.0.0.1 works in this network namespace: processes of one training talk to each other."""
    handle = call("socket", AF_INET, SOCK_DGRAM, 0)
    try:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(handle, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))
    finally:
        os.close(handle)


def confine_files(view: dict[str, Any], *, own_processes: bool) -> None:
    """Afterwards this mount namespace shows the package what it may see, and only its own folders are writable.

    Args:
        view: `covered` paths are empty; `kept` paths are as they are outside, also below covered ones, and so are the
            symbolic `links` that lead to them; `bound` are pairs of what is shown and where; `tmp` is shown as /tmp and /var/tmp; `writable` are the only places that
            can be written to; `shm_bytes` is the size of /dev/shm; `gpus` says whether GPU devices are there.
        own_processes: whether this is process 1 of a namespace, so that /proc shows that.

    1. Nothing done here is seen outside. 2. What must stay is held open. 3. From the root down, so that an inner path
    wins over an outer one, places are covered, and what must stay is put back. 4. Everything becomes read-only, down
    to /proc and /sys, whose files root may write without any capability. 5. The package's folders become writable.
    """
    mount("none", "/", None, MS_REC | MS_PRIVATE)

    shown: dict[str, str] = {path: path for path in view["kept"]}
    shown.update({target: source for source, target in view["bound"]})
    shown.update({place: view["tmp"] for place in ("/tmp", "/var/tmp") if os.path.isdir(place)})
    held: dict[str, int] = {}
    try:
        for target, source in shown.items():
            with contextlib.suppress(FileNotFoundError):  # a Python may name folders that it never had
                held[target] = os.open(source, os.O_PATH | os.O_CLOEXEC)
        covered = [path for path in view["covered"] if os.path.exists(path) and path not in held]
        for path in sorted({*covered, *held, "/dev"}, key=lambda path: path.rstrip("/").split("/")):
            if path == "/dev":
                arrange_devices(view)
            elif path in held:
                put(held[path], path)
            elif os.path.isdir(path):
                mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
            elif os.path.exists(path):
                mount("/dev/null", path, None, MS_BIND)
        for path, text in view["links"]:
            if not os.path.lexists(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.symlink(text, path)
    finally:
        for handle in held.values():
            os.close(handle)
    if own_processes:
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)

    set_read_only("/", read_only=True, recursive=True)
    for path in (*view["writable"], "/dev/shm", *(place for place in ("/tmp", "/var/tmp") if place in held)):
        set_read_only(path, read_only=False)


def put(handle: int, target: str) -> None:
    """Shows what `handle` holds at `target`, which is made where it is missing: that is inside a covered place."""
    if not os.path.lexists(target):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    mount(f"/proc/self/fd/{handle}", target, None, MS_BIND | MS_REC)


def arrange_devices(view: dict[str, Any]) -> None:
    """Afterwards /dev has what programs expect and GPUs if they are wanted; no disk, no terminal of others."""
    names = [name for name in os.listdir("/dev") if name in DEVICES or (view["gpus"] and name.startswith(GPU_DEVICES))]
    held = {name: os.open(f"/dev/{name}", os.O_PATH | os.O_CLOEXEC) for name in names}
    mount("tmpfs", "/dev", "tmpfs", MS_NOSUID, "mode=755,size=1m")
    for name, handle in held.items():
        put(handle, f"/dev/{name}")
        os.close(handle)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(target, f"/dev/{name}")
    os.mkdir("/dev/shm")
    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={view['shm_bytes']}")
    os.mkdir("/dev/pts")
    with contextlib.suppress(OSError):  # terminals are a convenience
        mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0600")
        os.symlink("pts/ptmx", "/dev/ptmx")


def give_up_privileges() -> None:
    """Afterwards this process has no capability and cannot gain one, not even root by running a program."""
    for capability in range(CAPABILITIES):
        with contextlib.suppress(OSError):  # the kernel knows fewer, or we had no right to; no_new_privs holds anyway
            call("prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)
    with contextlib.suppress(OSError):
        call("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call("capset", struct.pack("IiIIIIII", 0x20080522, 0, 0, 0, 0, 0, 0, 0)[:8], struct.pack("6I", *[0] * 6))


# --- the init --------------------------------------------------------------------------------------------------------


class Init:
    """The process that starts the runner, as its supervisor sees it.

    Attributes:
        pid: its process id.
        status: the pipe that it reports through.
        word: the pipe that it waits at.
        features: the namespaces that it is in.
    """

    def __init__(self, order: dict[str, Any], features: list[str]) -> None:
        """Afterwards the init waits for `start`.

        Raises:
            RefusedError: the machine does not allow one of `features`.
        """
        self.features = features
        self.status, status = os.pipe()
        word, self.word = os.pipe()
        self._unread = b""
        launcher = os.fork()
        if launcher == 0:
            os.close(self.status)
            os.close(self.word)
            launch_init(order, features, status, word)
        os.close(status)
        os.close(word)
        pid, answer = 0, b""
        while not (pid and answer):  # the launcher says the pid, the init the rest, in any order
            line = self.read_line()
            if line.startswith(b"init "):
                pid = int(line[5:])
            elif line:
                answer = line
            else:
                break
        os.waitpid(launcher, 0)  # now the init is our own child
        if not pid or answer != b"ready":
            self.close()
            if pid:
                kill(pid)
                os.waitpid(pid, 0)
            refused, _, reason = answer.partition(b" ")[2].decode(errors="replace").partition(":")
            raise RefusedError(tuple(refused.split(",")) if refused else tuple(features), reason or "it died")
        self.pid = pid

    def read_line(self) -> bytes:
        """The next line that it says; empty once it is gone."""
        while b"\n" not in self._unread:
            chunk = os.read(self.status, 4096)
            if not chunk:
                return b""
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def lines(self) -> Iterator[bytes]:
        """The lines that it has said; ends with an empty one once it is gone."""
        chunk = os.read(self.status, 4096)
        self._unread += chunk
        while b"\n" in self._unread:
            line, _, self._unread = self._unread.partition(b"\n")
            yield line
        if not chunk:
            yield b""

    def start(self) -> None:
        """Lets it start the runner."""
        os.write(self.word, b"go\n")

    def close(self) -> None:
        """Afterwards no pipe to it is open."""
        os.close(self.status)
        os.close(self.word)


def launch_init(order: dict[str, Any], features: list[str], status: int, word: int) -> NoReturn:
    """Runs in a fork: enters the namespaces, forks the init into them, and exits so that the supervisor inherits it."""
    code = 1
    try:
        call("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)  # or its files in /proc, uid_map among them, would be root's
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # the kernel should take the package, not us, when the machine is out of memory
        enter_namespaces(features)
        pid = os.fork()
        if pid == 0:
            be_init(order, features, status, word)
        os.write(status, b"init %d\n" % pid)
        code = 0
    except RefusedError as error:
        os.write(status, f"refused {','.join(error.features)}:{error}\n".encode())
    finally:
        os._exit(code)


def be_init(order: dict[str, Any], features: list[str], status: int, word: int) -> NoReturn:
    """Runs as the init: arranges the view, waits for the word, starts the runner, and waits for its end."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        missing = ""
        try:
            if "network" in features:
                missing = "network"
                raise_loopback()
            if "filesystem" in features:
                missing = "filesystem,processes"
                confine_files(order["view"], own_processes="processes" in features)
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            os.write(status, f"refused {missing}:{error.strerror}{where}\n".encode())
            os._exit(1)
        os.write(status, b"ready\n")
        if os.read(word, 16) != b"go\n":
            os._exit(1)
        call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        me = os.getpid()
        runner = os.fork()
        if runner == 0:
            run_package(order, features, me)
        for handle in order["descriptors"]:
            os.close(handle)  # or the pipes would not end with the package
        call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)  # nobody looks into process 1
        give_up_privileges()
        os.write(status, b"running\n")
        while True:
            pid, ended = os.waitpid(-1, 0)  # process 1 inherits the orphans of its namespace
            if pid == runner:
                break
        os.write(status, b"ended %d\n" % ended)
        os.read(word, 1)  # until the supervisor ends this process, or is gone itself
    finally:
        os._exit(0)


def run_package(order: dict[str, Any], features: list[str], parent: int) -> NoReturn:
    """Runs as the runner's process: becomes the runner, without a privilege, or dies."""
    try:
        os.setsid()
        os.umask(0o022)
        for place, handle in enumerate(order["descriptors"][:3]):
            os.dup2(handle, place)
        for handle in order["descriptors"][3:]:
            os.set_inheritable(handle, True)
        bound(resource.RLIMIT_CORE, 0)
        bound(resource.RLIMIT_FSIZE, order["file_size_bytes"])
        bound(resource.RLIMIT_NOFILE, order["open_files"])
        os.chdir(order["working_directory"])
        give_up_privileges()
        call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        environment = {**order["environment"], **(order["own_tmp"] if "filesystem" in features else {})}
        os.execve(order["command"][0], order["command"], environment)  # noqa: S606 - never through a shell
    except OSError as error:
        os.write(2, f"the package's process could not be started: {error}\n".encode())
    finally:
        os._exit(127)


def bound(what: int, most: int | None) -> None:
    """Sets a resource limit, never over what this machine allows; `None` takes all that it allows, within reason."""
    hard = resource.getrlimit(what)[1]
    wanted = 65_536 if most is None else most
    value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(what, (value, value))


# --- measuring the tree ----------------------------------------------------------------------------------------------


def read(path: str) -> bytes:
    """A small file of /proc; empty once its process is gone."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(handle, 65_536)
    except OSError:
        return b""
    finally:
        os.close(handle)


def children_of(pid: int) -> list[int]:
    """The children of a process, of all its threads."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [int(child) for thread in threads for child in read(f"/proc/{pid}/task/{thread}/children").split()]


def descendants() -> list[int]:
    """Everything below this process. While processes come and go some may be missed; the next look has them."""
    if os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        found: list[int] = []
        waiting = [os.getpid()]
        while waiting:
            below = children_of(waiting.pop())
            found += below
            waiting += below
        return found
    every = {int(name): fields_of(int(name)) for name in os.listdir("/proc") if name.isdecimal()}
    ours = {os.getpid()}
    while more := {pid for pid, fields in every.items() if fields and int(fields[1]) in ours} - ours:
        ours |= more
    return sorted(ours - {os.getpid()})


def fields_of(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat from the state on; none once it is gone."""
    return read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def alive(pid: int) -> bool:
    """Whether `pid` is there and is more than a dead process that nobody asked after."""
    fields = fields_of(pid)
    return bool(fields) and fields[0] not in b"ZX"


def name_of(pid: int) -> str:
    """What a process calls itself; any bytes at all, sixteen at most."""
    return read(f"/proc/{pid}/comm").removesuffix(b"\n").decode(errors="replace")


class Tree:
    """The processes of the package and what they take.

    Attributes:
        peak_memory: bytes, the most that was seen.
        peak_processes: the most that were seen.
    """

    def __init__(self, init: Init) -> None:
        self.peak_memory = 0
        self.peak_processes = 0
        self._init = init.pid
        self._shared: int | None = None
        if "filesystem" in init.features:
            with contextlib.suppress(OSError):
                self._shared = os.open(f"/proc/{init.pid}/root/dev/shm", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def measure(self, most_memory: int) -> tuple[int, int, int]:
        """Memory in bytes, processes and threads, now. Pages that processes share are counted once near the limit."""
        pids = [pid for pid in descendants() if pid != self._init]
        resident = threads = 0
        for pid in pids:
            fields = fields_of(pid)
            if len(fields) > 21:
                threads += int(fields[17])
                resident += int(fields[21]) * PAGE
        shared = self._shared_bytes()
        memory = resident + shared
        if memory > most_memory:
            memory = min(memory, self._exact(pids, shared))
        self.peak_memory = max(self.peak_memory, memory)
        self.peak_processes = max(self.peak_processes, len(pids))
        return memory, len(pids), threads

    def _shared_bytes(self) -> int:
        """What lies in the package's /dev/shm: memory that no process needs to have mapped."""
        if self._shared is None:
            return 0
        at = os.fstatvfs(self._shared)
        return (at.f_blocks - at.f_bfree) * at.f_frsize

    def _exact(self, pids: list[int], shared: int) -> int:
        """Memory that could not be taken back: forked loaders share their parent's pages, mapped files are cache."""
        anonymous = mapped = 0
        for pid in pids:
            fields = dict(
                line.split(b":", 1)
                for line in read(f"/proc/{pid}/smaps_rollup").splitlines()
                if line.startswith(b"Pss")
            )
            if b"Pss_Anon" in fields:
                anonymous += int(fields[b"Pss_Anon"].split()[0]) * 1024
                mapped += int(fields[b"Pss_Shmem"].split()[0]) * 1024
            else:
                numbers = fields_of(pid)
                anonymous += int(numbers[21]) * PAGE if len(numbers) > 21 else 0
        return anonymous + max(mapped, shared)


class Disk:
    """What the package wrote.

    Attributes:
        used: bytes in its folders when they were last looked through, or more if the running look found more.
    """

    def __init__(self, folders: list[str]) -> None:
        self.used = 0
        self._folders = folders
        self._found = 0
        self._waiting: list[str] = []
        self._entries: Iterator[os.DirEntry[str]] = iter(())
        self._next_walk = 0.0

    def step(self, now: float) -> None:
        """Looks at some more files: a walk through a million of them must not keep us from looking at memory."""
        if now < self._next_walk:
            return
        if not self._waiting and self._found == 0:
            self._waiting = list(self._folders)
        for _ in range(WALK_STEP):
            entry = next(self._entries, None)
            if entry is None:
                if not self._waiting:
                    self.used, self._found, self._next_walk = self._found, 0, now + WALK_PAUSE_SECONDS
                    return
                try:
                    with os.scandir(self._waiting.pop()) as entries:
                        self._entries = iter(list(entries))
                except OSError:  # gone, or nested deeper than a path can be: the disk's free space bounds that
                    self._entries = iter(())
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    self._waiting.append(entry.path)
                self._found += entry.stat(follow_symlinks=False).st_blocks * 512
            except OSError:
                continue
        self.used = max(self.used, self._found)

    def finish(self) -> int:
        """The bytes that are there now, from one whole look, however long it takes."""
        self._waiting, self._entries, self._found, self._next_walk = [], iter(()), 0, 0.0
        self.used = 0
        while self._next_walk == 0.0:
            self.step(0.0)
        return self.used

    def free(self) -> int:
        """Bytes left on the disk; none when there is no room for another file."""
        try:
            at = os.statvfs(self._folders[0])
        except OSError:
            return sys.maxsize  # the package removed its folder: that is found out elsewhere
        return 0 if at.f_files and not at.f_favail else at.f_bavail * at.f_frsize


# --- the supervisor --------------------------------------------------------------------------------------------------


class ParentGoneError(Exception):
    """The parent ended, or asked for the end of all: nobody waits for a report."""


class Supervisor:
    """Holds one package's tree, from its start to the proof of its end."""

    def __init__(self, order: dict[str, Any], report: int) -> None:
        self._order = order
        self._report = report
        self._commands = b""
        self._runner: int | None = None
        self._ended: int | None = None
        self._init: Init
        self._tree: Tree
        self._disk = Disk(order["view"]["writable"])
        self._broken = False
        self._killed = False
        self._dismissed = False
        self._measure_at = self._disk_at = 0.0

    def run(self) -> None:
        """Afterwards the tree has run and is gone."""
        try:
            self._confine()
            self._follow()
            self._outwait()
            self._say_end()
        except ParentGoneError:  # once at most: nothing interrupts the end
            self._end_tree()

    def say(self, event: str, **fields: Any) -> None:
        """Reports to the parent."""
        line = json.dumps({"event": event, **fields}, separators=(",", ":")).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):  # its end of our stdin tells
            os.write(self._report, line)

    def _confine(self) -> None:
        """Starts the init in as many namespaces as the machine allows."""
        wanted = [feature for feature in FEATURES if feature in self._order["features"]]
        refused: dict[str, str] = {}
        while True:
            try:
                self._init = Init(self._order, wanted)
                break
            except RefusedError as error:
                if not wanted:
                    raise
                gone = [feature for feature in error.features if feature in wanted] or list(wanted)
                refused.update(dict.fromkeys(gone, str(error)))
                wanted = [feature for feature in wanted if feature not in gone]
                if "filesystem" not in wanted and "processes" in wanted:
                    wanted.remove("processes")  # without files of its own it would see the /proc of all
                    refused["processes"] = refused.get("filesystem", "needs files of its own")
        self._tree = Tree(self._init)
        for handle in self._order["descriptors"][:3]:
            os.close(handle)
        self.say("ready", features=self._init.features, refused=refused)

    def _follow(self) -> None:
        """Serves the parent's commands and watches the tree, until the runner or the init has ended."""
        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(self._init.status, select.POLLIN)
        while self._ended is None:
            wait = MEASURE_SECONDS if self._runner else 3600.0
            for handle, _ in poll.poll(max(wait, self._measure_at - time.monotonic()) * 1000):
                if handle == 0:
                    self._obey()
                else:
                    self._hear()
            if self._runner is not None and self._ended is None:
                self._watch()

    def _outwait(self) -> None:
        """Gives what the runner left its time to end by itself; commands and limits hold meanwhile.

        Pools, resource trackers and loaders of libraries end a moment after the process that started them.
        """
        if self._killed:
            return
        self.say("exited")
        poll = select.poll()
        poll.register(0, select.POLLIN)
        until = time.monotonic() + self._order["survivor_seconds"]
        while not self._killed and not self._dismissed and self._survivors() and time.monotonic() < until:
            if poll.poll(OUTLIVE_PAUSE_SECONDS * 1000):
                self._obey()
            self._watch()

    def _survivors(self) -> list[int]:
        """What lives below the init. Looks twice, since one look can miss a process whose parent ends at that moment."""
        for _ in range(2):
            found = [pid for pid in descendants() if pid != self._init.pid and alive(pid)]
            if found:
                return found
        return []

    def _watch(self) -> None:
        """Measures what is due."""
        now = time.monotonic()
        if now >= self._measure_at and not self._broken:
            self._watch_processes()
            taken = time.monotonic() - now
            self._measure_at = now + max(MEASURE_SECONDS, taken * BUSY_SHARE)
        if now >= self._disk_at and not self._broken:
            self._watch_disk(now)
            self._disk_at = now + max(DISK_SECONDS, (time.monotonic() - now) * BUSY_SHARE)

    def _obey(self) -> None:
        chunk = os.read(0, 4096)
        if not chunk:
            end_with_parent()
        self._commands += chunk
        while b"\n" in self._commands:
            command, _, self._commands = self._commands.partition(b"\n")
            if command == b"go":
                self._init.start()
            elif command == b"terminate" and self._runner is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._runner, signal.SIGTERM)
            elif command == b"stacks":
                self._ask_for_stacks()
                self.say("stacks")
            elif command == b"kill":
                self._kill_tree()
            elif command == b"end":
                self._dismissed = True

    def _hear(self) -> None:
        """What the init says."""
        for line in self._init.lines():
            if line == b"running":
                pid = next(iter(children_of(self._init.pid)), 0)
                with contextlib.suppress(ProcessLookupError):
                    self._runner = os.pidfd_open(pid) if pid else None
                self.say("running", pid=pid)
            elif line.startswith(b"ended "):
                self._ended = int(line.split()[1])
            elif not line and self._ended is None:
                self._ended = signal.SIGKILL  # the init is gone, and with it the runner

    def _watch_processes(self) -> None:
        order = self._order
        memory, processes, threads = self._tree.measure(order["memory_bytes"])
        if memory > order["memory_bytes"]:
            self._break("memory", memory, order["memory_bytes"])
        elif processes > order["max_processes"]:
            self._break("processes", processes, order["max_processes"])
        elif threads > order["max_threads"]:
            self._break("threads", threads, order["max_threads"])
        self._reap()

    def _watch_disk(self, now: float) -> None:
        order = self._order
        self._disk.step(now)
        if self._disk.used > order["max_workspace_bytes"]:
            self._break("workspace", self._disk.used, order["max_workspace_bytes"])
        elif (free := self._disk.free()) < order["min_free_disk_bytes"]:
            self._break("disk", free, order["min_free_disk_bytes"])

    def _break(self, limit: str, measured: int, most: int) -> None:
        """Ends the tree for going over a limit; a bomb gets no grace."""
        self._broken = True
        self.say("limit", limit=limit, measured=measured, most=most)
        self._kill_tree()

    def _ask_for_stacks(self) -> None:
        """Asks every process that knows the signal for its Python stacks, the runner first, one after another."""
        number = self._order["stacks_signal"]
        stacks = self._order["descriptors"][3]
        for pid in descendants()[:64]:
            caught = next(
                (line for line in read(f"/proc/{pid}/status").splitlines() if line.startswith(b"SigCgt")), b""
            )
            if caught and int(caught.split()[1], 16) >> (number - 1) & 1:
                with contextlib.suppress(ProcessLookupError, PermissionError, BlockingIOError):
                    os.write(stacks, b"process %d\n" % pid)
                    os.kill(pid, number)
                time.sleep(0.02)  # stacks of two processes must not mix

    def _kill_tree(self) -> None:
        """Kills the runner, or where the init is process 1 of a namespace, all at once."""
        self._killed = True
        if "processes" in self._init.features:
            kill(self._init.pid)
            return
        for pid in descendants():
            if pid != self._init.pid:
                kill(pid)

    def _end_tree(self) -> list[int]:
        """Afterwards nothing below this process lives, but what hangs in the kernel: those pids are the answer."""
        if not hasattr(self, "_init"):
            return []
        deadline = time.monotonic() + END_SECONDS
        kill(self._init.pid)
        # A look at /proc can miss a process that is being handed to us, its subreaper, at that moment. That we have no
        # child at all cannot lie: whatever lives below us hangs on one.
        while self._reap():
            left = [pid for pid in descendants() if alive(pid)]
            if time.monotonic() > deadline:
                return left
            if "processes" not in self._init.features:
                for pid in left:
                    kill(pid)
            time.sleep(0.002)
        return []

    def _reap(self) -> bool:
        """Asks after every child that has ended; whether there are others."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False
        return True

    def _say_end(self) -> None:
        """Ends what is left and reports how it was."""
        outlived = [] if self._killed else self._survivors()
        named = [{"pid": pid, "name": name_of(pid)} for pid in outlived[:NAMED_SURVIVORS]]
        left = self._end_tree()
        ended = self._ended or 0
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.say(
            "ended",
            exit_code=os.WEXITSTATUS(ended) if os.WIFEXITED(ended) else None,
            signal=os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else 0,
            outlived=len(outlived),
            survivors=named,
            left=left,
            peak_memory=self._tree.peak_memory,
            peak_processes=self._tree.peak_processes,
            cpu_seconds=used.ru_utime + used.ru_stime,
            workspace_bytes=self._disk.finish(),
        )


def kill(pid: int) -> None:
    """Kills a process of ours, if it is still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def read_order() -> dict[str, Any]:
    """The first line of stdin; commands come only after our report."""
    content = b""
    while not content.endswith(b"\n"):
        chunk = os.read(0, 65_536)
        if not chunk:
            end_with_parent()
        content += chunk
    order: dict[str, Any] = json.loads(content)
    return order


parent_gone = False


def end_with_parent(*_: object) -> None:
    """The end of our stdin, the death signal of the parent's thread, or anybody's SIGTERM: the tree must not outlive it.

    A parent that is killed causes the first two within microseconds; the second must not interrupt what the first began.

    Raises:
        ParentGoneError: the first time.
    """
    global parent_gone  # noqa: PLW0603 - a signal handler has no other place
    if not parent_gone:
        parent_gone = True
        raise ParentGoneError


def main() -> None:
    """Runs one order."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end_with_parent)
    with contextlib.suppress(ParentGoneError):
        call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        call("prctl", PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)  # what runs as the same user must not look into it
        order = read_order()
        for handle in (int(sys.argv[1]), *order["descriptors"], order["lock"]):
            os.set_inheritable(handle, False)  # the runner gets its own by name
        if os.getppid() == order["parent"]:
            Supervisor(order, int(sys.argv[1])).run()


if __name__ == "__main__":
    main()
