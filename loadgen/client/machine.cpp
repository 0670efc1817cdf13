// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/machine.hpp"

#include <sys/utsname.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "loadgen/client/http/http_exchange.hpp"

namespace troupe::loadgen {
namespace {

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string kernel() {
  utsname names{};
  return ::uname(&names) == 0 ? std::string(names.sysname) + " " + names.release : "unknown";
}

// Empty: there is none.
std::string text_field(const ServerAddress& server, std::string_view api_key, const char* path,
                       const char* field) {
  try {
    const auto reply = http_exchange(server, {.path = path, .api_key = api_key, .json = {}});
    const auto json = nlohmann::json::parse(reply.body, nullptr, false);
    if (reply.status != 200 || !json.is_object()) return {};
    const auto found = json.find(field);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
  } catch (const ServerUnreachable&) {
    return {};
  }
}

}  // namespace

NamedTexts generator_machine() {
  return {{"generator cpu", cpu_model()},
          {"generator cpus", std::to_string(std::thread::hardware_concurrency())},
          {"generator kernel", kernel()},
          {"load average before", load_average()}};
}

std::string load_average() {
  std::ifstream file("/proc/loadavg");
  std::string first;
  file >> first;
  return first;
}

std::string server_version(const ServerAddress& server, std::string_view api_key) {
  // Ours and vLLM, Ollama, llama.cpp.
  constexpr std::array<std::pair<const char*, const char*>, 3> kPlaces = {
      {{"/version", "version"}, {"/api/version", "version"}, {"/props", "build_info"}}};
  for (const auto& [path, field] : kPlaces)
    if (auto version = text_field(server, api_key, path, field); !version.empty()) return version;
  return {};
}

}  // namespace troupe::loadgen
