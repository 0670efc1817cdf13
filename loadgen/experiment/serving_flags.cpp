// SPDX-License-Identifier: Apache-2.0
#include "loadgen/experiment/serving_flags.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

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
constexpr std::uint32_t kMostWorkers = 4096;

}  // namespace

void set_serving_flag(const Setting<ServingSettings>& setting, const std::string& text,
                      ServingSettings& settings) {
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

void refuse_unsimulated_differences(const std::vector<std::vector<std::string>>& command_lines,
                                    bool workers_may_differ) {
  std::vector<FlagValues> arms;
  std::set<std::string> names;
  for (const auto& argv : command_lines) {
    arms.push_back(unsimulated_flags(argv));
    if (workers_may_differ) arms.back().erase(kWorkers);
    for (const auto& [name, value] : arms.back()) names.insert(name);
  }
  for (const std::string& name : names) {
    const auto value_in = [&](const FlagValues& arm) {
      const auto found = arm.find(name);
      return found == arm.end() ? std::optional<std::string>() : found->second;
    };
    const bool is_alike = std::all_of(arms.begin(), arms.end(), [&](const FlagValues& arm) {
      return value_in(arm) == value_in(arms.front());
    });
    if (!is_alike)
      throw std::runtime_error("the servers differ in " + name +
                               ", which a simulation does not know: expected them to differ in flags of "
                               "scheduling and cache, or no --profile");
  }
}

}  // namespace troupe::loadgen
