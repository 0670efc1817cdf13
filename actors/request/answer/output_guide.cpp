// SPDX-License-Identifier: Apache-2.0
#include "actors/request/answer/output_guide.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "text/grammar/gbnf.hpp"
#include "text/grammar/json_schema.hpp"
#include "text/grammar/regex.hpp"

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

}  // namespace

std::shared_ptr<const void> OutputForms::take_place(bool may_be_last) {
  const auto leave = [taken = num_places_taken_](const void*) { *taken -= 1; };
  if (num_places_taken_->fetch_add(1) < (may_be_last ? kMostAtOnce : kMostWishesAtOnce)) return {this, leave};
  *num_places_taken_ -= 1;
  return nullptr;
}

std::shared_ptr<const TokenMask> OutputGuide::allowed() const {
  auto mask = std::make_shared<TokenMask>(num_mask_words_);
  matcher_.allow(*mask);
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
    const auto first = guide.allowed();
    if (std::any_of(first->begin(), first->end(), [](std::uint32_t word) { return word != 0; })) return guide;
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
      return found->matcher;
    }
  }
  GrammarMatcher matcher(std::make_shared<const Grammar>(compile()), std::move(vocabulary));
  const std::lock_guard lock(mutex_);
  known_.push_front({.model = model, .key = key, .matcher = matcher});
  if (known_.size() > kMostGrammars) known_.pop_back();
  return matcher;
}

}  // namespace troupe
