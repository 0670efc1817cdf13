// SPDX-License-Identifier: Apache-2.0
// Grammars of a client, in GBNF, as a regular expression or as a JSON schema, and behind a
// zero byte the choices of an answer (grammar_walk.hpp). Its text is read by others, too.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "tests/fuzz/targets/grammar_walk.hpp"
#include "tests/fuzz/targets/pcre_match.hpp"
#include "tests/text/grammar/schema_validator.hpp"
#include "text/grammar/gbnf.hpp"
#include "text/grammar/json_schema.hpp"
#include "text/grammar/regex.hpp"
#include "text/utf8.hpp"

namespace troupe::fuzz {
namespace {

using Json = SchemaValidator::Json;

// A whole text of the grammar that `compile` makes of the first part of the input.
std::optional<std::string> answer_to(std::string_view bytes,
                                     const std::function<Grammar(std::string_view)>& compile) {
  const auto end = std::min(bytes.find('\0'), bytes.size());
  std::shared_ptr<const Grammar> grammar;
  try {
    grammar = std::make_shared<const Grammar>(compile(bytes.substr(0, end)));
  } catch (const GrammarError& error) {
    require(error.what()[0] != '\0', "a grammar is refused without a reason");
    return std::nullopt;
  }
  return walk_grammar(grammar, bytes.substr(std::min(end + 1, bytes.size())));
}

// Of bounds and fractions the validator knows as much as doubles do, and of patterns what
// std::regex does.
bool is_for_validator(const Json& schema) {
  static const std::set<std::string, std::less<>> kOthers = {
      "exclusiveMaximum", "exclusiveMinimum", "format", "maximum", "minimum", "multipleOf", "pattern"};
  if (!schema.is_structured()) return true;
  for (const auto& [key, value] : schema.items())
    if ((schema.is_object() && kOthers.contains(key)) || !is_for_validator(value)) return false;
  return true;
}

// True, too, where the validator does not know what to make of the schema.
bool obeys(const Json& schema, const Json& value) {
  try {
    return !is_for_validator(schema) || SchemaValidator(schema).obeys(value);
  } catch (const Json::exception&) {
    return true;
  }
}

}  // namespace

void fuzz_gbnf_grammar(std::string_view bytes) {
  answer_to(bytes, [](std::string_view text) {
    return parse_gbnf(text, [](std::string_view name) {
      return name == "<named>" ? std::optional(named_token()) : std::nullopt;
    });
  });
}

void fuzz_regex_grammar(std::string_view bytes) {
  const auto answer = answer_to(bytes, parse_regex);
  if (!answer) return;
  require(valid_utf8_prefix(*answer) == answer->size(), "a text of characters is not UTF-8");
  const std::string_view pattern = bytes.substr(0, bytes.find('\0'));
  require(pcre_matches(pattern, *answer).value_or(true), "a text doesn't match by PCRE");
}

void fuzz_schema_grammar(std::string_view bytes) {
  const auto answer =
      answer_to(bytes, [](std::string_view schema) { return grammar_of_json_schema(schema); });
  if (!answer) return;
  const Json value = Json::parse(*answer, nullptr, false);
  require(!value.is_discarded(), "a text of a schema is no JSON");
  const Json schema = Json::parse(bytes.substr(0, bytes.find('\0')));
  require(obeys(schema, value), "a text of a schema doesn't obey it");
}

}  // namespace troupe::fuzz
