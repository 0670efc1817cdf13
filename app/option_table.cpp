// SPDX-License-Identifier: Apache-2.0
// One function a section of the configuration; a row says the key, the flag, the
// help, where it goes and what may be said.
#include "app/options.hpp"

#include <algorithm>
#include <iterator>

namespace troupe {
namespace {

using Unit = OptionEntry::Unit;
using Entries = std::vector<OptionEntry>;

Entries model_options() {
  return {
      {"model.dir",
       "--model",
       "directory of the model, Hugging Face layout",
       &Options::model_dir,
       0,
       0,
       {},
       Unit::kPath},
      {"model.name", "--model-name", "name clients call it by (default: the directory's name)",
       &Options::model_name},
  };
}

Entries server_options() {
  return {
      {"server.host", "--host", "address to listen on", &Options::host},
      {"server.port", "--port", "port to listen on, 0 for any free one", &Options::port, 0, 65535},
      {"server.io_threads", "--io-threads", "threads that serve connections", &Options::io_threads, 1, 64},
      {"server.api_key", "--api-key", "bearer token asked for under /v1 (empty: none)", &Options::api_key},
      {"server.api_keys_file",
       "--api-keys-file",
       "bearer tokens, each with its own tenant: a file with lines 'TENANT KEY'",
       &Options::api_keys_file,
       0,
       0,
       {},
       Unit::kPath},
      {"server.cors_origins", "--cors-origins", "origins browsers may call from, comma separated, * for all",
       &Options::cors_origins},
      {"server.allow_open_network", "--allow-open-network", "listen beyond this machine without an API key",
       &Options::allow_open_network},
      {"server.drain_seconds", "--drain-seconds", "time that running answers get after SIGTERM",
       &Options::drain_seconds, 0, 3600},
      {"server.max_body_bytes",
       "--max-body-bytes",
       "largest request body",
       &Options::max_body_bytes,
       1024,
       16 << 20,
       {},
       Unit::kBytes},
  };
}

Entries device_options() {
  return {
      {"device.kind",
       "--device",
       "where the model runs: auto (a GPU if there is one, else the host), cuda, cuda:N for the "
       "GPU of this number, host, or noop (no network, to measure the rest)",
       &Options::device,
       0,
       0,
       {"auto", "cuda", "cuda:N", "host", "noop"}},
      {"device.threads", "--threads", "compute threads, 0 for one a core", &Options::threads, 0, 1024},
      {"device.pin_threads", "--pin-threads", "bind compute threads to cores", &Options::pin_threads},
      {"device.compute_type",
       "--compute-type",
       "type of matrix products: auto, f32, bf16 or, on a GPU, f16",
       &Options::compute_type,
       0,
       0,
       {"auto", "f32", "bf16", "f16"}},
      {"device.deterministic", "--deterministic",
       "a token never depends on what else is in the batch; false may be faster", &Options::deterministic},
      {"device.memory",
       "--memory",
       "memory for weights, arena and KV pages, 0 for most of what is free",
       &Options::memory_bytes,
       0,
       UINT64_MAX,
       {},
       Unit::kBytes},
      {"device.noop_iteration_us", "--noop-iteration-us", "time the noop device pretends a batch takes",
       &Options::noop_iteration_us, 0, 10'000'000},
  };
}

Entries worker_options() {
  return {
      {"worker.placement",
       "--worker-placement",
       "child: the device is in a process of its own, whose death costs a restart; inline: it is "
       "in the server's; auto: child for a GPU, inline for the host",
       &Options::worker_placement,
       0,
       0,
       {"auto", "child", "inline"}},
  };
}

Entries cuda_options() {
  return {
      {"cuda.library",
       "--cuda-library",
       "the CUDA backend (default: libtroupe_cuda.so beside the executable)",
       &Options::cuda_library,
       0,
       0,
       {},
       Unit::kPath},
      {"cuda.completion",
       "--cuda-completion",
       "how the end of a batch is noticed: poll (a word in memory), host_function or event",
       &Options::cuda_completion,
       0,
       0,
       {"poll", "host_function", "event"}},
      {"cuda.graphs", "--cuda-graphs", "replay captured graphs for batches that only decode",
       &Options::cuda_graphs},
  };
}

Entries scheduler_options() {
  return {
      {"scheduler.max_batch_tokens", "--max-batch-tokens",
       "token budget of an iteration (0: 512 on the host, 2048 on a GPU)", &Options::max_batch_tokens, 0,
       65536},
      {"scheduler.max_batch_sequences", "--max-batch-sequences", "sequences that run at once",
       &Options::max_batch_sequences, 1, 4096},
      {"scheduler.prefill_chunk", "--prefill-chunk",
       "most prompt tokens of one sequence in an iteration (0: 256 on the host, 2048 on a GPU)",
       &Options::prefill_chunk, 0, 65536},
      {"scheduler.separate_prefill", "--separate-prefill",
       "prompts in iterations of their own, before everyone who decodes, instead of beside them",
       &Options::separate_prefill},
      {"scheduler.max_in_flight", "--max-in-flight",
       "batches submitted and not yet done, for all of which a newcomer waits", &Options::max_in_flight, 1,
       16},
      {"scheduler.max_waiting", "--max-waiting", "requests that may wait; more get 429",
       &Options::max_waiting, 0, 65536},
      {"scheduler.max_queue_seconds", "--max-queue-seconds", "longest wait before 429",
       &Options::max_queue_seconds, 1, 3600},
      {"scheduler.look_ahead_pages", "--look-ahead-pages", "KV pages leased beyond the present need",
       &Options::look_ahead_pages, 0, 64},
  };
}

Entries cache_options() {
  return {
      {"cache.policy",
       "--cache-policy",
       "which KV goes first when there is no room: value (cheap to compute again, long unused), "
       "lru, or none to keep nothing",
       &Options::cache_policy,
       0,
       0,
       {"value", "lru", "none"}},
      {"cache.host_memory",
       "--cache-host-memory",
       "memory for KV that had to leave the device, at most; 0 for none",
       &Options::cache_host_memory,
       0,
       UINT64_MAX,
       {},
       Unit::kBytes},
      {"cache.disk_space",
       "--cache-disk-space",
       "disk space for KV in the store's directory, at most: conversations stay warm when the "
       "server is started anew; 0 for none",
       &Options::cache_disk_space,
       0,
       UINT64_MAX,
       {},
       Unit::kBytes},
      {"cache.keep_days", "--cache-keep-days", "KV that was not used for so many days goes; 0: it stays",
       &Options::cache_keep_days, 0, 36500},
      {"cache.measure", "--cache-measure",
       "measure at the first start what KV costs to compute and to load; false: estimate",
       &Options::cache_measure},
      {"cache.copy_ahead_percent", "--cache-copy-ahead-percent",
       "copy KV to the host ahead of need while less than this share of pages could be given away "
       "at once",
       &Options::cache_copy_ahead_percent, 0, 100},
      {"cache.keep_free_percent", "--cache-keep-free-percent",
       "a request joins others only while this share of pages stays free", &Options::cache_keep_free_percent,
       0, 90},
      {"cache.link_bandwidth",
       "--cache-link-bandwidth",
       "to imitate a slower link between device and host: bytes a second in each direction, 0 for "
       "as fast as memory",
       &Options::cache_link_bandwidth,
       0,
       UINT64_MAX,
       {},
       Unit::kBytes},
      {"cache.link_latency_us", "--cache-link-latency-us", "the latency of that link",
       &Options::cache_link_latency_us, 0, 10'000'000},
  };
}

Entries store_options() {
  return {
      {"store.directory",
       "--store-directory",
       "where conversations are kept: a directory, default ($XDG_STATE_HOME/troupe or "
       "~/.local/state/troupe), or none to keep nothing",
       &Options::store_directory,
       0,
       0,
       {},
       Unit::kPath,
       {"default", "none"}},
      {"store.keep_days", "--store-keep-days", "days that a stored response can be got or continued",
       &Options::store_keep_days, 1, 36500},
  };
}

Entries supervisor_options() {
  return {
      {"supervisor.max_restarts", "--max-restarts", "worker restarts within the window before giving up",
       &Options::max_restarts, 0, 1000},
      {"supervisor.restart_window_seconds", "--restart-window-seconds", "the window of max_restarts",
       &Options::restart_window_seconds, 1, 86400},
      {"supervisor.actor_threads", "--actor-threads", "threads that run actors", &Options::actor_threads, 1,
       64},
  };
}

Entries metrics_options() {
  return {
      {"metrics.vllm_names", "--vllm-names", "show what means the same under vLLM's metric names too",
       &Options::vllm_names},
  };
}

Entries log_options() {
  return {
      {"log.level",
       "--log-level",
       "debug, info, warning, error or off",
       &Options::log_level,
       0,
       0,
       {"debug", "info", "warning", "error", "off"}},
      {"log.format", "--log-format", "text or json", &Options::log_format, 0, 0, {"text", "json"}},
      {"log.requests", "--log-requests", "a line for every finished request at level info, not only debug",
       &Options::log_requests},
  };
}

Entries tracing_options() {
  return {
      {"tracing.endpoint", "--trace-endpoint",
       "OTLP/HTTP collector, http://host:4318 (also OTEL_EXPORTER_OTLP_ENDPOINT)", &Options::trace_endpoint},
      {"tracing.file",
       "--trace-file",
       "write traces to this file as OTLP JSON lines, for `troupe trace`",
       &Options::trace_file,
       0,
       0,
       {},
       Unit::kPath},
      {"tracing.file_limit",
       "--trace-file-limit",
       "a trace file this large is renamed to FILE.1 and begun anew",
       &Options::trace_file_bytes,
       1 << 16,
       UINT64_MAX,
       {},
       Unit::kBytes},
      {"tracing.sample_ratio", "--trace-sample-ratio",
       "share of requests traced, 0 to 1, where the caller has not decided", &Options::trace_sample_ratio},
      {"tracing.keep_slower_than_ms", "--trace-keep-slower-than-ms",
       "trace requests that took longer, sampled or not; 0: only those that fail",
       &Options::trace_keep_slower_than_ms, 0, 86'400'000},
      {"tracing.max_iterations_per_second", "--trace-max-iterations-per-second",
       "spans of batches; a faster device's further batches leave none",
       &Options::trace_max_iterations_per_second, 0, 1'000'000},
      {"tracing.max_queued_spans", "--trace-max-queued-spans",
       "spans kept for a slow collector; more are dropped", &Options::trace_max_queued_spans, 256, 1 << 20},
      {"tracing.service_name", "--trace-service-name",
       "service.name of the traces, else OTEL_SERVICE_NAME, else troupe", &Options::trace_service_name},
  };
}

}  // namespace

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
