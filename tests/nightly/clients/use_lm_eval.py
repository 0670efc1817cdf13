# SPDX-License-Identifier: Apache-2.0
"""lm-eval, as it comes, with tasks of a few lines: likelihoods of choices over completions, one by one and in batches;
answers generated over completions and over chats. The demo model is good at counting, so all is right."""
import json
import subprocess
import sys

from demo_server import MODEL, run

LIKELY = """\
task: likely
dataset_path: json
dataset_kwargs: {{data_files: {{test: {place}/counting.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{asked}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{right}}}}"
target_delimiter: ""
metric_list: [{{metric: acc}}]
"""
WRITTEN = """\
task: written
dataset_path: json
dataset_kwargs: {{data_files: {{test: {place}/counting.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{asked}}}}"
doc_to_target: "{{{{choices[right]}}}}"
target_delimiter: ""
generation_kwargs: {{until: ["<|end|>"], max_gen_toks: 60, temperature: 0}}
metric_list: [{{metric: exact_match}}]
"""
NUM_DOCUMENTS = 24


def write_tasks(place):
    place.mkdir()
    with open(place / "counting.jsonl", "w", encoding="utf-8") as file:
        for i in range(NUM_DOCUMENTS):
            right = i % 3
            choices = [", ".join(str(i + k + wrong) for k in range(5)) for wrong in (30, 45, 60)]
            choices[right] = ", ".join(str(i + k) for k in range(5))
            asked = f"Count from {i} to {i + 4}."
            file.write(json.dumps({"asked": asked, "choices": choices, "right": right}) + "\n")
    (place / "likely.yaml").write_text(LIKELY.format(place=place))
    (place / "written.yaml").write_text(WRITTEN.format(place=place))


def evaluate(settings, place, name, task, kind, path, batch_size=1, **arguments):
    """The task's metrics and the number of its documents."""
    out = settings.results / name
    url = f"{settings.url}/v1/{path}"
    given = {"model": MODEL, "base_url": url, "num_concurrent": 4, "max_retries": 1, **arguments}
    command = [f"{sys.prefix}/bin/lm-eval", "run", "--model", kind, "--tasks", task, "--include_path", str(place),
               "--model_args", ",".join(f"{key}={value}" for key, value in given.items()),
               "--batch_size", str(batch_size), "--output_path", str(out), "--apply_chat_template"]
    ended = subprocess.run(command, capture_output=True, text=True)
    (settings.results / f"{name}.txt").write_text(ended.stdout + ended.stderr)
    files = list(out.rglob("results_*.json"))
    if not files:
        raise RuntimeError(f"lm-eval, {name}: {ended.stderr[-2000:]}")
    return json.loads(files[0].read_text())["results"][task]


def use(check, server, settings):
    place = settings.place / "tasks"
    write_tasks(place)
    settings.url = server.url
    own = {"tokenizer_backend": "huggingface", "tokenizer": settings.model}
    for name, task, kind, path, metric, more in [
            ("likelihood by token ids", "likely", "local-completions", "completions", "acc,none", own),
            ("likelihood in batches", "likely", "local-completions", "completions", "acc,none",
             {**own, "batch_size": 6}),
            ("generated completions", "written", "local-completions", "completions", "exact_match,none", own),
            ("generated chats", "written", "local-chat-completions", "chat/completions", "exact_match,none", {})]:
        found = evaluate(settings, place, name.replace(" ", "-"), task, kind, path, **more)
        check(found[metric] == 1, f"{name}: {found[metric]:.0%} of {NUM_DOCUMENTS} are right")


if __name__ == "__main__":
    run(__doc__, use)
