// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/token_decoder.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "text/tokenizer/byte_alphabet.hpp"

namespace troupe {
namespace {

// No entry may grow beyond kMaxGrowth x its bytes + kFreeBytes.
constexpr std::size_t kMaxGrowth = 4;
constexpr std::size_t kFreeBytes = 512;

// "<0x0A>" is the byte 10.
std::optional<char> byte_of(std::string_view content) {
  if (content.size() != 6 || !content.starts_with("<0x") || content[5] != '>') return std::nullopt;
  std::uint8_t byte = 0;
  const char* end = content.data() + 5;
  const auto result = std::from_chars(content.data() + 3, end, byte, 16);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return static_cast<char>(byte);
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  while (true) {
    const std::size_t at = text.find(from);
    out += text.substr(0, at);
    if (at == std::string_view::npos) return out;
    out += to;
    text.remove_prefix(at + from.size());
  }
}

// Hugging Face's cleaning of English, as far as it concerns a single token.
std::string without_spaces(std::string text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kReplacements = {
      {{" .", "."},
       {" ?", "?"},
       {" !", "!"},
       {" ,", ","},
       {" ' ", "'"},
       {" n't", "n't"},
       {" 'm", "'m"},
       {" do not", " don't"},
       {" 's", "'s"},
       {" 've", "'ve"},
       {" 're", "'re"}}};
  for (const auto& [from, to] : kReplacements) text = replaced(text, from, to);
  return text;
}

std::string decoded_piece(const std::string& content, const WordPieceDecoder& decoder) {
  std::string text = content.starts_with(decoder.continuing_prefix)
                         ? content.substr(decoder.continuing_prefix.size())
                         : " " + content;
  return decoder.cleans_up ? without_spaces(std::move(text)) : text;
}

}  // namespace

std::string decoded(const std::string& content, const DecoderParts& decoder) {
  if (decoder.word_pieces) return decoded_piece(content, *decoder.word_pieces);
  if (decoder.has_spaces_between) return " " + content;
  std::string text = decoder.is_byte_level ? bytes_from_alphabet(content).value_or(content) : content;
  if (!decoder.end_of_word.empty()) return replaced(text, decoder.end_of_word, " ");
  const std::size_t max_bytes = kMaxGrowth * content.size() + kFreeBytes;
  for (const auto& [from, to] : decoder.replacements) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
      if (text.size() > max_bytes) {
        throw std::runtime_error("decoder: makes more than " + std::to_string(max_bytes) +
                                 " bytes of the token \"" + content.substr(0, 64) + "\"");
      }
    }
  }
  if (decoder.has_byte_fallback) {
    if (const std::optional<char> byte = byte_of(text)) return std::string(1, *byte);
  }
  return text;
}

}  // namespace troupe
