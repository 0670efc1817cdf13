// SPDX-License-Identifier: Apache-2.0
#include "policy/placing/dispatch.hpp"

#include <array>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {
namespace {

constexpr std::array<std::pair<std::string_view, DispatchKind>, 4> kNames = {{
    {"round-robin", DispatchKind::kRoundRobin},
    {"least-work", DispatchKind::kLeastWork},
    {"shortest-queue", DispatchKind::kShortestQueue},
    {"power-of-two", DispatchKind::kPowerOfTwo},
}};

class RoundRobin final : public DispatchPolicy {
 public:
  std::size_t choose(const DispatchQuestion& /*question*/, std::span<const WorkerLoad> workers) override {
    const std::size_t chosen = next_ % workers.size();
    next_ = chosen + 1;
    return chosen;
  }

 private:
  std::size_t next_ = 0;
};

std::uint64_t outstanding_tokens(const WorkerLoad& load) { return load.outstanding_tokens; }
std::uint64_t num_requests(const WorkerLoad& load) { return load.num_requests(); }

// The least by a measure, looked for from behind the one chosen last.
template <std::uint64_t (*measure)(const WorkerLoad&)>
class Least final : public DispatchPolicy {
 public:
  std::size_t choose(const DispatchQuestion& /*question*/, std::span<const WorkerLoad> workers) override {
    std::size_t best = next_ % workers.size();
    for (std::size_t i = best + 1; i < workers.size(); ++i)
      if (measure(workers[i]) < measure(workers[best])) best = i;
    const std::size_t begin = next_ % workers.size();
    for (std::size_t i = 0; i < begin; ++i)
      if (measure(workers[i]) < measure(workers[best])) best = i;
    next_ = best + 1;
    return best;
  }

 private:
  std::size_t next_ = 0;
};

// Mitzenmacher: almost as even as looking at all, for the price of two.
class PowerOfTwo final : public DispatchPolicy {
 public:
  explicit PowerOfTwo(std::uint64_t seed) : random_(seed) {}

  std::size_t choose(const DispatchQuestion& /*question*/, std::span<const WorkerLoad> workers) override {
    const std::size_t first = random_() % workers.size();
    if (workers.size() == 1) return first;
    const std::size_t second = (first + 1 + random_() % (workers.size() - 1)) % workers.size();
    return num_requests(workers[second]) < num_requests(workers[first]) ? second : first;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace

std::string_view name_of(DispatchKind kind) {
  for (const auto& [name, known] : kNames)
    if (known == kind) return name;
  return "unknown";
}

DispatchKind dispatch_from_name(std::string_view name) {
  std::string known;
  for (const auto& [candidate, kind] : kNames) {
    if (candidate == name) return kind;
    known += (known.empty() ? "" : ", ") + std::string(candidate);
  }
  throw std::runtime_error("expected a dispatch policy (" + known + "), got '" + std::string(name) + "'");
}

std::unique_ptr<DispatchPolicy> make_dispatch_policy(DispatchKind kind, std::uint64_t seed) {
  switch (kind) {
    case DispatchKind::kRoundRobin: return std::make_unique<RoundRobin>();
    case DispatchKind::kLeastWork: return std::make_unique<Least<outstanding_tokens>>();
    case DispatchKind::kShortestQueue: return std::make_unique<Least<num_requests>>();
    case DispatchKind::kPowerOfTwo: return std::make_unique<PowerOfTwo>(seed);
  }
  return std::make_unique<RoundRobin>();
}

}  // namespace troupe
