// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/machine.hpp"

#include <sys/utsname.h>

#include <cstdlib>
#include <fstream>
#include <thread>

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
  try {
    const auto reply = http_exchange(server, {.path = "/version", .api_key = api_key, .json = {}});
    const auto json = nlohmann::json::parse(reply.body, nullptr, false);
    if (reply.status != 200 || !json.is_object()) return {};
    const auto version = json.find("version");
    return version != json.end() && version->is_string() ? version->get<std::string>() : "";
  } catch (const ServerUnreachable&) {
    return {};
  }
}

}  // namespace troupe::loadgen
