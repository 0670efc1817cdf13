// SPDX-License-Identifier: Apache-2.0
// The "model" of a tokenizer.json whose type is WordPiece.
#pragma once

#include <vector>

#include "text/tokenizer/file/tokenizer_fields.hpp"
#include "text/tokenizer/file/tokenizer_vocabulary.hpp"
#include "text/tokenizer/model/word_piece_model.hpp"

namespace troupe {

// `vocabulary`: the model's own, with special tokens marked. Throws
// std::runtime_error saying which field is wrong.
WordPieceParts read_word_piece(const TokenizerField& model, const std::vector<VocabularyEntry>& vocabulary,
                               bool is_byte_level);

}  // namespace troupe
