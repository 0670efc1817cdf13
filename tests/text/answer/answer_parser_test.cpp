// SPDX-License-Identifier: Apache-2.0
#include "text/answer/answer_parser.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/text/answer/call_formats.hpp"
#include "text/detokenizer.hpp"

namespace troupe {
namespace {

constexpr const char* kTools =
    R"([{"type":"function","function":{"name":"clock","parameters":{"type":"object","properties":)"
    R"({"zone":{"type":"string"},"number":{"type":"integer"},"any":{}}}}},)"
    R"({"type":"function","function":{"name":"map","parameters":{"type":"object","properties":{}}}}])";

const CallFormat kHermes = general_call_format();
const CallFormat kLlama = {.arguments_key = "parameters"};
const CallFormat kMistral = {.call_begin = "[TOOL_CALLS]", .is_list = true};
const CallFormat kMistralWithIds = {.style = CallStyle::kNamedJson,
                                    .call_begin = "[TOOL_CALLS]",
                                    .id_begin = "[CALL_ID]",
                                    .name_end = "[ARGS]"};
const CallFormat kKimi = {.style = CallStyle::kNamedJson,
                          .section_begin = "<|section_begin|>",
                          .section_end = "<|section_end|>",
                          .call_begin = "<|call_begin|>functions.",
                          .call_end = "<|call_end|>",
                          .id_begin = ":",
                          .name_end = "<|argument_begin|>"};
const CallFormat kTyped = {.style = CallStyle::kTagged,
                           .section_begin = "<calls>",
                           .section_end = "</calls>",
                           .call_begin = "<invoke name=\"",
                           .call_end = "</invoke>",
                           .name_end = "\">",
                           .key_begin = "<parameter name=\"",
                           .key_end = "\" string=\"true\">",
                           .value_end = "</parameter>",
                           .other_key_end = "\" string=\"false\">"};
const CallFormat kNameIsKey = {
    .call_begin = "<|tools|>", .call_end = "<|end|>", .is_list = true, .name_key = "", .arguments_key = ""};
const CallFormat kPython = {.style = CallStyle::kPython,
                            .call_begin = "<|tool_call_start|>",
                            .call_end = "<|tool_call_end|>",
                            .is_list = true};
const ReasoningFormat kThink = {.begin = "<think>", .end = "</think>"};

struct Read {
  std::string reasoning, text;
  std::vector<CallDelta> calls;  // whole
  bool operator==(const Read&) const = default;
};

void add(Read& read, AnswerParts parts) {
  read.reasoning += parts.reasoning;
  read.text += parts.text;
  for (auto& call : parts.calls) {
    if (call.index == read.calls.size()) {
      CHECK(!call.name.empty());
      CHECK(!call.id.empty());
      read.calls.push_back(std::move(call));
    } else {
      REQUIRE(call.index + 1 == read.calls.size());  // one after the other
      CHECK(call.name.empty());
      CHECK(!call.arguments.empty());
      read.calls.back().arguments += call.arguments;
    }
  }
}

AnswerReading reading(const CallFormat& calls, const ReasoningFormat& reasoning = {}) {
  return {.format = {.calls = calls, .reasoning = reasoning},
          .reads_calls = true,
          .tools = kTools,
          .call_ids = "call_x"};
}

Read read_in(const AnswerReading& given, const std::vector<std::string>& portions,
             AnswerEnd end = AnswerEnd::kWhole) {
  AnswerParser parser(given);
  Read read;
  for (const auto& portion : portions) add(read, parser.push(portion));
  add(read, parser.finish(end));
  return read;
}

// In one portion; and in others it is the same.
Read read(const AnswerReading& given, const std::string& answer) {
  const auto whole = read_in(given, {answer});
  CAPTURE(answer);
  for (std::size_t at = 0; at <= answer.size(); ++at) {
    CAPTURE(at);
    CHECK(read_in(given, {answer.substr(0, at), answer.substr(at)}) == whole);
  }
  std::vector<std::string> bytes;
  for (const char c : answer) bytes.emplace_back(1, c);
  CHECK(read_in(given, bytes) == whole);
  return whole;
}

// As the detokenizer shows special tokens; "#" itself is left out.
std::string with_mark_before(const std::string& text, std::string_view begin) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.compare(at, begin.size(), begin) == 0) out += kSpecialTokenMark;
    if (text[at] != '#') out += text[at];
  }
  return out;
}

