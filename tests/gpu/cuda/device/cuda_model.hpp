// SPDX-License-Identifier: Apache-2.0
// Models of random weights for tests of the CUDA device, and the same on the host.
#pragma once

#include <cuda_runtime.h>  // the twin defines TROUPE_SIMT

#include <memory>
#include <optional>

#include "gpu/cpu/cpu_model.hpp"
#include "gpu/cuda/cuda_device.hpp"
#include "gpu/model/random_model.hpp"
#include "gpu/program/program_cache.hpp"
#include "tests/support/temporary_directory.hpp"
#ifdef TROUPE_SIMT
#include "tests/simt/runtime/runtime.hpp"
#endif

namespace troupe {

#ifdef TROUPE_SIMT
using GpuRuntime = simt::Runtime;
inline void set_stream_order(std::uint64_t seed) { simt::set_order(seed); }
#else
struct [[maybe_unused]] GpuRuntime {};
inline void set_stream_order(std::uint64_t) {}  // a GPU's is its own
#endif

// Large enough for tiles of 64 rows and for products of few tokens.
inline ModelConfig small_llama() {
  ModelConfig config = llama_100m();
  config.hidden_size = 128;
  config.intermediate_size = 160;
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 64;
  config.vocabulary_size = 100;
  config.context_length = 256;
  return config;
}

inline BackendSettings small_settings(DataType type) {
  BackendSettings settings;
  settings.compute_type = type;
  settings.num_slots = 8;
  settings.max_batch_tokens = 96;
  settings.max_pages = 64;
  return settings;
}

// Memory of the device goes before the runtime.
class SmallCudaModel {
 public:
  explicit SmallCudaModel(const BackendSettings& settings, const ModelConfig& config = small_llama())
      : settings_(settings) {
    write_random_llama(directory_.path(), config, 1);
    settings_.model_dir = directory_.path();
    model_ = with_partials(std::nullopt);
  }

  // The same model with memory for another number of partial rows than was planned.
  std::shared_ptr<const cuda::CudaModel> with_partials(std::optional<std::uint32_t> max_partials) {
    cuda::CudaModelPlan plan = cuda::plan_cuda_model(settings_);
    plan.attention.max_partials = max_partials.value_or(plan.attention.max_partials);
    return std::make_shared<const cuda::CudaModel>(plan, news_);
  }
  // The same model with other pinned memory for what describes a batch.
  std::shared_ptr<const cuda::CudaModel> with_pinned_input(std::size_t size_bytes) {
    cuda::CudaModelPlan plan = cuda::plan_cuda_model(settings_);
    plan.pinned_input_bytes = size_bytes;
    return std::make_shared<const cuda::CudaModel>(plan, news_);
  }

  const std::shared_ptr<const cuda::CudaModel>& get() const { return model_; }
  const std::string& news() const { return news_; }
  ProgramCache programs() const {
    return {model_->plan.network, model_->plan.compute_type, model_->plan.largest};
  }
  std::shared_ptr<HostPages> make_host_pages(std::uint32_t num_pages) const {
    return std::make_shared<HostPages>(num_pages, model_->plan.memory.request.page_bytes);
  }
  // Packed anew each time.
  std::shared_ptr<const CpuModel> on_cpu(DataType type) const {
    return load_cpu_model(plan_cpu_model(directory_.path(), {.compute_type = type,
                                                             .num_threads = 2,
                                                             .num_slots = settings_.num_slots,
                                                             .max_batch_tokens = settings_.max_batch_tokens,
                                                             .max_pages = settings_.max_pages}));
  }

 private:
  GpuRuntime runtime_;
  TemporaryDirectory directory_;
  BackendSettings settings_;
  std::string news_;
  std::shared_ptr<const cuda::CudaModel> model_;
};

}  // namespace troupe
