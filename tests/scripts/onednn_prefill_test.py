#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prefill beside oneDNN: what is counted as work of a model, and which ratio a goal is for. Needs no torch."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/peers")]
import onednn_prefill as bench  # noqa: E402
import random_llama  # noqa: E402


def shape_of(name):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory)
        (path / "config.json").write_text(json.dumps(random_llama.SHAPES[name].config()))
        return bench.Shape.read(path)


def report(tokens, rounds):
    """Arms that missed the goal, and what was printed; products and attention are 100 and 20 operations."""
    class Counted:
        def product_flops(self, _):
            return 100

        def attention_flops(self, _):
            return 20

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        missed = bench.report(Counted(), tokens, rounds, ["troupe bf16"], ["oneDNN bf16", "oneDNN f32"])
    return missed, printed.getvalue()


class Work(unittest.TestCase):
    def test_products_are_two_operations_for_each_weight_that_a_token_meets(self):
        for name in random_llama.SHAPES:
            sizes = {of: dimensions for of, dimensions in random_llama.tensors(random_llama.SHAPES[name])
                     if len(dimensions) == 2}
            output = sizes.pop("model.embed_tokens.weight")
            a_token = sum(outputs * inputs for outputs, inputs in sizes.values())
            self.assertEqual(shape_of(name).product_flops(7), 2 * (7 * a_token + output[0] * output[1]))

    def test_a_token_attends_to_those_up_to_itself(self):
        shape = shape_of("135m")
        pairs = sum(range(1, 12))  # of 11 tokens
        self.assertEqual(shape.attention_flops(11), 2 * 2 * pairs * 30 * 9 * 64)


class Report(unittest.TestCase):
    def test_the_limit_is_the_faster_type_of_each_round(self):
        rounds = [{"troupe bf16": 2.0, "oneDNN bf16": 1.0, "oneDNN f32": 9.0},
                  {"troupe bf16": 2.0, "oneDNN bf16": 9.0, "oneDNN f32": 1.5}]
        self.assertIn("products 0.625 (0.500 to 0.750), with attention 0.750 (0.600 to 0.900)", report(100, rounds)[1])

    def test_goals_are_for_the_ratio_with_attention(self):
        rounds = [{"troupe bf16": 1.0, "oneDNN bf16": 0.72, "oneDNN f32": 2.0}]  # 0.864
        self.assertEqual(report(512, rounds)[0], [])
        rounds = [{"troupe bf16": 1.0, "oneDNN bf16": 0.70, "oneDNN f32": 2.0}]  # 0.84
        self.assertEqual(report(512, rounds)[0], ["troupe bf16 at 512"])
        self.assertEqual(report(8192, rounds)[0], [])
        self.assertEqual(report(2048, rounds)[0], [])


if __name__ == "__main__":
    unittest.main()