// name(arguments) of each call.
std::string calls_of(const Read& read) {
  std::string out;
  for (const auto& call : read.calls) out += call.name + "(" + call.arguments + ")";
  return out;
}

}  // namespace

TEST_CASE("answer parser: calls of every style are read, and the text around them is text") {
  struct Row {
    const CallFormat& format;
    std::string answer;
    std::string calls;
    std::string text = "";
  };
  const std::string a = R"({"zone": "UTC"})", b = R"({"x": [1, {"y": "}"}]})";
  const Row rows[] = {
      {kHermes, "<tool_call>\n{\"name\": \"clock\", \"arguments\": " + a + "}\n</tool_call>",
       "clock(" + a + ")"},
      {kHermes,
       "Let me see.\n\n<tool_call>{\"name\":\"clock\",\"arguments\":" + a +
           "}</tool_call>\n<tool_call>{\"name\":\"map\",\"arguments\":" + b + "}</tool_call>\nDone.",
       "clock(" + a + ")map(" + b + ")", "Let me see.Done."},
      {kHermes, "<tool_call>[{\"name\":\"clock\"},{\"name\":\"map\",\"arguments\":" + b + "}]</tool_call>",
       "clock({})map(" + b + ")"},
      // Arguments in front, in quotes, null; an object of OpenAI's; one that is not closed.
      {kHermes, "<tool_call>{\"arguments\":" + a + ",\"name\":\"clock\"}</tool_call>", "clock(" + a + ")"},
      {kHermes, R"(<tool_call>{"name":"clock","arguments":"{\"zone\": \"UTC\"}"}</tool_call>)",
       "clock(" + a + ")"},
      {kHermes, R"(<tool_call>{"name":"clock","arguments":null}</tool_call>)", "clock({})"},
      {kHermes,
       R"(<tool_call>{"id":7,"type":"function","function":{"name":"clock","parameters":{}}}</tool_call>)",
       "clock({})"},
      {kHermes, "<tool_call>{\"name\":\"clock\",\"arguments\":" + a, "clock(" + a + ")"},
      {kLlama, "{\"name\": \"clock\", \"parameters\": " + a + "}", "clock(" + a + ")"},
      {kLlama, "\n{\"type\":\"function\",\"name\":\"map\",\"parameters\":{}}\n{\"name\":\"clock\"}",
       "map({})clock({})"},
      {kMistral,
       "[TOOL_CALLS][{\"name\": \"clock\", \"arguments\": " + a +
           ", \"id\": \"a12345678\"}, {\"name\": \"map\", \"arguments\": {}}]",
       "clock(" + a + ")map({})"},
      {kMistralWithIds, "[TOOL_CALLS]clock[CALL_ID]a12345678[ARGS]" + a + "[TOOL_CALLS]map[ARGS]" + b,
       "clock(" + a + ")map(" + b + ")"},
      {kKimi,
       "So.<|section_begin|><|call_begin|>functions.clock:0<|argument_begin|>" + a +
           "<|call_end|><|call_begin|>functions.map:1<|argument_begin|>{}<|call_end|><|section_end|>",
       "clock(" + a + ")map({})", "So."},
      {kQwenCoder,
       "<tool_call>\n<function=clock>\n<parameter=zone>\nA \"quoted\"\nline\n</parameter>\n<parameter=number>"
       "\n7\n</parameter>\n</function>\n</tool_call><tool_call><function=map></function></tool_call>",
       R"(clock({"zone": "A \"quoted\"\nline", "number": 7})map({}))"},
      // A string that looks like a number, one that is none, and what no schema tells.
      {kQwenCoder,
       "<tool_call><function=clock><parameter=zone>7</parameter><parameter=number>many</parameter>"
       "<parameter=any>[1, 2]</parameter><parameter=other>x</y></parameter></function></tool_call>",
       R"(clock({"zone": "7", "number": "many", "any": [1, 2], "other": "x</y>"}))"},
      {kTyped,
       "<calls>\n<invoke name=\"clock\">\n<parameter name=\"number\" string=\"true\">7</parameter>"
       "<parameter name=\"any\" string=\"false\">{\"a\": 1}</parameter></invoke></calls>",
       R"(clock({"number": "7", "any": {"a": 1}}))"},
      {kNameIsKey, "<|tools|>[{\"clock\": " + a + "}, {\"map\": {}}]<|end|>", "clock(" + a + ")map({})"},
  };
  for (const auto& row : rows) {
    const auto found = read(reading(row.format), row.answer);
    CAPTURE(row.answer);
    CHECK(calls_of(found) == row.calls);
    CHECK(found.text == row.text);
    for (const auto& call : found.calls) CHECK(nlohmann::json::accept(call.arguments));
  }
}

