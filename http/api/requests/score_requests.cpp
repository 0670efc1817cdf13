// SPDX-License-Identifier: Apache-2.0
// POST /v1/classify and /v1/score in vLLM's shapes, POST /v1/rerank in Cohere's and
// Jina's. A classifier gets pairs; of a model of vectors the texts are compared, so they
// are its inputs one by one.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "http/api/requests/encoder_fields.hpp"
#include "http/api/requests/openai_api.hpp"
#include "http/api/requests/unsupported_fields.hpp"
#include "http/json/json_document.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

using Texts = std::vector<std::string>;

// A text of a list: a string, or an object with one, as Cohere and Jina have it.
void read_element(FieldReader& fields, const std::string& name, const json::value& element, Texts& texts) {
  const json::value* text = &element;
  if (element.is_object()) text = element.get_object().if_contains("text");
  if (text == nullptr || !text->is_string())
    return fields.fail(name, "a string or an object with a text", element);
  if (text->get_string().empty()) return fields.fail(name, " must not be empty");
  texts.emplace_back(text->get_string().data(), text->get_string().size());
}

struct TextField {
  Texts texts;
  bool is_list = false;
};

// may_be_one: a string will do as well.
TextField read_texts(FieldReader& fields, const char* name, bool may_be_one, const Limits& limits) {
  TextField read;
  const auto* value = fields.find(name);
  if (value == nullptr) {
    fields.fail(name, " is required");
  } else if (may_be_one && value->is_string()) {
    read_element(fields, name, *value, read.texts);
  } else if (!value->is_array()) {
    fields.fail(name, may_be_one ? "a string or a list of strings" : "a list of strings", *value);
  } else {
    const json::array& list = value->get_array();
    read.is_list = true;
    if (list.empty()) fields.fail(name, " must not be an empty list");
    if (list.size() > limits.max_embedding_inputs)
      fields.fail(name, " may hold at most " + std::to_string(limits.max_embedding_inputs) + " texts, got " +
                            std::to_string(list.size()));
    for (std::size_t i = 0; i < list.size() && !fields.error(); ++i)
      read_element(fields, std::string(name) + "[" + std::to_string(i) + "]", list[i], read.texts);
  }
  return read;
}

// Two fields whose texts are to be put together: one with each, or pair by pair.
struct TwoFields {
  const char* first_name;
  TextField first;
  const char* second_name;
  TextField second;
  std::string first_prompt = {}, second_prompt = {};  // of a model of vectors

  std::size_t num_pairs() const { return second.texts.size(); }
  const std::string& first_of(std::size_t pair) const {
    return first.texts[first.texts.size() == 1 ? 0 : pair];
  }
};

// A text that is in many pairs is encoded in each.
void check_pair_bytes(FieldReader& fields, const TwoFields& two, const Limits& limits) {
  std::size_t num_bytes = 0;
  for (std::size_t i = 0; i < two.num_pairs(); ++i)
    num_bytes += two.first_of(i).size() + two.second.texts[i].size();
  if (num_bytes > limits.max_pair_bytes)
    fields.fail(two.first_name, " with each of " + std::string(two.second_name) + " makes " +
                                    std::to_string(num_bytes) + " bytes of text to encode; at most " +
                                    std::to_string(limits.max_pair_bytes) + " are possible");
}

void add_pairs(TwoFields two, EmbeddingRequest& request) {
  std::vector<std::shared_ptr<const std::string>> firsts;
  for (auto& text : two.first.texts) firsts.push_back(std::make_shared<const std::string>(std::move(text)));
  for (std::size_t i = 0; i < two.num_pairs(); ++i)
    request.inputs.emplace_back(
        TextPrompt{.text = std::move(two.second.texts[i]), .first = firsts[firsts.size() == 1 ? 0 : i]});
  request.fields = {{two.second_name, two.num_pairs(), two.second.is_list}};
}

void add_singles(TwoFields two, EmbeddingRequest& request) {
  for (const auto& text : two.first.texts) request.inputs.emplace_back(TextPrompt{two.first_prompt + text});
  for (const auto& text : two.second.texts) request.inputs.emplace_back(TextPrompt{two.second_prompt + text});
  request.fields = {{two.first_name, two.first.texts.size(), two.first.is_list},
                    {two.second_name, two.second.texts.size(), two.second.is_list}};
}

void add_inputs(FieldReader& fields, TwoFields two, const ServedModelInfo& model, const Limits& limits,
                ApiEmbeddingRequest& request) {
  if (model.kind == ModelKind::kClassifying) {
    check_pair_bytes(fields, two, limits);
    if (!fields.error()) add_pairs(std::move(two), request.embedding);
  } else {
    request.num_first = static_cast<std::uint32_t>(two.first.texts.size());
    add_singles(std::move(two), request.embedding);
  }
}

// vLLM's name, two older ones, and that of text-embeddings-inference, which says the contrary.
bool read_activation(FieldReader& fields) {
  bool activates = true;
  for (const char* name : {"softmax", "activation", "use_activation"})
    activates = fields.boolean(name).value_or(activates);
  return activates && !fields.boolean("raw_scores").value_or(false);
}

