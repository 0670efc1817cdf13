#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads small pieces of machine code whose answers are known."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "bench/kernels/cuda"))
from machine_code import (INSTRUCTION, is_worse, loads_by_loop, loads_in_flight, short, tensor_share,  # noqa: E402
                          threads_by_kernel)


def instructions_of(text):
    found = [INSTRUCTION.match(line) for line in text.strip().splitlines()]
    return [(int(match[1], 16), match[2], match[3]) for match in found]


def check_loads():
    together = instructions_of("""
        /*0010*/                   LDG.E.128 R8, desc[UR4][R2.64] ;
        /*0020*/              @!P0 LDG.E.128 R12, desc[UR4][R2.64+0x80] ;
        /*0030*/                   FFMA R20, R8, R30, R20 ;
        /*0040*/                   FFMA R20, R15, R30, R20 ;""")
    assert loads_in_flight(together) == 2
    one_by_one = instructions_of("""
        /*0010*/                   LDG.E.128 R8, desc[UR4][R2.64] ;
        /*0020*/                   FFMA R20, R11, R30, R20 ;
        /*0030*/                   LDG.E.128 R8, desc[UR4][R2.64+0x80] ;
        /*0040*/                   FFMA R20, R8, R30, R20 ;""")
    assert loads_in_flight(one_by_one) == 1
    chained = instructions_of("""
        /*0010*/                   LDG.E.64 R2, desc[UR4][R2.64] ;
        /*0020*/                   LDG.E R8, desc[UR4][R2.64] ;""")  # the address is what the first one brings
    assert loads_in_flight(chained) == 1
    copies = instructions_of("""
        /*0010*/                   LDGSTS.E.BYPASS.128 [R5], desc[UR4][R2.64] ;
        /*0020*/                   LDGSTS.E.BYPASS.128 [R5+0x10], desc[UR4][R2.64] ;
        /*0030*/                   DEPBAR.LE SB0, 0x0 ;
        /*0040*/                   LDGSTS.E.BYPASS.128 [R5], desc[UR4][R2.64] ;""")
    assert loads_in_flight(copies) == 2


def check_loops():
    """Each loop by itself: one that waits for every load is not hidden by another that does not."""
    two = instructions_of("""
        /*0010*/                   LDG.E.128 R8, desc[UR4][R2.64] ;
        /*0020*/                   LDG.E.128 R12, desc[UR4][R2.64+0x80] ;
        /*0030*/                   FFMA R20, R8, R12, R20 ;
        /*0040*/              @P0  BRA 0x10 ;
        /*0050*/                   IADD3 R40, R40, 0x1, RZ ;
        /*0060*/                   LDG.E.128 R8, desc[UR4][R2.64] ;
        /*0070*/                   FFMA R20, R8, R30, R20 ;
        /*0080*/              @P1  BRA 0x60 ;
        /*0090*/              @P2  BRA 0x50 ;
        /*00a0*/                   MOV R1, R2 ;
        /*00b0*/              @P3  BRA 0xa0 ;
        /*00c0*/                   EXIT ;
        /*00d0*/                   BRA 0xd0 ;""")
    assert loads_by_loop(two) == [2, 1], loads_by_loop(two)  # not the outer one, nor one without loads
    assert loads_in_flight(two) == 2


def check_tensor_share():
    loop = instructions_of("""
        /*0010*/                   MOV R1, R2 ;
        /*0020*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0030*/                   IADD3 R2, R2, 0x1, RZ ;
        /*0040*/              @P0  BRA 0x20 ;
        /*0050*/                   EXIT ;""")
    assert tensor_share(loop) == round(1 / 3, 3)
    assert tensor_share(loop[:1] + loop[2:]) == 0


def check_names():
    assert short("void troupe::cuda::(anonymous namespace)::paged_attention_kernel<__nv_bfloat16, 4>(X, Y<Z>)") == \
        "paged_attention_kernel<bf16, 4>"


def check_worse():
    kernel = {"registers": 75, "threads": 256, "local": 0, "loads": 8, "loops": [8, 4], "tensor": 0.1}
    assert not is_worse(kernel, kernel) and not is_worse(kernel | {"registers": 70, "loads": 9}, kernel)
    assert not is_worse(kernel | {"registers": 80}, kernel)  # three blocks as before
    assert not is_worse(kernel | {"registers": 128}, kernel | {"registers": 90})
    few = kernel | {"registers": 23}  # eight blocks by threads, ten by registers
    assert not is_worse(few | {"registers": 32}, few) and is_worse(few | {"registers": 33}, few)
    for worse in ({"registers": 81}, {"local": 4}, {"loads": 7}, {"loops": [8, 3]}, {"loops": [8]},
                  {"tensor": 0.05}):
        assert is_worse(kernel | worse, kernel), worse


def check_threads():
    """Of a kernel without a bound nothing is said."""
    text = """.nv.info._Z5firstv
\t<0x1>
\tAttribute:\tEIATTR_MAX_THREADS
\tFormat:\tEIFMT_SVAL
\tValue:\t0x80 0x1 0x1 
.nv.info._Z6secondv
\tAttribute:\tEIATTR_MAXREG_COUNT
\tFormat:\tEIFMT_HVAL
\tValue:\t0xff
.nv.info._Z5thirdv
\tAttribute:\tEIATTR_MAX_THREADS
\tFormat:\tEIFMT_SVAL
\tValue:\t0x400 0x1 0x1 """
    assert threads_by_kernel(text) == {"_Z5firstv": 128, "_Z5thirdv": 1024}


def check_missing_programs():
    """A sentence that names them, no traceback."""
    for library, cuobjdump, told in ((__file__, "", '--cuobjdump: there is no program ""'),
                                     ("/no/such.so", "sh", 'the library "/no/such.so" can\'t be read')):
        result = subprocess.run([sys.executable, ROOT / "bench/kernels/cuda/machine_code.py", library, "--cuobjdump",
                                 cuobjdump], capture_output=True, text=True)
        assert result.returncode == 2 and told in result.stderr, result


if __name__ == "__main__":
    for check in (check_loads, check_loops, check_tensor_share, check_names, check_worse, check_threads, check_missing_programs):
        check()
