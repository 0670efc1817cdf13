// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/gguf_export.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "text/model_file.hpp"
#include "text/tokenizer/file/gguf_token_type.hpp"
#include "text/tokenizer/file/gguf_words.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;
constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string type_of(const json& step) { return step.is_object() ? step.value("type", "") : ""; }

// The steps of a part of the file, which may be a sequence of them or none.
std::vector<json> steps_of(const json& tokenizer, const char* part, const char* list) {
  const auto found = tokenizer.find(part);
  if (found == tokenizer.end() || found->is_null()) return {};
  if (type_of(*found) != "Sequence") return {*found};
  return found->at(list).get<std::vector<json>>();
}

// The expression of one step in front of ByteLevel; nullopt: the format has none that does the same.
std::optional<std::string> expression_of(const json& step) {
  if (type_of(step) == "Digits" && step.value("individual_digits", false)) return "\\p{N}";
  const bool is_plain =
      type_of(step) == "Split" && step.value("behavior", "") == "Isolated" && !step.value("invert", false);
  if (!is_plain || !step.at("pattern").contains("Regex")) return std::nullopt;
  return step.at("pattern").at("Regex").get<std::string>();
}

// Name of the way to cut words; empty: the format has none.
std::string words_of(const json& tokenizer) {
  std::vector<std::string> expressions;
  for (const json& step : steps_of(tokenizer, "pre_tokenizer", "pretokenizers")) {
    if (type_of(step) == "ByteLevel") {
      if (step.value("add_prefix_space", true)) return "";
      if (step.value("use_regex", true)) expressions.emplace_back(kGpt2Words);
      continue;
    }
    const auto expression = expression_of(step);
    if (!expression) return "";
    expressions.push_back(*expression);
  }
  return gguf_words_name(expressions, tokenizer.at("model").value("ignore_merges", false));
}

bool is_byte_level(const json& tokenizer) {
  const auto steps = steps_of(tokenizer, "pre_tokenizer", "pretokenizers");
  return std::any_of(steps.begin(), steps.end(),
                     [](const json& step) { return type_of(step) == "ByteLevel"; });
}

bool adds_space(const json& tokenizer) {
  for (const json& step : steps_of(tokenizer, "normalizer", "normalizers"))
    if (type_of(step) == "Prepend") return true;
  for (const json& step : steps_of(tokenizer, "pre_tokenizer", "pretokenizers"))
    if (type_of(step) == "Metaspace")
      return step.value("prepend_scheme", step.value("add_prefix_space", true) ? "always" : "never") !=
             "never";
  return false;
}

// Of a merge in either notation: both sides in one.
std::pair<std::string, std::string> sides_of(const json& merge) {
  if (merge.is_array()) return {merge.at(0).get<std::string>(), merge.at(1).get<std::string>()};
  const auto text = merge.get<std::string>();
  const std::size_t space = text.find(' ');
  return {text.substr(0, space), text.substr(space + 1)};
}

bool is_byte_token(std::string_view content) {
  return content.size() == 6 && content.starts_with("<0x") && content.ends_with('>');
}

// Whether that token alone is around a text, which a key of its own says. Throws std::runtime_error: others
// are.
bool adds_token(const std::vector<TokenId>& around, std::optional<TokenId> token, const char* place) {
  if (around.empty()) return false;
  if (token && around == std::vector<TokenId>{*token}) return true;
  throw std::runtime_error(std::string("tokens ") + place +
                           " a text that are not bos_token or eos_token can't be said in a GGUF file");
}

std::optional<std::uint64_t> id_of(std::optional<TokenId> token, std::size_t num_tokens) {
  if (!token || static_cast<std::size_t>(*token) >= num_tokens) return std::nullopt;
  return static_cast<std::uint64_t>(*token);
}

class Exporter {
 public:
  Exporter(const json& tokenizer, const Tokenizer& read, std::size_t num_tokens)
      : tokenizer_(tokenizer), read_(read), num_tokens_(num_tokens) {}

