// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/cpu_backend.hpp"

#include <mutex>
#include <optional>
#include <utility>

#include "gpu/cpu/cpu_cores.hpp"
#include "gpu/cpu/cpu_device.hpp"
#include "gpu/cpu/kernels/isa.hpp"

namespace troupe {
namespace {

BackendPlan backend_plan(const CpuModelPlan& cpu) {
  std::string type(name_of(cpu.compute_type));
  if (!cpu.weight_formats.empty()) type += ", weights in " + cpu.weight_formats;
  const std::string_view activations = in_words(cpu.settings.activations);
  if (!activations.empty()) type += ", " + std::string(activations);
  if (cpu.settings.kv_type == KvType::kQ8) type += ", KV in q8";
  const std::string threads = std::to_string(cpu.settings.num_threads) + " threads";
  const std::string isa(name_of(best_isa()));
  return {
      .memory = cpu.memory,
      .compute_type = cpu.compute_type,
      .context_length = cpu.settings.context_length,
      .device = "cpu (" + threads + ", " + isa + ")",
      .computation = "cpu, " + type + ", " + isa + (cpu.settings.deterministic ? "" : ", not deterministic"),
      .summary = "cpu, " + type + ", " + threads};
}

CpuModelSettings with_cores(const BackendSettings& settings, const CpuCores* cores) {
  CpuModelSettings cpu = cpu_model_settings(settings);
  if (cores != nullptr) {
    cpu.num_threads = cores->num_threads();
    cpu.cpus.clear();
  }
  return cpu;
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(const BackendSettings& settings, std::shared_ptr<CpuCores> cores)
      : model_plan_(plan_cpu_model(settings.model_dir, with_cores(settings, cores.get()))),
        plan_(backend_plan(*model_plan_)),
        link_(settings.link),
        cores_(std::move(cores)) {}

  const BackendPlan& plan() const override { return plan_; }

  std::unique_ptr<Device> make_device(std::shared_ptr<HostPages> host_pages, std::uint32_t worker) override {
    auto model = loaded_model();
    return std::make_unique<CpuDevice>(
        std::move(model),
        CpuDeviceOptions{.cores = cores_ ? cores_->pool(worker % cores_->num_pools()) : nullptr,
                         .host_pages = std::move(host_pages),
                         .link = link_});
  }

 private:
  std::shared_ptr<const CpuModel> loaded_model() {
    const std::lock_guard lock(mutex_);
    if (!model_) model_ = load_cpu_model(*model_plan_);
    model_plan_.reset();  // the weights are packed, their files are not needed any more
    return model_;
  }

  std::mutex mutex_;  // guards model_plan_ and model_
  std::optional<CpuModelPlan> model_plan_;
  BackendPlan plan_;
  LinkSettings link_;
  std::shared_ptr<const CpuModel> model_;
  std::shared_ptr<CpuCores> cores_;  // null: each device has its own
};

}  // namespace

CpuModelSettings cpu_model_settings(const BackendSettings& settings) {
  CpuModelSettings cpu;
  cpu.compute_type = settings.compute_type;
  cpu.deterministic = settings.deterministic;
  cpu.quantization = settings.quantization;
  cpu.kv_type = settings.kv_type;
  cpu.activations = settings.activations;
  cpu.num_threads = settings.num_threads;
  cpu.num_devices = settings.num_devices;
  cpu.cpus = settings.cpus;
  cpu.memory_budget_bytes = settings.memory_budget_bytes;
  cpu.num_slots = settings.num_slots;
  cpu.max_batch_tokens = settings.max_batch_tokens;
  cpu.max_pages = settings.max_pages;
  cpu.kept_weights = {.path = settings.kept_weights, .max_bytes = settings.kept_weights_bytes};
  return cpu;
}

std::unique_ptr<Backend> make_cpu_backend(const BackendSettings& settings, std::shared_ptr<CpuCores> cores) {
  return std::make_unique<CpuBackend>(settings, std::move(cores));
}

}  // namespace troupe
