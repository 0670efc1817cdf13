# SPDX-License-Identifier: Apache-2.0
"""Part start: flags, files and environments that are wrong are refused with a status and a text that names them; those
that are odd but right start. Then hostile model directories."""
import concurrent.futures
import os
import pathlib
import re
import socket
import subprocess
import tempfile

import model_directories
from results import listed
from target import NOOP, NotReady, Target

STATUSES = (64, 78)  # sysexits: usage, configuration
PORT_IN_USE = "a port in use"
STATUS_OF_WHAT_PASSES = 1
SECONDS = 10
AT_ONCE = 4
BASE = ["--port", "0", "--store-directory", "none", "--cache-measure=false", "--log-level", "warning"]

# What is given, and what the text has to name.
WRONG_FLAGS = [
    *((flag, value) for flag, values in {
        "--port": ("-1", "65536", "x", "1.5", "99999999999999999999",
                   " 1"), "--io-threads": ("0", "65", "x"), "--actor-threads": ("0", "65"), "--threads": (
                       "-1", "1025"), "--max-body-bytes": ("1023", "17MiB", "1XB", "-1"), "--drain-seconds": (
                           "-1", "3601", "1e3"), "--device": ("gpu", "CUDA", "noop,host"), "--compute-type": ("f64", ),
        "--noop-iteration-us": ("-1", "10000001"), "--worker-placement": ("thread", ), "--cuda-completion": (
            "spin", ), "--max-batch-tokens": ("65537", ), "--max-batch-sequences": ("0", "4097"), "--max-in-flight": (
                "0", "17"), "--max-waiting": ("-1", "65537"), "--max-queue-seconds": (
                    "0", "3601"), "--look-ahead-pages": ("65", ), "--cache-policy": ("fifo", ), "--cache-host-memory": (
                        "-1", "1 parsec"), "--cache-copy-ahead-percent": ("101", ), "--cache-keep-free-percent": (
                            "91", ), "--store-keep-days": ("0", "36501"), "--max-restarts": ("-1", ),
        "--restart-window-seconds": ("0", ), "--log-level": ("loud", ), "--log-format": (
            "xml", ), "--trace-sample-ratio": ("2", "-0.1", "nan"), "--trace-endpoint": (
                "ftp://x", "http://", "x"), "--memory": ("10XB", ), "--deterministic": ("maybe", ), "--config": (
                    "/nope", "/dev/null/x"), "--api-keys-file": ("/nope", ), "--host": (
                        "example.com", "256.1.1.1",
                        "0.0.0.0"), "--model": ("/nope", "/dev/null"), "--trace-file": ("/nope/x", ), "--model-name": (
                            "", "a\nb", "a" * 100_000), "--cors-origins": ("a\r\nb", ), "--api-key": (" ", "a\x01b"),
    }.items() for value in values)
]
RIGHT_FLAGS = [("--host", "localhost"), ("--drain-seconds", "0"), ("--memory", "64MiB"), ("--max-body-bytes", "16MiB"),
               ("--cors-origins", "*"), ("--model-name", "a.b_c-D1"), ("--cache-policy", "none")]
WRONG_FILES = {  # TOML: what the text has to name
    "[server]\nprot = 1": "server.port", "[sever]\nport = 1": "server.port", "port = 1": "port",
    '[server]\nport = "x"': "server.port", "[server]\nport = 70000": "server.port",
    "[server]\nport = -1": "server.port", "[server]\nport = 1.5": "server.port", "[server]\nport = [1]": "server.port",
    "[server]\nport = 1\nport = 2": ":3", "[server": ":1", '[device]\nmemory = "10XB"': "device.memory",
    '[device]\ndeterministic = "maybe"': "device.deterministic", "[device]\nmemory = 99999999999999999999": ":2",
    "\x00": ":1", '[log]\nlevel = "loud"': "log.level", "[model]\n[model]": ":2",
    '[server]\nhost = "example.com"': "example.com", "x = " + "[" * 10_000: ":1"
}
WRONG_ENVIRONMENTS = {
    ("TROUPE_SERVER_PORT", "x"): "TROUPE_SERVER_PORT", ("TROUPE_SERVER_PORT", "70000"): "TROUPE_SERVER_PORT",
    ("TROUPE_LOG_LEVEL", "loud"): "TROUPE_LOG_LEVEL", ("TROUPE_DEVICE_MEMORY", "10XB"): "TROUPE_DEVICE_MEMORY",
    ("TROUPE_SERVER_PRT", "1"): "TROUPE_SERVER_PORT"
}
WRONG_KEY_FILES = [
    "", "\n# nothing\n", "alice\n", "alice key more\n", "a/b key\n", "alice k\x01y\n", "alice key\nbob key\n",
    "a" * 65 + " key\n", "alice " + "k" * 513 + "\n", "\x00\x00\x00"
]


