// SPDX-License-Identifier: Apache-2.0
// The "model" of a tokenizer.json, by its type. `vocabulary` is the model's own, with special tokens marked.
// Throws std::runtime_error saying which field is wrong.
#pragma once

#include <vector>

#include "text/tokenizer/file/tokenizer_fields.hpp"
#include "text/tokenizer/file/tokenizer_vocabulary.hpp"
#include "text/tokenizer/model/bpe_model.hpp"
#include "text/tokenizer/model/unigram_model.hpp"
#include "text/tokenizer/model/word_piece_model.hpp"

namespace troupe {

BpeModelParts read_bpe(const TokenizerField& model, const std::vector<VocabularyEntry>& vocabulary,
                       bool is_byte_level);

// `vocabulary`: read_scored_vocabulary().
UnigramParts read_unigram(const TokenizerField& model, const std::vector<VocabularyEntry>& vocabulary,
                          bool is_byte_level);

WordPieceParts read_word_piece(const TokenizerField& model, const std::vector<VocabularyEntry>& vocabulary,
                               bool is_byte_level);

}  // namespace troupe
