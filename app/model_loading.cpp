// SPDX-License-Identifier: Apache-2.0
#include "app/model_loading.hpp"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "gpu/host/host_device.hpp"
#include "gpu/host/host_model.hpp"
#include "gpu/host/kernels/isa.hpp"
#include "gpu/noop/noop_device.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

// The CPUs this process may use, in order.
std::vector<int> usable_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

// Said before the first large allocation.
void log_memory_plan(const MemoryPlan& plan) {
  const auto& request = plan.request;
  log(LogLevel::kInfo, "memory plan",
      {{"weights", shown_bytes(request.weight_bytes)},
       {"tables", shown_bytes(request.table_bytes)},
       {"temporaries", shown_bytes(request.arena_bytes)},
       {"kv_pages", plan.num_pages},
       {"kv_tokens", std::uint64_t{plan.num_pages} * request.page_size},
       {"kv", shown_bytes(plan.kv_bytes)},
       {"total", shown_bytes(plan.total_bytes)},
       {"budget", shown_bytes(request.budget_bytes)}});
}

// Null: no host tier. Its memory is taken page by page when it is used.
std::shared_ptr<HostPages> make_host_pages(const Options& options, const HostModel& model) {
  const std::uint64_t page_bytes = model.memory.request.page_bytes;
  const std::uint64_t num_pages =
      std::min<std::uint64_t>(options.cache_host_memory / page_bytes, UINT32_MAX);
  if (options.cache_policy == "none" || num_pages == 0) return nullptr;
  log(LogLevel::kInfo, "host tier",
      {{"kv_pages", num_pages}, {"at_most", shown_bytes(num_pages * page_bytes)}});
  return std::make_shared<HostPages>(static_cast<std::uint32_t>(num_pages), page_bytes);
}

// In multiply-adds a page: all matrices for each of its tokens, and attention to
// what is in front of it, which is in proportion.
RecomputeCost recompute_cost_of(const ModelConfig& config) {
  const double query_width = static_cast<double>(config.head_dim) * config.num_heads;
  const double kv_width = static_cast<double>(config.head_dim) * config.num_kv_heads;
  const double hidden = config.hidden_size;
  const double layer = hidden * (2 * query_width + 2 * kv_width) +
                       3 * hidden * config.intermediate_size;
  const double page_size = kKvPageTokens;
  const double attention = 2 * query_width * page_size * page_size * config.num_layers;
  return {.constant = layer * config.num_layers * page_size + attention / 2,
          .attention = {attention, 2 * attention}};
}

void use_host_device(const Options& options, LoadedModel& model) {
  const auto plan = plan_host_model(options.model_dir, host_settings(options));
  log_memory_plan(plan.memory);
  const auto host = load_host_model(plan);
  model.config = host->network->config();
  model.context_length = host->settings.context_length;
  model.served.network = host->network;
  model.served.compute_type = host->compute_type;
  const auto host_pages = model.host_pages = make_host_pages(options, *host);
  model.computation = "host, " + std::string(name_of(host->compute_type)) + ", " +
                      std::string(name_of(best_isa())) +
                      (host->settings.deterministic ? "" : ", not deterministic");
  const LinkSettings link{.bytes_per_second = options.cache_link_bandwidth,
                          .latency = std::chrono::microseconds(options.cache_link_latency_us)};
  model.make_device = [host, host_pages, link] {
    return std::make_unique<HostDevice>(host,
                                        HostDeviceOptions{.host_pages = host_pages, .link = link});
  };
  model.served.recompute_cost = recompute_cost_of(model.config);
  model.device_summary = "host, " + std::string(name_of(host->compute_type)) + ", " +
                         std::to_string(host->settings.num_threads) + " threads";
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
  model.served.name = served_name(options);
  model.served.tokenizer = load_tokenizer(options.model_dir);
  model.served.vocabulary = vocabulary_fingerprint(*model.served.tokenizer);
  if (auto chat_template = load_chat_template(options.model_dir))
    model.served.chat_template = std::make_shared<const ChatTemplate>(std::move(*chat_template));
  if (options.device == "noop") {
    use_noop_device(options, model);
  } else {
    use_host_device(options, model);
  }
  model.served.eos_tokens = model.config.eos_tokens;
  model.served.bos_token = model.config.bos_token.value_or(-1);
  return model;
}

HostModelSettings host_settings(const Options& options) {
  HostModelSettings settings;
  if (options.compute_type == "f32") settings.compute_type = DataType::kF32;
  if (options.compute_type == "bf16") settings.compute_type = DataType::kBF16;
  settings.deterministic = options.deterministic;
  settings.num_threads = static_cast<unsigned>(options.threads);
  const auto cpus = usable_cpus();
  const bool each_has_a_core = options.threads <= cpus.size();
  if (options.pin_threads && each_has_a_core) settings.cpus = cpus;
  settings.memory_budget_bytes = options.memory_bytes;
  settings.num_slots = static_cast<std::uint32_t>(options.max_batch_sequences);
  settings.max_batch_tokens = static_cast<std::uint32_t>(options.max_batch_tokens);
  return settings;
}

EngineOptions engine_options(const Options& options) {
  EngineOptions engine;
  engine.max_batch_tokens = static_cast<std::uint32_t>(options.max_batch_tokens);
  engine.max_batch_sequences = static_cast<std::uint32_t>(options.max_batch_sequences);
  engine.prefill_chunk = static_cast<std::uint32_t>(options.prefill_chunk);
  engine.max_in_flight = static_cast<std::uint32_t>(options.max_in_flight);
  engine.max_waiting = static_cast<std::uint32_t>(options.max_waiting);
  engine.max_queue_time = std::chrono::seconds(options.max_queue_seconds);
  engine.look_ahead_pages = static_cast<std::uint32_t>(options.look_ahead_pages);
  engine.cache.keeps_prefixes = options.cache_policy != "none";
  engine.cache.policy =
      options.cache_policy == "lru" ? EvictionPolicy::kLru : EvictionPolicy::kValue;
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
