# SPDX-License-Identifier: Apache-2.0
"""troupe and Open WebUI as processes on free ports, ended with the block that uses them."""
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


class Server:
    """A process that is ready once `path` answers 200, which is waited for; what it prints goes to `log`.

    path None: nothing is waited for.
    """

    def __init__(self, command, port, path, log, environment=None, seconds=60):
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        self.start = lambda: self.run(command, path, environment, seconds)
        pathlib.Path(log).write_text("", encoding="utf-8")
        self.start()

    def run(self, command, path, environment, seconds):
        with open(self.log, "a", encoding="utf-8") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT,
                                            env={**os.environ, **(environment or {})})
        try:
            if path is not None:
                self.wait_until_ready(path, seconds)
        except BaseException:
            self.stop()
            raise

    def kill_and_start_again(self):
        self.process.kill()
        self.process.wait()
        self.start()

    def children(self):
        """Processes that its threads have started: with --worker-placement child, the workers."""
        found = []
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                found += map(int, (task / "children").read_text().split())
        return found

    def is_ready(self, path):
        return answers(self.url + path)

    def wait_until_ready(self, path, seconds):
        deadline = time.monotonic() + seconds
        while not self.is_ready(path):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.process.args[0]} was not ready within {seconds} s:\n{self.logged()[-2000:]}")
            time.sleep(0.2)

    @contextlib.contextmanager
    def slowed(self):
        """It runs for 5 ms in every 100, so that a person can watch an answer come."""
        is_over = threading.Event()

        def hold_and_release():
            while not is_over.wait(0.005):
                self.process.send_signal(signal.SIGSTOP)
                is_over.wait(0.095)
                self.process.send_signal(signal.SIGCONT)

        thread = threading.Thread(target=hold_and_release)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def logged(self):
        return pathlib.Path(self.log).read_text(encoding="utf-8")

    def stop(self):
        if self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def start_troupe(program, model, directory, log, flags=(), environment=None, memory="512MiB", ready_path="/ready"):
    port = free_port()
    return Server([program, "serve", "--model", model, "--model-name", "troupe-demo", "--port", str(port),
                   "--memory", memory, "--store-directory", str(directory), "--log-level", "debug", *flags],
                  port, ready_path, log, environment)


def start_open_webui(venv, troupe, directory, log, changed=None):
    """As it comes, without the network, and without accounts unless `changed`, of its variables, says otherwise."""
    port = free_port()
    environment = {
        "DATA_DIR": str(directory), "WEBUI_AUTH": "False", "WEBUI_SECRET_KEY": "nightly", "OFFLINE_MODE": "true",
        "HF_HUB_OFFLINE": "1", "ENABLE_OLLAMA_API": "False", "OPENAI_API_BASE_URL": troupe.url + "/v1",
        "OPENAI_API_KEY": "none", "RAG_EMBEDDING_ENGINE": "openai", "RAG_OPENAI_API_BASE_URL": troupe.url + "/v1",
        "RAG_OPENAI_API_KEY": "none", "ENABLE_VERSION_UPDATE_CHECK": "False",
        "SCARF_NO_ANALYTICS": "true", "DO_NOT_TRACK": "true", "ANONYMIZED_TELEMETRY": "false", **(changed or {}),
    }
    return Server([f"{venv}/bin/open-webui", "serve", "--host", "127.0.0.1", "--port", str(port)], port, "/health",
                  log, environment, seconds=600)
