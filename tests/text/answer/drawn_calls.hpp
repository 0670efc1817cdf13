// SPDX-License-Identifier: Apache-2.0
// Calls of tools that are drawn at random from the masks of their grammars, in every format: shared by a
// unit test and by the program that draws a hundred thousand.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temporary_directory.hpp"
#include "tests/text/answer/call_formats.hpp"
#include "tests/text/grammar/grammar_run.hpp"
#include "text/answer/answer_parser.hpp"
#include "text/answer/call_grammar.hpp"
#include "text/detokenizer.hpp"
#include "text/grammar/grammar_vocabulary.hpp"
#include "text/tokenizer/byte_alphabet.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

struct CallCase {
  std::string name;
  AnswerFormat format;
  std::vector<std::string> specials = {};  // tokens of their own
  bool has_special_marks() const { return format.is_harmony() && !specials.empty(); }
};

inline std::vector<CallCase> call_cases() {
  const ReasoningFormat think = {.begin = "<think>", .end = "</think>"};
  const CallFormat glm = {.style = CallStyle::kTagged,
                          .call_begin = "<tool_call>",
                          .call_end = "</tool_call>",
                          .key_begin = "<arg_key>",
                          .key_end = "</arg_key>\n<arg_value>",
                          .value_end = "</arg_value>"};
  const CallFormat deepseek_tags = {.style = CallStyle::kTagged,
                                    .section_begin = "<｜DSML｜calls>",
                                    .section_end = "</｜DSML｜calls>",
                                    .call_begin = "<｜DSML｜invoke name=\"",
                                    .call_end = "</｜DSML｜invoke>",
                                    .name_end = "\">",
                                    .key_begin = "<｜DSML｜parameter name=\"",
                                    .key_end = "\" string=\"true\">",
                                    .value_end = "</｜DSML｜parameter>",
                                    .other_key_end = "\" string=\"false\">"};
  const CallFormat kimi = {.style = CallStyle::kNamedJson,
                           .section_begin = "<|tool_calls_section_begin|>",
                           .section_end = "<|tool_calls_section_end|>",
                           .call_begin = "<|tool_call_begin|>functions.",
                           .call_end = "<|tool_call_end|>",
                           .id_begin = ":",
                           .has_numbered_ids = true,
                           .name_end = "<|tool_call_argument_begin|>"};
  const CallFormat lfm2 = {.style = CallStyle::kPython,
                           .call_begin = "<|tool_call_start|>",
                           .call_end = "<|tool_call_end|>",
                           .is_list = true};
  const CallFormat name_is_key = {.call_begin = "<|tools_prefix|>",
                                  .call_end = "<|tools_suffix|>",
                                  .is_list = true,
                                  .name_key = "",
                                  .arguments_key = ""};
  const CallFormat mistral_ids = {.style = CallStyle::kNamedJson,
                                  .call_begin = "[TOOL_CALLS]",
                                  .id_begin = "[CALL_ID]",
                                  .name_end = "[ARGS]"};
  return {
      {"hermes", {.calls = general_call_format(), .reasoning = think}, {}},
      {"qwen", {.calls = general_call_format(), .reasoning = think}, {"<tool_call>", "</tool_call>"}},
      {"llama", {.calls = CallFormat{.arguments_key = "parameters"}}, {}},
      {"mistral", {.calls = CallFormat{.call_begin = "[TOOL_CALLS]", .is_list = true}}, {"[TOOL_CALLS]"}},
      {"mistral_ids", {.calls = mistral_ids}, {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"}},
      {"kimi",
       {.calls = kimi, .reasoning = think},
       {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
        "<|tool_call_end|>", "<|tool_call_argument_begin|>"}},
      {"name_is_key", {.calls = name_is_key}, {"<|tools_prefix|>", "<|tools_suffix|>"}},
      {"qwen_coder", {.calls = kQwenCoder, .reasoning = think}, {}},
      {"glm",
       {.calls = glm, .reasoning = think},
       {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<think>",
        "</think>"}},
      {"glm_plain", {.calls = glm}, {}},
      {"deepseek_tags", {.calls = deepseek_tags}, {}},
      {"lfm2", {.calls = lfm2}, {"<|tool_call_start|>", "<|tool_call_end|>"}},
      {"harmony",
       harmony_answer_format(),
       {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>"}},
      {"harmony_plain", harmony_answer_format(), {}},
      {"lfm2_plain", {.calls = lfm2}, {}},
  };
}

// Schemas that make trouble where values stand between tags: texts that look like JSON or like markers,
// unions, bounds, nested values, names that begin alike.
inline constexpr const char* kDrawnTools = R"json([
  {"type":"function","function":{"name":"find","strict":true,"parameters":{"type":"object","properties":{
    "query":{"type":"string"},"limit":{"type":"integer","minimum":1,"maximum":50},
    "mode":{"type":"string","enum":["exact","fuzzy","<tag>","a\"b"]},"deep":{"type":"boolean"}},
    "required":["query","mode"],"additionalProperties":false}}},
  {"type":"function","function":{"name":"find_all","strict":true,"parameters":{"type":"object","properties":{
    "note":{"anyOf":[{"type":"string"},{"type":"null"}]},"either":{"type":["string","integer"]},
    "any":{},"code":{"type":"string","pattern":"^[A-Z]{2}[0-9<]{1,4}$"},
    "short":{"type":"string","minLength":1,"maxLength":8},"at":{"type":"string","format":"date"}},
    "additionalProperties":false}}},
  {"type":"function","function":{"name":"store","parameters":{"type":"object","properties":{
    "entries":{"type":"array","items":{"type":"object","properties":{"key":{"type":"string"},
      "value":{"type":["number","null"]}},"required":["key","value"],"additionalProperties":false},"maxItems":3},
    "options":{"$ref":"#/$defs/options"},"ratio":{"type":"number","minimum":0,"maximum":1},
    "kind":{"enum":["a",1,null,true,{"<b>":[false]}]}},"required":["entries"],
    "$defs":{"options":{"type":"object","properties":{"name":{"type":"string"},"next":{"$ref":"#/$defs/options"}},
      "required":["name"],"additionalProperties":false}},"additionalProperties":false}}},
  {"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{},
    "additionalProperties":false}}}])json";

