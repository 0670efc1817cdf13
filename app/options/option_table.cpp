// SPDX-License-Identifier: Apache-2.0
// One function a section of the configuration; a row says the key, the flag, the
// help, where it goes and what may be said.
#include "app/options/option_checks.hpp"
#include "app/options/options.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace troupe {
namespace {

using Unit = OptionEntry::Unit;
using Entries = std::vector<OptionEntry>;

// Rows of the table of a part of the options.
template <typename Part, typename Find>
Entries options_of(std::span<const Setting<Part>> table, Find part) {
  Entries entries;
  for (const auto& setting : table) {
    if (setting.flag.empty()) continue;
    const SettingField<Options> field(
        [part, of_part = setting.field](Options& options) { return of_part.in(part(options)); });
    entries.push_back({setting.key, setting.flag, setting.help, field, setting.minimum, setting.maximum,
                       setting.choices, setting.unit, setting.words, setting.wrong, setting.automatic});
  }
  return entries;
}

Entries model_options() {
  return options_of(model_table(), [](Options& options) -> ModelOptions& { return options.models.front(); });
}

// clang-format off
Entries server_options() {
  return {
      {"server.host", "--host", "address to listen on", &Options::host, 0, 0, {}, Unit::kNone, {},
       wrong_address},
      {"server.port", "--port", "port to listen on, 0 for any free one", &Options::port, 0, 65535},
      {"server.io_threads", "--io-threads", "threads that serve connections",
       &Options::io_threads, 1, 64},
      {"server.io_cpus", "--io-cpus",
       "CPUs of all threads that do not compute: connections, actors, files (default: those that --cpus leaves)",
       &Options::io_cpus, 0, 0, {}, Unit::kNone, {}, wrong_cpu_list},
      {"server.api_key", "--api-key", "bearer token asked for under /v1 (empty: none)",
       &Options::api_key, 0, 0, {}, Unit::kNone, {}, wrong_api_key},
      {"server.api_keys_file", "--api-keys-file",
       "bearer tokens, each with its own tenant: a file with lines 'TENANT KEY'",
       &Options::api_keys_file, 0, 0, {}, Unit::kPath},
      {"server.cors_origins", "--cors-origins",
       "origins browsers may call from, comma separated, * for all", &Options::cors_origins,
       0, 0, {}, Unit::kNone, {}, wrong_origins},
      {"server.model_aliases", "--model-aliases",
       "names of other servers' models that clients insist on, comma separated, * for all: they stand for "
       "the first model that can do it", &Options::model_aliases, 0, 0, {}, Unit::kNone, {}, wrong_model_aliases},
      {"server.allowed_hosts", "--allowed-hosts",
       "without an API key, and on the port for metrics: names that clients may call this machine "
       "by, beside localhost, comma separated", &Options::allowed_hosts, 0, 0, {}, Unit::kNone, {}, wrong_hosts},
      {"server.metrics_port", "--metrics-port",
       "a second port for /metrics, /traces, /version and the probes, without a key; 0 for none",
       &Options::metrics_port, 0, 65535},
      {"server.ollama_port", "--ollama-port",
       "a further port for clients of Ollama, whose own is 11434; 0 for none", &Options::ollama_port, 0, 65535},
      {"server.tls_certificate", "--tls-certificate",
       "speak TLS on all ports: the certificate and those that vouch for it, PEM; read anew on SIGHUP",
       &Options::tls_certificate, 0, 0, {}, Unit::kPath},
      {"server.tls_key", "--tls-key", "the certificate's private key, PEM", &Options::tls_key, 0, 0, {},
       Unit::kPath},
      {"server.allow_open_network", "--allow-open-network",
       "listen beyond this machine without an API key", &Options::allow_open_network},
      {"server.page", "--page", "a web page at /: chat, and a live view of the server", &Options::page},
      {"server.drain_seconds", "--drain-seconds", "time that running answers get after SIGTERM",
       &Options::drain_seconds, 0, 3600},
      {"server.max_body_bytes", "--max-body-bytes", "largest request body",
       &Options::max_body_bytes, 1024, 16 << 20, {}, Unit::kBytes},
  };
}

Entries device_options() {
  return {
      {"device.kind", "--device",
       "where the model runs: auto (a GPU if there is one, else the CPU), cuda, cuda:N for the "
       "GPU of this number, cuda:all for a worker on each GPU, cpu (or by its older name, host), or "
       "noop (no network, to measure the rest)",
       &Options::device, 0, 0, {"auto", "cuda", "cuda:N", "cuda:all", "cpu", "noop", "host"}},
      {"device.threads", "--threads", "compute threads, 0 for one a core, as far as control groups grant their time",
       &Options::threads, 0, 1024},
      {"device.pin_threads", "--pin-threads", "bind compute threads to cores",
       &Options::pin_threads},
      {"device.cpus", "--cpus",
       "CPUs of compute threads, one each, such as 0-2,5; all other threads keep off them (default: those "
       "that --io-cpus leaves)", &Options::cpus, 0, 0, {}, Unit::kNone, {}, wrong_cpu_list},
      {"device.compute_type", "--compute-type",
       "type of matrix products: auto, f32, bf16 or, on a GPU, f16",
       &Options::compute_type, 0, 0, {"auto", "f32", "bf16", "f16"}},
      {"device.quantize", "--quantize",
       "a decoder's weights in memory, on the CPU: keep (blocks of a GGUF file and gpt-oss' MXFP4 "
       "as they are), none (opened), q8 or q4 (made into blocks of 8 or 4 bits at load)",
       &Options::quantize, 0, 0, {"keep", "none", "q8", "q4"}},
      {"device.kv_type", "--kv-type",
       "type of keys and values in memory, on disk and between processes: auto (that of products) or, "
       "on the CPU, q8: about half the bytes, rounded to 8 bits",
       &Options::kv_type, 0, 0, {"auto", "q8"}},
      {"device.activations", "--activations",
       "rows that weights in blocks are multiplied by: exact (in the type of products) or, on the CPU, "
       "q8: rounded to 8 bits, which is faster; auto: q8 for weights of fewer than 8 bits",
       &Options::activations, 0, 0, {"auto", "exact", "q8"}},
      {"device.weights_disk_space", "--weights-disk-space",
       "disk space for packed weights in the store's directory, at most: later starts map them "
       "instead of packing again; 0 for none",
       &Options::weights_disk_space, 0, UINT64_MAX, {}, Unit::kBytes},
      {"device.deterministic", "--deterministic",
       "a token never depends on what else is in the batch; false may be faster",
       &Options::deterministic},
      {"device.memory", "--memory",
       "memory for weights, arena and KV pages, of each GPU or of the host, 0 for most of what is "
       "free",
       &Options::memory_bytes, 0, UINT64_MAX, {}, Unit::kBytes},
      {"device.noop_iteration_us", "--noop-iteration-us",
       "time the noop device pretends a batch takes", &Options::noop_iteration_us, 0, 10'000'000},
  };
}

Entries worker_options() {
  return {
      {"worker.placement", "--worker-placement",
       "child: the device is in a process of its own, whose death costs a restart; inline: it is "
       "in the server's; auto: child for a GPU, inline for the CPU",
       &Options::worker_placement, 0, 0, {"auto", "child", "inline"}},
      {"worker.count", "--workers",
       "workers of the CPU, which divide its cores and the memory; each runs "
       "--max-batch-sequences; 0 for 1 or, with cuda:all, the number of GPUs",
       &Options::num_workers, 0, 64},
  };
}

Entries cuda_options() {
  return {
      {"cuda.library", "--cuda-library",
       "the CUDA backend (default: libtroupe_cuda.so beside the executable)",
       &Options::cuda_library, 0, 0, {}, Unit::kPath},
      {"cuda.completion", "--cuda-completion",
       "how the end of a batch is noticed: poll (a word in memory), host_function or event",
       &Options::cuda_completion, 0, 0, {"poll", "host_function", "event"}},
      {"cuda.graphs", "--cuda-graphs", "replay captured graphs for batches that only decode",
       &Options::cuda_graphs},
  };
}

// Entries of the engine core whose keys are in one section of the file.
Entries core_options(std::string_view section) {
  Entries entries =
      options_of(serving_table(), [](Options& options) -> ServingSettings& { return options.serving; });
  std::erase_if(entries, [&](const OptionEntry& entry) { return !entry.key.starts_with(section); });
  return entries;
}

Entries scheduler_options() {
  Entries entries = core_options("scheduler.");
  entries.push_back(
      {"scheduler.length_encoder", "--length-encoder",
       "where lengths are foreseen, the name of a served model of embeddings that reads the end of "
       "each prompt that waits: its vectors help to tell how long answers will be (empty: none)",
       &Options::length_encoder, 0, 0, {}, Unit::kNone, {}, wrong_model_name});
  return entries;
}

Entries cache_options() {
  Entries entries = core_options("cache.");
  const Entries of_server = {
      {"cache.host_memory", "--cache-host-memory",
       "memory for KV that had to leave the device, at most; 0 for none (auto: 1GiB on the host; for GPUs "
       "twice their KV, a quarter of what the host has available at most)",
       &Options::cache_host_memory, 0, UINT64_MAX, {}, Unit::kBytes, {}, nullptr, kHostMemoryAuto},
      {"cache.disk_space", "--cache-disk-space",
       "disk space for KV in the store's directory, at most: conversations stay warm when the "
       "server is started anew; 0 for none",
       &Options::cache_disk_space, 0, UINT64_MAX, {}, Unit::kBytes},
      {"cache.measure", "--cache-measure",
       "measure at the first start what KV costs to compute and to load; false: estimate",
       &Options::cache_measure},
      {"cache.link_bandwidth", "--cache-link-bandwidth",
       "to imitate a slower link between device and host: bytes a second in each direction, 0 for "
       "as fast as memory", &Options::cache_link_bandwidth, 0, UINT64_MAX, {}, Unit::kBytes},
      {"cache.link_latency_us", "--cache-link-latency-us", "the latency of that link",
       &Options::cache_link_latency_us, 0, 10'000'000},
      {"cache.turn_memory", "--cache-turn-memory",
       "memory for the tokens of chats whose clients send the whole history each time: it is run "
       "with the very tokens that were drawn; 0 for none",
       &Options::cache_turn_memory, 0, UINT64_MAX, {}, Unit::kBytes},
  };
  entries.insert(entries.end(), of_server.begin(), of_server.end());
  return entries;
}

Entries store_options() {
  return {
      {"store.directory", "--store-directory",
       "where conversations are kept: a directory, default ($XDG_STATE_HOME/troupe or "
       "~/.local/state/troupe), or none to keep nothing",
       &Options::store_directory, 0, 0, {}, Unit::kPath, {"default", "none"}},
      {"store.keep_days", "--store-keep-days",
       "days that a stored response can be got or continued", &Options::store_keep_days, 1, 36500},
  };
}

Entries supervisor_options() {
  return {
      {"supervisor.max_restarts", "--max-restarts",
       "worker restarts within the window before giving up", &Options::max_restarts, 0, 1000},
      {"supervisor.restart_window_seconds", "--restart-window-seconds",
       "the window of max_restarts", &Options::restart_window_seconds, 1, 86400},
      {"supervisor.actor_threads", "--actor-threads", "threads that run actors",
       &Options::actor_threads, 1, 64},
  };
}

Entries metrics_options() {
  return {
      {"metrics.vllm_names", "--vllm-names",
       "show what means the same under vLLM's metric names too", &Options::vllm_names},
  };
}

Entries log_options() {
  return {
      {"log.level", "--log-level", "debug, info, warning, error or off",
       &Options::log_level, 0, 0, {"debug", "info", "warning", "error", "off"}},
      {"log.format", "--log-format", "text or json", &Options::log_format, 0, 0, {"text", "json"}},
      {"log.requests", "--log-requests",
       "a line for every finished request at level info, not only debug", &Options::log_requests},
  };
}

Entries tracing_options() {
  return {
      {"tracing.endpoint", "--trace-endpoint",
       "OTLP/HTTP collector, http://host:4318 or https (also OTEL_EXPORTER_OTLP_ENDPOINT)",
       &Options::trace_endpoint},
      {"tracing.file", "--trace-file",
       "write traces to this file as OTLP JSON lines, for `troupe trace`",
       &Options::trace_file, 0, 0, {}, Unit::kPath},
      {"tracing.file_limit", "--trace-file-limit",
       "a trace file this large is renamed to FILE.1 and begun anew",
       &Options::trace_file_bytes, 1 << 16, UINT64_MAX, {}, Unit::kBytes},
      {"tracing.sample_ratio", "--trace-sample-ratio",
       "share of requests traced, 0 to 1, where the caller has not decided",
       &Options::trace_sample_ratio},
      {"tracing.keep_slower_than_ms", "--trace-keep-slower-than-ms",
       "trace requests that took longer, sampled or not; 0: only those that fail",
       &Options::trace_keep_slower_than_ms, 0, 86'400'000},
      {"tracing.max_iterations_per_second", "--trace-max-iterations-per-second",
       "spans of batches; a faster device's further batches leave none",
       &Options::trace_max_iterations_per_second, 0, 1'000'000},
      {"tracing.export_iterations", "--trace-export-iterations",
       "send spans of batches to the collector too, not only to the file",
       &Options::trace_exports_iterations},
      {"tracing.max_queued_spans", "--trace-max-queued-spans",
       "spans kept for a slow collector; more are dropped",
       &Options::trace_max_queued_spans, 256, 1 << 20},
      {"tracing.recent_requests", "--trace-recent-requests",
       "requests whose spans are kept in memory for /traces and the page's time lines",
       &Options::trace_recent_requests, 0, 10'000},
      {"tracing.service_name", "--trace-service-name",
       "service.name of the traces, else OTEL_SERVICE_NAME, else troupe",
       &Options::trace_service_name},
  };
}
// clang-format on

constexpr std::array<std::string_view, 9> kReloadable = {
    "server.api_key",       "server.api_keys_file", "server.cors_origins",
    "server.allowed_hosts", "server.drain_seconds", "log.level",
    "log.format",           "tracing.sample_ratio", "tracing.keep_slower_than_ms"};

}  // namespace

bool is_reloadable(const OptionEntry& entry) {
  return std::find(kReloadable.begin(), kReloadable.end(), entry.key) != kReloadable.end();
}

std::span<const OptionEntry> option_table() {
  static const Entries table = [] {
    Entries all;
    for (const auto section :
         {model_options, server_options, device_options, worker_options, cuda_options, scheduler_options,
          cache_options, store_options, supervisor_options, metrics_options, log_options, tracing_options}) {
      std::ranges::move(section(), std::back_inserter(all));
    }
    return all;
  }();
  return table;
}

}  // namespace troupe
