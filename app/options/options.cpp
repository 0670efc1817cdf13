// SPDX-License-Identifier: Apache-2.0
#include "app/options/options.hpp"

#include "telemetry/nearest_name.hpp"
#include "telemetry/regular_file.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

namespace troupe {
namespace {

using Unit = OptionEntry::Unit;

constexpr std::size_t kMaxFileBytes = 16 << 20;

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

template <typename Owner>
bool is_path(const Setting<Owner>& entry, std::string_view text) {
  if (text.empty() || std::find(entry.words.begin(), entry.words.end(), text) != entry.words.end())
    return false;
  return entry.unit == Unit::kPath;
}

// name: as the file's reader knows it.
template <typename Owner>
void set_from_node(Owner& owner, const Setting<Owner>& entry, const std::string& file,
                   const std::string& name, const toml::node& node) {
  auto text = scalar_text(node);
  if (!text) refuse(file, name + ": expected one value, got a table or a list");
  const bool is_bool = entry.is_switch();
  if (is_bool != node.is_boolean())
    refuse(file, name + ": expected " + (is_bool ? "true or false" : "no boolean") + ", got " + *text);
  if (is_path(entry, *text) && std::filesystem::path(*text).is_relative())
    text = (std::filesystem::path(file).parent_path() / *text).lexically_normal().string();
  const auto wrong = set_place(entry.field.in(owner), entry.rule(), *text);
  if (wrong) refuse(file, name + ": " + *wrong);
}

void apply_node(Options& options, const std::string& file, const std::string& key, const toml::node& node) {
  const auto* entry = find_by_key(key);
  if (entry == nullptr) refuse_unknown(file, key, known_keys());
  set_from_node(options, *entry, file, key, node);
}

// table: a [[model]] of the file. name: which of them.
ModelOptions model_from(const std::string& file, const std::string& name, const toml::table& table) {
  ModelOptions model;
  std::vector<std::string> known;
  for (const auto& entry : model_table()) known.emplace_back(entry.key.substr(entry.key.find('.') + 1));
  for (const auto& [key, node] : table) {
    const auto found = std::find(known.begin(), known.end(), key.str());
    if (found == known.end()) refuse_unknown(file + ": " + name, key.str(), known);
    set_from_node(model, model_table()[static_cast<std::size_t>(found - known.begin())], file,
                  name + ": " + *found, node);
  }
  if (model.dir.empty()) refuse(file, name + ": dir: expected the directory of the model, got none");
  return model;
}

void apply_models(Options& options, const std::string& file, const toml::array& tables) {
  options.models.clear();
  for (const auto& node : tables) {
    const std::string name = "[[model]] " + std::to_string(options.models.size() + 1);
    options.models.push_back(model_from(file, name, *node.as_table()));
  }
}

void apply_file(Options& options, const std::filesystem::path& path) {
  const auto file = path.string();
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure))
    refuse("--config " + file, "expected a TOML file, got a directory");
  const std::string text = read_regular_file(path, kMaxFileBytes);
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    std::string where = file;
    if (error.source().begin.line > 0) where += ":" + std::to_string(error.source().begin.line);
    refuse(where, std::string(error.description()));
  }
  for (const auto& [section, node] : root) {
    const std::string name(section.str());
    if (name == "model" && node.is_array_of_tables()) {
      apply_models(options, file, *node.as_array());
      continue;
    }
    const auto* table = node.as_table();
    if (table == nullptr) {
      apply_node(options, file, name, node);
      continue;
    }
    for (const auto& [key, value] : *table)
      apply_node(options, file, name + "." + std::string(key.str()), value);
  }
}

std::vector<std::string> known_variables() {
  std::vector<std::string> names;
  for (const auto& entry : option_table()) names.push_back(entry.environment_name());
  return names;
}

