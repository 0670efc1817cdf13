// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/model/bpe_model.hpp"

#include <algorithm>
#include <functional>

#include "text/utf8.hpp"

namespace troupe {
namespace {

using Symbol = BpeScratch::Symbol;

// Up to here looking at all pairs again is faster than keeping a heap.
constexpr std::size_t kFewSymbols = 24;

constexpr std::size_t kPairsASpend = 1024;
constexpr std::size_t kPartBytes = 16 * 1024;

constexpr std::string_view kMetaspace = "\u2581";

constexpr MergeTable::Rank kNoCode = MergeTable::kNever;
constexpr MergeTable::Rank kNumAscii = 128;
constexpr MergeTable::Rank kMetaspaceCode = 128;

// The code of the character that `text` begins with.
MergeTable::Rank code_of(std::string_view text) {
  const auto byte = static_cast<std::uint8_t>(text.front());
  if (byte < kNumAscii) return byte;
  return text.starts_with(kMetaspace) ? kMetaspaceCode : kNoCode;
}

void append(std::vector<Symbol>& symbols, TokenId token, MergeTable::Rank code = kNoCode) {
  const auto index = static_cast<std::int32_t>(symbols.size());
  symbols.push_back({token, index - 1, index + 1, code});
}

// The first word border at `from` or later: before a metaspace that follows
// another character.
std::size_t word_end(std::string_view text, std::size_t from) {
  while (true) {
    const std::size_t found = text.find(kMetaspace, from);
    if (found == std::string_view::npos) return text.size();
    if (found > 0 && !text.substr(0, found).ends_with(kMetaspace)) return found;
    from = found + kMetaspace.size();
  }
}

// Up to the border of a character.
std::size_t part_size(std::string_view word) {
  if (word.size() <= kPartBytes) return word.size();
  std::size_t size = kPartBytes;
  while (size > kPartBytes - 4 && (word[size] & 0xC0) == 0x80) --size;
  return size;
}

// The last character of a word; where its last bytes are no UTF-8, the last byte.
std::string_view last_character(std::string_view word, bool is_byte) {
  std::size_t size = 1;
  while (!is_byte && size < 4 && size < word.size() && (word[word.size() - size] & 0xC0) == 0x80) ++size;
  if (size > 1 && next_utf8_character(word.substr(word.size() - size)).num_bytes != size) size = 1;
  return word.substr(word.size() - std::min(size, word.size()));
}

bool has_inner_metaspace(std::string_view text) { return word_end(text, 0) < text.size(); }

}  // namespace

BpeModel::BpeModel(BpeModelParts parts)
    : characters_(parts.entries.size()),
      whole_words_(parts.entries.size()),
      merges_(parts.merges.size()),
      end_of_word_(std::move(parts.end_of_word)),
      byte_fallback_(parts.byte_fallback),
      unknown_token_(parts.unknown_token),
      fuses_unknown_(parts.fuses_unknown),
      starts_from_bytes_(parts.starts_from_bytes),
      max_token_bytes_(EncodingBudget::kUnlimited) {
  byte_tokens_.fill(-1);
  last_byte_tokens_.fill(-1);
  for (const BpeEntry& entry : parts.entries) {
    if (!entry.is_reachable) continue;
    characters_.add(entry.bytes, entry.token);
    if (entry.bytes.size() == 1) byte_tokens_[static_cast<std::uint8_t>(entry.bytes[0])] = entry.token;
    const bool is_last_byte =
        entry.bytes.size() == 1 + end_of_word_.size() && entry.bytes.ends_with(end_of_word_);
    if (is_last_byte) last_byte_tokens_[static_cast<std::uint8_t>(entry.bytes[0])] = entry.token;
    if (parts.ignores_merges) whole_words_.add(entry.bytes, entry.token);
  }
  for (const BpeMerge& merge : parts.merges) merges_.add(merge.left, merge.right, merge.result);
  find_coded_ranks();
  if (!parts.ignores_merges) find_whole_words(parts.entries);
  has_word_borders_ = !starts_from_bytes_ && end_of_word_.empty() && characters_.find(kMetaspace) &&
                      std::none_of(parts.entries.begin(), parts.entries.end(), [](const BpeEntry& entry) {
                        return entry.is_reachable && has_inner_metaspace(entry.bytes);
                      });
  max_token_bytes_ = longest_token(parts.entries);
}

void BpeModel::encode(std::string_view piece, BpeScratch& scratch, EncodingBudget& budget,
                      std::vector<TokenId>& out) const {
  if (!has_word_borders_) return encode_word(piece, scratch, budget, out);
  while (!piece.empty()) {
    const std::size_t end = word_end(piece, 0);
    encode_word(piece.substr(0, end), scratch, budget, out);
    piece.remove_prefix(end);
  }
}

void BpeModel::encode_word(std::string_view word, BpeScratch& scratch, EncodingBudget& budget,
                           std::vector<TokenId>& out) const {
  if (const std::optional<TokenId> token = whole_words_.find(word)) {
    budget.spend(word.size());
    out.push_back(*token);
    return budget.check_tokens(out.size());
  }
  std::vector<Symbol>& symbols = scratch.symbols;
  start(word, scratch, budget);
  if (symbols.empty()) return;
  symbols.back().next = -1;
  rank_pairs(scratch);
  if (symbols.size() <= kFewSymbols) {
    merge_few(scratch);
  } else {
    merge_many(scratch, budget);
  }
  for (std::int32_t i = 0; i >= 0; i = symbols[i].next) out.push_back(symbols[i].token);
  budget.check_tokens(out.size());
}

// The symbols before anything is merged.
void BpeModel::start(std::string_view word, BpeScratch& scratch, EncodingBudget& budget) const {
  scratch.symbols.clear();
  scratch.after_unknown = false;
  std::string_view last;
  if (!end_of_word_.empty()) last = last_character(word, starts_from_bytes_);
  word.remove_suffix(last.size());
  while (!word.empty()) {
    // In parts, so that a giant word can be interrupted.
    const std::string_view part = word.substr(0, part_size(word));
    word.remove_prefix(part.size());
    budget.spend(part.size());
    if (starts_from_bytes_) {
      start_from_bytes(part, scratch);
    } else {
      start_from_characters(part, scratch);
    }
  }
  budget.spend(last.size());
  if (!last.empty()) start_last(last, scratch);
}

void BpeModel::start_last(std::string_view character, BpeScratch& scratch) const {
  std::optional<TokenId> token;
  if (!starts_from_bytes_) {
    token = characters_.find(std::string(character) + end_of_word_);
  } else if (const TokenId byte = last_byte_tokens_[static_cast<std::uint8_t>(character[0])]; byte >= 0) {
    token = byte;
  }
  token ? append(scratch.symbols, *token) : append_unknown(scratch);
}

void BpeModel::rank_pairs(BpeScratch& scratch) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
    const MergeTable::Rank left = symbols[i].rank, right = symbols[i + 1].rank;
    const bool have_codes = left != kNoCode && right != kNoCode;
    symbols[i].rank = have_codes ? coded_ranks_[kNumCodes * left + right]
                                 : pair_rank(scratch, static_cast<std::int32_t>(i));
  }
  symbols.back().rank = MergeTable::kNever;
}

