// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/ollama/ollama_models.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "http/json/json_text.hpp"

namespace troupe {
namespace {

constexpr std::int64_t kNever = 253'402'300'799;  // the end of the year 9999

std::string tagged(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  const bool has_tag = name.find(':', slash == std::string::npos ? 0 : slash) != std::string::npos;
  return has_tag ? name : name + ":latest";
}

// "3.5M", "7.2B"
std::string in_words(std::uint64_t count) {
  constexpr std::array<std::pair<double, char>, 3> kUnits = {{{1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}}};
  for (const auto& [size, letter] : kUnits) {
    if (static_cast<double>(count) < size) continue;
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f%c", static_cast<double>(count) / size, letter);
    return text.data();
  }
  return std::to_string(count);
}

void append_string(std::string& out, std::string_view name, std::string_view text) {
  out.append(",\"").append(name).append("\":");
  append_json_string(out, text);
}

void append_number(std::string& out, std::string_view name, std::uint64_t number) {
  out.append(",\"").append(name).append("\":").append(std::to_string(number));
}

void append_time(std::string& out, std::string_view name, std::int64_t time) {
  out.append(",\"").append(name).append("\":");
  append_json_time(out, time);
}

// ,"details":{…}
void append_details(std::string& out, const ServedModelInfo& model) {
  const ModelFacts& facts = model.facts;
  out += ",\"details\":{\"parent_model\":\"\"";
  append_string(out, "format", facts.format);
  append_string(out, "family", facts.family);
  out += ",\"families\":[";
  append_json_string(out, facts.family);
  out += ']';
  append_string(out, "parameter_size", in_words(facts.num_parameters));
  append_string(out, "quantization_level", facts.weight_type);
  out += '}';
}

// Ollama's words; a classifier has none.
void append_capabilities(std::string& out, const ServedModelInfo& model) {
  std::vector<std::string_view> words;
  if (can(model, ModelTask::kGenerate)) words.emplace_back("completion");
  if (can(model, ModelTask::kEmbed)) words.emplace_back("embedding");
  if (model.calls_tools) words.emplace_back("tools");
  if (model.reasons) words.emplace_back("thinking");
  out += ",\"capabilities\":[";
  for (const auto& word : words) out += (word == words.front() ? "\"" : ",\"") + std::string(word) + '"';
  out += ']';
}

// {"name":…,"model":… and what both lists have
std::string listed(const ServedModelInfo& model, std::uint64_t size_bytes) {
  const std::string name = tagged(model.name);
  std::string out = "{\"name\":" + json_string(name) + ",\"model\":" + json_string(name);
  append_number(out, "size", size_bytes);
  append_string(out, "digest", model.facts.digest);
  append_details(out, model);
  return out;
}

template <typename Entry>
std::string list_json(const ServedModels& models, const Entry& entry) {
  std::string out = "{\"models\":[";
  for (const auto& model : models.all()) out += (&model == &models[0] ? "" : ",") + entry(model);
  return out + "]}";
}

// Lines as of a Modelfile: the values that requests leave out.
std::string parameters_of(const SamplingDefaults& defaults) {
  std::string out = "temperature ";
  append_json_float(out, defaults.temperature);
  out += "\ntop_p ";
  append_json_float(out, defaults.top_p);
  out += "\nmin_p ";
  append_json_float(out, defaults.min_p);
  return out + "\ntop_k " + std::to_string(defaults.top_k);
}

// "model_info":{…}, with the keys of GGUF files.
void append_model_info(std::string& out, const ServedModelInfo& model) {
  const std::string& family = model.facts.family;
  out += ",\"model_info\":{\"general.architecture\":" + json_string(family);
  append_number(out, "general.parameter_count", model.facts.num_parameters);
  const auto add = [&](std::string_view key, std::uint64_t number) {
    std::string name = family;
    append_number(out, name.append(key), number);
  };
  add(".context_length", model.context_length);
  add(".embedding_length", model.facts.width);
  add(".block_count", model.facts.num_layers);
  out += '}';
}

}  // namespace

std::string ollama_tags_json(const ServedModels& models) {
  return list_json(models, [](const ServedModelInfo& model) {
    std::string out = listed(model, model.facts.size_bytes);
    append_time(out, "modified_at", model.facts.modified);
    append_capabilities(out, model);
    return out + '}';
  });
}

std::string ollama_running_json(const ServedModels& models) {
  return list_json(models, [](const ServedModelInfo& model) {
    std::string out = listed(model, model.facts.memory_bytes);
    append_time(out, "expires_at", kNever);
    append_number(out, "size_vram", model.facts.is_on_gpu ? model.facts.memory_bytes : 0);
    append_number(out, "context_length", model.context_length);
    return out + '}';
  });
}

std::string ollama_show_json(const ServedModelInfo& model) {
  std::string out = "{\"modelfile\":";
  append_json_string(out, "FROM " + tagged(model.name));
  const bool has_defaults = model.kind == ModelKind::kGenerative;
  append_string(out, "parameters", has_defaults ? parameters_of(model.defaults) : "");
  append_details(out, model);
  append_model_info(out, model);
  append_capabilities(out, model);
  append_time(out, "modified_at", model.facts.modified);
  return out + '}';
}

}  // namespace troupe
