// SPDX-License-Identifier: Apache-2.0
// Answers drawn at random from the masks of grammars, the hardest case: a model that knows nothing. Each
// is a line of JSON on standard output, with what it has to obey, for somebody else's validator
// (tests/nightly/grammar/validate.py):
//   {"kind": "tools", "tools": …}                     the first line: of all calls
//   {"kind": "schema", "schema": …, "text": …}        also "regex", "gbnf", with "pattern" or "grammar"
//   {"kind": "calls", "format": …, "calls": [[name, arguments], …], "content": …, "text": …, …}
// Or judges lines of the kinds "schema" and "regex" from standard input: 1 for each text that the grammar
// has, 0 for another, ? for a grammar that is refused.
// Usage: bench_grammar_answers draw COUNT SEED [SCHEMAS.jsonl (one a line)]
//        bench_grammar_answers judge
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/text/answer/drawn_calls.hpp"
#include "tests/text/grammar/grammar_run.hpp"
#include "text/answer/call_grammar.hpp"
#include "text/grammar/gbnf.hpp"
#include "text/grammar/json_schema.hpp"
#include "text/grammar/regex.hpp"

using namespace troupe;

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRegexes[] = {
    "[a-z]{3,12}",
    "(red|green|blue)(, (red|green|blue)){0,5}",
    "[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]",
    "-?(0|[1-9][0-9]{0,8})(\\.[0-9]{1,6})?",
    "[A-Za-z_][A-Za-z0-9_]*\\(([a-z]+=[0-9]+(, [a-z]+=[0-9]+)*)?\\)",
    "(?:[^\\n<>]{0,40}\\n){1,4}",
    "[\\u00e0-\\u00ff\\u4e00-\\u4eff]{1,20}",
    "a{2,5}(bc|d){1,}e?",
};

// The validator knows what each means.
constexpr const char* kGrammars[] = {
    R"gbnf(root ::= sum
sum ::= product (("+" | "-") product)*
product ::= value ("*" value)*
value ::= [1-9] [0-9]{0,3} | "(" sum ")")gbnf",
    R"gbnf(root ::= "[" (item ("," item)*)? "]"
item ::= "\"" [a-z]* "\"" | [1-9] [0-9]{0,6} | root)gbnf",
    R"gbnf(root ::= line{1,5}
line ::= "- " [^\n]{1,30} "\n")gbnf",
};

// A way to draw one answer; nullopt: none could be.
using Draw = std::function<std::optional<Json>(std::mt19937_64&)>;

std::shared_ptr<const GrammarVocabulary> piece_vocabulary() {
  return byte_vocabulary({"{\"",  "\":",      "\": ",  "\",",   "\", \"", "\"}", "\"]", "],",
                          "},",   "true",     "false", "null",  "10",     "00",  "the", " of",
                          "name", "\xC3\xA9", "\\u",   "\\ud8", "\\n",    "e+",  "-1"});
}

Draw draw_of(Json line, Grammar grammar, const std::shared_ptr<const GrammarVocabulary>& vocabulary) {
  const GrammarMatcher start(std::make_shared<const Grammar>(std::move(grammar)), vocabulary);
  return [line = std::move(line), start, vocabulary](std::mt19937_64& random) -> std::optional<Json> {
    const auto text = random_answer(start, *vocabulary, random, 20 + random() % 200);
    if (!text) return std::nullopt;
    Json out = line;
    out["text"] = *text;
    return out;
  };
}

Draw draw_of_calls(const CallCase& given, const CallDemand& demand) {
  const auto tokens = std::make_shared<const CallTokens>(given);
  const AnswerReading reading{.format = given.format,
                              .reads_calls = true,
                              .has_special_marks = given.has_special_marks(),
                              .tools = kDrawnTools};
  const GrammarMatcher start(
      std::make_shared<const Grammar>(grammar_of_calls(reading, demand, tokens->tokenizer())),
      tokens->vocabulary());
  const Json line = {{"kind", "calls"},
                     {"format", given.name},
                     {"is_demanded", !demand.may_be_text},
                     {"name", demand.name},
                     {"is_for_one", demand.is_for_one}};
  return [=](std::mt19937_64& random) -> std::optional<Json> {
    const auto text = drawn_answer(start, *tokens, random);
    if (!text) return std::nullopt;
    const ReadAnswer found = read_answer(reading, *text);
    Json out = line;
    out["calls"] = found.calls;
    out["content"] = found.text;
    out["text"] = *text;
    return out;
  };
}

