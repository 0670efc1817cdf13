// SPDX-License-Identifier: Apache-2.0
#include "actors/request/answer/output_guide.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>

#include "text/grammar/gbnf.hpp"
#include "text/grammar/json_schema.hpp"
#include "text/grammar/regex.hpp"
#include "text/grammar/token_mask.hpp"

namespace troupe {
namespace {

Grammar compile(const OutputForm& form, const Tokenizer& tokenizer) {
  switch (form.kind) {
    case OutputForm::Kind::kJsonSchema: return grammar_of_json_schema(form.text);
    case OutputForm::Kind::kGrammar:
      return parse_gbnf(form.text, [&](std::string_view name) { return tokenizer.token_id(name); });
    case OutputForm::Kind::kRegex: return parse_regex(form.text);
    case OutputForm::Kind::kJsonObject: break;
  }
  return json_object_grammar();
}

bool has_any(const TokenMask& mask) {
  return std::any_of(mask.begin(), mask.end(), [](TokenMask::value_type word) { return word != 0; });
}

}  // namespace

static_assert(kMostBoundAnswers <= OutputForms::most_of_one(OutputForms::Share::kDemand) &&
                  kMostBoundAnswers <= OutputForms::most_of_one(OutputForms::Share::kStrictTools),
              "a client's request that is alone would never get all of its places");

class OutputForms::Places {
 public:
  bool enter(Share share, const std::string& flow, bool is_promised) {
    const std::lock_guard lock(mutex_);
    Taken& taken = shares_.at(static_cast<std::size_t>(share));
    const auto own = taken.by_flow.find(flow);
    const std::uint32_t num_own = own == taken.by_flow.end() ? 0 : own->second;
    const bool has_room =
        taken.number < kMostAtOnce.at(static_cast<std::size_t>(share)) && num_own < most_of_one(share);
    if (!has_room && !is_promised) return false;
    taken.by_flow[flow] = num_own + 1;
    taken.number += 1;
    return true;
  }

  void leave(Share share, const std::string& flow) {
    const std::lock_guard lock(mutex_);
    Taken& taken = shares_.at(static_cast<std::size_t>(share));
    taken.number -= 1;
    const auto own = taken.by_flow.find(flow);
    if (--own->second == 0) taken.by_flow.erase(own);
  }

 private:
  struct Taken {
    std::uint32_t number = 0;
    std::map<std::string, std::uint32_t> by_flow = {};  // none of 0
  };

  std::mutex mutex_;
  std::array<Taken, kMostAtOnce.size()> shares_;
};

OutputForms::OutputForms(std::size_t num_models, std::size_t most_grammar_bytes)
    : most_grammar_bytes_(most_grammar_bytes),
      places_(std::make_shared<Places>()),
      vocabularies_(num_models) {}

std::shared_ptr<const void> OutputForms::take_place(Share share, const std::string& flow, bool is_promised) {
  if (!places_->enter(share, flow, is_promised)) return nullptr;
  return {this, [places = places_, share, flow](const void*) { places->leave(share, flow); }};
}

std::shared_ptr<const TokenMask> OutputGuide::allowed() const {
  auto mask = std::make_shared<TokenMask>(num_mask_words_);
  matcher_.allow(*mask);
  if (matcher_.may_end() && has_any(*mask))  // else it was refused
    for (const TokenId token : ends_)
      if (token >= 0 && static_cast<std::size_t>(token) / 32 < mask->size()) set_bit(*mask, token);
  return mask;
}

std::variant<OutputGuide, ApiError> OutputForms::guide(ModelIndex model, const ServedModel& served,
                                                       const OutputForm& form) {
  const std::string key = std::to_string(static_cast<int>(form.kind)) + ":" + form.text;
  return guide(model, served, Wanted{.field = form.field, .key = key, .compile = [&] {
                                       return compile(form, *served.tokenizer);
                                     }});
}

std::variant<OutputGuide, ApiError> OutputForms::guide(ModelIndex model, const ServedModel& served,
                                                       const AnswerReading& reading,
                                                       const CallDemand& demand) {
  const std::string key = std::string("call:") + (demand.is_for_one ? "1" : "+") +
                          (demand.may_be_text ? "t" : "-") + (reading.begins_in_reasoning ? "r" : "-") +
                          demand.name + ":" + reading.tools;
  return guide(model, served,
               Wanted{.field = demand.may_be_text ? "tools" : "tool_choice",
                      .key = key,
                      .may_be_text = demand.may_be_text,
                      .compile = [&] { return grammar_of_calls(reading, demand, *served.tokenizer); }});
}

std::variant<OutputGuide, ApiError> OutputForms::guide(ModelIndex model, const ServedModel& served,
                                                       const Wanted& wanted) {
  const auto refusal = [&](const std::string& reason) {
    return ApiError{
        .kind = ApiErrorKind::kInvalidRequest, .message = wanted.field + reason, .field = wanted.field};
  };
  try {
    const auto tokens = vocabulary(model, served);
    OutputGuide guide(matcher(model, tokens, wanted.key, wanted.compile), tokens->num_mask_words(),
                      wanted.may_be_text);
    if (has_any(*guide.allowed())) return guide;
    return refusal(" allows no answer that this model's tokens can write.");
  } catch (const GrammarError& error) {
    return refusal(std::string(" can't be followed: ") + error.what());
  } catch (const std::invalid_argument& error) {  // of the vocabulary
    return refusal(std::string(" can't be followed by this model: ") + error.what());
  }
}

std::shared_ptr<const GrammarVocabulary> OutputForms::vocabulary(ModelIndex model,
                                                                 const ServedModel& served) {
  Vocabulary& vocabulary = vocabularies_.at(model);
  std::call_once(vocabulary.is_made, [&] {
    const Tokenizer& tokenizer = *served.tokenizer;
    std::vector<std::string> bytes(tokenizer.vocabulary_size());
    for (std::size_t id = 0; id < bytes.size(); ++id)
      bytes[id] = tokenizer.token_bytes(static_cast<std::int32_t>(id));
    vocabulary.tokens = std::make_shared<const GrammarVocabulary>(bytes, served.eos_tokens);
  });
  return vocabulary.tokens;
}

GrammarMatcher OutputForms::matcher(ModelIndex model, std::shared_ptr<const GrammarVocabulary> vocabulary,
                                    const std::string& key, const Compile& compile) {
  const auto is_it = [&](const Known& known) { return known.model == model && known.key == key; };
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(known_.begin(), known_.end(), is_it);
    if (found != known_.end()) {
      known_.splice(known_.begin(), known_, found);
      forget_grammars();
      return known_.front().matcher;
    }
  }
  GrammarMatcher matcher(std::make_shared<const Grammar>(compile()), std::move(vocabulary));
  const std::lock_guard lock(mutex_);
  known_.push_front({.model = model, .key = key, .matcher = matcher});
  forget_grammars();
  return matcher;
}

// They grow as they are used: what is looked at is their size by now.
void OutputForms::forget_grammars() {
  std::size_t num_bytes = 0;
  auto first = known_.begin();
  for (; first != known_.end(); ++first) {
    num_bytes += first->key.size() + first->matcher.size_bytes();
    if (num_bytes > most_grammar_bytes_ && first != known_.begin()) break;
  }
  known_.erase(first, known_.end());
}

}  // namespace troupe
