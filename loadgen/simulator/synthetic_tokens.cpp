// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/synthetic_tokens.hpp"

namespace troupe::loadgen {
namespace {

enum class Origin : std::uint64_t { kPrefix = 1, kPrompt = 2, kAnswer = 3 };

// The finalizer of splitmix64.
std::uint64_t scrambled(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

void append(std::vector<std::int32_t>& tokens, Origin origin, std::uint64_t name, std::uint32_t turn,
            std::uint32_t count) {
  const std::uint64_t key = scrambled(scrambled(name) ^ (static_cast<std::uint64_t>(origin) << 32 | turn));
  for (std::uint32_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>(scrambled(key + i) >> 33));
}

}  // namespace

void append_prefix(std::vector<std::int32_t>& tokens, const PrefixBlock& block) {
  append(tokens, Origin::kPrefix, block.id, 0, block.num_tokens);
}

void append_prompt(std::vector<std::int32_t>& tokens, std::uint64_t conversation, std::uint32_t turn,
                   std::uint32_t count) {
  append(tokens, Origin::kPrompt, conversation, turn, count);
}

void append_answer(std::vector<std::int32_t>& tokens, std::uint64_t conversation, std::uint32_t turn,
                   std::uint32_t count) {
  append(tokens, Origin::kAnswer, conversation, turn, count);
}

}  // namespace troupe::loadgen
