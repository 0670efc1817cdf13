// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/toml/setting_check.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>

namespace troupe::loadgen {

void refuse_setting(const std::string& key, const std::string& expected, const std::string& got) {
  throw std::runtime_error(key + ": expected " + expected + ", got " + got);
}

void expect_above_zero(const std::string& key, double value) {
  if (!(value > 0) || std::isinf(value)) refuse_setting(key, "a number above 0", number_text(value));
}

void expect_at_least(const std::string& key, double minimum, double value) {
  if (!(value >= minimum) || std::isinf(value))
    refuse_setting(key, "a number of at least " + number_text(minimum), number_text(value));
}

std::string number_text(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

}  // namespace troupe::loadgen
