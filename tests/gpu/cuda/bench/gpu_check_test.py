#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs scripts/gpu-check with a false GPU and false programs: parts, time limits, exit status, both files."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "bench/kernels/cuda"))
from goals import GOALS  # noqa: E402

NVIDIA_SMI = """#!/bin/sh
case "$*" in
  -L) echo "GPU 0: False GPU (UUID: GPU-0)" ;;
  *utilization.gpu*) echo "1980, 2619, 99"; exec sleep 60 ;;
  *) echo "False GPU, 1.2, 1000, 1980, 2619, 345, 2619, 700.00, 40, [N/A], GPU-${FALSE_GPU:-0}" ;;
esac
"""


def measured(id, value, **others):
    return json.dumps({"kind": "measurement", "tiny": False, "id": id, "title": id, "value": value, "unit": "x",
                       "goal": None, "met": None, "details": {}} | others)


class Place:
    """A directory with programs and tools; what is in `path` is found first."""

    def __init__(self, directory):
        self.build, self.path, self.out = directory / "build", directory / "bin", directory / "out"
        self.build.mkdir()
        self.path.mkdir()
        self.add(self.path / "nvidia-smi", NVIDIA_SMI)
        for test in ("kernels", "device"):
            self.program(f"test_cuda_{test}_on_gpu", "exit 0")
        self.program("bench_cuda", "exit 0")
        # Nothing of this machine's Python is asked for.
        self.add(self.path / "compute-sanitizer", '#!/bin/sh\ncase "$*" in *racecheck*) exit 9 ;; esac\n')

    def add(self, file, text):
        file.write_text(text)
        file.chmod(0o755)

    def program(self, name, text):
        self.add(self.build / name, "#!/bin/bash\n" + text + "\n")

    def run(self, *options, **environment):
        result = subprocess.run([ROOT / "scripts/gpu-check", "--no-build", "--build", self.build, "--out", self.out,
                                 *options], capture_output=True, text=True,
                                env=os.environ | environment | {"PATH": f"{self.path}:{os.environ['PATH']}"})
        report = self.out / "gpu-check.json"
        return result, json.loads(report.read_text()) if report.exists() else None


def steps_of(report):
    return {step["step"]: step["status"] for step in report["steps"]}


