// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/model/word_model.hpp"

#include <utility>

namespace troupe {
namespace {

std::variant<BpeModel, WordPieceModel, UnigramModel, WordLevelModel> make_model(WordModelParts parts) {
  if (const auto* words = std::get_if<WordLevelParts>(&parts)) return WordLevelModel(*words);
  if (const auto* pieces = std::get_if<WordPieceParts>(&parts)) return WordPieceModel(*pieces);
  if (const auto* unigram = std::get_if<UnigramParts>(&parts)) return UnigramModel(*unigram);
  return BpeModel(std::get<BpeModelParts>(std::move(parts)));
}

}  // namespace

WordModel::WordModel(WordModelParts parts) : model_(make_model(std::move(parts))) {}

void WordModel::encode(std::string_view word, WordScratch& scratch, EncodingBudget& budget,
                       std::vector<TokenId>& out) const {
  if (const auto* bpe = std::get_if<BpeModel>(&model_)) {
    bpe->encode(word, scratch.bpe, budget, out);
  } else if (const auto* unigram = std::get_if<UnigramModel>(&model_)) {
    unigram->encode(word, scratch.unigram, budget, out);
  } else if (const auto* words = std::get_if<WordLevelModel>(&model_)) {
    words->encode(word, budget, out);
  } else {
    std::get<WordPieceModel>(model_).encode(word, budget, out);
  }
}

std::size_t WordModel::max_token_bytes() const {
  return std::visit([](const auto& model) { return model.max_token_bytes(); }, model_);
}

}  // namespace troupe
