// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/waiting_line.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/sanitizers.hpp"

namespace troupe {
namespace {

using Arrivals = std::vector<std::uint64_t>;

bool any(std::uint64_t) { return true; }

Arrivals serve_all(WaitingLine& line) {
  Arrivals served;
  while (const auto next = line.next(any)) {
    served.push_back(*next);
    line.start(*next);
  }
  return served;
}

WaitingLine line_of(AdmissionOrder order, double most_wait, const std::vector<std::uint64_t>& works) {
  WaitingLine line(order, most_wait);
  for (std::size_t i = 0; i < works.size(); ++i) line.wait(i + 1, works[i]);
  return line;
}

TEST_CASE("waiting line: the longest or the shortest goes first where the bound allows") {
  WaitingLine longest = line_of(AdmissionOrder::kLongestFirst, 100, {10, 30, 20});
  CHECK(serve_all(longest) == Arrivals{2, 3, 1});
  WaitingLine shortest = line_of(AdmissionOrder::kShortestFirst, 100, {30, 10, 20});
  CHECK(serve_all(shortest) == Arrivals{2, 3, 1});
}

TEST_CASE("waiting line: equal works go in order of arrival") {
  WaitingLine line = line_of(AdmissionOrder::kShortestFirst, 100, {5, 5, 5});
  CHECK(serve_all(line) == Arrivals{1, 2, 3});
}

TEST_CASE("waiting line: with a bound of 1 nothing is overtaken") {
  WaitingLine line = line_of(AdmissionOrder::kShortestFirst, 1, {30, 20, 10});
  CHECK(serve_all(line) == Arrivals{1, 2, 3});
}

TEST_CASE("waiting line: one that does not fit is passed, until its allowance is spent") {
  WaitingLine line = line_of(AdmissionOrder::kLongestFirst, 2, {30, 20, 20});
  const auto fits = [](std::uint64_t request) { return request != 1; };
  REQUIRE(line.next(fits) == 2);
  line.start(2);
  CHECK_FALSE(line.next(fits));  // 10 of its allowance of 30 are left
  CHECK(line.next(any) == 1);
}

TEST_CASE("waiting line: a work that is known better changes the order") {
  WaitingLine line = line_of(AdmissionOrder::kShortestFirst, 100, {10, 20});
  line.set_work(2, 5);
  line.set_work(7, 1);  // not there
  CHECK(serve_all(line) == Arrivals{2, 1});
}

TEST_CASE("waiting line: what turns out smaller in front lets fewer pass those behind it") {
  WaitingLine line = line_of(AdmissionOrder::kShortestFirst, 2, {1000, 10, 5, 5, 5, 5, 5});
  line.set_work(1, 10);
  line.start(1);
  const auto fits = [](std::uint64_t request) { return request != 2; };
  for (std::uint64_t request = 3; request <= 6; ++request) {  // 20, as was in front and is its own
    REQUIRE(line.next(fits) == request);
    line.start(request);
  }
  CHECK_FALSE(line.next(fits));
  CHECK(line.next(any) == 2);
}

TEST_CASE("waiting line: what turns out larger in front lets more pass") {
  WaitingLine line = line_of(AdmissionOrder::kShortestFirst, 2, {1, 10, 30, 30});
  line.set_work(1, 1000);
  line.start(1);
  const auto fits = [](std::uint64_t request) { return request != 2; };
  CHECK(line.next(fits) == 3);
}

TEST_CASE("waiting line: one that leaves from in front has not been in front") {
  WaitingLine line = line_of(AdmissionOrder::kShortestFirst, 2, {1000, 10, 8, 8});
  line.withdraw(1);
  const auto fits = [](std::uint64_t request) { return request != 2; };
  REQUIRE(line.next(fits) == 3);
  line.start(3);
  CHECK_FALSE(line.next(fits));
}

// What passes the second request, which does not fit, in order of arrival.
std::size_t num_passing(WaitingLine& line) {
  const auto fits = [](std::uint64_t request) { return request != 2; };
  std::size_t number = 0;
  for (; const auto next = line.next(fits); ++number) line.start(*next);
  return number;
}

TEST_CASE("waiting line: what has started from in front and turns out smaller lets fewer pass") {
  const std::vector<std::uint64_t> works = {1000, 10, 5, 5, 5, 5, 5, 5, 5};
  WaitingLine line = line_of(AdmissionOrder::kShortestFirst, 2, works);
  line.start(1);
  SUBCASE("while it runs") { line.set_work(1, 10); }
  SUBCASE("at its end") { line.end(1, 10); }
  CHECK(num_passing(line) == 4);  // 20, as was in front and is its own
}

TEST_CASE("waiting line: what has passed and turns out larger lets fewer pass after it") {
  WaitingLine line = line_of(AdmissionOrder::kShortestFirst, 2, {10, 10, 5, 5, 5});
  line.start(1);
  line.start(3);
  line.end(3, 18);
  CHECK(num_passing(line) == 0);
  line.set_work(3, 1);  // it is forgotten
  CHECK(num_passing(line) == 0);
  CHECK(line.next(any) == 2);
}

TEST_CASE("waiting line: what began before a request waited is none of its matter") {
  WaitingLine line = line_of(AdmissionOrder::kShortestFirst, 2, {10});
  line.start(1);
  line.wait(2, 10);
  for (std::uint64_t request = 3; request <= 6; ++request) line.wait(request, 5);
  line.set_work(1, 1000);
  CHECK(num_passing(line) == 2);
}

TEST_CASE("waiting line: one in front that starts again and again has been in front once") {
  WaitingLine line = line_of(AdmissionOrder::kShortestFirst, 2, {10, 10, 5, 5, 5, 5, 5, 5});
  for (int i = 0; i < 200; ++i) {
    line.start(1);
    line.wait(1, 10);  // its client read on, or it was preempted
  }
  line.start(1);
  CHECK(num_passing(line) == 4);
}

TEST_CASE("waiting line: one that has run and leaves while it waits again counts for what it has done") {
  WaitingLine line = line_of(AdmissionOrder::kShortestFirst, 2, {1000, 10, 5, 5, 5, 5, 5, 5});
  line.start(1);
  line.wait(1, 1000);
  line.withdraw(1);
  line.end(1, 10);
  CHECK(num_passing(line) == 4);
}

TEST_CASE("waiting line: one that passes again and again has passed each time") {
  WaitingLine line = line_of(AdmissionOrder::kShortestFirst, 2, {10, 5});
  std::size_t num_passes = 0;
  for (; num_passes < 1000 && line.next(any) == 2; ++num_passes) {
    line.start(2);
    line.wait(2, 5);  // it was preempted
  }
  CHECK(num_passes == 2);
  CHECK(line.next(any) == 1);
}

TEST_CASE("waiting line: one that has passed, waits again and leaves has passed with what it has done") {
  WaitingLine line = line_of(AdmissionOrder::kShortestFirst, 2, {1, 10, 5, 8, 8, 8});
  line.start(1);
  line.start(3);
  line.wait(3, 1000);
  line.withdraw(3);
  line.end(3, 2);
  CHECK(num_passing(line) == 1);  // 11, of which 2 are gone
}

// Random traffic over a line, and what it promises, counted from the starts that there were.
class Traffic {
 public:
  Traffic(AdmissionOrder order, double most_wait, std::uint64_t seed)
      : line_(order, most_wait), random_(seed) {}

