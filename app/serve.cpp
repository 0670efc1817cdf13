// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "app/api_keys.hpp"
#include "app/commands.hpp"
#include "app/costs/cell_batches.hpp"
#include "app/costs/encoder_costs.hpp"
#include "app/costs/page_costs.hpp"
#include "app/descriptor_limit.hpp"
#include "app/loading/backend_choice.hpp"
#include "app/loading/disk_cache.hpp"
#include "app/loading/model_facts.hpp"
#include "app/loading/model_fingerprint.hpp"
#include "app/loading/model_set.hpp"
#include "app/options/command_line.hpp"
#include "app/options/configuration_error.hpp"
#include "app/options/option_checks.hpp"
#include "app/reload.hpp"
#include "app/service_manager.hpp"
#include "app/start_extension.hpp"
#include "app/state.hpp"
#include "app/tls.hpp"
#include "app/tracing.hpp"
#include "http/server/listening_socket.hpp"
#include "http/server/loading_responder.hpp"
#include "http/server/server.hpp"
#include "policy/health/watchdog_feed.hpp"
#include "store/answer_journal.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kEngineFailed = 70;  // sysexits: EX_SOFTWARE
constexpr milliseconds kLookInterval{200};
constexpr seconds kShutdownGrace{8};
constexpr seconds kFlushTime{5};               // of that, for KV on its way to the disk
constexpr seconds kStopTime{5};                // for actors and their threads to end
constexpr milliseconds kStopTimeAtStart{100};  // a device that is being made is not waited for
constexpr seconds kTimeForLastLines{1};
constexpr seconds kMargin{30};                  // for a machine that is slow, until the service manager kills
constexpr std::uint32_t kMostFutileStarts = 3;  // of a response that may be what ends the server

ServerOptions server_options(const Options& options) {
  ServerOptions server;
  read_access(options, server);
  server.io_threads = static_cast<std::uint32_t>(options.io_threads);
  if (options.metrics_port != 0) server.metrics_port = static_cast<std::uint16_t>(options.metrics_port);
  if (options.ollama_port != 0) server.ollama_port = static_cast<std::uint16_t>(options.ollama_port);
  server.has_page = options.page;
  server.model_aliases = split_at_commas(options.model_aliases);
  server.version = version_text();
  server.limits.max_body_bytes = options.max_body_bytes;
  // The engine logs itself what it saw, with all that is known of it.
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

std::string names_of(const std::vector<std::string>& fields) {
  std::string names;
  for (const std::string& field : fields) names += (names.empty() ? "" : ", ") + field;
  return names;
}

SamplingDefaults sampling_defaults(const LoadedModel& model) {
  auto recommended = load_generation_defaults(model.options.models.front().dir);
  // It would be of the answer's tokens; ours are of the source's as well.
  if (model.config.translator && recommended.repetition_penalty.value_or(1.0F) != 1.0F) {
    recommended.repetition_penalty.reset();
    recommended.unapplied.emplace_back("repetition_penalty");
  }
  if (!recommended.unapplied.empty())
    log(LogLevel::kWarning, "the model recommends sampling that is not applied",
        {{"model", model.served.name}, {"fields", names_of(recommended.unapplied)}});
  SamplingDefaults defaults;
  defaults.temperature = recommended.temperature.value_or(defaults.temperature);
  defaults.top_p = recommended.top_p.value_or(defaults.top_p);
  defaults.top_k = recommended.top_k.value_or(defaults.top_k);
  defaults.min_p = recommended.min_p.value_or(defaults.min_p);
  defaults.repetition_penalty = recommended.repetition_penalty.value_or(defaults.repetition_penalty);
  return defaults;
}

ServedModelInfo served_model_info(const LoadedModel& model) {
  ServedModelInfo info;
  info.name = model.served.name;
  info.kind = model.served.kind;
  if (model.served.kind == ModelKind::kEmbedding) {
    info.embedding_size = model.served.vector_size;
    info.prompts = load_sentence_prompts(model.options.models.front().dir);
  } else if (model.served.kind == ModelKind::kClassifying) {
    info.labels = *model.config.labels();
    info.classifies_trees = model.config.tree.has_value();
    info.has_independent_labels = model.config.encoder && model.config.encoder->classifier->are_independent;
  }
  info.created = static_cast<std::int64_t>(std::time(nullptr));
  info.context_length = model.context_length;
  info.hears_lengths = model.options.serving.reservation == ReservationPolicy::kOracle;
  if (model.served.chat_template) {
    const AnswerFormat& format = model.served.chat_template->answer_format();
    info.calls_tools = format.calls.has_value();
    info.reasons = format.reasoning.exists();
    info.switches_reasoning = !model.served.chat_template->thinking_switch().empty();
  }
  info.defaults = sampling_defaults(model);
  return info;
}

std::string example_of(const LoadedModel& model) {
  if (model.config.tree)
    return R"(/v1/classify -d '{"model": ")" + model.served.name +
           R"tree(", "input": "(3 (2 It) (4 works))"}')tree";
  if (model.config.recurrent || model.config.translator)
    return R"(/v1/completions -d '{"model": ")" + model.served.name + R"(", "prompt": "hello"}')";
  if (model.served.kind == ModelKind::kClassifying && model.config.labels()->size() == 1)
    return R"(/v1/rerank -d '{"model": ")" + model.served.name +
           R"(", "query": "Who counts?", "documents": ["Ada counts.", "It rains."]}')";
  if (model.served.kind == ModelKind::kClassifying)
    return R"(/v1/classify -d '{"model": ")" + model.served.name + R"(", "input": "Count from 3 to 7."}')";
  if (model.served.kind == ModelKind::kEmbedding)
    return R"(/v1/embeddings -d '{"model": ")" + model.served.name + R"(", "input": "Count from 3 to 7."}')";
  return R"(/v1/chat/completions -d '{"model": ")" + model.served.name +
         R"(", "stream": true, "messages": [{"role": "user", "content": "Count from 3 to 7."}]}')";
}

