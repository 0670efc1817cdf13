// SPDX-License-Identifier: Apache-2.0
#include "http/server/loading_responder.hpp"

#include <string>

#include <doctest/doctest.h>

#include "tests/http/test_client.hpp"
#include "tests/http/tls/test_identity.hpp"
#include "tests/http/tls/tls_client.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

TestResponse ask(const ListeningSocket& socket, const std::string& target) {
  TestClient client(socket.port());
  client.send(get_request(target));
  return client.read_response();
}

}  // namespace

TEST_CASE("loading responder: the port for metrics is answered as the other is") {
  const ListeningSocket api("127.0.0.1", 0, 16), metrics("127.0.0.1", 0, 16);
  const LoadingResponder responder(api, &metrics);
  for (const auto* socket : {&api, &metrics}) {
    CHECK(ask(*socket, "/live").status == 200);
    CHECK(ask(*socket, "/ready").body == "{\"status\":\"loading\"}");
    const auto refused = ask(*socket, "/metrics");
    CHECK(refused.status == 503);
    CHECK_FALSE(refused.field("Retry-After").empty());
  }
}

TEST_CASE("loading responder: the port for metrics may be missing") {
  const ListeningSocket api("127.0.0.1", 0, 16);
  const LoadingResponder responder(api, nullptr);
  CHECK(ask(api, "/live").status == 200);
}

TEST_CASE("loading responder: clients of Ollama get errors in its shape") {
  const ListeningSocket api("127.0.0.1", 0, 16), ollama("127.0.0.1", 0, 16);
  const LoadingResponder responder(api, nullptr, &ollama);
  const auto refused = ask(ollama, "/api/tags");
  CHECK(refused.status == 503);
  CHECK(refused.body == R"({"error":"the server is loading its model"})");
  CHECK(ask(ollama, "/v1/models").body.find(R"("message":"the server is loading its model")") !=
        std::string::npos);
}

TEST_CASE("loading responder: both ports' connections wait for the server once it accepts no more") {
  const ListeningSocket api("127.0.0.1", 0, 16), metrics("127.0.0.1", 0, 16);
  LoadingResponder first(api, &metrics);
  first.stop_accepting();
  TestClient to_api(api.port()), to_metrics(metrics.port());
  to_api.send(get_request("/live"));
  to_metrics.send(get_request("/live"));
  const LoadingResponder second(api, &metrics);
  CHECK(to_api.read_response().status == 200);
  CHECK(to_metrics.read_response().status == 200);
}

TEST_CASE("loading responder: with TLS clients are answered in it, and plain HTTP is told so") {
  const ListeningSocket api("127.0.0.1", 0, 16), ollama("127.0.0.1", 0, 16);
  const TestCertificate certificate("loading");
  const TestIdentity identity(certificate);
  const LoadingResponder responder(api, nullptr, &ollama, (*identity).get());
  TlsClient client(api.port(), {.trusted = certificate.pem()});
  client.send(get_request("/live"));
  CHECK(client.read_response().status == 200);
  CHECK(client.read_to_end().empty());
  CHECK(client.was_told_of_end());
  const std::string words = "this port speaks TLS: call it by https://";
  const TestResponse refused = ask(api, "/live");
  CHECK(refused.status == 400);
  CHECK(refused.body.find("\"message\":\"" + words + "\"") != std::string::npos);
  CHECK(ask(ollama, "/live").body == R"({"error":")" + words + "\"}");
  TestClient other(api.port());
  other.send("SSH-2.0-client\r\n");
  CHECK(other.read_to_end().empty());
}
