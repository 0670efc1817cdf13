// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/running_head.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace troupe {
namespace {

constexpr double kRank = 0.6;
const std::vector<float> kState = {1, -1, 2, 0.5F};

RunningHead::Sight at_32(std::uint32_t standing) {
  return {.state = kState, .sizes = {.prompt = 10, .most = 2000, .generated = 32}, .standing = standing};
}

// Of so many answers each had 20 tokens behind its 32nd.
RunningHead taught(std::uint64_t num_answers) {
  RunningHead head(kRank);
  for (std::uint64_t id = 1; id <= num_answers; ++id) {
    AnswerLooks looks;
    head.look(looks, at_32(400), nullptr);
    head.learn(id, looks, {.num_tokens = 52}, {.num_tokens = 52});
  }
  return head;
}

TEST_CASE("running head: a look at an answer that was cut off is judged where both losses are known") {
  RunningHead head = taught(200);
  const SeenLength cut_off{.num_tokens = 200, .is_whole = false};
  AnswerLooks unknown, known;
  const auto guess = head.look(unknown, at_32(400), nullptr);
  REQUIRE(guess);
  REQUIRE(32 + guess->reserved < 200);
  // The 400 tokens that stood might have been just right.
  const JudgedLooks none = head.learn(1001, unknown, cut_off, cut_off);
  CHECK(none.num == 0);
  CHECK(none.loss == 0);
  REQUIRE(head.look(known, at_32(50), nullptr));
  const JudgedLooks one = head.learn(1002, known, cut_off, cut_off);
  CHECK(one.num == 1);
  CHECK(one.loss > 0);
  CHECK(one.standing_loss == doctest::Approx(kRank * 150));
}

}  // namespace
}  // namespace troupe
