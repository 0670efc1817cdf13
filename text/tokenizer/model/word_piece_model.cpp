// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/model/word_piece_model.hpp"

#include <algorithm>
#include <optional>

namespace troupe {
namespace {

constexpr std::size_t kMaxCharacterBytes = 4;

TokenTable table_of(const std::vector<WordPieceEntry>& entries) {
  TokenTable table(entries.size());
  for (const WordPieceEntry& entry : entries) table.add(entry.content, entry.token);
  return table;
}

// Of the entries that begin with `prefix`, what follows it.
TokenTrie trie_of(const std::vector<WordPieceEntry>& entries, std::string_view prefix) {
  std::vector<TokenTrie::Entry> rests;
  for (const WordPieceEntry& entry : entries) {
    const std::string_view content = entry.content;
    if (content.size() > prefix.size() && content.starts_with(prefix)) {
      rests.push_back({content.substr(prefix.size()), entry.token});
    }
  }
  return TokenTrie(std::move(rests));
}

}  // namespace

WordPieceModel::WordPieceModel(const WordPieceParts& parts)
    : whole_words_(table_of(parts.entries)),
      beginnings_(trie_of(parts.entries, "")),
      continuations_(trie_of(parts.entries, parts.continuing_prefix)),
      unknown_token_(parts.unknown_token),
      max_characters_(parts.max_characters) {}

void WordPieceModel::encode(std::string_view word, EncodingBudget& budget, std::vector<TokenId>& out) const {
  budget.spend(word.size());
  if (is_too_long(word)) {
    out.push_back(unknown_token_);
  } else if (const std::optional<TokenId> token = whole_words_.find(word)) {
    out.push_back(*token);
  } else if (const std::size_t num_before = out.size(); !append_pieces(word, budget, out)) {
    out.resize(num_before);
    out.push_back(unknown_token_);
  }
  budget.check_tokens(out.size());
}

bool WordPieceModel::is_too_long(std::string_view word) const {
  if (word.size() <= max_characters_) return false;
  if (word.size() / kMaxCharacterBytes > max_characters_) return true;
  const auto num_characters =
      std::count_if(word.begin(), word.end(), [](char byte) { return (byte & 0xC0) != 0x80; });
  return static_cast<std::size_t>(num_characters) > max_characters_;
}

// False where some part of the word is in no entry.
bool WordPieceModel::append_pieces(std::string_view word, EncodingBudget& budget,
                                   std::vector<TokenId>& out) const {
  for (const TokenTrie* trie = &beginnings_; !word.empty(); trie = &continuations_) {
    const TokenTrie::Match piece = trie->longest_prefix(word);
    budget.spend(piece.num_steps);
    if (piece.num_bytes == 0) return false;
    out.push_back(piece.token);
    word.remove_prefix(piece.num_bytes);
  }
  return true;
}

}  // namespace troupe
