// SPDX-License-Identifier: Apache-2.0
// Bodies of Ollama's API: views of the same requests that chats, completions and
// embeddings make. Sampling is in an object `options`; a stream is the default; a body
// without a prompt asks for the model to be loaded, which it is.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "http/api/requests/encoder_fields.hpp"
#include "http/api/requests/generation_fields.hpp"
#include "http/api/requests/message_fields.hpp"
#include "http/api/requests/openai_api.hpp"
#include "http/api/requests/tool_fields.hpp"
#include "http/api/requests/unsupported_fields.hpp"
#include "http/json/json_document.hpp"
#include "http/json/json_text.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 4> kRoles = {"system", "user", "assistant", "tool"};
constexpr std::array<std::string_view, 1> kTextParts = {"text"};
constexpr std::array<std::string_view, 4> kThinkLevels = {"low", "medium", "high", "max"};
// Units of Go's durations; a name that begins another one comes behind it.
constexpr std::array<std::string_view, 8> kTimeUnits = {"ns", "us", "\u00b5s", "\u03bcs",
                                                        "ms", "s",  "m",       "h"};
constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::string_view kDefaultTag = ":latest";  // which clients put behind names without one

template <std::size_t kSize>
bool is_one_of(const std::array<std::string_view, kSize>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The model; called: its name as the client says it.
ModelIndex read_called_model(FieldReader& fields, const ServedModels& models, std::optional<ModelTask> task,
                             std::string& called) {
  auto name = fields.string("model");
  if (!name) name = fields.string("name");  // older clients
  if (fields.error()) return 0;
  if (name) called = *name;
  if (name && !models.find(*name) && name->ends_with(kDefaultTag))
    name->resize(name->size() - kDefaultTag.size());
  auto chosen = models.choose(name, task);
  if (auto* error = std::get_if<ApiError>(&chosen)) {
    fields.fail(std::move(*error));
    return 0;
  }
  const ModelIndex model = std::get<ModelIndex>(chosen);
  if (called.empty()) called = models[model].name;
  return model;
}

// -1 and -2: as many as there is room for.
void read_num_predict(FieldReader& options, const ServedModelInfo& model, GenerationRequest& request) {
  const auto* value = options.find("num_predict");
  if (value == nullptr || as_integer(*value) == -1 || as_integer(*value) == -2) return;
  const auto number = options.integer("num_predict", 1, kMost);
  if (number)
    request.max_tokens = static_cast<std::uint32_t>(std::min<std::int64_t>(*number, model.context_length));
}

// Penalties count all tokens: another window changes nothing only where the request has none. The model's own
// is as its files say.
void check_penalty_window(FieldReader& options, const SamplingParameters& sampling) {
  const auto* window = options.find("repeat_last_n");
  const bool is_asked = options.find("repeat_penalty") != nullptr;
  const bool has_penalty = (is_asked && sampling.repetition_penalty != 1.0F) ||
                           sampling.presence_penalty != 0.0F || sampling.frequency_penalty != 0.0F;
  if (window == nullptr || !has_penalty || as_integer(*window) == -1) return;
  options.fail("repeat_last_n",
               " is not supported yet except as -1 where there is a penalty, got " + describe(*window));
}

// Options of the host (num_ctx, num_gpu, num_thread, …) are unknown here and ignored.
void read_options(FieldReader& fields, const ParseSettings& settings, ApiRequest& request) {
  static const json::object kNone;
  const auto* value = fields.find("options");
  if (value != nullptr && !value->is_object()) return fields.fail("options", "an object", *value);
  FieldReader options(value == nullptr ? kNone : value->get_object(), "options.");
  GenerationRequest& generation = request.generation;
  read_sampling_fields(options, settings, request);
  const auto* seed = options.find("seed");
  if (seed != nullptr && as_integer(*seed) == -1) {  // any
    generation.has_seed = false;
    generation.sampling.seed = 0;
  }
  check_penalty_window(options, generation.sampling);
  read_num_predict(options, settings.model, generation);
  read_stop_strings(options, "stop", settings.limits, generation);
  refuse_unsupported_ollama_options(options);
  fields.adopt(options);
}

// "json", a schema, or nothing.
void read_format(FieldReader& fields, GenerationRequest& request) {
  const auto* value = fields.find("format");
  if (value == nullptr || *value == "") return;
  if (*value == "json") {
    request.form = OutputForm{.kind = OutputForm::Kind::kJsonObject, .field = "format"};
  } else if (value->is_object()) {
    request.form =
        OutputForm{.kind = OutputForm::Kind::kJsonSchema, .text = json::serialize(*value), .field = "format"};
  } else {
    fields.fail("format", "\"json\" or a JSON schema", *value);
  }
}

// Models think as their templates have it, unless those can be told. A level is a wish.
void read_think(FieldReader& fields, const ServedModelInfo& model, ChatPrompt& prompt) {
  const auto* value = fields.find("think");
  if (value == nullptr) return;
  const auto* level = value->if_string();
  if (level != nullptr ? !is_one_of(kThinkLevels, {level->data(), level->size()}) : !value->is_bool())
    return fields.fail("think", "true, false, \"low\", \"medium\", \"high\" or \"max\"", *value);
  const bool thinks = level != nullptr || value->get_bool();
  if (model.switches_reasoning) prompt.thinks = thinks;
  if (model.switches_reasoning || thinks == model.reasons) return;
  fields.fail("think", thinks
                           ? " can't be asked of the model " + json_string(model.name) +
                                 ", whose chat template knows no reasoning"
                           : " is not supported yet except as true by the model " + json_string(model.name));
}

// The number that a text begins with, in digits with a point among or around them, taken off the text.
std::string_view take_decimal(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, end);
  const bool has_digit = number.find_first_not_of('.') != std::string_view::npos;
  if (!has_digit || std::count(number.begin(), number.end(), '.') > 1) return {};
  text.remove_prefix(end);
  return number;
}

