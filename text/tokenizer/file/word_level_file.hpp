// SPDX-License-Identifier: Apache-2.0
// The "model" of a tokenizer.json of type WordLevel.
#pragma once

#include <vector>

#include "text/tokenizer/file/tokenizer_fields.hpp"
#include "text/tokenizer/file/tokenizer_vocabulary.hpp"
#include "text/tokenizer/model/word_level_model.hpp"

namespace troupe {

// `vocabulary`: the model's own entries. Throws std::runtime_error naming the field.
WordLevelParts read_word_level(const TokenizerField& model, const std::vector<VocabularyEntry>& vocabulary,
                               bool is_byte_level);

}  // namespace troupe
