// SPDX-License-Identifier: Apache-2.0
#include "loadgen/experiment/serving_flags.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace troupe::loadgen {
namespace {

using FlagValues = std::map<std::string, std::string>;

bool is_flag(const std::string& word) { return word.starts_with("--"); }

bool is_simulated(const std::string& name) {
  const auto table = serving_table();
  return std::any_of(table.begin(), table.end(), [&](const auto& setting) { return name == setting.flag; });
}

// A flag that stands alone has an empty value.
FlagValues unsimulated_flags(const std::vector<std::string>& argv) {
  FlagValues flags;
  for (std::size_t i = 0; i < argv.size(); ++i) {
    if (!is_flag(argv[i])) continue;
    const auto equals = argv[i].find('=');
    const auto name = argv[i].substr(0, equals);
    if (is_simulated(name)) continue;
    const bool has_next = i + 1 < argv.size() && !is_flag(argv[i + 1]);
    flags[name] = equals != std::string::npos ? argv[i].substr(equals + 1) : has_next ? argv[i + 1] : "";
  }
  return flags;
}

constexpr const char* kWorkers = "--workers";
constexpr const char* kStore = "--store-directory";
constexpr const char* kActivations = "--activations";
constexpr std::uint32_t kMostWorkers = 4096;

// Ports, names, limits that no run of ours meets, logs and traces: a request takes as long with any value.
constexpr std::array<std::string_view, 32> kWithoutCost = {
    "--host",
    "--port",
    "--api-key",
    "--api-keys-file",
    "--cors-origins",
    "--allowed-hosts",
    "--allow-open-network",
    "--metrics-port",
    "--ollama-port",
    "--page",
    "--drain-seconds",
    "--max-body-bytes",
    "--model-name",
    "--model-aliases",
    "--weights-disk-space",
    "--cuda-library",
    kStore,  // but for the disk tier, see below
    "--store-keep-days",
    "--max-restarts",
    "--restart-window-seconds",
    "--vllm-names",
    "--log-level",
    "--log-format",
    "--log-requests",
    "--trace-file",
    "--trace-file-limit",
    "--trace-sample-ratio",
    "--trace-keep-slower-than-ms",
    "--trace-max-iterations-per-second",
    "--trace-max-queued-spans",
    "--trace-recent-requests",
    "--trace-service-name",
};

std::string last_part(const std::string& text) {
  const auto path = std::filesystem::path(text).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// "96MiB" and "100663296", "yes" and "true" are the same; a switch that stands alone is on.
bool is_same(const std::string& name, const std::string& asked, const ProfiledFlag& flag) {
  const std::string& measured = flag.value;
  if (name == kActivations && asked == "auto") return flag.is_default;  // the value is what it came to
  if (name == "--model") return last_part(asked) == last_part(measured);
  if (name == "--device" && asked == "host") return measured == "cpu";
  if (const auto is_on = parse_bool(measured)) return parse_bool(asked.empty() ? "true" : asked) == is_on;
  const auto bytes_of = [](const std::string& text) {
    SettingRule rule;
    rule.unit = SettingUnit::kBytes;
    std::uint64_t bytes = 0;
    const bool is_number = !set_place(&bytes, rule, text);
    return is_number ? std::optional(bytes) : std::nullopt;
  };
  return asked == measured || (bytes_of(asked) && bytes_of(asked) == bytes_of(measured));
}

bool has_store(const FlagValues& flags) {
  const auto found = flags.find(kStore);
  return found != flags.end() && found->second != "none";
}

// "cpu, bf16, weights in Q4_K, Q6_K, 2 threads"
bool has_weights_below_8_bits(const std::string& device) {
  constexpr std::string_view kWeights = "weights in ";
  auto begin = device.find(kWeights);
  if (begin == std::string::npos) return false;
  for (begin += kWeights.size(); begin < device.size();) {
    const auto end = std::min(device.find(", ", begin), device.size());
    const std::string format = device.substr(begin, end - begin);
    if (format.find(' ') != std::string::npos) return false;  // something else
    if (format != "q8" && format != "Q8_0") return true;
    begin = end + 2;
  }
  return false;
}

// Profiles say what "auto" came to since it rounds rows, or soon after; the device has said since then that
// it does. In one that says "auto" and no more it was exact.
bool is_older_than_rounding(const CostProfile& profile) {
  return profile.device.starts_with("cpu") && has_weights_below_8_bits(profile.device) &&
         profile.device.find("activations in") == std::string::npos &&
         std::any_of(profile.flags.begin(), profile.flags.end(), [](const ProfiledFlag& flag) {
           return flag.name == kActivations && flag.value == "auto";
         });
}

[[noreturn]] void refuse(const std::string& flag, const std::string& reason) {
  throw std::runtime_error(
      flag + ": " + reason +
      ", and no simulation changes it: expected a profile measured with the same (`troupe "
      "profile " +
      flag + " ...`), or no --profile");
}

std::string shown(const std::string& value) { return value.empty() ? "none" : "'" + value + "'"; }

}  // namespace

void set_serving_flag(const Setting<ServingSettings>& setting, const std::string& text,
                      ServingSettings& settings) {
  if (text == kAutomatic && setting.automatic) return;  // the profile has what its server chose
  if (const auto wrong = set_place(setting.field.in(settings), unlimited(setting.rule()), text))
    throw std::runtime_error(std::string(setting.flag) + ": " + *wrong);
}

void apply_serving_flags(const std::vector<std::string>& argv, ServingSettings& settings) {
  for (std::size_t i = 0; i < argv.size(); ++i) {
    const auto equals = argv[i].find('=');
    const bool is_last = i + 1 == argv.size();
    for (const auto& setting : serving_table()) {
      if (argv[i].substr(0, equals) != setting.flag) continue;
      if (equals != std::string::npos) {
        set_serving_flag(setting, argv[i].substr(equals + 1), settings);
      } else if (setting.is_switch() && (is_last || !parse_bool(argv[i + 1]))) {
        set_serving_flag(setting, "true", settings);  // it may stand alone
      } else if (!is_last) {
        set_serving_flag(setting, argv[i + 1], settings);
      }
    }
  }
}

std::uint32_t workers_of(const std::vector<std::string>& argv) {
  const FlagValues flags = unsimulated_flags(argv);
  const auto found = flags.find(kWorkers);
  if (found == flags.end()) return 1;
  const std::string& text = found->second;
  std::uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size() || count < 1 || count > kMostWorkers)
    throw std::runtime_error(std::string(kWorkers) + ": expected a number from 1 to " +
                             std::to_string(kMostWorkers) + ", got '" + text + "'");
  return count;
}

