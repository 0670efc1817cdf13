// SPDX-License-Identifier: Apache-2.0
// The GEMM autotuner's clock: times anything that starts work on a stream, as it will run: captured into a
// graph, so that what starting it costs the host does not count.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "gpu/cuda/gemm/gemm_autotune.hpp"
#include "gpu/cuda/runtime/stream_handle.hpp"

namespace troupe::cuda {

// One thread; the stream is idle meanwhile.
class GemmTimer {
 public:
  explicit GemmTimer(StreamHandle stream);  // not the default stream, which cannot be captured
  ~GemmTimer();
  GemmTimer(const GemmTimer&) = delete;
  GemmTimer& operator=(const GemmTimer&) = delete;

  // Microseconds of one run: the least of a few trains of runs, each between two
  // events. nullopt if `run` throws CublasError or std::invalid_argument. Throws
  // CudaError.
  std::optional<double> operator()(const GemmRun& run);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe::cuda
