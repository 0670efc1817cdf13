// SPDX-License-Identifier: Apache-2.0
// A GGUF file in Hugging Face's terms: the same configuration documents and the
// same names of tensors that a model directory has, so that one reader checks both.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpu/model/gguf_file.hpp"

namespace troupe {

// As config.json, with all tokens that end an answer. Throws std::runtime_error that names the file, and the
// key that is missing or asks for what is not supported.
nlohmann::json gguf_config_document(const GgufFile& file);

// A control token of that spelling ends an answer of that architecture, also where no key names it.
bool ends_by_spelling(std::string_view token, std::string_view architecture);

// As generation_config.json: how the file recommends to sample.
nlohmann::json gguf_generation_document(const GgufFile& file);

// Divisors of the rotary frequencies (Llama 3.1's scaling), [head_dim / 2]; empty: none.
std::vector<float> gguf_rope_divisors(const GgufFile& file, std::uint32_t head_dim);

// "blk.0.attn_q.weight" is "model.layers.0.self_attn.q_proj.weight"; a name without
// a counterpart stays. Some names depend on general.architecture. A stack of experts' matrices
// has "experts.*." in its name, where each of them has its number.
std::string hugging_face_name(std::string_view tensor, std::string_view architecture = {});

// The inverse: "model.layers.0.self_attn.q_proj.weight" is "blk.0.attn_q.weight"; one expert's matrix has the
// name of the stack. Empty: there is no counterpart.
std::string gguf_tensor_name(std::string_view tensor, std::string_view architecture);

// Queries and keys of these lie in pairs (i, i + d/2) in a file.
bool has_gguf_pairs(std::string_view architecture);

// The rows of a head in tensors whose rows lie in pairs (i, i + d/2), as ggml's rotation of
// neighbours wants them: queries and keys of the llama architecture. 0: they lie as networks
// read them.
std::uint32_t gguf_paired_rows(const GgufFile& file, std::string_view tensor);

}  // namespace troupe
