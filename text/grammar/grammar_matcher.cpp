// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/grammar_matcher.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "text/grammar/grammar_masks.hpp"

namespace troupe {
namespace {

struct SpelledToken {
  TokenId token = -1;
  std::size_t num_bytes = 0;
  bool goes_beyond = false;  // a longer token begins with the whole text
};

// The longest token that the text begins with.
SpelledToken longest_token(std::span<const ByteTrieNode> nodes, std::string_view text) {
  SpelledToken longest;
  std::size_t depth = 0;
  for (std::size_t i = 0; i < nodes.size() && nodes[i].depth == depth + 1U;) {
    if (depth == text.size()) {
      longest.goes_beyond = true;
      break;
    }
    if (nodes[i].byte != static_cast<unsigned char>(text[depth])) {
      i = nodes[i].skip;
      continue;
    }
    ++depth;
    if (nodes[i].token >= 0) {
      longest.token = nodes[i].token;
      longest.num_bytes = depth;
    }
    ++i;
  }
  return longest;
}

}  // namespace

GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar> grammar,
                               std::shared_ptr<const GrammarVocabulary> vocabulary)
    : masks_(std::make_shared<GrammarMasks>(std::move(grammar), std::move(vocabulary))) {
  const GrammarMasks::Place place = masks_->start();
  state_ = place.state;
  may_end_ = place.may_end;
  is_finished_ = place.may_end && !place.reads_more;
}

bool GrammarMatcher::accept(TokenId token) {
  if (has_ended_) return false;
  if (masks_->vocabulary().is_end(token)) {
    if (!may_end_) return false;
    has_ended_ = is_finished_ = true;
    return true;
  }
  const auto place = masks_->step(state_, token);
  if (!place) return false;
  state_ = place->state;
  may_end_ = place->may_end;
  is_finished_ = place->may_end && !place->reads_more;
  // Not before the step: the mask that allowed the token was made of these states.
  if (masks_->is_full()) std::tie(masks_, state_) = masks_->successor(state_);
  return true;
}

void GrammarMatcher::allow(std::span<std::uint32_t> mask) const {
  if (has_ended_)
    std::fill(mask.begin(), mask.end(), 0);
  else
    masks_->write_mask(state_, mask);
}

std::string GrammarMatcher::forced_bytes() const {
  return has_ended_ ? std::string() : masks_->forced_bytes(state_).first;
}

std::vector<TokenId> GrammarMatcher::forced_tokens() const {
  if (has_ended_) return {};
  const auto [bytes, end] = masks_->forced_bytes(state_);
  std::vector<TokenId> tokens;
  for (std::string_view rest = bytes; !rest.empty();) {
    const SpelledToken longest = longest_token(masks_->vocabulary().tokens(), rest);
    if (longest.token < 0 || (longest.goes_beyond && end.reads_more)) break;
    tokens.push_back(longest.token);
    rest.remove_prefix(longest.num_bytes);
  }
  return tokens;
}

}  // namespace troupe
