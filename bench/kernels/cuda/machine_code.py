#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the kernels' machine code, since no GPU is needed to see what a compiler made of them.

Of each kernel for sm_90a: registers, threads that its launch may have, bytes of local memory (spills) and of static
shared memory, loads from global memory that a thread has under way before it needs the first, in the whole kernel and in
each of its innermost loops that load, and the share of tensor instructions in the loop that has most of them.

Usage: machine_code.py LIBRARY [--cuobjdump PROGRAM] [--update]

Holds them against machine_code.json beside this file: exit status 1 if a kernel has become worse, has other loops, is
new or has gone; 2 if there is no such library or program; 77 if another compiler made the library. Registers more are
worse only where fewer blocks of these threads have theirs in a multiprocessor. --update writes the file anew. nvdisasm must be found in
the PATH or beside cuobjdump.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

TABLE = pathlib.Path(__file__).with_suffix(".json")
ARCHITECTURE = "sm_90a"
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?(\S+)\s*([^;]*);")
REGISTER = re.compile(r"\bR(\d+)\b")
THREADS = re.compile(r"^\.nv\.info\.(\S+)$|EIATTR_MAX_THREADS\s+Format:\s+EIFMT_SVAL\s+Value:\s+0x([0-9a-f]+)", re.M)
USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
RESERVED_SHARED = 1024  # CUDA's own in blocks that have any; no part of what a block may have
REGISTERS, TOGETHER, MOST_THREADS = 65536, 8, 1024  # of a multiprocessor; a thread gets them by eights; of a block
RESIDENT_THREADS, RESIDENT_BLOCKS = 2048, 32  # of a multiprocessor, whatever their registers
WIDTHS = {".128": 4, ".64": 2}
# One register of a result follows another; what comes first among the operands is written.
ENDS_OF_BLOCKS = ("BRA", "BRX", "EXIT", "RET", "CALL", "BAR", "WARPSYNC")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def short(name):
    """paged_attention_kernel<bf16, 4> and the like."""
    name = re.sub(r"\(anonymous namespace\)::|troupe::cuda::|\b__nv_", "", name).removeprefix("void ")
    name = name.replace("bfloat16", "bf16").replace("__half", "f16")
    depth = 0
    for i, letter in enumerate(name):  # up to the parameters
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            return name[:i]
    return name


def loads_in_flight(instructions):
    """The most loads that are issued before an instruction reads what one of them brings."""
    most, pending, copies = 0, [], 0
    for _, opcode, operands in instructions:
        if opcode.startswith("LDGSTS"):  # into shared memory, awaited by groups
            copies += 1
            most = max(most, copies)
            continue
        if opcode.startswith("DEPBAR"):
            copies = 0
        if opcode.startswith(ENDS_OF_BLOCKS):
            pending = []
            continue
        registers = [int(number) for number in REGISTER.findall(operands)]
        if not registers:
            continue
        is_load = opcode.startswith("LDG.")
        reads = registers[1:] if is_load else registers
        for i in reversed(range(len(pending))):
            if any(pending[i][0] <= number < pending[i][1] for number in reads):
                pending = pending[i + 1:]  # they arrive in order
                break
        if is_load:
            width = next((count for suffix, count in WIDTHS.items() if suffix in opcode), 1)
            pending.append((registers[0], registers[0] + width))
            most = max(most, len(pending))
    return most


def loops(instructions):
    """(first, last) instruction of each, by branches back; a branch to itself, behind the end of a kernel, is none."""
    places = {address: place for place, (address, _, _) in enumerate(instructions)}
    for end, (address, opcode, operands) in enumerate(instructions):
        target = re.search(r"0x([0-9a-f]+)", operands) if opcode.startswith("BRA") else None
        begin = places.get(int(target[1], 16)) if target else None
        if begin is not None and begin < end:
            yield begin, end


def loads_by_loop(instructions):
    """loads_in_flight() of each loop that loads and holds no other that does, in the order of their code."""
    is_load = [opcode.startswith(("LDG.", "LDGSTS")) for _, opcode, _ in instructions]
    loading = sorted({(begin, end) for begin, end in loops(instructions) if any(is_load[begin:end + 1])})
    innermost = [(begin, end) for begin, end in loading
                 if not any(begin <= first and last <= end and (first, last) != (begin, end)
                            for first, last in loading)]
    return [loads_in_flight(instructions[begin:end + 1]) for begin, end in innermost]


