"""The first process of a local node: ``python -m tests.cluster.tool.node HOME PROGRAMS``.

It takes namespaces of its own for processes, mounts, network, host name and IPC, as a container does, and starts the
node's components in them. That makes the end simple: when this process dies, of whatever cause, the kernel ends every
process of the node, pods included, and with the last one go its mounts, interfaces, routes and firewall rules. Nothing of
the host is changed that would have to be put back.
"""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.cluster.tool.plan import HOME, PROGRAMS, VOLUMES, Component, Plan

MODULE = "tests.cluster.tool.node"
PLAN = "node.json"
EVENTS = "node.log"  # in the folder of logs: what this process did and saw
ENDED = "ended with code"  # how the event of a component's end reads

_NEWNS, _NEWUTS, _NEWIPC, _NEWPID, _NEWNET = 0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE, _MS_SHARED = 4096, 16384, 1 << 18, 1 << 20
_POLL, _IDLE = 0.05, 1.0
_CABLE = 30.0
_PAUSE = 0.5  # before a component that ended is started again

# What a kubelet sets for the whole machine. It sees files of the node instead: what it writes there changes nothing.
_HOST_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
_OWN_SETTINGS = {"net/ipv4/ip_forward": "1"}

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    home, programs = Path(sys.argv[1]), Path(sys.argv[2])
    plan = Plan.load((home / PLAN).read_text())
    _unshare()
    if os.fork() > 0:
        os._exit(0)  # the child is the first process of the new namespace, and the host's to reap
    events = (home / "log" / EVENTS).open("a", buffering=1)
    try:
        socket.sethostname(plan.hostname)
        _furnish(home, programs, plan.state_size)
        _connect(plan.network)
        Supervisor(plan.components, events.write).run()
    except Exception as error:
        events.write(f"the node could not start: {type(error).__name__}: {error}\n")
        raise SystemExit(1) from error


def _unshare() -> None:
    if _libc.unshare(_NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET) != 0:
        raise SystemExit(f"this machine does not let us make namespaces: {os.strerror(ctypes.get_errno())}")


def _furnish(home: Path, programs: Path, state_size: str) -> None:
    """The node's own view of the file system: the host's programs, but its own state, all of it in memory."""
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    with _held(home) as home_now, _held(programs) as programs_now, _held(Path("/sys/fs/cgroup")) as cgroups_now:
        _mount("proc", "/proc", "proc", 0)
        _mount("sysfs", "/sys", "sysfs", 0)
        _mount(cgroups_now, "/sys/fs/cgroup", None, _MS_BIND | _MS_REC)
        for folder in ("/run", "/var/lib", "/var/log", "/tmp"):
            _mount("tmpfs", folder, "tmpfs", 0, f"size={state_size}")
        for source, target in ((home_now, HOME), (programs_now, PROGRAMS)):
            os.makedirs(target)
            _mount(source, str(target), None, _MS_BIND)
    Path("/run/settings").mkdir()
    for number, name in enumerate(_HOST_SETTINGS):
        setting, ours = Path("/proc/sys", name), Path("/run/settings", str(number))
        if setting.exists():
            ours.write_text(setting.read_text())
            _mount(str(ours), str(setting), None, _MS_BIND)
    for name, value in _OWN_SETTINGS.items():
        Path("/proc/sys", name).write_text(value)
    os.makedirs(VOLUMES)
    os.chmod("/tmp", 0o1777)
    _mount("none", "/", None, _MS_REC | _MS_SHARED)  # mounts of pods may be asked to travel
    os.chdir("/")


def _connect(commands: tuple[tuple[str, ...], ...]) -> None:
    """Address the node's end of the cable, once the host has plugged it in."""
    deadline = time.monotonic() + _CABLE
    while not os.path.exists("/sys/class/net/eth0"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody gave the node an interface in {_CABLE:g} s")
        time.sleep(0.01)
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[str]:
    """A path that leads to ``folder`` even after something else was mounted over it."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    words = [word.encode() if word is not None else None for word in (source, target, kind)]
    if _libc.mount(*words, flags, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"mounting {source} on {target}: {os.strerror(ctypes.get_errno())}")


class Supervisor:
    """Starts each component when what it needs is there and starts it again when it ends, for ever. As the first process
    of its namespace it also buries the orphans that the pods' shims leave."""

    def __init__(self, components: tuple[Component, ...], event: Callable[[str], object]) -> None:
        self._waiting = {component.name: (component, 0.0) for component in components}
        self._running: dict[int, Component] = {}
        self._event = event

    def run(self) -> None:
        # A first process ignores every signal that it has no handler for, so only SIGKILL from outside ends it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        while True:
            self._bury()
            self._start()
            signal.sigtimedwait({signal.SIGCHLD}, _POLL if self._waiting else _IDLE)

    def _start(self) -> None:
        for name, (component, not_before) in list(self._waiting.items()):
            if time.monotonic() >= not_before and all(map(available, component.needs)):
                with (Path(HOME) / "log" / f"{name}.log").open("ab") as log:
                    process = subprocess.Popen(
                        component.command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                        restore_signals=True,
                        preexec_fn=_unblock,
                    )
                process.returncode = 0  # this class reaps it, not subprocess
                self._running[process.pid] = component
                del self._waiting[name]

    def _bury(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
                pid, status = ended
                if (component := self._running.pop(pid, None)) is not None:
                    self._waiting[component.name] = (component, time.monotonic() + _PAUSE)
                    self._event(f"{component.name} {ENDED} {os.waitstatus_to_exitcode(status)}\n")


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def available(need: str) -> bool:
    """Whether something that a component needs is there; see ``Component`` for how needs are written."""
    kind, _, rest = need.partition(":")
    if kind == "file":
        return os.path.exists(rest)
    host, _, port = rest.rpartition(":")
    try:
        if kind == "api":
            return _ready(host, int(port))
        with socket.create_connection((host, int(port)), timeout=0.2):
            return True
    except (OSError, http.client.HTTPException):
        return False


def _ready(host: str, port: int) -> bool:
    # Whom we ask is known: nobody else is on this network yet. So the certificate need not be checked.
    connection = http.client.HTTPSConnection(host, port, timeout=1, context=ssl._create_unverified_context())
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    finally:
        connection.close()


if __name__ == "__main__":
    main()
