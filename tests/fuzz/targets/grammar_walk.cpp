// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/targets/grammar_walk.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/fuzz/property.hpp"
#include "text/grammar/grammar_matcher.hpp"
#include "text/grammar/grammar_states.hpp"

namespace troupe::fuzz {
namespace {

using State = GrammarStates::State;

constexpr TokenId kNumBytes = 256;
constexpr TokenId kEnd = 298;
constexpr TokenId kNamed = 299;
constexpr std::size_t kMostTokens = 64;
// Positions: an answer that needs more is too ambiguous, and limits decide about it.
constexpr std::uint64_t kMostWork = GrammarStates::kMaxStepWork - 5'000;

// A token for every byte, its id the byte; longer ones, two spelled alike among them; an
// end token; and one without a text.
const std::shared_ptr<const GrammarVocabulary>& vocabulary() {
  static const auto made = [] {
    std::vector<std::string> tokens;
    for (TokenId byte = 0; byte < kNumBytes; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    for (const char* longer :
         {"{\"", "\":", "\": ", "\",", "\"}", "],",  "true",     "null",         "10",    "0.",  "e+",
          "aa",  "ab",  "aa",   "abc", "the", " of", "\xC3\xA9", "\xC3\xA9\xC3", "\\u00", "\n\n"})
      tokens.emplace_back(longer);
    tokens.resize(kNamed + 1);
    return std::make_shared<const GrammarVocabulary>(tokens, std::vector<TokenId>{kEnd});
  }();
  return made;
}

bool names_tokens(const Grammar& grammar) {
  for (std::uint32_t i = 0; i < grammar.num_nodes(); ++i)
    if (grammar.node(i).kind == GrammarNode::Kind::kToken) return true;
  return false;
}

class Walk {
 public:
  explicit Walk(const std::shared_ptr<const Grammar>& grammar)
      : names_tokens_(names_tokens(*grammar)),
        start_(grammar, vocabulary()),
        matcher_(start_),
        states_(*grammar),
        state_(states_.start()) {}

  // False: it has ended, or nothing more can be said of it.
  bool go_on(unsigned char choice) {
    const std::vector<TokenId> allowed = checked_tokens();
    if (is_too_ambiguous()) return false;
    require(!allowed.empty() || names_tokens_, "an answer was led to where it can't go on");
    if (allowed.empty()) return false;
    const TokenId token = allowed[choice % allowed.size()];
    require(matcher_.accept(token), "a token is refused that is allowed");
    if (token == kEnd) {
      check_ended();
      return false;
    }
    state_ = after(token);
    text_ += vocabulary()->bytes(token);
    has_text_alone_ = has_text_alone_ && !vocabulary()->bytes(token).empty();
    return true;
  }

  // Which is the answer so far, if it may end here.
  std::optional<std::string> whole_text() const {
    if (!matcher_.may_end() || !has_text_alone_) return std::nullopt;
    return text_;
  }

  // What was accepted token by token is accepted byte by byte.
  void check_bytes() const {
    if (!has_text_alone_ || names_tokens_ || is_too_ambiguous()) return;
    GrammarMatcher again = start_;
    for (const char byte : text_)
      require(again.accept(static_cast<unsigned char>(byte)), "a byte is refused of a token that was taken");
    require(again.may_end() == states_.may_end(state_), "an answer's bytes may not end where its tokens may");
  }

 private:
  bool is_too_ambiguous() const { return states_.work() > kMostWork; }

  State after(TokenId token) {
    const std::string_view bytes = vocabulary()->bytes(token);
    State state = bytes.empty() ? GrammarStates::kDead : state_;
    for (const char byte : bytes) state = states_.step(state, static_cast<unsigned char>(byte));
    return states_.unite(state, states_.step_token(state_, token));
  }

  // Tokens that the mask allows, which are those that are accepted, and have a step.
  std::vector<TokenId> checked_tokens() {
    std::vector<std::uint32_t> mask(vocabulary()->num_mask_words());
    matcher_.allow(mask);
    require(matcher_.may_end() == states_.may_end(state_), "an answer may end by its mask alone");
    std::vector<TokenId> allowed;
    for (TokenId token = 0; token <= kNamed; ++token) {
      const bool is_allowed = (mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) != 0;
      if (is_allowed) allowed.push_back(token);
      const bool has_step = token == kEnd ? matcher_.may_end() : after(token) != GrammarStates::kDead;
      if (is_too_ambiguous()) return {};
      GrammarMatcher next = matcher_;
      require(next.accept(token) == has_step, "what is accepted is not what has a step");
      require(is_allowed == has_step, "a mask is not what is accepted");
    }
    return allowed;
  }

  void check_ended() const {
    require(matcher_.is_finished() && matcher_.may_end(), "an answer that has ended is not finished");
    std::vector<std::uint32_t> mask(vocabulary()->num_mask_words());
    matcher_.allow(mask);
    require(std::all_of(mask.begin(), mask.end(), [](std::uint32_t word) { return word == 0; }),
            "a token may follow the end");
  }

  const bool names_tokens_;
  const GrammarMatcher start_;
  GrammarMatcher matcher_;
  GrammarStates states_;  // beside those of the matcher, which it shares and replaces
  State state_;
  std::size_t num_tokens_ = 0;
  std::string text_;
  bool has_text_alone_ = true;
};

}  // namespace

TokenId named_token() { return kNamed; }

std::optional<std::string> walk_grammar(const std::shared_ptr<const Grammar>& grammar,
                                        std::string_view choices) {
  Walk walk(grammar);
  std::optional<std::string> longest = walk.whole_text();
  for (const char choice : choices.substr(0, kMostTokens)) {
    if (!walk.go_on(static_cast<unsigned char>(choice))) break;
    if (auto whole = walk.whole_text()) longest = std::move(whole);
  }
  walk.check_bytes();
  return longest;
}

}  // namespace troupe::fuzz
