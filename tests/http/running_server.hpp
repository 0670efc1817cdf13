// SPDX-License-Identifier: Apache-2.0
// A server on a free loopback port before a scripted engine.
#pragma once

#include <functional>

#include "http/api/served_models.hpp"
#include "http/server/server.hpp"
#include "scripted_engine.hpp"
#include "telemetry/metrics/metrics.hpp"
#include "test_client.hpp"

namespace troupe::test {

inline ServedModelInfo demo_model() {
  return {.name = "demo", .created = 1700000000, .context_length = 2048, .defaults = {}};
}

inline ServedModelInfo embedding_model() {
  return {.name = "minilm",
          .kind = ModelKind::kEmbedding,
          .created = 1700000001,
          .context_length = 256,
          .defaults = {},
          .embedding_size = 4};
}
// A cross-encoder, and a classifier of three labels.
inline ServedModelInfo ranking_model() {
  return {.name = "ranker",
          .kind = ModelKind::kClassifying,
          .created = 1700000002,
          .context_length = 128,
          .defaults = {},
          .labels = {"LABEL_0"}};
}
inline ServedModelInfo mood_model() {
  return {.name = "moods",
          .kind = ModelKind::kClassifying,
          .created = 1700000003,
          .context_length = 128,
          .defaults = {},
          .labels = {"bad", "so-so", "good"}};
}
inline ServedModels demo_models() { return ServedModels({demo_model(), embedding_model()}); }

class RunningServer {
 public:
  explicit RunningServer(const std::function<void(ServerOptions&)>& adjust = {})
      : RunningServer({demo_model(), embedding_model()}, adjust) {}
  explicit RunningServer(std::vector<ServedModelInfo> models,
                         const std::function<void(ServerOptions&)>& adjust = {})
      : metrics_("demo"), engine_({}, {}, {}, metrics_) {
    ServerOptions options;
    options.port = 0;
    if (adjust) adjust(options);
    server_ = std::make_unique<Server>(engine_, metrics_, std::move(models), options);
    server_->start();
  }

  std::uint16_t port() const { return server_->port(); }
  EngineScript& script() { return script_of(engine_); }
  Server& server() { return *server_; }
  Metrics& metrics() { return metrics_; }
  // A sample of /metrics, as text; empty if there is none.
  std::string metric(std::string_view name) {
    const std::string all = metrics_.expose();
    const std::size_t at = all.find(std::string("\n").append(name).append("{"));
    if (at == std::string::npos) return {};
    const std::size_t space = all.find("} ", at) + 2;
    return all.substr(space, all.find('\n', space) - space);
  }

 private:
  Metrics metrics_;
  Engine engine_;
  std::unique_ptr<Server> server_;
};

}  // namespace troupe::test
