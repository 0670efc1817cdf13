// SPDX-License-Identifier: Apache-2.0
// Every option of troupe in one table: each is a flag, a key of the TOML file
// and an environment variable. Precedence: flag, environment, file, default.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe {

struct Options {
  // [model]
  std::string model_dir = "models/demo";
  std::string model_name;  // empty: the directory's name
  // [server]
  std::string host = "127.0.0.1";
  std::uint64_t port = 8000;
  std::uint64_t io_threads = 1;
  std::string api_key;
  std::string api_keys_file;  // empty: none
  std::string cors_origins;
  bool allow_open_network = false;
  std::uint64_t drain_seconds = 25;
  std::uint64_t max_body_bytes = 1 << 20;
  // [device]
  std::string device = "auto";
  std::uint64_t threads = 0;  // 0: one a core
  bool pin_threads = true;
  std::string compute_type = "auto";
  bool deterministic = true;
  std::uint64_t noop_iteration_us = 0;
  std::uint64_t memory_bytes = 0;  // 0: from what the device has free
  // [worker]
  std::string worker_placement = "auto";
  // [cuda]
  std::string cuda_library;  // empty: beside the executable
  std::string cuda_completion = "poll";
  bool cuda_graphs = true;
  // [scheduler]
  std::uint64_t max_batch_tokens = 0;  // 0: what suits the device, as the next but one
  std::uint64_t max_batch_sequences = 64;
  std::uint64_t prefill_chunk = 0;
  bool separate_prefill = false;
  std::uint64_t max_in_flight = 2;
  std::uint64_t max_waiting = 1024;
  std::uint64_t max_queue_seconds = 30;
  std::uint64_t look_ahead_pages = 1;
  // [cache]
  std::string cache_policy = "value";
  std::uint64_t cache_host_memory = 1ULL << 30;
  std::uint64_t cache_disk_space = 4ULL << 30;
  std::uint64_t cache_keep_days = 7;
  bool cache_measure = true;
  std::uint64_t cache_copy_ahead_percent = 25;
  std::uint64_t cache_keep_free_percent = 10;
  std::uint64_t cache_link_bandwidth = 0;  // bytes a second; 0: as fast as memory
  std::uint64_t cache_link_latency_us = 0;
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
  std::uint64_t trace_max_queued_spans = 8192;
  std::string trace_service_name;  // empty: "troupe"
};

struct OptionEntry {
  // kPath: relative ones in a file are relative to the file's directory; empty stays empty.
  enum class Unit : std::uint8_t { kNone, kBytes, kPath };

  std::string_view key;   // "server.port", in the file [server] port
  std::string_view flag;  // "--port"
  std::string_view help;
  std::variant<std::string Options::*, std::uint64_t Options::*, bool Options::*, double Options::*> field;
  // kBytes: "512MiB", "2GiB" or "1048576"; a plain number in Options.
  std::uint64_t minimum = 0, maximum = UINT64_MAX;  // whole numbers; others are shares, 0 to 1
  // Strings; empty: any. "cuda:N" stands for any number in place of the N.
  std::vector<std::string_view> choices = {};
  Unit unit = Unit::kNone;
  std::vector<std::string_view> words = {};  // kPath: what is no path

  std::string environment_name() const;  // "TROUPE_SERVER_PORT"
};

// By section of the file.
std::span<const OptionEntry> option_table();

// Sets one option from text. Returns what is wrong, or nothing.
[[nodiscard]] std::optional<std::string> set_option(Options& options, const OptionEntry& entry,
                                                    std::string_view text);
// The present value as text, as a file would say it.
std::string option_text(const Options& options, const OptionEntry& entry);

struct OptionSources {
  std::optional<std::filesystem::path> file;
  std::map<std::string, std::string> environment;          // only TROUPE_…
  std::vector<std::pair<std::string, std::string>> flags;  // flag, value
};

// Throws std::runtime_error: unknown key or flag (with the nearest known name),
// wrong type or range (key, what was expected, what came), unreadable file.
Options resolve_options(const OptionSources& sources);

}  // namespace troupe
