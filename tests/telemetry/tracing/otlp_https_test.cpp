// SPDX-License-Identifier: Apache-2.0
// The way to a collector under TLS, with certificates that are as they should be
// and others.
#include "telemetry/tracing/otlp_http_exporter.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/observability/otlp_sink.hpp"
#include "tests/support/tls/certificate_files.hpp"

namespace troupe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::CertificateFiles;
using test::OtlpSink;

OtlpHttpOptions trusting(const std::string& certificates) {
  return {.trusted_certificates = certificates,
          .attempt_timeout = seconds(20),
          .first_pause = milliseconds(1),
          .max_attempts = 2};
}

std::vector<SpanTree> one_span() {
  return {std::make_shared<const std::vector<Span>>(
      1, Span{.name = "span", .context = {.trace = {.high = 1, .low = 2}, .span = 3}})};
}

std::size_t send_to(const std::string& url, const OtlpHttpOptions& options) {
  return OtlpHttpExporter(parse_otlp_endpoint(url), {}, options).send(one_span(), {});
}

TEST_CASE("otlp https: spans arrive at a collector whose certificate is trusted and for its address") {
  const CertificateFiles certificate("IP:127.0.0.1");
  OtlpSink sink(certificate);
  OtlpHttpExporter exporter(parse_otlp_endpoint(sink.url()), {}, trusting(certificate.certificate_path()));
  for (int i = 0; i < 3; ++i) CHECK(exporter.send(one_span(), {}) == 1);
  CHECK(sink.spans().size() == 3);
  CHECK(sink.num_connections() == 1);
}

TEST_CASE("otlp https: a name is verified like an address") {
  const CertificateFiles certificate("DNS:localhost");
  const OtlpSink sink(certificate);
  const auto options = trusting(certificate.certificate_path());
  CHECK(send_to("https://localhost:" + std::to_string(sink.port()), options) == 1);
  CHECK(send_to(sink.url(), options) == 0);  // the certificate has no address
  CHECK(sink.num_requests() == 1);
}

TEST_CASE("otlp https: nothing is sent to a collector with another's, an old or an unknown certificate") {
  const CertificateFiles others("DNS:other.example"), old("IP:127.0.0.1", std::chrono::hours(-1)),
      unknown("IP:127.0.0.1");
  const CertificateFiles trusted("IP:127.0.0.1");
  struct Case {
    const CertificateFiles& shown;
    std::string trusted;
  };
  for (const auto& wrong : {Case{others, others.certificate_path()}, Case{old, old.certificate_path()},
                            Case{unknown, trusted.certificate_path()}, Case{unknown, ""}}) {
    CAPTURE(wrong.trusted);
    const OtlpSink sink(wrong.shown);
    CHECK(send_to(sink.url(), trusting(wrong.trusted)) == 0);
    CHECK(sink.num_connections() > 0);
    CHECK(sink.num_requests() == 0);
  }
}

TEST_CASE("otlp https: a collector that speaks no TLS, or hangs up, is a failure and no crash") {
  const CertificateFiles certificate("IP:127.0.0.1");
  const OtlpSink plain;  // waits for the end of a request that never comes
  OtlpHttpOptions quick = trusting("");
  quick.attempt_timeout = milliseconds(100);
  CHECK(send_to("https://127.0.0.1:" + std::to_string(plain.port()), quick) == 0);
  CHECK(plain.num_requests() == 0);
  OtlpSink sink(certificate);
  sink.answer_otherwise({.hangs_up = true});
  CHECK(send_to(sink.url(), trusting(certificate.certificate_path())) == 0);
}

TEST_CASE("otlp https: a collector that never answers is given up at the limit, and asked again") {
  const CertificateFiles certificate("IP:127.0.0.1");
  OtlpSink sink(certificate);
  sink.answer_next({{.says_nothing = true}});
  auto options = trusting(certificate.certificate_path());
  options.attempt_timeout = milliseconds(300);
  CHECK(send_to(sink.url(), options) == 1);
  CHECK(sink.num_requests() == 2);
}

TEST_CASE("otlp https: a connection closed between two batches costs neither of them") {
  const CertificateFiles certificate("IP:127.0.0.1");
  OtlpSink sink(certificate);
  sink.answer_next({{.headers = "Connection: close\r\n"}, {.status = 200}, {.hangs_up = true}});
  OtlpHttpExporter exporter(parse_otlp_endpoint(sink.url()), {}, trusting(certificate.certificate_path()));
  for (int i = 0; i < 4; ++i) CHECK(exporter.send(one_span(), {}) == 1);
  CHECK(sink.spans().size() == 4);
}

TEST_CASE("otlp https: certificates that can't be read are named at once") {
  const TemporaryFile nonsense("no certificate");
  for (const std::string& path : {std::string("/nowhere/ca.pem"), nonsense.path().string()}) {
    CAPTURE(path);
    try {
      OtlpHttpExporter(parse_otlp_endpoint("https://localhost"), {}, trusting(path));
      FAIL("was accepted");
    } catch (const std::runtime_error& error) {
      CHECK(std::string(error.what()).find("trusted certificates, got '" + path + "'") != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace troupe
