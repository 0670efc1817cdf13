// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/fair_queue.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace troupe {
namespace {

using Arrivals = std::vector<std::uint64_t>;

bool any(std::uint64_t) { return true; }

// Requests by name of their flow; arrivals count from 1.
struct Queue {
  FairQueue flows;
  std::uint64_t last_arrival = 0;
  std::map<std::uint64_t, FairQueue::FlowId> flow_of;

  std::uint64_t arrive(const std::string& name) {
    flow_of[++last_arrival] = flows.join(name);
    flows.wait(flow_of[last_arrival], last_arrival);
    return last_arrival;
  }
  void start(std::uint64_t request, std::uint64_t cost) {
    flows.start(flow_of[request], request);
    flows.charge(flow_of[request], cost);
  }
  void end(std::uint64_t request) {
    flows.stop(flow_of[request]);
    flows.leave(flow_of[request]);
  }
  // Who is served, if each costs so much and ends at once.
  Arrivals serve(std::uint64_t cost, std::size_t num_requests) {
    Arrivals served;
    while (served.size() < num_requests) {
      const auto next = flows.next(any);
      if (!next) break;
      served.push_back(*next);
      start(*next, cost);
      end(*next);
    }
    return served;
  }
};

TEST_CASE("fair queue: requests of one flow are served in order of arrival") {
  Queue queue;
  for (int i = 0; i < 5; ++i) queue.arrive("a");
  CHECK(queue.flows.in_turn() == Arrivals{1, 2, 3, 4, 5});
  CHECK(queue.serve(10, 5) == Arrivals{1, 2, 3, 4, 5});
}

TEST_CASE("fair queue: a flow of many and a flow of few take turns") {
  Queue queue;
  for (int i = 0; i < 100; ++i) queue.arrive("a");
  for (int i = 0; i < 3; ++i) queue.arrive("b");
  CHECK(queue.serve(10, 7) == Arrivals{1, 101, 2, 102, 3, 103, 4});
}

TEST_CASE("fair queue: turns are weighed by what they cost") {
  Queue queue;
  for (int i = 0; i < 10; ++i) queue.arrive("a");
  for (int i = 0; i < 10; ++i) queue.arrive("b");
  Arrivals served;
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t next = *queue.flows.next(any);
    served.push_back(next);
    queue.start(next, next <= 10 ? 30 : 10);
    queue.end(next);
  }
  CHECK(served == Arrivals{1, 11, 12, 13, 2, 14, 15, 16});
}

TEST_CASE("fair queue: what runs counts: its tokens put off its flow's next turn") {
  Queue queue;
  queue.arrive("a");
  queue.arrive("a");
  queue.arrive("b");
  queue.arrive("b");
  queue.start(1, 10);
  queue.start(3, 10);
  queue.flows.charge(queue.flow_of[3], 2);
  CHECK(queue.flows.next(any) == 2);
  queue.flows.charge(queue.flow_of[1], 4);
  CHECK(queue.flows.next(any) == 4);
}

TEST_CASE("fair queue: of equal counters the flow goes first that has fewer running") {
  Queue queue;
  queue.arrive("a");
  queue.start(1, 0);
  queue.arrive("a");
  queue.arrive("b");
  CHECK(queue.flows.next(any) == 3);
  CHECK(queue.flows.in_turn() == Arrivals{3, 2});
}

TEST_CASE("fair queue: idleness earns no credit") {
  Queue queue;
  for (int i = 0; i < 100; ++i) queue.arrive("a");
  queue.arrive("b");
  queue.serve(10, 50);
  for (int i = 0; i < 10; ++i) queue.arrive("b");  // had nothing for forty turns
  const Arrivals served = queue.serve(10, 10);
  CHECK(std::count_if(served.begin(), served.end(), [](auto r) { return r > 100; }) == 5);
}

TEST_CASE("fair queue: a flow that leaves in debt and comes back still owes") {
  Queue queue;
  queue.arrive("a");
  queue.arrive("b");
  queue.arrive("b");
  queue.arrive("b");
  queue.start(1, 1000);
  queue.end(1);
  CHECK(queue.flows.num_flows_known() == 2);  // a is not forgotten
  CHECK(queue.arrive("a") == 5);
  CHECK(queue.serve(100, 4) == Arrivals{2, 3, 4, 5});
}

