// SPDX-License-Identifier: Apache-2.0
#include "policy/admission.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace troupe {
namespace {

constexpr ServingLimits kLimits{.context_length = 10, .page_capacity = 100, .vocabulary_size = 50};

TEST_CASE("admission policy: without max_tokens the context is the limit") {
  const std::vector<std::int32_t> prompt(4, 1);
  CHECK(std::get<std::uint32_t>(check_admission({.prompt = prompt}, kLimits)) == 10);
}

TEST_CASE("admission policy: pages may be shorter than the context") {
  const std::vector<std::int32_t> prompt(4, 1);
  ServingLimits limits = kLimits;
  limits.page_capacity = 7;
  CHECK(std::get<std::uint32_t>(check_admission({.prompt = prompt}, limits)) == 7);
}

// Every border, one below and one above.
TEST_CASE("admission policy: limits hold to the token") {
  for (std::uint32_t num_prompt = 0; num_prompt <= 12; ++num_prompt) {
    for (std::uint32_t max_tokens = 0; max_tokens <= 12; ++max_tokens) {
      const std::vector<std::int32_t> prompt(num_prompt, 49);
      const auto verdict = check_admission({.prompt = prompt, .max_tokens = max_tokens}, kLimits);
      const bool is_fine = num_prompt >= 1 && num_prompt <= 9 && num_prompt + max_tokens <= 10;
      REQUIRE(std::holds_alternative<std::uint32_t>(verdict) == is_fine);
      if (is_fine) REQUIRE(std::get<std::uint32_t>(verdict) == num_prompt + max_tokens);
    }
  }
}

TEST_CASE("admission policy: huge max_tokens do not wrap around") {
  const std::vector<std::int32_t> prompt(4, 1);
  const auto verdict = check_admission({.prompt = prompt, .max_tokens = UINT32_MAX}, kLimits);
  CHECK(std::get<Refusal>(verdict).is_too_long);
  CHECK(std::get<Refusal>(verdict).field == "max_tokens");
}

TEST_CASE("admission policy: ids just outside the vocabulary are refused") {
  for (const std::int32_t id : {-1, 50, INT32_MAX, INT32_MIN}) {
    const std::vector<std::int32_t> prompt{0, 49, id};
    CHECK(std::get<Refusal>(check_admission({.prompt = prompt}, kLimits)).field == "prompt");
  }
}

}  // namespace
}  // namespace troupe
