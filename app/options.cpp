// SPDX-License-Identifier: Apache-2.0
#include "app/options.hpp"

#include "telemetry/nearest_name.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

namespace troupe {
namespace {

using Unit = OptionEntry::Unit;

constexpr std::uint64_t kMostDevices = 1024;  // of "cuda:N"

const OptionEntry* find_by_key(std::string_view key) {
  const auto table = option_table();
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& e) { return e.key == key; });
  return found == table.end() ? nullptr : &*found;
}

const OptionEntry* find_by_flag(std::string_view flag) {
  const auto table = option_table();
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& e) { return e.flag == flag; });
  return found == table.end() ? nullptr : &*found;
}

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw std::runtime_error(where + ": " + what);
}

[[noreturn]] void refuse_unknown(const std::string& where, std::string_view name,
                                 const std::vector<std::string>& known) {
  std::string text = "unknown option '" + std::string(name) + "'";
  const auto nearest = nearest_name(name, known);
  if (!nearest.empty()) text += "; did you mean '" + nearest + "'?";
  refuse(where, text);
}

std::vector<std::string> known_keys() {
  std::vector<std::string> keys;
  for (const auto& entry : option_table()) keys.emplace_back(entry.key);
  return keys;
}

std::vector<std::string> known_flags() {
  std::vector<std::string> flags;
  for (const auto& entry : option_table()) flags.emplace_back(entry.flag);
  return flags;
}

std::optional<std::uint64_t> parse_number(std::string_view text, Unit unit) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (suffix.empty()) return value;
  if (unit != Unit::kBytes) return std::nullopt;
  constexpr std::array<std::pair<std::string_view, int>, 6> kSuffixes{
      {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"K", 10}, {"M", 20}, {"G", 30}}};
  for (const auto& [name, shift] : kSuffixes) {
    if (suffix == name) {
      if (value > (UINT64_MAX >> shift)) return std::nullopt;
      return value << shift;
    }
  }
  return std::nullopt;
}

std::optional<bool> parse_bool(std::string_view text) {
  if (text == "true" || text == "1" || text == "on" || text == "yes") return true;
  if (text == "false" || text == "0" || text == "off" || text == "no") return false;
  return std::nullopt;
}

