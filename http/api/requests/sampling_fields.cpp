// SPDX-License-Identifier: Apache-2.0
// How tokens are drawn, or answers searched for, and how likely the answer is to say they were.
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "http/api/requests/generation_fields.hpp"
#include "http/api/requests/unsupported_fields.hpp"
#include "http/json/json_text.hpp"

namespace troupe {
namespace {

constexpr double kMaxBias = 100.0;                  // OpenAI's
constexpr double kMaxRepetitionPenalty = 1000.0;    // sensible ones are below 2
constexpr std::int64_t kMaxCompletionLogprobs = 5;  // OpenAI's
constexpr std::string_view kOutputLogprobs = "message.output_text.logprobs";
// Agents ask for it always; there is none to include.
constexpr std::string_view kEncryptedReasoning = "reasoning.encrypted_content";

void read_cuts(FieldReader& fields, const ParseSettings& settings, GenerationRequest& request) {
  SamplingParameters& sampling = request.sampling;
  const SamplingDefaults& defaults = settings.model.defaults;
  sampling.temperature =
      static_cast<float>(fields.number("temperature", 0.0, 2.0).value_or(defaults.temperature));
  sampling.min_p = static_cast<float>(fields.number("min_p", 0.0, 1.0).value_or(defaults.min_p));
  const auto top_p = fields.number("top_p", 0.0, 1.0);
  if (top_p && *top_p <= 0.0) fields.fail("top_p", " must be greater than 0, got 0");
  sampling.top_p = static_cast<float>(top_p.value_or(defaults.top_p));
  const auto top_k = fields.integer("top_k", -1, static_cast<std::int64_t>(settings.limits.max_top_k));
  sampling.top_k = static_cast<std::int32_t>(top_k.value_or(defaults.top_k));
  if (sampling.top_k < 0) sampling.top_k = 0;  // both -1 and 0 mean all
  const auto seed = fields.bits64("seed");
  request.has_seed = seed.has_value();
  sampling.seed = seed.value_or(0);
}

void read_penalties(FieldReader& fields, std::string_view repetition_name, const SamplingDefaults& defaults,
                    SamplingParameters& sampling) {
  sampling.presence_penalty = static_cast<float>(fields.number("presence_penalty", -2.0, 2.0).value_or(0.0));
  sampling.frequency_penalty =
      static_cast<float>(fields.number("frequency_penalty", -2.0, 2.0).value_or(0.0));
  const auto llama_name = fields.number("repeat_penalty", 0.0, kMaxRepetitionPenalty);
  const auto repetition = fields.number(repetition_name, 0.0, kMaxRepetitionPenalty);
  sampling.repetition_penalty =
      static_cast<float>(repetition ? *repetition : llama_name.value_or(defaults.repetition_penalty));
  if (!(sampling.repetition_penalty > 0.0F))
    fields.fail(repetition ? repetition_name : "repeat_penalty", " must be greater than 0, got 0");
}

std::optional<std::int32_t> id_in(std::string_view text) {
  std::int32_t id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  return error == std::errc{} && end == text.data() + text.size() && id >= 0 ? std::optional(id)
                                                                             : std::nullopt;
}

// {"token id": bias, …}; an id that comes twice has its last bias, as in any object.
void read_biases(FieldReader& fields, std::vector<TokenBias>& biased) {
  const auto* value = fields.find("logit_bias");
  if (value == nullptr) return;
  if (!value->is_object() || value->get_object().size() > kMaxBiases)
    return fields.fail("logit_bias", "an object of at most " + std::to_string(kMaxBiases) + " token ids",
                       *value);
  std::map<std::int32_t, double> biases;
  for (const auto& pair : value->get_object()) {
    const auto id = id_in({pair.key().data(), pair.key().size()});
    if (!id)
      return fields.fail("logit_bias", " must have token ids as keys, got \"" +
                                           std::string(shorten({pair.key().data(), pair.key().size()}, 32)) +
                                           "\"");
    const double bias = pair.value().is_number() ? pair.value().to_number<double>() : kMaxBias + 1;
    if (!(std::abs(bias) <= kMaxBias))
      return fields.fail("logit_bias", " must have numbers between -100 and 100 as values");
    biases[*id] = bias;
  }
  for (const auto& [id, bias] : biases) biased.push_back({.id = id, .bias = static_cast<float>(bias)});
}

// Of chats: `logprobs` says whether, `top_logprobs` how many more.
std::optional<std::int64_t> read_chat_logprobs(FieldReader& fields) {
  const bool is_wanted = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMaxTopLogprobs).value_or(0);
  if (is_wanted) return top;
  if (top > 0) fields.fail("top_logprobs", " needs logprobs to be true");
  return std::nullopt;
}

// Of text completions: how many more.
std::optional<std::int64_t> read_completion_logprobs(FieldReader& fields) {
  const auto* value = fields.find("logprobs");
  if (value != nullptr && value->is_bool() && !value->get_bool()) return std::nullopt;
  return fields.integer("logprobs", 0, kMaxCompletionLogprobs);
}

// Of responses: `include` says whether, `top_logprobs` how many more.
std::optional<std::int64_t> read_response_logprobs(FieldReader& fields) {
  const auto top = fields.integer("top_logprobs", 0, kMaxTopLogprobs).value_or(0);
  const auto* include = fields.find("include");
  if (include == nullptr) return std::nullopt;
  if (!include->is_array()) {
    fields.fail("include", "a list of strings", *include);
    return std::nullopt;
  }
  std::optional<std::int64_t> wanted;
  for (const auto& entry : include->get_array()) {
    if (entry.is_string() && entry.get_string() == kEncryptedReasoning) continue;
    if (entry.is_string() && entry.get_string() == kOutputLogprobs) {
      wanted = top;
      continue;
    }
    fields.fail("include", " is not supported yet except as [\"" + std::string(kOutputLogprobs) + "\"]");
  }
  return wanted;
}

std::optional<std::int64_t> read_logprobs(FieldReader& fields, ResponseShape shape) {
  switch (shape) {
    case ResponseShape::kChat:
    case ResponseShape::kOllamaChat:
    case ResponseShape::kOllamaGenerate: return read_chat_logprobs(fields);
    case ResponseShape::kCompletion: return read_completion_logprobs(fields);
    case ResponseShape::kResponse: return read_response_logprobs(fields);
    case ResponseShape::kMessage: break;
  }
  return std::nullopt;  // that API has none
}

// vLLM's, of chats and completions: the prompt's tokens.
void read_prompt_logprobs(FieldReader& fields, ApiRequest& request) {
  if (request.shape != ResponseShape::kChat && request.shape != ResponseShape::kCompletion) return;
  const auto number = fields.integer("prompt_logprobs", 0, kMaxTopLogprobs);
  if (!number) return;
  if (fields.boolean("stream").value_or(false))
    fields.fail("prompt_logprobs", " must be null where the answer is streamed");
  request.generation.prompt_logprobs = static_cast<std::uint32_t>(*number);
}

constexpr double kMaxLengthPenalty = 10.0;  // sensible ones are below 2

// false, true or "never", as in transformers.
BeamStop read_early_stopping(FieldReader& fields) {
  const auto* value = fields.find("early_stopping");
  if (value == nullptr) return BeamStop::kHopeless;
  if (value->is_bool()) return value->get_bool() ? BeamStop::kFirst : BeamStop::kHopeless;
  if (value->is_string() && value->get_string() == "never") return BeamStop::kNever;
  fields.fail("early_stopping", "true, false or \"never\"", *value);
  return BeamStop::kHopeless;
}

}  // namespace

