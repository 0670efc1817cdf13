#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `troupe serve` computes against transformers on the same device, as JSON lines.

Two models: two layers of Llama-3.1-8B's widths with random weights (--shape 8b; tiny for a
machine without a GPU), and SmolLM2-135M whole, if scripts/get-model has it here. Of each:

- logits: the server's log-probabilities of each prompt token and of the --top likeliest in its
  place, minus transformers', as the root of the mean square over the deviation of transformers'
  logits. They differ from logits by one number a position.
- greedy tokens of --prompts prompts, all at once, and of some alone: equal up to the first that
  was a near tie, where transformers' two highest logits are closer than the bound of the above.

Prints each near tie to the standard error. Exit status: 1 if a number is not finite or the server
failed; 77 if torch or transformers cannot be imported, or there is no GPU and --device wants one.
"""
import argparse
import concurrent.futures
import http.client
import json
import math
import os
import pathlib
import random
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from live_server import ROOT  # noqa: E402
from measured_server import measured_server  # noqa: E402
from measurements import fast_directory, not_run, record  # noqa: E402
from random_llama import write_tokenizer  # noqa: E402

SHAPES = {
    "8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
           "vocab_size": 128256, "max_position_embeddings": 131072},
    "tiny": {"hidden_size": 128, "intermediate_size": 320, "num_attention_heads": 4, "num_key_value_heads": 2,
             "vocab_size": 1500, "max_position_embeddings": 4096},
}
NAMED_TOKENS = 1024  # of the demo model's tokenizer; those behind are words that say their id
SHARPNESS = 3.0  # of random queries and keys, so that attention has something to choose
BOUND = {"bf16": 2e-2, "f32": 2e-4}  # of relative errors
NUM_NEW = 16
MODEL_BYTES = 4 << 30  # more than any of them
SERVER_MEMORY = "8GiB"  # of any of them; transformers' logits of --long tokens need 2 GB while the server runs


class Model:
    """One model as both sides have it: transformers', a directory, and the text of a token."""

    def __init__(self, id, module, directory, text_of, token_ids):
        self.id, self.module, self.directory, self.text_of, self.token_ids = id, module, directory, text_of, token_ids


def text_of_id(token):
    """None: one of the demo model's, whose text is no id."""
    return f" w{token}" if token >= NAMED_TOKENS else None


def random_llama(torch, transformers, arguments, directory):
    config = transformers.LlamaConfig(**SHAPES[arguments.shape], num_hidden_layers=2, tie_word_embeddings=False,
                                      rope_theta=500000.0, bos_token_id=1, eos_token_id=0)
    torch.manual_seed(arguments.seed)
    with torch.device(arguments.torch_device):
        module = transformers.AutoModelForCausalLM.from_config(config, dtype=arguments.torch_type)
    with torch.no_grad():
        for layer in module.model.layers:
            for matrix in (layer.self_attn.q_proj, layer.self_attn.k_proj):
                matrix.weight *= SHARPNESS
        module.lm_head.weight[:NAMED_TOKENS] = 0  # never the likeliest, so answers are words
    module.save_pretrained(directory)
    write_tokenizer(directory, config.vocab_size)
    return Model(f"llama_{arguments.shape}", module.eval(), directory, text_of_id,
                 range(NAMED_TOKENS, config.vocab_size))


def smollm2(torch, transformers, arguments, directory):
    """Throws what transformers throws where it cannot read the file, or it is not here."""
    cache = pathlib.Path(os.environ.get("TROUPE_MODELS", pathlib.Path.home() / ".cache/troupe/models"))
    file = cache / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if not file.exists():
        raise FileNotFoundError(f"{file} is not here: scripts/get-model smollm2 fetches it")
    options = {"gguf_file": file.name}
    module = transformers.AutoModelForCausalLM.from_pretrained(cache, dtype=arguments.torch_type, **options)
    module.to(arguments.torch_device).save_pretrained(directory)
    write_tokenizer(directory, module.config.vocab_size)  # ids are asked for and read, never words
    return Model("smollm2", module.eval(), directory, text_of_id, range(NAMED_TOKENS, module.config.vocab_size))


