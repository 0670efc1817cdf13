// SPDX-License-Identifier: Apache-2.0
#include "app/loading/model_loading.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "actors/request/prompt/prompt_encoding.hpp"
#include "app/loading/backend_choice.hpp"
#include "app/loading/device_defaults.hpp"
#include "app/loading/model_source.hpp"
#include "app/options/configuration_error.hpp"
#include "app/options/option_checks.hpp"
#include "gpu/cpu/cpu_model.hpp"
#include "gpu/model/gguf_file.hpp"
#include "gpu/networks/network.hpp"
#include "gpu/noop/noop_device.hpp"
#include "gpu/pages/kv_layout.hpp"
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

std::uint64_t host_memory_of(const Options& options, const BackendPlan& plan) {
  if (options.cache_host_memory != kHostMemoryAuto) return options.cache_host_memory;
  return host_tier_bytes({.kind = plan.num_gpus > 0 ? DeviceKind::kGpu : DeviceKind::kCpu,
                          .device_kv_bytes = plan.memory.kv_bytes * options.num_workers,
                          .available_bytes = available_memory_bytes(),
                          .share = options.host_memory_share});
}

// Null: no host tier. Its memory is taken page by page when it is used; a GPU's backend pins it as a whole.
std::shared_ptr<HostPages> make_host_pages(const Options& options, std::uint64_t page_bytes, bool is_shared) {
  if (page_bytes == 0) return nullptr;  // an encoder has none
  const auto num_pages =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(options.cache_host_memory / page_bytes, UINT32_MAX));
  if (!options.serving.keeps_prefixes() || num_pages == 0) return nullptr;
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

void use_backend(const Options& options, std::shared_ptr<CpuCores> cores, LoadedModel& model) {
  const ChosenBackend chosen = choose_backend(options, std::move(cores));
  const BackendPlan& plan = chosen.backend->plan();
  model.options = chosen.options;
  log_memory_plan(plan);
  model.config = load_model_config(options.models.front().dir);
  model.context_length = plan.context_length;
  model.planned_bytes = plan.memory.total_bytes;
  model.served.network = make_network(model.config);
  const CellType cell = model.served.network->cells().front();
  if (cell.result == ResultKind::kVector) {
    model.served.kind = model.config.labels() ? ModelKind::kClassifying : ModelKind::kEmbedding;
    model.served.vector_size = cell.vector_size;
    const std::uint32_t longest = model.served.network->shapes().context_length;
    if (model.context_length < longest)
      log(LogLevel::kWarning, "inputs are cut short by --max-batch-tokens",
          {{"model", model.served.name}, {"tokens", model.context_length}, {"of", longest}});
  }
  model.served.compute_type = plan.compute_type;
  model.served.recompute_cost = recompute_cost_of(model.config);
  model.computation = plan.computation;
  model.device_summary = plan.summary;
  if (model.options.num_workers > 1)
    model.device_summary += ", " + std::to_string(model.options.num_workers) + " workers";
  model.options.cache_host_memory = host_memory_of(model.options, plan);
  model.host_pages = make_host_pages(model.options, plan.memory.request.page_bytes, chosen.is_child);
  model.make_device = [backend = chosen.backend, host_pages = model.host_pages](WorkerId worker) {
    return backend->make_device(host_pages, worker);
  };
}

// Tokens run through the plain ASCII letters, so that every token is text.
void use_noop_device(const Options& options, LoadedModel& model) {
  model.config = load_model_config(options.models.front().dir);
  if (!model.config.has_pages())
    throw ConfigurationError("--device noop: " + model.served.name +
                             " is no decoder of KV pages, which is all that it imitates");
  model.context_length = model.config.context_length;
  NoopDeviceSettings settings;
  auto& description = settings.description;
  description.name = "noop";
  description.page_size = 32;
  description.num_slots = options.serving.max_batch_sequences;
  description.context_length = model.context_length;
  description.num_pages = 2 * description.num_slots * (model.context_length / description.page_size + 1);
  description.max_batch_tokens = options.serving.max_batch_tokens;
  description.vocabulary_size = model.config.vocabulary_size;
  const auto letter = model.served.tokenizer->token_id("a");
  settings.first_token = letter.value_or(0);
  settings.num_tokens = 1;
  settings.iteration_time = std::chrono::microseconds(options.noop_iteration_us);
  // Without a time to wait for, no thread of its own: only the engine is measured.
  settings.immediate = options.noop_iteration_us == 0;
  model.make_device = [settings](WorkerId) { return std::make_unique<NoopDevice>(settings); };
  model.device_summary = "noop: no network is run, answers are one letter";
}

