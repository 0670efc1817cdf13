// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/grammar_masks.hpp"

#include <algorithm>
#include <cassert>
#include <string_view>

#include "text/grammar/mask_walk.hpp"
#include "text/grammar/token_mask.hpp"

namespace troupe {
namespace {

// A mask that took fewer nodes is computed again in the time of a copy.
constexpr std::uint64_t kCheapWalk = 500;

constexpr MaskWalkLimits kLimits{.work = GrammarMasks::kMaxMaskWork,
                                 .size_bytes = GrammarMasks::kMaxMaskStateBytes};

using State = GrammarStates::State;

constexpr std::string_view kUsual = " etaoinsr";

bool is_amid_text(GrammarStates& states, State state) {
  const auto stays = [&](char byte) { return states.step(state, static_cast<unsigned char>(byte)) == state; };
  return states.is_free_text(state) && std::all_of(kUsual.begin(), kUsual.end(), stays);
}

// A mask of the tokens that lead from the state to itself: they need none. Empty: it is none of a text that
// was declared free (GrammarBuilder::declare_free_text), or usual characters leave it. A walk that leaves the
// text, through a marker that is whole, does not come back: what follows may be as large as a grammar can be.
std::vector<std::uint32_t> find_free_tokens(GrammarStates& states, const GrammarVocabulary& vocabulary,
                                            State state) {
  if (!is_amid_text(states, state)) return {};
  std::vector<std::uint32_t> mask(vocabulary.num_mask_words());
  std::vector<State> path(vocabulary.max_token_bytes() + 1);
  path[0] = state;
  const auto nodes = vocabulary.tokens();
  for (std::size_t i = 0; i < nodes.size();) {
    const ByteTrieNode& node = nodes[i];
    const State next = states.step(path[node.depth - 1U], node.byte);
    if (!states.is_free_text(next)) {
      i = node.skip;
      continue;
    }
    path[node.depth] = next;
    // A token that has its own node besides its bytes may lead elsewhere, too.
    const bool is_free =
        next == state && node.token >= 0 && states.step_token(state, node.token) == GrammarStates::kDead;
    if (is_free) set_bit(mask, node.token);
    ++i;
  }
  for (const auto& [first, second] : vocabulary.same_spelling())
    if (has_bit(mask, first) && states.step_token(state, second) == GrammarStates::kDead)
      set_bit(mask, second);
  return mask;
}

}  // namespace

GrammarMasks::GrammarMasks(std::shared_ptr<const Grammar> grammar,
                           std::shared_ptr<const GrammarVocabulary> vocabulary)
    : grammar_(std::move(grammar)), vocabulary_(std::move(vocabulary)), states_(*grammar_) {
  note_size();
}

void GrammarMasks::note_size() {
  const std::size_t mask_bytes = vocabulary_->num_mask_words() * sizeof(std::uint32_t);
  const std::size_t entry_bytes = grammar_->num_nodes() * sizeof(std::uint32_t);
  constexpr std::size_t kMapEntry = 32;
  size_bytes_ = grammar_->size_bytes() + entry_bytes + states_.size_bytes() + verdicts_.size() * kMapEntry +
                (kept_.size() + free_.size()) * mask_bytes;
}

GrammarMasks::Place GrammarMasks::start() {
  const std::lock_guard lock(mutex_);
  return place_of(states_.start());
}

GrammarMasks::Place GrammarMasks::place_of(State state) const {
  return {.state = state, .may_end = states_.may_end(state), .reads_more = states_.reads_more(state)};
}

std::optional<GrammarMasks::Place> GrammarMasks::step(State from, TokenId token) {
  if (!vocabulary_->has(token)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  states_.allow_work(kMaxMaskWork);
  const std::string_view bytes = vocabulary_->bytes(token);
  State state = bytes.empty() ? GrammarStates::kDead : from;
  for (const char byte : bytes) state = states_.step(state, static_cast<unsigned char>(byte));
  state = states_.unite(state, states_.step_token(from, token));
  if (state == GrammarStates::kDead) return std::nullopt;
  return place_of(state);
}

void GrammarMasks::write_mask(State state, std::span<std::uint32_t> mask) {
  assert(mask.size() >= vocabulary_->num_mask_words());
  const std::lock_guard lock(mutex_);
  const auto words = mask.first(vocabulary_->num_mask_words());
  std::fill(mask.begin(), mask.end(), 0);
  if (const auto known = masks_.find(state); known != masks_.end()) {
    std::copy(known->second.begin(), known->second.end(), words.begin());
    return;
  }
  if (!compute_mask(state, words)) keep(state, words);
  note_size();
}

std::shared_ptr<const std::vector<std::uint32_t>> GrammarMasks::free_tokens(State state) {
  const std::lock_guard lock(mutex_);
  if (!states_.is_free_text(state)) return nullptr;
  const auto [known, is_new] = free_.try_emplace(state);
  if (!is_new) return known->second;
  states_.allow_work(kMaxMaskWork);
  auto mask = find_free_tokens(states_, *vocabulary_, state);
  if (!mask.empty()) known->second = std::make_shared<const std::vector<std::uint32_t>>(std::move(mask));
  return known->second;
}

bool GrammarMasks::compute_mask(State state, std::span<std::uint32_t> mask) {
  MaskWalk walk(states_, *vocabulary_, kLimits);
  if (!walk.run(state, mask) || (!is_surely_within_limits() && !is_within_limits_alone(state))) {
    std::fill(mask.begin(), mask.end(), 0);
    return false;
  }
  for (const GrammarPosition& position : states_.positions(state)) {
    const GrammarNode& node = grammar_->node(position.node);
    const auto token = static_cast<TokenId>(node.operand);
    if (node.kind == GrammarNode::Kind::kToken && vocabulary_->has(token) && !vocabulary_->is_end(token))
      set_bit(mask, token);
  }
  if (states_.may_end(state))
    for (const TokenId token : vocabulary_->end_tokens()) set_bit(mask, token);
  return walk.num_nodes() <= kCheapWalk;
}

// A walk through states of its own takes no more than all walks through these together.
bool GrammarMasks::is_surely_within_limits() const {
  return states_.work() <= kLimits.work && states_.size_bytes() <= kLimits.size_bytes;
}

// Of each state once: what is alone takes the same each time.
bool GrammarMasks::is_within_limits_alone(State state) {
  const auto [verdict, is_new] = verdicts_.try_emplace(state, false);
  if (!is_new) return verdict->second;
  GrammarStates states(*grammar_);
  const State adopted = states.adopt(states_, state);
  std::vector<std::uint32_t> mask(vocabulary_->num_mask_words());
  return verdict->second = MaskWalk(states, *vocabulary_, kLimits).run(adopted, mask);
}

void GrammarMasks::keep(State state, std::span<const std::uint32_t> mask) {
  if ((kept_.size() + 1) * mask.size_bytes() > kMaxMaskBytes && !kept_.empty()) {
    masks_.erase(kept_.front());
    kept_.pop_front();
  }
  masks_.emplace(state, std::vector<std::uint32_t>(mask.begin(), mask.end()));
  kept_.push_back(state);
}

bool GrammarMasks::is_full() {
  const std::lock_guard lock(mutex_);
  return states_.size_bytes() > kMaxStateBytes;
}

std::pair<std::shared_ptr<GrammarMasks>, GrammarMasks::State> GrammarMasks::successor(State state) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<GrammarMasks> next = successor_.lock();
  if (next == nullptr) {
    next = std::make_shared<GrammarMasks>(grammar_, vocabulary_);
    successor_ = next;
  }
  const std::lock_guard next_lock(next->mutex_);
  return {next, next->states_.adopt(states_, state)};
}

}  // namespace troupe
