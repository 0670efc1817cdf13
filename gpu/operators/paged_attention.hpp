// SPDX-License-Identifier: Apache-2.0
// Causal attention of every query token over the pages of its own sequence, prefill and
// decode alike (Pensieve §3.4, multi-token paged attention); grouped-query heads, softmax
// in f32. The batch's own keys and values were appended before (rotary_append_kv.hpp).
// A row's bits do not depend on what else is in the batch.
//
//   inputs {qkv: queries are its first columns} or {qkv, sinks [1, heads]}: a score that a head's
//          softmax has beside those of tokens, of no value; outputs {attended [tokens, heads * head_dim]}
#pragma once

#include <cstdint>

namespace troupe {

// The tokens of its sequence that a query sees. In a sequence with a source (SequenceSlice::source_tokens)
// the source's keys and values are those that its encoder left.
enum class AttendedPart : std::uint8_t {
  kAll,     // itself and those before it
  kSource,  // all of the source, none else
  kAnswer,  // itself and those before it, none of the source
};

struct PagedAttention {
  std::uint32_t layer = 0;
  std::uint32_t window = 0;  // a token sees so many, itself and those before it; 0: all
  float scale = 0.0F;        // of scores; 0: 1 / sqrt(head_dim)
  float soft_cap = 0.0F;     // scaled scores s become soft_cap * tanh(s / soft_cap); 0: they stay
  AttendedPart part = AttendedPart::kAll;
};

}  // namespace troupe