TEST_CASE("answer parser: ids are numbered, and no two are the same") {
  const auto found =
      read(reading(kHermes),
           "<tool_call>{\"name\":\"clock\"}</tool_call><tool_call>{\"name\":\"clock\"}</tool_call>");
  REQUIRE(found.calls.size() == 2);
  CHECK(found.calls[0].id == "call_x0000");
  CHECK(found.calls[1].id == "call_x0001");
}

TEST_CASE("answer parser: text that is no call stays as it is") {
  const std::string answers[] = {"",
                                 "Plain.",
                                 " \n spaces \n ",
                                 "<tool_call>",
                                 "a <tool_call",
                                 "<tool_call> is how calls begin",
                                 "<tool_call>{}</tool_call>",
                                 "<tool_call>{\"nam\": \"clock\"}</tool_call>",
                                 "<tool_call>{\"name\": 7}</tool_call>",
                                 "<tool_call>{\"name\": \"\"}</tool_call>",
                                 "<tool_call>{\"name\": \"clock\", \"arguments\": [1]}</tool_call>",
                                 "<tool_call>{'name': 'clock'}</tool_call>",
                                 "<tool_call>{\"name\": \"clock\"",
                                 "<tool_call>{\"name\": \"\\ud800\"}",
                                 "<tool_call><tool_call><tool_call>{",
                                 "<tool_call>[[[[[[",
                                 "if (a < b && c > d) { return \"<tool\"; }",
                                 "<think>not known here</think>"};
  for (const auto& answer : answers) {
    const auto found = read(reading(kHermes), answer);
    CHECK(found.text == answer);
    CHECK(found.calls.empty());
  }
  for (const std::string answer :
       {"{\"city\": \"Rome\", \"name\": \"clock\"}", "{\"name\": \"Ada\", \"parameters\": {}}",
        "So: {\"name\": \"clock\", \"parameters\": {}}", "{", "{\"name\"", "[1, 2]"})
    CHECK(read(reading(kLlama), answer) == Read{.reasoning = "", .text = answer, .calls = {}});
  const std::string tagged = "<tool_call>\n<function=>\n</function>";
  CHECK(read(reading(kQwenCoder), tagged).text == tagged);
}

TEST_CASE("answer parser: what fails is text, and a call behind it is one") {
  const auto found =
      read(reading(kHermes), "<tool_call>oops <tool_call>{\"name\":\"clock\"}</tool_call> and <tool_call>");
  CHECK(calls_of(found) == "clock({})");
  CHECK(found.text == "<tool_call>oopsand <tool_call>");
}

TEST_CASE("answer parser: arguments that end early are handed on as far as they came") {
  const auto cut = read(reading(kHermes), "<tool_call>{\"name\":\"clock\",\"arguments\":{\"zone\": \"U");
  CHECK(calls_of(cut) == "clock({\"zone\": \"U)");
  CHECK(cut.text == "");
  const auto broken = read(reading(kHermes), "<tool_call>{\"name\":\"clock\",\"arguments\":{\"zone\": ]}");
  CHECK(calls_of(broken) == "clock({\"zone\": )");
  CHECK(broken.text == "]}");
  // Not closed: nobody should take what was cut off for the whole.
  const auto tagged = read(reading(kQwenCoder), "<tool_call><function=clock><parameter=zone>\nU");
  CHECK(calls_of(tagged) == "clock({\"zone\": \"U)");
}

TEST_CASE("answer parser: a marker behind a call that is cut is no text") {
  const std::string call = "<tool_call>{\"name\":\"clock\"}";
  for (const char* end : {"", "\n", "<", "\n</tool_", "</tool_call"}) {
    CAPTURE(end);
    const auto cut = read(reading(kHermes), call + end);
    CHECK(calls_of(cut) == "clock({})");
    CHECK(cut.text == "");
  }
  CHECK(read(reading(kHermes), call + "\n<b>").text == "<b>");
}

