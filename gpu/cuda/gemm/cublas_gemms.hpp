// SPDX-License-Identifier: Apache-2.0
// Matrix products (GEMMs) through cuBLASLt: descriptors are made once a shape, the
// algorithm is the chosen one (gemm_autotune.hpp) or else the first that the
// library's heuristics name. Running one allocates nothing on the device and
// never waits, so it can be captured into a graph; run each shape once before,
// as CUDA loads a kernel when it is first used and a capture may not like that.
//
// Sums are in f32, in one part or in parts that are added in f32: what a product
// gives differs from run to run only if the algorithm does.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/cuda/gemm/gemm_shape.hpp"
#include "gpu/cuda/runtime/stream_handle.hpp"

namespace troupe::cuda {

// NVIDIA's advice for Hopper; part of the memory plan.
inline constexpr std::size_t kGemmWorkspaceBytes = std::size_t{32} << 20;

struct CublasError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One a device, whose context is current; one thread. All products that use one
// workspace must be on one stream, or on graphs that run on it.
class CublasGemms {
 public:
  // The workspace is the caller's: device memory at a multiple of 256 bytes
  // that outlives this and the graphs. Throws CublasError.
  CublasGemms(void* workspace, std::size_t workspace_bytes);
  ~CublasGemms();
  CublasGemms(const CublasGemms&) = delete;
  CublasGemms& operator=(const CublasGemms&) = delete;

  // Version of the library, for the file of choices: 130100 is 13.1.0.
  static std::size_t version();

  // Ways to compute all of a bin, the heuristics' best first, not measured. None
  // if the library cannot. Any token count of the bin may be given.
  std::vector<GemmChoice> candidates(const GemmShape& shape, std::size_t most);

  // From now on the shape's bin is computed so. False, and nothing has changed,
  // if it is no choice of cuBLASLt or the library refuses it. A shape that has no
  // meaning is refused as well.
  [[nodiscard]] bool use(const GemmShape& shape, const GemmChoice& choice);

  // Throws CublasError; std::invalid_argument for a shape that has no meaning or
  // pointers that do not fit. No tokens or no outputs: nothing happens.
  void run(const GemmShape& shape, const GemmPointers& pointers, StreamHandle stream);

  // The same with a candidate, to measure it.
  void run_with(const GemmChoice& choice, const GemmShape& shape, const GemmPointers& pointers,
                StreamHandle stream);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe::cuda