void say_ready(const Options& options, const std::vector<LoadedModel>& models, std::uint16_t port,
               double start_seconds) {
  const bool is_v6 = options.host.find(':') != std::string::npos;
  const std::string host = is_v6 ? "[" + options.host + "]" : options.host;
  const std::string scheme = options.tls_certificate.empty() ? "http://" : "https://";
  const std::string address = scheme + host + ":" + std::to_string(port);
  const bool is_open = options.api_key.empty() && options.api_keys_file.empty();
  const std::string key = is_open ? "" : " -H 'Authorization: Bearer KEY'";
  std::printf("%s is ready at %s (%.2f s). Try:\n\n", joined_names(models).c_str(), address.c_str(),
              start_seconds);
  for (const auto& model : models) {
    const std::string example = example_of(model);
    const auto end_of_path = example.find(' ');
    std::printf("  curl -N %s%s%s -H 'Content-Type: application/json'%s\n", address.c_str(),
                example.substr(0, end_of_path).c_str(), key.c_str(), example.substr(end_of_path).c_str());
  }
  std::printf("\nCtrl-C ends it.\n");
  std::fflush(stdout);
}

// A port that is in use, or an address that comes later, is no wrong configuration: the next
// start may find it free.
std::shared_ptr<ListeningSocket> listen(const std::string& option, const ServerOptions& server,
                                        std::uint16_t port) {
  try {
    return std::make_shared<ListeningSocket>(server.host, port, server.limits.listen_backlog);
  } catch (const AddressNotFree& error) {
    throw std::runtime_error(option + ": " + error.what());
  } catch (const std::exception& error) {
    throw ConfigurationError(option + ": " + error.what());
  }
}

// Finds all that can be wrong with the options of the network before anything is
// loaded. The sockets listen then.
ServerOptions checked_server_options(const Options& options) {
  ServerOptions server = server_options(options);
  from_option("--host, --allow-open-network", [&] { check_exposure(server); });
  server.socket = listen("--host, --port", server, server.port);
  if (server.metrics_port)
    server.metrics_socket = listen("--host, --metrics-port", server, *server.metrics_port);
  if (server.ollama_port) server.ollama_socket = listen("--host, --ollama-port", server, *server.ollama_port);
  log(LogLevel::kInfo, "listening", {{"host", server.host}, {"port", server.socket->port()}});
  return server;
}

// The worker makes its device while the server listens already; /ready says 503
// until then. False if it can't be made, or a signal came first.
bool wait_until_ready(const Engine& engine, EndingSignals& signals) {
  while (engine.status().state == EngineState::kStarting)
    if (signals.wait(milliseconds(1))) return false;
  return engine.status().state == EngineState::kReady;
}

// Lets running answers finish.
void drain(Server& server, Engine& engine, EndingSignals& signals, seconds deadline) {
  log(LogLevel::kInfo, "draining", {{"seconds", static_cast<std::int64_t>(deadline.count())}});
  signals.give_up_after(deadline + kShutdownGrace);
  server.drain(deadline);
  engine.drain(milliseconds(0));
  engine.flush(kFlushTime);
  server.stop();
}

// Answers what is open with an error, and closes.
void cut_off(Server& server, milliseconds time) {
  server.drain(time);
  server.stop();
}

// The status to end with. A device or an actor that hangs must not keep the
// process, nor may what its threads use be taken from under them.
int leave(Engine& engine, int status, milliseconds time) {
  if (engine.stop(time)) return status;
  flush_log(kTimeForLastLines);
  std::_Exit(status);
}

