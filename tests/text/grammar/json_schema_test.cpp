// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/json_schema.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/text/grammar/grammar_run.hpp"
#include "tests/text/grammar/schema_validator.hpp"

namespace troupe {
namespace {

using Json = nlohmann::ordered_json;

bool obeys(std::string_view schema, std::string_view text, const JsonSchemaOptions& options = {}) {
  return matches(matcher_of(grammar_of_json_schema(schema, options)), text);
}

std::string message_of(std::string_view schema) {
  try {
    grammar_of_json_schema(schema);
  } catch (const GrammarError& error) {
    return error.what();
  }
  return "";
}

// Pieces that JSON is made of, for answers that are more than single letters.
std::shared_ptr<const GrammarVocabulary> json_vocabulary() {
  return byte_vocabulary({"{\"",  "\":",      "\": ",  "\",",   "\", \"", "\"}", "\"]", "],",
                          "},",   "true",     "false", "null",  "10",     "00",  "the", " of",
                          "name", "\xC3\xA9", "\\u",   "\\ud8", "\\n",    "e+",  "-1"});
}

// Schemas of all that is supported, each of which random answers must obey.
const std::vector<std::string>& all_schemas() {
  static const std::vector<std::string> kSchemas{
      R"({})",
      R"({"type":"object"})",
      R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"],"additionalProperties":false})",
      R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"number"},"c":{"type":"boolean"}},"additionalProperties":false})",
      R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"number"},"c":{"type":"boolean"}},"required":["b"],"additionalProperties":{"type":"integer"}})",
      R"({"type":"object","properties":{"a":{"type":"null"},"ab":{"type":"null"},"\"q\"":{"type":"null"},"é":{}},"additionalProperties":{"type":"boolean"}})",
      R"({"type":"object","required":["z"],"properties":{"y":{"type":"integer"}}})",
      R"({"type":"object","additionalProperties":{"type":"integer"},"minProperties":1,"maxProperties":4})",
      R"({"type":"array","items":{"type":"integer","minimum":-13,"maximum":1234}})",
      R"({"type":"array","items":{"type":"number","minimum":-2.5,"exclusiveMaximum":10.25},"minItems":2,"maxItems":5})",
      R"({"type":"array","items":{"type":"number","exclusiveMinimum":0,"maximum":1}})",
      R"({"type":"array","items":{"type":"number","minimum":0.125,"maximum":0.25}})",
      R"({"type":"array","items":{"type":"number","minimum":-7.75,"maximum":-7.5}})",
      R"({"type":"array","items":{"type":"number","maximum":-3}})",
      R"({"type":"array","items":{"type":"number","minimum":99.5}})",
      R"({"type":"array","items":{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":10}})",
      R"({"type":"array","items":{"type":"integer","minimum":0.5,"maximum":2000000.5}})",
      R"({"type":"array","items":{"type":"number","multipleOf":0.01,"minimum":0}})",
      R"({"type":"array","prefixItems":[{"type":"string"},{"type":"boolean"}],"items":{"type":"null"},"minItems":1,"maxItems":4})",
      R"({"type":"array","prefixItems":[{"type":"string"},{"type":"boolean"}],"items":false})",
      R"({"type":"string","minLength":3,"maxLength":9})",
      R"({"type":"string","minLength":40,"maxLength":200})",
      R"({"type":"string","pattern":"^[a-z]+@[a-z\"\\\\]{2,20}$"})",
      R"({"type":"string","pattern":"^\\w*$","minLength":4,"maxLength":8})",
      R"({"type":"string","pattern":"[a-m]3?|^x"})",
      R"({"type":"string","format":"date"})",
      R"({"type":"string","format":"time"})",
      R"({"type":"string","format":"date-time"})",
      R"({"type":"string","format":"uuid"})",
      R"({"type":"string","format":"email"})",
      R"({"type":"string","format":"ipv4"})",
      R"({"enum":["red","green",1,null,{"a":[1,2]},"\u00e9\n"]})",
      R"({"type":"string","enum":["a","ab","abc",3]})",
      R"({"const":{"x":[true,null]}})",
      R"({"type":["string","null","integer"],"maxLength":4})",
      R"({"type":"integer","nullable":true})",
      R"({"anyOf":[{"type":"string"},{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}]})",
      R"({"type":"object","properties":{"k":{"type":"integer"}},"anyOf":[{"required":["k"]},{"minProperties":0}]})",
      R"({"oneOf":[{"type":"object","properties":{"t":{"const":"a"},"v":{"type":"integer"}},"required":["t","v"]},
          {"type":"object","properties":{"t":{"const":"b"}},"required":["t"]},{"type":"boolean"}]})",
      R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer","minimum":3}},"required":["a"]},
          {"properties":{"a":{"maximum":12},"b":{"type":"boolean"}},"required":["b"]}]})",
      R"({"allOf":[{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"integer"},"maxItems":4},
          {"prefixItems":[{"type":"string"}],"items":{"minimum":3}},{"minItems":1}]})",
      R"({"type":"array","items":[{"type":"null"},{"type":"boolean"}],"allOf":[{"minItems":2,"maxItems":3}]})",
      R"({"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"value":{"type":"integer"},
          "children":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"required":["value","children"],"additionalProperties":false}}})",
      R"({"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["next"],"additionalProperties":false})",
      R"({"$defs":{"positive":{"type":"integer","minimum":1}},"type":"array","items":{"$ref":"#/$defs/positive","maximum":20}})",
  };
  return kSchemas;
}