  GgufExport run() && {
    const json& model = tokenizer_.at("model");
    const bool has_merges = model.contains("merges");
    is_pieces_ = has_merges && !is_byte_level(tokenizer_) && model.value("byte_fallback", false);
    const json suffix = model.value("end_of_word_suffix", json());
    const bool has_suffix = suffix.is_string() && suffix != "";
    if (!has_merges || has_suffix || (!is_pieces_ && !is_byte_level(tokenizer_)))
      throw std::runtime_error(
          "can't be said in a GGUF file for a decoder (BPE of bytes, or of pieces with byte_fallback, can)");
    GgufVocabulary& vocabulary = export_.vocabulary;
    vocabulary.model = is_pieces_ ? "llama" : "gpt2";
    add_tokens(model);
    is_pieces_ ? add_scores(model) : add_words(model);
    vocabulary.bos_token_id = id_of(read_.bos_token(), num_tokens_);
    vocabulary.eos_token_id = id_of(read_.eos_token(), num_tokens_);
    vocabulary.add_bos_token = adds_token(read_.prefix_tokens(), read_.bos_token(), "in front of");
    vocabulary.add_eos_token = adds_token(read_.suffix_tokens(), read_.eos_token(), "behind");
    if (is_pieces_) vocabulary.add_space_prefix = adds_space(tokenizer_);
    return std::move(export_);
  }

 private:
  void add_tokens(const json& model) {
    const std::string unknown =
        model.contains("unk_token") && model["unk_token"].is_string() ? model["unk_token"] : "";
    std::unordered_map<std::size_t, bool> added;  // by id: whether it is special
    if (const auto list = tokenizer_.find("added_tokens"); list != tokenizer_.end() && list->is_array())
      for (const json& token : *list)
        added[token.at("id").get<std::size_t>()] = token.value("special", false);
    GgufVocabulary& vocabulary = export_.vocabulary;
    for (std::size_t id = 0; id < num_tokens_; ++id) {
      std::string content(read_.token_content(static_cast<TokenId>(id)));
      std::int64_t type = gguf::kNormal;
      if (content.empty()) {
        content = "[PAD" + std::to_string(id) + "]";
        type = gguf::kUnused;
      } else if (is_pieces_ && content == unknown) {
        type = gguf::kUnknown;
        export_.unknown_token_id = id;
      } else if (const auto found = added.find(id); found != added.end()) {
        type = found->second ? gguf::kControl : gguf::kUserDefined;
      } else if (is_pieces_ && is_byte_token(content)) {
        type = gguf::kByte;
      }
      vocabulary.tokens.push_back(std::move(content));
      vocabulary.token_type.push_back(type);
    }
  }

  void add_words(const json& model) {
    GgufVocabulary& vocabulary = export_.vocabulary;
    for (const json& merge : model["merges"]) {
      const auto [left, right] = sides_of(merge);
      vocabulary.merges.push_back(left + " " + right);
    }
    vocabulary.pre = words_of(tokenizer_);
    if (!vocabulary.pre.empty()) return;
    vocabulary.pre = "default";
    export_.losses.emplace_back("its way to cut words has no name in the format");
  }

  // The sooner a piece is merged, the higher its score.
  void add_scores(const json& model) {
    std::unordered_map<std::string, double> ranks;
    for (const json& merge : model["merges"]) {
      const auto [left, right] = sides_of(merge);
      ranks.emplace(left + right, static_cast<double>(ranks.size()));
    }
    for (const std::string& token : export_.vocabulary.tokens) {
      const auto found = ranks.find(token);
      export_.vocabulary.scores.push_back(found == ranks.end() ? -static_cast<double>(ranks.size())
                                                               : -found->second);
    }
  }

  const json& tokenizer_;
  const Tokenizer& read_;
  std::size_t num_tokens_;
  bool is_pieces_ = false;
  GgufExport export_;
};

