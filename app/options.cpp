// SPDX-License-Identifier: Apache-2.0
#include "app/options.hpp"

#include "telemetry/nearest_name.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

namespace troupe {
namespace {

using Unit = OptionEntry::Unit;

constexpr std::uint64_t kMostDevices = 1024;  // of "cuda:N"

const OptionEntry* find_by_key(std::string_view key) {
  const auto table = option_table();
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& e) { return e.key == key; });
  return found == table.end() ? nullptr : &*found;
}

const OptionEntry* find_by_flag(std::string_view flag) {
  const auto table = option_table();
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& e) { return e.flag == flag; });
  return found == table.end() ? nullptr : &*found;
}

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw std::runtime_error(where + ": " + what);
}

[[noreturn]] void refuse_unknown(const std::string& where, std::string_view name,
                                 const std::vector<std::string>& known) {
  std::string text = "unknown option '" + std::string(name) + "'";
  const auto nearest = nearest_name(name, known);
  if (!nearest.empty()) text += "; did you mean '" + nearest + "'?";
  refuse(where, text);
}

std::vector<std::string> known_keys() {
  std::vector<std::string> keys;
  for (const auto& entry : option_table()) keys.emplace_back(entry.key);
  return keys;
}

std::vector<std::string> known_flags() {
  std::vector<std::string> flags;
  for (const auto& entry : option_table()) flags.emplace_back(entry.flag);
  return flags;
}

std::optional<std::uint64_t> parse_number(std::string_view text, Unit unit) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (suffix.empty()) return value;
  if (unit != Unit::kBytes) return std::nullopt;
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

std::optional<bool> parse_bool(std::string_view text) {
  if (text == "true" || text == "1" || text == "on" || text == "yes") return true;
  if (text == "false" || text == "0" || text == "off" || text == "no") return false;
  return std::nullopt;
}

std::string joined(const std::vector<std::string_view>& words) {
  std::string text;
  for (const auto word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

std::optional<std::string> set_number(Options& options, const OptionEntry& entry,
                                      std::uint64_t Options::*field, std::string_view text) {
  const auto value = parse_number(text, entry.unit);
  if (!value || *value < entry.minimum || *value > entry.maximum) {
    std::string expected = "expected a whole number from " + std::to_string(entry.minimum);
    if (entry.maximum != UINT64_MAX) expected += " to " + std::to_string(entry.maximum);
    if (entry.unit == Unit::kBytes) expected += ", with KiB, MiB or GiB if you like";
    return expected + ", got '" + std::string(text) + "'";
  }
  options.*field = *value;
  return std::nullopt;
}

std::optional<std::string> set_share(Options& options, double Options::*field, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_share = error == std::errc{} && end == text.data() + text.size() && value >= 0 && value <= 1;
  if (!is_share) return "expected a number from 0 to 1, got '" + std::string(text) + "'";
  options.*field = value;
  return std::nullopt;
}

bool matches(std::string_view choice, std::string_view text) {
  if (!choice.ends_with(":N")) return choice == text;
  const auto prefix = choice.substr(0, choice.size() - 1);
  if (!text.starts_with(prefix)) return false;
  const auto number = parse_number(text.substr(prefix.size()), Unit::kNone);
  return number && *number < kMostDevices;
}

std::string shortest_text(double number) {
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

// A TOML scalar as the text a flag would carry; nullopt for tables and arrays.
std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return shortest_text(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return std::nullopt;
}

bool is_path(const OptionEntry& entry, std::string_view text) {
  if (text.empty() || std::find(entry.words.begin(), entry.words.end(), text) != entry.words.end())
    return false;
  return entry.unit == Unit::kPath;
}

void apply_node(Options& options, const std::string& file, const std::string& key, const toml::node& node) {
  const auto* entry = find_by_key(key);
  if (entry == nullptr) refuse_unknown(file, key, known_keys());
  auto text = scalar_text(node);
  if (!text) refuse(file, key + ": expected one value, got a table or a list");
  const bool is_bool = std::holds_alternative<bool Options::*>(entry->field);
  if (is_bool != node.is_boolean())
    refuse(file, key + ": expected " + (is_bool ? "true or false" : "no boolean") + ", got " + *text);
  if (is_path(*entry, *text) && std::filesystem::path(*text).is_relative())
    text = (std::filesystem::path(file).parent_path() / *text).lexically_normal().string();
  if (const auto wrong = set_option(options, *entry, *text)) refuse(file, key + ": " + *wrong);
}

void apply_file(Options& options, const std::filesystem::path& path) {
  const auto file = path.string();
  toml::table root;
  try {
    root = toml::parse_file(file);
  } catch (const toml::parse_error& error) {
    std::string where = file;
    if (error.source().begin.line > 0) where += ":" + std::to_string(error.source().begin.line);
    refuse(where, std::string(error.description()));
  }
  for (const auto& [section, node] : root) {
    const std::string name(section.str());
    const auto* table = node.as_table();
    if (table == nullptr) {
      apply_node(options, file, name, node);
      continue;
    }
    for (const auto& [key, value] : *table)
      apply_node(options, file, name + "." + std::string(key.str()), value);
  }
}

void apply_environment(Options& options, const std::map<std::string, std::string>& environment) {
  for (const auto& entry : option_table()) {
    const auto found = environment.find(entry.environment_name());
    if (found == environment.end()) continue;
    if (const auto wrong = set_option(options, entry, found->second)) refuse(found->first, *wrong);
  }
}

}  // namespace

std::string OptionEntry::environment_name() const {
  std::string name = "TROUPE_";
  for (const char c : key)
    name += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::optional<std::string> set_option(Options& options, const OptionEntry& entry, std::string_view text) {
  if (const auto* number = std::get_if<std::uint64_t Options::*>(&entry.field))
    return set_number(options, entry, *number, text);
  if (const auto* flag = std::get_if<bool Options::*>(&entry.field)) {
    const auto value = parse_bool(text);
    if (!value) return "expected true or false, got '" + std::string(text) + "'";
    options.*(*flag) = *value;
    return std::nullopt;
  }
  if (const auto* share = std::get_if<double Options::*>(&entry.field))
    return set_share(options, *share, text);
  const auto& choices = entry.choices;
  const auto is_text = [&](std::string_view choice) { return matches(choice, text); };
  if (!choices.empty() && std::none_of(choices.begin(), choices.end(), is_text))
    return "expected one of " + joined(choices) + ", got '" + std::string(text) + "'";
  options.*std::get<std::string Options::*>(entry.field) = std::string(text);
  return std::nullopt;
}

std::string option_text(const Options& options, const OptionEntry& entry) {
  if (const auto* number = std::get_if<std::uint64_t Options::*>(&entry.field))
    return std::to_string(options.*(*number));
  if (const auto* flag = std::get_if<bool Options::*>(&entry.field))
    return options.*(*flag) ? "true" : "false";
  if (const auto* share = std::get_if<double Options::*>(&entry.field))
    return shortest_text(options.*(*share));
  return options.*std::get<std::string Options::*>(entry.field);
}

Options resolve_options(const OptionSources& sources) {
  Options options;
  if (sources.file) apply_file(options, *sources.file);
  apply_environment(options, sources.environment);
  for (const auto& [flag, value] : sources.flags) {
    const auto* entry = find_by_flag(flag);
    if (entry == nullptr) refuse_unknown("command line", flag, known_flags());
    if (const auto wrong = set_option(options, *entry, value)) refuse(flag, *wrong);
  }
  return options;
}

}  // namespace troupe
