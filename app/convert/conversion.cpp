// SPDX-License-Identifier: Apache-2.0
#include "app/convert/conversion.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string_view>

#include "gpu/model/conversion/config_keys.hpp"
#include "gpu/model/gguf_config.hpp"
#include "text/chat_template.hpp"
#include "text/tokenizer/gguf_export.hpp"

namespace troupe {
namespace {

const std::string kPrefix = "tokenizer.ggml.";

// ggml's names for what most tensors of a file are.
constexpr std::uint64_t kMostlyQ8 = 7, kMostlyQ4 = 2;
constexpr std::uint64_t kQuantizationVersion = 2;

void add_type_keys(Quantization quantization, GgufKeys& keys) {
  keys.add_count("general.file_type", quantization == Quantization::kQ8 ? kMostlyQ8 : kMostlyQ4);
  keys.add_count("general.quantization_version", kQuantizationVersion);
}

// Of another file as they are, but for those that describe its bytes.
void copy_keys(const GgufFile& file, GgufKeys& keys) {
  for (const GgufKey& key : file.keys()) {
    const bool is_of_bytes = key.name == "general.file_type" || key.name == "general.quantization_version" ||
                             key.name == "general.alignment" || key.name.starts_with("split.");
    if (!is_of_bytes) keys.add_bytes(key.name, file.bytes_of(key));
  }
}

// The tokenizer names one token that ends an answer, spellings tell of some; there are keys for two more.
void add_endings(const ModelConfig& config, const GgufVocabulary& vocabulary, GgufKeys& keys) {
  const std::string architecture = gguf_architecture(config);
  constexpr std::int64_t kControl = 3;
  std::vector<std::uint64_t> unnamed;
  for (const std::int32_t token : config.eos_tokens) {
    const auto id = static_cast<std::size_t>(token);
    const bool is_spelled = id < vocabulary.tokens.size() && vocabulary.token_type[id] == kControl &&
                            ends_by_spelling(vocabulary.tokens[id], architecture);
    if (!is_spelled && vocabulary.eos_token_id != id) unnamed.push_back(id);
  }
  std::vector<const char*> free_keys = {"eot_token_id", "eom_token_id"};
  if (!vocabulary.eos_token_id) free_keys.insert(free_keys.begin(), "eos_token_id");
  // What has no place is found missing when the file is read.
  for (std::size_t i = 0; i < std::min(unnamed.size(), free_keys.size()); ++i)
    keys.add_count(kPrefix + free_keys[i], unnamed[i]);
}

void add_tokenizer_keys(const GgufExport& exported, GgufKeys& keys) {
  const GgufVocabulary& vocabulary = exported.vocabulary;
  keys.add_text(kPrefix + "model", vocabulary.model);
  if (!vocabulary.pre.empty()) keys.add_text(kPrefix + "pre", vocabulary.pre);
  keys.add_texts(kPrefix + "tokens", vocabulary.tokens);
  keys.add_integers(kPrefix + "token_type", vocabulary.token_type);
  if (!vocabulary.scores.empty()) keys.add_numbers(kPrefix + "scores", vocabulary.scores);
  if (!vocabulary.merges.empty()) keys.add_texts(kPrefix + "merges", vocabulary.merges);
  const auto add_id = [&](const char* name, std::optional<std::uint64_t> id) {
    if (id) keys.add_count(kPrefix + name, *id);
  };
  add_id("bos_token_id", vocabulary.bos_token_id);
  add_id("eos_token_id", vocabulary.eos_token_id);
  add_id("unknown_token_id", exported.unknown_token_id);
  const auto add_flag = [&](const char* name, std::optional<bool> flag) {
    if (flag) keys.add_flag(kPrefix + name, *flag);
  };
  add_flag("add_bos_token", vocabulary.add_bos_token);
  add_flag("add_eos_token", vocabulary.add_eos_token);
  add_flag("add_space_prefix", vocabulary.add_space_prefix);
  if (!vocabulary.huggingface.empty()) keys.add_text("tokenizer.huggingface.json", vocabulary.huggingface);
}

void add_sampling_keys(const GenerationDefaults& defaults, GgufKeys& keys) {
  const std::string prefix = "general.sampling.";
  if (defaults.temperature) keys.add_number(prefix + "temp", double{*defaults.temperature});
  if (defaults.top_p) keys.add_number(prefix + "top_p", double{*defaults.top_p});
  if (defaults.min_p) keys.add_number(prefix + "min_p", double{*defaults.min_p});
  if (defaults.repetition_penalty)
    keys.add_number(prefix + "penalty_repeat", double{*defaults.repetition_penalty});
  if (defaults.top_k) keys.add_count(prefix + "top_k", static_cast<std::uint64_t>(*defaults.top_k));
}

std::string name_of_directory(const std::filesystem::path& model) {
  const auto path = std::filesystem::weakly_canonical(model);
  return path.filename().string();
}

void add_directory(const std::filesystem::path& model, BlockFormat format, Conversion& conversion) {
  const ModelConfig& config = conversion.config;
  const std::string architecture = gguf_architecture(config);
  GgufKeys& keys = conversion.keys;
  add_config_keys(config, keys);
  keys.add_text("general.name", name_of_directory(model));
  add_sampling_keys(load_generation_defaults(model), keys);
  const GgufExport exported =
      export_tokenizer(model, config.vocabulary_size, std::size_t{GgufLimits::kMaxStringBytes});
  add_tokenizer_keys(exported, keys);
  add_endings(config, exported.vocabulary, keys);
  if (const auto source = load_chat_template_source(model)) keys.add_text("tokenizer.chat_template", *source);
  conversion.losses = exported.losses;
  conversion.tensors = tensors_of_directory(*conversion.store, *conversion.network, architecture, format);
  for (RopeTensor& rope : rope_tensors(config)) {
    const std::uint64_t size = rope.values.size();
    conversion.tensors.push_back(
        {.entry = {.name = rope.name, .dimensions = {size}, .format = BlockFormat::kF32},
         .parts = {},
         .values = std::move(rope.values)});
  }
}

}  // namespace

std::uint64_t Conversion::data_bytes() const {
  std::uint64_t sum = 0;
  for (const ConvertedTensor& tensor : tensors) sum += tensor.entry.size_bytes();
  return sum;
}

Conversion plan_conversion(const std::filesystem::path& model, Quantization quantization) {
  Conversion conversion;
  conversion.config = load_model_config(model);
  (void)gguf_architecture(conversion.config);
  conversion.network = make_network(conversion.config);
  conversion.store = std::make_shared<const WeightStore>(model);
  check_weights(*conversion.store, *conversion.network);
  const BlockFormat format = quantization == Quantization::kQ8 ? BlockFormat::kQ8_0 : BlockFormat::kQ4_0;
  if (is_gguf_path(model)) {
    conversion.gguf = std::make_shared<const GgufFile>(model);
    copy_keys(*conversion.gguf, conversion.keys);
    conversion.tensors = tensors_of_gguf(*conversion.gguf, format);
  } else {
    add_directory(model, format, conversion);
  }
  add_type_keys(quantization, conversion.keys);
  return conversion;
}

}  // namespace troupe
