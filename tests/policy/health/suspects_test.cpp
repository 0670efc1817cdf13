// SPDX-License-Identifier: Apache-2.0
#include "policy/health/suspects.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "tests/support/sanitizers.hpp"

namespace troupe {
namespace {

using Ids = std::vector<Suspects::SequenceId>;
using Parts = std::vector<Suspects::Part>;
using Deaths = std::vector<Suspects::Death>;

Suspects::Part decode(Suspects::SequenceId sequence, std::uint32_t position = 10) {
  return {.sequence = sequence, .begin = position, .end = position + 1};
}

TEST_CASE("suspects: whoever had something in flight is one, until it has come beyond") {
  Suspects suspects;
  CHECK_FALSE(suspects.take_death(1, Parts{decode(3), decode(4), decode(3, 11)}));
  CHECK(suspects.contains(3));
  CHECK(suspects.contains(4));
  suspects.computed(3, 12);  // there were two steps
  CHECK(suspects.contains(3));
  suspects.computed(3, 13);
  CHECK_FALSE(suspects.contains(3));
  suspects.forget(4);
  CHECK(suspects.is_empty());
}

TEST_CASE("suspects: one that a second worker dies of, alone and as far as before, is the culprit") {
  Suspects suspects;
  suspects.take_death(1, Parts{decode(3), decode(4)});
  CHECK(suspects.take_death(2, Parts{{.sequence = 4, .begin = 0, .end = 11}}) == 4);
  CHECK(suspects.contains(3));
  CHECK_FALSE(suspects.contains(4));
}

TEST_CASE("suspects: one that gets through its prefill and kills with the next step is the culprit") {
  Suspects suspects;
  suspects.take_death(1, Parts{decode(3), decode(4)});
  suspects.computed(4, 11);
  CHECK(suspects.take_death(2, Parts{decode(4, 11)}) == 4);
}

TEST_CASE("suspects: a death before the place is reached is no proof, but a second one is") {
  Suspects suspects;
  suspects.take_death(1, Parts{decode(3), decode(4)});
  CHECK_FALSE(suspects.take_death(2, Parts{{.sequence = 3, .begin = 0, .end = 8}}));
  CHECK(suspects.take_death(3, Parts{{.sequence = 3, .begin = 9, .end = 10}}) == 3);
}

TEST_CASE("suspects: one that was alone both times is the culprit, in whatever place") {
  Suspects suspects;
  CHECK_FALSE(suspects.take_death(1, Parts{decode(3, 50), decode(3, 51)}));
  CHECK(suspects.take_death(2, Parts{decode(3, 7)}) == 3);
}

TEST_CASE("suspects: one was not alone where something else may have done it") {
  Suspects suspects;
  suspects.take_death(1, Parts{decode(3, 50)}, true);
  CHECK(suspects.contains(3));
  CHECK_FALSE(suspects.take_death(2, Parts{decode(3, 50)}, true));
  CHECK_FALSE(suspects.take_death(3, Parts{{.sequence = 3, .begin = 0, .end = 8}}));
  CHECK(suspects.take_death(4, Parts{decode(3, 7)}) == 3);
}

TEST_CASE("suspects: one whose batch was shared with a request that has gone was not alone") {
  Suspects suspects;
  suspects.take_death(1, Parts{decode(3), decode(4)});
  auto gone = decode(4);
  gone.has_ended = true;
  CHECK_FALSE(suspects.take_death(2, Parts{decode(3), gone}));
  suspects.forget(4);
  CHECK(suspects.contains(3));
  CHECK_FALSE(suspects.contains(4));
}

TEST_CASE("suspects: a death with nothing in flight is nobody's fault") {
  Suspects suspects;
  CHECK_FALSE(suspects.take_death(1, {}));
  CHECK(suspects.is_empty());
}

TEST_CASE("suspects: the first of them runs alone, with one batch in flight") {
  Suspects suspects;
  suspects.take_death(1, Parts{decode(3), decode(4)});
  using Indexes = std::vector<std::size_t>;
  CHECK(suspects.choose_participants(Ids{1, 3, 4}, {}) == Indexes{1});
  CHECK(suspects.choose_participants(Ids{1, 3, 4}, Ids{3}).empty());
  CHECK(suspects.choose_participants(Ids{1, 2}, {}) == Indexes{0, 1});
  CHECK(suspects.choose_participants(Ids{1, 2}, Ids{1}) == Indexes{0, 1});
  // It was preempted, and its batch is in flight still.
  CHECK(suspects.choose_participants(Ids{1, 2}, Ids{4}).empty());
}

TEST_CASE("suspects: they are admitted first, and nobody beside one") {
  Suspects suspects;
  suspects.take_death(1, Parts{decode(3), decode(4)});
  CHECK(suspects.next_to_admit(Ids{1, 3, 4}, {}) == 1);
  CHECK(suspects.next_to_admit(Ids{1, 3, 4}, Ids{9}) == 1);
  CHECK_FALSE(suspects.next_to_admit(Ids{1, 4}, Ids{3}));
  CHECK(suspects.next_to_admit(Ids{1, 2}, {}) == 0);
  CHECK_FALSE(suspects.next_to_admit({}, {}));
}

TEST_CASE("suspects: after a culprit the device is proved with somebody who is not suspected") {
  Suspects suspects;
  suspects.take_death(7, Parts{decode(3), decode(4)});
  suspects.take_death(8, Parts{decode(3)});
  REQUIRE(suspects.needs_proof());
  CHECK(suspects.next_to_admit(Ids{4, 5, 6}, {}) == 1);
  CHECK_FALSE(suspects.next_to_admit(Ids{4, 6}, Ids{5}));
  CHECK(suspects.next_to_admit(Ids{4}, {}) == 0);  // nobody else is there
  for (int i = 0; i < 15; ++i) CHECK(suspects.take_work().empty());
  CHECK(suspects.take_work() == Deaths{7, 8});
  CHECK_FALSE(suspects.needs_proof());
  CHECK(suspects.next_to_admit(Ids{4, 5, 6}, Ids{5}) == 0);
}

TEST_CASE("suspects: a device that dies again and again proves nothing") {
  Suspects suspects;
  suspects.take_death(7, Parts{decode(3)});
  suspects.take_death(8, Parts{decode(3)});
  for (Suspects::Death death = 9; death < 20; ++death) {
    for (int i = 0; i < 10; ++i) CHECK(suspects.take_work().empty());
    suspects.take_death(death, {});
  }
  CHECK(suspects.needs_proof());
}

// A server in small: sequences that are to compute so many tokens, some of which
// kill whoever computes a certain one; devices that die of it, in order, with
// several batches in flight.
class SmallServer {
 public:
  // has_elder: the first to come is innocent, and stays to the end.
  explicit SmallServer(std::uint64_t seed, bool has_elder = false) : random_(seed) {
    const std::uint32_t num_sequences = 1 + pick(10);
    max_in_flight_ = 1 + pick(5);
    max_running_ = 1 + pick(8);
    const std::uint32_t percent_poisoned = pick(60);
    for (Suspects::SequenceId id = 1; id <= num_sequences; ++id) {
      Member member{.id = id, .length = 5 + pick(40), .cancelled_in = pick(8) == 0 ? pick(60) : ~0U};
      if (pick(100) < percent_poisoned) member.poison = 1 + pick(member.length);
      member.kills = static_cast<Kills>(pick(3));
      if (has_elder && id == 1) member = {.id = 1, .length = 2000, .cancelled_in = ~0U};
      num_poisoned += member.poison > 0 ? 1 : 0;
      members_.push_back(member);
    }
  }

