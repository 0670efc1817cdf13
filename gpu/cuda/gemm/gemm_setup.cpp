// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/gemm_setup.hpp"

#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/cuda/gemm/cublas_gemms.hpp"
#include "gpu/cuda/gemm/gemm_autotune.hpp"
#include "gpu/cuda/gemm/gemm_candidates.hpp"
#include "gpu/cuda/gemm/gemm_choices.hpp"
#include "gpu/cuda/gemm/gemm_timer.hpp"
#include "gpu/cuda/kernels/gemm/few_token_input.hpp"
#include "gpu/cuda/lowering.hpp"
#include "gpu/cuda/runtime/cuda_check.hpp"
#include "gpu/cuda/runtime/stream.hpp"

namespace troupe::cuda {
namespace {

// Products of one shape but for their rows.
struct AlikeGemms {
  std::vector<const DeviceWeight*> weights;  // that they read
  std::uint32_t max_rows = 0;                // logits have as many as a batch has output rows, others tokens
};
using GemmsOfNetwork = std::map<GemmShape, AlikeGemms>;

// Of a cell's program for many tokens, which has them all; tokens are 1 here.
void add_products(const CudaModelPlan& plan, const DeviceWeights& weights, CellId cell,
                  GemmsOfNetwork& gemms) {
  const Program program = plan.network->build_program(cell, plan.largest, plan.compute_type);
  const LoweredProgram lowered = lower(program, plan.compute_type, false);
  for (const Step& step : lowered.steps) {
    const auto* gemm = std::get_if<GemmStep>(&step.kind);
    if (gemm == nullptr) continue;
    const DeviceWeight& weight = weights.find(lowered.tensors[step.inputs.at(1)].name);
    const TensorSpec& result = lowered.tensors[step.outputs.at(0)];
    const GemmShape shape{.num_tokens = 1,
                          .num_outputs = weight.rows,
                          .depth = weight.columns,
                          .type = weight.type,
                          .c_type = result.type,
                          .has_bias = step.inputs.size() > 2,
                          .adds = gemm->adds,
                          .is_exact = gemm->is_exact};
    AlikeGemms& alike = gemms[shape];
    alike.weights.push_back(&weight);
    alike.max_rows =
        std::max(alike.max_rows, result.rows == RowCount::kOutputRows ? plan.largest.max_output_rows
                                                                      : plan.largest.max_tokens);
  }
}

GemmsOfNetwork products_of(const CudaModelPlan& plan, const DeviceWeights& weights) {
  GemmsOfNetwork gemms;
  for (CellId cell = 0; cell < plan.network->cells().size(); ++cell) add_products(plan, weights, cell, gemms);
  return gemms;
}

// Everything that runs of products of any shape need.
class GemmRuns {
 public:
  explicit GemmRuns(const GemmsOfNetwork& gemms)
      : gemms_(gemms),
        workspace_(kGemmWorkspaceBytes),
        few_token_workspace_(kFewTokenWorkspaceBytes),
        cublas_(workspace_.get(), kGemmWorkspaceBytes) {
    std::size_t scratch_bytes = 0;
    for (const auto& [of_one_token, alike] : gemms) {
      GemmShape shape = of_one_token;
      shape.num_tokens = gemm_bin(alike.max_rows);
      scratch_bytes = std::max(scratch_bytes, gemm_scratch_bytes(shape));
    }
    scratch_ = DeviceMemory(scratch_bytes);
    // Ordinary numbers: 0.0115 in f32, in bf16 and, about, in f16.
    CUDA_CHECK(cudaMemset(scratch_.get(), 0x3C, scratch_.size_bytes()));
    CUDA_CHECK(cudaMemset(few_token_workspace_.get(), 0, few_token_workspace_.size_bytes()));
    CUDA_CHECK(cudaDeviceSynchronize());
  }

  std::vector<GemmCandidate> candidates(const GemmShape& shape) {
    std::vector<const void*> weights;
    for (const DeviceWeight* weight : weights_of(shape)) weights.push_back(weight->data);
    return gemm_candidates(cublas_, shape,
                           {.memory = scratch_.get(),
                            .size_bytes = scratch_.size_bytes(),
                            .few_token_workspace = few_token_workspace_.get()},
                           std::move(weights), stream_.handle());
  }

  StreamHandle stream() const { return stream_.handle(); }

 private:
  const std::vector<const DeviceWeight*>& weights_of(GemmShape shape) const {
    shape.num_tokens = 1;
    return gemms_.at(shape).weights;
  }

