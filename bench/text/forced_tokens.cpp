// SPDX-License-Identifier: Apache-2.0
// Tokens of bound answers that no draw could change: how many have a mask of a single token, and in runs of
// which length, where the answer is spelled as the tokenizer spells it; beside them the tokens of text that
// is forced, of which other tokens are beginnings (decision 0019). Usage: bench_forced_tokens MODEL
// [TEMPLATE.jinja]; MODEL is a directory or a GGUF file.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "app/loading/model_source.hpp"
#include "tests/support/file_text.hpp"
#include "text/answer/call_grammar.hpp"
#include "text/grammar/grammar_matcher.hpp"
#include "text/grammar/json_schema.hpp"
#include "text/grammar/regex.hpp"

using namespace troupe;

namespace {

constexpr const char* kTools =
    R"([{"type":"function","function":{"name":"get_weather","strict":true,"parameters":{
  "type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},
  "unit":{"enum":["celsius","fahrenheit"]}},"required":["city","days","unit"],"additionalProperties":false}}},
  {"type":"function","function":{"name":"search_documents","strict":true,"parameters":{"type":"object","properties":{
  "query":{"type":"string"},"max_results":{"type":"integer"},"include_archived":{"type":"boolean"}},
  "required":["query","max_results","include_archived"],"additionalProperties":false}}},
  {"type":"function","function":{"name":"run_command","strict":true,"parameters":{"type":"object","properties":{
  "command":{"type":"string"}},"required":["command"],"additionalProperties":false}}}])";

struct Case {
  std::string name;
  Grammar grammar;
  std::string answer;
};

struct Count {
  std::size_t tokens = 0, single = 0, single_in_runs = 0;  // in runs of two and more
  std::size_t forced_text = 0, forced_text_in_runs = 0;
  std::size_t longest = 0, longest_text = 0;
};

std::vector<std::uint32_t> mask_of(const GrammarMatcher& matcher, const GrammarVocabulary& vocabulary) {
  std::vector<std::uint32_t> mask(vocabulary.num_mask_words());
  matcher.allow(mask);
  return mask;
}

bool is_single(const std::vector<std::uint32_t>& mask) {
  int number = 0;
  for (const std::uint32_t word : mask) number += std::popcount(word);
  return number == 1;
}

// All tokens that may come begin with the same byte, and the answer may not end.
bool has_one_byte(const GrammarMatcher& matcher, const GrammarVocabulary& vocabulary) {
  if (matcher.may_end()) return false;
  const auto mask = mask_of(matcher, vocabulary);
  std::set<char> bytes;
  for (std::size_t word = 0; word < mask.size(); ++word)
    for (std::uint32_t bits = mask[word]; bits != 0 && bytes.size() < 2; bits &= bits - 1) {
      const auto token = static_cast<TokenId>(word * 32 + static_cast<std::size_t>(std::countr_zero(bits)));
      if (!vocabulary.bytes(token).empty()) bytes.insert(vocabulary.bytes(token).front());
    }
  return bytes.size() == 1;
}

// By byte of the text.
std::vector<bool> forced_bytes(GrammarMatcher matcher, const GrammarVocabulary& vocabulary,
                               const std::vector<TokenId>& byte_tokens, std::string_view text) {
  std::vector<bool> forced;
  for (const char byte : text) {
    forced.push_back(has_one_byte(matcher, vocabulary));
    if (!matcher.accept(byte_tokens[static_cast<unsigned char>(byte)])) break;
  }
  return forced;
}

void end_run(std::size_t& run, std::size_t& in_runs, std::size_t& longest) {
  if (run >= 2) in_runs += run;
  longest = std::max(longest, run);
  run = 0;
}

std::optional<Count> count(const Case& given, const Tokenizer& tokenizer,
                           const std::shared_ptr<const GrammarVocabulary>& vocabulary,
                           const std::vector<TokenId>& byte_tokens) {
  GrammarMatcher matcher(std::make_shared<const Grammar>(given.grammar), vocabulary);
  const auto forced = forced_bytes(matcher, *vocabulary, byte_tokens, given.answer);
  Count count;
  std::size_t run = 0, text_run = 0, at = 0;
  for (const TokenId token : tokenizer.encode_with_specials(given.answer)) {
    count.tokens += 1;
    if (is_single(mask_of(matcher, *vocabulary))) {
      count.single += 1;
      run += 1;
    } else {
      end_run(run, count.single_in_runs, count.longest);
    }
    const std::size_t size =
        (tokenizer.is_special(token) ? tokenizer.token_content(token) : tokenizer.token_bytes(token)).size();
    bool is_forced = at + size <= forced.size();
    for (std::size_t i = at; is_forced && i < at + size; ++i) is_forced = forced[i];
    at += size;
    if (is_forced) {
      count.forced_text += 1;
      text_run += 1;
    } else {
      end_run(text_run, count.forced_text_in_runs, count.longest_text);
    }
    if (!matcher.accept(token)) return std::nullopt;
  }
  end_run(run, count.single_in_runs, count.longest);
  end_run(text_run, count.forced_text_in_runs, count.longest_text);
  return count;
}