// Variables of our tests and tools that a server may inherit from them.
bool is_of_tools(std::string_view name) {
  constexpr std::array<std::string_view, 8> kNames = {
      "TROUPE_DASHBOARDS", "TROUPE_DATA",     "TROUPE_DISCONNECTS",    "TROUPE_JAEGER",
      "TROUPE_TURNS",      "TROUPE_SIM_SEED", "TROUPE_SIM_FIRST_SEED", "TROUPE_SIM_SEEDS"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// Kubernetes tells every container where a service called "troupe" or "troupe-…"
// is: TROUPE_SERVICE_HOST, TROUPE_PORT=tcp://10.0.0.7:80, TROUPE_PORT_80_TCP_ADDR.
bool is_service_link(std::string_view name, std::string_view value) {
  constexpr std::array<std::string_view, 4> kMarks = {"_SERVICE_HOST", "_SERVICE_PORT", "_TCP", "_UDP"};
  const auto is_in_name = [&](std::string_view mark) { return name.find(mark) != std::string_view::npos; };
  return value.starts_with("tcp://") || value.starts_with("udp://") ||
         std::any_of(kMarks.begin(), kMarks.end(), is_in_name);
}

// A single model keeps what is said of it elsewhere, several make room for others.
void begin_models(Options& options, std::size_t num_models) {
  if (options.models.size() > 1) options.models = {ModelOptions{}};
  options.models.resize(num_models);
}

void apply_environment(Options& options, const std::map<std::string, std::string>& variables) {
  std::map<std::string, std::string> environment;
  const auto known = known_variables();
  for (const auto& [name, value] : variables) {
    if (is_service_link(name, value) || is_of_tools(name)) continue;
    if (std::find(known.begin(), known.end(), name) == known.end())
      refuse_unknown("environment", name, known);
    environment.emplace(name, value);
  }
  for (const auto& entry : option_table()) {
    const auto found = environment.find(entry.environment_name());
    if (found == environment.end()) continue;
    if (entry.key == "model.dir") begin_models(options, 1);
    if (const auto wrong = set_option(options, entry, found->second)) refuse(found->first, *wrong);
  }
}

using Flags = std::vector<std::pair<std::string, std::string>>;

// As often as it is given, for the models in their order.
void apply_model_flag(Options& options, const Setting<ModelOptions>& entry, const Flags& flags) {
  std::vector<std::string> values;
  for (const auto& [flag, value] : flags)
    if (flag == entry.flag) values.push_back(value);
  if (entry.key == "model.dir" && !values.empty()) begin_models(options, values.size());
  if (values.size() > options.models.size())
    refuse(std::string(entry.flag), "expected at most one for each model, got " +
                                        std::to_string(values.size()) + " for " +
                                        std::to_string(options.models.size()));
  for (std::size_t i = 0; i < values.size(); ++i)
    if (const auto wrong = set_place(entry.field.in(options.models[i]), entry.rule(), values[i]))
      refuse(std::string(entry.flag), *wrong);
}

void apply_flags(Options& options, const Flags& flags) {
  for (const auto& entry : model_table()) apply_model_flag(options, entry, flags);
  for (const auto& [flag, value] : flags) {
    const auto* entry = find_by_flag(flag);
    if (entry == nullptr) refuse_unknown("command line", flag, known_flags());
    if (may_repeat(*entry)) continue;
    if (const auto wrong = set_option(options, *entry, value)) refuse(flag, *wrong);
  }
}

// Throws std::runtime_error if a model asks for something that its place can't give.
void check_model_resources(const Options& options) {
  const bool has_threads = std::any_of(options.models.begin(), options.models.end(),
                                       [](const ModelOptions& model) { return model.threads > 0; });
  if (has_threads && options.worker_placement != "child")
    throw std::runtime_error(
        "[[model]]: threads: expected --worker-placement child; models in one process share --threads");
  if (has_threads && options.device != "cpu" && options.device != "auto")
    throw std::runtime_error("[[model]]: threads: expected --device cpu or auto, got '" + options.device +
                             "', which computes without them");
  if (options.models.size() == 1 && options.models.front().memory_share > 0 && options.memory_bytes == 0)
    throw std::runtime_error(
        "[[model]]: memory_share: expected --memory, for one model has a share of it only");
}

}  // namespace

std::optional<std::string> set_option(Options& options, const OptionEntry& entry, std::string_view text) {
  return set_place(entry.field.in(options), entry.rule(), text);
}

std::string option_text(Options options, const OptionEntry& entry) {
  return text_of(entry.field.in(options), entry.rule());
}

bool may_repeat(const OptionEntry& entry) { return entry.key.starts_with("model."); }

OptionChanges changes_between(const Options& before, const Options& after) {
  OptionChanges changes;
  for (const auto& entry : option_table()) {
    bool is_same = option_text(before, entry) == option_text(after, entry);
    if (entry.key == "model.dir") is_same = before.models == after.models;
    if (entry.key == "model.name") is_same = true;  // of every model, see above
    if (is_same) continue;
    (is_reloadable(entry) ? changes.reloadable : changes.need_restart).emplace_back(entry.flag);
  }
  return changes;
}

Options with_reloaded(Options before, const Options& after) {
  for (const auto& entry : option_table())
    if (is_reloadable(entry) && set_option(before, entry, option_text(after, entry)))
      throw std::logic_error(std::string(entry.flag) + " does not take its own text");
  return before;
}

Options resolve_options(const OptionSources& sources) {
  Options options;
  if (sources.file) apply_file(options, *sources.file);
  apply_environment(options, sources.environment);
  apply_flags(options, sources.flags);
  if (options.device == "host") options.device = "cpu";
  if (const auto problem = find_problem(options.models)) throw std::runtime_error(*problem);
  check_model_resources(options);
  return options;
}

}  // namespace troupe
