// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/server/server_process.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "loadgen/client/http/http_exchange.hpp"

namespace troupe::loadgen {
namespace {

using std::chrono::steady_clock;

constexpr std::string_view kPortMark = "{port}";
constexpr std::size_t kLogEndBytes = 4000;
constexpr std::chrono::milliseconds kPollPeriod{5};

// Free now; the kernel does not give it to the next one who asks for any.
std::uint16_t free_port() {
  using boost::asio::ip::tcp;
  boost::asio::io_context io;
  return tcp::acceptor(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)).local_endpoint().port();
}

ChildCommand with_port(const ServerCommand& command, ServerAddress& address) {
  auto arguments = command.arguments;
  address.port = 0;
  for (auto& argument : arguments) {
    const auto at = argument.find(kPortMark);
    if (at == std::string::npos) continue;
    if (address.port == 0) address.port = free_port();
    argument.replace(at, kPortMark.size(), std::to_string(address.port));
  }
  return {
      .arguments = std::move(arguments), .environment = command.environment, .output_file = command.log_file};
}

std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// 0 while the whole line has not come.
std::uint16_t port_said_in(const std::string& log, const std::string& mark) {
  const auto at = log.find(mark);
  if (at == std::string::npos || log.find('\n', at) == std::string::npos) return 0;
  std::uint16_t port = 0;
  std::from_chars(log.data() + at + mark.size(), log.data() + log.size(), port);
  return port;
}

}  // namespace

ServerProcess::ServerProcess(const ServerCommand& command)
    : log_file_(command.log_file), child_(with_port(command, address_)) {
  wait_until_ready(command);
}

void ServerProcess::wait_until_ready(const ServerCommand& command) {
  const auto deadline = steady_clock::now() + command.start_timeout;
  while (!is_listening(command)) {
    if (const auto status = child_.wait_for(kPollPeriod))
      fail("ended with status " + std::to_string(*status) + " before it was ready");
    if (steady_clock::now() > deadline)
      fail("was not ready within " + std::to_string(command.start_timeout.count()) + " s");
  }
}

bool ServerProcess::is_listening(const ServerCommand& command) {
  if (address_.port == 0) address_.port = port_said_in(read_file(log_file_), command.port_mark);
  if (address_.port == 0) return false;
  try {
    const auto reply = http_exchange(
        address_,
        {.path = command.ready_path, .api_key = {}, .json = {}, .timeout = std::chrono::seconds(5)});
    return reply.status == 200;
  } catch (const ServerUnreachable&) {
    return false;
  }
}

int ServerProcess::stop(std::chrono::seconds grace) {
  child_.signal(SIGTERM);
  if (const auto status = child_.wait_for(grace)) return *status;
  child_.signal(SIGKILL);
  return child_.wait();
}

std::string ServerProcess::log_end() const {
  const auto log = read_file(log_file_);
  return log.substr(log.size() - std::min(log.size(), kLogEndBytes));
}

void ServerProcess::fail(const std::string& what) const {
  throw std::runtime_error("the server " + what + "; the end of " + log_file_.string() + ":\n" + log_end());
}

}  // namespace troupe::loadgen
