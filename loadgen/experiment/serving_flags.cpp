// SPDX-License-Identifier: Apache-2.0
#include "loadgen/experiment/serving_flags.hpp"

#include <algorithm>
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

void refuse_unsimulated_differences(const std::vector<std::vector<std::string>>& command_lines) {
  std::vector<FlagValues> arms;
  std::set<std::string> names;
  for (const auto& argv : command_lines) {
    arms.push_back(unsimulated_flags(argv));
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
