// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/cpu_model.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include "gpu/control_groups.hpp"
#include "gpu/cpu/arena.hpp"
#include "gpu/cpu/kernels/attention/self_attention.hpp"
#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/cpu/loading_progress.hpp"
#include "gpu/cpu/pool_layout.hpp"
#include "gpu/cpu/program_runner.hpp"
#include "gpu/cpu/thread_pool.hpp"
#include "gpu/model/model_shapes.hpp"
#include "gpu/program/early_gather.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

bool has_pages(const Network& network) { return network.cells().front().state == StateKind::kPages; }
bool has_rows(const Network& network) { return network.cells().front().state == StateKind::kRows; }

// A slot is a row of state, of which a sequence may need several.
std::uint32_t num_slots(const CpuModelSettings& settings, const ModelShapes& shapes) {
  return settings.num_slots * std::max(shapes.rows_a_sequence, 1U);
}

// Settings with the blanks filled in.
CpuModelSettings complete(CpuModelSettings settings, const Network& network) {
  const std::uint32_t longest = network.shapes().context_length;
  if (settings.num_threads == 0) {
    settings.num_threads = settings.cpus.empty() ? std::max(1U, std::thread::hardware_concurrency())
                                                 : static_cast<unsigned>(settings.cpus.size());
  }
  if (settings.context_length == 0 || settings.context_length > longest) {
    settings.context_length = longest;
  }
  if (settings.num_slots == 0 || settings.max_batch_tokens == 0) {
    throw std::runtime_error("num_slots and max_batch_tokens must be at least 1");
  }
  // Nothing is kept between batches, so a sequence is in one as a whole.
  if (has_rows(network)) {
    settings.quantization = Quantization::kNone;
  } else if (!has_pages(network)) {
    settings.context_length = std::min(settings.context_length, settings.max_batch_tokens);
    settings.quantization = Quantization::kNone;
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

// What all devices have in common, and a share of the rest.
std::uint64_t budget_of_device(const CpuModelSettings& settings, std::uint64_t common_bytes) {
  const std::uint64_t budget = settings.memory_budget_bytes;
  if (budget <= common_bytes) return budget;
  return common_bytes + (budget - common_bytes) / std::max(settings.num_devices, 1U);
}

CpuWeightSettings weight_settings(const CpuModelPlan& plan) {
  return {.compute_type = plan.compute_type,
          .with_onednn = !plan.settings.deterministic && OnednnMatrix::can_multiply(plan.compute_type),
          .quantization = plan.settings.quantization};
}

std::shared_ptr<const CpuWeights> load_weights(const CpuModelPlan& plan, const KeptWeights& kept,
                                               ThreadPool& threads) {
  if (const auto mapped = kept.map(threads)) {
    try {
      return std::make_shared<const CpuWeights>(*plan.store, *plan.network, weight_settings(plan),
                                                mapped->weights, mapped->file);
    } catch (const std::exception& error) {
      kept.discard(error.what());
    }
  }
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto begin = now();
  LoadingProgress progress(num_weight_elements(*plan.network), begin);
  const auto report = [&](std::uint64_t num_elements) {
    const auto time = now();
    if (const auto percent = progress.add(num_elements, time))
      log(LogLevel::kInfo, "weights are being packed",
          {{"percent", *percent}, {"seconds", std::chrono::duration<double>(time - begin).count()}});
  };
  return std::make_shared<const CpuWeights>(*plan.store, *plan.network, weight_settings(plan), threads,
                                            PackingOptions{.report = report});
}

// In the pool that a device makes of it, whose pages fill up from the first on.
std::uint64_t resident_bytes(const KvLayout& asked) {
  const bool is_padded = in_whole_huge_pages(asked).num_pages != asked.num_pages;
  if (!is_padded) return kv_pool_bytes(asked);
  const std::uint64_t layer_bytes = asked.num_pages * kv_page_bytes(asked);
  return asked.num_layers * ((layer_bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes);
}

// Takes the KV pages out of the plan that fill each layer's last huge page in part, where the whole of it is
// beyond the budget, but leaves those of a sequence.
void fit_huge_pages(MemoryPlan& plan, KvLayout layout) {
  layout.num_pages = plan.num_pages;
  const std::uint64_t others = plan.total_bytes - plan.kv_bytes;
  if (others + resident_bytes(layout) <= plan.request.budget_bytes) return;
  const std::uint64_t page_bytes = kv_page_bytes(layout);
  const std::uint64_t whole = layout.num_pages * page_bytes / kHugePageBytes * kHugePageBytes / page_bytes;
  const std::uint64_t of_sequence =
      (std::uint64_t{plan.request.context_length} + kKvPageTokens - 1) / kKvPageTokens;
  plan.num_pages =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(plan.num_pages, std::max(whole, of_sequence)));
  plan.kv_bytes = plan.num_pages * plan.request.page_bytes;
  plan.total_bytes = others + plan.kv_bytes;
}

}  // namespace

CpuModelPlan plan_cpu_model(const std::filesystem::path& model_dir, const CpuModelSettings& settings) {
  CpuModelPlan plan;
  plan.network = load_network(model_dir);
  const ModelShapes shapes = plan.network->shapes();
  plan.store = std::make_shared<const WeightStore>(model_dir);
  check_weights(*plan.store, *plan.network);
  const bool pages = has_pages(*plan.network);
  plan.settings = complete(settings, *plan.network);
  const CellType cell = plan.network->cells().front();
  plan.compute_type = choose_compute_type(settings, natural_type_of(*plan.store, *plan.network), cell);
  plan.largest = {plan.settings.max_batch_tokens,
                  std::min(num_slots(plan.settings, shapes), plan.settings.max_batch_tokens)};
  const auto largest = gathered_early(build_programs(*plan.network, plan.largest, plan.compute_type));
  const auto formats = cpu_block_formats(*plan.store, *plan.network, weight_settings(plan));
  plan.weight_formats = in_words(formats, plan.settings.quantization);
  if (std::none_of(formats.begin(), formats.end(),
                   [&](BlockFormat format) { return rounds_rows(plan.settings.activations, format); }))
    plan.settings.activations = Activations::kComputed;
  const std::uint64_t weight_bytes = cpu_weight_bytes(*plan.store, *plan.network, weight_settings(plan));
  const std::uint64_t table_bytes = pages ? rotary_table_bytes(shapes, plan.settings.context_length) : 0;
  plan.memory = plan_memory(
      {.weight_bytes = weight_bytes,
       .table_bytes = table_bytes,
       .arena_bytes = arena_bytes(largest),
       .workspace_bytes = rounded_rows_bytes(largest, plan.settings.activations) +
                          (attends_to_wholes(cell) ? plan.settings.num_threads *
                                                         self_attention_scratch_bytes(
                                                             plan.settings.context_length, shapes.head_dim)
                                                   : 0),
       .page_bytes =
           pages ? kv_pool_bytes(kv_layout_of(shapes, plan.compute_type, 1, plan.settings.kv_type)) : 0,
       .slot_bytes = cell.state == StateKind::kNone
                         ? 0
                         : sizeof(std::int32_t) + std::uint64_t{shapes.row_width} * sizeof(float),
       .page_size = kKvPageTokens,
       .num_slots = num_slots(plan.settings, shapes),
       .context_length = plan.settings.context_length,
       .max_pages = plan.settings.max_pages,
       .budget_bytes = budget_of_device(plan.settings, weight_bytes + table_bytes)});
  if (pages) fit_huge_pages(plan.memory, kv_layout_of(shapes, plan.compute_type, 1, plan.settings.kv_type));
  return plan;
}

std::shared_ptr<const CpuModel> load_cpu_model(const CpuModelPlan& plan) {
  ThreadPool threads({.num_threads = plan.settings.num_threads, .cpus = plan.settings.cpus});
  CpuModel model{.network = plan.network,
                 .settings = plan.settings,
                 .compute_type = plan.compute_type,
                 .largest = plan.largest,
                 .memory = plan.memory,
                 .weights = nullptr,
                 .writer = nullptr,
                 .rotary = {}};
  const KeptWeights kept(plan.settings.kept_weights, *plan.store, *plan.network, weight_settings(plan));
  model.weights = load_weights(plan, kept, threads);
  if (kept.is_wanted() && !model.weights->is_packed_before())
    model.writer = std::make_shared<const WeightsWriter>(kept, model.weights);
  if (has_pages(*plan.network)) {
    model.rotary = rotary_tables(plan.network->shapes(), plan.settings.context_length);
  }
  return std::make_shared<const CpuModel>(std::move(model));
}

DataType natural_type_of(const WeightStore& store, const Network& network) {
  const std::vector<WeightSpec> specs = network.weights();
  const DataType type = find_sources(store, specs.front()).front().natural_type();
  if (type != DataType::kF16) return type;
  for (const auto& spec : specs)
    for (const auto& view : find_sources(store, spec))
      if (view.blocks || view.packed) return view.natural_type();
  return type;
}

DataType choose_compute_type(const CpuModelSettings& settings, DataType weight_type, const CellType& cell) {
  if (settings.compute_type) {
    if (*settings.compute_type != DataType::kF32 && *settings.compute_type != DataType::kBF16) {
      throw std::runtime_error("the CPU backend computes in f32 or bf16, not " +
                               std::string(name_of(*settings.compute_type)));
    }
    return *settings.compute_type;
  }
  if (cell.result == ResultKind::kVector) return DataType::kF32;  // digits that users compare
  if (cell.state == StateKind::kRows) return DataType::kF32;      // rounding would add up from node to node
  // f16 has 11 significant bits, of which bf16 would keep 8.
  const bool fits_bf16 = weight_type == DataType::kBF16;
  return fits_bf16 && is_supported(Isa::kAvx512Bf16) ? DataType::kBF16 : DataType::kF32;
}

std::uint64_t available_memory_bytes(const std::filesystem::path& root) {
  std::uint64_t available = 0;
  std::ifstream file(root / "proc/meminfo");
  std::string name;
  std::uint64_t kibibytes = 0;
  std::string unit;
  while (file >> name >> kibibytes) {
    std::getline(file, unit);
    if (name == "MemAvailable:") available = kibibytes * 1024;
  }
  return std::min(available, memory_granted(root).left_bytes);
}

}  // namespace troupe
