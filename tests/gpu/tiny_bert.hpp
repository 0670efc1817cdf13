// SPDX-License-Identifier: Apache-2.0
// A BERT of random weights that is built in a moment, and texts for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/model/random_model.hpp"
#include "gpu/program/program_cache.hpp"

namespace troupe {

using Text = std::vector<std::int32_t>;
using Vectors = std::vector<std::vector<float>>;

// Three layers of width 96, three heads, 211 tokens of vocabulary, 64 positions.
ModelConfig tiny_bert();
// In f32, pooled as the configuration says; for the life of the program.
const std::filesystem::path& tiny_bert_directory();

// One of each length from 1 to 64.
std::vector<Text> texts_of_every_length();
// `count` texts of 1 to 64 tokens.
std::vector<Text> random_texts(std::size_t count, std::uint32_t seed);

Batch batch_of(const std::vector<Text>& texts);
// In one batch; a device with programs of its own gets none. REQUIREs that it succeeds.
Vectors encode(Device& device, ProgramCache* programs, const std::vector<Text>& texts);

}  // namespace troupe
