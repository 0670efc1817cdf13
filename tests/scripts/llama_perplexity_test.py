#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers/llama_perplexity.py sends the chunks that llama-perplexity computes."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/peers"))
from llama_perplexity import chunks  # noqa: E402


class Chunks(unittest.TestCase):
    def test_are_the_text_in_whole_ones(self):
        self.assertEqual(list(chunks([5, 6, 7, 8, 9], [5, 6, 7, 8, 9], 2)), [[5, 6], [7, 8]])

    def test_begin_with_the_token_that_the_vocabulary_adds(self):
        self.assertEqual(list(chunks([1, 5, 6, 7, 8, 9], [5, 6, 7, 8, 9], 3)), [[1, 5, 6], [1, 8, 9]])

    def test_are_refused_where_more_is_added(self):
        with self.assertRaises(SystemExit):
            list(chunks([1, 2, 5, 6], [5, 6], 2))
        with self.assertRaises(SystemExit):
            list(chunks([5, 6, 2], [5, 6], 2))  # behind the text


if __name__ == "__main__":
    unittest.main()
