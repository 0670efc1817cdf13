// SPDX-License-Identifier: Apache-2.0
#include "app/tls.hpp"

#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

#include "telemetry/log.hpp"

namespace troupe {
namespace {

std::string date_text(TlsIdentity::TimePoint time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%FT%TZ", &parts)};
}

// Clients that check it will turn away, which is theirs to decide.
void note_dates(const TlsIdentity& identity) {
  const auto now = std::chrono::system_clock::now();
  const std::string file = identity.certificate_file().string();
  const std::string not_before = date_text(identity.not_before()),
                    not_after = date_text(identity.not_after());
  log(LogLevel::kInfo, "TLS certificate read", {{"file", file}, {"not_after", not_after}});
  if (now > identity.not_after())
    log(LogLevel::kWarning, "the TLS certificate has expired", {{"file", file}, {"not_after", not_after}});
  if (now < identity.not_before())
    log(LogLevel::kWarning, "the TLS certificate is not valid yet",
        {{"file", file}, {"not_before", not_before}});
}

// A key that others can read lets them pass for this server.
void note_readers_of_key(const TlsIdentity& identity) {
  namespace fs = std::filesystem;
  constexpr fs::perms kOthers = fs::perms::group_all | fs::perms::others_all;
  std::error_code error;
  const fs::perms permissions = fs::status(identity.key_file(), error).permissions();
  if (error || (permissions & kOthers) == fs::perms::none) return;
  log(LogLevel::kWarning, "the TLS key's file is open to others than its owner",
      {{"file", identity.key_file().string()}, {"expected", "chmod 600"}});
}

}  // namespace

std::shared_ptr<TlsIdentity> load_tls_identity(const Options& options) {
  if (options.tls_certificate.empty() && options.tls_key.empty()) return nullptr;
  if (options.tls_certificate.empty() || options.tls_key.empty())
    throw std::runtime_error("expected both or neither, got only the " +
                             std::string(options.tls_key.empty() ? "certificate" : "key"));
  auto identity = std::make_shared<TlsIdentity>(options.tls_certificate, options.tls_key);
  note_dates(*identity);
  note_readers_of_key(*identity);
  return identity;
}

void reload_tls_identity(TlsIdentity& identity) {
  identity.reload();
  note_dates(identity);
  note_readers_of_key(identity);
}

}  // namespace troupe