  const GemmsOfNetwork& gemms_;
  Stream stream_;
  DeviceMemory workspace_, few_token_workspace_, scratch_;
  CublasGemms cublas_;
};

// Every bin of every product. What matters is the time it takes in all layers:
// decode steps come all the time, the largest prefills take longest.
std::vector<GemmTask> tasks_of(const GemmsOfNetwork& gemms) {
  std::vector<GemmTask> tasks;
  for (const auto& [shape, alike] : gemms) {
    std::uint32_t bin = 0;
    for (std::uint32_t rows = 1; rows <= alike.max_rows; rows = bin + 1) {
      bin = gemm_bin(rows);
      GemmTask task{.shape = shape};
      task.shape.num_tokens = bin;
      const bool is_usual = bin >= alike.max_rows / 2 || bin <= kMostFewTokens;
      task.importance = static_cast<double>(alike.weights.size()) *
                        static_cast<double>(bytes_of(task.shape)) * (is_usual ? 4.0 : 1.0);
      tasks.push_back(task);
    }
  }
  return tasks;
}

class Directory {
 public:
  explicit Directory(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  ~Directory() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// Held while products are measured. Workers on GPUs of one kind then share what the first
// of them has measured, and none writes the file under another's hands. The end of a
// process releases it; one that hangs is not waited for. The directory's own lock is the server's.
class AutotuneLock {
 public:
  explicit AutotuneLock(const Directory& directory)
      : descriptor_(::openat(directory.descriptor(), "product-choices.lock",
                             O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)) {
    for (int i = 0; i < kMostNaps && descriptor_ >= 0; ++i) {
      if ((is_held_ = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0)) return;
      std::this_thread::sleep_for(kNap);
    }
  }
  ~AutotuneLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  AutotuneLock(const AutotuneLock&) = delete;
  AutotuneLock& operator=(const AutotuneLock&) = delete;
  // Or there can't be one: then writing tells why.
  bool may_write() const { return is_held_ || descriptor_ < 0; }

 private:
  static constexpr std::chrono::milliseconds kNap{20};
  static constexpr int kMostNaps = 500;  // 10 s; who waited longer measures for itself and writes nothing

  int descriptor_;  // -1: the file can't be made
  bool is_held_ = false;
};

// None where there is no directory, no file or nothing of this device.
GemmChoices choices_in(const Directory& directory, const GemmDevice& device, std::string& news) {
  if (directory.descriptor() < 0) return {};
  try {
    return read_gemm_choices(directory.descriptor(), device).value_or(GemmChoices{});
  } catch (const std::runtime_error& error) {
    news = error.what();
    return {};
  }
}

// Choices that differ from shipped ones, or that these lack: a newer file of theirs is then heeded.
GemmChoices measured_here(const GemmChoices& choices, const GemmChoices& shipped) {
  GemmChoices measured;
  for (const auto& [shape, choice] : choices)
    if (const auto found = shipped.find(shape); found == shipped.end() || found->second != choice)
      measured.emplace(shape, choice);
  return measured;
}

}  // namespace

bool can_use_own_kernel(const GemmShape& shape) {
  return !shape.adds && shape.activation == GemmActivation::kNone &&
         can_multiply_few_tokens({.a_stride = shape.depth,
                                  .weight_stride = shape.depth,
                                  .type = shape.type,
                                  .num_tokens = shape.num_tokens,
                                  .num_outputs = shape.num_outputs,
                                  .depth = shape.depth});
}

GemmChoices choose_gemms(const CudaModelPlan& plan, const DeviceWeights& weights, std::string& news) {
  const std::string& path = plan.settings.gemm_choices;
  const GemmDevice device = gemm_device(plan.gpu.ordinal, kGemmWorkspaceBytes);
  const GemmChoices shipped = choices_in(Directory(plan.settings.shipped_gemm_choices), device, news);
  if (path.empty()) return shipped;
  const Directory directory(path);
  if (directory.descriptor() < 0) {
    news = path + ": " + std::strerror(errno);
    return shipped;
  }
  const AutotuneLock lock(directory);
  GemmChoices choices = choices_in(directory, device, news);
  choices.insert(shipped.begin(), shipped.end());  // what was measured on this machine counts
  const auto gemms = products_of(plan, weights);
  GemmRuns runs(gemms);
  GemmTimer timer(runs.stream());
  const auto report =
      autotune_gemms(tasks_of(gemms),
                     {.candidates = [&](const GemmShape& shape) { return runs.candidates(shape); },
                      .clock = [&](const GemmRun& run) { return timer(run); },
                      .now = [] { return std::chrono::steady_clock::now(); },
                      .budget = kAutotuneTime},
                     choices);
  if (report.num_measured > 0 && lock.may_write()) {
    try {
      write_gemm_choices(directory.descriptor(), device, measured_here(choices, shipped));
    } catch (const std::runtime_error& error) {
      news = error.what();
    }
  }
  return choices;
}

}  // namespace troupe::cuda
