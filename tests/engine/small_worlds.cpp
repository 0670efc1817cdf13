// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/small_worlds.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

namespace troupe {
namespace {

using StateIndex = std::uint32_t;
constexpr StateIndex kNoState = UINT32_MAX;

class Explorer {
 public:
  Explorer(const SmallWorldSettings& settings, const ExploreLimits& limits)
      : limits_(limits), first_(settings) {}

  Exploration run() {
    note(first_, kNoState, {});
    for (StateIndex index = 0; index < states_.size() && !has_found(); ++index) {
      if (states_.size() >= limits_.max_states) return finish(false);
      expand(index);
    }
    return finish(true);
  }

 private:
  struct State {
    StateIndex parent = kNoState;
    SmallAction action;
  };
  struct Visited {  // on the way to the state that was last made again
    StateIndex index = kNoState;
    SmallWorld world;
  };

  bool has_found() const { return !result_.violation.empty(); }

  void expand(StateIndex index) {
    const SmallWorld world = make_again(index);
    for (const SmallAction action : world.actions()) {
      SmallWorld next = world;
      next.act(action);
      result_.num_steps += 1;
      if (!next.violation().empty()) return blame(index, action, next.violation());
      const std::uint64_t number = next.fingerprint();
      const auto known = index_of_.find(number);
      if (known == index_of_.end()) {
        note(next, index, action, number);
      } else if (++result_.num_meetings % limits_.compare_every == 0) {
        compare(next, known->second, index, action);
      }
      if (has_found()) return;
    }
  }

  void note(const SmallWorld& world, StateIndex parent, SmallAction action) {
    note(world, parent, action, world.fingerprint());
  }

  void note(const SmallWorld& world, StateIndex parent, SmallAction action, std::uint64_t number) {
    index_of_.emplace(number, static_cast<StateIndex>(states_.size()));
    states_.push_back({.parent = parent, .action = action});
    result_.num_ended += world.has_ended() ? 1 : 0;
    if (limits_.drain_every == 0 || states_.size() % limits_.drain_every != 0) return;
    SmallWorld drained = world;
    const auto last_actions = drained.drain();
    result_.num_drained += 1;
    if (drained.violation().empty()) return;
    blame(parent, action, drained.violation());
    result_.path.insert(result_.path.end(), last_actions.begin(), last_actions.end());
  }

  // Two worlds of one fingerprint must have the same future.
  void compare(const SmallWorld& world, StateIndex known, StateIndex parent, SmallAction action) {
    const SmallWorld other = SmallWorld(make_again_from_start(known));
    result_.num_compared += 1;
    bool is_alike = world.actions() == other.actions();
    for (const SmallAction next : world.actions()) {
      if (!is_alike) break;
      SmallWorld a = world, b = other;
      a.act(next);
      b.act(next);
      is_alike = a.fingerprint() == b.fingerprint() && a.violation() == b.violation();
      if (!is_alike)
        blame(parent, action,
              "states of one fingerprint part at: " + to_string(next) +
                  "; the other one:" + lines(path_to(known)));
    }
    if (!is_alike && !has_found()) blame(parent, action, "states of one fingerprint differ");
  }

  std::vector<StateIndex> line_of(StateIndex index) const {
    std::vector<StateIndex> line;
    for (; index != kNoState; index = states_[index].parent) line.push_back(index);
    std::reverse(line.begin(), line.end());
    return line;
  }

  // Neighbours in the order of the search have most of their way in common.
  const SmallWorld& make_again(StateIndex index) {
    const std::vector<StateIndex> line = line_of(index);
    std::size_t num_shared = 0;
    while (num_shared < way_.size() && num_shared < line.size() && way_[num_shared].index == line[num_shared])
      ++num_shared;
    way_.erase(way_.begin() + static_cast<std::ptrdiff_t>(num_shared), way_.end());
    for (std::size_t i = num_shared; i < line.size(); ++i) {
      SmallWorld world = i == 0 ? first_ : way_.back().world;
      if (i > 0) world.act(states_[line[i]].action);
      way_.push_back({.index = line[i], .world = std::move(world)});
    }
    return way_.back().world;
  }

  SmallWorld make_again_from_start(StateIndex index) const {
    SmallWorld world = first_;
    for (const SmallAction action : path_to(index)) world.act(action);
    return world;
  }

  std::vector<SmallAction> path_to(StateIndex index) const {
    std::vector<SmallAction> path;
    for (const StateIndex at : line_of(index))
      if (at != 0) path.push_back(states_[at].action);
    return path;
  }

  static std::string lines(const std::vector<SmallAction>& path) {
    std::string text;
    for (std::size_t i = 0; i < path.size(); ++i)
      text += "\n  " + std::to_string(i + 1) + ". " + to_string(path[i]);
    return text;
  }

  void blame(StateIndex parent, SmallAction action, const std::string& violation) {
    result_.violation = violation;
    if (parent == kNoState) return;
    result_.path = path_to(parent);
    result_.path.push_back(action);
  }

  Exploration finish(bool is_whole) {
    result_.num_states = states_.size();
    result_.is_whole = is_whole && !has_found();
    result_.depth = line_of(static_cast<StateIndex>(states_.size() - 1)).size() - 1;
    return std::move(result_);
  }

  ExploreLimits limits_;
  SmallWorld first_;
  std::vector<State> states_;                               // in the order in which they were found
  std::unordered_map<std::uint64_t, StateIndex> index_of_;  // by fingerprint
  std::vector<Visited> way_;
  Exploration result_;
};

}  // namespace

std::string Exploration::report() const {
  std::string text = std::to_string(num_states) + " states" + (is_whole ? ", all there are" : "") + ", " +
                     std::to_string(num_steps) + " steps, depth " + std::to_string(depth) + ", " +
                     std::to_string(num_ended) + " states in which all has ended, " +
                     std::to_string(num_drained) + " run to their end, " + std::to_string(num_compared) +
                     " of " + std::to_string(num_meetings) + " meetings compared";
  if (violation.empty()) return text;
  text += "\n" + violation + "\nafter";
  for (std::size_t i = 0; i < path.size(); ++i)
    text += "\n  " + std::to_string(i + 1) + ". " + to_string(path[i]);
  return text;
}

Exploration explore(const SmallWorldSettings& settings, const ExploreLimits& limits) {
  return Explorer(settings, limits).run();
}

}  // namespace troupe