MAKERS = {"llama": random_llama, "smollm2": smollm2}


def prompts_of(model, arguments):
    draw = random.Random(arguments.seed)
    lengths = [1, 2, 31, 32, 33, 200] + [draw.randint(4, 120) for _ in range(arguments.prompts)]
    return [[draw.choice(model.token_ids) for _ in range(length)] for length in lengths[:arguments.prompts]]


def ask(port, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"the server answered {answer.status}: {text[:300]!r}")
    return json.loads(text)["choices"][0]


def prompt_scores(port, prompt, top):
    """Of each token but the first: log-probabilities by id."""
    choice = ask(port, {"prompt": prompt, "max_tokens": 1, "temperature": 0, "prompt_logprobs": top})
    return [{int(token): score["logprob"] for token, score in position.items()}
            for position in choice["prompt_logprobs"][1:]]


def greedy_texts(port, prompts):
    """The texts of each prompt's NUM_NEW tokens, all asked for at once."""
    def of_one(prompt):
        choice = ask(port, {"prompt": prompt, "max_tokens": NUM_NEW, "temperature": 0, "ignore_eos": True,
                            "logprobs": 1})
        return choice["logprobs"]["tokens"]
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        return list(pool.map(of_one, prompts))


def check_finite(value, what):
    if value is None or not math.isfinite(value):
        raise ArithmeticError(f"{what} is not finite: {value}")
    return value


def relative_error(torch, model, prompts, port, arguments):
    """(root of the mean square, largest) difference of log-probabilities, over the deviation of logits; how many."""
    squares, largest, count, deviations = 0.0, 0.0, 0, []
    for prompt in prompts:
        if len(prompt) < 2:
            continue
        scores = prompt_scores(port, prompt, arguments.top)
        with torch.no_grad():
            logits = model.module(torch.tensor([prompt], device=arguments.torch_device)).logits[0, :-1].float()
        deviations.append(check_finite(logits.std(dim=1).mean().item(), "a deviation of transformers' logits"))
        expected = torch.log_softmax(logits, dim=1)
        for position, found in enumerate(scores):
            ids = list(found)
            values = expected[position, torch.tensor(ids, device=expected.device)].tolist()
            for token, value in zip(ids, values):
                difference = check_finite(found[token], f"the log-probability of token {token}") - value
                squares += difference * difference
                largest = max(largest, abs(difference))
                count += 1
    deviation = sum(deviations) / len(deviations)
    return math.sqrt(squares / count) / deviation, largest / deviation, count, deviation


def expected_tokens(torch, model, prompt, arguments):
    """(greedy token, how far its logit leads the next one's) of transformers, NUM_NEW of them."""
    tokens = torch.tensor([prompt], device=arguments.torch_device)
    result = model.module.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=NUM_NEW,
                                   min_new_tokens=NUM_NEW, do_sample=False, pad_token_id=0, output_logits=True,
                                   return_dict_in_generate=True)
    tokens = result.sequences[0, len(prompt):].tolist()
    leads = []
    for logits in result.logits:
        highest = torch.topk(logits[0].float(), 2).values
        leads.append(check_finite((highest[0] - highest[1]).item(), "a lead of transformers' logits"))
    return list(zip(tokens, leads))


def first_difference(model, found, expected):
    """Index of the first token that differs, or None."""
    for index, (text, (token, _)) in enumerate(zip(found, expected)):
        expected_text = model.text_of(token)
        if text != expected_text and (expected_text or text[2:].isdigit()):
            return index
    return None if len(found) == len(expected) else min(len(found), len(expected))