// Answers to each schema: 40, or as many as the environment says.
int num_rounds() {
  const char* text = std::getenv("TROUPE_GRAMMAR_ROUNDS");
  return text == nullptr ? 40 : std::atoi(text);
}

}  // namespace

TEST_CASE("json schema: random answers parse and obey every schema") {
  const auto vocabulary = json_vocabulary();
  std::mt19937_64 random(11);
  for (const std::string& text : all_schemas()) {
    CAPTURE(text);
    const SchemaValidator validator(Json::parse(text));
    for (const bool has_additional : {false, true}) {
      const GrammarMatcher start(std::make_shared<const Grammar>(grammar_of_json_schema(
                                     text, {.has_additional_properties = has_additional})),
                                 vocabulary);
      for (int round = 0; round < num_rounds(); ++round) {
        const auto answer = random_answer(start, *vocabulary, random, 20 + random() % 100);
        REQUIRE(answer);
        CAPTURE(*answer);
        const Json value = Json::parse(*answer, nullptr, false);
        CHECK_FALSE(value.is_discarded());
        CHECK(validator.obeys(value));
      }
    }
  }
}

TEST_CASE("json schema: numbers within bounds, and only those, are allowed") {
  std::mt19937_64 random(2);
  const auto decimal = [&] {
    const int thousandths = static_cast<int>(random() % 60001) - 30000;
    std::string text = std::to_string(thousandths / 1000.0);
    while (text.ends_with('0')) text.pop_back();
    if (text.ends_with('.')) text.pop_back();
    return text == "-0" ? "0" : text;
  };
  for (int round = 0; round < 60; ++round) {
    std::string low = decimal(), high = decimal();
    if (std::stod(low) > std::stod(high)) std::swap(low, high);
    const bool excludes_low = random() % 2 == 0, excludes_high = random() % 2 == 0;
    if (std::stod(high) - std::stod(low) < 0.01) continue;
    const std::string schema = std::string("{\"type\":\"number\",\"") +
                               (excludes_low ? "exclusiveMinimum" : "minimum") + "\":" + low + ",\"" +
                               (excludes_high ? "exclusiveMaximum" : "maximum") + "\":" + high + "}";
    CAPTURE(schema);
    const GrammarMatcher start = matcher_of(grammar_of_json_schema(schema));
    for (int i = 0; i < 60; ++i) {
      std::string text = i == 0 ? low : i == 1 ? high : decimal();
      if (i > 50) text = (i % 2 == 0 ? low : high) + (text.find('.') == std::string::npos ? ".5" : "001");
      const double value = std::stod(text);
      if (std::to_string(value).size() > 12 || text.find('.') != text.rfind('.')) continue;
      const bool is_within = (excludes_low ? value > std::stod(low) : value >= std::stod(low)) &&
                             (excludes_high ? value < std::stod(high) : value <= std::stod(high));
      CAPTURE(text);
      if (Json::accept(text)) CHECK(matches(start, text) == is_within);
    }
  }
}