void read_score(FieldReader& fields, const ServedModelInfo& model, const Limits& limits,
                ApiEmbeddingRequest& request) {
  request.use = VectorUse::kScores;
  TwoFields two{.first_name = "text_1",
                .first = read_texts(fields, "text_1", true, limits),
                .second_name = "text_2",
                .second = read_texts(fields, "text_2", true, limits),
                .first_prompt = model.prompts.default_text,
                .second_prompt = model.prompts.default_text};
  if (fields.error()) return;
  if (two.first.texts.size() != 1 && two.first.texts.size() != two.num_pairs())
    return fields.fail("text_1", " must be one text or as many as text_2, which has " +
                                     std::to_string(two.num_pairs()) + "; got " +
                                     std::to_string(two.first.texts.size()));
  add_inputs(fields, std::move(two), model, limits, request);
}

void read_rerank(FieldReader& fields, const ServedModelInfo& model, const Limits& limits,
                 ApiEmbeddingRequest& request) {
  request.use = VectorUse::kRanks;
  const auto query = fields.string("query");
  if (!query) {
    fields.fail("query", " is required");
  } else if (query->empty()) {
    fields.fail("query", " must not be empty");
  }
  TwoFields two{
      .first_name = "query",
      .first = {.texts = {query.value_or("")}},
      .second_name = "documents",
      .second = read_texts(fields, "documents", false, limits),
      .first_prompt = model.prompts.find_or_default({"query", "search_query"}),
      .second_prompt = model.prompts.find_or_default({"document", "passage", "corpus", "search_document"})};
  request.top_n = static_cast<std::uint32_t>(
      fields.integer("top_n", 0, std::numeric_limits<std::int32_t>::max()).value_or(0));
  if (fields.boolean("return_documents").value_or(true)) request.documents = two.second.texts;
  if (!fields.error()) add_inputs(fields, std::move(two), model, limits, request);
}

template <typename ReadOwnFields>
std::variant<ApiEmbeddingRequest, ApiError> parse(std::string_view body, const ServedModels& models,
                                                  const Limits& limits, ModelTask task,
                                                  const ReadOwnFields& read_own_fields) {
  const auto document = parse_json_object(body, limits);
  if (const auto* error = std::get_if<ApiError>(&document)) return *error;
  FieldReader fields(std::get<json::object>(document));
  ApiEmbeddingRequest request;
  request.embedding.model = read_model(fields, models, task);
  if (fields.error()) return *fields.error();
  const ServedModelInfo& model = models[request.embedding.model];
  read_own_fields(fields, model, limits, request);
  request.activates = read_activation(fields);
  request.embedding.truncates = read_truncation(fields, model);
  refuse_unsupported_score_fields(fields);
  if (fields.error()) return *fields.error();
  return request;
}

// A tree in JSON travels on as its text, as one in brackets does.
void read_tree(FieldReader& fields, const std::string& name, const json::value& value,
               EmbeddingRequest& request) {
  if (value.is_object()) {
    request.inputs.emplace_back(TextPrompt{json::serialize(value)});
  } else if (value.is_string()) {
    request.inputs.emplace_back(TextPrompt{std::string(value.get_string())});
  } else {
    fields.fail(name, "a tree: brackets in a string, or an object", value);
  }
}

// One tree, or a list of them.
void read_trees(FieldReader& fields, const Limits& limits, EmbeddingRequest& request) {
  const auto* value = fields.find("input");
  if (value == nullptr) return fields.fail("input", " is required");
  if (!value->is_array()) return read_tree(fields, "input", *value, request);
  const json::array& list = value->get_array();
  if (list.empty()) return fields.fail("input", " must not be an empty list");
  if (list.size() > limits.max_embedding_inputs)
    return fields.fail("input", " may hold at most " + std::to_string(limits.max_embedding_inputs) +
                                    " inputs a request, got " + std::to_string(list.size()));
  for (std::size_t i = 0; i < list.size() && !fields.error(); ++i)
    read_tree(fields, "input[" + std::to_string(i) + "]", list[i], request);
  request.fields = {{"input", list.size(), true}};
}

void read_classify(FieldReader& fields, const ServedModelInfo& model, const Limits& limits,
                   ApiEmbeddingRequest& request) {
  request.use = VectorUse::kClasses;
  if (model.classifies_trees) return read_trees(fields, limits, request.embedding);
  read_input(fields, limits, {}, request.embedding);
}

}  // namespace

std::variant<ApiEmbeddingRequest, ApiError> parse_classify_request(std::string_view body,
                                                                   const ServedModels& models,
                                                                   const Limits& limits) {
  return parse(body, models, limits, ModelTask::kClassify, read_classify);
}

std::variant<ApiEmbeddingRequest, ApiError> parse_score_request(std::string_view body,
                                                                const ServedModels& models,
                                                                const Limits& limits) {
  return parse(body, models, limits, ModelTask::kScore, read_score);
}

std::variant<ApiEmbeddingRequest, ApiError> parse_rerank_request(std::string_view body,
                                                                 const ServedModels& models,
                                                                 const Limits& limits) {
  return parse(body, models, limits, ModelTask::kScore, read_rerank);
}

}  // namespace troupe
