// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/file/gguf_words.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe {
namespace {

// Parts that several expressions share.
const std::string kClitics = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|";
const std::string kWord = R"([^\r\n\p{L}\p{N}]?\p{L}+|)";
const std::string kSigns = R"( ?[^\s\p{L}\p{N}]+[\r\n]*|)";
const std::string kSpace = R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::string kLlama3 = kClitics + kWord + R"(\p{N}{1,3}|)" + kSigns + kSpace;
const std::string kQwen2 = kClitics + kWord + R"(\p{N}|)" + kSigns + kSpace;
const std::string kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string kDigit = R"(\p{N})";
const std::string kDigits = R"(\p{N}+)";
const std::string kThreeDigits = "[0-9][0-9][0-9]";
const std::string kPunctuation = R"([\p{P}\$\+<=>\^~\|`]+)";
// Words of one case, or with capitals in front, as cased scripts join them.
const std::string kTekken = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                            R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                            R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" +
                            kSpace;

// The same with endings of words behind an apostrophe.
const std::string kEnding = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|";
const std::string kGpt4o = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" +
                           kEnding +
                           R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" +
                           kEnding + R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" + kSpace;

// DeepSeek Coder's: each is cut out in turn.
const std::string kLineEnd = R"([\r\n])";
const std::string kSpacedLetters = R"(\s?\p{L}+)";
const std::string kSpacedPunctuation = R"(\s?\p{P}+)";
const std::string kHanAndMore = R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";

struct Kind {
  std::vector<std::string_view> names;
  GgufWords words;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kinds = {
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "lfm2", "midm-2.0", "pixtral"},
       {{kLlama3}, true, true}},
      {{"dbrx", "smaug-bpe"}, {{kLlama3}}},
      {{"qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez"}, {{kQwen2}}},
      {{"gpt-2", "phi-2", "olmo", "mpt", "exaone4", "a.x-4.0", "mellum"}, {{kGpt2}}},
      {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"},
       {{kDigit, kGpt2}}},
      {{"tekken"}, {{kTekken}, true, true}},
      {{"gpt-4o", "llama4", "kanana2"}, {{kGpt4o}}},
      {{"deepseek-coder"}, {{kLineEnd, kSpacedLetters, kSpacedPunctuation, kHanAndMore, kDigit}}},
      {{"falcon"}, {{kPunctuation, kGpt2, kThreeDigits}}},
      {{"", "default"}, {{kPunctuation, kGpt2, kDigits, kThreeDigits}}},
  };
  return kinds;
}

}  // namespace

GgufWords gguf_words(std::string_view name) {
  for (const Kind& kind : kinds()) {
    if (std::find(kind.names.begin(), kind.names.end(), name) != kind.names.end()) return kind.words;
  }
  throw std::runtime_error("tokenizer.ggml.pre: \"" + std::string(name.substr(0, 64)) +
                           "\" is not supported");
}

std::string gguf_words_name(const std::vector<std::string>& expressions, bool ignores_merges) {
  for (const Kind& kind : kinds()) {
    if (kind.words.expressions == expressions && kind.words.ignores_merges == ignores_merges)
      return std::string(kind.names.front().empty() ? kind.names.back() : kind.names.front());
  }
  return "";
}

}  // namespace troupe