// A template that can't be used is no reason to serve nothing: /v1/completions needs none.
void use_chat_template(const std::string& model_dir, ServedModel& served) {
  constexpr std::string_view kMessage = "the chat template can't be used; /v1/completions can";
  try {
    auto chat_template = load_model_template(model_dir);
    if (!chat_template) return;
    served.chat_template = std::make_shared<const ChatTemplate>(std::move(*chat_template));
  } catch (const std::exception& error) {
    return log(LogLevel::kWarning, kMessage, {{"reason", error.what()}});
  }
  // It stays: other messages than those tried may do.
  if (const auto problem = find_template_problem(served))
    log(LogLevel::kWarning, kMessage, {{"reason", *problem}});
}

// The configuration's, and the tokenizer's own: chat models that were tuned from others may name theirs only
// there.
std::vector<std::int32_t> ending_tokens(const ModelConfig& config, const Tokenizer& tokenizer) {
  std::vector<std::int32_t> tokens = config.eos_tokens;
  const auto own = tokenizer.eos_token();
  const bool is_drawn = own && static_cast<std::uint32_t>(*own) < config.vocabulary_size;
  if (is_drawn && std::find(tokens.begin(), tokens.end(), *own) == tokens.end()) tokens.push_back(*own);
  return tokens;
}

}  // namespace

void check_model_directory(const Options& options) {
  for (const auto& model : options.models) {
    std::error_code failure;
    if (is_gguf_path(model.dir)) {
      if (begins_as_gguf(model.dir)) continue;
      throw ConfigurationError("--model: " + model.dir + ": is neither a model directory nor a GGUF file");
    }
    if (!std::filesystem::is_directory(model.dir, failure))
      throw ConfigurationError("--model: " + model.dir + ": no such model directory or GGUF file");
    const auto config = std::filesystem::path(model.dir) / "config.json";
    if (!std::filesystem::exists(config, failure))
      throw ConfigurationError("--model: " + config.string() + ": is missing");
  }
}

void check_model_name(const Options& options) {
  for (const auto& model : options.models)
    if (const auto expected = wrong_model_name(served_name(model)))
      throw ConfigurationError("--model-name: " + *expected + "; without it the directory's name is taken");
}

LoadedModel load_model(const Options& options, std::shared_ptr<CpuCores> cores) {
  check_model_directory(options);
  check_model_name(options);
  LoadedModel model;
  model.options = with_device_numbers(options, DeviceKind::kCpu);
  model.served.name = served_name(options);
  model.served.tokenizer = load_model_tokenizer(options.models.front().dir);
  model.served.vocabulary = vocabulary_fingerprint(*model.served.tokenizer);
  use_chat_template(options.models.front().dir, model.served);
  if (options.device == "noop") {
    use_noop_device(model.options, model);
  } else {
    use_backend(options, std::move(cores), model);
  }
  model.served.eos_tokens = ending_tokens(model.config, *model.served.tokenizer);
  model.served.bos_token = model.config.bos_token.value_or(-1);
  return model;
}

EngineOptions engine_options(const Options& asked) {
  const Options options = with_device_numbers(asked, DeviceKind::kCpu);
  EngineOptions engine;
  engine.serving = options.serving;
  engine.store.keep = std::chrono::hours(24 * options.store_keep_days);
  engine.num_workers = static_cast<std::uint32_t>(options.num_workers);
  engine.turn_memory.max_bytes = options.cache_turn_memory;
  engine.max_restarts = static_cast<std::uint32_t>(options.max_restarts);
  engine.restart_window = std::chrono::seconds(options.restart_window_seconds);
  engine.logs_requests = options.log_requests;
  engine.actor_threads = static_cast<std::uint32_t>(options.actor_threads);
  return engine;
}

std::string served_name(const Options& options) { return served_name(options.models.front()); }

}  // namespace troupe