def run(settings, report):
    with tempfile.TemporaryDirectory(prefix="attack-") as place, socket.create_server(("127.0.0.1", 0)) as taken:
        place = pathlib.Path(place)
        trials = list(wrong_starts(place, str(taken.getsockname()[1])))
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(lambda trial: start(settings.troupe, *trial[1:3]), trials))
        judge(report, trials, found)
        right_starts(settings, report)
        model_directories.run(settings, report, place)


def wrong_starts(place, taken_port):
    """What is wrong, arguments, environment, and what has to be named."""
    for flag, value in WRONG_FLAGS:
        yield f"{flag}={value[:20]!r}", [f"{flag}={value}"], {}, flag
    yield "--prot", ["--prot=1"], {}, "--port"
    yield "an argument", ["extra"], {}, "extra"
    for number, (text, name) in enumerate(WRONG_FILES.items()):
        file = place / f"{number}.toml"
        file.write_text(text + "\n")
        yield f"file {text[:30]!r}", ["--config", file], {}, name
    yield "file: a directory", ["--config", place], {}, "--config"
    for (name, value), named in WRONG_ENVIRONMENTS.items():
        yield f"{name}={value}", [], {name: value}, named
    for number, text in enumerate(WRONG_KEY_FILES):
        file = place / f"{number}.keys"
        file.write_text(text)
        yield f"key file {text[:20]!r}", ["--api-keys-file", file], {}, str(file)
    yield PORT_IN_USE, ["--port", taken_port], {}, taken_port


def start(troupe, arguments, environment):
    """Status and standard error; no status if it went on to run."""
    given = {str(argument).partition("=")[0] for argument in arguments}
    base, rest = [], iter(BASE)
    for flag in rest:
        value = [] if "=" in flag else [next(rest)]
        if flag.partition("=")[0] not in given:
            base += [flag, *value]
    command = [troupe, "serve", *base, *([] if "--device" in given else NOOP), *arguments]
    try:
        done = subprocess.run([str(part) for part in command], env=os.environ | environment, capture_output=True,
                              timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")


def judge(report, trials, found):
    started, crashed, unnamed, others, raw = [], [], [], [], []
    for (what, _, _, name), (status, text) in zip(trials, found):
        if status in (None, 0):
            started.append(what)
        elif status < 0 or status >= 128:
            crashed.append(f"{what}: {status}")
        else:
            expected = (STATUS_OF_WHAT_PASSES, ) if what == PORT_IN_USE else STATUSES
            others += [] if status in expected else [f"{what}: {status}"]
            unnamed += [] if name in text or named_otherwise(name, text) else [f"{what}: {text[-150:]!r}"]
            raw += [f"{what}: {text[-80:]!r}"] if re.search(r"troupe: \w+\s*$", text) else []
    report.note("wrong starts", len(trials))
    report.check("wrong starts that crash", listed(crashed), not crashed, "0")
    report.check("wrong starts that run all the same", listed(started), not started, "0")
    report.check("refusals that don't name what is wrong", listed(unnamed), not unnamed, "0")
    report.check("refusals that are one raw word", listed(raw), not raw, "0")
    report.check("refusals with another status than 64 or 78, or 1 of a port in use", listed(others), not others, "0")


def named_otherwise(flag, text):
    """By the value's meaning instead of the flag."""
    meanings = {
        "--host": "listen on", "--model": "model directory", "--config": "/nope|/dev/null", "--api-keys-file": "/nope",
        "--trace-endpoint": "collector's URL", "--trace-file": "trace file|/nope/x"
    }
    return flag in meanings and re.search(meanings[flag], text)


def right_starts(settings, report):
    wrong = []
    for flag, value in RIGHT_FLAGS:
        try:
            with Target(settings.troupe, [*NOOP, flag, value], ready_seconds=SECONDS):
                pass
        except NotReady as error:
            wrong.append(f"{flag} {value}: {error}")
    report.check("right starts that are refused", listed(wrong), not wrong, "0")