// The status to end with, where no device was made or a signal came first.
int leave_before_ready(Server& server, Engine& engine) {
  const bool has_failed = engine.status().state == EngineState::kFailed;
  if (!has_failed) log(LogLevel::kInfo, "stopped while loading");
  cut_off(server, milliseconds(0));
  return leave(engine, has_failed ? kEngineFailed : 0, kStopTimeAtStart);
}

// Tokens ought to move and don't. The server's own measures, a new device or the end, come within
// a minute, before the watchdog's.
bool is_stuck(const EngineStatus& status) {
  return status.trouble == Trouble::kDeviceHangs || status.trouble == Trouble::kEngineHangs;
}

// The watchdog of the service manager, who ends the process if it is not fed.
class Watchdog {
 public:
  explicit Watchdog(const ServiceManager& manager)
      : manager_(manager), feed_(manager.watchdog_limit(), std::chrono::steady_clock::now()) {}

  void look(Engine& engine) {
    const auto now = std::chrono::steady_clock::now();
    const std::uint64_t num_signs = engine.watch(feed_.wants_sign(now));
    if (!feed_.is_due(now, num_signs, is_stuck(engine.status()))) return;
    if (manager_.feed_watchdog()) feed_.note_fed(now, num_signs);
  }

 private:
  const ServiceManager& manager_;
  WatchdogFeed feed_;
};

// Until it is told to end, or the engine fails. The status to end with.
int serve(Server& server, Engine& engine, EndingSignals& signals, const ServiceManager& manager,
          Reload& reload) {
  Watchdog watchdog(manager);
  manager.say_ready();
  while (engine.status().state != EngineState::kFailed) {
    watchdog.look(engine);
    const bool is_to_end = signals.wait(kLookInterval);
    if (signals.take_hangup()) {
      manager.say_reloading();
      reload.run() ? manager.say_ready() : manager.say_reload_refused();
    }
    if (!is_to_end) continue;
    const seconds deadline(reload.options().drain_seconds);
    manager.say_stopping(deadline + kShutdownGrace + kMargin);
    drain(server, engine, signals, deadline);
    log(LogLevel::kInfo, "stopped");
    return leave(engine, 0, kStopTime);
  }
  log(LogLevel::kError, "the engine has failed and gives up");
  manager.say_stopping(kShutdownGrace + kMargin);
  cut_off(server, seconds(1));
  return leave(engine, kEngineFailed, kStopTime);
}

// Costs of pages, by which each model that generates keeps them: measured for the
// first, whose pages go to the disk too, estimated for the others.
void keep_pages(std::vector<LoadedModel>& models, const StateDirectory* directory, CacheOptions& cache) {
  const LoadedModel* first = first_with_pages(models);
  for (LoadedModel& model : models) {
    if (&model != first) continue;
    const RestoreCosts costs = page_costs(model.options, model, directory);
    model.served.recompute_cost = costs.recompute;
    cache.load_from_host = costs.host;
    cache.load_from_disk = costs.disk;
    cache.disk = open_disk_cache(model.options, model, directory);
    cache.is_disk_lacking = !cache.disk && wants_disk_cache(model.options, directory);
  }
}

// Where batches are planned by what they take.
void measure_encoders(std::vector<LoadedModel>& models, const StateDirectory* directory) {
  for (LoadedModel& model : models) {
    const bool encodes = !model.served.has_pages() && !model.served.unfolding();
    if (!encodes || model.options.serving.encoder_batching != EncoderBatching::kDp) continue;
    model.served.encoder_costs = encoder_costs(model, directory);
    model.served.encoder_cost_key = encoder_cost_key(model);
  }
}

std::uint32_t longest_context(const std::vector<LoadedModel>& models) {
  std::uint32_t longest = 0;
  for (const LoadedModel& model : models) longest = std::max(longest, model.context_length);
  return longest;
}

// Fingerprints tell whose states and vectors were learnt of: the predictor keeps what it knows by them.
void tell_models_apart(std::vector<LoadedModel>& models, std::optional<ModelIndex> encoder,
                       const StateDirectory* directory) {
  if (!directory) return;
  for (ModelIndex index = 0; index < models.size(); ++index) {
    LoadedModel& model = models[index];
    if (!(model.served.has_pages() || index == encoder) || !model.options.serving.foresees_lengths())
      continue;
    try {
      model.served.fingerprint =
          state_fingerprint(model.options.models.front().dir, model.computation, directory->descriptor());
    } catch (const std::exception& error) {
      log(LogLevel::kWarning,
          "what is learnt of lengths is not kept, and what was is not read: the model's files are not known",
          {{"model", model.served.name}, {"reason", error.what()}});
    }
  }
}