// Texts of which each tries something that tokenizers do differently.
constexpr std::array<std::string_view, 12> kSamples = {
    "Hello, world!  How's it going?\n\n\tI'VE got 12345 of 67,890.",
    "  two spaces in front",
    "caf\u00E9 cafe\u0301 \u212B \uFB01ne",
    "int main() { return a[i] += 0x1F; }  // \u2192 done\r\n",
    "\u4F60\u597D\uFF0C\u4E16\u754C\u3002\u3053\u3093\u306B\u3061\u306F \uC548\uB155",
    "\u041F\u0440\u0438\u0432\u0435\u0442, \u0645\u0631\u062D\u0628\u0627 "
    "\u0928\u092E\u0938\u094D\u0924\u0947",
    "\U0001F600\U0001F469\u200D\U0001F4BB \u0661\u0662\u0663 \u00BD",
    "a",
    " ",
    "\n",
    "it\u2019s \u2581 here",
    "HTTPServer2FooBar_baz-qux"};

// Of control tokens, so many are tried between words.
constexpr std::size_t kTriedControls = 16;
constexpr std::size_t kTokensAText = 16;

// Every token occurs in one of them, if it is text by itself.
std::vector<std::string> texts_of(const Tokenizer& tokenizer, std::size_t num_tokens) {
  std::vector<std::string> texts(kSamples.begin(), kSamples.end());
  for (std::size_t id = 0; id < num_tokens; ++id) {
    if (id % kTokensAText == 0) texts.emplace_back();
    const std::string_view bytes = tokenizer.token_bytes(static_cast<TokenId>(id));
    if (valid_utf8_prefix(bytes) == bytes.size()) texts.back() += bytes;
  }
  return texts;
}

// Empty: every text has the same tokens, and they the same text.
std::string find_difference(const Tokenizer& meant, const Tokenizer& said, std::size_t num_tokens) {
  for (const std::string& text : texts_of(meant, num_tokens)) {
    const auto tokens = meant.encode(text);
    if (tokens != said.encode(text)) return "text such as " + json(text).dump() + " has other tokens";
    if (meant.decode(tokens, false) != said.decode(tokens, false))
      return "the tokens of " + json(text).dump() + " have another text";
  }
  std::size_t num_tried = 0;
  for (std::size_t id = 0; id < num_tokens && num_tried < kTriedControls; ++id) {
    const auto token = static_cast<TokenId>(id);
    if (!meant.is_special(token)) continue;
    ++num_tried;
    const std::string content(meant.token_content(token));
    const std::string text = "one " + content + " two" + content + "\nthree";
    if (meant.encode_with_specials(text) != said.encode_with_specials(text))
      return "text beside " + content + " has other tokens";
  }
  return "";
}

}  // namespace

GgufExport export_tokenizer(const std::filesystem::path& model_dir, std::size_t num_tokens,
                            std::size_t most_bytes) {
  const auto read = load_tokenizer(model_dir);  // checks all that is believed below
  const std::filesystem::path path = model_dir / "tokenizer.json";
  const json tokenizer = parse_model_json(path, read_model_file(path, kMaxFileBytes).value());
  try {
    GgufExport exported = Exporter(tokenizer, *read, num_tokens).run();
    const auto said = make_gguf_tokenizer(exported.vocabulary);
    if (const auto difference = find_difference(*read, *said, num_tokens); !difference.empty())
      exported.losses.push_back(difference);
    if (exported.losses.empty()) return exported;
    exported.vocabulary.huggingface = tokenizer.dump();
    if (exported.vocabulary.huggingface.size() > most_bytes)
      throw std::runtime_error("the keys of a GGUF file do not say all of it (" + exported.losses.front() +
                               "), and it is too large to go along");
    return exported;
  } catch (const std::exception& error) {
    throw std::runtime_error(path.string() + ": " + error.what());
  }
}

}  // namespace troupe