// True: a duration, as "1h30m" or "-1s" is one, that is zero ("0", "0s"); nullopt: no duration.
std::optional<bool> is_zero_duration(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (text == "0") return true;
  bool is_zero = true;
  do {
    const std::string_view number = take_decimal(text);
    const auto unit = std::find_if(kTimeUnits.begin(), kTimeUnits.end(),
                                   [&](std::string_view name) { return text.starts_with(name); });
    if (number.empty() || unit == kTimeUnits.end()) return std::nullopt;
    text.remove_prefix(unit->size());
    is_zero = is_zero && number.find_first_not_of("0.") == std::string_view::npos;
  } while (!text.empty());
  return is_zero;
}

// Seconds, or a duration.
std::optional<bool> is_zero_time(const json::value& keep_alive) {
  if (const auto* text = keep_alive.if_string()) return is_zero_duration({text->data(), text->size()});
  if (keep_alive.is_number()) return keep_alive.to_number<double>() == 0;
  return std::nullopt;
}

// Models stay loaded whatever it says, but for the question to unload one.
void read_keep_alive(FieldReader& fields, bool only_loads) {
  const auto* value = fields.find("keep_alive");
  if (value == nullptr) return;
  const auto is_zero = is_zero_time(*value);
  if (!is_zero) return fields.fail("keep_alive", "a number of seconds or a duration such as \"5m\"", *value);
  if (only_loads && *is_zero)
    fields.fail("keep_alive", " is not supported as 0 without a prompt: models are not unloaded");
}

// Reads what only one endpoint has; says whether there is something to answer.
using ReadPrompt =
    std::function<bool(FieldReader& fields, const ParseSettings& settings, ApiRequest& request)>;

std::variant<ApiRequest, ApiError> parse_generating(std::string_view body, const ServedModels& models,
                                                    const Limits& limits, ResponseShape shape,
                                                    const ReadPrompt& read_prompt) {
  const auto document = parse_json_object(body, limits);
  if (const auto* error = std::get_if<ApiError>(&document)) return *error;
  FieldReader fields(std::get<json::object>(document));
  ApiRequest request;
  request.shape = shape;
  request.generation.model = read_called_model(fields, models, ModelTask::kGenerate, request.called_model);
  if (fields.error()) return *fields.error();
  const ParseSettings settings{models[request.generation.model], limits};
  request.stream = fields.boolean("stream").value_or(true);
  read_options(fields, settings, request);
  read_logprob_fields(fields, request);
  read_format(fields, request.generation);
  refuse_unsupported_fields(fields, shape);
  request.only_loads = !read_prompt(fields, settings, request);
  read_keep_alive(fields, request.only_loads);
  if (fields.error()) return *fields.error();
  return request;
}

void read_message(FieldReader& message, const Limits& limits, ChatMessage& out) {
  out.role = message.string("role").value_or("");
  if (!is_one_of(kRoles, out.role)) message.fail("role", " must be system, user, assistant or tool");
  if (const auto* images = message.find("images"); images != nullptr && *images != json::array())
    message.fail("images", " is not supported yet except as an empty list, got " + describe(*images));
  read_tool_calls(message, limits, out, CallShape::kObjectArguments);
  if (out.role == "tool") {
    out.tool_call_id = read_call_id(message, "tool_call_id");
    out.name = read_call_id(message, "tool_name");
  }
  if (out.role == "assistant") out.reasoning = message.string("thinking").value_or("");
  if (message.find("content") != nullptr || out.role != "assistant")
    read_content(message, "content", kTextParts, limits, out.content);
}

bool read_chat(FieldReader& fields, const ParseSettings& settings, ApiRequest& request) {
  const Limits& limits = settings.limits;
  auto& prompt = request.generation.prompt.emplace<ChatPrompt>();
  const auto* messages = fields.find("messages");
  if (messages == nullptr || *messages == json::array()) return false;
  read_message_list(fields, "messages", "messages", limits,
                    {.begin = [&](std::size_t number) { prompt.messages.resize(number); },
                     .read = [&](FieldReader& message,
                                 std::size_t i) { read_message(message, limits, prompt.messages[i]); }});
  read_tools(fields, ToolShape::kNested, limits, prompt);
  prompt.splits_answer = true;
  read_think(fields, settings.model, prompt);
  check_demand_alone(fields, request.generation);
  return true;
}

