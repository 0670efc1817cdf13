// SPDX-License-Identifier: Apache-2.0
#include "app/service_manager.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <system_error>

#include "telemetry/log.hpp"

namespace troupe {
namespace {

// A state is said once, so it waits for a manager who is busy; no longer than this.
constexpr int kWaiting = 0;
constexpr timeval kMostWaiting{.tv_sec = 5, .tv_usec = 0};

std::string take_variable(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value == nullptr ? "" : value;
  ::unsetenv(name);
  return text;
}

std::optional<std::uint64_t> number_of(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "@name" is a socket without a file.
std::string address_of(std::string text) {
  if (text.starts_with("@")) text.front() = '\0';
  const bool is_address = text.size() > 1 && (text.front() == '/' || text.front() == '\0');
  return is_address && text.size() < sizeof sockaddr_un{}.sun_path ? text : "";
}

std::uint64_t monotonic_microseconds() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec) / 1000;
}

void warn(const char* reason) {
  log(LogLevel::kWarning, "the service manager can't be told", {{"reason", reason}});
}

}  // namespace

ServiceManager::ServiceManager() {
  const std::string socket = take_variable("NOTIFY_SOCKET");
  const auto limit = number_of(take_variable("WATCHDOG_USEC"));
  const std::string process = take_variable("WATCHDOG_PID");
  if (socket.empty()) return;
  address_ = address_of(socket);
  if (!address_.empty()) socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) {
    warn("NOTIFY_SOCKET names no socket of this machine, or none can be made");
    return;
  }
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &kMostWaiting, sizeof kMostWaiting);
  const bool is_ours = process.empty() || number_of(process) == static_cast<std::uint64_t>(::getpid());
  if (limit && is_ours) watchdog_limit_ = std::chrono::microseconds(*limit);
}

ServiceManager::~ServiceManager() {
  if (socket_ >= 0) ::close(socket_);
}

void ServiceManager::extend_start(std::chrono::microseconds most_time) const {
  send("STATUS=models are being loaded; requests are not accepted yet\nEXTEND_TIMEOUT_USEC=" +
           std::to_string(most_time.count()),
       MSG_DONTWAIT);
}

void ServiceManager::say_ready() const { send("READY=1\nSTATUS=requests are accepted", kWaiting); }

// The time tells it that this answers its own request, in versions that ask so.
void ServiceManager::say_reloading() const {
  send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(monotonic_microseconds()), kWaiting);
}

void ServiceManager::say_reload_refused() const {
  send("READY=1\nSTATUS=requests are accepted; the last reload was refused, the log says why", kWaiting);
}

void ServiceManager::say_stopping(std::chrono::microseconds most_time) const {
  send("STOPPING=1\nSTATUS=what was begun is being answered\nEXTEND_TIMEOUT_USEC=" +
           std::to_string(most_time.count()),
       kWaiting);
}

bool ServiceManager::feed_watchdog() const { return send("WATCHDOG=1", MSG_DONTWAIT); }

bool ServiceManager::send(std::string_view message, int flags) const {
  if (socket_ < 0) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(address_.begin(), address_.end(), address.sun_path);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  const auto sent = ::sendto(socket_, message.data(), message.size(), MSG_NOSIGNAL | flags,
                             reinterpret_cast<const sockaddr*>(&address), length);
  const bool has_failed = sent < 0;
  // Once, however often the watchdog tries.
  if (has_failed && !is_failing_) warn(std::generic_category().message(errno).c_str());
  is_failing_ = has_failed;
  return !has_failed;
}

}  // namespace troupe
