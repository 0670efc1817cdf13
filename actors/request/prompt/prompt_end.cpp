// SPDX-License-Identifier: Apache-2.0
#include "actors/request/prompt/prompt_end.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace troupe {
namespace {

// More than a token of a natural text takes.
constexpr std::size_t kBytesAToken = 8;

std::string_view end_of(std::string_view text, std::size_t num_bytes) {
  if (text.size() > num_bytes) text.remove_prefix(text.size() - num_bytes);
  const auto is_inside_character = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
  };
  while (!text.empty() && is_inside_character(text.front())) text.remove_prefix(1);
  return text;
}

}  // namespace

std::vector<std::int32_t> encode_prompt_end(const Tokenizer& of_prompt, std::span<const std::int32_t> prompt,
                                            const Tokenizer& encoder, std::size_t longest) {
  const std::size_t num_around = encoder.prefix_tokens().size() + encoder.suffix_tokens().size();
  if (longest <= num_around) return {};
  const std::size_t most = longest - num_around;
  const std::string text = of_prompt.decode(prompt.last(std::min(prompt.size(), most)));
  const std::vector<TokenId> tokens = encoder.encode(end_of(text, most * kBytesAToken));
  return encoder.enclosed(std::span(tokens).last(std::min(tokens.size(), most)));
}

}  // namespace troupe
