// SPDX-License-Identifier: Apache-2.0
// Chooses the sequences of the next batch and their numbers of tokens: decoding sequences
// first, one token each, then prompts in order of arrival, cut into chunks so
// that a long prompt never holds up sequences that are being answered. Prompts of
// several flows share what the decoding sequences leave: each flow gets as much as
// any other, or all it wants. Where lists of
// penalized tokens do not all fit into one batch, those that were in no batch for
// longest go first and the rest waits for the next. In prompts that are scored
// every token takes a row of logits, of which there are as many as sequences: they
// go on with what the others leave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "policy/forming/sequence_progress.hpp"

namespace troupe {

struct BatchLimits {
  std::uint32_t max_tokens = 0;  // query tokens of a batch
  std::uint32_t max_sequences = 0;
  std::uint32_t prefill_chunk = 0;  // most prompt tokens of one sequence
  // Listed by all that draw a token; a sequence alone never has more.
  std::uint32_t max_penalized_tokens = std::numeric_limits<std::uint32_t>::max();
  // No batch has prompts and decoding sequences: prompts go first, and decoding
  // waits as long as there are some.
  bool separates_prefill = false;
  // Prompt tokens in a batch with sequences that decode, and in any batch: the core sets
  // both from batch to batch (policy/forming/prefill_pace.hpp).
  std::uint32_t max_prompt_tokens = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t max_lone_prompt_tokens = std::numeric_limits<std::uint32_t>::max();

  // Sequences that may hold a slot: more could not all decode in one batch.
  std::uint32_t max_running() const { return max_sequences < max_tokens ? max_sequences : max_tokens; }
};

struct BatchCandidate {
  const SequenceProgress* progress = nullptr;
  std::uint32_t page_capacity = 0;         // tokens its pages hold
  std::uint64_t flow = 0;                  // owner of the request (policy/admitting/fair_queue.hpp)
  std::uint32_t num_penalized_tokens = 0;  // its list, should it draw a token
  std::uint64_t last_batch = 0;            // the last it was in, or before which it began to run
};

struct BatchShare {
  std::size_t candidate = 0;
  SequenceStep step;
};

// Candidates in order of arrival; shares come in that order too. A sequence with
// holes has several shares, of one context: the holes, then what is new
// (Pensieve, §3.4.2). No candidate is left out for its list in as many batches in a row as
// there are candidates.
// One that has a source to read is left out.
std::vector<BatchShare> form_batch(std::span<const BatchCandidate> candidates, const BatchLimits& limits);

// Sources that are to be read, each whole, in order of arrival up to the first for which there is
// no room. None is larger than a batch.
std::vector<BatchShare> form_source_batch(std::span<const BatchCandidate> candidates,
                                          const BatchLimits& limits);

}  // namespace troupe