TEST_CASE("fair queue: a debt is forgotten once the others have caught up") {
  Queue queue;
  queue.arrive("a");
  for (int i = 0; i < 12; ++i) queue.arrive("b");
  queue.start(1, 100);
  queue.end(1);
  queue.serve(10, 9);
  CHECK(queue.flows.num_flows_known() == 2);
  queue.serve(10, 2);
  CHECK(queue.flows.num_flows_known() == 1);
}

TEST_CASE("fair queue: when nothing waits all start again as equals") {
  Queue queue;
  queue.arrive("a");
  queue.start(1, 1'000'000);
  queue.arrive("a");
  queue.arrive("b");
  CHECK(queue.serve(10, 2) == Arrivals{3, 2});
  queue.end(1);
  CHECK(queue.flows.num_flows_known() == 0);
}

TEST_CASE("fair queue: what may not start lets others of its flow, and other flows, pass") {
  Queue queue;
  for (const char* name : {"a", "a", "b"}) queue.arrive(name);
  CHECK(queue.flows.next([](auto r) { return r != 1; }) == 2);
  CHECK(queue.flows.next([](auto r) { return r > 2; }) == 3);
  CHECK_FALSE(queue.flows.next([](auto) { return false; }).has_value());
}

TEST_CASE("fair queue: by length, what does not fit lets others of its flow pass, but no other flow") {
  FairQueue flows(AdmissionOrder::kLongestFirst, 10);
  const auto first = flows.join("a"), second = flows.join("b");
  flows.wait(first, 1, 100);
  flows.wait(first, 2, 50);
  flows.wait(second, 3, 10);
  flows.charge(second, 1);
  const auto fits = [](std::uint64_t largest) { return [=](auto request) { return request >= largest; }; };
  CHECK(flows.next(any, fits(1)) == 1);
  CHECK(flows.next(any, fits(2)) == 2);
  CHECK(flows.next(any, fits(3)) == 1);  // though 3 would fit, for ever
  CHECK(flows.next([](auto request) { return request == 3; }, fits(1)) == 3);
}

TEST_CASE("fair queue: a request for which others gave way is next until it starts, whatever is charged") {
  Queue queue;
  for (const char* name : {"a", "a", "b"}) queue.arrive(name);
  queue.flows.promise(3);
  queue.flows.charge(queue.flow_of[3], 1000);
  CHECK(queue.flows.next(any) == 3);
  CHECK(queue.flows.next([](auto r) { return r != 3; }) == 1);
  queue.start(3, 0);
  queue.arrive("b");
  CHECK(queue.flows.next(any) == 1);
  queue.flows.promise(4);
  queue.flows.withdraw(queue.flow_of[4], 4);
  CHECK(queue.flows.next(any) == 1);
}

TEST_CASE("fair queue: the newest request of the largest flow makes room") {
  Queue queue;
  for (const char* name : {"a", "b", "b", "c", "c", "c"}) queue.arrive(name);
  CHECK(queue.flows.choose_displaced("d", any) == 6);
  CHECK(queue.flows.choose_displaced("d", [](auto r) { return r != 6; }) == 5);
  CHECK(queue.flows.choose_displaced("d", [](auto r) { return r < 4; }) == 3);
  CHECK(queue.flows.choose_displaced("a", any) == 6);
  CHECK_FALSE(queue.flows.choose_displaced("b", any).has_value());  // it would have more then
  CHECK_FALSE(queue.flows.choose_displaced("c", any).has_value());
}

TEST_CASE("fair queue: running requests count when room is made") {
  Queue queue;
  for (int i = 0; i < 3; ++i) queue.arrive("a");
  queue.start(1, 0);
  queue.start(2, 0);
  CHECK(queue.flows.choose_displaced("b", any) == 3);
}