TEST_CASE("json schema: integers within bounds, and only those, are allowed") {
  std::mt19937_64 random(4);
  for (int round = 0; round < 60; ++round) {
    const auto draw = [&] { return static_cast<std::int64_t>(random() % 4001) - 2000; };
    std::int64_t low = draw(), high = draw();
    if (low > high) std::swap(low, high);
    const GrammarMatcher start =
        matcher_of(grammar_of_json_schema("{\"type\":\"integer\",\"minimum\":" + std::to_string(low) +
                                          ",\"maximum\":" + std::to_string(high) + "}"));
    for (std::int64_t value = -2100; value <= 2100; value += 1 + static_cast<std::int64_t>(random() % 9))
      CHECK(matches(start, std::to_string(value)) == (low <= value && value <= high));
    CHECK(matches(start, std::to_string(low)));
    CHECK(matches(start, std::to_string(high)));
    CHECK_FALSE(matches(start, "-0"));
    CHECK_FALSE(matches(start, "01"));
  }
}

TEST_CASE(
    "json schema: bounds beyond the supported integers are refused where these are outside, else kept") {
  const auto integer = [](const std::string& bound) { return "{\"type\":\"integer\"," + bound + "}"; };
  const std::string most = "999999999999999999";
  for (const auto& [keyword, value] : std::vector<std::pair<std::string, std::string>>{
           {"minimum", "1e20"},
           {"minimum", "1000000000000000000"},
           {"minimum", "18446744073709551615"},
           {"exclusiveMinimum", most},
           {"exclusiveMinimum", "1e300"},
           {"maximum", "-1e20"},
           {"maximum", "-1000000000000000000"},
           {"maximum", "-9223372036854775808"},
           {"exclusiveMaximum", "-" + most},
       }) {
    CAPTURE(keyword);
    CAPTURE(value);
    CHECK(message_of(integer("\"" + keyword + "\":" + value)) ==
          "schema, #/" + keyword + ": no integer of the 18 digits that are supported is within it");
  }
  for (const std::string bound :
       {R"("minimum":-1e20)", R"("exclusiveMinimum":-1000000000000000000)", R"("maximum":1e20)",
        R"("exclusiveMaximum":1000000000000000000)", R"("maximum":18446744073709551615)"}) {
    CAPTURE(bound);
    CHECK(obeys(integer(bound), most));
    CHECK(obeys(integer(bound), "-" + most));
  }
  CHECK(obeys(integer(R"("minimum":999999999999999999)"), most));
  CHECK_FALSE(obeys(integer(R"("exclusiveMaximum":999999999999999999)"), most));
}

TEST_CASE("json schema: a space may stand behind a colon and a comma, and nowhere else") {
  const char* schema =
      R"({"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}},"required":["a"]})";
  CHECK(obeys(schema, R"({"a":[1,2]})"));
  CHECK(obeys(schema, R"({"a": [1, 2]})"));
  CHECK_FALSE(obeys(schema, R"({"a":  [1,2]})"));
  CHECK_FALSE(obeys(schema, R"({ "a":[1,2]})"));
  CHECK_FALSE(obeys(schema, R"({"a":[1,2]} )"));
}

