// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/file/tokenizer_steps.hpp"

#include <array>
#include <memory>
#include <stdexcept>
#include <utility>

#include "text/tokenizer/normalizer/bert_character.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Unicode's White_Space: what a pattern calls a space has more.
constexpr std::string_view kSpaceCharacters =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// Unicode's word characters (UTS 18): what a pattern calls \w has less.
constexpr std::string_view kWordCharacters = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control})";

TextPattern read_pattern(const TokenizerField& field) {
  const TokenizerField literal = field.is_string() ? field : field["String"];
  try {
    if (!literal.is_null()) return TextPattern::literal(literal.as_string());
    return TextPattern::regex(field["Regex"].as_string());
  } catch (const std::runtime_error& error) {
    field.fail(error.what());
  }
}

BertNormalizerStep read_bert_normalizer(const TokenizerField& field) {
  const bool lowercases = field.bool_or("lowercase", true);
  return {.cleans_text = field.bool_or("clean_text", true),
          .isolates_ideographs = field.bool_or("handle_chinese_chars", true),
          .strips_accents = field.bool_or("strip_accents", lowercases),
          .lowercases = lowercases};
}

// RFC 4648's, with padding or without.
std::string bytes_of_base64(const TokenizerField& field) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text = field.as_string();
  while (text.ends_with('=')) text.pop_back();
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = kLetters.find(text[i]);
    if (digit == std::string_view::npos)
      field.fail("expected base64, got another letter at " + std::to_string(i));
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    constexpr std::array kFilled = {0, 4, 2, 0};  // bits of the next byte that are known already
    if (i % 4 != 0) bytes += static_cast<char>(bits >> kFilled[i % 4]);
  }
  return bytes;
}

PrecompiledStep read_precompiled(const TokenizerField& field) {
  const TokenizerField map = field["precompiled_charsmap"];
  try {
    return std::make_shared<const PrecompiledMap>(bytes_of_base64(map));
  } catch (const std::runtime_error& error) {
    map.fail(error.what());
  }
}

void add_normalizer(const TokenizerField& field, std::vector<NormalizerStep>& steps) {
  if (field.is_null()) return;
  const std::string type = field.type();
  if (type == "Sequence") {
    for (const TokenizerField& step : field["normalizers"].elements()) add_normalizer(step, steps);
  } else if (type == "NFC") {
    steps.emplace_back(UnicodeForm::kNfc);
  } else if (type == "NFD") {
    steps.emplace_back(UnicodeForm::kNfd);
  } else if (type == "NFKC") {
    steps.emplace_back(UnicodeForm::kNfkc);
  } else if (type == "NFKD") {
    steps.emplace_back(UnicodeForm::kNfkd);
  } else if (type == "Prepend") {
    steps.emplace_back(PrependStep{field["prepend"].as_string()});
  } else if (type == "Replace") {
    steps.emplace_back(ReplaceStep{read_pattern(field["pattern"]), field["content"].as_string()});
  } else if (type == "BertNormalizer") {
    steps.emplace_back(read_bert_normalizer(field));
  } else if (type == "Precompiled") {
    steps.emplace_back(read_precompiled(field));
  } else if (type == "Lowercase") {
    steps.emplace_back(LowercaseStep{});
  } else if (type == "StripAccents") {
    steps.emplace_back(StripMarksStep{});
  } else if (type == "Strip") {
    steps.emplace_back(
        StripSpacesStep{field.bool_or("strip_left", true), field.bool_or("strip_right", true)});
  } else {
    field.fail_unsupported("normalizer " + type);
  }
}

SplitBehavior read_behavior(const TokenizerField& field) {
  const std::string name = field.as_string();
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  field.fail_unsupported("split behavior " + name);
}

SplitStep isolate(std::string_view expression) {
  return SplitStep{TextPattern::regex(std::string(expression)), SplitBehavior::kIsolated};
}

