// SPDX-License-Identifier: Apache-2.0
#include "http/logprobs_json.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "http/json_text.hpp"

namespace troupe {
namespace {

constexpr float kLowestShown = -9999.0F;

// "[" element "," element … "]"
template <typename Elements, typename Append>
void append_list(std::string& out, const Elements& elements, Append append) {
  out += "[";
  bool is_first = true;
  for (const auto& element : elements) {
    if (!is_first) out += ",";
    is_first = false;
    append(element);
  }
  out += "]";
}

void append_logprob(std::string& out, float logprob) {
  append_json_float(out, std::max(logprob, kLowestShown));
}

// "token":…,"logprob":…,"bytes":[…]
void append_token_members(std::string& out, const LikelyToken& token) {
  out += "\"token\":";
  append_json_string(out, token.text);
  out += ",\"logprob\":";
  append_logprob(out, token.logprob);
  out += ",\"bytes\":";
  append_list(out, token.bytes,
              [&](char byte) { append_json_integer(out, static_cast<unsigned char>(byte)); });
}

void append_content(std::string& out, std::span<const AnswerToken> tokens) {
  append_list(out, tokens, [&](const AnswerToken& token) {
    out += "{";
    append_token_members(out, token.token);
    out += ",\"top_logprobs\":";
    append_list(out, token.top, [&](const LikelyToken& likely) {
      out += "{";
      append_token_members(out, likely);
      out += "}";
    });
    out += "}";
  });
}

// "null" of a prompt's first token.
template <typename Append>
void append_if_known(std::string& out, const AnswerToken& token, Append append) {
  if (token.has_logprob) {
    append();
  } else {
    out += "null";
  }
}

// By text. Of several tokens with one text, which only parts of characters can
// have, the most likely counts.
void append_logprobs_by_text(std::string& out, const AnswerToken& token) {
  std::vector<const LikelyToken*> likely;
  const auto add = [&](const LikelyToken& next) {
    const auto has_its_text = [&](const LikelyToken* other) { return other->text == next.text; };
    if (std::none_of(likely.begin(), likely.end(), has_its_text)) likely.push_back(&next);
  };
  for (const LikelyToken& next : token.top) add(next);
  add(token.token);
  out += "{";
  for (const LikelyToken* next : likely) {
    if (next != likely.front()) out += ",";
    append_json_string(out, next->text);
    out += ":";
    append_logprob(out, next->logprob);
  }
  out += "}";
}

void append_parallel_lists(std::string& out, std::span<const AnswerToken> tokens) {
  out += "{\"text_offset\":";
  append_list(out, tokens, [&](const AnswerToken& token) { append_json_integer(out, token.text_offset); });
  out += ",\"token_logprobs\":";
  append_list(out, tokens, [&](const AnswerToken& token) {
    append_if_known(out, token, [&] { append_logprob(out, token.token.logprob); });
  });
  out += ",\"tokens\":";
  append_list(out, tokens, [&](const AnswerToken& token) { append_json_string(out, token.token.text); });
  out += ",\"top_logprobs\":";
  append_list(out, tokens, [&](const AnswerToken& token) {
    append_if_known(out, token, [&] { append_logprobs_by_text(out, token); });
  });
  out += "}";
}

}  // namespace

void append_logprobs(std::string& out, ResponseShape shape, std::span<const AnswerToken> tokens) {
  switch (shape) {
    case ResponseShape::kChat:
      out += "{\"content\":";
      append_content(out, tokens);
      out += ",\"refusal\":null}";
      return;
    case ResponseShape::kCompletion: return append_parallel_lists(out, tokens);
    case ResponseShape::kResponse: return append_content(out, tokens);
  }
}

}  // namespace troupe