void BpeModel::find_coded_ranks() {
  std::copy_n(byte_tokens_.begin(), kNumAscii, coded_tokens_.begin());
  coded_tokens_[kMetaspaceCode] = characters_.find(kMetaspace).value_or(-1);
  for (const TokenId left : coded_tokens_) {
    for (const TokenId right : coded_tokens_) {
      const bool are_tokens = left >= 0 && right >= 0;
      coded_ranks_.push_back(are_tokens ? merges_.rank(left, right) : MergeTable::kNever);
    }
  }
}

void BpeModel::append_unknown(BpeScratch& scratch) const {
  const bool is_fused = fuses_unknown_ && scratch.after_unknown;
  if (unknown_token_ && !is_fused) append(scratch.symbols, *unknown_token_);
}

void BpeModel::start_from_bytes(std::string_view piece, BpeScratch& scratch) const {
  for (const char byte : piece) {
    const TokenId token = byte_tokens_[static_cast<std::uint8_t>(byte)];
    const bool is_unknown = token < 0;
    const auto code = static_cast<std::uint8_t>(byte);
    is_unknown ? append_unknown(scratch) : append(scratch.symbols, token, code < kNumAscii ? code : kNoCode);
    scratch.after_unknown = is_unknown;
  }
}

std::optional<TokenId> BpeModel::character_token(std::string_view character, MergeTable::Rank code) const {
  if (code == kNoCode && character.size() > 1) return characters_.find(character);
  const TokenId token =
      code != kNoCode ? coded_tokens_[code] : byte_tokens_[static_cast<std::uint8_t>(character.front())];
  return token < 0 ? std::nullopt : std::optional(token);
}

