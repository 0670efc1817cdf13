// SPDX-License-Identifier: Apache-2.0
// The input of one forward pass of a program: which sequences take part,
// how many tokens each advances by, where their KV pages are, how the next
// token is drawn. Plain values: a batch travels in messages between actors and,
// for workers in other processes, over a socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/program/cell.hpp"
#include "policy/pages/page_copy.hpp"

namespace troupe {

class MaskSlot;

using PageId = std::uint32_t;
using SlotId = std::uint32_t;

// How to draw the next token. Temperature 0 is the arg max, ties to the lowest
// id. Draws use a counter-based generator keyed by (seed, position), so a
// sequence that is restarted elsewhere draws the same tokens again.
struct SamplingParameters {
  static constexpr std::int32_t kNoLogprobs = -1;

  float temperature = 1.0F;
  float top_p = 1.0F;
  float min_p = 0.0F;
  std::int32_t top_k = 0;  // 0: all
  std::uint64_t seed = 0;
  // Before the temperature, and at temperature 0 as well, in this order, as vLLM
  // does it: logits of tokens of the prompt or generated are divided by
  // `repetition` if positive and multiplied if not; then those generated lose
  // `frequency` for each time they were, and `presence` once.
  float repetition_penalty = 1.0F;  // > 0
  float frequency_penalty = 0.0F;
  float presence_penalty = 0.0F;
  // Log-probabilities wanted: of the token that is drawn and of so many of the
  // most likely ones, at most kMaxTopLogprobs. They are of the model's own distribution,
  // before everything above.
  std::int32_t top_logprobs = kNoLogprobs;
  auto operator<=>(const SamplingParameters&) const = default;

  constexpr bool has_penalties() const {
    return repetition_penalty != 1.0F || frequency_penalty != 0.0F || presence_penalty != 0.0F;
  }
  constexpr bool wants_logprobs() const { return top_logprobs >= 0; }
};
inline constexpr std::int32_t kMaxTopLogprobs = 20;  // OpenAI's

// A token that penalties are for.
struct PenalizedToken {
  std::int32_t id = 0;
  std::uint32_t num_generated = 0;  // 0: it is in the prompt only
  bool operator==(const PenalizedToken&) const = default;
};

// Added to a token's logit, before penalties.
struct TokenBias {
  std::int32_t id = 0;
  float bias = 0.0F;  // finite
  bool operator==(const TokenBias&) const = default;
};
inline constexpr std::size_t kMaxBiases = 1024;  // of a sequence

// A set of token ids: bit id % 32 of word id / 32.
using TokenMask = std::vector<std::uint32_t>;
constexpr std::size_t mask_words(std::size_t vocabulary_size) { return (vocabulary_size + 31) / 32; }
inline bool has_token(std::span<const std::uint32_t> mask, std::size_t id) {
  return id / 32 < mask.size() && (mask[id / 32] >> (id % 32) & 1U) != 0;
}

// A device remembers that many of the tokens it drew last for a slot.
inline constexpr std::uint32_t kRecentTokens = 8;

// One sequence's part of a batch: advance it by num_tokens.
struct SequenceSlice {
  std::uint64_t sequence = 0;        // the scheduler's id, for logs and simulation
  SlotId slot = 0;                   // device-side state: its last sampled token
  std::uint32_t num_tokens = 0;      // query tokens, >= 1
  std::uint32_t context_length = 0;  // tokens whose KV is in the pages already
  std::uint32_t first_page = 0;      // index into Batch::page_table
  std::uint32_t num_pages = 0;       // >= ceil((context_length + num_tokens) / page_size)
  bool input_from_slot = false;      // num_tokens == 1: the input is the slot's last token
  bool sample = false;               // draw a token from the last query token's logits
  SamplingParameters sampling;
  std::vector<std::int32_t> suppressed;  // ids that must not be drawn (min_tokens, ignore_eos)
  // With penalties: each id once, as far as they were known when the batch was
  // formed. The sequence's last num_pending tokens were not: the device has drawn
  // them for the slot in batches still in flight then, and counts them itself.
  std::vector<PenalizedToken> penalized = {};
  std::uint32_t num_pending = 0;       // <= kRecentTokens
  std::vector<TokenBias> biased = {};  // each id once
  TokenMask allowed = {};              // mask_words(vocabulary): nothing else is drawn; empty: all may be
  // With sample: the token that follows is this one, and only how likely it was is
  // wanted. It is given back as if it had been drawn; the slot remembers nothing of
  // it. Several slices of one sequence may ask that way in one batch.
  std::int32_t scored_token = -1;  // -1: draw
  // With sample: the network's state at the last token is wanted, of a device that hands it out.
  bool wants_state = false;
  // A cell of no state: from this token on the slice is a second text; 0: it has one only.
  std::uint32_t second_text = 0;
  // So, too: the last so many of its tokens are padding. They are computed as others are, but
  // not attended to, and are no part of the result. At least one token is none.
  std::uint32_t num_padding = 0;
  // The decoder of an encoder-decoder: the sequence's first so many tokens are the source, whose keys and
  // values the encoder has left in the pages; <= context_length.
  std::uint32_t source_tokens = 0;
  // A cell of rows: its input rows are Batch::input_rows[first_input, first_input + num_inputs).
  std::uint32_t first_input = 0;
  std::uint32_t num_inputs = 0;

