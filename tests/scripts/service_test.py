#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server as a service: what it tells its manager, what feeds the watchdog, what SIGHUP reloads.

    service_test.py TROUPE MODEL
"""
import ctypes
import os
import pathlib
import pty
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

TIMEOUT = 60  # of a wait; passing takes milliseconds
PTRACE_ATTACH, PTRACE_DETACH = 16, 17


class Service:
    """A server whose service manager we are."""

    def __init__(self, troupe, model, configuration="", watchdog_us=None, flags=()):
        self.folder = tempfile.TemporaryDirectory()
        self.file = pathlib.Path(self.folder.name) / "troupe.toml"
        self.file.write_text(configuration)
        self.log = pathlib.Path(self.folder.name) / "log"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(TIMEOUT)
        self.socket.bind(f"{self.folder.name}/notify")
        environment = {**os.environ, "NOTIFY_SOCKET": f"{self.folder.name}/notify", "TROUPE_STORE_DIRECTORY": "none",
                       "TROUPE_CACHE_MEASURE": "false"}
        environment.pop("WATCHDOG_PID", None)
        if watchdog_us:
            environment["WATCHDOG_USEC"] = str(watchdog_us)
        command = [troupe, "serve", "--config", str(self.file), "--port", "0", "--model", model, "--device", "noop", *flags]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=self.log.open("w"), stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.socket.close()
        self.folder.cleanup()

    def message(self):
        return self.socket.recv(4096).decode()

    def messages_until(self, begin):
        """Up to the first that begins so."""
        messages = [self.message()]
        while not messages[-1].startswith(begin):
            messages.append(self.message())
        return messages

    def text(self):
        return self.log.read_text()

    def url(self, path):
        return self.text().split("ready at ")[1].split(" ")[0] + path

    def status(self, path, key=None):
        request = urllib.request.Request(self.url(path))
        if key:
            request.add_header("Authorization", f"Bearer {key}")
        try:
            return urllib.request.urlopen(request, timeout=TIMEOUT).status
        except urllib.error.HTTPError as error:
            return error.code

    def reload(self):
        """What the log says of it."""
        before = len(self.text())
        self.process.send_signal(signal.SIGHUP)
        told = self.messages_until("READY=1")
        assert [m for m in told if not m.startswith("WATCHDOG")][0].startswith("RELOADING=1\nMONOTONIC_USEC="), told
        deadline = time.monotonic() + TIMEOUT  # the log has a thread of its own
        while "the configuration" not in self.text()[before:]:
            assert time.monotonic() < deadline, self.text()
        return self.text()[before:]


def check_states(troupe, model):
    with Service(troupe, model) as service:
        assert service.message().startswith("READY=1\n")
        assert service.status("/ready") == 200
        service.process.send_signal(signal.SIGTERM)
        assert service.message().startswith("STOPPING=1\n")
        assert service.process.wait(TIMEOUT) == 0


def traced(request, thread):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, thread, None, None) != 0:
        raise PermissionError(ctypes.get_errno(), "ptrace")


def freeze_all_but_main(process):
    """The engine's threads among them; the main one, that of signals and the log go on."""
    frozen = []
    for name in sorted(os.listdir(f"/proc/{process}/task"), key=int):
        command = pathlib.Path(f"/proc/{process}/task/{name}/comm").read_text().strip()
        if command.startswith("caf."):
            traced(PTRACE_ATTACH, int(name))
            os.waitpid(int(name), 0x40000000)  # __WALL
            frozen.append(int(name))
    assert frozen, "no thread of the actors was found"
    return frozen


