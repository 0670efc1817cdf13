# SPDX-License-Identifier: Apache-2.0
"""Trains the byte-level BPE tokenizer of the demo model on the generator's own dialogues and writes tokenizer.json,
tokenizer_config.json (with the chat template) and generation_config.json."""

import argparse
import json
import random
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

import generator

END_OF_TEXT, SYSTEM, USER, ASSISTANT, END = SPECIAL_TOKENS = \
    ["<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]

# As GPT-2's, but a number of up to three digits is one piece without its space, and punctuation takes the space
# before a number along: "3, 14" is "3" ", " "14". Counting then takes two tokens a number.
PRE_TOKENIZER = r"'(?:s|t|re|ve|m|ll|d)|\p{N}{1,3}| ?\p{L}+| ?[^\s\p{L}\p{N}]+(?: (?=\p{N}))?|\s+(?!\S)|\s+"

CHAT_TEMPLATE = "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}" \
                "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"


def corpus(num_dialogues):
    rng = random.Random(7)
    for _ in range(num_dialogues):
        for message in generator.training_dialogue(rng, rng.randint(1, 6)).messages():
            yield message["content"]
    for _ in range(num_dialogues // 10):  # every number to 199 becomes one token
        yield " ".join(map(str, range(200)))


def train_tokenizer(vocabulary_size, num_dialogues):
    tokenizer = Tokenizer(models.BPE(byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PRE_TOKENIZER), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=vocabulary_size, special_tokens=SPECIAL_TOKENS, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(corpus(num_dialogues), trainer)
    return tokenizer


def check(tokenizer):
    for number in range(200):
        assert len(tokenizer.encode(str(number)).ids) == 1, number
    for text in ["1, 2, 3", "What is 27 + 38?", "naïve 東京 🙂\n\n  x\t", "d-o-g, reversed: g-o-d"]:
        assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text, text


def write(tokenizer, directory):
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    configuration = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": None, "eos_token": END, "pad_token": END_OF_TEXT,
        "unk_token": None, "add_bos_token": False, "add_eos_token": False, "clean_up_tokenization_spaces": False,
        "model_max_length": 2048, "chat_template": CHAT_TEMPLATE}
    (directory / "tokenizer_config.json").write_text(json.dumps(configuration, indent=2) + "\n")
    end, end_of_text = tokenizer.token_to_id(END), tokenizer.token_to_id(END_OF_TEXT)
    generation = {"eos_token_id": [end, end_of_text], "pad_token_id": end_of_text, "do_sample": False}
    (directory / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="the model directory")
    parser.add_argument("--vocabulary-size", type=int, default=1024)
    parser.add_argument("--dialogues", type=int, default=20000)
    arguments = parser.parse_args()
    tokenizer = train_tokenizer(arguments.vocabulary_size, arguments.dialogues)
    check(tokenizer)
    write(tokenizer, arguments.output)
    print(f"{tokenizer.get_vocab_size()} tokens written to {arguments.output}")


if __name__ == "__main__":
    main()