def tensor_share(instructions):
    """Of the instructions of the loop that has most products of tensor cores; 0 without such."""
    best = (0, 0.0)
    is_product = [opcode.startswith(("HMMA", "HGMMA", "IMMA")) for _, opcode, _ in instructions]
    for begin, end in loops(instructions):
        count = sum(is_product[begin:end + 1])
        best = max(best, (count, count / (end + 1 - begin)))
    return round(best[1], 3)


def threads_by_kernel(text):
    """Of those whose source bounds them, out of cuobjdump's -elf."""
    threads, name = {}, None
    for found in THREADS.finditer(text):
        if found[1]:
            name = found[1]
        else:
            threads[name] = int(found[2], 16)
    return threads


def read_kernels(cuobjdump, library):
    usage, code, name = {}, {}, None
    threads = threads_by_kernel(run(cuobjdump, "-arch", ARCHITECTURE, "-elf", library))
    for line in run(cuobjdump, "-arch", ARCHITECTURE, "-res-usage", library).splitlines():
        if (found := re.search(r"Function (\S+):", line)) is not None:
            name = found[1]
        elif (found := USAGE.search(line)) is not None:
            usage[name] = found
    for line in run(cuobjdump, "-arch", ARCHITECTURE, "-sass", library).splitlines():
        if (found := re.search(r"Function : (\S+)", line)) is not None:
            code[found[1]] = instructions = []
        elif (found := INSTRUCTION.match(line)) is not None:
            instructions.append((int(found[1], 16), found[2], found[3]))
    plain = run("c++filt", *code).splitlines()
    return {short(name): {"registers": int(usage[mangled][1]), "threads": threads.get(mangled, MOST_THREADS),
                          "local": int(usage[mangled][2]) + int(usage[mangled][4]),
                          "shared": max(0, int(usage[mangled][3]) - RESERVED_SHARED),
                          "loads": loads_in_flight(instructions), "loops": loads_by_loop(instructions),
                          "tensor": tensor_share(instructions)}
            for (mangled, instructions), name in zip(code.items(), plain)}


def compiler_of(library):
    found = re.search(rb"Cuda compilation tools, release [\d.]+, V([\d.]+)", pathlib.Path(library).read_bytes())
    return found[1].decode() if found else "unknown"


def blocks(kernel):
    """That a multiprocessor has room for at once, by registers and threads."""
    of_thread = -(-kernel["registers"] // TOGETHER) * TOGETHER
    return min(REGISTERS // (of_thread * kernel["threads"]), RESIDENT_THREADS // kernel["threads"],
               RESIDENT_BLOCKS)


def is_worse(now, before):
    return (blocks(now) < blocks(before) or now["local"] > before["local"]
            or now["loads"] < before["loads"] or len(now["loops"]) != len(before["loops"])
            or any(new < old for new, old in zip(now["loops"], before["loops"])) or now["tensor"] < before["tensor"] - 0.005)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library")
    parser.add_argument("--cuobjdump", default="cuobjdump")
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    if not os.access(arguments.library, os.R_OK):
        parser.error(f"the library \"{arguments.library}\" can't be read")
    if shutil.which(arguments.cuobjdump) is None:
        parser.error(f"--cuobjdump: there is no program \"{arguments.cuobjdump}\"")
    os.environ["PATH"] = f"{pathlib.Path(arguments.cuobjdump).parent}:{os.environ['PATH']}"
    table = {"compiler": compiler_of(arguments.library), "kernels": read_kernels(arguments.cuobjdump, arguments.library)}
    if arguments.update:
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(of)}" for name, of in sorted(table["kernels"].items()))
        TABLE.write_text(f'{{"compiler": {json.dumps(table["compiler"])}, "kernels": {{\n{lines}\n}}}}\n')
        print(f"{len(table['kernels'])} kernels written")
        return 0
    before = json.loads(TABLE.read_text())
    if before["compiler"] != table["compiler"]:
        print(f"made by nvcc {table['compiler']}, the table by {before['compiler']}: not compared")
        return 77
    differences = 0
    for name in sorted(before["kernels"].keys() | table["kernels"].keys()):
        was, now = before["kernels"].get(name), table["kernels"].get(name)
        if was is None or now is None or is_worse(now, was):
            differences += 1
            print(f"WORSE   {name}: {was} -> {now}" if was and now else f"{'NEW' if now else 'GONE'}  {name}: {now or was}")
        elif now != was:
            print(f"changed {name}: {was} -> {now}")
    print(f"{len(table['kernels'])} kernels, {differences} worse, new or gone (--update writes {TABLE.name} anew)")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