TEST_CASE("fair queue: flows that keep coming and owing take bounded memory") {
  Queue queue;
  queue.arrive("patient");
  queue.arrive("patient");
  for (std::size_t i = 0; i < 3 * FairQueue::kMostDebtors; ++i) {
    const auto request = queue.arrive("flow " + std::to_string(i));
    queue.start(request, 100 + i);
    queue.end(request);
  }
  CHECK(queue.flows.num_flows_known() == FairQueue::kMostDebtors + 1);
}

// The rules again, over plain lists.
struct PlainQueue {
  struct Flow {
    std::string name;
    Arrivals waiting;
    std::uint32_t num_running = 0, num_requests = 0;
    std::uint64_t served = 0;
  };
  std::vector<Flow> flows;

  Flow& find(const std::string& name) {
    for (Flow& flow : flows)
      if (flow.name == name) return flow;
    flows.push_back({.name = name, .waiting = {}});
    return flows.back();
  }
  std::optional<std::uint64_t> floor() const {
    std::optional<std::uint64_t> least;
    for (const Flow& flow : flows)
      if (!flow.waiting.empty() && (!least || flow.served < *least)) least = flow.served;
    return least;
  }
  void wait(const std::string& name, std::uint64_t request) {
    Flow& flow = find(name);
    const auto least = floor();
    if (!least)
      for (Flow& other : flows) other.served = 0;
    else if (flow.waiting.empty())
      flow.served = std::max(flow.served, *least);
    flow.waiting.push_back(request);
    std::sort(flow.waiting.begin(), flow.waiting.end());
  }
  std::optional<std::uint64_t> next() const {
    const Flow* best = nullptr;
    for (const Flow& flow : flows) {
      if (flow.waiting.empty()) continue;
      const auto rank = [](const Flow& f) { return std::tuple(f.served, f.num_running, f.waiting.front()); };
      if (!best || rank(flow) < rank(*best)) best = &flow;
    }
    if (!best) return std::nullopt;
    return best->waiting.front();
  }
};

// Requests come, run, are preempted, end and hang up at random.
void play(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](std::uint64_t below) { return random() % below; };
  struct Request {
    std::string name;
    bool is_running = false;
  };
  Queue queue;
  PlainQueue plain;
  std::map<std::uint64_t, Request> requests;
  const std::uint64_t num_flows = 1 + draw(5);
  for (int step = 0; step < 300; ++step) {
    REQUIRE(queue.flows.next(any) == plain.next());
    std::size_t num_waiting = 0, num_flows_waiting = 0, num_flows_active = 0;
    for (const auto& flow : plain.flows) {
      num_waiting += flow.waiting.size();
      num_flows_waiting += flow.waiting.empty() ? 0 : 1;
      num_flows_active += flow.waiting.empty() && flow.num_running == 0 ? 0 : 1;
    }
    REQUIRE(queue.flows.num_waiting() == num_waiting);
    REQUIRE(queue.flows.num_flows_waiting() == num_flows_waiting);
    REQUIRE(queue.flows.num_flows_active() == num_flows_active);
    if (requests.empty() || draw(3) == 0) {
      const std::string name(1, static_cast<char>('a' + draw(num_flows)));
      const auto request = queue.arrive(name);
      plain.wait(name, request);
      plain.find(name).num_requests += 1;
      requests[request] = {.name = name};
      continue;
    }
    auto chosen = requests.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(draw(requests.size())));
    if (!chosen->second.is_running && draw(4) > 0) chosen = requests.find(*plain.next());
    auto& [id, request] = *chosen;
    auto& flow = plain.find(request.name);
    const auto flow_id = queue.flow_of[id];
    if (!request.is_running && draw(6) == 0) {  // hangs up
      queue.flows.withdraw(flow_id, id);
      queue.flows.leave(flow_id);
      std::erase(flow.waiting, id);
      requests.erase(chosen);
    } else if (!request.is_running) {
      const std::uint64_t cost = draw(50);
      queue.start(id, cost);
      std::erase(flow.waiting, id);
      flow.served += cost;
      flow.num_running += 1;
      request.is_running = true;
    } else if (draw(3) > 0) {  // draws a token
      queue.flows.charge(flow_id, FairQueue::kDrawnTokenCost);
      flow.served += FairQueue::kDrawnTokenCost;
    } else if (draw(2) == 0) {  // is preempted
      queue.flows.stop(flow_id);
      queue.flows.wait(flow_id, id);
      flow.num_running -= 1;
      plain.wait(request.name, id);
      request.is_running = false;
    } else {
      queue.end(id);
      flow.num_running -= 1;
      requests.erase(chosen);
    }
  }
  for (const auto& [id, request] : requests) {
    if (request.is_running)
      queue.flows.stop(queue.flow_of[id]);
    else
      queue.flows.withdraw(queue.flow_of[id], id);
    queue.flows.leave(queue.flow_of[id]);
  }
  REQUIRE(queue.flows.num_flows_known() == 0);  // nothing waits: nothing is owed
  REQUIRE(queue.flows.num_flows_active() == 0);
}