TEST_CASE("answer parser: reasoning comes first and is told from the text") {
  const auto with = reading(kHermes, kThink);
  CHECK(read(with, "<think>\nHm, <tool_call>{\"name\":\"clock\"}.\n</think>\n\nYes.") ==
        Read{.reasoning = "Hm, <tool_call>{\"name\":\"clock\"}.", .text = "Yes.", .calls = {}});
  CHECK(read(with, "No <think>more</think>") ==
        Read{.reasoning = "", .text = "No <think>more</think>", .calls = {}});
  CHECK(read(with, "<think>for ever </th") == Read{.reasoning = "for ever </th", .text = "", .calls = {}});
  CHECK(read(with, "<think></think>\n") == Read{});
  const auto both = read(with, "<think>a</think>\n<tool_call>{\"name\":\"map\"}</tool_call>");
  CHECK(both.reasoning == "a");
  CHECK(both.text == "");
  CHECK(calls_of(both) == "map({})");
}

TEST_CASE("answer parser: a prompt may have opened the reasoning") {
  auto opened = reading(kHermes, kThink);
  opened.begins_in_reasoning = true;
  CHECK(read(opened, "\nHm.\n</think>\nYes.") == Read{.reasoning = "Hm.", .text = "Yes.", .calls = {}});
}

TEST_CASE("answer parser: a marker of the text is dropped, with reasoning and without") {
  const auto given =
      reading(kHermes, {.begin = "<|think|>", .end = "<|end_think|>", .content_begin = "<|text|>"});
  CHECK(read(given, "<|think|>a<|end_think|><|text|>b") == Read{.reasoning = "a", .text = "b", .calls = {}});
  CHECK(read(given, "<|text|>b").text == "b");
  CHECK(read(given, "<|end_think|>b").text == "<|end_think|>b");
}

TEST_CASE("answer parser: without tools calls are text, and reasoning is told apart") {
  auto given = reading(kHermes, kThink);
  given.reads_calls = false;
  const std::string call = " <tool_call>{\"name\":\"clock\"}</tool_call> ";
  CHECK(read(given, "<think>a</think>b" + call).text == "b" + call);
}

TEST_CASE("answer parser: one call may be all that is wanted") {
  auto given = reading(kHermes);
  given.takes_one_call = true;
  const std::string call = "<tool_call>{\"name\":\"clock\",\"arguments\":{}}</tool_call>";
  CHECK(calls_of(read(given, call + call + "text")) == "clock({})");
  CHECK(read(given, call + "text").text == "");
  AnswerParser parser(given);
  CHECK_FALSE(parser.is_done());
  (void)parser.push(call);
  CHECK(parser.is_done());
}

TEST_CASE("answer parser: text and arguments are shown at once unless they may be a marker") {
  AnswerParser parser(reading(kHermes));
  CHECK(parser.push("Hello").text == "Hello");
  CHECK(parser.push(" <b").text == " <b");
  CHECK(parser.push("<tool").text == "");
  CHECK(parser.push("box>").text == "<toolbox>");
  CHECK(parser.push("<tool_call>{\"name\": \"clock\"").calls.empty());
  auto parts = parser.push(", \"arguments\": {\"zo");
  REQUIRE(parts.calls.size() == 1);
  CHECK(parts.calls[0] == CallDelta{.index = 0, .id = "call_x0000", .name = "clock", .arguments = "{\"zo"});
  parts = parser.push("ne");
  REQUIRE(parts.calls.size() == 1);
  CHECK(parts.calls[0] == CallDelta{.index = 0, .arguments = "ne"});
}

TEST_CASE("answer parser: a string in tags is shown while it is written") {
  AnswerParser parser(reading(kQwenCoder));
  (void)parser.push("<tool_call><function=clock><parameter=zone>\n");
  const auto parts = parser.push("Europe\n</par");
  REQUIRE(parts.calls.size() == 1);
  CHECK(parts.calls[0].arguments == "Europe");
}

