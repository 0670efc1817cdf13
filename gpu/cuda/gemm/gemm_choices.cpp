// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/gemm_choices.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "gpu/kept_file.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace troupe::cuda {

const char* const kGemmChoicesFile = "product-choices.json";

namespace {

using Json = nlohmann::json;

// Also counts changes of the own kernels that make old measurements wrong.
constexpr int kFormat = 3;
constexpr std::size_t kMostBytes = std::size_t{4} << 20;
constexpr std::size_t kMostChoices = 8192;
constexpr std::size_t kMostDevices = 16;
constexpr double kLongest = 1e9;  // microseconds

std::string hex(std::uint64_t value) {
  std::string text(16, '0');
  for (std::size_t digit = 16; digit-- > 0; value >>= 4) {
    text[digit] = "0123456789abcdef"[value & 15];
  }
  return text;
}

Json json_of(const GemmDevice& device) {
  return {{"name", device.name},
          {"compute_capability", device.compute_capability},
          {"num_multiprocessors", device.num_multiprocessors},
          {"cublas_version", device.cublas_version},
          {"workspace_bytes", device.workspace_bytes}};
}

Json json_of(const GemmShape& shape, const GemmChoice& choice) {
  Json json = {{"tokens", shape.num_tokens},
               {"outputs", shape.num_outputs},
               {"depth", shape.depth},
               {"type", name_of(shape.type)},
               {"c_type", name_of(shape.c_type)},
               {"bias", shape.has_bias},
               {"adds", shape.adds},
               {"gelu", shape.activation == GemmActivation::kGelu},
               {"exact", shape.is_exact},
               {"microseconds", choice.microseconds}};
  if (choice.kernel == GemmKernel::kFewTokens) {
    json["kernel"] = "few-tokens";
    return json;
  }
  std::string algorithm;
  for (const std::uint64_t word : choice.algorithm) algorithm += hex(word);
  json["kernel"] = "cublaslt";
  json["algorithm"] = algorithm;
  json["workspace_bytes"] = choice.workspace_bytes;
  return json;
}

Json list_of(const GemmChoices& choices) {
  Json list = Json::array();
  for (const auto& [shape, choice] : choices) list.push_back(json_of(shape, choice));
  return list;
}

// Algorithms are opaque: that one digit has changed must not go unnoticed.
std::string checksum_of(const Json& list) {
  const std::string text = list.dump();
  return hex(XXH3_64bits(text.data(), text.size()));
}

// A member that may be absent.
const Json& member(const Json& object, const char* name) {
  static const Json kNothing;
  const auto found = object.find(name);
  return found == object.end() ? kNothing : *found;
}

bool read_number(const Json& json, std::uint64_t most, std::uint64_t& value) {
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > most) return false;
  value = json.get<std::uint64_t>();
  return true;
}
bool read_number(const Json& json, std::uint32_t& value) {
  std::uint64_t wide = 0;
  if (!read_number(json, UINT32_MAX, wide)) return false;
  value = static_cast<std::uint32_t>(wide);
  return true;
}

bool read_flag(const Json& json, bool& value) {
  if (!json.is_boolean()) return false;
  value = json.get<bool>();
  return true;
}

bool read_type(const Json& json, DataType& value) {
  for (const DataType type : {DataType::kF32, DataType::kF16, DataType::kBF16}) {
    if (json == name_of(type)) {
      value = type;
      return true;
    }
  }
  return false;
}

bool read_algorithm(const Json& json, std::array<std::uint64_t, 8>& words) {
  if (!json.is_string()) return false;
  const auto& text = json.get_ref<const std::string&>();
  if (text.size() != words.size() * 16) return false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const char* const begin = text.data() + i * 16;
    const auto [end, error] = std::from_chars(begin, begin + 16, words[i], 16);
    if (error != std::errc() || end != begin + 16) return false;
  }
  return true;
}

bool read_shape(const Json& json, GemmShape& shape) {
  bool is_gelu = false;
  if (!read_number(member(json, "tokens"), shape.num_tokens) ||
      !read_number(member(json, "outputs"), shape.num_outputs) ||
      !read_number(member(json, "depth"), shape.depth) || !read_type(member(json, "type"), shape.type) ||
      !read_type(member(json, "c_type"), shape.c_type) || !read_flag(member(json, "bias"), shape.has_bias) ||
      !read_flag(member(json, "adds"), shape.adds) || !read_flag(member(json, "gelu"), is_gelu) ||
      !read_flag(member(json, "exact"), shape.is_exact)) {
    return false;
  }
  shape.activation = is_gelu ? GemmActivation::kGelu : GemmActivation::kNone;
  return shape == bin_of(shape);
}