  void run() {
    for (std::uint32_t step = 0; num_open() > 0; ++step) {
      REQUIRE(step < 5000);
      for (Member& member : members_)
        if (step == member.cancelled_in && !member.has_ended) end(member);
      admit();
      while (in_flight_.size() < max_in_flight_ && submit()) {
      }
      if (!in_flight_.empty()) finish_one();
    }
  }

  std::uint32_t num_poisoned = 0, num_deaths = 0;
  std::size_t most_unforgiven = 0;  // at a time, while the first to come is there
  Ids culprits;
  bool is_poisoned(Suspects::SequenceId id) { return members_[id - 1].poison > 0; }

 private:
  enum class Kills : std::uint8_t { kAtOneToken, kFromThereOn, kWhenDecodingFromThereOn };
  struct Member {
    Suspects::SequenceId id = 0;
    std::uint32_t length = 0;
    std::uint32_t poison = 0;  // the token that kills, from 1; 0: none
    Kills kills = Kills::kAtOneToken;
    std::uint32_t cancelled_in = 0;
    std::uint32_t submitted = 0, computed = 0, best = 0;
    bool is_running = false, has_ended = false;
  };
  struct Flight {
    Parts parts;
    bool kills = false;
  };

  std::uint32_t pick(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  std::size_t num_open() const {
    return static_cast<std::size_t>(
        std::count_if(members_.begin(), members_.end(), [](const Member& m) { return !m.has_ended; }));
  }
  void end(Member& member) {
    member.has_ended = true;
    member.is_running = false;
    suspects_.forget(member.id);
  }
  Ids ids(bool is_running) const {
    Ids found;
    for (const Member& member : members_)
      if (!member.has_ended && member.is_running == is_running) found.push_back(member.id);
    return found;
  }

  void admit() {
    for (;;) {
      const Ids waiting = ids(false), running = ids(true);
      if (running.size() >= max_running_) return;
      const auto chosen = suspects_.next_to_admit(waiting, running);
      if (!chosen) return;
      members_[waiting[*chosen] - 1].is_running = true;
    }
  }

  bool submit() {
    const Ids running = ids(true);
    Ids in_flight;
    for (const Flight& flight : in_flight_)
      for (const auto& part : flight.parts) in_flight.push_back(part.sequence);
    Flight flight;
    for (const std::size_t index : suspects_.choose_participants(running, in_flight)) {
      Member& member = members_[running[index] - 1];
      if (member.submitted == member.length) continue;
      const std::uint32_t most = member.submitted < member.best ? 1 + pick(8) : 1;
      // As far as its tokens are known: those computed, and the one that was drawn.
      const std::uint32_t known = std::max(member.best, member.submitted) + 1;
      const std::uint32_t last = std::min({member.submitted + most, known, member.length});
      flight.parts.push_back({.sequence = member.id, .begin = member.submitted, .end = last});
      flight.kills = flight.kills || kills(member, flight.parts.back());
      member.submitted = last;
    }
    if (flight.parts.empty()) return false;
    in_flight_.push_back(std::move(flight));
    return true;
  }

  static bool kills(const Member& member, const Suspects::Part& part) {
    if (member.poison == 0 || part.end < member.poison) return false;
    if (member.kills == Kills::kAtOneToken) return part.begin < member.poison;
    return member.kills == Kills::kFromThereOn || part.begin >= member.best;
  }

  void finish_one() {
    if (in_flight_.front().kills) return die();
    const Parts parts = in_flight_.front().parts;
    in_flight_.pop_front();
    for (const auto& part : parts) {
      Member& member = members_[part.sequence - 1];
      if (member.has_ended) continue;
      member.computed = part.end;
      member.best = std::max(member.best, part.end);
      suspects_.computed(part.sequence, part.end);
      if (member.computed == member.length) end(member);
    }
    for (const auto death : suspects_.take_work()) unforgiven_.erase(death);
  }

  void die() {
    num_deaths += 1;
    unforgiven_.insert(num_deaths);
    if (!members_.front().has_ended) most_unforgiven = std::max(most_unforgiven, unforgiven_.size());
    Parts parts;
    const bool is_known = pick(3) == 0;  // which batch it was
    for (const Flight& flight : in_flight_) {
      for (auto part : flight.parts) {
        part.has_ended = members_[part.sequence - 1].has_ended;
        parts.push_back(part);
      }
      if (is_known) break;
    }
    in_flight_.clear();
    for (Member& member : members_) {
      member.submitted = member.computed = 0;
      member.is_running = false;
    }
    const auto culprit = suspects_.take_death(num_deaths, parts);
    if (!culprit) return;
    culprits.push_back(*culprit);
    end(members_[*culprit - 1]);
  }

  std::mt19937_64 random_;
  std::uint32_t max_in_flight_ = 1, max_running_ = 1;
  Suspects suspects_;
  std::vector<Member> members_;
  std::deque<Flight> in_flight_;
  std::set<Suspects::Death> unforgiven_;
};

TEST_CASE("suspects: whoever kills is found in two deaths, and nobody else is taken for it") {
  std::uint32_t most_poisoned = 0;
  for (std::uint64_t seed = 1; seed <= test::fewer_if_sanitized(3000); ++seed) {
    CAPTURE(seed);
    SmallServer server(seed);
    server.run();
    for (const auto culprit : server.culprits) REQUIRE(server.is_poisoned(culprit));
    REQUIRE(server.num_deaths <= 2 * server.num_poisoned);
    most_poisoned = std::max(most_poisoned, server.num_poisoned);
  }
  CHECK(most_poisoned > 4);
}

// So the default of three restarts is enough, however many poisonous requests come.
TEST_CASE("suspects: while one who is innocent is answered, three deaths at most are not forgiven") {
  std::size_t most_unforgiven = 0;
  std::uint32_t most_deaths = 0;
  for (std::uint64_t seed = 1; seed <= test::fewer_if_sanitized(3000); ++seed) {
    CAPTURE(seed);
    SmallServer server(seed, true);
    server.run();
    most_unforgiven = std::max(most_unforgiven, server.most_unforgiven);
    most_deaths = std::max(most_deaths, server.num_deaths);
  }
  CHECK(most_unforgiven <= 3);
  CHECK(most_deaths > 8);
}

}  // namespace
}  // namespace troupe
