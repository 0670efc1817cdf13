# SPDX-License-Identifier: Apache-2.0
"""Turns messages into token ids, as the chat template of tokenizer_config.json does."""

from pathlib import Path

from tokenizers import Tokenizer


class Chat:
    def __init__(self, directory):
        self.tokenizer = Tokenizer.from_file(str(Path(directory) / "tokenizer.json"))
        self.roles = {role: self.tokenizer.token_to_id(f"<|{role}|>") for role in ("system", "user", "assistant")}
        self.end = self.tokenizer.token_to_id("<|end|>")
        self.padding = self.tokenizer.token_to_id("<|endoftext|>")

    def encode(self, messages):
        """Token ids, and for each whether it belongs to an answer (its text and its end token)."""
        ids, is_answer = [], []
        contents = self.tokenizer.encode_batch([message["content"] for message in messages])
        for message, content in zip(messages, contents):
            ids += [self.roles[message["role"]], *content.ids, self.end]
            is_answer += [False] + [message["role"] == "assistant"] * (len(content.ids) + 1)
        return ids, is_answer

    def prompt(self, messages):
        return self.encode(messages)[0] + [self.roles["assistant"]]

    def decode(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=False)
