// SPDX-License-Identifier: Apache-2.0
// The backend that the CUDA library exports (gpu/backend.hpp).
#include <cuda_runtime.h>

#include <optional>
#include <stdexcept>
#include <utility>

#include "gpu/backend.hpp"
#include "gpu/backend_fingerprint.hpp"
#include "gpu/cuda/cuda_device.hpp"
#include "gpu/cuda/cuda_model.hpp"
#include "gpu/cuda/gemm/cublas_gemms.hpp"
#include "gpu/cuda/runtime/cuda_check.hpp"
#include "gpu/cuda/runtime/decode_graphs.hpp"

namespace troupe::cuda {
namespace {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const BackendSettings& settings) : cuda_plan_(plan_cuda_model(settings)) {
    const GpuProperties& gpu = cuda_plan_->gpu;
    const std::string type(name_of(cuda_plan_->compute_type));
    plan_ = {.memory = cuda_plan_->memory,
             .compute_type = cuda_plan_->compute_type,
             .context_length = cuda_plan_->context_length,
             .num_gpus = static_cast<std::uint32_t>(gpu.num_gpus),
             .max_in_flight = cuda_plan_->settings.max_in_flight,
             .device = to_string(gpu),
             .computation =
                 "cuda, " + type + ", " + gpu.name + ", cuBLASLt " + std::to_string(CublasGemms::version()),
             .summary = "cuda:" + std::to_string(gpu.ordinal) + ", " + gpu.name + ", " + type};
  }

  const BackendPlan& plan() const override { return plan_; }

  std::unique_ptr<Device> make_device(std::shared_ptr<HostPages> host_pages, std::uint32_t) override {
    CUDA_CHECK(cudaSetDevice(static_cast<int>(plan_ordinal())));
    if (!model_) {
      std::string news;  // a file of choices that can't be read costs a second's measuring
      model_ = std::make_shared<const CudaModel>(*cuda_plan_, news);
      cuda_plan_.reset();
    }
    return std::make_unique<CudaDevice>(model_, CudaDeviceOptions{.host_pages = std::move(host_pages)});
  }

 private:
  std::uint32_t plan_ordinal() const {
    return model_ ? model_->plan.settings.ordinal : cuda_plan_->settings.ordinal;
  }

  std::optional<CudaModelPlan> cuda_plan_;  // until the model is loaded
  BackendPlan plan_;
  std::shared_ptr<const CudaModel> model_;
};

}  // namespace
}  // namespace troupe::cuda

extern "C" std::uint64_t troupe_backend_fingerprint() { return troupe::kBackendFingerprint; }

extern "C" std::unique_ptr<troupe::Backend> troupe_make_cuda_backend(
    const troupe::BackendSettings& settings) {
  return std::make_unique<troupe::cuda::CudaBackend>(settings);
}
static_assert(std::is_same_v<decltype(&troupe_make_cuda_backend), troupe::MakeBackend>);

extern "C" std::uint64_t troupe_kernels_of_last_graph() { return troupe::cuda::kernels_of_last_graph(); }