void leave_out_unused_disk(const std::vector<std::string>& argv, ProfiledServer& server) {
  if (!has_store(unsimulated_flags(argv))) server.num_disk_pages = 0;
}

void refuse_unsimulated_flags(const std::vector<std::string>& argv, const CostProfile& profile,
                              bool is_of_each_worker) {
  const FlagValues flags = unsimulated_flags(argv);
  const auto is_free = [&](const std::string& name) {
    return std::find(kWithoutCost.begin(), kWithoutCost.end(), name) != kWithoutCost.end() ||
           (is_of_each_worker && name == kWorkers);
  };
  if (has_store(flags) && profile.serving.num_host_pages > 0 && profile.serving.num_disk_pages == 0)
    refuse(kStore, "the profile was measured without a disk tier, the server has one");
  if (is_older_than_rounding(profile))
    refuse(kActivations,
           "the profile was measured when auto rounded no rows, which it does for weights below 8 bits");
  for (const auto& [name, value] : flags) {
    if (is_free(name)) continue;
    const auto measured =
        std::find_if(profile.flags.begin(), profile.flags.end(),
                     [&name = name](const ProfiledFlag& flag) { return flag.name == name; });
    if (measured == profile.flags.end())
      refuse(name, "the profile does not say with which it was measured, the server has " + shown(value));
    if (!is_same(name, value, *measured))
      refuse(name,
             "the profile was measured with " + shown(measured->value) + ", the server has " + shown(value));
  }
  for (const ProfiledFlag& flag : profile.flags) {
    if (!flag.is_default && !flags.contains(flag.name) && !is_free(flag.name))
      refuse(flag.name,
             "the profile was measured with " + shown(flag.value) + ", the server has its default");
  }
}

}  // namespace troupe::loadgen
