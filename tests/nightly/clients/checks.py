# SPDX-License-Identifier: Apache-2.0
"""Checks that a part prints as it goes, and the server that its client talks to."""
import argparse
import contextlib
import pathlib
import sys
import tempfile

from servers import free_port, start_troupe

MODEL = "troupe-demo"
COUNT = "Count from 3 to 7."
COUNTED = "3, 4, 5, 6, 7"


class Checks:
    def __init__(self):
        self.is_good = True

    def __call__(self, condition, what):
        print(("ok      " if condition else "WRONG   ") + what, flush=True)
        self.is_good &= bool(condition)

    @contextlib.contextmanager
    def refused(self, kind, what):
        """The block raises an exception of this class whose text says `what`."""
        try:
            yield
        except kind as error:
            self(what in str(error), f"{kind.__name__}: {str(error)[:160]}")
        else:
            self(False, f"{kind.__name__} that says {what!r}, and not a success")


def run(description, use, flags=()):
    """`use(check, server, settings)` with a server of the demo model; the exit status."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--results", type=pathlib.Path, required=True)
    settings = parser.parse_args()
    check = Checks()
    with tempfile.TemporaryDirectory() as place:
        settings.place = pathlib.Path(place)
        ollama_port = free_port()
        settings.ollama_url = f"http://127.0.0.1:{ollama_port}"
        with start_troupe(settings.troupe, settings.model, settings.place / "state", settings.results / "server.txt",
                          ["--ollama-port", str(ollama_port), *flags]) as server:
            use(check, server, settings)
    sys.exit(0 if check.is_good else 1)
