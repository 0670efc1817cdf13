// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/grammar_states.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "text/grammar/character_set.hpp"

namespace troupe {
namespace {

using Kind = GrammarNode::Kind;

bool is_before(const GrammarPosition& a, const GrammarPosition& b) {
  return std::pair(a.node, a.count) < std::pair(b.node, b.count);
}

std::uint64_t pair_of(std::uint32_t first, std::uint32_t second) {
  return std::uint64_t{first} << 32 | second;
}

std::uint64_t hash_of(std::span<const GrammarPosition> positions) {
  std::uint64_t hash = 0x9E3779B97F4A7C15;
  const auto mix = [&](std::uint64_t value) {
    hash = (hash ^ value) * 0xFF51AFD7ED558CCD;
    hash ^= hash >> 32;
  };
  for (const GrammarPosition& position : positions) {
    mix(position.node | std::uint64_t{position.count} << 32);
    mix(position.below);
  }
  return hash;
}

}  // namespace

// Set 0 is empty: the dead state, and what lies below a root.
GrammarStates::GrammarStates(const Grammar& grammar)
    : grammar_(&grammar), sets_(1), steps_(1), entry_of_node_(grammar.num_nodes(), 0) {
  allow_work(kMaxStartWork);
  add({.node = grammar.start()});
  start_ = close();
  work_limit_ = std::numeric_limits<std::uint64_t>::max();
}

GrammarStates::State GrammarStates::take_step(State from, unsigned char byte) {
  if (from == kDead) return kDead;
  const std::uint32_t byte_class = grammar_->byte_class(byte);
  if (sets_[from].steps == 0) {
    sets_[from].steps = static_cast<std::uint32_t>(steps_.size());
    steps_.resize(steps_.size() + grammar_->num_byte_classes(), kNotTaken);
  }
  const std::size_t taken = sets_[from].steps + byte_class;
  for (std::uint32_t i = 0; i < sets_[from].num_positions; ++i) {
    const GrammarPosition position = positions_[sets_[from].begin + i];
    const GrammarNode& node = grammar_->node(position.node);
    if (node.kind == Kind::kBytes && grammar_->reads(node, byte_class))
      add({.node = node.next, .below = position.below});
  }
  const State state = close();
  return is_out_of_work() ? kDead : steps_[taken] = state;
}

GrammarStates::State GrammarStates::step_token(State from, TokenId token) {
  for (std::uint32_t i = 0; i < sets_[from].num_positions; ++i) {
    const GrammarPosition position = positions_[sets_[from].begin + i];
    const GrammarNode& node = grammar_->node(position.node);
    if (node.kind == Kind::kToken && node.operand == static_cast<std::uint32_t>(token))
      add({.node = node.next, .below = position.below});
  }
  return close();
}

// A position that could never finish within the stack's depth is left out; one that can has a
// continuation that can too, so no state that is reached is a dead end.
void GrammarStates::add(GrammarPosition position) {
  const std::uint32_t needed = grammar_->frames_needed(position.node);
  if (needed == Grammar::kUnproductive) return;
  if (sets_[position.below].depth + needed > Grammar::kMaxStackDepth) return;
  if (++work_ > work_limit_ || ++step_work_ > kMaxStepWork) return;
  if (add_known(position)) return;
  if (grammar_->node(position.node).kind == Kind::kLoop) {
    if (is_dominated(position)) return;
    entry_of_count_[pair_of(position.node, position.count)] = static_cast<std::uint32_t>(entries_.size() + 1);
    note_count(position);
  } else {
    entry_of_node_[position.node] = static_cast<std::uint32_t>(entries_.size() + 1);
  }
  entries_.push_back(position);
  pending_.push_back(position);
}

// True if the node was there already. It is followed again with the stacks that are new.
bool GrammarStates::add_known(GrammarPosition position) {
  std::uint32_t entry = entry_of_node_[position.node];
  const bool is_loop = grammar_->node(position.node).kind == Kind::kLoop;
  if (is_loop) {
    const auto counted = entry_of_count_.find(pair_of(position.node, position.count));
    if (counted != entry_of_count_.end()) entry = counted->second;
  }
  if (entry == 0) return false;
  const State known = entries_[entry - 1].below;
  const State below = unite(known, position.below);
  if (below != known) {
    entries_[entry - 1].below = below;
    pending_.push_back(entries_[entry - 1]);
    if (is_loop) note_count(entries_[entry - 1]);
  }
  return true;
}

// A pass fewer allows all that this one does, once either may leave the loop.
bool GrammarStates::is_dominated(const GrammarPosition& position) const {
  const auto least = least_counts_.find(pair_of(position.node, position.below));
  return least != least_counts_.end() && least->second < position.count;
}

void GrammarStates::note_count(const GrammarPosition& position) {
  if (position.count < grammar_->loop(grammar_->node(position.node).operand).min) return;
  const std::uint64_t place = pair_of(position.node, position.below);
  const auto [least, is_new] = least_counts_.try_emplace(place, position.count);
  least->second = std::min(least->second, position.count);
}

void GrammarStates::follow(GrammarPosition position) {
  const GrammarNode& node = grammar_->node(position.node);
  switch (node.kind) {
    case Kind::kEnd:
    case Kind::kBytes:
    case Kind::kToken: return;
    case Kind::kReturn:
      for (std::uint32_t i = 0; i < sets_[position.below].num_positions; ++i)
        add(positions_[sets_[position.below].begin + i]);
      return;
    case Kind::kBranch:
      add({.node = node.next, .below = position.below});
      add({.node = node.operand, .below = position.below});
      return;
    case Kind::kCall: {
      // A rule called last returns to where its caller does: lists don't deepen the stack.
      const bool is_last = grammar_->node(node.next).kind == Kind::kReturn;
      add({.node = node.operand,
           .below = is_last ? position.below : frame({.node = node.next, .below = position.below})});
      return;
    }
    case Kind::kLoop: follow_loop(position); return;
  }
}

void GrammarStates::follow_loop(GrammarPosition position) {
  const GrammarNode& node = grammar_->node(position.node);
  const GrammarLoop& loop = grammar_->loop(node.operand);
  if (position.count >= loop.min) add({.node = node.next, .below = position.below});
  if (position.count >= loop.max) return;
  const std::uint32_t next = position.count + 1;
  const std::uint32_t count = loop.max == kUnboundedCount ? std::min(next, loop.min) : next;
  add({.node = loop.body, .below = frame({.node = position.node, .count = count, .below = position.below})});
}

// The state of all positions that were added, and of those they lead to unread.
GrammarStates::State GrammarStates::close() {
  while (!pending_.empty()) {
    const GrammarPosition position = pending_.back();
    pending_.pop_back();
    follow(position);
  }
  for (const GrammarPosition& entry : entries_) entry_of_node_[entry.node] = 0;
  std::erase_if(entries_, [&](const GrammarPosition& entry) {
    const Kind kind = grammar_->node(entry.node).kind;
    return kind != Kind::kEnd && kind != Kind::kBytes && kind != Kind::kToken;
  });
  if (step_work_ > kMaxStepWork || is_out_of_work()) entries_.clear();
  step_work_ = 0;
  std::sort(entries_.begin(), entries_.end(), is_before);
  const State state = intern(entries_);
  entries_.clear();
  if (!entry_of_count_.empty()) entry_of_count_.clear();
  if (!least_counts_.empty()) least_counts_.clear();
  return state;
}

GrammarStates::State GrammarStates::intern(std::span<const GrammarPosition> sorted) {
  if (sorted.empty()) return kDead;
  const std::uint64_t hash = hash_of(sorted);
  const auto [known, is_new] = by_hash_.try_emplace(hash, kDead);
  for (State state = known->second; state != kDead; state = sets_[state].same_hash)
    if (std::ranges::equal(positions(state), sorted)) return state;
  Set set{.begin = static_cast<std::uint32_t>(positions_.size()),
          .num_positions = static_cast<std::uint32_t>(sorted.size()),
          .same_hash = known->second};
  for (const GrammarPosition& position : sorted) {
    set.depth = std::max(set.depth, sets_[position.below].depth + 1);
    set.is_free_text = set.is_free_text || grammar_->node(position.node).is_free_text;
  }
  positions_.insert(positions_.end(), sorted.begin(), sorted.end());
  sets_.push_back(set);
  return known->second = static_cast<State>(sets_.size() - 1);
}

GrammarStates::State GrammarStates::unite(State left, State right) {
  if (left == right || right == kDead) return left;
  if (left == kDead) return right;
  const std::uint64_t pair = std::uint64_t{std::min(left, right)} << 32 | std::max(left, right);
  if (const auto known = unions_.find(pair); known != unions_.end()) return known->second;
  const State united = unite_new(left, right);
  unions_.emplace(pair, united);
  return united;
}

// Recursive in the depth of the stacks, which is bounded.
GrammarStates::State GrammarStates::unite_new(State left, State right) {
  std::vector<GrammarPosition> united;
  const auto copy = [&](State state) {
    const auto all = positions(state);
    return std::vector<GrammarPosition>(all.begin(), all.end());
  };
  const std::vector<GrammarPosition> lefts = copy(left), rights = copy(right);
  work_ += lefts.size() + rights.size();
  std::merge(lefts.begin(), lefts.end(), rights.begin(), rights.end(), std::back_inserter(united), is_before);
  std::size_t kept = 0;
  for (std::size_t i = 1; i < united.size(); ++i) {
    const bool is_same = united[kept].node == united[i].node && united[kept].count == united[i].count;
    if (is_same)
      united[kept].below = unite(united[kept].below, united[i].below);
    else
      united[++kept] = united[i];
  }
  united.resize(kept + 1);
  return intern(united);
}

GrammarStates::PlainStep GrammarStates::plain_step(State from) {
  if (sets_[from].plain.kind != PlainStep::Kind::kUnknown) return sets_[from].plain;
  static const std::vector<Utf8Sequence> kPlain = utf8_sequences(plain_json_characters());
  const auto first = same_state(from, kPlain.front());
  PlainStep plain{.kind = PlainStep::Kind::kSame, .state = first.value_or(kDead)};
  for (const Utf8Sequence& sequence : kPlain)
    if (same_state(from, sequence) != plain.state) {
      plain = {.kind = PlainStep::Kind::kMixed};
      break;
    }
  if (!is_out_of_work()) sets_[from].plain = plain;
  return plain;
}

// Where all texts lead that have a byte of each range; nullopt: not all to one state.
std::optional<GrammarStates::State> GrammarStates::same_state(State from, std::span<const ByteRange> ranges) {
  if (ranges.empty() || from == kDead) return from;
  ByteSet seen;
  std::optional<State> same;
  for (std::size_t byte = ranges.front().first; byte <= ranges.front().last; ++byte) {
    const std::uint8_t byte_class = grammar_->byte_class(static_cast<unsigned char>(byte));
    if (seen[byte_class]) continue;
    seen.set(byte_class);
    const auto state = same_state(step(from, static_cast<unsigned char>(byte)), ranges.subspan(1));
    if (!state || (same && *same != *state)) return std::nullopt;
    same = state;
  }
  return same;
}

bool GrammarStates::may_end(State state) const {
  const auto all = positions(state);
  return !all.empty() && grammar_->node(all.front().node).kind == Kind::kEnd;  // node 0 sorts first
}

bool GrammarStates::reads_more(State state) const {
  return sets_[state].num_positions > (may_end(state) ? 1 : 0);
}

std::span<const GrammarPosition> GrammarStates::positions(State state) const {
  return {positions_.data() + sets_[state].begin, sets_[state].num_positions};
}

// Sets only refer to sets made before them. Those below `state` are made anew, in that order.
GrammarStates::State GrammarStates::adopt(const GrammarStates& other, State state) {
  std::vector<State> needed{state};
  std::unordered_map<State, State> adopted{{kDead, kDead}};
  for (std::size_t i = 0; i < needed.size(); ++i)
    for (const GrammarPosition& position : other.positions(needed[i]))
      if (adopted.try_emplace(position.below, kDead).second) needed.push_back(position.below);
  std::sort(needed.begin(), needed.end());
  for (const State old : needed) {
    const auto all = other.positions(old);
    std::vector<GrammarPosition> copy(all.begin(), all.end());
    for (GrammarPosition& position : copy) position.below = adopted[position.below];
    adopted[old] = intern(copy);
  }
  return adopted[state];
}

std::size_t GrammarStates::size_bytes() const {
  constexpr std::size_t kMapEntry = 32;
  return sets_.size() * (sizeof(Set) + kMapEntry) + positions_.size() * sizeof(GrammarPosition) +
         steps_.size() * sizeof(State) + unions_.size() * kMapEntry;
}

}  // namespace troupe
