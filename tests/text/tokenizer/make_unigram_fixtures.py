#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small tokenizers of type Unigram and what Hugging Face's tokenizers make of texts with them, for test_text:

    tests/fixtures/text/unigram_xlm_roberta   a charsmap of sentencepiece, words without their spaces, <s> text </s>
    tests/fixtures/text/unigram_bytes         NFKC, lower case, no accents; what no piece has becomes bytes

usage: make_unigram_fixtures.py [--nmt-nfkc] OUT_DIR     (needs `tokenizers`, `sentencepiece` and `protobuf` from PyPI)

--nmt-nfkc: with the whole map of sentencepiece's rule in place of a small one (320 KB; for tokenizer_parity.py).
"""
import argparse
import io
import json
import pathlib
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

ROOT = pathlib.Path(__file__).resolve().parents[3]
LINES = ["Привет, как дела сегодня?", "どこで本を買いますか。", "今天天气很好,我们去公园。", "Où est la bibliothèque, s'il vous plaît ?",
         "Größe und Straße", "एक दो तीन चार", "سلام دنیا", "안녕하세요 세계", "one two three four five"]
# Sequences of code points and what they become.
RULES = [("FF21", "41"), ("FF42", "62"), ("FB01", "66 69"), ("3000", "20"), ("A", "20"), ("D A", "20"), ("9", "20"),
         ("A0", "20"), ("200B", "20"), ("AD", ""), ("65 301", "E9"), ("61 323", "1EA1"), ("212B", "C5"), ("2460", "31"),
         ("FF76", "30AB"), ("1112 1161", "D558"), ("2026", "2E 2E 2E"), ("1F468", "6D 61 6E")]
TEXTS = ["", " ", "Hello world", "  two  spaces  ", "line\r\nbreak\ttab\n", "ＡｂＣ ﬁne…", "e\u0301te\u0301 a\u0323\u0307 \u212b\u0307",
         "a\u0323\u0301\u0302\u0303\u0304 zalgo", "Привет, мир", "本を買う 今天", "\u00ad\u200bzero width", "① ② ㈱", "ｶﾞ ガ カ\u3099",
         "\u1112\u1161\u11ab 한", "👨\u200d👩\u200d👧 🇩🇪🇫🇷", "<s> text </s> <unk> <0x41>", "unknown ⛄⛄ characters ⛄x", "▁meta▁space",
         "İstanbul ǅ ẞ K", "ÀÉÎõü ñandú", "\u2028line\u2029paragraph\u0085next", "ﷺ ﷺ", "a" * 300, "aé" * 50, "क्षि ज्ञ स्त्री",
         "the server keeps pages of the model's memory", "\u0000nul\u0001", "x\u0301\u0302" * 20, "\ufffd\ufeff", "١٢٣ ४५६"]


def corpus():
    for file in sorted((ROOT / "docs").glob("*.md")):
        yield from (line for line in file.read_text().splitlines() if line)
    yield from LINES * 20


def train(vocabulary, rules):
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as table:
        table.write("".join(f"{source}\t{target}\n" for source, target in rules or []))
        table.flush()
        rule = {"normalization_rule_tsv": table.name} if rules else {"normalization_rule_name": "nmt_nfkc"}
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=corpus(), model_writer=model, model_type="unigram", vocab_size=vocabulary,
            character_coverage=0.995, num_threads=1, minloglevel=2, **rule)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    pieces = [(p.piece, round(p.score, 5)) for p in proto.pieces if p.type == 1]
    return pieces, proto.normalizer_spec.precompiled_charsmap


def xlm_roberta(pieces, charsmap):
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer = Tokenizer(models.Unigram([(s, 0.0) for s in specials] + pieces + [("<mask>", 0.0)], unk_id=3))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap),
                                                 normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(specials + ["<mask>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


def with_bytes(pieces):
    specials = ["<pad>", "<eos>", "<bos>", "<unk>"]
    spelled = [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    tokenizer = Tokenizer(models.Unigram([(s, 0.0) for s in specials] + spelled + pieces, unk_id=3, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Strip(left=False, right=True), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(),
        normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(specials)
    return tokenizer


def write(tokenizer, folder):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    expected = []
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        expected.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids)})
    (folder / "expected.json").write_text(json.dumps({"texts": expected}, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nmt-nfkc", action="store_true")
    parser.add_argument("output", type=pathlib.Path)
    arguments = parser.parse_args()
    pieces, charsmap = train(600, None if arguments.nmt_nfkc else RULES)
    write(xlm_roberta(pieces, charsmap), arguments.output / "unigram_xlm_roberta")
    lowercase = {piece.lower(): score for piece, score in pieces}
    write(with_bytes(list(lowercase.items())), arguments.output / "unigram_bytes")


if __name__ == "__main__":
    main()
