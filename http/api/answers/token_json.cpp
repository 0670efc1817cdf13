// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/token_json.hpp"

#include "http/json/json_text.hpp"

namespace troupe {
namespace {

// Elements of a list, each written by `append`.
template <typename List, typename Append>
void append_list(std::string& out, const List& list, const Append& append) {
  out += '[';
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += ',';
    append(list[i]);
  }
  out += ']';
}

std::string tokens_json(const ApiTokenRequest& request, const ServedModelInfo& model,
                        const EncodedText& answer) {
  std::string out = "{\"count\":";
  append_json_integer(out, static_cast<std::int64_t>(answer.tokens.size()));
  out += ",\"max_model_len\":";
  append_json_integer(out, model.context_length);
  out += ",\"tokens\":";
  append_list(out, answer.tokens, [&](std::int32_t token) { append_json_integer(out, token); });
  out += ",\"token_strs\":";
  if (request.generation.wants_token_texts) {
    append_list(out, answer.token_texts, [&](const std::string& text) { append_json_string(out, text); });
  } else {
    out += "null";
  }
  return out + "}";
}

}  // namespace

std::string token_json(const ApiTokenRequest& request, const ServedModelInfo& model,
                       const EncodedText& answer) {
  switch (request.answer) {
    case ApiTokenRequest::Answer::kTokens: return tokens_json(request, model, answer);
    case ApiTokenRequest::Answer::kText: return "{\"prompt\":" + json_string(answer.text) + "}";
    case ApiTokenRequest::Answer::kCount: break;
  }
  return "{\"input_tokens\":" + std::to_string(answer.tokens.size()) + "}";
}

}  // namespace troupe