def check_watchdog(troupe, model):
    """Reloads show that the main thread goes on; each takes a look at the watchdog."""
    limit_us = 30_000
    with Service(troupe, model, watchdog_us=limit_us) as service:
        service.messages_until("READY=1")
        for _ in range(3):
            service.messages_until("WATCHDOG=1")
        try:
            frozen = freeze_all_but_main(service.process.pid)
        except PermissionError:
            print("threads can't be frozen here")
            return
        try:
            service.reload()
            service.reload()  # a sign that came before the freeze may have fed it until here
            service.socket.setblocking(False)
            try:
                while True:
                    service.message()
            except BlockingIOError:
                service.socket.settimeout(TIMEOUT)
            for _ in range(4):
                service.process.send_signal(signal.SIGHUP)
                told = service.messages_until("READY=1")
                assert not any(m.startswith("WATCHDOG") for m in told), told
        finally:  # a process with frozen threads does not end
            for thread in frozen:
                traced(PTRACE_DETACH, thread)
        service.messages_until("WATCHDOG=1")


def check_reload(troupe, model):
    keys = '[server]\napi_key = "{}"\n[log]\nlevel = "{}"\n'
    with Service(troupe, model, keys.format("first", "info")) as service:
        service.messages_until("READY=1")
        assert service.status("/v1/models", "first") == 200
        service.file.write_text(keys.format("second", "debug"))
        said = service.reload()
        assert 'changed="--api-key, --log-level"' in said, said
        assert "restart" not in said, said
        assert service.status("/v1/models", "first") == 401
        assert service.status("/v1/models", "second") == 200
        assert "http request" in service.text()  # only at the level debug

        service.file.write_text(keys.format("third", "debug") + "[scheduler]\nmax_waiting = 3\n")
        said = service.reload()
        assert "options that have changed need a restart options=--max-waiting" in said, said
        assert service.status("/v1/models", "third") == 200

        for wrong, reason in ((keys.format("fourth", "loud"), "log.level"),
                              (keys.format("fourth", "info") + "[surver]\nport = 1\n", "surver.port"),
                              ('[server]\napi_keys_file = "missing"\n', "missing"),
                              ("[server\n", "troupe.toml:1")):
            service.file.write_text(wrong)
            said = service.reload()
            assert "the configuration stays as it was" in said and reason in said, said
            assert service.status("/v1/models", "third") == 200
            assert service.status("/v1/models", "fourth") == 401


def check_no_open_door(troupe, model):
    with Service(troupe, model, '[server]\nhost = "0.0.0.0"\napi_key = "only"\n') as service:
        service.messages_until("READY=1")
        service.file.write_text('[server]\nhost = "0.0.0.0"\n')
        said = service.reload()
        assert "refusing to listen on 0.0.0.0" in said, said
        assert service.status("/v1/models") == 401


def check_last_key(troupe, model):
    """A file that was cut short opens no server, not even one that needs no key."""
    with Service(troupe, model, '[server]\napi_key = "only"\n') as service:
        service.messages_until("READY=1")
        service.file.write_text("")
        said = service.reload()
        assert "the configuration stays as it was" in said and "no key is left" in said, said
        assert service.status("/v1/models") == 401
        assert service.status("/v1/models", "only") == 200


def check_terminal(troupe, model):
    """A terminal that is closed ends the server, though it has a file to read anew."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "troupe.toml"
        file.touch()
        log = pathlib.Path(folder) / "log"
        child, terminal = pty.fork()
        if child == 0:
            output = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.environ.update(TROUPE_STORE_DIRECTORY="none", TROUPE_CACHE_MEASURE="false")
            os.execv(troupe, [troupe, "serve", "--config", str(file), "--port", "0", "--model", model, "--device", "noop"])
        deadline = time.monotonic() + TIMEOUT
        while not log.exists() or "ready at" not in log.read_text():
            assert time.monotonic() < deadline
        os.kill(child, signal.SIGHUP)
        while "the configuration was read anew" not in log.read_text():
            assert time.monotonic() < deadline
        os.close(terminal)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGHUP, status


def main():
    troupe, model = sys.argv[1:]
    for check in (check_states, check_watchdog, check_reload, check_no_open_door, check_last_key, check_terminal):
        check(troupe, model)
        print(check.__name__)


main()
