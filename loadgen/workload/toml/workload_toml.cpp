// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/toml/workload_toml.hpp"

#include <cmath>
#include <stdexcept>

#include "loadgen/workload/toml/arrivals_toml.hpp"
#include "loadgen/workload/toml/distribution_toml.hpp"
#include "loadgen/workload/toml/table_reader.hpp"

namespace troupe::loadgen {
namespace {

using std::chrono::nanoseconds;

const toml::table* section(const toml::table& root, const std::string& name) {
  const auto* node = root.get(name);
  if (node != nullptr && !node->is_table())
    refuse_at(node->source(), name + ": expected a table [" + name + "]");
  return node == nullptr ? nullptr : node->as_table();
}

// Without a word about how many, a plan ends where its duration, its arrivals
// or its trace do, and else after the usual number.
void limit(WorkloadSettings& settings, const toml::table* general) {
  if (general != nullptr && general->contains("max_conversations")) return;
  const auto usual = settings.max_conversations;
  settings.max_conversations = 0;
  if (is_endless(settings)) settings.max_conversations = usual;
}

WorkloadSettings read_general(const toml::table& table) {
  TableReader reader(table, "workload");
  WorkloadSettings settings;
  if (const auto* node = reader.find("preset")) {
    std::string name;
    reader.read("preset", name);
    try {
      settings = preset(name);
    } catch (const std::runtime_error& error) {
      refuse_at(node->source(), error.what());
    }
  }
  reader.read("name", settings.name);
  reader.read("max_conversations", settings.max_conversations);
  reader.read("duration_s", settings.duration_s);
  reader.refuse_unknown_keys();
  return settings;
}

void read_milliseconds(TableReader& reader, std::string_view key, nanoseconds& value) {
  double milliseconds = static_cast<double>(value.count()) / 1e6;
  const auto* node = reader.find(key);
  reader.read(key, milliseconds);
  if (!(milliseconds >= 0 && milliseconds < 1e12)) reader.refuse(*node, key, "milliseconds of at least 0");
  value = nanoseconds(std::llround(milliseconds * 1e6));
}

void read_prefix(const toml::node& node, TableReader& parent, PrefixSettings& prefix) {
  if (!node.is_table()) parent.refuse(node, "prefix", "a table with count and tokens");
  TableReader reader(*node.as_table(), parent.name_of("prefix"));
  reader.read("count", prefix.count);
  reader.read("tokens", prefix.tokens);
  reader.read("zipf_exponent", prefix.zipf_exponent);
  reader.refuse_unknown_keys();
}

void read_impatience(TableReader& parent, const std::string& key, const std::filesystem::path& directory,
                     ImpatienceSettings& settings) {
  const auto* node = parent.find(key);
  if (node == nullptr) return;
  if (!node->is_table()) parent.refuse(*node, key, "a table with share and after_s");
  TableReader reader(*node->as_table(), parent.name_of(key));
  if (reader.find("share") == nullptr || reader.find("after_s") == nullptr)
    parent.refuse(*node, key, "a table with share and after_s");
  reader.read("share", settings.share);
  read_distribution(reader, "after_s", directory, settings.after_s);
  reader.refuse_unknown_keys();
}

void read_trace(const toml::table& table, const std::string& name, const std::filesystem::path& directory,
                TraceSettings& settings) {
  using Format = TraceSettings::Format;
  TableReader reader(table, name);
  if (reader.find("format") == nullptr) refuse_at(table.source(), name + ": expected a format, got none");
  const auto format =
      reader.read_choice("format", {"azure", "mooncake", "burstgpt", "sharegpt", "agents", "plan"}, "azure");
  settings.format = format == "azure"      ? Format::kAzure
                    : format == "mooncake" ? Format::kMooncake
                    : format == "burstgpt" ? Format::kBurstGpt
                    : format == "sharegpt" ? Format::kShareGpt
                    : format == "agents"   ? Format::kAgents
                                           : Format::kPlan;
  reader.read("file", settings.file);
  settings.file = resolved(directory, settings.file);
  reader.read("from_s", settings.from_s);
  reader.read("until_s", settings.until_s);
  reader.read("max_conversations", settings.max_conversations);
  reader.read("length_factor", settings.length_factor);
  reader.read("max_context_tokens", settings.max_context_tokens);
  reader.read("keeps_text", settings.keeps_text);
  reader.read("only_usual_lengths", settings.only_usual_lengths);
  reader.refuse_unknown_keys();
}

void read_lengths_of_answers(TableReader& reader, const std::filesystem::path& directory,
                             ClassSettings& settings) {
  const auto* ratio = reader.find("output_ratio");
  if (ratio != nullptr && reader.find("output_tokens") != nullptr)
    reader.refuse(*ratio, "output_ratio", "either output_tokens or output_ratio");
  read_distribution(reader, "output_tokens", directory, settings.output_tokens);
  if (ratio != nullptr) read_distribution(reader, "output_ratio", directory, settings.output_ratio.emplace());
}

// Accepts only the keys of the class's content: others would have no effect.
void read_content(TableReader& reader, const std::filesystem::path& directory, ClassSettings& settings) {
  using Content = ClassSettings::Content;
  const auto* questions = reader.find("questions");
  const auto* trace = reader.find("trace");
  if (questions != nullptr && trace != nullptr)
    reader.refuse(*questions, "questions", "either questions or a trace");
  if (questions != nullptr) settings.content = Content::kQuestions;
  if (trace != nullptr) settings.content = Content::kTrace;
  switch (settings.content) {
    case Content::kQuestions:
      if (questions != nullptr) {
        reader.read("questions", settings.questions_file);
        settings.questions_file = resolved(directory, settings.questions_file);
      }
      return reader.read("categories", settings.categories);
    case Content::kTrace:
      if (!trace->is_table()) reader.refuse(*trace, "trace", "a table with file and format");
      read_trace(*trace->as_table(), reader.name_of("trace"), directory, settings.trace);
      return reader.read("repeats", settings.repeats);
    case Content::kSynthetic:
      read_distribution(reader, "prompt_tokens", directory, settings.prompt_tokens);
      if (reader.find("first_prompt_tokens") != nullptr)
        read_distribution(reader, "first_prompt_tokens", directory, settings.first_prompt_tokens.emplace());
      read_lengths_of_answers(reader, directory, settings);
      read_distribution(reader, "turns", directory, settings.num_turns);
      if (const auto* prefix = reader.find("prefix")) read_prefix(*prefix, reader, settings.prefix);
  }
}

void read_class(const toml::table& table, const std::string& name, const std::filesystem::path& directory,
                ClassSettings& settings) {
  TableReader reader(table, name);
  auto& request_class = settings.request_class;
  reader.read("name", request_class.name);
  reader.read("share", settings.share);
  reader.read("ignore_eos", request_class.ignore_eos);
  reader.read("max_tokens", request_class.max_tokens);
  reader.read("asked_tokens", request_class.asked_tokens);
  const auto trees = reader.read_choice("trees", {"none", "parsed", "complete"}, "none");
  request_class.trees = *tree_shape_from_name(trees);
  read_milliseconds(reader, "ttft_ms", request_class.objectives.time_to_first_token);
  read_milliseconds(reader, "tpot_ms", request_class.objectives.time_per_output_token);
  read_milliseconds(reader, "e2e_ms", request_class.objectives.end_to_end);
  read_distribution(reader, "think_time_s", directory, settings.think_time_s);
  read_impatience(reader, "cancelled", directory, settings.cancelled);
  read_impatience(reader, "stalled", directory, settings.stalled);
  read_content(reader, directory, settings);
  reader.refuse_unknown_keys();
}

// Where the key stands that a message of check() begins with, or as much of its
// path as there is: a key may be missing, or stand for several settings.
const toml::source_region& place_of(const std::string& message, const toml::table& root) {
  auto key = message.substr(0, message.find(": "));
  while (!key.empty()) {
    if (const auto found = toml::at_path(root, key)) return found.node()->source();
    const auto end = key.find_last_of(".[");
    key.resize(end == std::string::npos ? 0 : end);
  }
  return root.source();
}

}  // namespace

WorkloadSettings read_workload(const toml::table& root, const std::filesystem::path& directory) {
  WorkloadSettings settings;
  if (const auto* table = section(root, "workload")) settings = read_general(*table);
  if (const auto* table = section(root, "arrivals")) settings.arrivals = read_arrivals(*table, directory);
  // The first [[class]] changes the preset's first class, and so on.
  const auto tables = tables_of(root.get("class"), "class");
  if (!tables.empty()) settings.classes.resize(tables.size());
  for (std::size_t i = 0; i < tables.size(); ++i)
    read_class(*tables[i], "class[" + std::to_string(i) + "]", directory, settings.classes[i]);
  limit(settings, section(root, "workload"));
  try {
    check(settings);
  } catch (const std::runtime_error& error) {
    refuse_at(place_of(error.what(), root), error.what());
  }
  return settings;
}

}  // namespace troupe::loadgen
