// SPDX-License-Identifier: Apache-2.0
// The real binary with a certificate: at the start, when it is renewed, when it is wrong.
#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "loadgen/client/http/http_exchange.hpp"
#include "loadgen/client/live_run.hpp"
#include "loadgen/client/server/child_process.hpp"
#include "loadgen/result/summary.hpp"
#include "tests/http/tls/tls_client.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/tls/test_certificate.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

const std::string kModel = TROUPE_SOURCE_DIR "/models/demo";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t times_in(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++times;
  return times;
}

// A server with a certificate in files that a test may write anew.
class TlsProcess {
 public:
  explicit TlsProcess(const TestCertificate& certificate) {
    write(certificate);
    child_.emplace(loadgen::ChildCommand{
        .arguments = {TROUPE_BINARY, "serve", "--port", "0", "--model", kModel, "--device", "noop",
                      "--noop-iteration-us", "20000", "--threads", "1", "--tls-certificate",
                      (place_.path() / "certificate.pem").string(), "--tls-key",
                      (place_.path() / "key.pem").string()},
        .environment = {{"TROUPE_STORE_DIRECTORY", "none"}, {"TROUPE_CACHE_MEASURE", "false"}},
        .output_file = log_.path()});
    const std::string mark = "ready at https://127.0.0.1:";
    REQUIRE(eventually([&] { return has(output(), mark); }));
    const std::string text = output();
    port_ = static_cast<std::uint16_t>(std::stoi(text.substr(text.find(mark) + mark.size())));
  }

  void write(const TestCertificate& certificate) const {
    place_.write("certificate.pem", certificate.pem());
    place_.write("key.pem", certificate.key_pem());
  }
  void write_certificate(std::string_view text) const { place_.write("certificate.pem", text); }
  void set_key_permissions(std::filesystem::perms permissions) const {
    std::filesystem::permissions(place_.path() / "key.pem", permissions);
  }
  // Asks for the files to be read anew, and waits for what the log says of it.
  void renew(const std::string& event) {
    const auto before = times_in(output(), event);
    child_->signal(SIGHUP);
    REQUIRE(eventually([&] { return times_in(output(), event) > before; }));
  }
  std::uint16_t port() const { return port_; }
  std::string output() const { return file_text(log_.path()); }
  loadgen::ChildProcess& process() { return *child_; }

 private:
  TemporaryDirectory place_;
  TemporaryFile log_;
  std::optional<loadgen::ChildProcess> child_;
  std::uint16_t port_ = 0;
};

}  // namespace

TEST_CASE("TLS of a server: SIGHUP renews the certificate, a running stream goes on, a broken one is left") {
  const TestCertificate first("first"), second("second");
  TlsProcess server(first);
  TlsClient streaming(server.port(), {.trusted = first.pem()});
  CHECK(streaming.server_name() == "first");
  streaming.send(post_request("/v1/completions",
                              R"({"prompt": "a", "max_tokens": 150, "ignore_eos": true, "stream": true})"));
  const std::string begun = streaming.read_until("data: ");
  CHECK(has(begun, "200 OK"));

  server.write(second);
  server.renew("TLS certificate read");
  CHECK(TlsClient(server.port(), {.trusted = second.pem()}).server_name() == "second");

  server.write_certificate(first.pem());  // but not its key
  server.renew("the configuration stays as it was");
  CHECK(has(server.output(), "key.pem: this is not the key of the certificate"));
  server.write_certificate("nothing");
  server.renew("the configuration stays as it was");
  CHECK(has(server.output(), "certificate.pem: expected a certificate in PEM"));
  TlsClient last(server.port(), {.trusted = second.pem()});
  last.send(get_request("/health"));
  CHECK(last.read_response().status == 200);

  const std::string all = begun + streaming.read_until("[DONE]");
  CHECK(sse_data(all).back() == "[DONE]");
  server.process().signal(SIGTERM);
  CHECK(server.process().wait() == 0);
}

TEST_CASE("TLS of a server: a certificate that has expired, or is not valid yet, is warned of and used") {
  using std::chrono::hours;
  const TestCertificate expired("old", {.begins = hours(-48), .ends = hours(-24)});
  const TestCertificate early("new", {.begins = hours(24), .ends = hours(48)});
  TlsProcess server(expired);
  CHECK(has(server.output(), "the TLS certificate has expired"));
  CHECK_THROWS_WITH_AS(TlsClient(server.port(), {.trusted = expired.pem()}),
                       doctest::Contains("certificate verify failed"), std::runtime_error);
  server.write(early);
  server.renew("the TLS certificate is not valid yet");
}

TEST_CASE("TLS of a server: a key that others may read is warned of and used") {
  const TestCertificate certificate("open");
  TlsProcess server(certificate);
  const std::string warning = "the TLS key's file is open to others than its owner";
  const auto before = times_in(server.output(), warning);
  server.set_key_permissions(std::filesystem::perms(0640));
  server.renew(warning);
  CHECK(times_in(server.output(), warning) == before + 1);
  server.set_key_permissions(std::filesystem::perms(0600));
  server.renew("TLS certificate read");
  CHECK(TlsClient(server.port(), {.trusted = certificate.pem()}).server_name() == "open");
  CHECK(times_in(server.output(), warning) == before + 1);
}