bool read_choice(const Json& json, std::uint64_t workspace_bytes, GemmChoice& choice) {
  const Json& microseconds = member(json, "microseconds");
  if (!microseconds.is_number()) return false;
  choice.microseconds = microseconds.get<double>();
  if (!(choice.microseconds >= 0.0 && choice.microseconds <= kLongest)) return false;
  if (member(json, "kernel") == "few-tokens") {
    choice.kernel = GemmKernel::kFewTokens;
    return true;
  }
  return member(json, "kernel") == "cublaslt" &&
         read_algorithm(member(json, "algorithm"), choice.algorithm) &&
         read_number(member(json, "workspace_bytes"), workspace_bytes, choice.workspace_bytes);
}

std::optional<GemmChoices> choices_of(const Json& list, const GemmDevice& device) {
  if (!list.is_array() || list.size() > kMostChoices) return std::nullopt;
  GemmChoices choices;
  for (const Json& json : list) {
    GemmShape shape;
    GemmChoice choice;
    if (!json.is_object() || !read_shape(json, shape) || !read_choice(json, device.workspace_bytes, choice) ||
        !choices.emplace(shape, choice).second) {
      return std::nullopt;
    }
  }
  return choices;
}

// None, if the text is damaged or of another format.
std::optional<Json> devices_of(const std::string& text) {
  // Copies recurse: what is deeper than a choice's fields is left out.
  constexpr int kDeepest = 8;
  const Json file = Json::parse(
      text, [](int depth, Json::parse_event_t, Json&) { return depth < kDeepest; }, false);
  if (!file.is_object() || member(file, "format") != kFormat || !member(file, "devices").is_array())
    return std::nullopt;
  return std::make_optional<Json>(member(file, "devices"));
}

std::string file_text(const Json& parts) {
  return Json{{"format", kFormat}, {"devices", parts}}.dump(1) + "\n";
}

// Parts of other devices, as they are: their starts judge them.
Json parts_of_others(int directory, const Json& device) {
  Json others = Json::array();
  std::optional<std::string> text;
  try {
    text = read_kept_file(directory, kGemmChoicesFile, kMostBytes);
  } catch (const std::runtime_error&) {  // replaced, if it can be
  }
  const auto devices = text ? devices_of(*text) : std::nullopt;
  if (!devices) return others;
  for (const Json& part : *devices)
    if (part.is_object() && member(part, "device").is_object() && member(part, "device") != device)
      others.push_back(part);
  return others;
}

}  // namespace

std::optional<GemmChoices> read_gemm_choices(int directory, const GemmDevice& device) {
  const auto text = read_kept_file(directory, kGemmChoicesFile, kMostBytes);
  if (!text) return std::nullopt;
  const auto devices = devices_of(*text);
  if (!devices) throw std::runtime_error("expected JSON of format " + std::to_string(kFormat));
  const Json wanted = json_of(device);
  std::optional<GemmChoices> choices;
  for (const Json& part : *devices) {
    if (!part.is_object() || member(part, "device") != wanted) continue;
    const auto of_part = choices_of(member(part, "choices"), device);
    if (!of_part) throw std::runtime_error("expected a list of products, each once, and their kernels");
    if (member(part, "checksum") != checksum_of(list_of(*of_part)))
      throw std::runtime_error("expected choices that match their checksum");
    if (!choices) choices.emplace();
    choices->insert(of_part->begin(), of_part->end());
  }
  return choices;
}

void write_gemm_choices(int directory, const GemmDevice& device, const GemmChoices& choices) {
  Json list = list_of(choices);
  Json parts = parts_of_others(directory, json_of(device));
  parts.push_back(
      {{"device", json_of(device)}, {"checksum", checksum_of(list)}, {"choices", std::move(list)}});
  if (parts.size() > kMostDevices)
    parts.erase(parts.begin(), parts.end() - static_cast<std::ptrdiff_t>(kMostDevices));
  while (parts.size() > 1 && file_text(parts).size() > kMostBytes) parts.erase(0);
  replace_kept_file(directory, kGemmChoicesFile, file_text(parts));
}

}  // namespace troupe::cuda
