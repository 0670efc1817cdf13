#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small tokenizers laid out like published ones and what Hugging Face's tokenizers make of texts with them:

    tests/fixtures/text/clip         bytes, of which a word's last has </w> behind it; other text than words is thrown away
    tests/fixtures/text/openai_gpt   the same of characters, with BERT's words
    tests/fixtures/text/falcon       digits are cut behind the spelling in bytes
    tests/fixtures/text/whisper      an entry that is empty
    tests/fixtures/text/word_level   whole words, no decoder

usage: make_layout_fixtures.py OUT_DIR     (needs `tokenizers` from PyPI)
"""
import json
import pathlib
import sys

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[3]
TEXTS = ["", " ", "Hello world", "  two  spaces  ", "line\r\nbreak\ttab\n", "ＡｂＣ ﬁne…", "it's we'll THEY'RE don't",
         "e\u0301te\u0301 naïve Größe", "Привет, мир", "本を買う 今天", "\u00ad\u200bzero width", "①② x² 1½ ò ñ ¼",
         "1 12 123 1234 12345 123456 a1b22c333d4444", "+1,234,567.89 (2024-11-29)", "👨\u200d👩\u200d👧 🇩🇪", "<unk> <|0.00|> [x]",
         "</w> a</w> <w>", "unknown ⛄⛄ characters ⛄x", "İstanbul ǅ ẞ", "\u2028line\u2029paragraph\u0085next", "snake_case x_1 __",
         "a" * 120, "the server keeps pages of the model's memory, and the cache.", "\ufffd\ufeff", "١٢٣ ४५६ Ⅳ", "don\u2019t \u201cquote\u201d",
         "x == y && z != w; // done", "क्षि ज्ञ", "a\u203fb c\u200dd", "Tokenizers, tokens and pages: 100 % of them!"]


def corpus():
    for file in sorted((ROOT / "docs").glob("*.md")):
        yield from (line for line in file.read_text().splitlines() if line)


def trained(model, trainer, normalizer, pre_tokenizer):
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def bpe_trainer(vocabulary, specials, **options):
    return trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=specials, show_progress=False, **options)


def clip():
    end = "<|endoftext|>"
    tokenizer = trained(
        models.BPE(unk_token=end, continuing_subword_prefix="", end_of_word_suffix="</w>", fuse_unk=False),
        bpe_trainer(700, ["<|startoftext|>", end], end_of_word_suffix="</w>",
                    initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
        normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]),
        pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"),
                                 behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing((end, 1), ("<|startoftext|>", 0), False, False)
    return tokenizer


def openai_gpt():
    tokenizer = trained(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=False),
                        bpe_trainer(500, ["<unk>"], end_of_word_suffix="</w>"),
                        normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer())
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    return tokenizer


def falcon():
    words = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    tokenizer = trained(models.BPE(), bpe_trainer(500, ["<|endoftext|>"],
                                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet()), None, words)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def whisper():
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = trained(models.BPE(), bpe_trainer(450, [], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()), None, words)
    model = json.loads(tokenizer.to_str())["model"]
    model["vocab"][""] = len(model["vocab"])
    tokenizer = Tokenizer(models.BPE(vocab=model["vocab"], merges=[tuple(merge) for merge in model["merges"]]))
    tokenizer.pre_tokenizer = words
    tokenizer.decoder = decoders.ByteLevel()
    specials = ["<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"]
    tokenizer.add_special_tokens(specials)
    tokenizer.add_tokens(["<|0.00|>", "<|0.02|>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|startoftranscript|>:0 <|notimestamps|>:0 $A:0 <|endoftext|>:0", pair=None,
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in specials])
    return tokenizer


def word_level():
    return trained(models.WordLevel(unk_token="<unk>"),
                   trainers.WordLevelTrainer(vocab_size=600, special_tokens=["<pad>", "<unk>"], show_progress=False),
                   normalizers.Lowercase(), pre_tokenizers.Whitespace())


def write(tokenizer, folder):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    expected = []
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        # What transformers does for CLIP, whose files have no decoder that does.
        decoded = tokenizer.decode(ids).replace("</w>", " ") if folder.name == "clip" else tokenizer.decode(ids)
        expected.append({"text": text, "ids": ids, "decoded": decoded})
    (folder / "expected.json").write_text(json.dumps({"texts": expected}, indent=1) + "\n")


def main():
    for layout in (clip, openai_gpt, falcon, whisper, word_level):
        write(layout(), pathlib.Path(sys.argv[1]) / layout.__name__)


if __name__ == "__main__":
    main()
