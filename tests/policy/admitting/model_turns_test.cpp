// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/model_turns.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace troupe;
using std::chrono::nanoseconds;
using Order = std::vector<std::size_t>;

namespace {

void run(ModelTurns& turns, std::size_t model, int time) {
  turns.submit(model);
  turns.finish(model, nanoseconds(time));
}

}  // namespace

TEST_CASE("model turns: the model that was given least comes first, ties by index") {
  ModelTurns turns(3);
  CHECK(turns.order() == Order{0, 1, 2});
  turns.submit(0);
  turns.submit(1);
  turns.finish(0, nanoseconds(50));
  turns.finish(1, nanoseconds(20));
  CHECK(turns.order() == Order{2, 1, 0});
}

TEST_CASE("model turns: two that always have work get equal device time, whatever their batches take") {
  ModelTurns turns(2);
  std::array<int, 2> served{};
  for (int i = 0; i < 1000; ++i) {
    const std::size_t model = turns.order().front();
    const int time = model == 0 ? 10 : 70;
    run(turns, model, time);
    served[model] += time;
  }
  CHECK(served[0] > 0.95 * served[1]);
  CHECK(served[1] > 0.95 * served[0]);
}

TEST_CASE("model turns: idleness earns no credit, also where nobody was busy meanwhile") {
  ModelTurns turns(2);
  for (int i = 0; i < 100; ++i) run(turns, 0, 1000);  // alone
  // Both idle; then both have work, and take turns at once.
  int num_of_first = 0;
  for (int i = 0; i < 10; ++i) {
    const std::size_t model = turns.order().front();
    run(turns, model, 1000);
    num_of_first += model == 0 ? 1 : 0;
  }
  CHECK(num_of_first >= 4);
  CHECK(num_of_first <= 6);
}

TEST_CASE("model turns: a batch in flight counts") {
  ModelTurns turns(2);
  run(turns, 0, 100);
  run(turns, 1, 100);
  turns.submit(0);
  CHECK(turns.order() == Order{1, 0});
  turns.submit(1);
  turns.submit(0);
  CHECK(turns.order() == Order{1, 0});
}

TEST_CASE("model turns: what a lost worker had counts as it was charged") {
  ModelTurns turns(2);
  run(turns, 0, 100);
  turns.submit(0);
  turns.forget_submitted();
  run(turns, 0, 100);
  CHECK(turns.order() == Order{1, 0});
}
