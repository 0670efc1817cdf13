// SPDX-License-Identifier: Apache-2.0
// The "model" of a tokenizer.json whose type is Unigram.
#pragma once

#include <vector>

#include "text/tokenizer/file/tokenizer_fields.hpp"
#include "text/tokenizer/file/tokenizer_vocabulary.hpp"
#include "text/tokenizer/model/unigram_model.hpp"

namespace troupe {

// `vocabulary`: read_scored_vocabulary() of the model's own, with special tokens marked. Throws
// std::runtime_error saying which field is wrong.
UnigramParts read_unigram(const TokenizerField& model, const std::vector<VocabularyEntry>& vocabulary,
                          bool is_byte_level);

}  // namespace troupe