std::vector<Case> cases(const Tokenizer& tokenizer, const std::optional<ChatTemplate>& chat_template) {
  AnswerFormat format = chat_template ? chat_template->answer_format() : AnswerFormat{};
  if (!format.calls) format = {.calls = general_call_format()};
  const AnswerReading reading{.format = format, .reads_calls = true, .tools = kTools};
  std::vector<Case> all;
  const std::vector<std::string> calls = {
      R"({"name": "get_weather", "arguments": {"city": "Paris", "days": 3, "unit": "celsius"}})",
      R"({"name": "search_documents", "arguments": {"query": "quarterly revenue by region", "max_results": 10, "include_archived": false}})",
      R"({"name": "run_command", "arguments": {"command": "grep -rn TODO src | sort | uniq -c | head -20"}})"};
  const char* names[] = {"get_weather", "search_documents", "run_command"};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string call = "<tool_call>\n" + calls[i] + "\n</tool_call>";
    all.push_back(
        {std::string("call of any tool: ") + names[i], grammar_of_calls(reading, {}, tokenizer), call});
    all.push_back({std::string("call of one tool: ") + names[i],
                   grammar_of_calls(reading, {.name = names[i], .is_for_one = true}, tokenizer), call});
  }
  const char* person =
      R"({"type":"object","properties":{"name":{"type":"string"},"date_of_birth":{"type":"string","format":"date"},
       "occupation":{"type":"string"},"is_retired":{"type":"boolean"}},
       "required":["name","date_of_birth","occupation","is_retired"],"additionalProperties":false})";
  for (
      const char* text :
      {R"({"name": "Ada Lovelace", "date_of_birth": "1815-12-10", "occupation": "mathematician", "is_retired": false})",
       R"({"name":"Ada Lovelace","date_of_birth":"1815-12-10","occupation":"mathematician","is_retired":false})"})
    all.push_back({"schema", grammar_of_json_schema(person), text});
  all.push_back({"regex of a date", parse_regex("[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]T00:00:00Z"),
                 "2026-11-28T00:00:00Z"});
  return all;
}

int print(const char* model, const char* template_file) {
  const auto tokenizer = load_model_tokenizer(model);
  auto chat_template = load_model_template(model);
  if (template_file != nullptr) chat_template = ChatTemplate::parse(test::file_text(template_file));
  std::vector<std::string> bytes(tokenizer->vocabulary_size());
  std::vector<TokenId> byte_tokens(256, -1);
  for (std::size_t id = 0; id < bytes.size(); ++id) {
    bytes[id] = tokenizer->token_bytes(static_cast<TokenId>(id));
    if (bytes[id].size() == 1)
      byte_tokens[static_cast<unsigned char>(bytes[id].front())] = static_cast<TokenId>(id);
  }
  const auto vocabulary =
      std::make_shared<const GrammarVocabulary>(bytes, std::vector<TokenId>{*tokenizer->eos_token()});
  std::printf("%-34s %6s | %-26s | %s\n", "", "tokens", "single masks, in runs", "forced text, in runs");
  for (const Case& each : cases(*tokenizer, chat_template)) {
    const auto found = count(each, *tokenizer, vocabulary, byte_tokens);
    if (!found) {
      std::printf("%-34s the grammar has no such answer\n", each.name.c_str());
      continue;
    }
    const auto percent = [&](std::size_t number) {
      return 100.0 * static_cast<double>(number) / static_cast<double>(found->tokens);
    };
    std::printf(
        "%-34s %6zu | %3zu (%2.0f %%) %3zu (%2.0f %%) <= %zu | %3zu (%2.0f %%) %3zu (%2.0f %%) <= %zu\n",
        each.name.c_str(), found->tokens, found->single, percent(found->single), found->single_in_runs,
        percent(found->single_in_runs), found->longest, found->forced_text, percent(found->forced_text),
        found->forced_text_in_runs, percent(found->forced_text_in_runs), found->longest_text);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: bench_forced_tokens MODEL [TEMPLATE.jinja]\n");
    return 2;
  }
  try {
    return print(argv[1], argc == 3 ? argv[2] : nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