void read_sampling_fields(FieldReader& fields, const ParseSettings& settings, ApiRequest& request) {
  read_cuts(fields, settings, request.generation);
  read_penalties(fields, is_ollama(request.shape) ? "repeat_penalty" : "repetition_penalty",
                 settings.model.defaults, request.generation.sampling);
  read_biases(fields, request.generation.biased);
}

void read_logprob_fields(FieldReader& fields, ApiRequest& request) {
  const auto top = read_logprobs(fields, request.shape);
  request.wants_logprobs = top.has_value();
  if (top) request.generation.sampling.top_logprobs = static_cast<std::int32_t>(*top);
  read_prompt_logprobs(fields, request);
}

void read_beams(FieldReader& fields, ApiRequest& request) {
  const auto length_penalty = fields.number("length_penalty", -kMaxLengthPenalty, kMaxLengthPenalty);
  const BeamStop stop = read_early_stopping(fields);
  if (!fields.boolean("use_beam_search").value_or(false)) {
    if (length_penalty.value_or(1.0) != 1.0) fields.fail("length_penalty", " needs use_beam_search");
    if (stop != BeamStop::kHopeless) fields.fail("early_stopping", " needs use_beam_search");
    return;
  }
  refuse_unsupported_beam_fields(fields);
  if (request.num_candidates > kMostBeams)
    fields.fail(request.num_candidates > request.num_choices ? "best_of" : "n",
                " must be at most " + std::to_string(kMostBeams) + " with use_beam_search, got " +
                    std::to_string(request.num_candidates));
  request.generation.beams = BeamWish{.width = request.num_candidates,
                                      .num_answers = request.num_choices,
                                      .length_penalty = length_penalty.value_or(1.0),
                                      .stop = stop};
  // One request finds all answers to a prompt.
  request.num_candidates = request.num_choices = 1;
  request.generation.is_ranked = false;
}

}  // namespace troupe
