// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/gguf_tokenizer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "text/model_file.hpp"
#include "text/tokenizer/file/gguf_token_type.hpp"
#include "text/tokenizer/file/gguf_words.hpp"
#include "text/tokenizer/file/tokenizer_file.hpp"
#include "text/tokenizer/pipeline_tokenizer.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

using nlohmann::json;

constexpr const char* kMetaspace = "\u2581";
constexpr std::size_t kMaxTokens = std::size_t{1} << 22;
// A sentencepiece token is cut at every character to find its merges.
constexpr std::size_t kMaxPieceBytes = 1024;
constexpr std::size_t kMaxMerges = 4'000'000;  // vocabularies of 256 k tokens make a tenth of it

[[noreturn]] void refuse(const std::string& key, const std::string& reason) {
  throw std::runtime_error("tokenizer.ggml." + key + ": " + reason);
}

// For error texts: printable ASCII of the file's text, the rest as its bytes in hexadecimal.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 32;
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "\"";
  for (const char letter : text.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte >= 0x20 && byte < 0x7F) {
      out += letter;
    } else {
      out += "\\x";
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 15U];
    }
  }
  return out + (text.size() > kMost ? "…\"" : "\"");
}

std::string in_words(std::size_t id, const std::string& token) {
  return "token " + std::to_string(id) + " (" + shown(token) + ")";
}

// Writes the two documents.
class TokenizerDocuments {
 public:
  explicit TokenizerDocuments(const GgufVocabulary& source) : source_(source) {
    check_lists();
    is_pieces_ = source.model == "llama";
    if (!is_pieces_ && source.model != "gpt2") {
      refuse("model", shown(source.model) + " is not supported (gpt2 and llama are)");
    }
    if (is_pieces_ && source.scores.empty()) refuse("scores", "are missing");
    if (!is_pieces_) words_ = gguf_words(source.pre);
    add_tokens();
  }

  json tokenizer() const {
    json model = {{"type", "BPE"}, {"vocab", vocabulary_}};
    if (is_pieces_) {
      model.update({{"merges", merges_by_score()}, {"byte_fallback", true}, {"fuse_unk", true}});
      if (!unknown_.empty()) model["unk_token"] = unknown_;
    } else {
      model.update({{"merges", merges()}, {"ignore_merges", words_.ignores_merges}});
    }
    return {{"model", std::move(model)},
            {"added_tokens", added_tokens_},
            {"normalizer", normalizer()},
            {"pre_tokenizer", pre_tokenizer()},
            {"decoder", decoder()}};
  }

  json config() const {
    const bool adds_bos = (is_pieces_ || words_.adds_bos) && source_.bos_token_id;
    json config = {{"add_bos_token", source_.add_bos_token.value_or(adds_bos)},
                   {"add_eos_token", source_.add_eos_token.value_or(false)}};
    if (source_.bos_token_id) config["bos_token"] = token_at(*source_.bos_token_id, "bos_token_id");
    if (source_.eos_token_id) config["eos_token"] = token_at(*source_.eos_token_id, "eos_token_id");
    return config;
  }

 private:
  void check_lists() const {
    const std::size_t count = source_.tokens.size();
    if (count == 0) refuse("tokens", "are missing");
    if (count > kMaxTokens) refuse("tokens", std::to_string(count) + ", at most 4194304 are supported");
    const auto check = [&](const char* key, std::size_t size) {
      if (size == 0 || size == count) return;
      refuse(key, std::to_string(size) + " for " + std::to_string(count) + " tokens");
    };
    check("scores", source_.scores.size());
    check("token_type", source_.token_type.size());
  }

  std::int64_t type_of(std::size_t id) const {
    return source_.token_type.empty() ? std::int64_t{gguf::kNormal} : source_.token_type[id];
  }

  // Tokens that are matched in the text itself. The others are the model's words.
  bool is_added(std::size_t id) const {
    const std::int64_t type = type_of(id);
    return type == gguf::kControl || type == gguf::kUserDefined || type == gguf::kUnknown;
  }

  // The text for which it stands; empty: for none, as those that fill holes.
  std::string content_of(std::size_t id) const {
    if (type_of(id) == gguf::kUnused) return "";
    std::string content = source_.tokens[id];
    if (valid_utf8_prefix(content) != content.size()) refuse("tokens", in_words(id, "") + " is not UTF-8");
    if (type_of(id) != gguf::kUserDefined) return content;
    const std::string_view from = kMetaspace;
    for (std::size_t at = content.find(from); at != std::string::npos; at = content.find(from, at + 1)) {
      content.replace(at, from.size(), " ");
    }
    return content;
  }

