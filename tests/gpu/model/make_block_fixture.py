#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what ggml's Python package makes of blocks of every quantized type, for test_gpu to compare.

usage: make_block_fixture.py OUT.safetensors [BLOCKS_A_TYPE]   (needs `gguf` from PyPI)
then:  TROUPE_GGML_BLOCKS=OUT.safetensors test_gpu -tc="block formats: *package*"

Without the variable the test reads tests/fixtures/ggml_blocks.safetensors, which has 4 blocks a type.
"""
import json
import pathlib
import sys

import numpy
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

# Places of the scales in f16; any other byte may be anything.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "MXFP4": []}


def blocks_of(name, count, random):
    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    blocks = random.integers(0, 256, (count, size), dtype=numpy.uint8)
    for offset in HALVES[name]:
        halves = random.integers(0, 1 << 16, count).astype(numpy.uint16)
        halves[(halves & 0x7C00) == 0x7C00] ^= 0x4000  # no infinities, subnormal numbers stay
        blocks[:, offset:offset + 2] = halves.view(numpy.uint8).reshape(count, 2)
    if name == "MXFP4":
        blocks[:, 0] = numpy.minimum(blocks[:, 0], 252)
        blocks[:2, 0] = [0, 1]
    return blocks, dequantize(blocks, GGMLQuantizationType[name]).reshape(count, elements)


def main():
    out = pathlib.Path(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    random = numpy.random.default_rng(1)
    header, data = {}, b""
    for name in HALVES:
        blocks, values = blocks_of(name, count, random)
        for part, array, dtype in [("values", values.astype("<f4"), "F32"), ("blocks", blocks, "U8")]:
            raw = array.tobytes()
            header[f"{name}.{part}"] = {"dtype": dtype, "shape": list(array.shape),
                                        "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    out.write_bytes(len(text).to_bytes(8, "little") + text + data)


if __name__ == "__main__":
    main()
