// SPDX-License-Identifier: Apache-2.0
#include "app/model_loading.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "app/backend_choice.hpp"
#include "gpu/host/kernels/kv_pages.hpp"
#include "gpu/networks/network.hpp"
#include "gpu/noop/noop_device.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

// Said before the first large allocation.
void log_memory_plan(const BackendPlan& of_backend) {
  const MemoryPlan& plan = of_backend.memory;
  const MemoryRequest& request = plan.request;
  log(LogLevel::kInfo, "memory plan",
      {{"device", of_backend.device},
       {"weights", shown_bytes(request.weight_bytes)},
       {"tables", shown_bytes(request.table_bytes)},
       {"temporaries", shown_bytes(request.arena_bytes)},
       {"workspaces", shown_bytes(request.workspace_bytes)},
       {"graphs", shown_bytes(request.graph_bytes)},
       {"kv_pages", plan.num_pages},
       {"kv_tokens", std::uint64_t{plan.num_pages} * request.page_size},
       {"kv", shown_bytes(plan.kv_bytes)},
       {"total", shown_bytes(plan.total_bytes)},
       {"budget", shown_bytes(request.budget_bytes)}});
}

// Null: no host tier. Its memory is taken page by page when it is used.
std::shared_ptr<HostPages> make_host_pages(const Options& options, std::uint64_t page_bytes, bool is_shared) {
  const auto num_pages =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(options.cache_host_memory / page_bytes, UINT32_MAX));
  if (options.cache_policy == "none" || num_pages == 0) return nullptr;
  log(LogLevel::kInfo, "host tier",
      {{"kv_pages", num_pages}, {"at_most", shown_bytes(num_pages * page_bytes)}});
  if (is_shared) return std::make_shared<HostPages>(HostPages::shared(num_pages, page_bytes));
  return std::make_shared<HostPages>(num_pages, page_bytes);
}

// In multiply-adds a page: all matrices for each of its tokens, and attention to
// what is in front of it, which is in proportion.
RecomputeCost recompute_cost_of(const ModelConfig& config) {
  const double query_width = static_cast<double>(config.head_dim) * config.num_heads;
  const double kv_width = static_cast<double>(config.head_dim) * config.num_kv_heads;
  const double hidden = config.hidden_size;
  const double layer = hidden * (2 * query_width + 2 * kv_width) + 3 * hidden * config.intermediate_size;
  const double page_size = kKvPageTokens;
  const double attention = 2 * query_width * page_size * page_size * config.num_layers;
  return {.constant = layer * config.num_layers * page_size + attention / 2,
          .attention = {attention, 2 * attention}};
}

void use_backend(const Options& options, LoadedModel& model) {
  const ChosenBackend chosen = choose_backend(options);
  const BackendPlan& plan = chosen.backend->plan();
  model.options = chosen.options;
  log_memory_plan(plan);
  model.config = load_model_config(options.model_dir);
  model.context_length = plan.context_length;
  model.served.network = make_network(model.config);
  model.served.compute_type = plan.compute_type;
  model.served.recompute_cost = recompute_cost_of(model.config);
  model.computation = plan.computation;
  model.device_summary = plan.summary;
  model.host_pages = make_host_pages(options, plan.memory.request.page_bytes, chosen.is_child);
  model.make_device = [backend = chosen.backend, host_pages = model.host_pages] {
    return backend->make_device(host_pages);
  };
}

// Tokens run through the plain ASCII letters, so that every token is text.
void use_noop_device(const Options& options, LoadedModel& model) {
  model.config = load_model_config(options.model_dir);
  model.context_length = model.config.context_length;
  NoopDeviceSettings settings;
  auto& description = settings.description;
  description.name = "noop";
  description.page_size = 32;
  description.num_slots = static_cast<std::uint32_t>(options.max_batch_sequences);
  description.context_length = model.context_length;
  description.num_pages = 2 * description.num_slots * (model.context_length / description.page_size + 1);
  description.max_batch_tokens = static_cast<std::uint32_t>(options.max_batch_tokens);
  description.vocabulary_size = model.config.vocabulary_size;
  const auto letter = model.served.tokenizer->token_id("a");
  settings.first_token = letter.value_or(0);
  settings.num_tokens = 1;
  settings.iteration_time = std::chrono::microseconds(options.noop_iteration_us);
  // Without a time to wait for, no thread of its own: only the engine is measured.
  settings.immediate = options.noop_iteration_us == 0;
  model.make_device = [settings] { return std::make_unique<NoopDevice>(settings); };
  model.device_summary = "noop: no network is run, answers are one letter";
}

}  // namespace

LoadedModel load_model(const Options& options) {
  if (!std::filesystem::is_directory(options.model_dir))
    throw std::runtime_error(options.model_dir + ": no such model directory");
  LoadedModel model;
  model.options = with_device_numbers(options, DeviceKind::kHost);
  model.served.name = served_name(options);
  model.served.tokenizer = load_tokenizer(options.model_dir);
  model.served.vocabulary = vocabulary_fingerprint(*model.served.tokenizer);
  if (auto chat_template = load_chat_template(options.model_dir))
    model.served.chat_template = std::make_shared<const ChatTemplate>(std::move(*chat_template));
  if (options.device == "noop") {
    use_noop_device(model.options, model);
  } else {
    use_backend(options, model);
  }
  model.served.eos_tokens = model.config.eos_tokens;
  model.served.bos_token = model.config.bos_token.value_or(-1);
  return model;
}

EngineOptions engine_options(const Options& asked) {
  const Options options = with_device_numbers(asked, DeviceKind::kHost);
  EngineOptions engine;
  engine.max_batch_tokens = static_cast<std::uint32_t>(options.max_batch_tokens);
  engine.max_batch_sequences = static_cast<std::uint32_t>(options.max_batch_sequences);
  engine.prefill_chunk = static_cast<std::uint32_t>(options.prefill_chunk);
  engine.separates_prefill = options.separate_prefill;
  engine.max_in_flight = static_cast<std::uint32_t>(options.max_in_flight);
  engine.max_waiting = static_cast<std::uint32_t>(options.max_waiting);
  engine.max_queue_time = std::chrono::seconds(options.max_queue_seconds);
  engine.look_ahead_pages = static_cast<std::uint32_t>(options.look_ahead_pages);
  engine.cache.keeps_prefixes = options.cache_policy != "none";
  engine.cache.policy = options.cache_policy == "lru" ? EvictionPolicy::kLru : EvictionPolicy::kValue;
  engine.cache.copy_ahead_below = static_cast<double>(options.cache_copy_ahead_percent) / 100;
  engine.cache.keep_for = std::chrono::days(options.cache_keep_days);
  engine.cache.keep_free = static_cast<double>(options.cache_keep_free_percent) / 100;
  engine.store.keep = std::chrono::hours(24 * options.store_keep_days);
  engine.max_restarts = static_cast<std::uint32_t>(options.max_restarts);
  engine.restart_window = std::chrono::seconds(options.restart_window_seconds);
  engine.logs_requests = options.log_requests;
  engine.actor_threads = static_cast<std::uint32_t>(options.actor_threads);
  return engine;
}

std::string served_name(const Options& options) {
  if (!options.model_name.empty()) return options.model_name;
  const auto path = std::filesystem::absolute(options.model_dir).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

}  // namespace troupe