  bool draws() const { return sample && scored_token < 0; }
};

// Copies, or slices, or both: a batch without slices is there for its copies only.
struct Batch {
  std::uint64_t id = 0;
  CellId cell = 0;                    // that all slices are of
  std::vector<PageCopy> copies = {};  // KV pages; done first, in this order
  std::vector<SequenceSlice> slices;
  // The query tokens of all slices, in order; a slice with input_from_slot
  // has one entry whose value is ignored.
  std::vector<std::int32_t> token_ids;
  std::vector<PageId> page_table;
  // Cells of rows: rows of the pool that slices read. A row that a slice writes is read by
  // no other slice of the batch.
  std::vector<SlotId> input_rows = {};
  // One a slice, or empty: none. A slice that has one draws with the mask that it finds there, in place of
  // `allowed`. Only for devices that wait for masks.
  std::vector<std::shared_ptr<MaskSlot>> awaited_masks = {};

  std::uint32_t num_tokens() const { return static_cast<std::uint32_t>(token_ids.size()); }
  std::uint32_t num_output_rows() const {
    std::uint32_t rows = 0;
    for (const auto& slice : slices) rows += slice.sample ? 1 : 0;
    return rows;
  }
  std::uint64_t num_penalized_tokens() const {
    std::uint64_t count = 0;
    for (const auto& slice : slices) count += slice.sample ? slice.penalized.size() : 0;
    return count;
  }
};

// Instead of a slice's token: a page of its context could not be loaded, so
// nothing that was computed for it is right.
inline constexpr std::int32_t kVoidContext = -2;
// Instead of it, too: its mask did not come, and nothing was drawn. The sequence's slices behind it are void.
inline constexpr std::int32_t kNoMask = -3;

struct RankedToken {
  std::int32_t id = -1;
  float logprob = 0.0F;  // natural logarithm; -Inf: impossible
  bool operator==(const RankedToken&) const = default;
};
// Log-probabilities at one position of a sequence.
struct TokenLogprobs {
  float logprob = 0.0F;          // of the token that was drawn
  std::vector<RankedToken> top;  // the most likely first, ties by id
  bool operator==(const TokenLogprobs&) const = default;
};

struct BatchResult {
  std::uint64_t batch_id = 0;
  std::vector<std::int32_t> tokens;  // one a slice; -1 where nothing was sampled
  // One a slice, of meaning where it asked and got a token; empty if none asked.
  std::vector<TokenLogprobs> logprobs = {};
  std::vector<float> vectors = {};  // [slices, vector_size] of a kVector cell, else empty
  std::vector<float> states = {};   // [slices that want one, width]; empty: the device has none
  // Generations that copies from the host did not find there, or not intact.
  std::vector<std::uint64_t> failed_loads = {};
  // One a slice: how long it made the sampler wait for its mask; empty: none did.
  std::vector<std::int64_t> mask_wait_nanoseconds = {};
  std::int64_t mask_sleep_nanoseconds = 0;  // all that it waited for masks; not the device's time
  std::int64_t network_nanoseconds = 0;     // time the device spent on it
  std::string error;                        // not empty: the batch failed and tokens are void
};

}  // namespace troupe
