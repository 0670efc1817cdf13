// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/logprobs_json.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "http/json/json_text.hpp"

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

void append_content_element(std::string& out, const AnswerToken& token) {
  out += "{";
  append_token_members(out, token.token);
  out += ",\"top_logprobs\":";
  append_list(out, token.top, [&](const LikelyToken& likely) {
    out += "{";
    append_token_members(out, likely);
    out += "}";
  });
  out += "}";
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

// "ID":{"logprob":…,"rank":…,"decoded_token":…}; rank 0: not known.
void append_ranked(std::string& out, const LikelyToken& token, std::size_t rank) {
  out += '"';
  append_json_integer(out, token.id);
  out += "\":{\"logprob\":";
  append_logprob(out, token.logprob);
  out += ",\"rank\":";
  if (rank > 0) {
    append_json_integer(out, static_cast<std::int64_t>(rank));
  } else {
    out += "null";
  }
  out += ",\"decoded_token\":";
  append_json_string(out, token.text);
  out += '}';
}

void append_prompt_token(std::string& out, const AnswerToken& token) {
  append_if_known(out, token, [&] {
    const auto is_itself = [&](const LikelyToken& other) { return other.id == token.token.id; };
    const auto found = std::find_if(token.top.begin(), token.top.end(), is_itself);
    out += '{';
    append_ranked(out, token.token,
                  found == token.top.end() ? 0 : static_cast<std::size_t>(found - token.top.begin()) + 1);
    for (std::size_t i = 0; i < token.top.size(); ++i) {
      if (is_itself(token.top[i])) continue;
      out += ',';
      append_ranked(out, token.top[i], i + 1);
    }
    out += '}';
  });
}

constexpr std::array kContent = {LogprobsLayout::Entry{"", LogprobsList::kContent}};
constexpr std::array kContentOfChat = {LogprobsLayout::Entry{"{\"content\":", LogprobsList::kContent}};
constexpr std::array kParallelLists = {
    LogprobsLayout::Entry{"{\"text_offset\":", LogprobsList::kTextOffsets},
    LogprobsLayout::Entry{",\"token_logprobs\":", LogprobsList::kTokenLogprobs},
    LogprobsLayout::Entry{",\"tokens\":", LogprobsList::kTokens},
    LogprobsLayout::Entry{",\"top_logprobs\":", LogprobsList::kTopLogprobs}};

}  // namespace

void append_logprobs(std::string& out, ResponseShape shape, std::span<const AnswerToken> tokens) {
  const LogprobsLayout layout = logprobs_layout(shape);
  for (const auto& [before, list] : layout.lists) {
    out += before;
    append_list(out, tokens,
                [&, list = list](const AnswerToken& token) { append_logprobs_element(out, list, token); });
  }
  out += layout.end;
}

LogprobsLayout logprobs_layout(ResponseShape shape) {
  switch (shape) {
    case ResponseShape::kChat: return {.lists = kContentOfChat, .end = ",\"refusal\":null}"};
    case ResponseShape::kCompletion: return {.lists = kParallelLists, .end = "}"};
    case ResponseShape::kMessage:  // has none
    case ResponseShape::kOllamaChat:
    case ResponseShape::kOllamaGenerate:
    case ResponseShape::kResponse: break;
  }
  return {.lists = kContent, .end = ""};
}

void append_prompt_logprobs(std::string& out, std::span<const AnswerToken> tokens) {
  append_list(out, tokens, [&](const AnswerToken& token) { append_prompt_token(out, token); });
}

void append_logprobs_element(std::string& out, LogprobsList list, const AnswerToken& token) {
  switch (list) {
    case LogprobsList::kContent: return append_content_element(out, token);
    case LogprobsList::kTextOffsets: return append_json_integer(out, token.text_offset);
    case LogprobsList::kTokenLogprobs:
      return append_if_known(out, token, [&] { append_logprob(out, token.token.logprob); });
    case LogprobsList::kTokens: return append_json_string(out, token.token.text);
    case LogprobsList::kPromptTokens: return append_prompt_token(out, token);
    case LogprobsList::kTopLogprobs:
      return append_if_known(out, token, [&] { append_logprobs_by_text(out, token); });
  }
}

}  // namespace troupe