std::string joined(const std::vector<std::string_view>& words) {
  std::string text;
  for (const auto word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

std::optional<std::string> set_number(Options& options, const OptionEntry& entry,
                                      std::uint64_t Options::*field, std::string_view text) {
  const auto value = parse_number(text, entry.unit);
  if (!value || *value < entry.minimum || *value > entry.maximum) {
    std::string expected = "expected a whole number from " + std::to_string(entry.minimum);
    if (entry.maximum != UINT64_MAX) expected += " to " + std::to_string(entry.maximum);
    if (entry.unit == Unit::kBytes) expected += ", with KiB, MiB or GiB if you like";
    return expected + ", got '" + std::string(text) + "'";
  }
  options.*field = *value;
  return std::nullopt;
}

std::optional<std::string> set_share(Options& options, double Options::*field, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_share = error == std::errc{} && end == text.data() + text.size() && value >= 0 && value <= 1;
  if (!is_share) return "expected a number from 0 to 1, got '" + std::string(text) + "'";
  options.*field = value;
  return std::nullopt;
}

bool matches(std::string_view choice, std::string_view text) {
  if (!choice.ends_with(":N")) return choice == text;
  const auto prefix = choice.substr(0, choice.size() - 1);
  if (!text.starts_with(prefix)) return false;
  const auto number = parse_number(text.substr(prefix.size()), Unit::kNone);
  return number && *number < kMostDevices;
}

std::string shortest_text(double number) {
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

// A TOML scalar as the text a flag would carry; nullopt for tables and arrays.
std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return shortest_text(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return std::nullopt;
}

bool is_path(const OptionEntry& entry, std::string_view text) {
  if (text.empty() || std::find(entry.words.begin(), entry.words.end(), text) != entry.words.end()) return false;
  return entry.unit == Unit::kPath;
}

void apply_node(Options& options, const std::string& file, const std::string& key, const toml::node& node) {
  const auto* entry = find_by_key(key);
  if (entry == nullptr) refuse_unknown(file, key, known_keys());
  auto text = scalar_text(node);
  if (!text) refuse(file, key + ": expected one value, got a table or a list");
  const bool is_bool = std::holds_alternative<bool Options::*>(entry->field);
  if (is_bool != node.is_boolean())
    refuse(file, key + ": expected " + (is_bool ? "true or false" : "no boolean") + ", got " + *text);
  if (is_path(*entry, *text) && std::filesystem::path(*text).is_relative())
    text = (std::filesystem::path(file).parent_path() / *text).lexically_normal().string();
  if (const auto wrong = set_option(options, *entry, *text)) refuse(file, key + ": " + *wrong);
}

void apply_file(Options& options, const std::filesystem::path& path) {
  const auto file = path.string();
  toml::table root;
  try {
    root = toml::parse_file(file);
  } catch (const toml::parse_error& error) {
    std::string where = file;
    if (error.source().begin.line > 0) where += ":" + std::to_string(error.source().begin.line);
    refuse(where, std::string(error.description()));
  }
  for (const auto& [section, node] : root) {
    const std::string name(section.str());
    const auto* table = node.as_table();
    if (table == nullptr) {
      apply_node(options, file, name, node);
      continue;
    }
    for (const auto& [key, value] : *table) apply_node(options, file, name + "." + std::string(key.str()), value);
  }
}

void apply_environment(Options& options, const std::map<std::string, std::string>& environment) {
  for (const auto& entry : option_table()) {
    const auto found = environment.find(entry.environment_name());
    if (found == environment.end()) continue;
    if (const auto wrong = set_option(options, entry, found->second)) refuse(found->first, *wrong);
  }
}

}  // namespace

std::span<const OptionEntry> option_table() {
  static const std::vector<OptionEntry> table = {
      {"model.dir", "--model", "directory of the model, Hugging Face layout", &Options::model_dir, 0, 0, {},
       Unit::kPath},
      {"model.name", "--model-name", "name clients call it by (default: the directory's name)",
       &Options::model_name},

      {"server.host", "--host", "address to listen on", &Options::host},
      {"server.port", "--port", "port to listen on, 0 for any free one", &Options::port, 0, 65535},
      {"server.io_threads", "--io-threads", "threads that serve connections", &Options::io_threads, 1, 64},
      {"server.api_key", "--api-key", "bearer token asked for under /v1 (empty: none)", &Options::api_key},
      {"server.api_keys_file", "--api-keys-file",
       "bearer tokens, each with its own tenant: a file with lines 'TENANT KEY'", &Options::api_keys_file, 0, 0, {},
       Unit::kPath},
      {"server.cors_origins", "--cors-origins", "origins browsers may call from, comma separated, * for all",
       &Options::cors_origins},
      {"server.allow_open_network", "--allow-open-network",
       "listen beyond this machine without an API key", &Options::allow_open_network},
      {"server.drain_seconds", "--drain-seconds", "time that running answers get after SIGTERM",
       &Options::drain_seconds, 0, 3600},
      {"server.max_body_bytes", "--max-body-bytes", "largest request body", &Options::max_body_bytes, 1024,
       16 << 20, {}, Unit::kBytes},

      {"device.kind", "--device",
       "where the model runs: auto (a GPU if there is one, else the host), cuda, cuda:N for the GPU of this "
       "number, host, or noop (no network, to measure the rest)",
       &Options::device, 0, 0, {"auto", "cuda", "cuda:N", "host", "noop"}},
      {"device.threads", "--threads", "compute threads, 0 for one a core", &Options::threads, 0, 1024},
      {"device.pin_threads", "--pin-threads", "bind compute threads to cores", &Options::pin_threads},
      {"device.compute_type", "--compute-type", "type of matrix products: auto, f32, bf16 or, on a GPU, f16",
       &Options::compute_type, 0, 0, {"auto", "f32", "bf16", "f16"}},
      {"device.deterministic", "--deterministic",
       "a token never depends on what else is in the batch; false may be faster", &Options::deterministic},
      {"device.memory", "--memory", "memory for weights, arena and KV pages, 0 for most of what is free",
       &Options::memory_bytes, 0, UINT64_MAX, {}, Unit::kBytes},

      {"device.noop_iteration_us", "--noop-iteration-us", "time the noop device pretends a batch takes",
       &Options::noop_iteration_us, 0, 10'000'000},

      {"worker.placement", "--worker-placement",
       "child: the device is in a process of its own, whose death costs a restart; inline: it is in the server's; "
       "auto: child for a GPU, inline for the host",
       &Options::worker_placement, 0, 0, {"auto", "child", "inline"}},

      {"cuda.library", "--cuda-library", "the CUDA backend (default: libtroupe_cuda.so beside the executable)",
       &Options::cuda_library, 0, 0, {}, Unit::kPath},
      {"cuda.completion", "--cuda-completion",
       "how the end of a batch is noticed: poll (a word in memory), host_function or event",
       &Options::cuda_completion, 0, 0, {"poll", "host_function", "event"}},
      {"cuda.graphs", "--cuda-graphs", "replay captured graphs for batches that only decode", &Options::cuda_graphs},

      {"scheduler.max_batch_tokens", "--max-batch-tokens", "token budget of an iteration (0: 512 on the host, 2048 on a GPU)",
       &Options::max_batch_tokens, 0, 65536},
      {"scheduler.max_batch_sequences", "--max-batch-sequences", "sequences that run at once",
       &Options::max_batch_sequences, 1, 4096},
      {"scheduler.prefill_chunk", "--prefill-chunk", "most prompt tokens of one sequence in an iteration (0: 256 on the host, 2048 on a GPU)",
       &Options::prefill_chunk, 0, 65536},
      {"scheduler.max_in_flight", "--max-in-flight", "batches submitted and not yet done; more than 2 make each of them smaller",
       &Options::max_in_flight, 1, 16},
      {"scheduler.max_waiting", "--max-waiting", "requests that may wait; more get 429", &Options::max_waiting,
       0, 65536},
      {"scheduler.max_queue_seconds", "--max-queue-seconds", "longest wait before 429",
       &Options::max_queue_seconds, 1, 3600},
      {"scheduler.look_ahead_pages", "--look-ahead-pages", "KV pages leased beyond the present need",
       &Options::look_ahead_pages, 0, 64},

      {"cache.policy", "--cache-policy",
       "which KV goes first when there is no room: value (cheap to compute again, long unused), lru, "
       "or none to keep nothing",
       &Options::cache_policy, 0, 0, {"value", "lru", "none"}},
      {"cache.host_memory", "--cache-host-memory",
       "memory for KV that had to leave the device, at most; 0 for none", &Options::cache_host_memory, 0,
       UINT64_MAX, {}, Unit::kBytes},
      {"cache.disk_space", "--cache-disk-space",
       "disk space for KV in the store's directory, at most: conversations stay warm when the server is "
       "started anew; 0 for none",
       &Options::cache_disk_space, 0, UINT64_MAX, {}, Unit::kBytes},
      {"cache.keep_days", "--cache-keep-days", "KV that was not used for so many days goes; 0: it stays",
       &Options::cache_keep_days, 0, 36500},
      {"cache.measure", "--cache-measure",
       "measure at the first start what KV costs to compute and to load; false: estimate",
       &Options::cache_measure},
      {"cache.copy_ahead_percent", "--cache-copy-ahead-percent",
       "copy KV to the host ahead of need while less than this share of pages could be given away at once",
       &Options::cache_copy_ahead_percent, 0, 100},
      {"cache.keep_free_percent", "--cache-keep-free-percent",
       "a request joins others only while this share of pages stays free", &Options::cache_keep_free_percent,
       0, 90},
      {"cache.link_bandwidth", "--cache-link-bandwidth",
       "to imitate a slower link between device and host: bytes a second in each direction, 0 for as fast as memory",
       &Options::cache_link_bandwidth, 0, UINT64_MAX, {}, Unit::kBytes},
      {"cache.link_latency_us", "--cache-link-latency-us", "the latency of that link",
       &Options::cache_link_latency_us, 0, 10'000'000},

      {"store.directory", "--store-directory",
       "where conversations are kept: a directory, default ($XDG_STATE_HOME/troupe or ~/.local/state/troupe), "
       "or none to keep nothing",
       &Options::store_directory, 0, 0, {}, Unit::kPath, {"default", "none"}},
      {"store.keep_days", "--store-keep-days", "days that a stored response can be got or continued",
       &Options::store_keep_days, 1, 36500},

      {"supervisor.max_restarts", "--max-restarts", "worker restarts within the window before giving up",
       &Options::max_restarts, 0, 1000},
      {"supervisor.restart_window_seconds", "--restart-window-seconds", "the window of max_restarts",
       &Options::restart_window_seconds, 1, 86400},
      {"supervisor.actor_threads", "--actor-threads", "threads that run actors", &Options::actor_threads, 1, 64},

      {"metrics.vllm_names", "--vllm-names", "show what means the same under vLLM's metric names too",
       &Options::vllm_names},

      {"log.level", "--log-level", "debug, info, warning, error or off", &Options::log_level, 0, 0,
       {"debug", "info", "warning", "error", "off"}},
      {"log.format", "--log-format", "text or json", &Options::log_format, 0, 0, {"text", "json"}},
      {"log.requests", "--log-requests", "a line for every finished request at level info, not only debug",
       &Options::log_requests},

      {"tracing.endpoint", "--trace-endpoint",
       "OTLP/HTTP collector, http://host:4318 (also OTEL_EXPORTER_OTLP_ENDPOINT)", &Options::trace_endpoint},
      {"tracing.file", "--trace-file", "write traces to this file as OTLP JSON lines, for `troupe trace`",
       &Options::trace_file, 0, 0, {}, Unit::kPath},
      {"tracing.file_limit", "--trace-file-limit", "a trace file this large is renamed to FILE.1 and begun anew",
       &Options::trace_file_bytes, 1 << 16, UINT64_MAX, {}, Unit::kBytes},
      {"tracing.sample_ratio", "--trace-sample-ratio",
       "share of requests traced, 0 to 1, where the caller has not decided", &Options::trace_sample_ratio},
      {"tracing.keep_slower_than_ms", "--trace-keep-slower-than-ms",
       "trace requests that took longer, sampled or not; 0: only those that fail",
       &Options::trace_keep_slower_than_ms, 0, 86'400'000},
      {"tracing.max_iterations_per_second", "--trace-max-iterations-per-second",
       "spans of batches; a faster device's further batches leave none", &Options::trace_max_iterations_per_second, 0,
       1'000'000},
      {"tracing.max_queued_spans", "--trace-max-queued-spans", "spans kept for a slow collector; more are dropped",
       &Options::trace_max_queued_spans, 256, 1 << 20},
      {"tracing.service_name", "--trace-service-name", "service.name of the traces, else OTEL_SERVICE_NAME, else troupe",
       &Options::trace_service_name},
  };
  return table;
}

std::string OptionEntry::environment_name() const {
  std::string name = "TROUPE_";
  for (const char c : key) name += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::optional<std::string> set_option(Options& options, const OptionEntry& entry, std::string_view text) {
  if (const auto* number = std::get_if<std::uint64_t Options::*>(&entry.field))
    return set_number(options, entry, *number, text);
  if (const auto* flag = std::get_if<bool Options::*>(&entry.field)) {
    const auto value = parse_bool(text);
    if (!value) return "expected true or false, got '" + std::string(text) + "'";
    options.*(*flag) = *value;
    return std::nullopt;
  }
  if (const auto* share = std::get_if<double Options::*>(&entry.field)) return set_share(options, *share, text);
  const auto& choices = entry.choices;
  const auto is_text = [&](std::string_view choice) { return matches(choice, text); };
  if (!choices.empty() && std::none_of(choices.begin(), choices.end(), is_text))
    return "expected one of " + joined(choices) + ", got '" + std::string(text) + "'";
  options.*std::get<std::string Options::*>(entry.field) = std::string(text);
  return std::nullopt;
}

std::string option_text(const Options& options, const OptionEntry& entry) {
  if (const auto* number = std::get_if<std::uint64_t Options::*>(&entry.field))
    return std::to_string(options.*(*number));
  if (const auto* flag = std::get_if<bool Options::*>(&entry.field)) return options.*(*flag) ? "true" : "false";
  if (const auto* share = std::get_if<double Options::*>(&entry.field)) return shortest_text(options.*(*share));
  return options.*std::get<std::string Options::*>(entry.field);
}

Options resolve_options(const OptionSources& sources) {
  Options options;
  if (sources.file) apply_file(options, *sources.file);
  apply_environment(options, sources.environment);
  for (const auto& [flag, value] : sources.flags) {
    const auto* entry = find_by_flag(flag);
    if (entry == nullptr) refuse_unknown("command line", flag, known_flags());
    if (const auto wrong = set_option(options, *entry, value)) refuse(flag, *wrong);
  }
  return options;
}

}  // namespace troupe