TEST_CASE("answer parser: calls in Python's notation are read as JSON") {
  const auto called = [](const std::string& arguments) {
    return calls_of(read(reading(kPython), "<|tool_call_start|>[clock(" + arguments + ")]<|tool_call_end|>"));
  };
  CHECK(called("") == "clock({})");
  CHECK(called("zone='Europe/Rome', number=-3") == R"(clock({"zone": "Europe/Rome", "number": -3}))");
  CHECK(called(R"(zone="it's \"so\"", any=[True, None, {'a': (1, 2.5)}, []])") ==
        R"(clock({"zone": "it's \"so\"", "any": [true, null, {"a": [1, 2.5]}, []]}))");
  CHECK(called(R"(zone='a\n\'\x41\u00e9\q')") == "clock({\"zone\": \"a\\n'A\xC3\xA9\\\\q\"})");
  CHECK(called(R"(zone='\ud83d\ude00\U0000d83d\U0000de00')") ==
        R"(clock({"zone": "\ud83d\ude00\ud83d\ude00"}))");
  CHECK(called("any=[1 2]") == R"(clock({"any": [1))");
  CHECK(called(R"(zone="a" "b")") == R"(clock({"zone": "a"))");
  CHECK(called("any=[1, ], ") == R"(clock({"any": [1]}))");
  const auto two =
      read(reading(kPython), "So: <|tool_call_start|>[clock(zone='U'), map()]<|tool_call_end|>!");
  CHECK(calls_of(two) == "clock({\"zone\": \"U\"})map({})");
  CHECK(two.text == "So:!");
  CHECK(called("zone=") == "clock({\"zone\": })");
  CHECK(calls_of(read(reading(kPython), "<|tool_call_start|>[clock(zone=*)]")) == "clock({\"zone\": )");
}

TEST_CASE("answer parser: gpt-oss' call that is cut has no arguments, a header it ends in is its text") {
  AnswerReading harmony = reading(kHermes);
  harmony.format = harmony_answer_format();
  const std::string call = " to=functions.map<|channel|>commentary<|message|>";
  CHECK(calls_of(read_in(harmony, {call}, AnswerEnd::kCut)) == "map()");
  CHECK(calls_of(read_in(harmony, {call, "{"}, AnswerEnd::kCut)) == "map({)");
  CHECK(calls_of(read_in(harmony, {call}, AnswerEnd::kWhole)) == "map({})");
  AnswerParser parser(harmony);
  (void)parser.push(call + "{}<|call|>");
  CHECK_FALSE(parser.is_in_call());
  (void)parser.push(call + "{");
  (void)parser.finish(AnswerEnd::kCut);
  CHECK(parser.is_in_call());
  const std::string headless = "<|channel|>final Yes.";
  CHECK(read_in(harmony, {headless}, AnswerEnd::kWhole).text == headless);
  CHECK(read_in(harmony, {headless}, AnswerEnd::kCut).text.empty());
}

TEST_CASE("answer parser: the messages of gpt-oss are reasoning, text and calls") {
  AnswerReading harmony = reading(kHermes);
  harmony.format = harmony_answer_format();
  const std::string thought = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
  CHECK(read(harmony, thought + "<|channel|>final<|message|>Yes <|.<|return|>") ==
        Read{.reasoning = "Hm.", .text = "Yes <|.", .calls = {}});
  for (const std::string call :
       {"<|channel|>commentary to=functions.clock <|constrain|>json<|message|>{\"zone\":\"U\"}<|call|>",
        " to=functions.clock<|channel|>commentary json<|message|>{\"zone\":\"U\"}",
        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.clock<|channel|>"
        "commentary<|message|>{\"zone\":\"U\"}<|call|>"}) {
    CAPTURE(call);
    const auto found = read(harmony, thought + call);
    CHECK(found.reasoning == "Hm.");
    CHECK(calls_of(found) == "clock({\"zone\":\"U\"})");
    CHECK(found.text == (call.find("look") == std::string::npos ? "" : "I look."));
  }
  CHECK(calls_of(read(harmony, " to=functions.map<|channel|>commentary<|message|><|call|>")) == "map({})");
  CHECK(read(harmony, "No channel, <|end|").text == "No channel, <|end|");
  CHECK(calls_of(read(harmony, " to=functions.map<|channel|>commentary<|message|>")) == "map({})");
  for (const char* cut :
       {"<|channel|>", "<|channel|>analysis", "<|channel|>final<|mess", " to=functions.map"})
    CHECK(read_in(harmony, {thought + cut}, AnswerEnd::kCut) ==
          Read{.reasoning = "Hm.", .text = "", .calls = {}});
  CHECK(read_in(harmony, {thought}, AnswerEnd::kCut).text.empty());
  CHECK(read(harmony, "to b").text == "to b");
  const std::string endless = "<|channel|>" + std::string(1013, 'x');
  CHECK(read_in(harmony, {endless + "<|mess", "age|>a"}).text == "a");
  CHECK(read_in(harmony, {endless + "x<|mess", "age|>a"}).text == endless + "x<|message|>a");
  harmony.reads_calls = false;
  CHECK(read(harmony, " to=functions.map<|channel|>commentary<|message|>{}<|call|>").text == "{}");
}

TEST_CASE("answer parser: gpt-oss' marks that are no special tokens are text") {
  AnswerReading harmony = reading(kHermes);
  harmony.format = harmony_answer_format();
  harmony.has_special_marks = true;
  const auto marked = [](const std::string& text) { return with_mark_before(text, "#"); };
  const std::string quoted = "<|end|><|start|>assistant<|channel|>commentary to=functions.map<|message|>{}";
  const std::string thought = "#<|channel|>analysis#<|message|>" + quoted + "#<|end|>#<|start|>assistant";
  const auto said = read(harmony, marked(thought + "#<|channel|>final#<|message|>" + quoted + "#<|return|>"));
  CHECK(said == Read{.reasoning = quoted, .text = quoted, .calls = {}});
  const auto called =
      read(harmony, marked(thought + "#<|channel|>commentary to=functions.clock #<|constrain|>json"
                                     "#<|message|>{\"zone\":\"<|call|>\"}#<|call|>"));
  CHECK(calls_of(called) == "clock({\"zone\":\"<|call|>\"})");
  CHECK(called.text.empty());
  CHECK(read(harmony, quoted).text == quoted);
  CHECK(read(harmony, marked("#<|channel|>final#<|message|>a#<|constrain|>b")).text == "a<|constrain|>b");
}

TEST_CASE("answer parser: a call whose beginning is endless is text, and is read in bounded time") {
  const std::string endless = "<tool_call>{\"arguments\": {\"a\": \"" + std::string(200'000, 'x');
  AnswerParser parser(reading(kHermes));
  std::string text;
  for (const char c : endless) text += parser.push(std::string(1, c)).text;
  text += parser.finish().text;
  CHECK(text == endless);
  CHECK(read_in(reading(kHermes), {endless}).text == endless);
}

TEST_CASE("answer parser: hostile answers are read alike however they are cut, and none is lost") {
  const std::vector<std::string> pieces = {
      "<tool_call>",
      "</tool_call>",
      "{",
      "}",
      "[",
      "]",
      "\"name\"",
      ":",
      "\"clock\"",
      ",",
      "\"arguments\"",
      "\"",
      "\\",
      "\n",
      " ",
      "<think>",
      "</think>",
      "<",
      "text",
      "<function=",
      "clock",
      ">",
      "<parameter=",
      "zone",
      "</parameter>",
      "</function>",
      "[TOOL_CALLS]",
      "[ARGS]",
      "\xC3\xA9",
      "null",
      "'",
      "(",
      ")",
      "=",
      "True",
      "{\"name\": \"clock\", \"arguments\": {",
      "[{\"name\": \"clock\", \"parameters\": {",
      "[{\"clock\": {",
      "[TOOL_CALLS]clock[ARGS]{",
      "<|section_begin|><|call_begin|>functions.clock:0<|argument_begin|>{",
      "[clock(zone="};
  std::mt19937 random(11);
  const auto draw = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  const CallFormat formats[] = {
      kHermes, kLlama,     kMistral,   kMistralWithIds, kKimi,
      kPython, kQwenCoder, kNameIsKey, kTyped,          *harmony_answer_format().calls};
  std::vector<std::size_t> num_calls(std::size(formats));
  for (int round = 0; round < 4000; ++round) {
    const auto number = draw(std::size(formats));
    auto given = reading(formats[number], draw(2) == 0 ? kThink : ReasoningFormat());
    const bool is_harmony = given.format.is_harmony();
    given.has_special_marks = is_harmony && draw(2) == 0;
    const auto markers = markers_of(given.format, true);
    std::string answer;
    for (std::size_t i = draw(25); i > 0; --i) {
      const bool is_marker = !markers.empty() && draw(2) == 0;
      const auto& piece = is_marker ? markers[draw(markers.size())] : pieces[draw(pieces.size())];
      answer += is_marker && given.has_special_marks ? with_mark_before(piece, "<|") : piece;
    }
    CAPTURE(answer);
    const auto whole = read_in(given, {answer});
    std::vector<std::string> portions;
    for (std::size_t at = 0; at < answer.size();) {
      const auto num = 1 + draw(5);
      portions.push_back(answer.substr(at, num));
      at += num;
    }
    CHECK(read_in(given, portions) == whole);
    num_calls[number] += whole.calls.size();
    if (!is_harmony && whole.calls.empty() && whole.reasoning.empty() &&
        answer.find("<think>") == std::string::npos)
      CHECK(whole.text == answer);
  }
  for (std::size_t number = 0; number < num_calls.size(); ++number)
    CHECK_MESSAGE(num_calls[number] > 0, "format ", number);
}

}  // namespace troupe
