// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/normalizer/precompiled_map.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "text/utf8.hpp"

namespace troupe {
namespace {

// A longer cluster is replaced character by character.
constexpr std::size_t kMaxClusterBytes = 5;

// A unit of the double array.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1U) != 0; }
std::uint32_t value(std::uint32_t unit) { return unit & 0x7FFFFFFFU; }
std::uint32_t label(std::uint32_t unit) { return unit & 0x800000FFU; }
std::uint32_t offset(std::uint32_t unit) { return unit >> 10 << ((unit & 0x200U) >> 6); }

bool is_ascii(char byte) { return (byte & 0x80) == 0; }

utf8proc_int32_t code_point(const Utf8Character& character) {
  return static_cast<utf8proc_int32_t>(character.code_point);
}

// The bytes of the grapheme cluster that the text begins with: all of the text, if it is one.
std::size_t cluster_bytes(std::string_view text, EncodingBudget& budget) {
  Utf8Character character = next_utf8_character(text);
  std::size_t end = character.num_bytes;
  utf8proc_int32_t state = 0;
  while (end < text.size()) {
    const bool are_plain = is_ascii(text[end - 1]) && is_ascii(text[end]) && text[end] != '\n';
    if (are_plain) break;
    const Utf8Character next = next_utf8_character(text.substr(end));
    if (utf8proc_grapheme_break_stateful(code_point(character), code_point(next), &state)) break;
    end += next.num_bytes;
    budget.spend(next.num_bytes);
    character = next;
  }
  return end;
}

}  // namespace

PrecompiledMap::PrecompiledMap(std::string_view bytes) {
  std::uint32_t num_bytes = 0;
  if (bytes.size() < sizeof num_bytes) throw std::runtime_error("has no size of its double array");
  std::memcpy(&num_bytes, bytes.data(), sizeof num_bytes);
  bytes.remove_prefix(sizeof num_bytes);
  if (num_bytes == 0 || num_bytes % sizeof(std::uint32_t) != 0 || num_bytes > bytes.size()) {
    throw std::runtime_error("states a double array of " + std::to_string(num_bytes) + " bytes, of which " +
                             std::to_string(bytes.size()) + " follow");
  }
  units_.resize(num_bytes / sizeof(std::uint32_t));
  std::memcpy(units_.data(), bytes.data(), num_bytes);
  replacements_ = bytes.substr(num_bytes);
  if (valid_utf8_prefix(replacements_) != replacements_.size()) {
    throw std::runtime_error("has replacements that are not UTF-8");
  }
}

std::string PrecompiledMap::apply(std::string_view text, std::size_t max_bytes,
                                  EncodingBudget& budget) const {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = cluster_bytes(text, budget);
    append_cluster(text.substr(0, size), max_bytes, budget, out);
    text.remove_prefix(size);
  }
  return out;
}

void PrecompiledMap::append_cluster(std::string_view cluster, std::size_t max_bytes, EncodingBudget& budget,
                                    std::string& out) const {
  const auto append = [&](std::string_view source, std::string_view piece) {
    budget.spend(source.size());
    if (piece.size() > max_bytes - out.size()) {
      throw EncodingStopped(EncodingStop::kTooMuchWork, "the normalizer makes more than " +
                                                            std::to_string(max_bytes) + " bytes of the text");
    }
    out += piece;
  };
  if (cluster.size() <= kMaxClusterBytes) {
    if (const auto replacement = find(cluster)) return append(cluster, *replacement);
  }
  while (!cluster.empty()) {
    const std::string_view character = cluster.substr(0, next_utf8_character(cluster).num_bytes);
    append(character, find(character).value_or(character));
    cluster.remove_prefix(character.size());
  }
}

// Nothing that a file says leads out of the array or into a character.
std::optional<std::string_view> PrecompiledMap::find(std::string_view text) const {
  std::size_t at = offset(units_[0]);
  for (const char byte : text) {
    if (byte == '\0') break;
    at ^= static_cast<std::uint8_t>(byte);
    if (at >= units_.size() || label(units_[at]) != static_cast<std::uint8_t>(byte)) break;
    const bool is_end = has_leaf(units_[at]);
    at ^= offset(units_[at]);
    if (!is_end) continue;
    if (at >= units_.size()) break;
    const std::size_t begin = value(units_[at]);
    const bool is_inside = begin < replacements_.size() && (replacements_[begin] & 0xC0) != 0x80;
    if (!is_inside) break;
    const std::size_t end = std::min(replacements_.find('\0', begin), replacements_.size());
    return std::string_view(replacements_).substr(begin, end - begin);
  }
  return std::nullopt;
}

}  // namespace troupe
