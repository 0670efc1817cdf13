// SPDX-License-Identifier: Apache-2.0
#include "text/history/message_chain.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <string>

namespace troupe {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

std::string_view without_space_around(std::string_view text) {
  const auto begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// A call without arguments may come as "".
std::string without_space(std::string_view arguments) {
  std::string out;
  for (const char c : arguments)
    if (kSpace.find(c) == std::string_view::npos) out += c;
  return out.empty() ? "{}" : out;
}

}  // namespace

// Long texts in four lanes: each product waits for the one before it in its lane only.
std::uint64_t chain_key(std::string_view text, std::uint64_t before) {
  using Words = std::array<std::uint64_t, 4>;
  std::uint64_t hash = mix(before, text.size());
  if (text.size() >= sizeof(Words)) {
    Words lanes{hash, hash + 1, hash + 2, hash + 3};
    for (; text.size() >= sizeof(Words); text.remove_prefix(sizeof(Words))) {
      Words words;
      std::memcpy(&words, text.data(), sizeof words);
      for (std::size_t i = 0; i < words.size(); ++i) lanes[i] = mix(lanes[i], words[i]);
    }
    for (const std::uint64_t lane : lanes) hash = mix(hash, lane);
  }
  for (; text.size() >= sizeof(std::uint64_t); text.remove_prefix(sizeof(std::uint64_t))) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), sizeof word);
    hash = mix(hash, word);
  }
  std::uint64_t rest = 0;
  if (!text.empty()) std::memcpy(&rest, text.data(), text.size());
  return mix(hash, rest);
}

std::uint64_t chain_key(const ChatMessage& message, std::uint64_t before) {
  const bool is_answer = message.role == "assistant";
  auto key = chain_key(message.role, before);
  key = chain_key(is_answer ? without_space_around(message.content) : std::string_view(message.content), key);
  key = mix(key, message.tool_calls.size());
  // Without ids: they are ours, and clients of Ollama drop them.
  for (const auto& call : message.tool_calls) {
    key = chain_key(call.name, key);
    key = chain_key(without_space(call.arguments), key);
  }
  key = chain_key(message.tool_call_id, key);
  return chain_key(message.name, key);
}

std::vector<std::uint64_t> chain_keys(std::span<const ChatMessage> messages, std::uint64_t seed) {
  std::vector<std::uint64_t> keys;
  keys.reserve(messages.size());
  for (const auto& message : messages) keys.push_back(seed = chain_key(message, seed));
  return keys;
}

}  // namespace troupe
