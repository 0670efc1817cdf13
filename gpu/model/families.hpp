// SPDX-License-Identifier: Apache-2.0
// The families of models that networks exist for, with the names that Hugging Face's
// configurations and GGUF files have for them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

enum class Family : std::uint8_t {
  kLlama,
  kMistral,
  kQwen2,
  kMixtral,
  kQwen3,
  kQwen3Moe,
  kPhi3,
  kSmolLm3,
  kGptOss,
  kLfm2,
  kGemma2,
  kGemma3,
  kGpt2,
  kGptNeoX,
  kOpt,
  kGptJ,
  kBert,
  kRecurrent,   // an LSTM or a GRU, in chains
  kSeq2Seq,     // two of them, the second with attention to the first
  kTranslator,  // a transformer encoder-decoder
  kTreeLstm
};

struct FamilyNames {
  Family family;
  std::string_view architecture;  // of "architectures"
  std::string_view model_type;    // of "model_type"; empty: another architecture of that type is meant
  std::string_view gguf;          // of "general.architecture"; empty: no such files are read
};

// Null: none has that name. A GGUF file's "llama" is Mistral, too, and read as Llama.
const FamilyNames* find_family(std::string_view architecture);
const FamilyNames* find_family_of_type(std::string_view model_type);
const FamilyNames* find_gguf_family(std::string_view name);

// "LlamaForCausalLM, … and AlbertForSequenceClassification", and "llama, … and qwen3".
std::string known_architectures();
std::string known_gguf_architectures();

}  // namespace troupe
