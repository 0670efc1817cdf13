// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "text/model_file.hpp"
#include "text/stable_hash.hpp"
#include "text/tokenizer/file/tokenizer_fields.hpp"
#include "text/tokenizer/file/tokenizer_file.hpp"
#include "text/tokenizer/pipeline_tokenizer.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxFileBytes = 64u << 20;

// null: there is no such file.
nlohmann::json read_if_there(const std::filesystem::path& path) {
  const std::optional<std::string> text = read_model_file(path, kMaxFileBytes);
  return text ? parse_model_json(path, *text) : nlohmann::json();
}

// As sentence-transformers, which reads the second file where the first is.
bool lowercases_all_text(const std::filesystem::path& model_dir) {
  if (!std::filesystem::exists(model_dir / "modules.json")) return false;
  const std::filesystem::path path = model_dir / "sentence_bert_config.json";
  const nlohmann::json config = read_if_there(path);
  if (config.is_null()) return false;
  return TokenizerField(config, path.string()).bool_or("do_lower_case", false);
}

}  // namespace

// FNV-1a over the entries in the order of their ids, each with its end.
std::uint64_t vocabulary_fingerprint(const Tokenizer& tokenizer) {
  std::uint64_t hash = stable_hash("");
  for (std::size_t id = 0; id < tokenizer.vocabulary_size(); ++id)
    hash = stable_hash({"\0", 1}, stable_hash(tokenizer.token_content(static_cast<TokenId>(id)), hash));
  return hash;
}

std::vector<TokenId> Tokenizer::encode_trusting(std::string_view text,
                                                std::span<const TextRange> trusted) const {
  EncodingBudget budget;
  return encode_within(budget, text, trusted);
}

std::vector<TokenId> Tokenizer::encode(std::string_view text) const { return encode_trusting(text, {}); }

std::vector<TokenId> Tokenizer::encode_with_specials(std::string_view text) const {
  const TextRange all{0, text.size()};
  return encode_trusting(text, std::span(&all, 1));
}

std::vector<TokenId> Tokenizer::encode_enclosed(EncodingBudget& budget, std::string_view text) const {
  budget.set_other_tokens(prefix_tokens().size() + suffix_tokens().size());
  return enclosed(encode_within(budget, text, {}));
}

std::vector<TokenId> Tokenizer::enclosed(std::span<const TokenId> tokens) const {
  std::vector<TokenId> result = prefix_tokens();
  result.insert(result.end(), tokens.begin(), tokens.end());
  const std::vector<TokenId> suffix = suffix_tokens();
  result.insert(result.end(), suffix.begin(), suffix.end());
  return result;
}

EncodedPair Tokenizer::enclosed_pair(std::span<const TokenId> first, std::span<const TokenId> second,
                                     std::size_t max_tokens) const {
  const PairTokens around = *pair_tokens();
  const std::size_t room = max_tokens - std::min(max_tokens, around.count());
  const bool is_first_longer = first.size() > second.size();
  std::size_t shorter = std::min(first.size(), second.size()), longer = std::max(first.size(), second.size());
  if (shorter + longer > room) {
    longer = std::max(shorter, room - std::min(room, shorter));
    if (shorter + longer > room) {
      shorter = room / 2;
      longer = room - shorter;
    }
  }
  first = first.first(is_first_longer ? longer : shorter);
  second = second.first(is_first_longer ? shorter : longer);
  EncodedPair pair{.tokens = around.prefix};
  pair.tokens.insert(pair.tokens.end(), first.begin(), first.end());
  pair.tokens.insert(pair.tokens.end(), around.middle.begin(), around.middle.end());
  if (around.has_types) pair.second_text = pair.tokens.size();
  pair.tokens.insert(pair.tokens.end(), second.begin(), second.end());
  pair.tokens.insert(pair.tokens.end(), around.suffix.begin(), around.suffix.end());
  return pair;
}

std::string Tokenizer::decode(std::span<const TokenId> tokens, bool skip_special) const {
  std::string bytes;
  for (const TokenId token : tokens) {
    if (!is_special(token)) {
      bytes += token_bytes(token);
    } else if (!skip_special) {
      bytes += token_content(token);
    }
  }
  std::size_t begin = 0;
  while (begin < std::min(bytes.size(), num_stripped_leading_spaces()) && bytes[begin] == ' ') {
    ++begin;
  }
  std::string text;
  Utf8Assembler assembler;
  assembler.push(std::string_view(bytes).substr(begin), text);
  assembler.finish(text);
  return text;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& model_dir) {
  const std::filesystem::path path = model_dir / "tokenizer.json";
  const std::optional<std::string> text = read_model_file(path, kMaxFileBytes);
  if (!text) throw std::runtime_error(path.string() + ": no such file");
  const nlohmann::json tokenizer = parse_model_json(path, *text);

  const nlohmann::json config = read_if_there(model_dir / "tokenizer_config.json");
  const bool lowercases = lowercases_all_text(model_dir);
  try {
    PipelineTokenizerParts parts = read_tokenizer(tokenizer, config);
    if (lowercases) parts.normalizer_steps.insert(parts.normalizer_steps.begin(), LowercaseStep{});
    return std::make_unique<PipelineTokenizer>(std::move(parts));
  } catch (const std::exception& error) {
    throw std::runtime_error(path.string() + ": " + error.what());
  }
}

}  // namespace troupe