TEST_CASE("json schema: strings are JSON's: escapes, whole surrogate pairs, UTF-8, no control characters") {
  const char* schema = R"({"type":"string","maxLength":2})";
  CHECK(obeys(schema, R"("\u00e9\n")"));
  CHECK(obeys(schema, R"("\uD83D\uDE00\"")"));
  CHECK(obeys(schema, "\"\xF0\x9F\x98\x80\xC3\xA9\""));
  CHECK_FALSE(obeys(schema, R"("\uD83D")"));
  CHECK_FALSE(obeys(schema, R"("\uDE00")"));
  CHECK_FALSE(obeys(schema, R"("\x")"));
  CHECK_FALSE(obeys(schema, "\"\n\""));
  CHECK_FALSE(obeys(schema, "\"\xC3\""));
  CHECK_FALSE(obeys(schema, "\"abc\""));
}

TEST_CASE("json schema: other members are none of those the schema names, however they are spelled") {
  const char* schema =
      R"({"type":"object","properties":{"ab":{"type":"null"},"a\n":{"type":"null"}},"additionalProperties":{"type":"integer"}})";
  CHECK(obeys(schema, R"({"ab":null,"abc":1,"a":2,"":3,"b":4,"é":5})"));
  CHECK_FALSE(obeys(schema, R"({"ab":1})"));
  CHECK_FALSE(obeys(schema, R"({"a\u0062":1})"));
  CHECK_FALSE(obeys(schema, R"({"a\n":1})"));
  CHECK(obeys(schema, R"({"a\t":1})"));
  CHECK_FALSE(obeys(schema, R"({"abc":1,"ab":null})"));
}

TEST_CASE("json schema: objects that don't say are closed, unless the options open them") {
  const char* schema = R"({"type":"object","properties":{"a":{"type":"integer"}}})";
  CHECK_FALSE(obeys(schema, R"({"a":1,"b":2})"));
  CHECK(obeys(schema, R"({"a":1,"b":[{}]})", {.has_additional_properties = true}));
  CHECK(obeys(R"({"type":"object","properties":{}})", "{}"));
  CHECK_FALSE(obeys(R"({"type":"object","properties":{}})", R"({"a":1})"));
  CHECK(obeys(R"({"type":"object"})", R"({"a":1})"));
}

TEST_CASE("json schema: a name that is required twice is written once") {
  const char* schema = R"({"type":"object","required":["z","z"],"minProperties":1})";
  CHECK(obeys(schema, R"({"z":1})"));
  CHECK_FALSE(obeys(schema, R"({"z":1,"z":1})"));
}

TEST_CASE("json schema: an object of any form is what json_object means") {
  const GrammarMatcher matcher = matcher_of(json_object_grammar());
  CHECK(matches(matcher, R"({"a": [1, -2.5e+10, {"b": {}}], "c": "\u00e9", "d": null, "e": true})"));
  CHECK_FALSE(matches(matcher, R"([1])"));
  CHECK_FALSE(matches(matcher, R"({"a":1,})"));
  CHECK_FALSE(matches(matcher, R"({"a":01})"));
  CHECK_FALSE(matches(matcher, R"({"a":.5})"));
  CHECK_FALSE(matches(matcher, R"({a:1})"));
}

TEST_CASE("json schema: keywords that can't be enforced are refused by name and place") {
  const auto property = [](const std::string& schema) {
    return message_of("{\"type\":\"object\",\"properties\":{\"a/b\":" + schema + "}}");
  };
  const std::string place = "schema, #/properties/a~1b";
  CHECK(property(R"({"not":{}})") == place + "/not: is not supported");
  CHECK(property(R"({"type":"array","uniqueItems":true})") == place + "/uniqueItems: is not supported");
  CHECK(property(R"({"type":"array","contains":{}})") == place + "/contains: is not supported");
  CHECK(property(R"({"type":"object","patternProperties":{}})") ==
        place + "/patternProperties: is not supported");
  CHECK(property(R"({"if":{},"then":{}})") == place + "/if: is not supported");
  CHECK(property(R"({"type":"integer","multipleOf":7})") ==
        place + "/multipleOf: is supported as 1 for integers");
  CHECK(property(R"({"type":"object","properties":{},"minProperties":1})") ==
        place + "/minProperties: is supported up to the number required, or as 1");
  CHECK(property(R"({"type":"object","minProperties":2})") ==
        place + "/minProperties: is supported up to the number required, or as 1");
  CHECK(property(R"({"format":"iri"})") == place + "/format: \"iri\" is not supported");
  CHECK(property(R"({"type":"string","format":"iri"})") == place + "/format: \"iri\" is not supported");
  CHECK(property(R"x({"type":"string","pattern":"(?=a)"})x") ==
        place + "/pattern: pattern, offset 2: look-around is not supported");
  CHECK(property(R"x({"type":"string","pattern":"^a(b|cd)*$","maxLength":5})x") ==
        place + "/maxLength: is not supported beside this pattern");
  CHECK(property(R"({"oneOf":[{"type":"integer"},{"minimum":3}]})") ==
        place + "/oneOf: branches 0 and 1 may be obeyed at once, use anyOf");
  CHECK(property(R"({"enum":["a"],"minLength":3})") ==
        place + "/minLength: is not supported beside enum or const");
  CHECK(property(R"({"enum":["a"],"title":"A","x-order":3})").empty());
  CHECK(property(R"({"$ref":"http://x"})") == place + "/$ref: 'http://x' is not in this schema");
  CHECK(property(R"({"$ref":"#/$defs/x"})") == place + "/$ref: '#/$defs/x' leads nowhere");
  CHECK(property(R"({"type":"text"})") == place + "/type: expected the name of a JSON type, got \"text\"");
  CHECK(property(R"({"type":"string","minLength":-1})") ==
        place + "/minLength: expected a number, 0 or more");
  CHECK(property(R"({"type":"string","maxLength":10000000})") ==
        place + "/maxLength: is supported up to 100000");
  CHECK(property(R"({"type":"integer","minimum":5,"maximum":4})") ==
        place + ": no integer is within the bounds");
  CHECK(property(R"({"type":"string","enum":[1]})") == place + ": no value of enum or const has the type");
  CHECK(property("3") == place + ": expected an object or a truth value");
  CHECK(message_of(R"({"type":"object","required":["a"],"additionalProperties":false})") ==
        "schema, #/required: 'a' is not among the properties");
  CHECK(message_of("false") == "the grammar allows no text that ends");
  CHECK(message_of(R"({"$ref":"#"})") != "");
  CHECK(message_of(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})") ==
        "the grammar allows no text that ends");
  CHECK(message_of("{").starts_with("the schema is not JSON: "));
}

TEST_CASE("json schema: items behind one prefix are not joined with another prefix") {
  const auto message = [](const std::string& left, const std::string& right) {
    return message_of(R"({"type":"array","allOf":[)" + left + "," + right + "]}");
  };
  const std::string prefix = R"({"prefixItems":[{"type":"string"}]})",
                    items = R"({"items":{"type":"integer"}})";
  const std::string both = R"({"prefixItems":[{"type":"string"}],"items":{"type":"integer"}})";
  const std::string reason = ": can't be joined with #/allOf/0, whose prefixItems are others";
  CHECK(message(prefix, items) == "schema, #/allOf/1/items" + reason);
  CHECK(message(items, prefix) == "schema, #/allOf/1/prefixItems" + reason);
  CHECK(message(items, R"({"items":[{"type":"string"}]})") == "schema, #/allOf/1/items" + reason);
  CHECK(message(both, items) == "schema, #/allOf/1/items" + reason);
  CHECK(message(R"({"prefixItems":[{"type":"null"}]})", R"({"items":[{"type":"string"}]})") ==
        "schema, #/allOf/1/items" + reason);
  CHECK(message(items, R"({"allOf":[)" + prefix + "]}") != "");
  CHECK(message(both, prefix).empty());
  CHECK(message(items, R"({"items":{"minimum":3}})").empty());
  CHECK(message(both, R"({"minItems":2})").empty());
}

TEST_CASE("json schema: hostile sizes are refused by number") {
  const auto repeated = [](const std::string& part, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += part;
    return text;
  };
  CHECK(message_of(repeated("[", 100'000)) == "the schema is nested deeper than 64");
  CHECK(message_of(repeated(R"({"items":)", 100) + "{}" + repeated("}", 100)) ==
        "the schema is nested deeper than 64");
  std::string many = "{\"type\":\"object\",\"properties\":{";
  for (int i = 0; i < 6000; ++i) many += "\"p" + std::to_string(i) + "\":{},";
  many.back() = '}';
  CHECK(message_of(many + "}") == "an object or a list of the schema has more than 5000 members");
  CHECK(message_of("{\"enum\":[" + repeated("1,", 5000) + "2]}") ==
        "an object or a list of the schema has more than 5000 members");
  CHECK(message_of("{\"oneOf\":[" + repeated("{},", 200) + "{}]}") ==
        "schema, #/oneOf: more than 200 branches, use anyOf");
  CHECK(message_of(std::string(2 << 20, ' ')) == "a schema of 2097152 bytes, expected at most 1048576");
  CHECK(message_of(R"({"allOf":[{"$ref":"#"},{"type":"object"}]})") != "");
  // Each level doubles what has to be joined.
  std::string doubling = R"({"type":"string"})";
  for (int i = 0; i < 20; ++i)
    doubling = R"({"minLength":)" + std::to_string(i) + R"(,"anyOf":[)" + doubling + "," + doubling + "]}";
  CHECK(message_of(doubling) != "");
}

TEST_CASE("json schema: branches of oneOf are compared up to a number of values, or refused by place") {
  const auto one_of_enums = [](int num_branches, int num_values, const char* before, const char* behind) {
    std::string schema = R"({"oneOf":[)";
    for (int branch = 0; branch < num_branches; ++branch) {
      schema += branch == 0 ? "" : ",";
      schema += std::string(before) + R"({"enum":[)";
      for (int i = 0; i < num_values; ++i)
        schema += (i == 0 ? "" : ",") + std::to_string(branch * num_values + i);
      schema += std::string("]}") + behind;
    }
    return schema + "]}";
  };
  const char* member = R"({"type":"object","required":["k"],"properties":{"k":)";
  CHECK(message_of(one_of_enums(10, 100, "", "")).empty());
  CHECK(message_of(one_of_enums(10, 100, member, "}}")).empty());
  CHECK(message_of(one_of_enums(100, 400, "", "")) ==
        "schema, #/oneOf/4: too much to compare with #/oneOf/0, use anyOf");
  CHECK(message_of(one_of_enums(100, 400, member, "}}")) ==
        "schema, #/oneOf/4: too much to compare with #/oneOf/0, use anyOf");
  CHECK(message_of(R"({"oneOf":[{"enum":[1]},{"enum":[2,1.0]}]})") ==
        "schema, #/oneOf: branches 0 and 1 may be obeyed at once, use anyOf");
}

TEST_CASE("json schema: enums are joined up to an amount of work, or refused by place") {
  Json schema;
  for (int i = 0; i < 4'000; ++i) schema["enum"].push_back(i);
  for (int i = 3'999; i < 8'000; ++i) schema["$defs"]["e"]["enum"].push_back(i);
  const auto with_branches = [&](int num_branches) {
    schema["anyOf"] = Json::array();
    for (int i = 0; i < num_branches; ++i) schema["anyOf"].push_back({{"$ref", "#/$defs/e"}});
    return schema.dump();
  };
  CHECK(obeys(with_branches(2), "3999"));
  CHECK_FALSE(obeys(with_branches(2), "3998"));
  CHECK(message_of(with_branches(3'000)).find("too much to join") != std::string::npos);
}

// Each branch holds its own names against one another: by lists each took an eighth of a second.
TEST_CASE("json schema: names that branches require are joined in time that grows with their number") {
  Json schema = {{"type", "object"}, {"required", {"x"}}};
  for (int i = 0; i < 5'000; ++i) schema["$defs"]["e"]["required"].push_back("n" + std::to_string(i));
  schema["$defs"]["e"]["type"] = "null";
  for (int i = 0; i < 100; ++i) schema["anyOf"].push_back({{"$ref", "#/$defs/e"}});
  CHECK_FALSE(message_of(schema.dump()).empty());
}

TEST_CASE("json schema: thousands of properties, all required, are written in their order") {
  Json schema{{"type", "object"}, {"additionalProperties", false}};
  std::string answer;
  for (int i = 0; i < 3'000; ++i) {
    const std::string name = "p" + std::to_string(i);
    schema["properties"][name] = {{"const", i}};
    schema["required"].push_back(name);
    answer += (i == 0 ? "{\"" : ",\"") + name + "\":" + std::to_string(i);
  }
  CHECK(obeys(schema.dump(), answer + "}"));
  CHECK_FALSE(obeys(schema.dump(), "{\"p0\":0}"));
}

TEST_CASE("json schema: members that are only required count among the most properties") {
  CHECK(message_of(
            R"({"type":"object","required":["a","b"],"maxProperties":1,"additionalProperties":false})") !=
        "");
  CHECK(message_of(R"({"type":"object","required":["a","b"],"maxProperties":1})").find("maxProperties") !=
        std::string::npos);
  CHECK(
      message_of(R"({"type":"object","properties":{"x":{"const":1}},"required":["x","a"],"maxProperties":1})")
          .find("maxProperties") != std::string::npos);
}

TEST_CASE("json schema: a factor without a type is a number's") {
  CHECK(message_of(R"({"multipleOf":7})").find("multipleOf") != std::string::npos);
  CHECK(obeys(R"({"multipleOf":0.1})", "0.5"));
  CHECK_FALSE(obeys(R"({"multipleOf":0.1})", "0.55"));
}

TEST_CASE("json schema: null is allowed where all parts of a schema allow it") {
  const char* const one = R"({"allOf":[{"type":"string","nullable":true},{"type":"string"}]})";
  CHECK(obeys(one, R"("a")"));
  CHECK_FALSE(obeys(one, "null"));
  const char* const both = R"({"allOf":[{"type":"string","nullable":true},{"type":["string","null"]}]})";
  CHECK(obeys(both, "null"));
  CHECK_FALSE(obeys(both, "1"));
  for (const char* const idiom :
       {R"({"$ref":"#/$defs/a","nullable":true,"$defs":{"a":{"type":"string"}}})",
        R"({"allOf":[{"$ref":"#/$defs/a"}],"nullable":true,"$defs":{"a":{"type":"string"}}})"}) {
    CHECK(obeys(idiom, "null"));
    CHECK(obeys(idiom, R"("a")"));
    CHECK_FALSE(obeys(idiom, "1"));
  }
}

TEST_CASE("json schema: a branch that contradicts what is beside it is none") {
  const char* const schema = R"({"type":"string","anyOf":[{"type":"string"},{"type":"null"}]})";
  CHECK(obeys(schema, R"("a")"));
  CHECK_FALSE(obeys(schema, "null"));
  CHECK(obeys(R"({"enum":["a"],"anyOf":[{"enum":["b"]},{"enum":["a","c"]}]})", R"("a")"));
  CHECK(message_of(R"({"allOf":[{"type":"string"},{"type":"null"}]})") ==
        "schema, #/allOf: no value obeys all of its parts");
}

TEST_CASE("json schema: references are read as parts of URIs, counts as integers however they are written") {
  CHECK(obeys(R"({"$ref":"#/$defs/a%20b","$defs":{"a b":{"const":1}}})", "1"));
  CHECK(obeys(R"({"$ref":"#/$defs/a%","$defs":{"a%":{"const":1}}})", "1"));
  CHECK(obeys(R"({"type":"array","items":{"const":1},"minItems":2.0})", "[1,1]"));
  CHECK_FALSE(obeys(R"({"type":"array","items":{"const":1},"minItems":2.0})", "[1]"));
  for (const char* const count : {"1.5", "-1", "-1.0", "\"1\"", "1e30"})
    CHECK_FALSE(message_of(R"({"type":"array","minItems":)" + std::string(count) + "}").empty());
}

TEST_CASE("json schema: a chain of references is followed without nesting") {
  std::string chain = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 4000; ++i)
    chain += "\"d" + std::to_string(i) + "\":{\"$ref\":\"#/$defs/d" + std::to_string(i + 1) + "\"},";
  chain += R"("d4000":{"type":"null"}}})";
  CHECK(obeys(chain, "null"));
}

TEST_CASE("json schema: damaged schemas are refused or obeyed") {
  std::mt19937_64 random(9);
  int num_run = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = all_schemas()[random() % all_schemas().size()];
    for (std::size_t i = 0; i < 1 + random() % 2 && !text.empty(); ++i) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0: text.erase(at, 1 + random() % 3); break;
        case 1: text[at] = static_cast<char>(random() % 128); break;
        case 2: text.insert(at, text.substr(random() % text.size(), random() % 20)); break;
        default: text.insert(at, 1, "{}[]\",:0123456789-"[random() % 18]); break;
      }
    }
    CAPTURE(text);
    try {
      const GrammarMatcher start = matcher_of(grammar_of_json_schema(text));
      CHECK_FALSE(allowed_tokens(start, 257).empty());
      ++num_run;
    } catch (const GrammarError&) {
    }
  }
  CHECK(num_run > 50);
}

}  // namespace troupe
