// SPDX-License-Identifier: Apache-2.0
#include "actors/status_board.hpp"

#include <doctest/doctest.h>

namespace troupe {
namespace {

using std::chrono::seconds;

TEST_CASE("status: a failed engine stays failed, with its first reason") {
  StatusBoard board;
  board.become_ready();
  CHECK(board.fail("one"));
  CHECK_FALSE(board.fail("two"));
  board.become_draining();
  board.become_stopped();
  CHECK(board.state() == EngineState::kFailed);
  CHECK(board.failure() == "one");
}

TEST_CASE("status: a draining engine does not become ready again") {
  StatusBoard board;
  board.become_draining();
  board.become_ready();
  CHECK(board.state() == EngineState::kDraining);
}

TEST_CASE("status: tokens move while idle, paused, or not long since the last batch") {
  StatusBoard board;
  const StatusBoard::TimePoint start{seconds(100)};
  CHECK(board.read(start).tokens_move);
  board.num_open = 1;
  board.mark_progress(start);
  CHECK(board.read(start + seconds(9)).tokens_move);
  CHECK_FALSE(board.read(start + seconds(11)).tokens_move);
  board.predicted_nanoseconds = 4'000'000'000;
  CHECK(board.read(start + seconds(19)).tokens_move);
  CHECK_FALSE(board.read(start + seconds(21)).tokens_move);
  board.num_paused = 1;
  CHECK(board.read(start + seconds(21)).tokens_move);
}

}  // namespace
}  // namespace troupe
