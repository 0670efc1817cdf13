// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/http/http_exchange.hpp"

#include <cstdint>

namespace troupe::loadgen {
namespace {

constexpr std::uint64_t kMaxBodyBytes = 16 << 20;

HttpCall call_of(const ServerAddress& server, const HttpQuestion& question) {
  HttpCall call{.path = server.prefix + std::string(question.path), .body = std::string(question.json)};
  call.headers = {{"Host", server.host_field()}, {"User-Agent", "troupe-loadgen"}, {"Connection", "close"}};
  if (!question.api_key.empty())
    call.headers.push_back({"Authorization", "Bearer " + std::string(question.api_key)});
  if (!question.json.empty()) {
    call.method = "POST";
    call.headers.push_back({"Content-Type", "application/json"});
  }
  return call;
}

std::string text_of(const HttpFailure& failure, const std::string& host) {
  using Cause = HttpFailure::Cause;
  if (failure.step == HttpFailure::Step::kResolve)
    return "host '" + host + "' has no address: " + failure.reason;
  if (failure.cause == Cause::kTimedOut) return "no answer in time";
  if (failure.step == HttpFailure::Step::kHandshake) return "no TLS session: " + failure.reason;
  if (failure.cause == Cause::kRefused) return "nothing listens there (connection refused)";
  if (failure.cause == Cause::kClosed) return "the connection was closed without an answer";
  return failure.reason;
}

}  // namespace

HttpReply http_exchange(const ServerAddress& server, const HttpQuestion& question) {
  const auto deadline = HttpClient::TimePoint::clock::now() + question.timeout;
  HttpClient client({.host = server.host,
                     .port = server.port,
                     .is_https = server.is_https,
                     .trusted_certificates = server.trust.certificate_file,
                     .is_insecure = server.trust.is_insecure},
                    kMaxBodyBytes);
  HttpReply reply = client.ask(call_of(server, question), [deadline] { return deadline; });
  if (reply.status == 0)
    throw ServerUnreachable(server.url() + std::string(question.path) + ": " +
                            text_of(reply.failure, server.host));
  return reply;
}

}  // namespace troupe::loadgen
