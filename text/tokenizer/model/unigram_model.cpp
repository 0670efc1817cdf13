// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/model/unigram_model.hpp"

#include <algorithm>
#include <limits>

#include "text/utf8.hpp"

namespace troupe {
namespace {

TokenTrie trie_of(const std::vector<UnigramPiece>& pieces) {
  std::vector<TokenTrie::Entry> entries;
  entries.reserve(pieces.size());
  for (const UnigramPiece& piece : pieces) entries.push_back({piece.content, piece.token});
  return TokenTrie(std::move(entries));
}

std::vector<double> scores_of(const std::vector<UnigramPiece>& pieces) {
  std::vector<double> scores;
  for (const UnigramPiece& piece : pieces) {
    const auto index = static_cast<std::size_t>(piece.token);
    if (index >= scores.size()) scores.resize(index + 1);
    scores[index] = piece.score;
  }
  return scores;
}

}  // namespace

UnigramModel::UnigramModel(const UnigramParts& parts)
    : pieces_(trie_of(parts.pieces)),
      scores_(scores_of(parts.pieces)),
      unknown_token_(parts.unknown_token),
      unknown_score_(parts.unknown_score),
      has_byte_fallback_(parts.has_byte_fallback),
      byte_tokens_(parts.byte_tokens) {}

void UnigramModel::encode(std::string_view word, UnigramScratch& scratch, EncodingBudget& budget,
                          std::vector<TokenId>& out) const {
  if (word.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw EncodingStopped(EncodingStop::kTooMuchWork, "a word has more than 2^32 bytes");
  }
  find_endings(word, scratch, budget);
  find_pieces(word.size(), scratch);
  for (auto piece = scratch.pieces.rbegin(); piece != scratch.pieces.rend(); ++piece) {
    if (piece->token == unknown_token_) {
      append_unknown(word.substr(0, piece->num_bytes), out);
    } else {
      out.push_back(piece->token);
    }
    word.remove_prefix(piece->num_bytes);
  }
  budget.check_tokens(out.size());
}

// Viterbi, from each character on.
void UnigramModel::find_endings(std::string_view word, UnigramScratch& scratch,
                                EncodingBudget& budget) const {
  auto& endings = scratch.endings;
  endings.assign(word.size() + 1, {});
  for (std::size_t begin = 0; begin < word.size();) {
    const double before = endings[begin].score;
    const auto propose = [&](std::size_t num_bytes, TokenId token, double score) {
      UnigramScratch::Ending& ending = endings[begin + num_bytes];
      if (ending.num_bytes > 0 && before + score <= ending.score) return;
      ending = {before + score, static_cast<std::uint32_t>(num_bytes), token};
    };
    const std::string_view rest = word.substr(begin);
    const std::size_t character = next_utf8_character(rest).num_bytes;
    bool is_known = false;
    const std::size_t num_steps = pieces_.for_each_prefix(rest, [&](std::size_t num_bytes, TokenId token) {
      propose(num_bytes, token, scores_[static_cast<std::size_t>(token)]);
      is_known = is_known || num_bytes == character;
    });
    if (!is_known) propose(character, unknown_token_, unknown_score_);
    budget.spend(num_steps);
    begin += character;
  }
}

void UnigramModel::find_pieces(std::size_t word_bytes, UnigramScratch& scratch) const {
  auto& pieces = scratch.pieces;
  pieces.clear();
  for (std::size_t end = word_bytes; end > 0;) {
    const UnigramScratch::Ending& ending = scratch.endings[end];
    const bool joins =
        ending.token == unknown_token_ && !pieces.empty() && pieces.back().token == unknown_token_;
    if (joins) {
      pieces.back().num_bytes += ending.num_bytes;
    } else {
      pieces.push_back(ending);
    }
    end -= ending.num_bytes;
  }
}

void UnigramModel::append_unknown(std::string_view text, std::vector<TokenId>& out) const {
  const auto token_of = [&](char byte) { return byte_tokens_[static_cast<std::uint8_t>(byte)]; };
  const bool has_tokens =
      has_byte_fallback_ && std::all_of(text.begin(), text.end(), [&](char c) { return token_of(c) >= 0; });
  if (!has_tokens) return out.push_back(unknown_token_);
  for (const char byte : text) out.push_back(token_of(byte));
}

}  // namespace troupe