MetaspaceStep::Prepend read_prepend_scheme(const TokenizerField& field) {
  using Prepend = MetaspaceStep::Prepend;
  const bool adds = field.bool_or("add_prefix_space", true);
  const std::string scheme = field.string_or("prepend_scheme", adds ? "always" : "never");
  if (scheme == "always") return Prepend::kAlways;
  if (scheme == "never") return Prepend::kNever;
  if (scheme == "first") return Prepend::kFirst;
  field.fail_unsupported("prepend_scheme " + scheme);
}

std::string read_replacement(const TokenizerField& field) {
  std::string replacement = field.string_or("replacement", "\u2581");
  const bool is_character =
      !replacement.empty() && next_utf8_character(replacement).num_bytes == replacement.size();
  if (!is_character) {
    field["replacement"].fail("expected a character, got \"" + replacement.substr(0, 16) + "\"");
  }
  return replacement;
}

void add_byte_level(const TokenizerField& field, PreTokenizerParts& parts) {
  if (field.bool_or("add_prefix_space", true)) parts.steps.emplace_back(PrefixSpaceStep{});
  if (field.bool_or("use_regex", true)) parts.steps.emplace_back(isolate(kGpt2Words));
  parts.is_byte_level = true;
}

// A step behind ByteLevel, as Falcon has them, sees words in the alphabet of bytes.
void begin_spelled_bytes(const TokenizerField& field, PreTokenizerParts& parts) {
  const std::string type = field.type();
  if (type != "Digits" && type != "Split" && type != "Punctuation") {
    field.fail_unsupported(type + " after ByteLevel");
  }
  if (!std::exchange(parts.cuts_spelled_bytes, true)) parts.steps.emplace_back(SpellBytesStep{});
}

void add_pre_tokenizer(const TokenizerField& field, PreTokenizerParts& parts) {
  if (field.is_null()) return;
  const std::string type = field.type();
  if (type == "Sequence") {
    for (const TokenizerField& step : field["pretokenizers"].elements()) {
      add_pre_tokenizer(step, parts);
    }
    return;
  }
  if (parts.is_byte_level) begin_spelled_bytes(field, parts);
  if (type == "ByteLevel") {
    add_byte_level(field, parts);
  } else if (type == "Split") {
    parts.steps.emplace_back(SplitStep{read_pattern(field["pattern"]), read_behavior(field["behavior"]),
                                       field.bool_or("invert", false)});
  } else if (type == "Digits") {
    SplitStep digits = isolate("\\p{N}");
    if (!field.bool_or("individual_digits", false)) digits.behavior = SplitBehavior::kContiguous;
    parts.steps.emplace_back(std::move(digits));
  } else if (type == "Punctuation") {
    SplitStep punctuation{TextPattern::character(is_bert_punctuation), SplitBehavior::kIsolated};
    if (!field["behavior"].is_null()) punctuation.behavior = read_behavior(field["behavior"]);
    parts.steps.emplace_back(std::move(punctuation));
  } else if (type == "Metaspace") {
    parts.steps.emplace_back(
        MetaspaceStep{read_replacement(field), read_prepend_scheme(field), field.bool_or("split", true)});
  } else if (type == "Whitespace") {
    const std::string word(kWordCharacters), space(kSpaceCharacters);
    SplitStep words = isolate("[" + word + "]+|[^" + word + space + "]+");
    words.behavior = SplitBehavior::kRemoved;
    words.invert = true;
    parts.steps.emplace_back(std::move(words));
  } else if (type == "WhitespaceSplit") {
    SplitStep spaces = isolate("[" + std::string(kSpaceCharacters) + "]+");
    spaces.behavior = SplitBehavior::kRemoved;
    parts.steps.emplace_back(std::move(spaces));
  } else if (type == "BertPreTokenizer") {
    parts.steps.emplace_back(BertWordsStep{});
  } else {
    field.fail_unsupported("pre-tokenizer " + type);
  }
}

std::size_t read_count(const TokenizerField& field) {
  if (!field.value().is_number_unsigned() || field.value().get<std::uint64_t>() > 16) {
    field.fail("expected a number from 0 to 16, got " + field.value().dump());
  }
  return field.value().get<std::size_t>();
}