  void arrive() {
    requests_.push_back({.work = 1 + draw(10) * draw(10) * draw(10)});  // of all sizes: few are long
    wait(requests_.size() - 1);
  }
  // By up to 1,000 times, up or down; it waits, runs, or has been withdrawn.
  void revise() {
    const auto one = draw(2) == 0 || gone_.empty() ? any_of(waiting_) : any_of(gone_);
    const std::uint64_t factor = 1 + draw(1000);
    std::uint64_t& work = requests_[one].work;
    work = draw(2) == 0 && work < 1'000'000 ? work * factor : std::max<std::uint64_t>(1, work / factor);
    line_.set_work(one, work);
    if (!requests_[one].waits) revise_start(one);
  }
  void withdraw() {
    const auto one = any_of(waiting_);
    line_.withdraw(one);
    leave(one);
    revise_start(one);
  }
  // It was withdrawn, or preempted, and is back with its old arrival.
  void come_back() {
    const auto one = any_of(gone_);
    gone_.erase(one);
    wait(one);
  }
  void end() {
    const auto one = any_of(gone_);
    requests_[one].work = 1 + draw(requests_[one].work);
    line_.end(one, requests_[one].work);
    revise_start(one);
    gone_.erase(one);
  }
  void start_next() {
    const std::uint64_t mask = random_();
    const auto next = line_.next([&](std::uint64_t request) { return ((mask >> (request % 64)) & 3U) != 0; });
    if (!next) return;
    line_.start(*next);
    leave(*next);
    requests_[*next].last_start = starts_.size();
    starts_.push_back({.request = *next, .work = requests_[*next].work});
    std::uint64_t in_front = 0;  // that waits
    for (const std::uint64_t request : waiting_) {
      if (request > *next) break;
      in_front += requests_[request].work;
      judge(request, in_front);
    }
  }
  bool has_gone() const { return !gone_.empty(); }
  bool has_waiting() const { return !waiting_.empty(); }
  std::uint64_t draw(std::uint64_t most) { return random_() % most; }
  // What had overtaken one that waits when another one did, over its fair share at that moment.
  double worst() const { return worst_; }