TEST_CASE("fair queue: in random traffic the next is always the one that the rules say") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    play(seed);
  }
}

TEST_CASE("fair queue: of flows that always wait none gets ahead by more than the bound") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const std::size_t num_flows = 2 + random() % 4, num_slots = 1 + random() % 8;
    const std::uint64_t most_prompt = 1 + random() % 200, most_drawn = 1 + random() % 50;
    Queue queue;
    std::vector<std::string> names;
    for (std::size_t f = 0; f < num_flows; ++f) names.push_back("flow " + std::to_string(f));
    std::map<std::uint64_t, std::uint64_t> left;  // tokens to draw, of those that run
    std::vector<std::uint64_t> served(num_flows, 0);
    std::map<std::uint64_t, std::size_t> flow_of;
    std::vector<std::size_t> num_waiting(num_flows, 0);
    for (int iteration = 0; iteration < 400; ++iteration) {
      for (std::size_t f = 0; f < num_flows; ++f)  // some with many, some with just enough
        for (; num_waiting[f] < 1 + (f == 0 ? 50 : num_slots); ++num_waiting[f])
          flow_of[queue.arrive(names[f])] = f;
      while (left.size() < num_slots) {
        const auto next = *queue.flows.next(any);
        const std::uint64_t prompt = 1 + random() % most_prompt;
        queue.start(next, prompt * FairQueue::kPromptTokenCost);
        served[flow_of[next]] += prompt * FairQueue::kPromptTokenCost;
        num_waiting[flow_of[next]] -= 1;
        left[next] = 1 + random() % most_drawn;
      }
      for (auto running = left.begin(); running != left.end();) {
        queue.flows.charge(queue.flow_of[running->first], FairQueue::kDrawnTokenCost);
        served[flow_of[running->first]] += FairQueue::kDrawnTokenCost;
        if (--running->second > 0) {
          ++running;
          continue;
        }
        queue.end(running->first);
        running = left.erase(running);
      }
      const auto [least, most] = std::minmax_element(served.begin(), served.end());
      const auto bound =
          most_prompt * FairQueue::kPromptTokenCost + num_slots * most_drawn * FairQueue::kDrawnTokenCost;
      REQUIRE(*most - *least <= bound);
    }
  }
}

TEST_CASE("fair queue: room is made at the cost of the largest flow, and only for smaller ones") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const std::size_t limit = 1 + random() % 20;
    Queue queue;
    std::map<std::string, std::size_t> num_waiting;
    std::map<std::uint64_t, std::string> name_of;
    for (int i = 0; i < 300; ++i) {
      const std::string name(1, static_cast<char>('a' + random() % 6));
      if (queue.flows.num_waiting() == limit) {
        const auto largest =
            std::max_element(num_waiting.begin(), num_waiting.end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; });
        const auto displaced = queue.flows.choose_displaced(name, any);
        REQUIRE(displaced.has_value() == (num_waiting[name] + 1 < largest->second));
        if (!displaced) continue;
        const auto flow = queue.flow_of[*displaced];
        REQUIRE(num_waiting[name_of[*displaced]] == largest->second);
        num_waiting[name_of[*displaced]] -= 1;
        queue.flows.withdraw(flow, *displaced);
        queue.flows.leave(flow);
      }
      name_of[queue.arrive(name)] = name;
      num_waiting[name] += 1;
    }
  }
}

}  // namespace
}  // namespace troupe