void BpeModel::start_from_characters(std::string_view piece, BpeScratch& scratch) const {
  while (!piece.empty()) {
    const MergeTable::Rank code = code_of(piece);
    const std::string_view character =
        piece.substr(0, code < kNumAscii ? 1 : next_utf8_character(piece).num_bytes);
    piece.remove_prefix(character.size());
    const std::optional<TokenId> token = character_token(character, code);
    const bool is_unknown = !token && !byte_fallback_;
    if (token) {
      append(scratch.symbols, *token, code);
    } else if (byte_fallback_) {
      for (const char byte : character) {
        append(scratch.symbols, (*byte_fallback_)[static_cast<std::uint8_t>(byte)]);
      }
    } else {
      append_unknown(scratch);
    }
    scratch.after_unknown = is_unknown;
  }
}

MergeTable::Rank BpeModel::pair_rank(const BpeScratch& scratch, std::int32_t left) const {
  const Symbol& symbol = scratch.symbols[left];
  if (symbol.next < 0) return MergeTable::kNever;
  return merges_.rank(symbol.token, scratch.symbols[symbol.next].token);
}

// The right symbol is unlinked; the ranks of both pairs that changed are new.
void BpeModel::merge_pair(BpeScratch& scratch, std::int32_t position) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  Symbol& left = symbols[position];
  Symbol& right = symbols[left.next];
  left.token = merges_.result(left.rank);
  left.next = right.next;
  right.rank = MergeTable::kNever;
  if (left.next >= 0) symbols[left.next].previous = position;
  left.rank = pair_rank(scratch, position);
  if (left.previous >= 0) symbols[left.previous].rank = pair_rank(scratch, left.previous);
}

void BpeModel::merge_few(BpeScratch& scratch) const {
  const std::vector<Symbol>& symbols = scratch.symbols;
  while (true) {
    std::int32_t best = 0;
    for (std::int32_t i = symbols[0].next; i >= 0; i = symbols[i].next) {
      if (symbols[i].rank < symbols[best].rank) best = i;
    }
    if (symbols[best].rank == MergeTable::kNever) return;
    merge_pair(scratch, best);
  }
}

void BpeModel::merge_many(BpeScratch& scratch, EncodingBudget& budget) const {
  const std::vector<Symbol>& symbols = scratch.symbols;
  std::vector<std::uint64_t>& heap = scratch.heap;
  heap.clear();
  // Lowest rank first, then leftmost.
  const auto add = [&](std::int32_t i) {
    if (i < 0 || symbols[i].rank == MergeTable::kNever) return false;
    heap.push_back((std::uint64_t{symbols[i].rank} << 32) | static_cast<std::uint32_t>(i));
    return true;
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) add(static_cast<std::int32_t>(i));
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  std::size_t num_pairs = 0;
  while (!heap.empty()) {
    if (++num_pairs % kPairsASpend == 0) budget.spend(kPairsASpend);
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const std::uint64_t best = heap.back();
    heap.pop_back();
    const auto position = static_cast<std::int32_t>(best & 0xFFFFFFFF);
    // One of the two may have been merged with another neighbour since.
    if (symbols[position].rank != best >> 32) continue;
    merge_pair(scratch, position);
    if (add(position)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
    if (add(symbols[position].previous)) {
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  }
}

void BpeModel::find_whole_words(const std::vector<BpeEntry>& entries) {
  BpeScratch scratch;
  EncodingBudget budget;
  std::vector<TokenId> tokens;
  for (const BpeEntry& entry : entries) {
    if (!entry.is_reachable || entry.bytes.size() <= end_of_word_.size()) continue;
    std::string_view word = entry.bytes;
    if (!word.ends_with(end_of_word_)) continue;
    word.remove_suffix(end_of_word_.size());
    tokens.clear();
    encode_word(word, scratch, budget, tokens);
    if (tokens.size() == 1 && tokens[0] == entry.token) whole_words_.add(word, entry.token);
  }
}

std::size_t BpeModel::longest_token(const std::vector<BpeEntry>& entries) const {
  const auto has_hole = [](const std::array<TokenId, 256>& tokens) {
    return std::any_of(tokens.begin(), tokens.end(), [](TokenId token) { return token < 0; });
  };
  const bool knows_all_bytes = starts_from_bytes_ && !has_hole(byte_tokens_) && !has_hole(last_byte_tokens_);
  const bool spells_unknown = byte_fallback_ || (unknown_token_ && !fuses_unknown_);
  if (!knows_all_bytes && !spells_unknown) return EncodingBudget::kUnlimited;
  std::size_t longest = 4;  // an unknown character
  for (const BpeEntry& entry : entries)
    if (entry.is_reachable) longest = std::max(longest, entry.bytes.size());
  return longest;
}

}  // namespace troupe
