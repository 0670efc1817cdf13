// SPDX-License-Identifier: Apache-2.0
// All families, by the names that Hugging Face's configurations and GGUF files have for them.
#pragma once

#include <string>
#include <string_view>

#include "gpu/networks/families/family.hpp"

namespace troupe {

// Null: none has that name.
const Family* find_family(std::string_view architecture);
const Family* find_family_of_type(std::string_view model_type);
const GgufFamily* find_gguf(std::string_view name);
// The name "llama" stands for Llama, and for Mixtral where there are experts; Mistral is read as Llama.
const Family* find_gguf_family(std::string_view name, bool has_experts);

// "LlamaForCausalLM, … and AlbertForSequenceClassification", and "llama, … and lfm2".
std::string known_architectures();
std::string known_gguf_architectures();

}  // namespace troupe
