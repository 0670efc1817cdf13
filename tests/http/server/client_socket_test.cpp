// SPDX-License-Identifier: Apache-2.0
// The server over TLS, with clients that do it well and clients that do not.
#include "http/server/client_socket.hpp"

#include <doctest/doctest.h>
#include <openssl/ssl.h>

#include <stdexcept>
#include <thread>

#include "tests/http/running_server.hpp"
#include "tests/http/tls/test_identity.hpp"
#include "tests/http/tls/tls_client.hpp"
#include "tests/support/eventually.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr std::string_view kChat = R"({"stream":true,"messages":[{"role":"user","content":"hi"}]})";
constexpr std::string_view kWholeChat = R"({"messages":[{"role":"user","content":"hi"}]})";

std::string chat(std::string_view body = kChat) { return post_request("/v1/chat/completions", body); }

class TlsServer {
 public:
  explicit TlsServer(const std::function<void(ServerOptions&)>& adjust = {})
      : files_(certificate_), server_([&](ServerOptions& options) {
          options.tls = *files_;
          if (adjust) adjust(options);
        }) {}

  RunningServer& operator*() { return server_; }
  RunningServer* operator->() { return &server_; }
  const TestIdentity& files() const { return files_; }
  TlsClientOptions trust() const { return {.trusted = certificate_.pem()}; }
  TlsClient client() const { return {server_.port(), trust()}; }
  bool has_no_connection() {
    return eventually([&] { return server_.metric("troupe_http_connections") == "0"; });
  }

 private:
  TestCertificate certificate_{"first"};
  TestIdentity files_;
  RunningServer server_;
};

