// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/admission.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

namespace troupe {
namespace {

constexpr ServingLimits kLimits{.context_length = 10, .page_capacity = 100, .vocabulary_size = 50};
constexpr ServingLimits kFewPages{.context_length = 100, .page_capacity = 8, .vocabulary_size = 50};

std::vector<std::int32_t> prompt_of(std::size_t num_tokens) {
  return std::vector<std::int32_t>(num_tokens, 1);
}

AdmissionQuestion ask(std::span<const std::int32_t> prompt,
                      std::optional<std::uint32_t> max_tokens = std::nullopt, std::uint32_t min_tokens = 0,
                      std::span<const std::int32_t> stop_token_ids = {}) {
  return {
      .prompt = prompt, .max_tokens = max_tokens, .min_tokens = min_tokens, .stop_token_ids = stop_token_ids};
}

std::uint32_t admitted(const AdmissionQuestion& question, const ServingLimits& limits) {
  const auto verdict = check_admission(question, limits);
  REQUIRE(std::holds_alternative<std::uint32_t>(verdict));
  return std::get<std::uint32_t>(verdict);
}

Refusal refused(const AdmissionQuestion& question, const ServingLimits& limits) {
  const auto verdict = check_admission(question, limits);
  REQUIRE(std::holds_alternative<Refusal>(verdict));
  return std::get<Refusal>(verdict);
}

bool says(const Refusal& refusal, const char* words) {
  return refusal.message.find(words) != std::string::npos;
}

TEST_CASE("admission: without max_tokens the answer may fill the context") {
  CHECK(admitted(ask(prompt_of(3)), kLimits) == 10);
  CHECK(admitted(ask(prompt_of(9)), kLimits) == 10);
}

TEST_CASE("admission: max_tokens counts the answer alone") {
  CHECK(admitted(ask(prompt_of(3), 4), kLimits) == 7);
  CHECK(admitted(ask(prompt_of(3), 7), kLimits) == 10);
}

TEST_CASE("admission: no answer at all may be asked for") {
  CHECK(admitted(ask(prompt_of(3), 0), kLimits) == 3);
}

TEST_CASE("admission: an empty prompt is refused, though not for its length") {
  const Refusal refusal = refused(ask({}), kLimits);
  CHECK(refusal.field == "prompt");
  CHECK_FALSE(refusal.is_too_long);
}

TEST_CASE("admission: a prompt that fills the context leaves no room for an answer") {
  const Refusal refusal = refused(ask(prompt_of(10)), kLimits);
  CHECK(refusal.is_too_long);
  CHECK(refusal.field == "prompt");
  CHECK(says(refusal, "maximum context length is 10 tokens"));
  CHECK(says(refusal, "the prompt has 10 tokens"));
}

TEST_CASE("admission: an answer that may be longer than the context ends where the context does") {
  CHECK(admitted(ask(prompt_of(3), 8), kLimits) == 10);
  CHECK(admitted(ask(prompt_of(3), UINT32_MAX), kLimits) == 10);
}

TEST_CASE("admission: an answer has what is asked for, as far as there is room behind its prompt") {
  const ServingLimits limits{.context_length = 100, .page_capacity = 64, .vocabulary_size = 10};
  CHECK(limits.max_drawn(60, 3) == 3);
  CHECK(limits.max_drawn(60, 5) == 4);
  CHECK(limits.max_drawn(60, std::nullopt) == 4);
  CHECK(limits.max_drawn(64, 3) == 0);
  CHECK(limits.max_drawn(65, std::nullopt) == 0);
  CHECK(ServingLimits{}.max_drawn(1, 3) == 0);  // not known yet
}

TEST_CASE("admission: where pages are fewer than the context is long, they are the limit") {
  CHECK(admitted(ask(prompt_of(3)), kFewPages) == 8);
  CHECK(says(refused(ask(prompt_of(8)), kFewPages), "KV memory"));
  CHECK(admitted(ask(prompt_of(3), 6), kFewPages) == 8);
}

TEST_CASE("admission: min_tokens may reach max_tokens, not exceed it") {
  CHECK(admitted(ask(prompt_of(3), 4, 4), kLimits) == 7);
  const Refusal refusal = refused(ask(prompt_of(3), 4, 5), kLimits);
  CHECK(refusal.field == "min_tokens");
  CHECK_FALSE(refusal.is_too_long);
}

TEST_CASE("admission: min_tokens may take what the context leaves, whatever max_tokens is") {
  for (const std::optional<std::uint32_t> max_tokens : {std::optional<std::uint32_t>(), {100}}) {
    CHECK(admitted(ask(prompt_of(3), max_tokens, 7), kLimits) == 10);
    CHECK(refused(ask(prompt_of(3), max_tokens, 8), kLimits).field == "min_tokens");
  }
}

TEST_CASE("admission: token ids lie in the vocabulary") {
  CHECK(admitted(ask(std::vector<std::int32_t>{0, 49}), kLimits) == 10);
  const Refusal high = refused(ask(std::vector<std::int32_t>{0, 50}), kLimits);
  CHECK(high.field == "prompt");
  CHECK(says(high, "got 50 at position 1"));
  CHECK(says(refused(ask(std::vector<std::int32_t>{-1, 0}), kLimits), "got -1 at position 0"));
}

TEST_CASE("admission: stop token ids lie in the vocabulary") {
  const std::vector<std::int32_t> prompt{1};
  const std::vector<std::int32_t> good{0, 49}, bad{7, 50};
  CHECK(admitted(ask(prompt, std::nullopt, 0, good), kLimits) == 10);
  CHECK(refused(ask(prompt, std::nullopt, 0, bad), kLimits).field == "stop_token_ids");
}

// All small questions under all small limits, against the rule in one line each.
TEST_CASE("admission: a prompt that was not counted to its end is refused by the same limit") {
  CHECK(max_prompt_tokens({.context_length = 100, .page_capacity = 1000}) == 99);
  CHECK(max_prompt_tokens({.context_length = 100, .page_capacity = 64}) == 63);
  CHECK(max_prompt_tokens({}) == std::nullopt);
  const auto refusal = refuse_longer_prompt({.context_length = 100, .page_capacity = 64});
  CHECK(refusal.is_too_long);
  CHECK(refusal.message ==
        "This server's KV memory holds sequences of at most 64 tokens, of which one is for the "
        "answer; the prompt has more than 63 tokens.");
  CHECK(refusal.field == "prompt");
}

TEST_CASE("admission: exactly what can be finished is admitted") {
  for (std::uint32_t context = 1; context <= 5; ++context)
    for (std::uint32_t capacity = 1; capacity <= 5; ++capacity)
      for (std::uint32_t num_prompt = 0; num_prompt <= 6; ++num_prompt)
        for (std::uint32_t max_tokens = 0; max_tokens <= 6; ++max_tokens)
          for (std::uint32_t min_tokens = 0; min_tokens <= 6; ++min_tokens) {
            const auto prompt = prompt_of(num_prompt);
            const auto verdict =
                check_admission(ask(prompt, max_tokens, min_tokens),
                                {.context_length = context, .page_capacity = capacity, .vocabulary_size = 2});
            const std::uint32_t longest = std::min(context, capacity);
            const std::uint32_t total = std::min(num_prompt + max_tokens, longest);
            const bool expected = num_prompt > 0 && num_prompt < longest && num_prompt + min_tokens <= total;
            REQUIRE(std::holds_alternative<std::uint32_t>(verdict) == expected);
            if (expected) REQUIRE(std::get<std::uint32_t>(verdict) == total);
            if (!expected) REQUIRE_FALSE(std::get<Refusal>(verdict).field.empty());
          }
}

}  // namespace
}  // namespace troupe