def check_without_gpu(directory):
    """One line and a status of its own."""
    if pathlib.Path("/dev/nvidia0").exists():
        return
    (directory / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    (directory / "nvidia-smi").chmod(0o755)
    result = subprocess.run([ROOT / "scripts/gpu-check"], capture_output=True, text=True,
                            env=os.environ | {"PATH": f"{directory}:{os.environ['PATH']}"})
    assert result.returncode == 77, result
    assert result.stderr == "gpu-check: no GPU here, nothing was run\n" and not result.stdout, result


def check_everything_met(directory):
    place = Place(directory)
    place.add(place.path / "compute-sanitizer", "#!/bin/sh\n")
    lines = [measured(goal.id, goal.at_least or goal.at_most) for goal in GOALS if "torch" not in goal.id]
    lines += [measured("decode_attention_64x16384", 0.9, details={"us": 105.0}),
              measured("torch_decode_attention_64x16384", 100.0)]
    lines += [measured("layer_norm_1x10", 2.0), measured("torch_layer_norm_1x10", 2.0)]
    place.program("bench_cuda", "sleep 0.5  # the clocks are sampled\ncat <<'END'\n" + "\n".join(lines) + "\nEND")
    place.program("bench_cuda_network", "exit 0")
    place.program("troupe", "exit 0")
    (place.build / "libtroupe_cuda.so").touch()
    # In place of the peers' scripts, which want torch.
    place.add(place.path / "python3", f'#!/bin/sh\ncase "$1" in *torch*|*transformers*) exit 0 ;; esac\n'
                                      f'exec {sys.executable} "$@"\n')
    result, report = place.run()
    assert result.returncode == 0, result.stdout + result.stderr
    assert {goal["result"] for goal in report["goals"]} == {"pass"}
    assert report["environment"]["gpu"] == "False GPU" and report["environment"]["mig"] is None
    assert report["clocks_mhz"]["sm"] == [1980, 1980, 1980]
    text = (place.out / "gpu-check.md").read_text()
    assert "False GPU" in text and f"Goals: {len(GOALS)} met, 0 missed, 0 not measured" in text
    assert "| MISS |" not in text and "Not run" not in text


def check_failures(directory):
    """A race, a missed goal, a cut line, a program that hangs and peers that are not there."""
    place = Place(directory)
    place.program("bench_cuda", f"echo '{measured('pages_from_host', 0.5)}'\necho '{measured('pages_to_host', 0.95)}'\n"
                                'echo \'{"kind": "not_run", "id": "completion", "reason": "no word came"}\'\n'
                                'echo \'{"kind": "measu\'\nexit 1')
    place.program("test_cuda_kernels_on_gpu", "exec sleep 100")
    place.add(place.path / "python3", '#!/bin/sh\ncase "$1" in *torch*|*transformers*) echo "no torch here" >&2; '
                                      f'exit 77 ;; esac\nexec {sys.executable} "$@"\n')
    result, report = place.run("--seconds", "8")
    steps = steps_of(report)
    # On a machine that is slow to begin, nothing is begun.
    outcome = (steps["tests-test_cuda_kernels_on_gpu"], result.returncode)
    assert outcome in (("timed out", 1), ("not run", 3)), (steps, result.stderr)
    # No time was left for what came behind it, which is said.
    assert steps["sanitizer-memcheck"] == "not run" and steps["transformers-logits"] == "not run", steps

    place.program("test_cuda_kernels_on_gpu", "exit 0")
    result, report = place.run()
    assert result.returncode == 1, result.stdout + result.stderr
    steps = steps_of(report)
    assert steps == {"tests-test_cuda_kernels_on_gpu": "passed", "tests-test_cuda_device_on_gpu": "passed",
                     "sanitizer-memcheck": "passed", "sanitizer-racecheck": "failed",
                     "sanitizer-synccheck": "passed", "kernels": "failed", "torch": "not run",
                     "torch-attention": "not run", "network-llama_8b": "not run", "network-llama_13b": "not run",
                     "transformers-logits": "not run", "transformers": "not run"}, steps
    results = {goal["id"]: goal["result"] for goal in report["goals"]}
    assert results["pages_from_host"] == "MISS" and results["pages_to_host"] == "pass" and results["itl_4_streams"] == "not run"
    reasons = [line["reason"] for line in report["not_run"]]
    assert "no word came" in reasons and "no torch here" in reasons, reasons
    text = (place.out / "gpu-check.md").read_text()
    assert "- torch: no torch here" in text and "- completion: no word came" in text


def check_continued(directory):
    """A second run does what did not pass; with another program it does all."""
    place = Place(directory)
    runs = directory / "runs"
    place.program("bench_cuda", f"echo kernels >>{runs}\necho '{measured('pages_from_host', 0.95)}'")
    place.program("test_cuda_device_on_gpu", f"echo device >>{runs}\nexit 1")
    place.add(place.path / "python3", '#!/bin/sh\ncase "$1" in *torch*) exit 77 ;; esac\n'
                                      f'exec {sys.executable} "$@"\n')
    place.run()
    assert runs.read_text() == "device\nkernels\n"
    result, report = place.run("--continue")
    assert runs.read_text() == "device\nkernels\ndevice\n"
    assert steps_of(report)["kernels"] == "passed" and result.returncode == 1
    assert [goal["result"] for goal in report["goals"] if goal["id"] == "pages_from_host"] == ["pass"]

    place.program("test_cuda_device_on_gpu", f"echo other >>{runs}\nexit 0")
    result, report = place.run("--continue")
    assert runs.read_text() == "device\nkernels\ndevice\nother\nkernels\n"
    assert "not continued" in result.stderr, result.stderr
    place.run()
    assert runs.read_text().endswith("other\nkernels\nother\nkernels\n")


def check_parts(directory):
    """Only the parts that were asked for are run, and three files are left to carry."""
    place = Place(directory)
    place.add(place.path / "python3", '#!/bin/sh\ncase "$1" in *torch*) exit 77 ;; esac\n'
                                      f'exec {sys.executable} "$@"\n')
    place.program("bench_cuda", f"echo '{measured('pages_from_host', 0.95)}'")
    carry = directory / "carry"
    _, report = place.run("--only", "tests,kernels", "--carry", carry)
    assert set(steps_of(report)) == {"tests-test_cuda_kernels_on_gpu", "tests-test_cuda_device_on_gpu", "kernels",
                                     "torch", "torch-attention"}, report["steps"]
    assert sorted(file.name for file in carry.iterdir()) == ["gpu-check-logs.tar.xz", "gpu-check.json",
                                                             "gpu-check.md"]
    with tarfile.open(carry / "gpu-check-logs.tar.xz") as logs:
        assert {"./steps.jsonl", "./measurements-kernels.jsonl", "./torch.log"} <= set(logs.getnames())
    result, _ = place.run("--only", "kernel")
    assert result.returncode == 2 and "got kernel" in result.stderr, result
    result, _ = place.run("--only", ",")
    assert result.returncode == 2 and "got none" in result.stderr, result
    _, report = place.run("--only", "kernels sanitizers")
    assert {"kernels", "sanitizer-memcheck"} <= set(steps_of(report)) and "tests-test_cuda_kernels_on_gpu" not in \
        steps_of(report), report["steps"]


def check_limits(directory):
    """Only a part that is alone has the time of all."""
    place = Place(directory)
    place.add(place.path / "timeout", f'#!/bin/bash\necho "$2 $*" >>{directory}/limits\nexit 0\n')
    limits = directory / "limits"
    place.run("--only", "tests", "--seconds", "5000")
    assert {line.split()[0] for line in limits.read_text().splitlines()} == {"280"}, limits.read_text()
    limits.unlink()
    place.run("--only", "tests,sanitizers", "--seconds", "5000")
    assert {line.split()[0] for line in limits.read_text().splitlines()} == {"60", "50"}, limits.read_text()


def check_parts_one_by_one(directory):
    """Each call has what those before it found, good or bad, and carries it; without --continue files stay beside."""
    place = Place(directory)
    place.add(place.path / "python3", '#!/bin/sh\ncase "$1" in *torch*) exit 77 ;; esac\n'
                                      f'exec {sys.executable} "$@"\n')
    place.program("bench_cuda", f"echo '{measured('pages_from_host', 0.95)}'")
    place.program("test_cuda_device_on_gpu", "exit 1")
    place.program("bench_cuda_network", f"echo '{measured('decode_llama_8b_1', 0.9)}'\nexit 1")
    (place.build / "libtroupe_cuda.so").touch()
    carry = directory / "carry"
    for part in ("tests", "network", "kernels"):
        result, report = place.run("--continue", "--only", part, "--carry", carry)
        assert result.returncode == 1, (part, result.stderr)
    steps = steps_of(report)
    assert steps["tests-test_cuda_device_on_gpu"] == steps["network-llama_8b"] == "failed", steps
    assert steps["tests-test_cuda_kernels_on_gpu"] == steps["kernels"] == "passed" and len(steps) == 7, steps
    found = {line["id"] for line in report["measurements"]}
    assert found == {"pages_from_host", "decode_llama_8b_1"}, found
    assert steps_of(json.loads((carry / "gpu-check.json").read_text())) == steps
    # A wanted part that failed is run again, others are not.
    place.run("--continue", "--only", "tests")
    assert len((place.out / "steps.jsonl").read_text().splitlines()) == 7
    # A run of its own takes nobody's place.
    place.run("--only", "tests", "--carry", carry)
    assert steps_of(json.loads((carry / "gpu-check.json").read_text())) == steps
    assert len(steps_of(json.loads((directory / "carry-2/gpu-check.json").read_text()))) == 2


def check_early_end(directory):
    """A run that ends before its parts is carried too, and loses nothing of the one that it would have continued."""
    place = Place(directory)
    bench = (place.build / "bench_cuda").read_text()
    carry = directory / "carry"
    place.run("--only", "tests")
    (place.build / "bench_cuda").unlink()
    result, _ = place.run("--continue", "--carry", carry)
    assert result.returncode == 1, result
    assert steps_of(json.loads((carry / "gpu-check.json").read_text())) == {"bench_cuda": "failed"}
    place.add(place.build / "bench_cuda", bench)
    _, report = place.run("--continue", "--only", "sanitizers")
    assert steps_of(report)["tests-test_cuda_kernels_on_gpu"] == "passed" and len(report["steps"]) == 5, report["steps"]


def check_joined(directory):
    """Calls on several machines make one report: of each step the last that ran, with its own measurements."""
    place = Place(directory)
    place.add(place.path / "compute-sanitizer", "#!/bin/sh\n")
    place.add(place.path / "python3", '#!/bin/sh\ncase "$1" in *torch*|*transformers*) exit 0 ;; esac\n'
                                      f'exec {sys.executable} "$@"\n')
    carried = [directory / f"call-{number}" for number in range(4)]

    def bench(value, status=0):
        place.program("bench_cuda", f"echo '{measured('pages_from_host', value)}'\nexit {status}")

    place.run("--only", "tests", "--carry", carried[0], FALSE_GPU="0")
    bench(0.5)
    place.run("--only", "kernels", "--carry", carried[1], FALSE_GPU="1")
    bench(0.95)
    place.run("--only", "kernels", "--carry", carried[2], FALSE_GPU="1")
    place.program("bench_cuda", "exec sleep 60")  # hangs: neither better nor worse than what ran
    place.run("--only", "kernels", "--carry", carried[3], "--seconds", "8", FALSE_GPU="2")
    result, report = place.run("--join", *carried)
    assert result.returncode == 3, result.stderr
    assert steps_of(report) == {"tests-test_cuda_kernels_on_gpu": "passed", "tests-test_cuda_device_on_gpu": "passed",
                                "kernels": "passed", "torch": "passed", "torch-attention": "passed"}, report["steps"]
    assert [line["value"] for line in report["measurements"]] == [0.95], report["measurements"]
    results = {goal["id"]: goal["result"] for goal in report["goals"]}
    assert results["pages_from_host"] == "pass" and results["pages_to_host"] == "not run", results
    assert "joined from 4 runs on 3 GPUs" in (place.out / "gpu-check.md").read_text()

    other = json.loads((carried[1] / "gpu-check.json").read_text())
    other["environment"]["gpu"] = "Other GPU"
    (carried[1] / "gpu-check.json").write_text(json.dumps(other))
    result, _ = place.run("--join", *carried)
    assert result.returncode == 2 and "of one gpu" in result.stderr, result
    result, _ = place.run("--join", directory)
    assert result.returncode == 2 and "holds no report" in result.stderr, result
    result, _ = place.run("--join")
    assert result.returncode == 2 and "got none" in result.stderr, result


def check_help(directory):
    """The commands that --help shows name options and parts that there are, and files that are made."""
    text = subprocess.run([ROOT / "scripts/gpu-check", "--help"], capture_output=True, text=True).stdout
    script = (ROOT / "scripts/gpu-check").read_text()
    options = set(re.findall(r"--[a-z-]+", "\n".join(re.findall(r"^ *(?:\[?--|scripts/gpu-check).*", text, re.M))))
    assert {"--join", "--carry", "--only", "--build-only", "--continue"} <= options, options
    for option in options:
        assert f"    {option}) " in script, option
    assert "set -uo" not in text and text.endswith("77 no GPU here.\n"), text[-200:]


def check_carried(directory):
    """Of programs that were built elsewhere, the report has their commit, and their libraries are found."""
    place = Place(directory)
    (place.build / "built.json").write_text(json.dumps({"date": "yesterday", "commit": "0123456789ab",
                                                        "has_changes": False, "toolkit": "13.0"}))
    (place.build / "lib").mkdir()
    place.program("bench_cuda", f"echo $LD_LIBRARY_PATH >{directory}/path")
    place.add(place.path / "ldd", "#!/bin/sh\necho '  libcublasLt.so.99 => not found'\n")
    toolkit = directory / "toolkit/lib64"
    toolkit.mkdir(parents=True)
    (toolkit / "libcublasLt.so.99").touch()
    _, report = place.run("--seconds", "60", CUDA_HOME=str(toolkit.parent))
    assert report["environment"]["commit"] == "0123456789ab" and report["environment"]["built"] == "yesterday"
    assert (directory / "path").read_text().startswith(f"{toolkit}:{place.build / 'lib'}:")


def check_missing_programs(directory):
    place = Place(directory)
    (place.build / "bench_cuda").unlink()
    result, report = place.run()
    assert result.returncode == 1 and steps_of(report) == {"bench_cuda": "failed"}, result
    result, _ = place.run("--what")
    assert result.returncode == 2 and "--no-build" in result.stderr, result


def main():
    for check in (check_without_gpu, check_everything_met, check_failures, check_continued, check_parts, check_limits,
                  check_parts_one_by_one, check_early_end, check_joined, check_help,
                  check_carried, check_missing_programs):
        with tempfile.TemporaryDirectory() as name:
            check(pathlib.Path(name))


if __name__ == "__main__":
    main()
