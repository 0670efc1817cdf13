// SPDX-License-Identifier: Apache-2.0
#include "text/answer/call_grammar.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <string>

#include "tests/text/answer/drawn_calls.hpp"
#include "tests/text/grammar/schema_validator.hpp"

namespace troupe {
namespace {

using Json = nlohmann::ordered_json;

AnswerReading reading_of(const CallCase& given, const std::string& tools = kDrawnTools) {
  return {.format = given.format,
          .reads_calls = true,
          .has_special_marks = given.has_special_marks(),
          .tools = tools};
}

GrammarMatcher matcher_for(const CallCase& given, const CallTokens& tokens, const CallDemand& demand,
                           const std::string& tools = kDrawnTools) {
  return {
      std::make_shared<const Grammar>(grammar_of_calls(reading_of(given, tools), demand, tokens.tokenizer())),
      tokens.vocabulary()};
}

CallCase case_named(const std::string& name) {
  for (CallCase& given : call_cases())
    if (given.name == name) return given;
  throw std::invalid_argument(name);
}

// One byte a token, and the answer may end behind it.
bool takes(const GrammarMatcher& start, const CallTokens& tokens, std::string_view text) {
  GrammarMatcher matcher = start;
  for (const TokenId token : tokens.tokenizer().encode_with_specials(text))
    if (!matcher.accept(token)) return false;
  return matcher.may_end();
}

std::string tool_of(const Json& parameters, bool is_strict = true) {
  return Json::array({{{"type", "function"},
                       {"function", {{"name", "f"}, {"strict", is_strict}, {"parameters", parameters}}}}})
      .dump();
}

void check_calls(const ReadAnswer& found, const std::string& name) {
  const auto schemas = schemas_of_tools(kDrawnTools);
  for (const auto& [called, arguments] : found.calls) {
    CAPTURE(arguments);
    REQUIRE(schemas.contains(called));
    if (!name.empty()) CHECK(called == name);
    const Json value = Json::parse(arguments, nullptr, false);
    REQUIRE_FALSE(value.is_discarded());
    CHECK(SchemaValidator(schemas.at(called)).obeys(value));
  }
}

}  // namespace

TEST_CASE("call grammar: random calls in every format are read back and obey their schemas") {
  std::mt19937_64 random(5);
  for (const CallCase& given : call_cases()) {
    CAPTURE(given.name);
    const CallTokens tokens(given);
    for (const CallDemand& demand :
         {CallDemand{}, CallDemand{.name = "find", .is_for_one = true}, CallDemand{.is_for_one = true}}) {
      const GrammarMatcher start = matcher_for(given, tokens, demand);
      for (int round = 0; round < 8; ++round) {
        const auto answer = drawn_answer(start, tokens, random);
        REQUIRE(answer);
        CAPTURE(*answer);
        const ReadAnswer found = read_answer(reading_of(given), *answer);
        CHECK(found.text.find_first_not_of(" \n") == std::string::npos);
        CHECK(!found.calls.empty());
        if (demand.is_for_one) CHECK(found.calls.size() == 1);
        check_calls(found, demand.name);
      }
    }
  }
}

TEST_CASE("call grammar: text may surround calls, and holds none that breaks its schema") {
  std::mt19937_64 random(7);
  for (const CallCase& given : call_cases()) {
    CAPTURE(given.name);
    if (!can_bind_text(given.format)) continue;
    const CallTokens tokens(given);
    const GrammarMatcher start = matcher_for(given, tokens, {.may_be_text = true});
    const std::string begin = given.format.is_harmony() ? "<|channel|>final<|message|>" : "";
    CHECK(takes(start, tokens, begin));
    CHECK(takes(start, tokens, begin + "No call: 1 < 2, {\"name\": ["));
    CHECK_FALSE(takes(start, tokens, given.format.calls->triggers().front() + "x"));
    for (int round = 0; round < 8; ++round) {
      const auto answer = drawn_answer(start, tokens, random);
      REQUIRE(answer);
      CAPTURE(*answer);
      check_calls(read_answer(reading_of(given), *answer), "");
    }
  }
}

TEST_CASE("call grammar: text is free but for tokens that hold or begin a marker, and a call is not") {
  for (const char* name : {"hermes", "qwen", "qwen_coder", "glm", "kimi"}) {
    CAPTURE(name);
    const CallCase given = case_named(name);
    const CallTokens tokens(given);
    GrammarMatcher matcher = matcher_for(given, tokens, {.may_be_text = true});
    const auto masks_of = [&](const GrammarMatcher& at) {
      return allowed_tokens(at, tokens.vocabulary()->size());
    };
    const auto token = [&](std::string_view text) {
      return tokens.tokenizer().encode_with_specials(text).front();
    };
    // Only where a thought may begin, the first token has a mask.
    CHECK((matcher.free_tokens() != nullptr) == !given.format.reasoning.exists());
    REQUIRE(matcher.accept(token("a")));
    const auto free = matcher.free_tokens();
    REQUIRE(free);
    const auto is_free = [&](TokenId id) {
      return ((*free)[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1) != 0;
    };
    std::size_t num_free = 0;
    for (TokenId id = 0; id < static_cast<TokenId>(tokens.vocabulary()->size()); ++id) {
      if (!is_free(id)) continue;
      CAPTURE(id);
      GrammarMatcher next = matcher;
      REQUIRE(next.accept(id));
      CHECK(masks_of(next) == masks_of(matcher));
      ++num_free;
    }
    CHECK(num_free > 100);
    CHECK(is_free(token(" ")));
    CHECK_FALSE(is_free(token("<")));
    CHECK_FALSE(is_free(tokens.tokenizer().encode_with_specials("\xC3").front()));  // a part of a character
    CHECK_FALSE(is_free(token(given.format.calls->triggers().front())));
    CHECK_FALSE(is_free(static_cast<TokenId>(tokens.vocabulary()->size() - 1)));  // the end
    for (const TokenId id : tokens.tokenizer().encode_with_specials(given.format.calls->triggers().front()))
      REQUIRE(matcher.accept(id));
    CHECK(matcher.free_tokens() == nullptr);
  }
}

TEST_CASE("call grammar: thoughts and text behind a call are free from their beginning, arguments are not") {
  for (const char* name : {"hermes", "qwen", "qwen_coder", "glm"}) {
    CAPTURE(name);
    const CallCase given = case_named(name);
    const CallTokens tokens(given);
    const GrammarMatcher start = matcher_for(given, tokens, {.may_be_text = true});
    const auto is_free_behind = [&](std::string_view text) {
      GrammarMatcher matcher = start;
      for (const TokenId id : tokens.tokenizer().encode_with_specials(text)) REQUIRE(matcher.accept(id));
      return matcher.free_tokens() != nullptr;
    };
    CHECK(is_free_behind("<think>"));
    CHECK(is_free_behind("<think>Hm"));
    CHECK(is_free_behind("<think>Hm</think>"));
    CHECK_FALSE(is_free_behind("<think>Hm</thi"));
    const bool is_json = given.format.calls->style == CallStyle::kJson;
    const std::string call = is_json ? "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"
                             : given.name == "glm" ? "<tool_call>now\n</tool_call>"
                                                   : "<tool_call>\n<function=now>\n</function>\n</tool_call>";
    CHECK(is_free_behind(call));
    const std::string value = is_json ? "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"query\": \"a"
                              : given.name == "glm"
                                  ? "<tool_call>find\n<arg_key>query</arg_key>\n<arg_value>a"
                                  : "<tool_call>\n<function=find>\n<parameter=query>\na";
    CHECK_FALSE(is_free_behind(value));
  }
  for (const bool begins_in_reasoning : {false, true}) {
    const CallCase given = case_named("hermes");
    const CallTokens tokens(given);
    AnswerReading reading = reading_of(given);
    reading.begins_in_reasoning = begins_in_reasoning;
    const GrammarMatcher demanded(
        std::make_shared<const Grammar>(grammar_of_calls(reading, {}, tokens.tokenizer())),
        tokens.vocabulary());
    CHECK((demanded.free_tokens() != nullptr) == begins_in_reasoning);
  }
}

TEST_CASE("call grammar: an answer may end within its thought, unless a call is demanded") {
  for (const char* name : {"hermes", "qwen", "glm", "harmony", "harmony_plain"}) {
    CAPTURE(name);
    const CallCase given = case_named(name);
    const CallTokens tokens(given);
    const std::string thought =
        given.format.is_harmony() ? "<|channel|>analysis<|message|>Hm" : "<think>Hm </thi";
    CHECK(takes(matcher_for(given, tokens, {.may_be_text = true}), tokens, thought));
    CHECK_FALSE(takes(matcher_for(given, tokens, {}), tokens, thought));
    if (given.format.is_harmony()) continue;
    AnswerReading reading = reading_of(given);
    reading.begins_in_reasoning = true;
    const GrammarMatcher begun(
        std::make_shared<const Grammar>(grammar_of_calls(reading, {.may_be_text = true}, tokens.tokenizer())),
        tokens.vocabulary());
    CHECK(takes(begun, tokens, "Hm"));
    CHECK(takes(begun, tokens, "Hm</think>\n\nYes."));
  }
}

TEST_CASE("call grammar: a tool that is not strict and names no arguments takes any") {
  const CallCase given = case_named("hermes");
  const CallTokens tokens(given);
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  const Json empty = {{"type", "object"}, {"properties", Json::object()}};
  CHECK(takes(matcher_for(given, tokens, {}, tool_of(empty, false)), tokens, call));
  CHECK_FALSE(takes(matcher_for(given, tokens, {}, tool_of(empty, true)), tokens, call));
  Json said = empty;
  said["required"] = Json::array();
  said["description"] = "what it likes";
  said["$id"] = "https://example.org/f";
  said["$comment"] = "of no concern";
  said["default"] = Json::object();
  CHECK(takes(matcher_for(given, tokens, {}, tool_of(said, false)), tokens, call));
  const std::string no_object = "<tool_call>\n{\"name\": \"f\", \"arguments\": true}\n</tool_call>";
  for (const bool is_strict : {false, true}) {
    const GrammarMatcher of_any = matcher_for(given, tokens, {}, tool_of(Json::object(), is_strict));
    CHECK(takes(of_any, tokens, call));
    CHECK_FALSE(takes(of_any, tokens, no_object));
  }
  Json closed = empty, chosen = empty;
  closed["additionalProperties"] = false;
  const Json b = {{"type", "object"}, {"properties", {{"b", {{"type", "string"}}}}}, {"required", {"b"}}};
  chosen["anyOf"] = Json::array({b});
  for (const Json& bounded : {closed, chosen})
    CHECK_FALSE(takes(matcher_for(given, tokens, {}, tool_of(bounded, false)), tokens, call));
}

TEST_CASE("call grammar: arguments are an object, also by a schema that lets them be null") {
  const CallCase given = case_named("hermes");
  const CallTokens tokens(given);
  const auto call = [](const std::string& arguments) {
    return "<tool_call>\n{\"name\": \"f\", \"arguments\": " + arguments + "}\n</tool_call>";
  };
  for (
      const char* schema :
      {R"({"type":["object","null"],"properties":{"a":{"type":"integer"}}})",
       R"({"type":"object","nullable":true,"properties":{"a":{"type":"integer"}}})",
       R"({"properties":{"a":{"type":"integer"}}})",
       R"({"anyOf":[{"type":"object","properties":{"a":{"type":"integer"}}},{"type":"null"}]})",
       R"({"$ref":"#/$defs/f","nullable":true,"$defs":{"f":{"type":["object","null"],"properties":{"a":{"type":"integer"}}}}})"}) {
    CAPTURE(schema);
    for (const bool is_strict : {false, true}) {
      const GrammarMatcher matcher = matcher_for(given, tokens, {}, tool_of(Json::parse(schema), is_strict));
      CHECK(takes(matcher, tokens, call(R"({"a": 1})")));
      CHECK_FALSE(takes(matcher, tokens, call(R"({"a": "b"})")));
      CHECK_FALSE(takes(matcher, tokens, call("null")));
    }
  }
}

TEST_CASE("call grammar: a schema that refers to itself means the same in its parts") {
  const CallCase given = case_named("hermes");
  const CallTokens tokens(given);
  const auto call = [](const std::string& arguments) {
    return "<tool_call>\n{\"name\": \"f\", \"arguments\": " + arguments + "}\n</tool_call>";
  };
  const auto schema = Json::parse(
      R"({"type":["object","null"],"properties":{"next":{"$ref":"#"}},"additionalProperties":false})");
  const GrammarMatcher matcher = matcher_for(given, tokens, {}, tool_of(schema, true));
  CHECK(takes(matcher, tokens, call(R"({"next": {"next": null}})")));
  CHECK(takes(matcher, tokens, call(R"({"next": null})")));
  CHECK_FALSE(takes(matcher, tokens, call(R"({"next": 1})")));
  CHECK_FALSE(takes(matcher, tokens, call("null")));  // arguments are an object all the same
  const auto named = Json::parse(
      R"({"nullable":true,"type":"object","properties":{"$ref":{"$ref":"#"},"const":{"$ref":"#/$defs/itself"}},)"
      R"("$defs":{"itself":{"type":"integer"}},"required":["$ref","const"],"additionalProperties":false})");
  const GrammarMatcher other = matcher_for(given, tokens, {}, tool_of(named, true));
  CHECK(takes(other, tokens, call(R"({"$ref": null, "const": 7})")));
  CHECK(takes(other, tokens, call(R"({"$ref": {"$ref": null, "const": 1}, "const": 7})")));
  CHECK_FALSE(takes(other, tokens, call(R"({"$ref": 7, "const": 7})")));
  CHECK_FALSE(takes(other, tokens, call("null")));
}

TEST_CASE("call grammar: a format without a marker can't be told from text") {
  CHECK_FALSE(can_bind_text(case_named("llama").format));
  CHECK(can_bind_text(case_named("qwen_coder").format));
}

TEST_CASE("call grammar: a call in tags holds what its schema says") {
  const CallCase given = case_named("qwen_coder");
  const CallTokens tokens(given);
  const GrammarMatcher start = matcher_for(given, tokens, {});
  const auto call = [](const std::string& name, const std::string& parameters) {
    return "<tool_call>\n<function=" + name + ">\n" + parameters + "</function>\n</tool_call>";
  };
  const auto parameter = [](const std::string& key, const std::string& value) {
    return "<parameter=" + key + ">\n" + value + "\n</parameter>\n";
  };
  const std::string query = parameter("query", "a \"b\"\n</param> {");
  CHECK(takes(start, tokens, call("find", query + parameter("mode", "fuzzy"))));
  CHECK(takes(start, tokens,
              call("find", query + parameter("limit", "7") + parameter("mode", "<tag>") +
                               parameter("deep", "true"))));
  CHECK(takes(start, tokens, call("now", "") + "\n" + call("now", "")));
  CHECK(takes(start, tokens, "<think>a call?</think>\n\n" + call("now", "")));
  for (const std::string& wrong :
       {call("find", query), call("find", parameter("mode", "exact")), call("fin", query),
        call("find", query + parameter("mode", "other")),
        call("find", query + parameter("limit", "51") + parameter("mode", "exact")),
        call("find", query + parameter("mode", "exact") + parameter("deep", "maybe")),
        call("find", query + parameter("mode", "exact") + parameter("mode", "exact")),
        call("find", query + parameter("other", "1") + parameter("mode", "exact")),
        call("find_all", parameter("code", "ABC")), call("find_all", parameter("short", "")),
        call("now", parameter("query", "x")), std::string("text")})
    CHECK_FALSE_MESSAGE(takes(start, tokens, wrong), wrong);
}

TEST_CASE("call grammar: a text that would be read as JSON can't stand for a text of unknown kind") {
  const CallCase given = case_named("qwen_coder");
  const CallTokens tokens(given);
  const std::string tools =
      tool_of({{"type", "object"},
               {"properties", {{"a", {{"anyOf", {{{"type", "string"}}, {{"type", "null"}}}}}}}},
               {"required", {"a"}},
               {"additionalProperties", false}});
  const GrammarMatcher start = matcher_for(given, tokens, {}, tools);
  const auto takes_value = [&](const std::string& value) {
    return takes(
        start, tokens,
        "<tool_call>\n<function=f>\n<parameter=a>\n" + value + "\n</parameter>\n</function>\n</tool_call>");
  };
  for (const char* value : {"plain", "null", "\"quoted\"", "nul", "tru", "\"7\"", "Null", "<b>"})
    CHECK_MESSAGE(takes_value(value), value);
  for (const char* value : {"7", "true", "-1", "[1]", "{}", "\"a", "1e5"})
    CHECK_FALSE_MESSAGE(takes_value(value), value);
}

TEST_CASE("call grammar: the calls of LFM2 are Python's, those of Kimi are numbered") {
  const CallCase lfm2 = case_named("lfm2");
  const CallTokens python(lfm2);
  const GrammarMatcher start = matcher_for(lfm2, python, {});
  CHECK(takes(start, python,
              "<|tool_call_start|>[find(query=\"a\", mode=\"exact\", deep=True), now()]<|tool_call_end|>"));
  CHECK(takes(start, python,
              "<|tool_call_start|>[store(entries=[{\"key\": \"k\", \"value\": None}])]"
              "<|tool_call_end|>"));
  CHECK_FALSE(takes(start, python, "<|tool_call_start|>[find(query=\"a\")]<|tool_call_end|>"));
  CHECK_FALSE(takes(start, python, "<|tool_call_start|>[now(,)]<|tool_call_end|>"));
  const CallCase kimi = case_named("kimi");
  const CallTokens numbered(kimi);
  const std::string begin = "<|tool_calls_section_begin|><|tool_call_begin|>functions.now";
  const std::string rest = "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>";
  CHECK(takes(matcher_for(kimi, numbered, {}), numbered, begin + ":0" + rest));
  CHECK_FALSE(takes(matcher_for(kimi, numbered, {}), numbered, begin + rest));
}

TEST_CASE("call grammar: many texts of unknown kind make no grammar too large") {
  Json properties, tools = Json::array();
  for (const char* key : {"a", "b", "c", "d", "e"})
    properties[key] = {{"anyOf", {{{"type", "string"}}, {{"type", "null"}}}}};
  for (int number = 0; number < 17; ++number)
    tools.push_back(
        {{"type", "function"},
         {"function",
          {{"name", "f" + std::to_string(number)},
           {"strict", true},
           {"parameters",
            {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}}}}}});
  const CallCase given = case_named("qwen_coder");
  const CallTokens tokens(given);
  CHECK(grammar_of_calls(reading_of(given, tools.dump()), {}, tokens.tokenizer()).num_nodes() < 150'000);
}

TEST_CASE("call grammar: tools that are not strict are free where the grammar would be too large") {
  const auto tool = [](const std::string& name, bool is_strict, const Json& schema) {
    return Json{{"type", "function"},
                {"function",
                 {{"name", name},
                  {"strict", is_strict},
                  {"parameters",
                   {{"type", "object"}, {"properties", {{"a", schema}}}, {"additionalProperties", false}}}}}};
  };
  const Json long_text = {{"const", std::string(60'000, 'x')}};
  Json tools = Json::array({tool("exact", true, {{"type", "integer"}})});
  for (int number = 0; number < 9; ++number)
    tools.push_back(tool("f" + std::to_string(number), false, long_text));
  const CallCase given = case_named("hermes");
  const CallTokens tokens(given);
  const auto call = [](const std::string& name, const std::string& arguments) {
    return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call>";
  };
  const GrammarMatcher start = matcher_for(given, tokens, {}, tools.dump());
  CHECK(takes(start, tokens, call("f3", R"({"b": 1})")));
  CHECK(takes(start, tokens, call("exact", R"({"a": 1})")));
  CHECK_FALSE(takes(start, tokens, call("exact", R"({"b": 1})")));
  for (Json& one : tools) one["function"]["strict"] = true;
  CHECK_THROWS_AS(matcher_for(given, tokens, {}, tools.dump()), GrammarError);
}

TEST_CASE("call grammar: marks of gpt-oss that are spelled end no message") {
  const std::string call = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>";
  const std::string next = "<|end|><|start|>assistant";
  for (const char* name : {"harmony", "harmony_plain"}) {
    CAPTURE(name);
    const CallCase given = case_named(name);
    const CallTokens tokens(given);
    for (const bool may_be_text : {false, true}) {
      const GrammarMatcher start = matcher_for(given, tokens, {.may_be_text = may_be_text});
      CHECK(takes(start, tokens, "<|channel|>analysis<|message|>Hm, <|" + next + call));
      for (const std::string end : {"<|call|>", "<|return|>"})
        CHECK_FALSE(takes(start, tokens, "<|channel|>analysis<|message|>Hm" + end + call + next + call));
    }
  }
}

TEST_CASE("call grammar: arguments of gpt-oss may hold what is spelled like a mark") {
  const std::string value = "x<|end|>y";
  const std::string tools = tool_of({{"type", "object"},
                                     {"properties", {{"a", {{"enum", {value}}}}, {"b", true}}},
                                     {"required", {"a"}},
                                     {"additionalProperties", false}});
  std::mt19937_64 random(3);
  for (const char* name : {"harmony", "harmony_plain"}) {
    CAPTURE(name);
    const CallCase given = case_named(name);
    const CallTokens tokens(given);
    const GrammarMatcher start = matcher_for(given, tokens, {.is_for_one = true}, tools);
    for (int round = 0; round < 8; ++round) {
      const auto answer = drawn_answer(start, tokens, random);
      REQUIRE(answer);
      CAPTURE(*answer);
      const ReadAnswer found = read_answer(reading_of(given, tools), *answer);
      REQUIRE(found.calls.size() == 1);
      CHECK(Json::parse(found.calls[0].second, nullptr, false)["a"] == value);
    }
  }
}

TEST_CASE(
    "call grammar: arguments that can't be enforced are free, or refused of a strict function whose call is "
    "demanded") {
  const CallCase given = case_named("qwen_coder");
  const CallTokens tokens(given);
  const Json parameters = {{"type", "object"},
                           {"properties", {{"odd", {{"type", "integer"}, {"not", {{"const", 2}}}}}}},
                           {"required", {"odd"}}};
  const GrammarMatcher start = matcher_for(given, tokens, {}, tool_of(parameters, false));
  CHECK(takes(start, tokens,
              "<tool_call>\n<function=f>\n<parameter=odd>\n[2]\n</parameter>\n</function>\n</tool_call>"));
  const auto reason_of = [&](const std::string& tools) -> std::string {
    try {
      matcher_for(given, tokens, {}, tools);
    } catch (const GrammarError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(reason_of(tool_of(parameters)) ==
        "the parameters of \"f\": schema, #/properties/odd/not: is not supported");
  const GrammarMatcher wished = matcher_for(given, tokens, {.may_be_text = true}, tool_of(parameters));
  CHECK(takes(wished, tokens,
              "<tool_call>\n<function=f>\n<parameter=odd>\n[2]\n</parameter>\n</function>\n</tool_call>"));
  CHECK(reason_of(tool_of({{"type", "object"}, {"anyOf", Json::array({{{"required", {"a"}}}})}})) ==
        "the parameters of \"f\": schema, #/anyOf: is not supported of arguments that are named one by one");
  CHECK(reason_of(tool_of({{"type", "object"}, {"properties", {{"a>b", {{"type", "string"}}}}}})) ==
        "the parameters of \"f\": the argument \"a>b\" can't be written in this model's calls");
  const Json some_readable = {{"type", "object"},
                              {"properties", {{"a>b", true}, {"c", {{"type", "integer"}}}}},
                              {"required", {"a>b", "c"}}};
  CHECK(takes(matcher_for(given, tokens, {}, tool_of(some_readable, false)), tokens,
              "<tool_call>\n<function=f>\n<parameter=c>\n2\n</parameter>\n</function>\n</tool_call>"));
}

}  // namespace troupe
