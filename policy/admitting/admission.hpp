// SPDX-License-Identifier: Apache-2.0
// May this request be served at all? Checked once, before anything is held for
// it; every refusal says what was expected and what came.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

namespace troupe {

// How often waiting requests are looked through for any that waited too long.
inline constexpr std::chrono::milliseconds kQueueCheckInterval{250};

struct ServingLimits {
  std::uint32_t context_length = 0;  // of the model
  std::uint32_t page_capacity = 0;   // tokens that all KV pages hold together
  std::uint32_t vocabulary_size = 0;

  // The longest sequence that can be finished: one that had all the pages.
  std::uint32_t longest_sequence() const {
    return context_length < page_capacity ? context_length : page_capacity;
  }
  // Tokens that an answer may have behind such a prompt; 0 without room. max_tokens: as the request has it.
  std::uint64_t max_drawn(std::size_t num_prompt, std::optional<std::uint32_t> max_tokens) const;
};

struct AdmissionQuestion {
  std::span<const std::int32_t> prompt;
  std::optional<std::uint32_t> max_tokens = std::nullopt;
  std::uint32_t min_tokens = 0;
  std::span<const std::int32_t> stop_token_ids = {};
  std::span<const std::int32_t> biased_ids = {};
};

struct Refusal {
  bool is_too_long = false;
  std::string message;
  std::string field;
};

// How many tokens a prompt may have at most; nothing while the limits are zeros,
// which says that they are not known yet.
std::optional<std::uint32_t> max_prompt_tokens(const ServingLimits& limits);
// Refusal of a prompt with more than that.
Refusal refuse_longer_prompt(const ServingLimits& limits);

// An input that an encoder takes in one pass; nullopt: it can.
std::optional<Refusal> check_input(std::span<const std::int32_t> tokens, const ServingLimits& limits);

// The most tokens the sequence may have, prompt and completion, or why not. An answer
// for which there is less room than it may have tokens ends where the room does.
std::variant<std::uint32_t, Refusal> check_admission(const AdmissionQuestion& question,
                                                     const ServingLimits& limits);

}  // namespace troupe
