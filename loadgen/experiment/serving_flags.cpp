// SPDX-License-Identifier: Apache-2.0
#include "loadgen/experiment/serving_flags.hpp"

#include <stdexcept>

namespace troupe::loadgen {

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

}  // namespace troupe::loadgen