void add_strip(const TokenizerField& field, bool is_fused, DecoderParts& parts) {
  if (field["content"].as_string() != " ") field.fail_unsupported("stripping other than spaces");
  if (!is_fused) field.fail_unsupported("Strip before Fuse");
  if (read_count(field["stop"]) != 0) field.fail_unsupported("stripping the end of a text");
  parts.num_stripped_leading_spaces = read_count(field["start"]);
}

void add_decoder(const TokenizerField& field, bool& is_fused, DecoderParts& parts) {
  const std::string type = field.type();
  if (type == "Sequence") {
    for (const TokenizerField& step : field["decoders"].elements()) {
      add_decoder(step, is_fused, parts);
    }
  } else if (type == "ByteLevel") {
    parts.is_byte_level = true;
  } else if (type == "ByteFallback") {
    parts.has_byte_fallback = true;
  } else if (type == "BPEDecoder") {
    parts.end_of_word = field.string_or("suffix", "</w>");
    if (parts.end_of_word.empty()) field["suffix"].fail("an empty string can't be searched for");
  } else if (type == "Fuse") {
    is_fused = true;
  } else if (type == "Strip") {
    add_strip(field, is_fused, parts);
  } else if (type == "Replace") {
    const TokenizerField pattern = field["pattern"];
    if (is_fused || parts.has_byte_fallback) field.fail_unsupported("Replace after joining");
    if (pattern["String"].is_null()) pattern.fail_unsupported("a decoder with a Regex");
    if (pattern["String"].as_string().empty()) pattern.fail("an empty string can't be searched for");
    parts.replacements.emplace_back(pattern["String"].as_string(), field["content"].as_string());
  } else if (type == "Metaspace") {
    parts.replacements.emplace_back(read_replacement(field), " ");
    if (read_prepend_scheme(field) != MetaspaceStep::Prepend::kNever) {
      parts.num_stripped_leading_spaces = 1;
    }
  } else if (type == "WordPiece") {
    parts.word_pieces = {.continuing_prefix = field.string_or("prefix", "##"),
                         .cleans_up = field.bool_or("cleanup", true)};
    parts.num_stripped_leading_spaces = 1;
  } else {
    field.fail_unsupported("decoder " + type);
  }
}

// Pieces of text go through them by recursion.
void refuse_many(const TokenizerField& field, std::size_t num_steps) {
  constexpr std::size_t kMaxSteps = 128;
  if (num_steps <= kMaxSteps) return;
  field.fail(std::to_string(num_steps) + " steps, at most " + std::to_string(kMaxSteps) + " are supported");
}

}  // namespace

std::vector<NormalizerStep> read_normalizer(const TokenizerField& field) {
  std::vector<NormalizerStep> steps;
  add_normalizer(field, steps);
  refuse_many(field, steps.size());
  return steps;
}

PreTokenizerParts read_pre_tokenizer(const TokenizerField& field) {
  PreTokenizerParts parts;
  add_pre_tokenizer(field, parts);
  if (parts.cuts_spelled_bytes) parts.steps.emplace_back(ReadBytesStep{});
  refuse_many(field, parts.steps.size());
  return parts;
}

DecoderParts read_decoder(const TokenizerField& field) {
  DecoderParts parts;
  if (field.is_null()) {
    parts.has_spaces_between = true;
    parts.num_stripped_leading_spaces = 1;
    return parts;
  }
  bool is_fused = false;
  add_decoder(field, is_fused, parts);
  const bool joins_otherwise = parts.has_byte_fallback || !parts.replacements.empty();
  if (parts.is_byte_level && joins_otherwise) field.fail_unsupported("ByteLevel with others");
  if (parts.word_pieces && (parts.is_byte_level || joins_otherwise)) {
    field.fail_unsupported("WordPiece with others");
  }
  if (!parts.end_of_word.empty() && (parts.is_byte_level || parts.word_pieces || joins_otherwise)) {
    field.fail_unsupported("BPEDecoder with others");
  }
  return parts;
}

}  // namespace troupe
