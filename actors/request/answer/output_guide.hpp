// SPDX-License-Identifier: Apache-2.0
// Follows an answer that must have a form (OutputForm) token by token, and says which
// tokens may come next.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/engine.hpp"
#include "actors/request/generation_request.hpp"
#include "text/answer/call_grammar.hpp"
#include "text/grammar/grammar.hpp"
#include "text/grammar/grammar_matcher.hpp"
#include "text/grammar/grammar_vocabulary.hpp"

namespace troupe {

// One thread.
class OutputGuide {
 public:
  // may_be_text: most of the answer is free.
  OutputGuide(GrammarMatcher matcher, std::size_t num_mask_words, bool may_be_text)
      : matcher_(std::move(matcher)), num_mask_words_(num_mask_words), may_be_text_(may_be_text) {}

  // These end the answer, too, where it may end.
  void may_end_with(std::vector<TokenId> ends) { ends_ = std::move(ends); }
  // Tokens that may be next; all zeros: none can be.
  std::shared_ptr<const TokenMask> allowed() const;
  // The allowed tokens behind which the same may come again, as AllowTokens::free. Null: the answer is not
  // amid text around calls.
  std::shared_ptr<const TokenMask> free() const { return matcher_.free_tokens(); }
  bool may_be_text() const { return may_be_text_; }
  // All tokens.
  std::shared_ptr<const TokenMask> anything() const {
    return std::make_shared<const TokenMask>(num_mask_words_, ~TokenMask::value_type{0});
  }
  // False: it was not allowed.
  bool take(std::int32_t token) { return matcher_.accept(token); }
  // Nothing but the end may follow.
  bool is_finished() const { return matcher_.is_finished(); }

 private:
  GrammarMatcher matcher_;
  std::size_t num_mask_words_;
  bool may_be_text_;
  std::vector<TokenId> ends_;
};

// Guides share each model's vocabulary, which is sorted when it is first needed, and the
// grammars that were used last with the masks that were computed for them. Any thread.
class OutputForms {
 public:
  // Each kind of requests has a share of its own of the places, so that none takes another's.
  enum class Share : std::uint8_t {
    kDemand,       // answers of a given form, and calls that are demanded
    kStrictTools,  // calls that may come, of tools of which one is strict
    kTools,        // so, of others: they go on without a place
  };
  // Requests of a share that may be bound to a form at once: each has a thread of its own, so that a slow
  // grammar holds up its own request only.
  static constexpr std::array<std::uint32_t, 3> kMostAtOnce{128, 64, 64};
  // One flow may hold so many of these: its streams may be left unread, and keep their places all the while.
  static constexpr std::uint32_t most_of_one(Share share) {
    return kMostAtOnce.at(static_cast<std::size_t>(share)) / 2;
  }

  // Grammars that are kept for the next answers, with what was computed of them: a list of tools takes a
  // megabyte or two.
  static constexpr std::size_t kMostGrammarBytes = std::size_t{128} << 20;

  explicit OutputForms(std::size_t num_models, std::size_t most_grammar_bytes = kMostGrammarBytes);

  // A place for a request of this flow, for as long as it is held. Null: all of the share are taken, or all
  // that one flow may have. is_promised: an earlier process had one for it, so it gets one in any case.
  std::shared_ptr<const void> take_place(Share share, const std::string& flow, bool is_promised = false);

  // An error names the field at fault, and in it the place.
  std::variant<OutputGuide, ApiError> guide(ModelIndex model, const ServedModel& served,
                                            const OutputForm& form);
  // The guide of an answer with calls.
  std::variant<OutputGuide, ApiError> guide(ModelIndex model, const ServedModel& served,
                                            const AnswerReading& reading, const CallDemand& demand);

 private:
  struct Vocabulary {
    std::once_flag is_made;
    std::shared_ptr<const GrammarVocabulary> tokens;
  };
  using Compile = std::function<Grammar()>;
  struct Wanted {
    std::string field;
    std::string key;  // all that the grammar is made of
    bool may_be_text = false;
    Compile compile;
  };
  struct Known {
    ModelIndex model;
    std::string key;         // all that the grammar is made of
    GrammarMatcher matcher;  // at the beginning of an answer
  };

  std::shared_ptr<const GrammarVocabulary> vocabulary(ModelIndex model, const ServedModel& served);
  std::variant<OutputGuide, ApiError> guide(ModelIndex model, const ServedModel& served,
                                            const Wanted& wanted);
  GrammarMatcher matcher(ModelIndex model, std::shared_ptr<const GrammarVocabulary> vocabulary,
                         const std::string& key, const Compile& compile);
  void forget_grammars();

  const std::size_t most_grammar_bytes_;
  class Places;
  std::shared_ptr<Places> places_;
  std::vector<Vocabulary> vocabularies_;  // by ModelIndex
  std::mutex mutex_;
  std::list<Known> known_;  // the one used last first; but for that one, at most so many bytes
};

}  // namespace troupe