std::string refusal_of(std::uint16_t port, const TlsClientOptions& options) {
  try {
    const TlsClient client(port, options);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("TLS: requests are answered in 1.2 and 1.3, one after the other, and the end is told") {
  TlsServer server;
  for (const auto& [version, name] :
       std::vector<std::pair<int, std::string>>{{TLS1_2_VERSION, "TLSv1.2"}, {TLS1_3_VERSION, "TLSv1.3"}}) {
    auto options = server.trust();
    options.version = version;
    TlsClient client(server->port(), options);
    CHECK(client.version() == name);
    CHECK(client.server_name() == "first");
    for (int i = 0; i < 3; ++i) {
      client.send(get_request("/ping"));
      CHECK(client.read_response().status == 200);
    }
    client.send(get_request("/ping", "Connection: close\r\n"));
    CHECK(client.read_response().status == 200);
    CHECK(client.read_to_end().empty());
    CHECK(client.was_told_of_end());
  }
}

TEST_CASE("TLS: older versions are refused, and other protocols than HTTP/1.1") {
  TlsServer server;
  auto options = server.trust();
  options.version = TLS1_1_VERSION;
  CHECK(refusal_of(server->port(), options).find("protocol version") != std::string::npos);
  options = server.trust();
  options.protocols = "\x02h2";
  CHECK(refusal_of(server->port(), options).find("no application protocol") != std::string::npos);
  options.protocols = std::string("\x02h2") + "\x08http/1.1";
  CHECK(TlsClient(server->port(), options).protocol() == "http/1.1");
  CHECK(server.client().protocol().empty());
}

TEST_CASE("TLS: an event stream arrives event by event") {
  TlsServer server;
  TlsClient client = server.client();
  client.send(chat());
  const RequestId id = server->script().wait_for_request(1);
  server->script().deliver(id, Accepted{});
  client.read_until("\"role\":\"assistant\"");
  for (const std::string text : {"one", "two", "three"}) {
    server->script().deliver(id, TextDelta{.text = text, .usage = {}});
    CHECK(client.read_until("\"" + text + "\"").find(text) != std::string::npos);
  }
  server->script().deliver(id, Finished{});
  CHECK(client.read_until("[DONE]").find("[DONE]") != std::string::npos);
}

TEST_CASE("TLS: a large body is read whole, and a large answer written whole to a slow reader") {
  TlsServer server([](ServerOptions& options) { options.limits.max_stream_buffer_bytes = 100'000'000; });
  auto options = server.trust();
  options.receive_buffer_bytes = 4096;
  TlsClient client(server->port(), options);
  const std::string text(900'000, 'q');
  client.send(chat(R"({"messages":[{"role":"user","content":")" + text + "\"}]}"));
  const RequestId id = server->script().wait_for_request(1);
  const auto prompt = server->script().submitted(id).request.prompt;
  CHECK(std::get<ChatPrompt>(prompt).messages.front().content == text);
  std::string answer;
  for (int i = 0; answer.size() < 2'000'000; ++i) answer += std::to_string(i) + " ";
  server->script().answer(id, {answer});
  const TestResponse response = client.read_response();
  CHECK(response.status == 200);
  CHECK(response.body.find("\"" + answer + "\"") != std::string::npos);
}

TEST_CASE("TLS: 64 streams at once over two io threads, every one whole") {
  TlsServer server([](ServerOptions& options) { options.io_threads = 2; });
  std::vector<TlsClient> clients;
  for (int i = 0; i < 64; ++i) {
    clients.push_back(server.client());
    clients.back().send(chat(kWholeChat));
    server->script().wait_for_request(static_cast<RequestId>(i) + 1);
  }
  for (RequestId id = 1; id <= 64; ++id)
    server->script().answer(id, {"of ", std::to_string(id), std::string(20'000, '.')});
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const std::string expected = "\"of " + std::to_string(i + 1) + std::string(20'000, '.') + "\"";
    CHECK(clients[i].read_response().body.find(expected) != std::string::npos);
  }
  clients.clear();
  CHECK(server.has_no_connection());
}

TEST_CASE("TLS: plain HTTP is told to call by https, and the connection ends") {
  TlsServer server;
  for (const std::string& request : {get_request("/v1/models"), chat(), chat(std::string(200'000, ' '))}) {
    TestClient client(server->port());
    client.send(request);
    const TestResponse response = client.read_response();
    CHECK(response.status == 400);
    CHECK(response.body.find("https://") != std::string::npos);
    CHECK(response.field("Connection") == "close");
    CHECK(client.is_at_end());
  }
  CHECK(server.has_no_connection());
  CHECK(server->metric("troupe_http_tls_failures_total") == "3");
  CHECK(server->script().num_submitted() == 0);
}

TEST_CASE("TLS: what is no handshake is closed, with an alert if it is TLS, and nothing is left behind") {
  TlsServer server;
  std::string wrong_hello = client_hello();
  wrong_hello[5] = '\x63';  // no such message
  struct Row {
    std::string bytes;
    int alert;  // 0: none
  };
  const std::vector<Row> rows = {
      {"SSH-2.0-client\r\n", 0},
      {std::string(1000, '\0'), 0},
      {std::string(100'000, '\xff'), 0},
      {wrong_hello, SSL_AD_UNEXPECTED_MESSAGE},
      {std::string("\x16\x03\x01\xff\xff") + std::string(70'000, 'x'), SSL_AD_RECORD_OVERFLOW},
      {std::string("\x15\x03\x01\x00\x02\x02\x28", 7), SSL_AD_UNEXPECTED_MESSAGE},
      {std::string("\x16\x03\x01\x00\x05\x01\x02\x00\x00\x03", 10), 0},  // a hello of 131 KB
  };
  for (const Row& row : rows) {
    TestClient client(server->port());
    client.send(row.bytes);
    client.half_close();
    const std::string answer = client.read_to_end();
    CAPTURE(row.alert);
    CHECK(client.is_at_end());
    CHECK(answer.size() == (row.alert == 0 ? 0 : 7));
    if (row.alert == 0 || answer.size() != 7) continue;
    CHECK(answer[0] == '\x15');  // an alert,
    CHECK(answer[5] == '\x02');  // which is fatal
    CHECK(static_cast<int>(answer[6]) == row.alert);
  }
  CHECK(server.has_no_connection());
}

TEST_CASE("TLS: a client may leave at every byte of its first message") {
  TlsServer server;
  const std::string hello = client_hello();
  for (std::size_t i = 0; i <= hello.size(); ++i) {
    TestClient client(server->port());
    client.send(std::string_view(hello).substr(0, i));
    if (i % 3 == 0) client.half_close();
    if (i % 3 == 1) client.reset();
  }
  CHECK(server.has_no_connection());
  TlsClient last = server.client();
  last.send(get_request("/ping"));
  CHECK(last.read_response().status == 200);
}

TEST_CASE("TLS: handshakes that do not go on hold up nobody, and have the time of a header") {
  TlsServer server([](ServerOptions& options) {
    options.limits.header_timeout_ms = 2'000;
    options.limits.idle_timeout_ms = 600'000;
  });
  const std::string hello = client_hello();
  std::vector<TestClient> slow;
  for (std::size_t i = 0; i < 30; ++i) {
    slow.emplace_back(server->port());
    slow.back().send(std::string_view(hello).substr(0, i * 5));
  }
  slow.emplace_back(server->port());
  slow.back().send(hello);  // and never takes up the answer
  TlsClient quick = server.client();
  quick.send(get_request("/ping"));
  CHECK(quick.read_response().status == 200);
  for (auto& client : slow) client.read_to_end();
  CHECK(eventually([&] { return server->metric("troupe_http_connections") == "1"; }));
  quick.send(get_request("/ping"));  // idle for longer than a header may take
  CHECK(quick.read_response().status == 200);
}

TEST_CASE("TLS: times of requests are those without it, and a late header is told") {
  TlsServer server([](ServerOptions& options) {
    options.limits.header_timeout_ms = 10'000;
    options.limits.idle_timeout_ms = 60;
  });
  TlsClient idle = server.client();
  CHECK(idle.read_to_end().empty());
  CHECK(idle.was_told_of_end());
  TlsServer hasty([](ServerOptions& options) { options.limits.header_timeout_ms = 2'000; });
  TlsClient late = hasty.client();
  late.send("GET / HTT");
  CHECK(late.read_response().status == 408);
  CHECK(late.read_to_end().empty());
  CHECK(late.was_told_of_end());
}

TEST_CASE("TLS: a record that does not come to its end has the time of a header") {
  TlsServer server([](ServerOptions& options) {
    options.limits.header_timeout_ms = 1'000;
    options.limits.idle_timeout_ms = 600'000;
  });
  const std::string record = "\x17\x03\x03" + std::string("\x01\x00", 2) + "some";
  for (const std::size_t size : {std::size_t{1}, std::size_t{5}, record.size()}) {
    TlsClient late = server.client();
    late.send(get_request("/ping"));
    CHECK(late.read_response().status == 200);
    CHECK(late.send_as_it_is(record.substr(0, size)));
    CHECK(late.read_to_end().empty());
    CHECK(late.was_told_of_end());
  }
}

TEST_CASE("TLS: a client that leaves cancels its answer, whether it says goodbye or not") {
  for (const bool says_goodbye : {true, false}) {
    TlsServer server;
    TlsClient client = server.client();
    client.send(chat());
    const RequestId id = server->script().wait_for_request(1);
    server->script().deliver(id, Accepted{});
    client.read_until("\"role\"");
    says_goodbye ? client.say_goodbye() : client.close();
    CHECK(server->script().wait_until_cancelled(id));
  }
}

TEST_CASE("TLS: an answer that was cut off does not look like one that ended") {
  TlsServer server([](ServerOptions& options) { options.limits.stall_timeout_ms = 100; });
  auto options = server.trust();
  options.receive_buffer_bytes = 4096;
  TlsClient client(server->port(), options);
  client.send(chat());
  const RequestId id = server->script().wait_for_request(1);
  server->script().deliver(id, Accepted{});
  for (int i = 0; i < 30; ++i)
    server->script().deliver(id, TextDelta{.text = std::string(20'000, 'x'), .usage = {}});
  CHECK(server->script().wait_until_cancelled(id));
  client.read_to_end();
  CHECK_FALSE(client.was_told_of_end());
}

TEST_CASE("TLS: a renewed certificate is shown to new connections, streams go on with the old") {
  TlsServer server;
  TlsClient before = server.client();
  before.send(chat());
  const RequestId id = server->script().wait_for_request(1);
  server->script().deliver(id, Accepted{});
  before.read_until("\"role\"");
  const TestCertificate renewed("second");
  server.files().write(renewed);
  (*server.files())->reload();
  TlsClient after(server->port(), {.trusted = renewed.pem()});
  CHECK(after.server_name() == "second");
  after.send(get_request("/ping"));
  CHECK(after.read_response().status == 200);
  CHECK_FALSE(refusal_of(server->port(), server.trust()).empty());
  server->script().deliver(id, TextDelta{.text = "still", .usage = {}});
  server->script().deliver(id, Finished{});
  CHECK(before.read_until("[DONE]").find("still") != std::string::npos);
}

TEST_CASE("TLS: certificates behind the first lead clients to the one they know") {
  const TestCertificate root("root"), middle("middle", {}, &root), leaf("leaf", {}, &middle);
  const TemporaryDirectory place;
  const auto chain = place.write("chain.pem", leaf.pem() + middle.pem());
  const auto key = place.write("key.pem", leaf.key_pem());
  RunningServer server(
      [&](ServerOptions& options) { options.tls = std::make_shared<TlsIdentity>(chain, key); });
  TlsClient client(server.port(), {.trusted = root.pem()});
  CHECK(client.server_name() == "leaf");
}

TEST_CASE("TLS: the port for metrics speaks it too") {
  TlsServer server([](ServerOptions& options) { options.metrics_port = 0; });
  TlsClient scraper(server->server().metrics_port(), server.trust());
  scraper.send(get_request("/metrics"));
  CHECK(scraper.read_response().body.find("troupe_num_requests_running") != std::string::npos);
  TestClient plain(server->server().metrics_port());
  plain.send(get_request("/metrics"));
  CHECK(plain.read_response().status == 400);
}

TEST_CASE("TLS: a drain tells idle clients of the end and lets answers finish") {
  TlsServer server;
  TlsClient streaming = server.client(), idle = server.client();
  idle.send(get_request("/ping"));
  CHECK(idle.read_response().status == 200);
  streaming.send(chat());
  const RequestId id = server->script().wait_for_request(1);
  server->script().deliver(id, Accepted{});
  std::thread drain([&] { server->server().drain(std::chrono::seconds(10)); });
  CHECK(idle.read_to_end().empty());
  CHECK(idle.was_told_of_end());
  server->script().deliver(id, TextDelta{.text = "end", .usage = {}});
  server->script().deliver(id, Finished{});
  CHECK(streaming.read_to_end().find("[DONE]") != std::string::npos);
  CHECK(streaming.was_told_of_end());
  drain.join();
}
