#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server as a service: what it tells its manager, what feeds the watchdog, what SIGHUP reloads.

    service_test.py TROUPE MODEL
"""
import ctypes
import os
import pathlib
import pty
import select
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

TIMEOUT = 60  # of a wait; passing takes milliseconds
PTRACE_ATTACH, PTRACE_DETACH = 16, 17
SKIPPED = 77  # CTest's word: all but the watchdog was checked


class Output:
    """What a process writes to this pipe."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.read = ""

    def close(self):
        os.close(self.reader)
        os.close(self.writer)

    def text(self):
        while select.select([self.reader], [], [], 0)[0]:
            self.read += os.read(self.reader, 65536).decode()
        return self.read

    def wait_for(self, part, since=0):
        """All there is from there on; the log has a thread of its own."""
        while part not in self.text()[since:]:
            assert select.select([self.reader], [], [], TIMEOUT)[0], self.read
        return self.read[since:]


class Service:
    """A server whose service manager we are."""

    def __init__(self, troupe, model, configuration="", watchdog_us=None, flags=(), is_manager_busy=False):
        self.folder = tempfile.TemporaryDirectory()
        self.file = pathlib.Path(self.folder.name) / "troupe.toml"
        self.file.write_text(configuration)
        self.output = Output()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(TIMEOUT)
        self.socket.bind(f"{self.folder.name}/notify")
        if is_manager_busy:
            self.fill()
        environment = {**os.environ, "NOTIFY_SOCKET": f"{self.folder.name}/notify", "TROUPE_STORE_DIRECTORY": "none",
                       "TROUPE_CACHE_MEASURE": "false"}
        environment.pop("WATCHDOG_PID", None)
        if watchdog_us:
            environment["WATCHDOG_USEC"] = str(watchdog_us)
        command = [troupe, "serve", "--config", str(self.file), "--port", "0", "--model", model, "--device", "noop", *flags]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=self.output.writer, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.socket.close()
        self.output.close()
        self.folder.cleanup()

    def fill(self):
        """No message fits into the socket until others are taken out."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(f"{self.folder.name}/notify")
            sender.setblocking(False)
            try:
                while True:
                    sender.send(b"X=1")
            except BlockingIOError:
                pass

    def message(self):
        return self.socket.recv(4096).decode()

    def messages_until(self, begin):
        """Up to the first that begins so."""
        messages = [self.message()]
        while not messages[-1].startswith(begin):
            messages.append(self.message())
        return messages

    def text(self):
        return self.output.text()

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
        said = self.output.wait_for("the configuration", before)
        is_refused = "the configuration stays as it was" in said
        assert ("the last reload was refused" in told[-1]) == is_refused, (told, said)
        return said


def check_states(troupe, model):
    with Service(troupe, model, "[server]\ndrain_seconds = 3600\n") as service:
        starting = service.message()
        assert int(starting.split("EXTEND_TIMEOUT_USEC=")[1]) >= 30_000_000, starting
        assert service.message().startswith("READY=1\n")
        assert service.status("/ready") == 200
        service.process.send_signal(signal.SIGTERM)
        stopping = service.message()
        assert stopping.startswith("STOPPING=1\n"), stopping
        assert int(stopping.split("EXTEND_TIMEOUT_USEC=")[1]) > 3_600_000_000, stopping
        assert service.process.wait(TIMEOUT) == 0


def check_busy_manager(troupe, model):
    """It is told all the same, as soon as it listens."""
    with Service(troupe, model, is_manager_busy=True) as service:
        service.output.wait_for("is ready at")
        service.messages_until("READY=1\n")


def traced(request, thread):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")  # PermissionError if it is EPERM


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
            return False
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
    return True


def check_reload(troupe, model):
    keys = '[server]\napi_key = "{}"\n[log]\nlevel = "{}"\n'
    with Service(troupe, model, keys.format("first", "info")) as service:
        service.messages_until("READY=1")
        assert service.status("/v1/models", "first") == 200
        service.file.write_text(keys.format("second", "debug"))
        said = service.reload()
        assert 'changed="--api-key, --log-level"' in said, said
        assert f"files={service.file} api_keys=1" in said, said
        assert "restart" not in said, said
        assert service.status("/v1/models", "first") == 401
        assert service.status("/v1/models", "second") == 200
        service.output.wait_for("http request")  # only at the level debug

        service.file.write_text(keys.format("third", "debug") + "[scheduler]\nmax_waiting = 3\n")
        said = service.reload()
        assert "options that have changed need a restart options=--max-waiting" in said, said
        assert service.status("/v1/models", "third") == 200

        os.mkfifo(f"{service.folder.name}/fifo")
        for wrong, reason in ((keys.format("fourth", "loud"), "log.level"),
                              (keys.format("fourth", "info") + "[surver]\nport = 1\n", "surver.port"),
                              ('[server]\napi_keys_file = "missing"\n', "missing"),
                              (f'[server]\napi_keys_file = "{service.folder.name}/fifo"\n', "expected a regular file"),
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
        output = Output()
        child, terminal = pty.fork()
        if child == 0:
            os.dup2(output.writer, 1)
            os.dup2(output.writer, 2)
            os.environ.update(TROUPE_STORE_DIRECTORY="none", TROUPE_CACHE_MEASURE="false")
            os.execv(troupe, [troupe, "serve", "--config", str(file), "--port", "0", "--model", model, "--device", "noop"])
        output.wait_for("ready at")
        os.kill(child, signal.SIGHUP)
        output.wait_for("the configuration was read anew")
        os.close(terminal)
        _, status = os.waitpid(child, 0)
        output.close()
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGHUP, status


def give_up(*_):
    raise TimeoutError("a process did not do what was waited for")


def main():
    troupe, model = sys.argv[1:]
    signal.signal(signal.SIGALRM, give_up)  # interrupts waitpid() too
    is_skipped = False
    for check in (check_states, check_busy_manager, check_reload, check_no_open_door, check_last_key, check_terminal,
                  check_watchdog):
        signal.alarm(3 * TIMEOUT)
        is_skipped |= check(troupe, model) is False
        signal.alarm(0)
        print(check.__name__)
    sys.exit(SKIPPED if is_skipped else 0)


main()
