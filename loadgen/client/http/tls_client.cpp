// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/http/tls_client.hpp"

#include "telemetry/http/tls_client.hpp"

namespace troupe::loadgen {

TlsClient::TlsClient(const ServerAddress& server)
    : context_(make_tls_client(server.trust.certificate_file).release()),  // it owns that now
      host_(server.host) {
  if (server.trust.is_insecure) context_.set_verify_mode(boost::asio::ssl::verify_none);
}

TlsClient::Stream TlsClient::stream_over(boost::asio::ip::tcp::socket& socket) {
  Stream stream(socket, context_);
  expect_host(stream.native_handle(), host_);
  return stream;
}

std::string TlsClient::problem_of(Stream& stream, const boost::system::error_code& error) {
  const std::string problem = certificate_problem(stream.native_handle());
  return problem.empty() ? error.message() : problem;
}

}  // namespace troupe::loadgen
