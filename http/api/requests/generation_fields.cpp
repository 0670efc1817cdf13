// SPDX-License-Identifier: Apache-2.0
#include "http/api/requests/generation_fields.hpp"

#include <algorithm>
#include <limits>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "http/api/requests/unsupported_fields.hpp"
#include "http/json/json_document.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxCacheSaltBytes = 128;
constexpr std::int64_t kDefaultCompletionTokens = 16;  // OpenAI's
constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

// -1, as llama.cpp's clients say it: as many as there is room for.
std::optional<std::int64_t> read_token_limit(FieldReader& fields, std::string_view name, std::int64_t least) {
  const auto* value = fields.find(name);
  if (value != nullptr && as_integer(*value) == -1) return kMost;
  return fields.integer(name, least, kMost);
}

std::optional<std::int64_t> read_max_tokens(FieldReader& fields, ResponseShape shape) {
  if (shape == ResponseShape::kResponse) return fields.integer("max_output_tokens", 1, kMost);
  if (shape == ResponseShape::kMessage) {
    if (fields.find("max_tokens") == nullptr) fields.fail("max_tokens", " is required");
    return fields.integer("max_tokens", 1, kMost);
  }
  // A prompt may be repeated, and scored, without an answer.
  const bool may_be_none = shape == ResponseShape::kCompletion && fields.boolean("echo").value_or(false);
  const std::int64_t least = may_be_none ? 0 : 1;
  const auto max_tokens = read_token_limit(fields, "max_completion_tokens", least);
  const auto old_name = read_token_limit(fields, "max_tokens", least);
  const auto llama_name = read_token_limit(fields, "n_predict", least);
  if (max_tokens) return max_tokens;
  if (old_name || llama_name) return old_name ? old_name : llama_name;
  if (shape == ResponseShape::kCompletion) return kDefaultCompletionTokens;
  return std::nullopt;
}

void read_lengths(FieldReader& fields, const ParseSettings& settings, ApiRequest& api_request) {
  GenerationRequest& request = api_request.generation;
  const std::int64_t context = settings.model.context_length;
  const auto max_tokens = read_max_tokens(fields, api_request.shape);
  // More than the context holds is no error: it is what people write for "all".
  if (max_tokens) request.max_tokens = static_cast<std::uint32_t>(std::min(*max_tokens, context));
  const auto min_tokens = fields.integer("min_tokens", 0, kMost);
  if (min_tokens) request.min_tokens = static_cast<std::uint32_t>(*min_tokens);
  const std::int64_t most = request.max_tokens.value_or(settings.model.context_length);
  if (request.min_tokens > most) {
    fields.fail("min_tokens", " must not exceed max_tokens (" + std::to_string(most) + "), got " +
                                  std::to_string(request.min_tokens));
  }
}

void add_stop(FieldReader& fields, std::string_view name, const Limits& limits, const json::value& value,
              std::vector<std::string>& stop) {
  if (!value.is_string()) return fields.fail(name, "a string or a list of strings", value);
  const auto& text = value.get_string();
  if (text.empty()) return fields.fail(name, " must not contain an empty string");
  if (text.size() > limits.max_stop_string_bytes) {
    return fields.fail(name, " must not contain strings longer than " +
                                 std::to_string(limits.max_stop_string_bytes) + " bytes, got one of " +
                                 std::to_string(text.size()));
  }
  stop.emplace_back(text.c_str(), text.size());
}

void read_stops(FieldReader& fields, const Limits& limits, ResponseShape shape, GenerationRequest& request) {
  read_stop_strings(fields, shape == ResponseShape::kMessage ? "stop_sequences" : "stop", limits, request);
  const auto* ids = fields.find("stop_token_ids");
  const std::string expectation =
      "a list of at most " + std::to_string(limits.max_stop_token_ids) + " token ids";
  if (ids == nullptr) return;
  if (!ids->is_array() || ids->get_array().size() > limits.max_stop_token_ids) {
    return fields.fail("stop_token_ids", expectation, *ids);
  }
  for (const auto& entry : ids->get_array()) {
    const auto id = as_token_id(entry);
    if (!id) return fields.fail("stop_token_ids", expectation, entry);
    request.stop_token_ids.push_back(*id);
  }
}