 private:
  struct Request {
    std::uint64_t work = 0;
    std::size_t since = 0;  // starts before it began to wait
    bool waits = false;
    std::optional<std::size_t> last_start = {};
    std::size_t counted_for = 0;  // the last request that was judged
  };

  struct Start {
    std::uint64_t request = 0;
    std::uint64_t work = 0;  // as known when its request came back, or now
  };

  void revise_start(std::uint64_t one) {
    if (const auto last = requests_[one].last_start) starts_[*last].work = requests_[one].work;
  }
  void wait(std::uint64_t one) {
    requests_[one].since = starts_.size();
    requests_[one].waits = true;
    waiting_.insert(one);
    line_.wait(one, requests_[one].work);
  }
  void leave(std::uint64_t one) {
    requests_[one].waits = false;
    waiting_.erase(one);
    gone_.insert(one);
  }
  void judge(std::uint64_t one, std::uint64_t in_front) {
    std::uint64_t overtaken_by = 0, from_front = 0;
    num_judged_ += 1;
    for (std::size_t i = requests_[one].since; i < starts_.size(); ++i) {
      Request& started = requests_[starts_[i].request];
      if (starts_[i].request > one) {
        overtaken_by += starts_[i].work;
      } else if (!started.waits && std::exchange(started.counted_for, num_judged_) != num_judged_) {
        from_front += started.work;
      }
    }
    const auto share = static_cast<double>(from_front + in_front);
    worst_ = std::max(worst_, static_cast<double>(overtaken_by) / share);
  }
  std::uint64_t any_of(const std::set<std::uint64_t>& requests) {
    return *std::next(requests.begin(), static_cast<std::ptrdiff_t>(draw(requests.size())));
  }

  WaitingLine line_;
  std::mt19937_64 random_;
  std::vector<Request> requests_;  // by arrival
  std::set<std::uint64_t> waiting_;
  std::set<std::uint64_t> gone_;  // they run, or were withdrawn
  std::vector<Start> starts_;
  std::size_t num_judged_ = 0;
  double worst_ = 0;
};

// num_changes: of 100 events, how many are a revision, a withdrawal, a return or an end.
double worst_of(Traffic traffic, std::uint64_t num_changes) {
  for (int i = 0; i < 3000; ++i) {
    if (traffic.has_waiting() && traffic.draw(100) < num_changes) {
      const std::uint64_t kind = traffic.draw(5);
      if (kind == 0) traffic.withdraw();
      if (kind == 1 && traffic.has_gone()) traffic.come_back();
      if (kind == 2 && traffic.has_gone()) traffic.end();
      if (kind >= 3) traffic.revise();
    } else if (traffic.draw(100) < 52) {
      traffic.arrive();
    } else {
      traffic.start_next();
    }
  }
  return traffic.worst();
}

TEST_CASE("waiting line: nothing is overtaken by more than k - 1 times its fair share") {
  for (const auto order : {AdmissionOrder::kLongestFirst, AdmissionOrder::kShortestFirst})
    for (const double most_wait : {1.0, 2.0, 4.0})
      for (const std::uint64_t num_changes : {0U, 5U, 40U})
        for (std::uint64_t seed = 1; seed <= test::fewer_if_sanitized(5); ++seed) {
          CAPTURE(most_wait);
          CAPTURE(num_changes);
          CAPTURE(seed);
          const double worst = worst_of(Traffic(order, most_wait, seed), num_changes);
          CHECK(worst <= most_wait - 1);
          CHECK(worst >= (most_wait - 1) * 0.9);  // what may overtake does
        }
}

}  // namespace
}  // namespace troupe
