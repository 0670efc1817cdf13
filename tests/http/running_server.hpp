// SPDX-License-Identifier: Apache-2.0
// A server on a free loopback port before a scripted engine.
#pragma once

#include <functional>

#include "http/server.hpp"
#include "scripted_engine.hpp"
#include "telemetry/metrics.hpp"
#include "test_client.hpp"

namespace troupe::test {

inline ServedModelInfo demo_model() {
  return {.name = "demo", .created = 1700000000, .context_length = 2048, .defaults = {}};
}

class RunningServer {
 public:
  explicit RunningServer(const std::function<void(ServerOptions&)>& adjust = {})
      : metrics_("demo"), engine_({}, {}, {}, metrics_) {
    ServerOptions options;
    options.port = 0;
    if (adjust) adjust(options);
    server_ = std::make_unique<Server>(engine_, metrics_, demo_model(), options);
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