// A tokenizer of bytes and these tokens, and its vocabulary with longer tokens: pieces of JSON and of tags.
class CallTokens {
 public:
  explicit CallTokens(const CallCase& given) : has_special_marks_(given.has_special_marks()) {
    nlohmann::json ids, added = nlohmann::json::array();
    for (int byte = 0; byte < 256; ++byte)
      ids[bytes_to_alphabet(std::string(1, static_cast<char>(byte)))] = byte;
    int next = 256;
    std::vector<std::string> pieces = {"{\"",  "\":",  "\": ", "\", \"",   "\"}",       "},",
                                       "true", "True", "null", "None",     "12",        "the",
                                       "find", "_all", "</",   "<",        ">\n",       "=\"",
                                       "')",   ")]",   "\\n",  "\xC3\xA9", "tool_call>"};
    // So that free texts end before long.
    for (const std::string& marker : {given.format.reasoning.end, given.format.calls->value_end})
      if (!marker.empty() && std::count(given.specials.begin(), given.specials.end(), marker) == 0)
        pieces.push_back(marker);
    if (given.format.calls->has_value_lines) pieces.push_back("\n" + given.format.calls->value_end);
    // Marks that are spelled like special tokens.
    if (given.format.is_harmony())
      pieces.insert(pieces.end(), {"<|", "end", "call", "return", "channel", "|>"});
    if (given.format.is_harmony() && given.specials.empty())
      pieces.insert(pieces.end(), {"<|end|>", "<|return|>", "<|call|>", "<|start|>assistant", "<|message|>"});
    for (const std::string& piece : pieces)
      if (const auto spelled = bytes_to_alphabet(piece); !ids.contains(spelled)) ids[spelled] = next++;
    for (const std::string& special : given.specials)
      added.push_back({{"id", next++},
                       {"content", special},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
    const nlohmann::json byte_level = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
    const TemporaryDirectory directory;
    directory.write(
        "tokenizer.json",
        nlohmann::json{{"version", "1.0"},
                       {"added_tokens", added},
                       {"pre_tokenizer", byte_level},
                       {"decoder", byte_level},
                       {"model", {{"type", "BPE"}, {"vocab", ids}, {"merges", nlohmann::json::array()}}}}
            .dump());
    tokenizer_ = load_tokenizer(directory.path());
    std::vector<std::string> bytes(tokenizer_->vocabulary_size());
    for (std::size_t id = 0; id < bytes.size(); ++id)
      bytes[id] = tokenizer_->token_bytes(static_cast<TokenId>(id));
    bytes.emplace_back();
    const auto end = static_cast<TokenId>(bytes.size() - 1);
    vocabulary_ = std::make_shared<GrammarVocabulary>(bytes, std::vector<TokenId>{end});
  }

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::shared_ptr<const GrammarVocabulary>& vocabulary() const { return vocabulary_; }
  // As the server shows the token to the parser.
  std::string text(TokenId token) const {
    if (vocabulary_->is_end(token)) return "";
    if (!tokenizer_->is_special(token)) return std::string(tokenizer_->token_bytes(token));
    return (has_special_marks_ ? std::string(1, kSpecialTokenMark) : "") +
           std::string(tokenizer_->token_content(token));
  }

 private:
  const bool has_special_marks_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::shared_ptr<const GrammarVocabulary> vocabulary_;
};

// An answer of random tokens that the grammar allows; those that close something are drawn more often.
// nullopt: no token was allowed, or the answer grew without end.
inline std::optional<std::string> drawn_answer(GrammarMatcher matcher, const CallTokens& tokens,
                                               std::mt19937_64& random) {
  std::string answer;
  const std::size_t long_bytes = 50 + random() % 200;
  while (answer.size() < 100'000) {
    const auto allowed = allowed_tokens(matcher, tokens.vocabulary()->size());
    if (allowed.empty()) return std::nullopt;
    if (matcher.may_end() && (answer.size() > long_bytes || random() % 6 == 0)) return answer;
    TokenId token = allowed[random() % allowed.size()];
    if (random() % 8 == 0 || answer.size() > long_bytes) {
      const auto closes = [&](TokenId other) {
        std::string text = tokens.text(other);
        if (text.size() > 1 && text.front() == '\n') text.erase(0, 1);
        return (text.size() > 4 && (text.starts_with("</") || text.ends_with("<|end|>"))) ||
               tokens.vocabulary()->bytes(other).empty() ||
               (text.size() == 1 && text.find_first_of("\"]})'") == 0);
      };
      std::vector<TokenId> closing;
      std::copy_if(allowed.begin(), allowed.end(), std::back_inserter(closing), closes);
      if (!closing.empty()) token = closing[random() % closing.size()];
    }
    if (!matcher.accept(token)) return std::nullopt;
    answer += tokens.text(token);
    if (tokens.vocabulary()->is_end(token)) return answer;
  }
  return std::nullopt;
}

struct ReadAnswer {
  std::string reasoning = {}, text = {};
  std::vector<std::pair<std::string, std::string>> calls = {};  // name, arguments
};

inline ReadAnswer read_answer(const AnswerReading& reading, const std::string& answer) {
  AnswerParser parser(reading);
  ReadAnswer out;
  for (auto parts : {parser.push(answer), parser.finish()}) {
    out.reasoning += parts.reasoning;
    out.text += parts.text;
    for (auto& delta : parts.calls) {
      if (delta.index == out.calls.size()) out.calls.emplace_back(delta.name, "");
      out.calls.back().second += delta.arguments;
    }
  }
  return out;
}

inline std::map<std::string, nlohmann::ordered_json> schemas_of_tools(const std::string& tools) {
  std::map<std::string, nlohmann::ordered_json> schemas;
  for (const auto& tool : nlohmann::ordered_json::parse(tools))
    schemas.emplace(tool["function"]["name"], tool["function"]["parameters"]);
  return schemas;
}

}  // namespace troupe
