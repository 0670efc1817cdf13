// SPDX-License-Identifier: Apache-2.0
#include "http/generation_fields.hpp"

#include <algorithm>
#include <limits>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "http/json_document.hpp"
#include "http/json_text.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxModelNameShown = 128;
constexpr std::size_t kMaxCacheSaltBytes = 128;

void read_model(FieldReader& fields, const ParseSettings& settings) {
  const auto name = fields.string("model");
  if (name && *name != settings.model.name) {
    fields.fail_model(shorten(*name, kMaxModelNameShown), settings.model.name);
  }
}

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

std::optional<std::int64_t> read_max_tokens(FieldReader& fields, ResponseShape shape) {
  if (shape == ResponseShape::kResponse) return fields.integer("max_output_tokens", 1, kMost);
  // A prompt may be repeated, and scored, without an answer.
  const bool may_be_none = shape == ResponseShape::kCompletion && fields.boolean("echo").value_or(false);
  const std::int64_t least = may_be_none ? 0 : 1;
  const auto max_tokens = fields.integer("max_completion_tokens", least, kMost);
  const auto old_name = fields.integer("max_tokens", least, kMost);
  return max_tokens ? max_tokens : old_name;
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

void add_stop(FieldReader& fields, const ParseSettings& settings, const json::value& value,
              std::vector<std::string>& stop) {
  if (!value.is_string()) return fields.fail("stop", "a string or a list of strings", value);
  const auto& text = value.get_string();
  if (text.empty()) return fields.fail("stop", " must not contain an empty string");
  if (text.size() > settings.limits.max_stop_string_bytes) {
    return fields.fail("stop", " must not contain strings longer than " +
                                   std::to_string(settings.limits.max_stop_string_bytes) +
                                   " bytes, got one of " + std::to_string(text.size()));
  }
  stop.emplace_back(text.c_str(), text.size());
}

void read_stops(FieldReader& fields, const ParseSettings& settings, GenerationRequest& request) {
  if (const auto* stop = fields.find("stop"); stop != nullptr && !stop->is_array()) {
    add_stop(fields, settings, *stop, request.stop);
  } else if (stop != nullptr) {
    if (stop->get_array().size() > settings.limits.max_stop_strings) {
      fields.fail("stop",
                  "a list of at most " + std::to_string(settings.limits.max_stop_strings) + " strings",
                  *stop);
    }
    for (const auto& entry : stop->get_array()) add_stop(fields, settings, entry, request.stop);
  }
  const auto* ids = fields.find("stop_token_ids");
  const std::string expectation =
      "a list of at most " + std::to_string(settings.limits.max_stop_token_ids) + " token ids";
  if (ids == nullptr) return;
  if (!ids->is_array() || ids->get_array().size() > settings.limits.max_stop_token_ids) {
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

void read_streaming(FieldReader& fields, ApiRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  const auto* value = fields.find("stream_options");
  if (value == nullptr) return;
  if (!value->is_object()) return fields.fail("stream_options", "an object", *value);
  FieldReader options(value->get_object(), "stream_options.");
  request.include_usage = options.boolean("include_usage").value_or(false);
  request.continuous_usage_stats = options.boolean("continuous_usage_stats").value_or(false);
  fields.adopt(options);
}

// Model name, sampling, lengths, stops, streaming.
void read_common_fields(FieldReader& fields, const ParseSettings& settings, ApiRequest& request) {
  GenerationRequest& generation = request.generation;
  read_model(fields, settings);
  read_sampling_fields(fields, settings, request);
  read_lengths(fields, settings, request);
  read_stops(fields, settings, generation);
  read_streaming(fields, request);
  read_cache_salt(fields, generation);
  generation.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  generation.include_stop_in_output = fields.boolean("include_stop_str_in_output").value_or(false);
  refuse_unsupported_fields(fields, request.shape);
}

}  // namespace

std::variant<ApiRequest, ApiError> parse_generation_request(std::string_view body,
                                                            const ParseSettings& settings, ApiRequest request,
                                                            const ReadOwnFields& read_own_fields) {
  const auto document = parse_json_object(body, settings.limits);
  if (const auto* error = std::get_if<ApiError>(&document)) return *error;
  FieldReader fields(std::get<json::object>(document));
  read_common_fields(fields, settings, request);
  read_own_fields(fields, request);
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace troupe