// Where nodes of any requests share batches, whose size is then ours to choose.
void measure_cells(std::vector<LoadedModel>& models, const StateDirectory* directory) {
  for (LoadedModel& model : models)
    if (model.served.unfolding() && model.options.serving.cell_batching == CellBatching::kCells)
      model.served.max_cell_batches = cell_batches(model, directory);
}

// Responses in the background that the process before this one did not finish.
std::vector<InterruptedAnswer> interrupted_answers(const std::shared_ptr<const StateDirectory>& directory) {
  std::vector<InterruptedAnswer> interrupted;
  if (!directory) return interrupted;
  AnswerJournal journal(directory);
  for (JournaledAnswer& answer : journal.read()) {
    const bool is_given_up = answer.num_futile_starts >= kMostFutileStarts;
    if (is_given_up) journal.end(answer.id);
    interrupted.push_back({.id = std::move(answer.id),
                           .tenant = std::move(answer.tenant),
                           .flow = std::move(answer.flow),
                           .created = answer.created,
                           .seed = answer.seed,
                           .body = std::move(answer.body),
                           .tokens = std::move(answer.tokens),
                           .vocabulary = answer.vocabulary,
                           .unbound_from = answer.unbound_from,
                           .is_given_up = is_given_up});
  }
  return interrupted;
}

void log_ready(const Options& options, const std::vector<LoadedModel>& models, const Server& server) {
  log(LogLevel::kInfo, "ready",
      {{"model", joined_names(models)},
       {"device", models.front().device_summary},
       {"host", options.host},
       {"port", server.port()}});
  if (server.metrics_port() != 0)
    log(LogLevel::kInfo, "metrics are served", {{"host", options.host}, {"port", server.metrics_port()}});
  if (server.ollama_port() != 0)
    log(LogLevel::kInfo, "clients of Ollama are served",
        {{"host", options.host}, {"port", server.ollama_port()}});
}

// A client that is gone, or a file that may not grow, is an error where it is written to, not the end.
void ignore_signals_of_files() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace

int run_serve(const ServeCommand& command, EndingSignals& signals) {
  const Options& options = command.options;
  const ServiceManager manager;
  const auto start = std::chrono::steady_clock::now();
  ignore_signals_of_files();
  raise_descriptor_limit();

  check_model_directory(options);
  check_model_name(options);
  const auto length_encoder = find_length_encoder(options);
  check_cuda_settings(options);
  auto tracing = prepare_tracing(options);
  const auto tls = from_option("--tls-certificate, --tls-key", [&] { return load_tls_identity(options); });
  if (tls || command.sources.file || !options.api_keys_file.empty()) signals.keep_hangups();
  ServerOptions for_server = checked_server_options(options);
  for_server.tls = tls;
  const auto state_directory = open_state_directory(options);
  LoadingResponder responder(*for_server.socket, for_server.metrics_socket.get(),
                             for_server.ollama_socket.get(), tls.get());
  auto extension = std::make_unique<StartExtension>(manager);
  auto models = load_models(with_opened_directory(options, state_directory.get()));
  Metrics metrics(joined_names(models), {.version = TROUPE_VERSION,
                                         .vllm_names = options.vllm_names,
                                         .context_length = longest_context(models)});
  const auto tracer = make_tracer(std::move(tracing), metrics);
  for_server.tracer = tracer.get();
  EngineOptions engine_settings = engine_options(models.front().options);
  engine_settings.serving.max_waiting = options.serving.max_waiting;  // of all models together, at the door
  keep_pages(models, state_directory.get(), engine_settings.cache);
  engine_settings.length_encoder = length_encoder;
  tell_models_apart(models, length_encoder, state_directory.get());
  measure_encoders(models, state_directory.get());
  measure_cells(models, state_directory.get());
  engine_settings.store.directory = state_directory;
  for_server.interrupted = interrupted_answers(state_directory);
  std::vector<ServedModelInfo> infos;
  std::vector<EngineModel> engine_models;
  for (const auto& model : models) {
    infos.push_back(served_model_info(model));
    if (options.ollama_port != 0) infos.back().facts = model_facts(model);
    engine_models.push_back({.served = model.served,
                             .make_device = model.make_device,
                             .serving = engine_options(model.options).serving});
  }
  signals.begin_serving();
  Engine engine(std::move(engine_models), engine_settings, metrics, tracer.get());
  Server server(engine, metrics, std::move(infos), std::move(for_server));
  responder.stop_accepting();
  server.start();
  if (!wait_until_ready(engine, signals)) return leave_before_ready(server, engine);
  const auto start_time = std::chrono::steady_clock::now() - start;
  extension.reset();  // before it says that it is ready
  log_ready(options, models, server);
  say_ready(options, models, server.port(), std::chrono::duration<double>(start_time).count());
  Reload reload(command, server, tracer.get(), tls.get());
  return serve(server, engine, signals, manager, reload);
}

}  // namespace troupe