TEST_CASE("TLS of a server: files that do not do are refused at the start, with option, file and reason") {
  const TestCertificate good("good"), other("other");
  const TemporaryDirectory place;
  const std::string certificate = place.write("certificate.pem", good.pem()).string();
  const std::string key = place.write("key.pem", good.key_pem()).string();
  const std::string other_key = place.write("other.pem", other.key_pem()).string();
  struct Row {
    std::vector<std::string> flags;
    std::string reason;
  };
  const std::vector<Row> rows = {
      {{"--tls-certificate", certificate}, "expected both or neither, got only the certificate"},
      {{"--tls-key", key}, "expected both or neither, got only the key"},
      {{"--tls-certificate", "/nonexistent/c.pem", "--tls-key", key}, "/nonexistent/c.pem: No such file"},
      {{"--tls-certificate", certificate, "--tls-key", place.path().string()},
       place.path().string() + ": Is a directory"},
      {{"--tls-certificate", certificate, "--tls-key", other_key},
       other_key + ": this is not the key of the certificate in " + certificate},
  };
  for (const auto& row : rows) {
    std::vector<std::string> command = {TROUPE_BINARY, "serve", "--port", "0", "--model", kModel};
    command.insert(command.end(), row.flags.begin(), row.flags.end());
    const auto result = run_command(command);
    CAPTURE(result.output);
    CHECK(result.exit_status == 78);
    CHECK(has(result.output, "--tls-certificate, --tls-key: " + row.reason));
    CHECK_FALSE(has(result.output, "memory plan"));
  }
}

TEST_CASE("TLS of a server: without it SIGHUP ends the process, unless whoever started it said otherwise") {
  ServerProcess server({"--model", kModel, "--device", "noop"});
  server.signal(SIGHUP);
  CHECK(server.wait() == 128 + SIGHUP);
  const TemporaryFile log;
  loadgen::ServerProcess kept(
      {.arguments = {"nohup", TROUPE_BINARY, "serve", "--port", "0", "--model", kModel, "--device", "noop"},
       .environment = {{"TROUPE_STORE_DIRECTORY", "none"}},
       .log_file = log.path()});
  kept.signal(SIGHUP);
  kept.signal(SIGTERM);
  CHECK(kept.wait() == 0);
}

// Four short requests by https.
loadgen::LiveRunSettings few_requests(const TlsProcess& server) {
  loadgen::LiveRunSettings settings;
  settings.workload = loadgen::preset("fixed-128-128");
  settings.workload.classes.front().prompt_tokens = loadgen::fixed(8);
  settings.workload.classes.front().output_tokens = loadgen::fixed(3);
  settings.workload.arrivals.rate = 1000;
  settings.workload.max_conversations = 4;
  settings.sample_period = {};
  settings.calibrates = false;
  settings.load.client.server.is_https = true;
  settings.load.client.server.port = server.port();
  return settings;
}

TEST_CASE("TLS of a server: the load generator trusts its certificate, or any if told so") {
  const TestCertificate certificate("mine");
  const TlsProcess server(certificate);
  const TemporaryFile trusted(certificate.pem());
  auto settings = few_requests(server);
  CHECK_THROWS_WITH_AS(loadgen::run_live(settings, {}), doctest::Contains("the certificate is not trusted"),
                       loadgen::ServerUnreachable);
  for (const loadgen::ServerTrust& trust : {loadgen::ServerTrust{.certificate_file = trusted.path()},
                                            loadgen::ServerTrust{.is_insecure = true}}) {
    settings.load.client.server.trust = trust;
    const auto run = loadgen::run_live(settings, {});
    CHECK(loadgen::summarize(run.result).total.num_completed == 4);
    CHECK(loadgen::setting(run.result, "server version") != "not said");
    CHECK(!loadgen::setting(run.result, "generator cpu").empty());
  }
}

TEST_CASE("TLS of a server: the load generator refuses a certificate of another server, or an expired one") {
  using std::chrono::hours;
  CertificateOptions options;
  std::string reason;
  SUBCASE("another's") {
    options.servers = "DNS:elsewhere.example,IP:127.0.0.9";
    reason = "IP address mismatch";
  }
  SUBCASE("expired") {
    options.begins = hours(-48);
    options.ends = hours(-24);
    reason = "certificate has expired";
  }
  const TestCertificate certificate("bad", options);
  const TlsProcess server(certificate);
  const TemporaryFile trusted(certificate.pem());
  auto settings = few_requests(server);
  settings.load.client.server.trust.certificate_file = trusted.path();
  CHECK_THROWS_WITH_AS(loadgen::run_live(settings, {}),
                       doctest::Contains(("the certificate is not trusted: " + reason).c_str()),
                       loadgen::ServerUnreachable);
  // Connections of requests refuse it themselves, whatever was asked of the server before.
  const auto source = loadgen::make_source(settings.workload, 1);
  const loadgen::TurnPrompts prompts{
      .words = [](const loadgen::PlannedConversation&, std::size_t) { return std::string("hello"); },
      .ids = {}};
  const auto run =
      loadgen::run_load(settings.load, loadgen::request_classes(settings.workload), *source, prompts, {});
  REQUIRE(run.result.records.size() == 4);
  for (const auto& record : run.result.records) {
    CHECK(record.outcome == loadgen::Outcome::kUnreachable);
    CHECK(has(record.error, reason));
  }
}
