// SPDX-License-Identifier: Apache-2.0
// Every option of troupe in one table: each is a flag, a key of the TOML file
// and an environment variable. Precedence: flag, environment, file, default.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/options/model_options.hpp"
#include "policy/serving_settings.hpp"

namespace troupe {

// Comes with the programs (telemetry/shipped_path.hpp).
inline constexpr const char* kDemoModel = "models/demo";
// As much as suits device, model and machine: host_tier_bytes().
inline constexpr std::uint64_t kHostMemoryAuto = UINT64_MAX;
inline constexpr const char* kDemoName = "troupe-demo";

struct Options {
  // [model], or a [[model]] each; there is always one.
  std::vector<ModelOptions> models = {{.dir = kDemoModel}};
  // [server]
  std::string host = "127.0.0.1";
  std::uint64_t port = 8000;
  std::uint64_t io_threads = 1;
  std::string io_cpus;  // of all threads but those that compute; empty: those that cpus leaves
  std::string api_key;
  std::string api_keys_file;       // empty: none
  std::uint64_t metrics_port = 0;  // 0: none
  std::uint64_t ollama_port = 0;   // 0: none
  std::string tls_certificate;     // empty: no TLS
  std::string tls_key;
  std::string cors_origins;
  std::string model_aliases;
  std::string allowed_hosts;
  bool allow_open_network = false;
  bool page = true;
  std::uint64_t drain_seconds = 25;
  std::uint64_t max_body_bytes = 1 << 20;
  // [device]
  std::string device = "auto";
  std::uint64_t threads = 0;  // 0: default_threads()
  bool pin_threads = true;
  std::string cpus;             // of compute threads; empty: those that io_cpus leaves
  std::uint64_t first_cpu = 0;  // no option: where the cores of a model's process begin, of several models
  std::string compute_type = "auto";
  bool deterministic = true;
  std::string quantize = "keep";
  std::string kv_type = "auto";
  std::string activations = "auto";
  std::uint64_t weights_disk_space = 16ULL << 30;
  std::uint64_t noop_iteration_us = 0;
  std::uint64_t memory_bytes = 0;  // 0: from what the device has free
  // [worker]
  std::string worker_placement = "auto";
  std::uint64_t num_workers = 0;  // 0: what suits the device
  // [cuda]
  std::string cuda_library;  // empty: beside the executable
  std::string cuda_completion = "poll";
  bool cuda_graphs = true;
  // [scheduler] and, of [cache], what the core decides by. 0: what suits the device.
  ServingSettings serving = {.max_batch_tokens = 0,
                             .max_batch_sequences = 0,
                             .prefill_chunk = 0,
                             .max_in_flight = 0,
                             .keep_for = std::chrono::days(7)};
  std::string length_encoder;  // name of one of the models; empty: none
  // [cache]
  std::uint64_t cache_host_memory = kHostMemoryAuto;
  double host_memory_share = 1;  // no option: of what kHostMemoryAuto has for all models
  std::uint64_t cache_disk_space = 4ULL << 30;
  bool cache_measure = true;
  std::uint64_t cache_link_bandwidth = 0;  // bytes a second; 0: as fast as memory
  std::uint64_t cache_link_latency_us = 0;
  std::uint64_t cache_turn_memory = 64ULL << 20;
  // [store]
  std::string store_directory = "default";
  std::uint64_t store_keep_days = 30;
  // [supervisor]
  std::uint64_t max_restarts = 3;
  std::uint64_t restart_window_seconds = 60;
  std::uint64_t actor_threads = 1;
  // [metrics]
  bool vllm_names = true;
  // [log]
  std::string log_level = "info";
  std::string log_format = "text";
  bool log_requests = false;
  // [tracing]
  std::string trace_endpoint;  // empty: none
  std::string trace_file;      // empty: none
  std::uint64_t trace_file_bytes = 256 << 20;
  double trace_sample_ratio = 1.0;
  std::uint64_t trace_keep_slower_than_ms = 0;  // 0: only failed ones
  std::uint64_t trace_max_iterations_per_second = 250;
  bool trace_exports_iterations = false;  // to the endpoint too
  std::uint64_t trace_max_queued_spans = 8192;
  std::uint64_t trace_recent_requests = 256;  // 0: none
  std::string trace_service_name;             // empty: "troupe"
};

using OptionEntry = Setting<Options>;

// --model and --model-name: each time for the next of the models.
bool may_repeat(const OptionEntry& entry);

// SIGHUP puts a new value in force (app/reload.hpp), of others a restart.
bool is_reloadable(const OptionEntry& entry);

struct OptionChanges {
  std::vector<std::string> reloadable, need_restart;  // flags, by the table
};
OptionChanges changes_between(const Options& before, const Options& after);
// `before` with what is reloadable of `after`.
Options with_reloaded(Options before, const Options& after);

// By section of the file. With several models these are the first one's.
std::span<const OptionEntry> option_table();

// Sets one option from text. Returns what is wrong, or nothing.
[[nodiscard]] std::optional<std::string> set_option(Options& options, const OptionEntry& entry,
                                                    std::string_view text);
// The present value as text, as a file would say it.
std::string option_text(Options options, const OptionEntry& entry);

struct OptionSources {
  std::optional<std::filesystem::path> file;
  std::map<std::string, std::string> environment;          // only TROUPE_…
  std::vector<std::pair<std::string, std::string>> flags;  // flag, value
};

// Models of a more important source take the place of several of a less important one;
// a single one's directory and name are options by themselves.
//
// Throws std::runtime_error: unknown key, flag or variable (with the nearest known
// name), wrong type or range (key, what was expected, what came), unreadable file.
// Variables of the environment that Kubernetes or our tests and tools set are skipped.
Options resolve_options(const OptionSources& sources);

}  // namespace troupe
