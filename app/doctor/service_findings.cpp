// SPDX-License-Identifier: Apache-2.0
#include <sys/statvfs.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "app/api_keys.hpp"
#include "app/doctor/findings.hpp"
#include "app/tls.hpp"
#include "app/tracing.hpp"
#include "gpu/memory_plan.hpp"
#include "http/server/listening_socket.hpp"
#include "http/server/server.hpp"
#include "store/conversation_file.hpp"
#include "store/state_directory.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::days kTimeToRenew{14};

Finding problem(const std::string& about, const std::exception& error, const std::string& advice) {
  return {.grade = Grade::kProblem, .about = about, .text = error.what(), .advice = advice};
}

// Holds what it gets, as the server will hold all of its ports at once.
Finding port_finding(const Options& options, std::uint64_t port, const std::string& flag,
                     std::vector<ListeningSocket>& held) {
  const std::string where = options.host + ":" + std::to_string(port);
  try {
    held.emplace_back(options.host, static_cast<std::uint16_t>(port), 1);
    return {.about = "port", .text = where + (port == 0 ? ": any free one" : " is free")};
  } catch (const std::exception& error) {
    return problem("port", error, "end what listens there (ss -ltnp), or name another by " + flag);
  }
}

Findings port_findings(const Options& options) {
  std::vector<ListeningSocket> held;
  Findings findings{port_finding(options, options.port, "--port", held)};
  if (options.metrics_port != 0)
    findings.push_back(port_finding(options, options.metrics_port, "--metrics-port", held));
  if (options.ollama_port != 0)
    findings.push_back(port_finding(options, options.ollama_port, "--ollama-port", held));
  return findings;
}

Finding tracing_finding(const Options& options) {
  try {
    const bool is_wanted = check_tracing(options);
    return {.about = "tracing", .text = is_wanted ? "its destinations can be used" : "not asked for"};
  } catch (const std::exception& error) {
    return problem("tracing", error,
                   "--trace-endpoint http://HOST:4318, --trace-file in a directory that exists");
  }
}

Finding key_finding(const Options& options) {
  try {
    ServerOptions server;
    read_access(options, server);
    check_exposure(server);
    if (!server.api_keys.empty())
      return {.about = "API keys", .text = std::to_string(server.api_keys.size()) + " read"};
    if (!options.allow_open_network)
      return {.about = "API keys", .text = "none; only this machine is served"};
    return {.grade = Grade::kWarning,
            .about = "API keys",
            .text = "none, and --allow-open-network: whoever reaches the port uses the server",
            .advice = "--api-keys-file FILE with lines 'TENANT KEY'"};
  } catch (const std::exception& error) {
    return problem("API keys", error, "--api-key or --api-keys-file; mode 600 of the file");
  }
}

Finding tls_finding(const Options& options) {
  try {
    const auto identity = load_tls_identity(options);
    if (!identity) return {.about = "TLS", .text = "not asked for"};
    const auto left =
        std::chrono::floor<std::chrono::days>(identity->not_after() - std::chrono::system_clock::now());
    Finding finding{.about = "TLS",
                    .text = "the certificate is good for " + std::to_string(left.count()) + " days"};
    if (left >= kTimeToRenew) return finding;
    finding.grade = Grade::kWarning;
    if (left.count() < 0) finding.text = "the certificate has expired";
    finding.advice = "renew it; SIGHUP has it read anew";
    return finding;
  } catch (const std::exception& error) {
    return problem("TLS", error, "--tls-certificate and --tls-key: PEM, both or neither");
  }
}

// Its files in use, or the nearest folder above that exists.
fs::path existing_part(fs::path path) {
  std::error_code ignored;
  while (!fs::exists(path, ignored) && path != path.root_path()) path = path.parent_path();
  return path;
}

std::optional<fs::path> state_path(const Options& options) {
  if (options.store_directory == "none" || options.store_directory.empty()) return std::nullopt;
  if (options.store_directory == "default") return default_state_directory();
  return fs::absolute(options.store_directory);
}

Finding space_finding(const Options& options, const fs::path& path) {
  struct statvfs status {};
  if (::statvfs(existing_part(path).c_str(), &status) != 0)
    return {.about = "disk", .text = "its space is not known"};
  const std::uint64_t free = std::uint64_t{status.f_bavail} * status.f_frsize;
  const std::uint64_t wanted = ConversationFileOptions{}.max_bytes + options.cache_disk_space;
  Finding finding{.about = "disk",
                  .text = shown_bytes(free) + " free, up to " + shown_bytes(wanted) + " may be used"};
  if (free >= wanted) return finding;
  finding.grade = Grade::kWarning;
  finding.advice = "make room, or a smaller --cache-disk-space: what does not fit is not kept";
  return finding;
}

// Read, not mended: a server does that when it opens it.
Finding store_finding(const StateDirectory& directory) {
  try {
    const auto damage = find_conversation_damage(directory);
    if (!damage) return {.about = "store", .text = "no damage of its conversations was found"};
    return {
        .grade = Grade::kWarning,
        .about = "store",
        .text = "the file of conversations is damaged: " + *damage,
        .advice = "keep a copy of " + directory.path().string() + "; the next start saves what can be read"};
  } catch (const std::exception& error) {
    return problem("store", error,
                   "--store-directory with another directory, or the troupe that wrote this one");
  }
}

Findings state_findings(const Options& options) {
  const auto path = state_path(options);
  if (!path)
    return {{.about = "state", .text = "nothing is kept: --store-directory " + options.store_directory}};
  Findings findings;
  std::error_code ignored;
  if (!fs::exists(*path, ignored)) {
    const fs::path above = existing_part(*path);
    const bool is_writable = ::access(above.c_str(), W_OK | X_OK) == 0;
    if (is_writable)
      findings.push_back({.about = "state", .text = path->string() + " will be made"});
    else
      findings.push_back({.grade = options.store_directory == "default" ? Grade::kWarning : Grade::kProblem,
                          .about = "state",
                          .text = path->string() + " can't be made in " + above.string(),
                          .advice = "--store-directory with a directory of the user that runs the server"});
    findings.push_back(space_finding(options, *path));
    return findings;
  }
  try {
    const auto directory = StateDirectory::to_look_at(*path);
    findings.push_back({.about = "state", .text = directory.path().string() + " can be written"});
    findings.push_back(space_finding(options, *path));
    findings.push_back(store_finding(directory));
  } catch (const std::exception& error) {
    Finding finding =
        problem("state", error, "run this as the server's user while no server runs, or name another");
    if (options.store_directory == "default") finding.grade = Grade::kWarning;
    findings.push_back(finding);
  }
  return findings;
}

}  // namespace

Findings service_findings(const Options& options) {
  Findings findings = port_findings(options);
  findings.push_back(key_finding(options));
  findings.push_back(tls_finding(options));
  findings.push_back(tracing_finding(options));
  for (auto& finding : state_findings(options)) findings.push_back(std::move(finding));
  return findings;
}

}  // namespace troupe
