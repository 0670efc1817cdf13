# SPDX-License-Identifier: Apache-2.0
"""Model directories made to harm: each is refused with a text, or served within bounds of time and memory."""
import asyncio
import json
import os
import shutil
import struct
import time

import client
from results import listed
from target import DEMO_MODEL, NotReady, Target

START_SECONDS = 15
ANSWER_SECONDS = 10
END_SECONDS = 35  # the drain has 25
MOST_BYTES = 1 << 30
OPTIONS = ["--device", "cpu", "--threads", "1", "--memory", "64MiB"]


def edit(name, change):
    """A JSON file of the directory, changed in place."""

    def harm(directory):
        file = directory / name
        content = json.loads(file.read_text())
        change(content)
        file.write_text(json.dumps(content))

    return harm


def config(**values):
    return edit("config.json", lambda content: content.update(values))


def template(text):
    return edit("tokenizer_config.json", lambda content: content.update(chat_template=text))


def normalizer(*steps):
    return edit("tokenizer.json",
                lambda content: content.update(normalizer={"type": "Sequence", "normalizers": list(steps)}))


def text_file(name, text):
    return lambda directory: (directory / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def link(name, target):

    def harm(directory):
        (directory / name).unlink()
        (directory / name).symlink_to(target)

    return harm


def fifo(name):

    def harm(directory):
        (directory / name).unlink()
        os.mkfifo(directory / name)

    return harm


def weights(change):
    """The safetensors file with another header; `change` may return bytes to stand for all of it."""

    def harm(directory):
        file = directory / "model.safetensors"
        data = file.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        whole = change(header)
        text = json.dumps(header).encode()
        file.write_bytes(whole if whole is not None else struct.pack("<Q", len(text)) + text + data[8 + size:])

    return harm


def first_tensor(**values):
    return weights(
        lambda header: next(entry for name, entry in header.items() if name != "__metadata__").update(values))


def replace_step(pattern, content):
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


HARMS = {
    "six Replace steps of 200": normalizer(*[replace_step("a", "a" * 200)] * 6),
    "a Replace step with a regex that backtracks": normalizer({
        "type": "Replace", "pattern": {"Regex": "(a+)+b"}, "content": ""
    }), "a Replace step of nothing": normalizer(replace_step("", "x")), "a vocabulary of a cycle of merges": edit(
        "tokenizer.json",
        lambda c: c["model"].update(merges=[["a", "a"]] * 1000)), "a vocabulary with an id out of bounds": edit(
            "tokenizer.json",
            lambda c: c["model"]["vocab"].update({"zzz": 2**31})), "a vocabulary with a negative id": edit(
                "tokenizer.json", lambda c: c["model"]["vocab"].update({"zzz": -1})), "tokenizer: no JSON": text_file(
                    "tokenizer.json", "{"), "tokenizer: deep nesting": text_file("tokenizer.json", "[" * 1_000_000),
    "tokenizer: empty": text_file("tokenizer.json", ""), "tokenizer: a FIFO": fifo("tokenizer.json"),
    "tokenizer: /dev/zero": link("tokenizer.json",
                                 "/dev/zero"), "tokenizer: no model": edit("tokenizer.json", lambda c: c.pop("model")),
    "template: nested loops": template("{% for a in range(1000) %}" * 6 + "x" + "{% endfor %}" * 6),
    "template: a huge range": template("{% for a in range(1000000000) %}x{% endfor %}"),
    "template: text that doubles": template("{% set x = 'aaaaaaaa' %}" + "{% set x = x + x %}" * 60 + "{{ x }}"),
    "template: a recursive macro": template("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
    "template: deep parentheses": template("{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}"),
    "template: deep blocks": template("{% if true %}" * 20_000 + "{% endif %}" * 20_000),
    "template: unfinished": template("{% for"), "template: a division by zero": template("{{ 1 // 0 }}"),
    "template: 10 MB": template("x" * 10_000_000), "template: a number": template(7),
    "template: a slice of everything": template("{{ (messages|string * 1000000)[0] }}"), "config: no JSON": text_file(
        "config.json", "nothing"), "config: a list": text_file("config.json", "[]"), "config: deep nesting": text_file(
            "config.json", '{"a":' * 100_000), "config: a FIFO": fifo("config.json"), "config: /dev/zero": link(
                "config.json", "/dev/zero"), "config: 0 layers": config(num_hidden_layers=0),
    "config: 2^31 layers": config(num_hidden_layers=2**31), "config: one layer fewer than there are": config(
        num_hidden_layers=4), "config: negative heads": config(num_attention_heads=-4),
    "config: heads that don't divide": config(num_attention_heads=3), "config: 0 heads": config(num_key_value_heads=0),
    "config: a huge vocabulary": config(vocab_size=2**40), "config: another vocabulary": config(vocab_size=1000),
    "config: text for a number": config(hidden_size="256"), "config: a huge context": config(
        max_position_embeddings=2**40), "config: a theta of 0": config(rope_theta=0), "config: 1e999": text_file(
            "config.json", '{"model_type":"llama","rms_norm_eps":1e999}'),
    "config: another family": config(model_type="gpt7"), "generation: a top_p of 0": text_file(
        "generation_config.json", '{"top_p": 0}'), "generation: a temperature below 0": text_file(
            "generation_config.json", '{"temperature": -1}'), "generation: an end token out of bounds": text_file(
                "generation_config.json", '{"eos_token_id": 999999}'), "weights: empty": text_file(
                    "model.safetensors", ""), "weights: a header of 2^63": text_file(
                        "model.safetensors",
                        struct.pack("<Q", 2**63) + b"{}"), "weights: a header of 100 MB": text_file(
                            "model.safetensors",
                            struct.pack("<Q", 100_000_000) + b"{}"), "weights: a FIFO": fifo("model.safetensors"),
    "weights: /dev/zero": link(
        "model.safetensors",
        "/dev/zero"), "weights: missing": lambda directory: (directory / "model.safetensors").unlink(),
    "weights: cut": lambda directory: os.truncate(directory / "model.safetensors", 1_000_000),
    "weights: negative offsets": first_tensor(data_offsets=[-8, 8]), "weights: reversed offsets": first_tensor(
        data_offsets=[8, 0]), "weights: offsets beyond the file": first_tensor(
            data_offsets=[0, 2**62]), "weights: a product that overflows": first_tensor(
                shape=[2**32, 2**32]), "weights: a negative shape": first_tensor(shape=[-1, -1]),
    "weights: 1,000 dimensions": first_tensor(shape=[1] * 1000), "weights: an unknown type": first_tensor(
        dtype="F7"), "weights: 300,000 tensors": weights(lambda header: header.update(
            {f"t{i}": {"dtype": "BF16", "shape": [0], "data_offsets": [0, 0]}
             for i in range(300_000)})), "weights: an index that leaves the directory": lambda directory: (
                 (directory / "model.safetensors").unlink(), (directory / "model.safetensors.index.json").write_text(
                     '{"weight_map": {"model.norm.weight": "../../etc/passwd"}}')),
}
IN_QUICK = 12  # of them, evenly


def run(settings, report, place):
    names = list(HARMS)[::settings.size(1, len(HARMS) // IN_QUICK)]
    problems, num_served = [], 0
    for number, name in enumerate(names):
        directory = place / f"model-{number}"
        shutil.copytree(DEMO_MODEL, directory)
        HARMS[name](directory)
        began = time.monotonic()
        fault, is_served = fault_of(settings, directory)
        num_served += is_served
        if fault:
            problems.append(f"{name}: {fault} ({time.monotonic() - began:.0f} s)")
        shutil.rmtree(directory)
    report.note("hostile model directories", f"{len(names)}: {num_served} served, {len(names) - num_served} refused")
    report.check("directories that crash, hang or bloat the server", listed(problems), not problems, "0")


def fault_of(settings, directory):
    """What is wrong with what became of it, and whether it was served."""
    server = Target(settings.troupe, OPTIONS, model=directory, ready_seconds=START_SECONDS)
    began = time.monotonic()
    try:
        with server:
            fault = asyncio.run(fault_of_answer(server))
            if server.is_alive and server.end(seconds=END_SECONDS) is None:
                fault = fault or "does not end"
            return fault, True
    except NotReady as error:
        if time.monotonic() - began > START_SECONDS:
            return "neither starts nor ends", False
        status = server.process.returncode
        return ("" if 0 < status < 128 and server.log().strip() else f"{error}"), False


async def fault_of_answer(server):
    try:
        answer = await client.ask(server.port, "POST", "/v1/chat/completions", client.chat("aaaa bbbb", 4),
                                  limit=ANSWER_SECONDS)
    except asyncio.TimeoutError:
        return f"no answer, {server.memory('VmHWM') >> 20} MB"
    except (client.BadAnswer, OSError) as error:
        return f"{error!r}, status {server.process.poll()}"
    # A template that fails is the model's fault and no crash: its name is in the answer.
    if answer.status >= 500 and b"The chat template of the model" not in answer.body:
        return f"{answer.status} {answer.body[:100]}"
    return f"{server.memory('VmHWM') >> 20} MB" if server.memory("VmHWM") > MOST_BYTES else ""
