// SPDX-License-Identifier: Apache-2.0
// The HTTP server: listens, speaks the OpenAI-compatible API and streams what
// the engine generates. Owns its threads; everything of a connection happens on
// the one io thread it was given to.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/request/tenant_account.hpp"
#include "http/api/served_model_info.hpp"
#include "http/limits.hpp"
#include "http/routing/key_digest.hpp"

namespace troupe {

class Engine;
class ListeningSocket;
class Metrics;
class TlsIdentity;
class Tracer;

// One answered request, for the access log. Never any content: what a client
// wrote appears only as a known method, a known route and a checked id.
struct AccessRecord {
  std::string_view method;  // "GET" … or "other"
  std::string_view route;   // "/v1/chat/completions" … or "other"
  unsigned status = 0;      // 499: the client left before it was answered
  std::chrono::microseconds duration{0};
  std::string_view request_id;
  std::string trace_id;        // 32 hex digits
  bool was_submitted = false;  // to the engine, which has logged it too
  bool is_probe = false;       // of health or metrics
};

// A key names its tenant, which sees its own responses only and shares KV pages
// with no other.
struct ApiKey {
  std::string tenant;  // 1 to 64 of [A-Za-z0-9._-]
  KeyDigest key;
};

// A response in the background that an earlier process did not finish.
struct InterruptedAnswer {
  std::string id, tenant, flow;
  std::int64_t created = 0;                        // Unix seconds
  std::uint64_t seed = 0;                          // of its draws
  std::string body = {};                           // the client's JSON
  std::vector<std::int32_t> tokens = {};           // as they were drawn
  std::uint64_t vocabulary = 0;                    // BackgroundRun's
  std::optional<std::uint32_t> unbound_from = {};  // so, too
  bool is_given_up = false;                        // it has ended process after process
};

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address, no name
  std::uint16_t port = 8000;       // 0: any free one
  std::uint32_t io_threads = 1;
  std::vector<ApiKey> api_keys;         // empty: none is asked for, all are one tenant
  TenantLimitTable tenant_limits = {};  // of the keys' tenants
  // A non-loopback host without a key is refused unless this is set.
  bool allow_public_without_key = false;
  // /metrics, /traces, /version and the probes are served there without a key, on the
  // same host; nothing else is. 0: any free port. Absent: there is none.
  std::optional<std::uint16_t> metrics_port;
  // Ollama's API is served there, on the same host and as the rest is here. 0: any free port. Absent: it
  // is not served.
  std::optional<std::uint16_t> ollama_port;
  std::vector<std::string> model_aliases;  // or "*": names besides those of the models
  std::vector<std::string> cors_origins;   // is_origin(): exact, or "*"
  // is_host(). Where no key is asked for, requests for these hosts are answered, for
  // loopback ones and the address listened on, and for no others. Empty with
  // allow_public_without_key: for any, except on the port for metrics.
  std::vector<std::string> allowed_hosts;
  // With it all ports speak TLS and nothing else. Null: plain HTTP.
  std::shared_ptr<const TlsIdentity> tls;
  bool has_page = true;             // the web page at /
  std::string version = "unknown";  // of troupe, for /version
  Limits limits;
  // Called on io threads after each answered request; must not block.
  std::function<void(const AccessRecord&)> access_log;
  // Must outlive the server. Null: nothing is traced; ids are passed on all the same.
  Tracer* tracer = nullptr;
  // Listens on host and port already; the server takes it over. Null: start() makes it.
  std::shared_ptr<ListeningSocket> socket;
  std::shared_ptr<ListeningSocket> metrics_socket;  // the same of metrics_port
  std::shared_ptr<ListeningSocket> ollama_socket;   // and of ollama_port
  std::vector<InterruptedAnswer> interrupted;       // start() takes them up
};

// Throws std::runtime_error if the options would open the server to the network
// without asking for a key.
void check_exposure(const ServerOptions& options);

class Server {
 public:
  // Engine and metrics must outlive the server. A model's place is its index in the
  // engine; a request that names none gets the first that can do what it asks for.
  // Throws std::runtime_error if there is no model or two have the same name.
  Server(Engine& engine, Metrics& metrics, std::vector<ServedModelInfo> models, ServerOptions options);
  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Binds, listens and starts the threads. Throws std::runtime_error that names
  // host and port if that can't be.
  void start();

  // The port listened on, once started.
  std::uint16_t port() const;
  // That of metrics; 0: there is none.
  std::uint16_t metrics_port() const;
  // That of Ollama's API; 0: there is none.
  std::uint16_t ollama_port() const;

  // Keys, limits of tenants, origins and hosts of `options` take the place of those in force, for requests
  // that begin from now on. Throws as check_exposure(): then nothing changes. Any thread.
  void replace_access(const ServerOptions& options);

  // Stops serving politely: /ready says 503 at once, new generation requests
  // get 503, idle connections are closed, answers under way may finish. The
  // ones that have not by the deadline are ended with an error. Probes and metrics
  // go on being answered until stop(). Returns when no answer is under way.
  // May be called from any thread but an io thread; only once.
  void drain(std::chrono::milliseconds deadline);

  // Cancels what is under way, closes everything, joins the threads. Idempotent.
  void stop();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe
