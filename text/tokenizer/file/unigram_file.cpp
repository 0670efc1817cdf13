// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/file/unigram_file.hpp"

#include <algorithm>
#include <limits>

namespace troupe {
namespace {

// An unknown character scores this much less than the least likely piece, as sentencepiece has it.
constexpr double kUnknownPenalty = 10.0;

}  // namespace

UnigramParts read_unigram(const TokenizerField& model, const std::vector<VocabularyEntry>& vocabulary,
                          bool is_byte_level) {
  if (is_byte_level) model.fail_unsupported("Unigram after ByteLevel");
  const TokenizerField vocab = model["vocab"];
  if (vocabulary.empty()) vocab.fail("has no pieces");
  UnigramParts parts;
  parts.unknown_token = read_token_id(model["unk_id"], vocabulary.size() - 1);
  parts.has_byte_fallback = model.bool_or("byte_fallback", false);
  parts.byte_tokens = byte_tokens(ids_by_content(vocab, vocabulary));
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    const auto score = vocab.value()[id][1].get<double>();
    least = std::min(least, score);
    if (vocabulary[id].is_special) continue;
    parts.pieces.push_back({vocabulary[id].content, static_cast<TokenId>(id), score});
  }
  parts.unknown_score = least - kUnknownPenalty;
  return parts;
}

}  // namespace troupe