// The text as it is, without a template; so, too, before a suffix. A client of raw prompts has rendered a
// template itself, so its markers are read; text before a suffix is somebody's file, in which they are
// letters.
void read_raw_prompt(FieldReader& fields, std::string text, std::string suffix, GenerationRequest& request) {
  const std::string sentence =
      suffix.empty() ? " can't be joined with raw" : " can't be joined with a suffix";
  if (!fields.string("system").value_or("").empty()) fields.fail("system", sentence);
  if (const auto* think = fields.find("think"); think != nullptr && *think != false)
    fields.fail("think", sentence);
  TextPrompt prompt{.text = std::move(text), .reads_special_tokens = suffix.empty()};
  if (!suffix.empty()) prompt.suffix = std::move(suffix);
  request.prompt = std::move(prompt);
}

bool read_text(FieldReader& fields, const ParseSettings& settings, ApiRequest& request) {
  std::string text = fields.string("prompt").value_or("");
  std::string suffix = fields.string("suffix").value_or("");
  if (text.empty() && suffix.empty()) return false;
  if (fields.boolean("raw").value_or(false) || !suffix.empty()) {
    read_raw_prompt(fields, std::move(text), std::move(suffix), request.generation);
    return true;
  }
  auto& prompt = request.generation.prompt.emplace<ChatPrompt>();
  if (auto system = fields.string("system"); system && !system->empty())
    prompt.messages.push_back({.role = "system", .content = std::move(*system)});
  prompt.messages.push_back({.role = "user", .content = std::move(text)});
  prompt.splits_answer = true;
  read_think(fields, settings.model, prompt);
  return true;
}

// Inputs that are too long lose their end unless `truncate` says otherwise.
void read_vector_fields(FieldReader& fields, const ServedModelInfo& model, ApiEmbeddingRequest& request) {
  request.format = EmbeddingFormat::kBare;
  request.embedding.truncates = fields.boolean("truncate").value_or(true);
  const auto dimensions = fields.integer("dimensions", 1, model.embedding_size);
  request.dimensions = static_cast<std::uint32_t>(dimensions.value_or(0));
  const auto* options = fields.find("options");
  if (options != nullptr && !options->is_object()) fields.fail("options", "an object", *options);
  read_keep_alive(fields, request.only_loads);
}

// name: of the field with the texts.
std::variant<ApiEmbeddingRequest, ApiError> parse_embedding(std::string_view body, const ServedModels& models,
                                                            const Limits& limits, VectorUse use,
                                                            std::string_view name) {
  const auto document = parse_json_object(body, limits);
  if (const auto* error = std::get_if<ApiError>(&document)) return *error;
  FieldReader fields(std::get<json::object>(document));
  ApiEmbeddingRequest request{.use = use};
  request.embedding.model = read_called_model(fields, models, ModelTask::kEmbed, request.called_model);
  if (fields.error()) return *fields.error();
  const ServedModelInfo& model = models[request.embedding.model];
  const auto* input = fields.find(name);
  request.only_loads = input == nullptr || *input == "" || *input == json::array();
  read_vector_fields(fields, model, request);
  if (!request.only_loads && use == VectorUse::kOllamaVectors) {
    read_input(fields, limits, model.prompts.default_text, request.embedding);
  } else if (!request.only_loads) {
    request.embedding.inputs.emplace_back(
        TextPrompt{model.prompts.default_text + fields.string(name).value_or("")});
    request.embedding.fields = {{.name = std::string(name), .num_inputs = 1, .is_list = false}};
  }
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace

std::variant<ApiRequest, ApiError> parse_ollama_chat_request(std::string_view body,
                                                             const ServedModels& models,
                                                             const Limits& limits) {
  return parse_generating(body, models, limits, ResponseShape::kOllamaChat, read_chat);
}

std::variant<ApiRequest, ApiError> parse_ollama_generate_request(std::string_view body,
                                                                 const ServedModels& models,
                                                                 const Limits& limits) {
  return parse_generating(body, models, limits, ResponseShape::kOllamaGenerate, read_text);
}

std::variant<ApiEmbeddingRequest, ApiError> parse_ollama_embed_request(std::string_view body,
                                                                       const ServedModels& models,
                                                                       const Limits& limits) {
  return parse_embedding(body, models, limits, VectorUse::kOllamaVectors, "input");
}

std::variant<ApiEmbeddingRequest, ApiError> parse_ollama_embeddings_request(std::string_view body,
                                                                            const ServedModels& models,
                                                                            const Limits& limits) {
  return parse_embedding(body, models, limits, VectorUse::kOllamaVector, "prompt");
}

std::variant<ModelIndex, ApiError> parse_ollama_show_request(std::string_view body,
                                                             const ServedModels& models,
                                                             const Limits& limits) {
  const auto document = parse_json_object(body, limits);
  if (const auto* error = std::get_if<ApiError>(&document)) return *error;
  FieldReader fields(std::get<json::object>(document));
  std::string called;
  const ModelIndex model = read_called_model(fields, models, std::nullopt, called);
  if (fields.error()) return *fields.error();
  return model;
}

}  // namespace troupe
