// SPDX-License-Identifier: Apache-2.0
// The benchmarks of the CUDA worker's parts. Limits of the device come first;
// everything else is told as a share of them. Each function records what it
// measures; one that throws is recorded as not run, and the next goes on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/kernels/cuda/device.hpp"
#include "bench/kernels/cuda/measurement.hpp"

namespace troupe::bench {

// Limits of this device, measured in this run. 0: not measured.
struct Limits {
  // bytes/s of its own memory, read only; no less than copying, which would mean
  // that the reading kernel is a bad one.
  double read_rate = 0.0;
  double copy_rate = 0.0;       // the same, bytes read and written
  double product_rate = 0.0;    // operations/s, bf16, cuBLASLt, 8192 x 8192 x 8192
  double to_device_rate = 0.0;  // bytes/s, pinned blocks of 2 MB
  double to_host_rate = 0.0;
};

struct Bench {
  // Tiny shapes show that everything runs (in the interpreter); their numbers mean
  // nothing.
  bool is_tiny = false;
  Recorder& recorder;
  Stopwatch& stopwatch;
  Limits limits = {};

  template <typename T>
  T pick(T full, T tiny) const {
    return is_tiny ? tiny : full;
  }
};

// "64 x 256".
std::string times(std::size_t left, std::size_t right);

struct Part {
  std::string name;  // "attention"
  std::function<void(Bench&)> run;
};
// In order; the first is "limits", which the others need.
std::vector<Part> all_parts();

void measure_limits(Bench& bench);
void bench_attention(Bench& bench);
void bench_gemms(Bench& bench);
void bench_fused_gemms(Bench& bench);
void bench_rows(Bench& bench);
void bench_sampling(Bench& bench);
void bench_recurrent(Bench& bench);
void bench_convolutions(Bench& bench);
void bench_completion(Bench& bench);
void bench_page_copies(Bench& bench);

struct SuiteOptions {
  bool is_tiny = false;
  std::vector<std::string> parts = {};  // empty: all; limits are always measured
};

// Records the device, then all parts. False if some part threw. Throws
// std::invalid_argument for a part that there is not.
bool run_suite(const SuiteOptions& options, std::ostream& lines);

}  // namespace troupe::bench
