// SPDX-License-Identifier: Apache-2.0
#include "policy/setting.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

namespace troupe {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kMostDevices = 1024;  // of "cuda:N"
constexpr std::uint64_t kMostOfUnlimited = std::numeric_limits<std::uint32_t>::max();

std::optional<std::uint64_t> parse_number(std::string_view text, SettingUnit unit) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (suffix.empty()) return value;
  if (unit != SettingUnit::kBytes) return std::nullopt;
  constexpr std::array<std::pair<std::string_view, int>, 6> kSuffixes{
      {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"K", 10}, {"M", 20}, {"G", 30}}};
  for (const auto& [name, shift] : kSuffixes) {
    if (suffix == name) {
      if (value > (UINT64_MAX >> shift)) return std::nullopt;
      return value << shift;
    }
  }
  return std::nullopt;
}

std::string got(std::string_view text) { return ", got '" + std::string(text) + "'"; }

std::string joined(std::span<const std::string_view> words) {
  std::string text;
  for (const auto word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

std::string expected_number(const SettingRule& rule, std::string_view text) {
  std::string expected = rule.automatic ? "expected auto or a whole number" : "expected a whole number";
  if (rule.is_limited) expected += " from " + std::to_string(rule.minimum);
  if (rule.is_limited && rule.maximum != UINT64_MAX) expected += " to " + std::to_string(rule.maximum);
  if (rule.unit == SettingUnit::kBytes) expected += ", with KiB, MiB or GiB if you like";
  return expected + got(text);
}

// nullopt: it is none, or out of range.
std::optional<std::uint64_t> number_of(const SettingRule& rule, std::uint64_t most, std::string_view text) {
  if (text == kAutomatic && rule.automatic) return rule.automatic;
  const auto value = parse_number(text, rule.unit);
  const std::uint64_t least = rule.is_limited ? rule.minimum : 0;
  if (!value || *value < least || *value > std::min(most, rule.is_limited ? rule.maximum : kMostOfUnlimited))
    return std::nullopt;
  return value;
}

std::optional<std::string> set_real(double& place, const SettingRule& rule, std::string_view text) {
  const std::uint64_t most = rule.maximum == UINT64_MAX ? 1 : rule.maximum;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc{} && end == text.data() + text.size() && std::isfinite(value);
  if (!is_number || value < 0 || (rule.is_limited && value > static_cast<double>(most)))
    return "expected a number" + (rule.is_limited ? " from 0 to " + std::to_string(most) : "") + got(text);
  place = value;
  return std::nullopt;
}

bool matches(std::string_view choice, std::string_view text) {
  if (!choice.ends_with(":N")) return choice == text;
  const auto prefix = choice.substr(0, choice.size() - 1);
  if (!text.starts_with(prefix)) return false;
  const auto number = parse_number(text.substr(prefix.size()), SettingUnit::kNone);
  return number && *number < kMostDevices;
}

milliseconds length_of(SettingUnit unit) {
  if (unit == SettingUnit::kDays) return std::chrono::days(1);
  return unit == SettingUnit::kSeconds ? std::chrono::seconds(1) : milliseconds(1);
}

std::string shortest_text(double number) {
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

// One call for each kind of place.
struct Setter {
  const SettingRule& rule;
  std::string_view text;

  using Wrong = std::optional<std::string>;

  Wrong operator()(bool* place) const {
    const auto value = parse_bool(text);
    if (!value) return "expected true or false" + got(text);
    *place = *value;
    return std::nullopt;
  }
  Wrong operator()(std::uint32_t* place) const {
    const auto value = number_of(rule, std::numeric_limits<std::uint32_t>::max(), text);
    if (!value) return expected_number(rule, text);
    *place = static_cast<std::uint32_t>(*value);
    return std::nullopt;
  }
  Wrong operator()(std::uint64_t* place) const {
    const auto value = number_of(rule, UINT64_MAX, text);
    if (!value) return expected_number(rule, text);
    *place = *value;
    return std::nullopt;
  }
  Wrong operator()(double* place) const {
    if (rule.unit != SettingUnit::kPercent) return set_real(*place, rule, text);
    const auto value = number_of(rule, UINT64_MAX, text);
    if (!value) return expected_number(rule, text);
    *place = static_cast<double>(*value) / 100;
    return std::nullopt;
  }
  Wrong operator()(milliseconds* place) const {
    const auto value = number_of(rule, kMostOfUnlimited, text);
    if (!value) return expected_number(rule, text);
    *place = static_cast<milliseconds::rep>(*value) * length_of(rule.unit);
    return std::nullopt;
  }
  Wrong operator()(std::string* place) const {
    const auto is_text = [this](std::string_view choice) { return matches(choice, text); };
    if (!rule.choices.empty() && std::none_of(rule.choices.begin(), rule.choices.end(), is_text))
      return "expected one of " + joined(rule.choices) + got(text);
    if (rule.wrong != nullptr)
      if (auto expected = rule.wrong(text)) return expected;
    if (std::any_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7F; }))
      return "expected text without control characters";
    *place = std::string(text);
    return std::nullopt;
  }
  Wrong operator()(ChoicePlace place) const {
    const auto found = std::find(rule.choices.begin(), rule.choices.end(), text);
    if (found == rule.choices.end()) return "expected one of " + joined(rule.choices) + got(text);
    *place.index = static_cast<unsigned char>(found - rule.choices.begin());
    return std::nullopt;
  }
};

struct Writer {
  const SettingRule& rule;

  std::string operator()(const bool* place) const { return *place ? "true" : "false"; }
  std::string operator()(const std::uint32_t* place) const { return number(*place); }
  std::string operator()(const std::uint64_t* place) const { return number(*place); }
  std::string operator()(const double* place) const {
    if (rule.unit == SettingUnit::kPercent)
      return number(static_cast<std::uint64_t>(std::llround(*place * 100)));
    return shortest_text(*place);
  }
  std::string operator()(const milliseconds* place) const {
    return std::to_string(*place / length_of(rule.unit));
  }
  std::string operator()(const std::string* place) const { return *place; }
  std::string operator()(ChoicePlace place) const { return std::string(rule.choices[*place.index]); }

  std::string number(std::uint64_t value) const {
    return rule.automatic == value ? std::string(kAutomatic) : std::to_string(value);
  }
};

}  // namespace

std::optional<std::string> set_place(const SettingPlace& place, const SettingRule& rule,
                                     std::string_view text) {
  return std::visit(Setter{rule, text}, place);
}

std::string text_of(const SettingPlace& place, const SettingRule& rule) {
  return std::visit(Writer{rule}, place);
}

std::optional<bool> parse_bool(std::string_view text) {
  if (text == "true" || text == "1" || text == "on" || text == "yes") return true;
  if (text == "false" || text == "0" || text == "off" || text == "no") return false;
  return std::nullopt;
}

std::string environment_name(std::string_view key) {
  std::string name = "TROUPE_";
  for (const unsigned char c : key) name += c == '.' ? '_' : static_cast<char>(std::toupper(c));
  return name;
}

std::string profile_name(std::string_view flag) {
  std::string name(flag.substr(flag.find_first_not_of('-')));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace troupe
