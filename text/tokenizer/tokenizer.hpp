// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back, for one model. The right to produce special tokens is
// part of the type of call, not of the text: what a user wrote never becomes
// one, whatever it says; what a chat template wrote does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/encoding_budget.hpp"
#include "text/token_id.hpp"
#include "text/tokenizer/pair_tokens.hpp"

namespace troupe {

// Bytes [begin, end) of a text.
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const TextRange&) const = default;
};

// Immutable after loading: every const method may run in any thread at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Encodes `text`; special tokens are recognised only where all their bytes
  // lie in one of `trusted` (sorted, not overlapping, not adjacent). Everything
  // else is encoded as if the whole text had been given in one piece. Nothing
  // is added in front: see prefix_tokens(). Linear in the text, but for a factor
  // log n. Throws EncodingStopped.
  virtual std::vector<TokenId> encode_within(EncodingBudget& budget, std::string_view text,
                                             std::span<const TextRange> trusted) const = 0;
  // Uninterrupted, with any number of tokens.
  std::vector<TokenId> encode_trusting(std::string_view text, std::span<const TextRange> trusted) const;
  // Text of a user: no special token is ever produced.
  std::vector<TokenId> encode(std::string_view text) const;
  // Text of ours or of the model's template: special tokens are recognised.
  std::vector<TokenId> encode_with_specials(std::string_view text) const;
  // Text of a user as an encoder wants it, between prefix_tokens() and
  // suffix_tokens(), which count against the budget's max_tokens.
  std::vector<TokenId> encode_enclosed(EncodingBudget& budget, std::string_view text) const;
  // prefix_tokens(), `tokens`, suffix_tokens(): for a text that was cut to fit.
  std::vector<TokenId> enclosed(std::span<const TokenId> tokens) const;

  // Two texts as pair_tokens() says, which must not be nullopt, in at most max_tokens: the
  // longer one loses its end until both fit.
  EncodedPair enclosed_pair(std::span<const TokenId> first, std::span<const TokenId> second,
                            std::size_t max_tokens) const;

  // The text of the tokens: bytes that are not UTF-8 become U+FFFD, and the one
  // space that sentencepiece-style encodings put in front is taken off.
  std::string decode(std::span<const TokenId> tokens, bool skip_special = true) const;

  // The raw bytes a token stands for, possibly a part of a character. Empty
  // for special tokens and for ids that the vocabulary doesn't have.
  virtual std::string_view token_bytes(TokenId token) const = 0;
  // The entry as the vocabulary spells it ("<|im_end|>"); empty if there is none.
  virtual std::string_view token_content(TokenId token) const = 0;
  virtual bool is_special(TokenId token) const = 0;
  virtual std::optional<TokenId> token_id(std::string_view content) const = 0;
  // One more than the highest id.
  virtual std::size_t vocabulary_size() const = 0;

  virtual std::optional<TokenId> bos_token() const = 0;
  virtual std::optional<TokenId> eos_token() const = 0;
  // Tokens in front of a plain prompt (not of a rendered chat template,
  // which writes its own): the BOS token, [CLS], or nothing.
  virtual std::vector<TokenId> prefix_tokens() const = 0;
  // Tokens behind a text that is complete (not behind a prompt that is to be
  // continued): [SEP], the EOS token, or nothing.
  virtual std::vector<TokenId> suffix_tokens() const = 0;
  // Tokens around and between two texts; nullopt: not known how this model takes pairs.
  virtual std::optional<PairTokens> pair_tokens() const { return std::nullopt; }
  // No token stands for more bytes of a text that is encoded; kUnlimited: not known.
  virtual std::size_t max_token_bytes() const = 0;
  // How many spaces decoding takes off the beginning of a text.
  virtual std::size_t num_stripped_leading_spaces() const = 0;
};

// Tells tokenizers apart whose ids mean different texts: a hash over all entries.
std::uint64_t vocabulary_fingerprint(const Tokenizer& tokenizer);

// Reads tokenizer.json and, where present, tokenizer_config.json; text is made lower case first if
// sentence_bert_config.json of a directory with modules.json says do_lower_case. Throws std::runtime_error
// naming the file and the reason.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& model_dir);

}  // namespace troupe