def equal_prompts(model, prompts, answers, expected, margin, what):
    """How many answers are equal, and equal up to a near tie."""
    num_equal = num_ties = 0
    for number, (prompt, found) in enumerate(zip(prompts, answers)):
        index = first_difference(model, found, expected[number])
        if index is None:
            num_equal += 1
        elif index < len(expected[number]) and expected[number][index][1] < margin:
            num_ties += 1
            print(f"{model.id}, {what}: prompt {number} of {len(prompt)} tokens, token {index}: near tie, lead "
                  f"{expected[number][index][1]:.3g} of {margin:.3g}", file=sys.stderr)
        else:
            wanted = model.text_of(expected[number][index][0]) if index < len(expected[number]) else "the end"
            print(f"{model.id}, {what}: prompt {number} of {len(prompt)} tokens, token {index}: got "
                  f"{found[index:index + 1]}, transformers has {wanted!r}", file=sys.stderr)
    return num_equal, num_ties


def compare(torch, model, arguments):
    prompts = prompts_of(model, arguments)
    long_prompt = [random.Random(2).choice(model.token_ids) for _ in range(arguments.long)]
    expected = [expected_tokens(torch, model, prompt, arguments) for prompt in prompts]
    options = ["--device", arguments.device, "--compute-type", arguments.type, "--max-batch-sequences", "64",
               "--max-batch-tokens", "512", "--max-queue-seconds", "300"]
    if arguments.cuda_library:
        options += ["--cuda-library", arguments.cuda_library]
    with measured_server(arguments.troupe, model.directory, options, SERVER_MEMORY,
                         library_path=arguments.library_path) as server:
        error, largest, count, deviation = relative_error(torch, model, [*prompts, long_prompt], server.port, arguments)
        together = greedy_texts(server.port, prompts)
        alone = [greedy_texts(server.port, [prompt])[0] for prompt in prompts[:arguments.alone]]
    record(f"logits_{model.id}", f"logits of {model.id} against transformers', relative", error, "of their deviation",
           largest=largest, log_probabilities=count, deviation=deviation)
    margin = BOUND[arguments.type] * deviation
    for what, answers in (("together", together), ("alone", alone)):
        num_equal, num_ties = equal_prompts(model, prompts, answers, expected, margin, what)
        record(f"greedy_{model.id}_{what}", f"greedy tokens of {model.id} as transformers', prompts {what}",
               (num_equal + num_ties) / len(answers), "of prompts", prompts=len(answers), near_ties=num_ties,
               tokens_each=NUM_NEW)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", type=pathlib.Path, default=ROOT / "build/release/app/troupe")
    parser.add_argument("--library-path", help="LD_LIBRARY_PATH of the server alone")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--torch-device", help="transformers' (default: --device, which is then a GPU, or cpu)")
    parser.add_argument("--cuda-library", help="the server's: the interpreter's, to try this without a GPU")
    parser.add_argument("--type", choices=BOUND, default="bf16")
    parser.add_argument("--shape", choices=SHAPES, default="8b")
    parser.add_argument("--models", nargs="+", choices=MAKERS, default=list(MAKERS))
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--alone", type=int, default=8, help="prompts that are asked alone, too")
    parser.add_argument("--long", type=int, default=1500, help="tokens of one more prompt, whose logits are compared")
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    arguments = parse()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import torch
        import transformers
    except ImportError as error:
        print(f"torch or transformers cannot be imported ({error})", file=sys.stderr)
        return 77
    arguments.torch_device = arguments.torch_device or (arguments.device if "cuda" in arguments.device else "cpu")
    if arguments.torch_device.startswith("cuda") and not torch.cuda.is_available():
        print("torch finds no GPU", file=sys.stderr)
        return 77
    arguments.torch_type = {"bf16": torch.bfloat16, "f32": torch.float32}[arguments.type]
    status = 0
    for make in (MAKERS[name] for name in arguments.models):
        with tempfile.TemporaryDirectory(dir=fast_directory(MODEL_BYTES)) as name:
            try:
                model = make(torch, transformers, arguments, pathlib.Path(name))
            except Exception as error:  # the peer's side alone
                not_run(f"logits_{make.__name__}", f"{type(error).__name__}: {error}")
                continue
            try:
                compare(torch, model, arguments)
            except (ArithmeticError, RuntimeError, OSError, SystemExit) as error:
                print(f"{model.id}: {type(error).__name__}: {error}", file=sys.stderr)
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
