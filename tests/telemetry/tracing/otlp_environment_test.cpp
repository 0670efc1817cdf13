// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/otlp_environment.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <stdexcept>
#include <string>

namespace troupe {
namespace {

using Variables = std::map<std::string, std::string>;

VariableReader reader_of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
}

std::string url_of(Variables variables) {
  const auto endpoint = otlp_endpoint_of(reader_of(std::move(variables)));
  return endpoint ? endpoint->url : "none";
}

OtlpHttpOptions options_of(Variables variables) { return otlp_options_of(reader_of(std::move(variables))); }

std::string refusal_of(const std::string& name, const std::string& value) {
  try {
    otlp_options_of(reader_of({{name, value}}));
    otlp_endpoint_of(reader_of({{name, value}}));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("otlp environment: the general endpoint gets the path of traces, theirs is taken as it is") {
  CHECK(url_of({}) == "none");
  CHECK(url_of({{"OTEL_EXPORTER_OTLP_ENDPOINT", ""}}) == "none");
  CHECK(url_of({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}}) == "http://c:4318/v1/traces");
  CHECK(url_of({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/"}}) == "http://c:4318/v1/traces");
  CHECK(url_of({{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://c/otlp/"}}) == "https://c:443/otlp/v1/traces");
  CHECK(url_of({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4318"}}) == "http://c:4318/");
  CHECK(url_of({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4318/mine/"}}) == "http://c:4318/mine/");
  CHECK(url_of({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://all"},
                {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces/x"}}) == "http://traces:4318/x");
}

TEST_CASE("otlp environment: there is no endpoint where OpenTelemetry or its traces are switched off") {
  const auto url_with = [](const std::string& name, const std::string& value) {
    return url_of({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}, {name, value}});
  };
  for (const char* off : {"true", "True"}) CHECK(url_with("OTEL_SDK_DISABLED", off) == "none");
  CHECK(url_with("OTEL_TRACES_EXPORTER", "none") == "none");
  for (const char* on : {"false", "1", "none"})
    CHECK(url_with("OTEL_SDK_DISABLED", on) == "http://c:4318/v1/traces");
  CHECK(url_with("OTEL_TRACES_EXPORTER", "otlp") == "http://c:4318/v1/traces");
}

TEST_CASE("otlp environment: without variables the specification's defaults hold") {
  const OtlpHttpOptions options = options_of({});
  CHECK(options.format == OtlpFormat::kProtobuf);
  CHECK_FALSE(options.is_gzipped);
  CHECK(options.headers.empty());
  CHECK(options.attempt_timeout == std::chrono::seconds(10));
  CHECK(options.trusted_certificates == "");
}

TEST_CASE("otlp environment: each variable counts, and that of traces more") {
  const Variables general = {{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"},
                             {"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"},
                             {"OTEL_EXPORTER_OTLP_HEADERS", "a=1"},
                             {"OTEL_EXPORTER_OTLP_TIMEOUT", "1500"},
                             {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/all.pem"}};
  OtlpHttpOptions options = options_of(general);
  CHECK(options.format == OtlpFormat::kJson);
  CHECK(options.is_gzipped);
  REQUIRE(options.headers.size() == 1);
  CHECK(options.headers[0].name == "a");
  CHECK(options.attempt_timeout == std::chrono::milliseconds(1500));
  CHECK(options.trusted_certificates == "/all.pem");

  Variables both = {{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"},
                    {"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "none"},
                    {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "b=2"},
                    {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0"},
                    {"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "/traces.pem"}};
  both.insert(general.begin(), general.end());
  options = options_of(both);
  CHECK(options.format == OtlpFormat::kProtobuf);
  CHECK_FALSE(options.is_gzipped);
  REQUIRE(options.headers.size() == 1);
  CHECK(options.headers[0].name == "b");
  CHECK(options.attempt_timeout == std::chrono::milliseconds(0));
  CHECK(options.trusted_certificates == "/traces.pem");
}

TEST_CASE("otlp environment: protocol and compression are read in any case") {
  CHECK(options_of({{"OTEL_EXPORTER_OTLP_PROTOCOL", "HTTP/Json"}}).format == OtlpFormat::kJson);
  CHECK(options_of({{"OTEL_EXPORTER_OTLP_COMPRESSION", "GZIP"}}).is_gzipped);
  CHECK_FALSE(options_of({{"OTEL_EXPORTER_OTLP_COMPRESSION", "None"}}).is_gzipped);
  CHECK(refusal_of("OTEL_EXPORTER_OTLP_PROTOCOL", "GRPC").find("port 4318") != std::string::npos);
}

TEST_CASE("otlp environment: headers are a list with percent-encoded values") {
  const auto headers =
      options_of(
          {{"OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Basic%20dTpw, x-scope = a%2Cb%3dc ,,x-padded=YWI=,x-empty=,x-plain=two words"}})
          .headers;
  REQUIRE(headers.size() == 5);
  CHECK(headers[0].name == "authorization");
  CHECK(headers[0].value == "Basic dTpw");
  CHECK(headers[1].name == "x-scope");
  CHECK(headers[1].value == "a,b=c");
  CHECK(headers[2].value == "YWI=");
  CHECK(headers[3].value == "");
  CHECK(headers[4].value == "two words");
}

TEST_CASE("otlp environment: a header that can't be is refused, and its secret not repeated") {
  for (const char* wrong : {"secret", "=secret", "a b=secret", "a=secret%", "a=secret%2", "a=secret%zz",
                            "a=secret%0D%0AX-Evil: 1", "a=secret%00", "Content-Type=secret", "HOST=secret",
                            "content-length=secret", "transfer-encoding=secret", "Expect=secret", "te=secret",
                            "trailer=secret", "upgrade=secret"}) {
    CAPTURE(wrong);
    const std::string refusal = refusal_of("OTEL_EXPORTER_OTLP_HEADERS", wrong);
    CHECK(refusal.starts_with("OTEL_EXPORTER_OTLP_HEADERS: expected name=value"));
    CHECK(refusal.find("secret") == std::string::npos);
  }
}

TEST_CASE("otlp environment: other values are refused with the variable's name") {
  CHECK(refusal_of("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc") ==
        "OTEL_EXPORTER_OTLP_PROTOCOL: expected http/protobuf or http/json (a collector takes these on port "
        "4318), "
        "got 'grpc'");
  CHECK(refusal_of("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http") ==
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: expected http/protobuf or http/json, got 'http'");
  CHECK(refusal_of("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd") ==
        "OTEL_EXPORTER_OTLP_COMPRESSION: expected gzip or none, got 'zstd'");
  for (const char* wrong : {"10s", "-1", "1.5", "99999999999"}) {
    CAPTURE(wrong);
    CHECK(refusal_of("OTEL_EXPORTER_OTLP_TIMEOUT", wrong) ==
          "OTEL_EXPORTER_OTLP_TIMEOUT: expected milliseconds, 0 for no limit, got '" + std::string(wrong) +
              "'");
  }
  CHECK(refusal_of("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317") ==
        "OTEL_EXPORTER_OTLP_ENDPOINT: expected a collector's URL such as http://localhost:4318, got "
        "'collector:4317': it must begin with http:// or https://");
}

}  // namespace
}  // namespace troupe