// Who gives the same salt shares KV pages, and nobody else.
void read_cache_salt(FieldReader& fields, GenerationRequest& request) {
  const auto salt = fields.string("cache_salt");
  if (!salt) return;
  const bool is_printable =
      std::all_of(salt->begin(), salt->end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (salt->empty() || salt->size() > kMaxCacheSaltBytes || !is_printable)
    return fields.fail("cache_salt", " must be 1 to " + std::to_string(kMaxCacheSaltBytes) +
                                         " printable ASCII characters without spaces");
  request.cache_salt = *salt;
}

// A load generator's, which knows how long the answer will be.
void read_foretold_length(FieldReader& fields, const ServedModelInfo& model, GenerationRequest& request) {
  const auto foretold = fields.integer("troupe_answer_tokens", 1, kMost);
  if (!foretold) return;
  if (!model.hears_lengths)
    return fields.fail("troupe_answer_tokens", " is for servers that run with --reservation oracle");
  request.foretold_tokens = static_cast<std::uint32_t>(*foretold);
}

void read_streaming(FieldReader& fields, ApiRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  const auto* value = fields.find("stream_options");
  if (value == nullptr) return;
  if (!value->is_object()) return fields.fail("stream_options", "an object", *value);
  FieldReader options(value->get_object(), "stream_options.");
  request.include_usage = options.boolean("include_usage").value_or(false);
  request.continuous_usage_stats = options.boolean("continuous_usage_stats").value_or(false);
  request.is_resumable = options.boolean("resumable").value_or(false);
  const bool is_view = request.shape == ResponseShape::kResponse || request.shape == ResponseShape::kMessage;
  if (request.is_resumable && is_view)
    options.fail("resumable", " is for chats and completions; a response is created with background");
  if (request.is_resumable && !request.stream) options.fail("resumable", " needs stream");
  fields.adopt(options);
}

// Completions: how many answers are drawn, of which the best are given.
void read_candidates(FieldReader& fields, const Limits& limits, ApiRequest& request) {
  request.num_candidates = request.num_choices;
  if (request.shape != ResponseShape::kCompletion) return;
  const auto best_of = fields.integer("best_of", 1, static_cast<std::int64_t>(limits.max_choices));
  if (!best_of) return;
  if (*best_of < request.num_choices)
    return fields.fail("best_of", " must be at least n (" + std::to_string(request.num_choices) + "), got " +
                                      std::to_string(*best_of));
  request.num_candidates = static_cast<std::uint32_t>(*best_of);
  request.generation.is_ranked = request.num_candidates > request.num_choices;
  if (request.generation.is_ranked && request.stream)
    fields.fail("best_of", " must be n where the answer is streamed: the best are known at the end");
}

// Chats and completions: how many answers to each prompt.
void read_choices(FieldReader& fields, const Limits& limits, ApiRequest& request) {
  if (request.shape != ResponseShape::kChat && request.shape != ResponseShape::kCompletion) return;
  const auto number = fields.integer("n", 1, static_cast<std::int64_t>(limits.max_choices));
  request.num_choices = static_cast<std::uint32_t>(number.value_or(1));
  if (request.is_resumable && request.num_choices > 1)
    fields.fail("stream_options.resumable", " must be false with n > 1");
  read_candidates(fields, limits, request);
  if (request.shape == ResponseShape::kCompletion) read_beams(fields, request);
}

// Sampling, lengths, stops, streaming.
void read_common_fields(FieldReader& fields, const ParseSettings& settings, ApiRequest& request) {
  GenerationRequest& generation = request.generation;
  read_sampling_fields(fields, settings, request);
  read_logprob_fields(fields, request);
  read_lengths(fields, settings, request);
  read_stops(fields, settings.limits, request.shape, generation);
  read_streaming(fields, request);
  read_choices(fields, settings.limits, request);
  read_cache_salt(fields, generation);
  read_foretold_length(fields, settings.model, generation);
  generation.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  generation.include_stop_in_output = fields.boolean("include_stop_str_in_output").value_or(false);
  read_output_form(fields, request);
  refuse_unsupported_fields(fields, request.shape);
}

}  // namespace

void read_stop_strings(FieldReader& fields, std::string_view name, const Limits& limits,
                       GenerationRequest& request) {
  const auto* stop = fields.find(name);
  if (stop == nullptr) return;
  if (!stop->is_array()) return add_stop(fields, name, limits, *stop, request.stop);
  if (stop->get_array().size() > limits.max_stop_strings) {
    fields.fail(name, "a list of at most " + std::to_string(limits.max_stop_strings) + " strings", *stop);
  }
  for (const auto& entry : stop->get_array()) add_stop(fields, name, limits, entry, request.stop);
}

std::variant<ApiRequest, ApiError> parse_generation_request(std::string_view body, const ServedModels& models,
                                                            const Limits& limits, ResponseShape shape,
                                                            const ReadOwnFields& read_own_fields) {
  const auto document = parse_json_object(body, limits);
  if (const auto* error = std::get_if<ApiError>(&document)) return *error;
  FieldReader fields(std::get<json::object>(document));
  ApiRequest request;
  request.shape = shape;
  request.generation.model = read_model(fields, models, ModelTask::kGenerate);
  if (fields.error()) return *fields.error();
  read_common_fields(fields, {models[request.generation.model], limits}, request);
  read_own_fields(fields, request);
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace troupe
