// SPDX-License-Identifier: Apache-2.0
#include "app/serve.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <sstream>
#include <thread>

#include "app/api_keys.hpp"
#include "app/command_line.hpp"
#include "app/disk_cache.hpp"
#include "app/model_loading.hpp"
#include "app/page_costs.hpp"
#include "app/state.hpp"
#include "app/tracing.hpp"
#include "http/server.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kEngineFailed = 70;  // sysexits: EX_SOFTWARE
constexpr seconds kShutdownGrace{8};
constexpr seconds kFlushTime{5};  // of that, for KV on its way to the disk

// The signals that end the server, blocked in all threads and taken by one.
sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// The signal that came within the time, or 0.
int wait_for_signal(const sigset_t& signals, milliseconds time) {
  const timespec limit{.tv_sec = time.count() / 1000, .tv_nsec = (time.count() % 1000) * 1'000'000};
  const int signal = ::sigtimedwait(&signals, nullptr, &limit);
  return signal > 0 ? signal : 0;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

ServerOptions server_options(const Options& options, Tracer* tracer) {
  ServerOptions server;
  server.tracer = tracer;
  server.host = options.host;
  server.port = static_cast<std::uint16_t>(options.port);
  server.io_threads = static_cast<std::uint32_t>(options.io_threads);
  server.api_keys = load_api_keys(options);
  server.allow_public_without_key = options.allow_open_network;
  server.cors_origins = split_at_commas(options.cors_origins);
  server.version = version_text();
  server.limits.max_body_bytes = options.max_body_bytes;
  // What the engine saw it logs itself, with all that is known of it.
  server.access_log = [is_wanted = options.log_requests](const AccessRecord& record) {
    const bool is_debug = record.was_submitted || record.is_probe || !is_wanted;
    log(is_debug ? LogLevel::kDebug : LogLevel::kInfo, "http request",
        {{"request_id", record.request_id},
         {"trace_id", record.trace_id},
         {"method", record.method},
         {"route", record.route},
         {"status", record.status},
         {"ms", static_cast<double>(record.duration.count()) / 1000}});
  };
  return server;
}

ServedModelInfo served_model_info(const Options& options, const LoadedModel& model) {
  ServedModelInfo info;
  info.name = model.served.name;
  info.created = static_cast<std::int64_t>(std::time(nullptr));
  info.context_length = model.context_length;
  const auto defaults = load_generation_defaults(options.model_dir);
  info.defaults.temperature = defaults.temperature.value_or(info.defaults.temperature);
  info.defaults.top_p = defaults.top_p.value_or(info.defaults.top_p);
  info.defaults.top_k = defaults.top_k.value_or(info.defaults.top_k);
  return info;
}

void say_ready(const Options& options, const std::string& model, std::uint16_t port, double start_seconds) {
  const bool is_v6 = options.host.find(':') != std::string::npos;
  const std::string host = is_v6 ? "[" + options.host + "]" : options.host;
  const std::string address = "http://" + host + ":" + std::to_string(port);
  const bool is_open = options.api_key.empty() && options.api_keys_file.empty();
  const std::string key = is_open ? "" : " -H 'Authorization: Bearer KEY'";
  std::printf(
      "%s is ready at %s (%.2f s). Try:\n\n"
      "  curl -N %s/v1/chat/completions%s -H 'Content-Type: application/json' -d '{\"model\": \"%s\", "
      "\"stream\": true, \"messages\": [{\"role\": \"user\", \"content\": \"Count from 3 to 7.\"}]}'\n\n"
      "Ctrl-C ends it.\n",
      model.c_str(), address.c_str(), start_seconds, address.c_str(), key.c_str(), model.c_str());
  std::fflush(stdout);
}

// The worker makes its device while the server listens already; /ready says 503
// until then. False if it can't be made, or a signal came first.
bool wait_until_ready(const Engine& engine, const sigset_t& signals) {
  while (engine.status().state == EngineState::kStarting)
    if (wait_for_signal(signals, milliseconds(1)) != 0) return false;
  return engine.status().state == EngineState::kReady;
}

// Lets running answers finish. A second signal, or a shutdown that takes longer
// than it may, ends the process on the spot.
void drain(Server& server, Engine& engine, const sigset_t& signals, seconds deadline) {
  log(LogLevel::kInfo, "draining", {{"seconds", static_cast<std::int64_t>(deadline.count())}});
  std::atomic<bool> is_done{false};
  const auto give_up = std::chrono::steady_clock::now() + deadline + kShutdownGrace;
  std::jthread guard([&] {
    while (!is_done) {
      if (wait_for_signal(signals, milliseconds(100)) != 0) ::_exit(130);
      if (std::chrono::steady_clock::now() > give_up) ::_exit(0);
    }
  });
  server.drain(deadline);
  engine.drain(milliseconds(0));
  engine.flush(kFlushTime);
  server.stop();
  is_done = true;
}

}  // namespace

int run_serve(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto signals = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error, not the end

  auto model = load_model(options);
  Metrics metrics(
      model.served.name,
      {.version = TROUPE_VERSION, .vllm_names = options.vllm_names, .context_length = model.context_length});
  const auto tracer = make_tracer(options, metrics);
  const auto state_directory = open_state_directory(options);
  EngineOptions engine_settings = engine_options(model.options);
  const RestoreCosts costs = page_costs(options, model, state_directory.get());
  model.served.recompute_cost = costs.recompute;
  engine_settings.cache.load_from_host = costs.host;
  engine_settings.cache.load_from_disk = costs.disk;
  engine_settings.cache.disk = open_disk_cache(options, model, state_directory.get());
  engine_settings.store.directory = state_directory;
  Engine engine(model.served, model.make_device, engine_settings, metrics, tracer.get());
  Server server(engine, metrics, served_model_info(options, model), server_options(options, tracer.get()));
  server.start();
  if (!wait_until_ready(engine, signals)) {
    server.stop();
    return engine.status().state == EngineState::kFailed ? kEngineFailed : 0;
  }
  const auto start_time = std::chrono::steady_clock::now() - start;
  log(LogLevel::kInfo, "ready",
      {{"model", model.served.name},
       {"device", model.device_summary},
       {"host", options.host},
       {"port", server.port()}});
  say_ready(options, model.served.name, server.port(), std::chrono::duration<double>(start_time).count());

  for (;;) {
    if (wait_for_signal(signals, milliseconds(200)) != 0) {
      drain(server, engine, signals, seconds(options.drain_seconds));
      log(LogLevel::kInfo, "stopped");
      return 0;
    }
    if (engine.status().state == EngineState::kFailed) {
      log(LogLevel::kError, "the engine has failed and gives up");
      server.drain(seconds(1));
      server.stop();
      return kEngineFailed;
    }
  }
}

}  // namespace troupe
