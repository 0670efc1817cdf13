// SPDX-License-Identifier: Apache-2.0
// The same GEMM through oneDNN, weights packed once. Meant for machines where
// oneDNN has a path we lack (AMX); its bf16 reduction order depends on the
// number of rows, so a row's bits depend on its batch. It is used only when a
// configuration gives up determinism, and never for one row, where ours is
// faster. Tested and measured on Zen 4 (AVX512_BF16) only; the AMX path is
// chosen by oneDNN itself and has not been run with this code.
//
// Threads: oneDNN was built with OpenMP. Each task runs one column slice inside
// the caller's thread with OpenMP set to one thread, so no other thread starts.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "gpu/cpu/kernels/matmul/packed_matrix.hpp"
#include "gpu/data_type.hpp"

namespace troupe {

class OnednnMatrix {
 public:
  // False: oneDNN has no product of that type for this processor, as of bf16 without AVX-512.
  static bool can_multiply(DataType type);

  // The type is one that can_multiply() has. As PackedMatrix; cut by columns of the output into num_slices
  // (at most one per 32 outputs), each packed on its own. Packs at once, in this thread.
  OnednnMatrix(const std::vector<MatrixSource>& sources, std::size_t num_inputs, DataType type,
               std::size_t num_slices);
  ~OnednnMatrix();
  OnednnMatrix(OnednnMatrix&&) noexcept;
  OnednnMatrix& operator=(OnednnMatrix&&) noexcept;

  std::size_t num_outputs() const;
  std::size_t num_inputs() const;
  std::size_t num_slices() const;
  DataType type() const;
  std::size_t size_bytes() const;

 private:
  friend struct OnednnMatmulRun;
  struct State;
  std::unique_ptr<State> state_;
};

struct OnednnMatmulArguments {
  const OnednnMatrix* weight = nullptr;  // [N, K]
  const void* a = nullptr;               // [num_rows, K], of the weight's type
  std::size_t a_stride = 0;              // elements from row to row
  const float* bias = nullptr;           // [N] or none
  float* c = nullptr;                    // [num_rows, N]
  std::size_t c_stride = 0;
  std::size_t num_rows = 0;
};

// One task a slice. May run on any threads at once, also several batches.
std::size_t onednn_matmul_num_tasks(const OnednnMatmulArguments& arguments);
void onednn_matmul_run_task(const OnednnMatmulArguments& arguments, std::size_t task);

}  // namespace troupe
