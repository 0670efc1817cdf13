# SPDX-License-Identifier: Apache-2.0
"""The server of the demo model that a client talks to."""
import argparse
import pathlib
import sys
import tempfile

from checks import Checks
from servers import free_port, start_troupe

MODEL = "troupe-demo"
COUNT = "Count from 3 to 7."
COUNTED = "3, 4, 5, 6, 7"


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
