// SPDX-License-Identifier: Apache-2.0
#include "gpu/host/host_model.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include "gpu/host/arena.hpp"
#include "gpu/host/kernels/isa.hpp"
#include "gpu/host/thread_pool.hpp"
#include "gpu/model_shapes.hpp"

namespace troupe {
namespace {

// Settings with the blanks filled in.
HostModelSettings complete(HostModelSettings settings, const ModelConfig& config) {
  if (settings.num_threads == 0) {
    settings.num_threads = settings.cpus.empty() ? std::max(1U, std::thread::hardware_concurrency())
                                                 : static_cast<unsigned>(settings.cpus.size());
  }
  if (settings.context_length == 0 || settings.context_length > config.context_length) {
    settings.context_length = config.context_length;
  }
  if (settings.num_slots == 0 || settings.max_batch_tokens == 0) {
    throw std::runtime_error("num_slots and max_batch_tokens must be at least 1");
  }
  if (settings.memory_budget_bytes == 0) {
    settings.memory_budget_bytes = available_memory_bytes() / 4 * 3;
  }
  if (settings.max_pages == 0) {
    const std::uint64_t pages_a_sequence =
        (std::uint64_t{settings.context_length} + kKvPageTokens - 1) / kKvPageTokens;
    settings.max_pages = static_cast<std::uint32_t>(std::min<std::uint64_t>(
        2 * pages_a_sequence * settings.num_slots, std::numeric_limits<std::uint32_t>::max()));
  }
  return settings;
}

std::uint64_t read_number(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : 0;  // "max" and missing files count as no limit
}

}  // namespace

HostModelPlan plan_host_model(const std::filesystem::path& model_dir, const HostModelSettings& settings) {
  HostModelPlan plan;
  const ModelConfig config = load_model_config(model_dir);
  plan.network = make_network(config);
  plan.store = std::make_shared<const WeightStore>(model_dir);
  check_weights(*plan.store, *plan.network);
  plan.settings = complete(settings, config);
  const auto embedding = find_sources(*plan.store, plan.network->weights().front());
  plan.compute_type = choose_compute_type(settings, embedding.front().type);
  plan.largest = {plan.settings.max_batch_tokens,
                  std::min(plan.settings.num_slots, plan.settings.max_batch_tokens)};
  const Program largest = plan.network->build_program("decoder_step", plan.largest, plan.compute_type);
  plan.memory = plan_memory(
      {.weight_bytes =
           host_weight_bytes(*plan.store, *plan.network,
                             {.compute_type = plan.compute_type, .with_onednn = !settings.deterministic}),
       .table_bytes = std::uint64_t{plan.settings.context_length} * config.head_dim * sizeof(float),
       .arena_bytes = arena_bytes(largest),
       .page_bytes = kv_pool_bytes(kv_layout_of(config, plan.compute_type, 1)),
       .slot_bytes = sizeof(std::int32_t),
       .page_size = kKvPageTokens,
       .num_slots = plan.settings.num_slots,
       .context_length = plan.settings.context_length,
       .max_pages = plan.settings.max_pages,
       .budget_bytes = plan.settings.memory_budget_bytes});
  return plan;
}

std::shared_ptr<const HostModel> load_host_model(const HostModelPlan& plan) {
  ThreadPool threads({.num_threads = plan.settings.num_threads, .cpus = plan.settings.cpus});
  HostModel model{.network = plan.network,
                  .settings = plan.settings,
                  .compute_type = plan.compute_type,
                  .largest = plan.largest,
                  .memory = plan.memory,
                  .weights = nullptr,
                  .rotary = nullptr};
  model.weights = std::make_shared<const HostWeights>(
      *plan.store, *plan.network,
      HostWeightSettings{.compute_type = plan.compute_type, .with_onednn = !plan.settings.deterministic},
      threads);
  model.rotary = std::make_shared<const RotaryTable>(
      rotary_parameters(plan.network->config(), plan.settings.context_length));
  return std::make_shared<const HostModel>(std::move(model));
}

DataType choose_compute_type(const HostModelSettings& settings, DataType weight_type) {
  if (settings.compute_type) {
    if (*settings.compute_type != DataType::kF32 && *settings.compute_type != DataType::kBF16) {
      throw std::runtime_error("the host backend computes in f32 or bf16, not " +
                               std::string(name_of(*settings.compute_type)));
    }
    return *settings.compute_type;
  }
  const bool is_short = size_of(weight_type) == 2;
  return is_short && is_supported(Isa::kAvx512Bf16) ? DataType::kBF16 : DataType::kF32;
}

std::uint64_t available_memory_bytes() {
  std::uint64_t available = 0;
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kibibytes = 0;
  std::string unit;
  while (file >> name >> kibibytes) {
    std::getline(file, unit);
    if (name == "MemAvailable:") available = kibibytes * 1024;
  }
  const std::uint64_t limit = read_number("/sys/fs/cgroup/memory.max");
  const std::uint64_t used = read_number("/sys/fs/cgroup/memory.current");
  if (limit > 0) available = std::min(available, limit - std::min(limit, used));
  return available;
}

}  // namespace troupe
