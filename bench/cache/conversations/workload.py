# SPDX-License-Identifier: Apache-2.0
"""The traffic of Pensieve's evaluation (section 3.6.1), for troupe-loadgen.

Conversations begin as a Poisson process; a turn follows the answer before it
after an exponential think time. The mean numbers are those of the paper's
ShareGPT data (Table 3.2); the shapes are measured ones: answers as LMSYS users
got them, questions as Open Assistant's users asked them. How many turns a
conversation has is log-normal about the mean, as the preset sharegpt-like.
"""
import json

from live_server import ROOT

MEAN_TURNS, MEAN_PROMPT, MEAN_ANSWER = 5.56, 37.77, 204.58  # Table 3.2
MOST_TURNS = 12

LENGTHS = ROOT / "configs/workloads/chat-lengths.json"


def scaled(quantiles, mean, most):
    """With this mean, none above `most`; whole tokens."""
    factor = 1.0
    for _ in range(20):  # what is cut off is made up for by the others
        values = [min(most, max(1, round(value * factor))) for value in quantiles]
        factor *= mean * len(values) / sum(values)
    return values


def write(path, scale, think_time_s, context_length):
    """All lengths times `scale`, cut so that hardly a conversation outgrows the context."""
    lengths = json.loads(LENGTHS.read_text())
    questions = scaled(lengths["question_tokens"], MEAN_PROMPT * scale, context_length // 32)
    answers = scaled(lengths["answer_tokens"], MEAN_ANSWER * scale, context_length // 8)
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
