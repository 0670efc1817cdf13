// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/grammar_masks.hpp"

#include <algorithm>
#include <cassert>
#include <string_view>

namespace troupe {
namespace {

// A mask that took fewer nodes is computed again in the time of a copy.
constexpr std::uint64_t kCheapWalk = 500;

void set_bit(std::span<std::uint32_t> mask, TokenId token) {
  mask[static_cast<std::size_t>(token) / 32] |= std::uint32_t{1} << (token % 32);
}

bool has_bit(std::span<const std::uint32_t> mask, TokenId token) {
  return (mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) != 0;
}

}  // namespace

GrammarMasks::GrammarMasks(std::shared_ptr<const Grammar> grammar,
                           std::shared_ptr<const GrammarVocabulary> vocabulary)
    : grammar_(std::move(grammar)),
      vocabulary_(std::move(vocabulary)),
      states_(*grammar_),
      path_(vocabulary_->max_token_bytes() + 1) {}

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
  num_walked_ = 0;
  const bool is_whole = compute_mask(state, words);
  if (!is_whole || num_walked_ > kCheapWalk) keep(state, words);
}

std::shared_ptr<const std::vector<std::uint32_t>> GrammarMasks::free_tokens(State state) {
  constexpr std::string_view kUsual = " etaoinsr";
  const std::lock_guard lock(mutex_);
  if (const auto known = free_.find(state); known != free_.end()) return known->second;
  const auto stays = [&](char byte) {
    return states_.step(state, static_cast<unsigned char>(byte)) == state;
  };
  if (!std::all_of(kUsual.begin(), kUsual.end(), stays)) return nullptr;
  if (free_.size() == kMostFree) free_.clear();
  return free_[state] = compute_free_tokens(state);
}

// A token that has its own node besides its bytes may lead elsewhere, too.
std::shared_ptr<const std::vector<std::uint32_t>> GrammarMasks::compute_free_tokens(State state) {
  work_limit_ = states_.work() + kMaxMaskWork;
  size_limit_ = states_.size_bytes() + kMaxMaskStateBytes;
  std::vector<std::uint32_t> mask(vocabulary_->num_mask_words());
  path_[0] = state;
  const auto nodes = vocabulary_->tokens();
  for (std::size_t i = 0; i < nodes.size() && is_within_limits();) {
    const ByteTrieNode& node = nodes[i];
    const State next = states_.step(path_[node.depth - 1U], node.byte);
    if (next == GrammarStates::kDead) {
      i = node.skip;
      continue;
    }
    path_[node.depth] = next;
    const bool is_free =
        next == state && node.token >= 0 && states_.step_token(state, node.token) == GrammarStates::kDead;
    if (is_free) set_bit(mask, node.token);
    ++i;
  }
  if (!is_within_limits()) return nullptr;
  for (const auto& [first, second] : vocabulary_->same_spelling())
    if (has_bit(mask, first)) set_bit(mask, second);
  return std::make_shared<const std::vector<std::uint32_t>>(std::move(mask));
}

bool GrammarMasks::is_within_limits() const {
  return states_.work() <= work_limit_ && states_.size_bytes() <= size_limit_;
}

bool GrammarMasks::compute_mask(State state, std::span<std::uint32_t> mask) {
  work_limit_ = states_.work() + kMaxMaskWork;
  size_limit_ = states_.size_bytes() + kMaxMaskStateBytes;
  if (const auto num_characters = num_plain_characters(state)) {
    const auto plain = vocabulary_->plain_tokens(*num_characters);
    std::copy(plain.begin(), plain.end(), mask.begin());
    walk(vocabulary_->tokens_beside_plain(), state, mask);
  } else {
    walk(vocabulary_->tokens(), state, mask);
  }
  if (!is_within_limits()) {
    std::fill(mask.begin(), mask.end(), 0);
    return false;
  }
  for (const auto& [first, second] : vocabulary_->same_spelling())
    if (has_bit(mask, first)) set_bit(mask, second);
  for (const GrammarPosition& position : states_.positions(state)) {
    const GrammarNode& node = grammar_->node(position.node);
    const auto token = static_cast<TokenId>(node.operand);
    if (node.kind == GrammarNode::Kind::kToken && vocabulary_->has(token) && !vocabulary_->is_end(token))
      set_bit(mask, token);
  }
  if (states_.may_end(state))
    for (const TokenId token : vocabulary_->end_tokens()) set_bit(mask, token);
  return true;
}

// How many plain characters may follow, whichever they are; nullopt: it depends on them.
std::optional<std::size_t> GrammarMasks::num_plain_characters(State state) {
  for (std::size_t number = 0; number < GrammarVocabulary::kMaxPlainCharacters; ++number) {
    const GrammarStates::PlainStep step = states_.plain_step(state);
    if (step.kind == GrammarStates::PlainStep::Kind::kMixed) return std::nullopt;
    if (step.state == GrammarStates::kDead) return number;
    if (step.state == state) break;
    state = step.state;
  }
  return GrammarVocabulary::kMaxPlainCharacters;
}

void GrammarMasks::walk(std::span<const ByteTrieNode> nodes, State from, std::span<std::uint32_t> mask) {
  path_[0] = from;
  for (std::size_t i = 0; i < nodes.size() && is_within_limits(); ++num_walked_) {
    const ByteTrieNode& node = nodes[i];
    const State state = states_.step(path_[node.depth - 1U], node.byte);
    if (state == GrammarStates::kDead) {
      i = node.skip;
      continue;
    }
    path_[node.depth] = state;
    if (node.token >= 0) set_bit(mask, node.token);
    ++i;
  }
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
