// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/sentence_modules.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/model/config_fields.hpp"
#include "gpu/model/json_file.hpp"

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxModules = 16;

// A module lies in a folder of the model's own directory.
bool is_folder_name(std::string_view name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 128 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), is_allowed);
}

PoolingMode mode_of(const ConfigFields& fields, const std::string& name) {
  if (name == "mean") return PoolingMode::kMean;
  if (name == "cls") return PoolingMode::kCls;
  if (name == "max") return PoolingMode::kMax;
  if (name == "lasttoken") return PoolingMode::kLast;
  fields.refuse("the pooling \"" + name.substr(0, 48) +
                "\" is not supported (mean, cls, max and lasttoken are)");
}

// The newer spelling: a name, or a list of one.
std::vector<std::string> named_modes(const ConfigFields& fields, const json& value) {
  std::vector<std::string> names;
  for (const json& name : value.is_array() ? value : json::array({value})) {
    if (!name.is_string()) {
      fields.refuse("pooling_mode is " + ConfigFields::shown(value) + ", expected a name");
    }
    names.push_back(name.get<std::string>());
  }
  return names;
}

// The older one: a flag each.
std::vector<std::string> flagged_modes(const ConfigFields& fields) {
  constexpr std::array<std::array<const char*, 2>, 6> kFlags = {
      {{"pooling_mode_cls_token", "cls"},
       {"pooling_mode_max_tokens", "max"},
       {"pooling_mode_mean_tokens", "mean"},
       {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
       {"pooling_mode_weightedmean_tokens", "weightedmean"},
       {"pooling_mode_lasttoken", "lasttoken"}}};
  std::vector<std::string> names;
  for (const auto& [flag, name] : kFlags)
    if (fields.flag(flag, false)) names.emplace_back(name);
  return names;
}

PoolingMode read_pooling(const std::filesystem::path& path, std::uint32_t hidden_size) {
  const json document = read_json_file(path);
  const ConfigFields fields(document, path.string());
  for (const char* name : {"word_embedding_dimension", "embedding_dimension"}) {
    const auto size = fields.count(name, kMaxWidth);
    if (size && *size != hidden_size) {
      fields.refuse(std::string(name) + " is " + std::to_string(*size) + ", but the model's hidden_size is " +
                    std::to_string(hidden_size));
    }
  }
  if (!fields.flag("include_prompt", true)) fields.refuse("include_prompt false is not supported");
  const json* mode = fields.find("pooling_mode");
  const auto names = mode != nullptr ? named_modes(fields, *mode) : flagged_modes(fields);
  if (names.size() > 1) fields.refuse("several poolings side by side are not supported");
  return names.empty() ? PoolingMode::kMean : mode_of(fields, names.front());
}

// "sentence_transformers.models.Pooling": the last part counts.
std::string kind_of(const ConfigFields& module) {
  const auto type = module.text("type");
  if (!type) module.refuse("a module has no type");
  return type->substr(type->rfind('.') + 1);
}

std::uint32_t read_max_tokens(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return 0;
  const json document = read_json_file(path);
  return ConfigFields(document, path.string()).count("max_seq_length", kMaxContext).value_or(0);
}

}  // namespace

SentenceModules read_sentence_modules(const std::filesystem::path& model_dir, std::uint32_t hidden_size) {
  const auto path = model_dir / "modules.json";
  if (!std::filesystem::exists(path)) return {};
  SentenceModules modules{.normalizes = false,
                          .max_tokens = read_max_tokens(model_dir / "sentence_bert_config.json")};
  const json document = read_json_file(path);
  const json as_object = json::object();
  const ConfigFields file(as_object, path.string());
  if (!document.is_array() || document.empty() || document.size() > kMaxModules) {
    file.refuse("is not a list of a few modules");
  }
  const std::vector<std::string> expected = {"Transformer", "Pooling", "Normalize"};
  for (std::size_t i = 0; i < document.size(); ++i) {
    const ConfigFields module(document[i], path.string());
    const std::string kind = kind_of(module);
    if (i >= expected.size() || kind != expected[i]) {
      file.refuse("a module " + kind.substr(0, 48) + " at place " + std::to_string(i) +
                  " is not supported (Transformer, Pooling and perhaps Normalize are)");
    }
    if (kind == "Transformer" && module.text("path").value_or("") != "")
      file.refuse("the Transformer is in a folder of its own, which is not supported");
    if (kind == "Normalize") modules.normalizes = true;
    if (kind != "Pooling") continue;
    const auto folder = module.text("path").value_or("");
    if (!is_folder_name(folder)) file.refuse("a path is no plain name of a folder");
    modules.pooling = read_pooling(model_dir / folder / "config.json", hidden_size);
  }
  if (document.size() < 2) file.refuse("names no Pooling");
  return modules;
}

}  // namespace troupe
