// SPDX-License-Identifier: Apache-2.0
#include "text/fill_in.hpp"

#include <array>

namespace troupe {
namespace {

struct KnownFormat {
  std::string_view before_prefix, before_suffix, middle;
  std::array<std::string_view, 4> ends;  // those that a vocabulary has
};

constexpr std::array kKnown = {
    // Qwen2.5-Coder, CodeGemma, Granite 3
    KnownFormat{"<|fim_prefix|>",
                "<|fim_suffix|>",
                "<|fim_middle|>",
                {"<|endoftext|>", "<|fim_pad|>", "<|file_sep|>", "<|file_separator|>"}},
    // StarCoder, Granite Code
    KnownFormat{"<fim_prefix>", "<fim_suffix>", "<fim_middle>", {"<|endoftext|>", "<file_sep>", "", ""}},
    // SantaCoder
    KnownFormat{"<fim-prefix>", "<fim-suffix>", "<fim-middle>", {"<|endoftext|>", "", "", ""}},
    // DeepSeek Coder
    KnownFormat{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", {"<｜end▁of▁sentence｜>", "", "", ""}},
    // CodeLlama
    KnownFormat{"▁<PRE>", "▁<SUF>", "▁<MID>", {"▁<EOT>", "", "", ""}},
    // Codestral
    KnownFormat{"[PREFIX]", "[SUFFIX]", "", {"", "", "", ""}},
};

constexpr std::string_view kMetaspace = "\u2581";

// The token as the vocabulary spells it: GGUF files have spaces in place of metaspaces in some.
// Only as an added token can it come of a text.
std::optional<std::string> spelling(const Tokenizer& tokenizer, std::string_view name) {
  std::string spaced(name);
  for (auto at = spaced.find(kMetaspace); at != std::string::npos; at = spaced.find(kMetaspace))
    spaced.replace(at, kMetaspace.size(), " ");
  for (const std::string& content : {std::string(name), spaced}) {
    const auto id = tokenizer.token_id(content);
    if (id && tokenizer.encode_with_specials(content) == std::vector<TokenId>{*id}) return content;
  }
  return std::nullopt;
}

std::optional<FillInFormat> format_of(const Tokenizer& tokenizer, const KnownFormat& known) {
  const auto before_prefix = spelling(tokenizer, known.before_prefix);
  const auto before_suffix = spelling(tokenizer, known.before_suffix);
  const auto middle = known.middle.empty() ? std::string() : spelling(tokenizer, known.middle);
  if (!before_prefix || !before_suffix || !middle) return std::nullopt;
  FillInFormat format{.before_prefix = *before_prefix,
                      .before_suffix = *before_suffix,
                      .middle = *middle,
                      .comes_suffix_first = known.middle.empty()};
  for (const std::string_view end : known.ends)
    if (const auto content = end.empty() ? std::nullopt : spelling(tokenizer, end))
      format.end_tokens.push_back(*tokenizer.token_id(*content));
  return format;
}

}  // namespace

std::optional<FillInFormat> find_fill_in_format(const Tokenizer& tokenizer) {
  for (const KnownFormat& known : kKnown)
    if (auto format = format_of(tokenizer, known)) return format;
  return std::nullopt;
}

FillInText fill_in_text(const FillInFormat& format, std::string_view prefix, std::string_view suffix) {
  FillInText out;
  const auto add_marker = [&](std::string_view marker) {
    if (marker.empty()) return;
    const std::size_t begin = out.text.size();
    out.text += marker;
    // Neighbours are one range.
    if (!out.trusted.empty() && out.trusted.back().end == begin) {
      out.trusted.back().end = out.text.size();
    } else {
      out.trusted.push_back({begin, out.text.size()});
    }
  };
  const auto add = [&](std::string_view marker, std::string_view text) {
    add_marker(marker);
    out.text += text;
  };
  if (format.comes_suffix_first) {
    add(format.before_suffix, suffix);
    add(format.before_prefix, prefix);
  } else {
    add(format.before_prefix, prefix);
    add(format.before_suffix, suffix);
  }
  add_marker(format.middle);
  return out;
}

}  // namespace troupe
