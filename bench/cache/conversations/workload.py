# SPDX-License-Identifier: Apache-2.0
"""The traffic of Pensieve's evaluation (section 3.6.1), for troupe-loadgen.

Conversations begin as a Poisson process; a turn follows the answer before it
after an exponential think time. The mean numbers are those of the paper's
ShareGPT data (Table 3.2); the shapes are measured ones: answers as LMSYS users
got them, questions as Open Assistant's users asked them. How many turns a
conversation has is log-normal about the mean, as the preset sharegpt-like.
"""
import json
import os
import pathlib

import live_server

MEAN_TURNS, MEAN_PROMPT, MEAN_ANSWER = 5.56, 37.77, 204.58  # Table 3.2
TOKENS_PER_WORD = 4 / 3
MOST_TURNS = 12

DATA = pathlib.Path(os.environ.get("TROUPE_DATA", live_server.ROOT.parent / "shared/data"))
ANSWERS = DATA / "lengths/lmsys_output_length_quantiles.json"
QUESTIONS = DATA / "chat/oasst_en_100_sharegpt.json"


def missing_data():
    """The files that are not here."""
    return [path for path in (ANSWERS, QUESTIONS) if not path.exists()]


def grid(values):
    """101 quantiles."""
    values = sorted(values)
    return [values[round(rank / 100 * (len(values) - 1))] for rank in range(101)]


def answer_quantiles():
    table = json.loads(ANSWERS.read_text())["all"]
    return [table[f"p{rank}"] for rank in range(100)] + [table["max"]]


def question_quantiles():
    conversations = json.loads(QUESTIONS.read_text())
    return grid([len(message["value"].split()) * TOKENS_PER_WORD
                 for conversation in conversations for message in conversation["conversations"]
                 if message["from"] == "human"])


def scaled(quantiles, mean, most):
    """With this mean, none above `most`; whole tokens."""
    factor = 1.0
    for _ in range(20):  # what is cut off is made up for by the others
        values = [min(most, max(1, round(value * factor))) for value in quantiles]
        factor *= mean * len(values) / sum(values)
    return values


def write(path, scale, think_time_s, context_length):
    """All lengths times `scale`, cut so that hardly a conversation outgrows the context."""
    questions = scaled(question_quantiles(), MEAN_PROMPT * scale, context_length // 32)
    answers = scaled(answer_quantiles(), MEAN_ANSWER * scale, context_length // 8)
    path.write_text(f"""# SPDX-License-Identifier: Apache-2.0
[workload]
name = "conversations"

[arrivals]
kind = "poisson"

[[class]]
ignore_eos = true
prompt_tokens = {{ kind = "quantiles", values = {questions} }}
output_tokens = {{ kind = "quantiles", values = {answers} }}
turns = {{ kind = "lognormal", median = 4.5, sigma = 0.65, min = 1, max = {MOST_TURNS} }}
think_time_s = {{ kind = "exponential", mean = {think_time_s} }}
""")