  void add_tokens() {
    for (std::size_t id = 0; id < source_.tokens.size(); ++id) {
      const std::string content = content_of(id);
      if (content.empty()) continue;
      const auto [place, is_new] = ids_.emplace(content, id);
      if (!is_new)
        refuse("tokens", in_words(id, content) + " is token " + std::to_string(place->second) + ", too");
      vocabulary_[content] = id;
      if (type_of(id) == gguf::kUnknown && unknown_.empty()) unknown_ = content;
      if (!is_added(id)) continue;
      added_tokens_.push_back({{"id", id},
                               {"content", content},
                               {"special", type_of(id) != gguf::kUserDefined},
                               {"normalized", false}});
    }
  }

  json merges() const {
    json merges = json::array();
    for (const std::string& merge : source_.merges) {
      // A token may be a space itself.
      const std::size_t space = merge.find(' ', 1);
      if (valid_utf8_prefix(merge) != merge.size()) refuse("merges", "one is not UTF-8");
      if (space == std::string::npos || space + 1 == merge.size()) {
        refuse("merges", "expected two tokens with a space between them, got " + shown(merge));
      }
      merges.push_back({merge.substr(0, space), merge.substr(space + 1)});
    }
    return merges;
  }

  // Two tokens merge if what they make is a token, that of the highest score first.
  json merges_by_score() const {
    std::vector<std::size_t> by_score;
    for (std::size_t id = 0; id < source_.tokens.size(); ++id) {
      if (type_of(id) == gguf::kNormal) by_score.push_back(id);
    }
    std::stable_sort(by_score.begin(), by_score.end(),
                     [this](std::size_t a, std::size_t b) { return source_.scores[a] > source_.scores[b]; });
    json merges = json::array();
    for (const std::size_t id : by_score) add_cuts(id, merges);
    return merges;
  }

  void add_cuts(std::size_t id, json& merges) const {
    const std::string& piece = source_.tokens[id];
    if (merges.size() > kMaxMerges) refuse("tokens", "make more than 4,000,000 merges");
    if (piece.size() > kMaxPieceBytes) {
      refuse("tokens", in_words(id, piece) + " has " + std::to_string(piece.size()) + " bytes, at most " +
                           std::to_string(kMaxPieceBytes) + " are supported");
    }
    for (std::size_t cut = 1; cut < piece.size(); ++cut) {
      const bool is_inside = (static_cast<unsigned char>(piece[cut]) & 0xC0U) == 0x80U;
      if (is_inside) continue;
      const auto left = ids_.find(piece.substr(0, cut));
      if (left == ids_.end() || type_of(left->second) != gguf::kNormal) continue;
      const auto right = ids_.find(piece.substr(cut));
      if (right == ids_.end() || type_of(right->second) != gguf::kNormal) continue;
      merges.push_back({left->first, right->first});
    }
  }

  bool adds_space_prefix() const { return source_.add_space_prefix.value_or(true); }

  json normalizer() const {
    if (!is_pieces_) return nullptr;
    json steps = json::array();
    if (adds_space_prefix()) steps.push_back({{"type", "Prepend"}, {"prepend", kMetaspace}});
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMetaspace}});
    return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
  }

  json pre_tokenizer() const {
    if (is_pieces_) return nullptr;
    json steps = json::array();
    for (const std::string& expression : words_.expressions) {
      steps.push_back({{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}});
    }
    steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
    return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
  }

  json decoder() const {
    if (!is_pieces_) return {{"type", "ByteLevel"}};
    json steps = {{{"type", "Replace"}, {"pattern", {{"String", kMetaspace}}}, {"content", " "}},
                  {{"type", "ByteFallback"}},
                  {{"type", "Fuse"}}};
    if (adds_space_prefix()) {
      steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1U}, {"stop", 0U}});
    }
    return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
  }

  std::string token_at(std::uint64_t id, const char* key) const {
    if (id >= source_.tokens.size()) {
      refuse(key, std::to_string(id) + ", expected an id below " + std::to_string(source_.tokens.size()));
    }
    const std::string content = content_of(id);
    if (content.empty()) refuse(key, std::to_string(id) + " is a token without a text");
    return content;
  }

  const GgufVocabulary& source_;
  bool is_pieces_ = false;
  GgufWords words_;
  std::unordered_map<std::string, std::size_t> ids_;
  json vocabulary_ = json::object();
  json added_tokens_ = json::array();
  std::string unknown_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_gguf_tokenizer(const GgufVocabulary& vocabulary) {
  const TokenizerDocuments documents(vocabulary);
  const json tokenizer = vocabulary.huggingface.empty()
                             ? documents.tokenizer()
                             : parse_model_json("tokenizer.huggingface.json", vocabulary.huggingface);
  return std::make_unique<PipelineTokenizer>(read_tokenizer(tokenizer, documents.config()));
}

}  // namespace troupe