void add_schemas(const char* path, std::vector<Draw>& draws) {
  const auto vocabulary = piece_vocabulary();
  std::ifstream file(path);
  std::size_t num_refused = 0, num_all = 0;
  for (std::string line; std::getline(file, line); ++num_all) {
    try {
      const Json schema = Json::parse(line);
      draws.push_back(
          draw_of({{"kind", "schema"}, {"schema", schema}}, grammar_of_json_schema(line), vocabulary));
    } catch (const GrammarError& error) {
      ++num_refused;
      std::fprintf(stderr, "refused: %s\n", error.what());
    }
  }
  std::fprintf(stderr, "%zu schemas, %zu refused\n", num_all, num_refused);
}

std::vector<Draw> all_draws(const char* schemas) {
  std::vector<Draw> draws;
  const auto vocabulary = piece_vocabulary();
  for (const char* pattern : kRegexes)
    draws.push_back(draw_of({{"kind", "regex"}, {"pattern", pattern}}, parse_regex(pattern), vocabulary));
  std::size_t number = 0;
  for (const char* grammar : kGrammars)
    draws.push_back(draw_of({{"kind", "gbnf"}, {"grammar", number++}},
                            parse_gbnf(grammar, [](std::string_view) { return std::nullopt; }), vocabulary));
  for (const CallCase& given : call_cases()) {
    draws.push_back(draw_of_calls(given, {}));
    draws.push_back(draw_of_calls(given, {.name = "store", .is_for_one = true}));
    if (can_bind_text(given.format)) draws.push_back(draw_of_calls(given, {.may_be_text = true}));
  }
  if (schemas != nullptr) add_schemas(schemas, draws);
  return draws;
}

// Text around calls is any bytes; what is no UTF-8 among them is replaced, as the server does.
std::string written(const Json& line) { return line.dump(-1, ' ', false, Json::error_handler_t::replace); }

int draw(long count, std::uint64_t seed, const char* schemas) {
  std::mt19937_64 random(seed);
  const auto draws = all_draws(schemas);
  std::printf("%s\n", Json{{"kind", "tools"}, {"tools", Json::parse(kDrawnTools)}}.dump().c_str());
  long num_stuck = 0;
  for (long i = 0; i < count; ++i) {
    const auto line = draws[static_cast<std::size_t>(i) % draws.size()](random);
    if (line)
      std::printf("%s\n", written(*line).c_str());
    else
      ++num_stuck;
  }
  std::fprintf(stderr, "%ld answers, %ld that found no end\n", count, num_stuck);
  return num_stuck == 0 ? 0 : 1;
}

int judge() {
  std::map<std::string, std::optional<GrammarMatcher>> matchers;
  for (std::string text; std::getline(std::cin, text);) {
    const Json line = Json::parse(text);
    const bool is_regex = line["kind"] == "regex";
    const std::string source = is_regex ? line["pattern"].get<std::string>() : line["schema"].dump();
    const auto [known, is_new] = matchers.try_emplace(line["kind"].get<std::string>() + source);
    if (is_new) try {
        known->second = matcher_of(is_regex ? parse_regex(source) : grammar_of_json_schema(source));
      } catch (const GrammarError&) {
      }
    std::puts(!known->second ? "?" : matches(*known->second, line["text"].get<std::string>()) ? "1" : "0");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string action = argc > 1 ? argv[1] : "";
  if (action == "judge") return judge();
  if (action == "draw" && argc > 3)
    return draw(std::atol(argv[2]), std::strtoull(argv[3], nullptr, 10), argc > 4 ? argv[4] : nullptr);
  std::fprintf(stderr,
               "usage: bench_grammar_answers draw COUNT SEED [SCHEMAS.jsonl]\n"
               "       bench_grammar_answers judge\n");
  return 2;
}
