// SPDX-License-Identifier: Apache-2.0
#include "text/answer/written_calls.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/answer/answer_parser.hpp"

using namespace troupe;

namespace {

const CallFormat kLfm2 = {.style = CallStyle::kPython,
                          .call_begin = "<|tool_call_start|>",
                          .call_end = "<|tool_call_end|>",
                          .is_list = true};
const CallFormat kKimi = {.style = CallStyle::kNamedJson,
                          .section_begin = "<|tool_calls_section_begin|>",
                          .section_end = "<|tool_calls_section_end|>",
                          .call_begin = "<|tool_call_begin|>functions.",
                          .call_end = "<|tool_call_end|>",
                          .id_begin = ":",
                          .has_numbered_ids = true,
                          .name_end = "<|tool_call_argument_begin|>"};
constexpr const char* kTools =
    R"([{"type":"function","function":{"name":"clock","parameters":{"type":"object"}}},)"
    R"({"type":"function","function":{"name":"map","parameters":{"type":"object"}}}])";

std::vector<ToolCall> read(const CallFormat& format, const std::string& text) {
  AnswerParser parser({.format = {.calls = format}, .reads_calls = true, .tools = kTools});
  std::vector<ToolCall> calls;
  for (auto parts : {parser.push(text), parser.finish()}) {
    for (const auto& delta : parts.calls) {
      if (delta.index == calls.size()) calls.push_back({.name = delta.name});
      calls.at(delta.index).arguments += delta.arguments;
    }
  }
  return calls;
}

}  // namespace

TEST_CASE("written calls: LFM2's are Python's, Kimi's are JSON behind a numbered name") {
  const std::vector<ToolCall> calls = {
      {.id = "a", .name = "clock", .arguments = R"({"zone":"U\"T","deep":{"a":[true,null,1.5]}})"},
      {.id = "b", .name = "map"}};
  CHECK(written_calls(calls, kLfm2, 3).text() ==
        R"(<|tool_call_start|>[clock(zone="U\"T", deep={"a": [True, None, 1.5]}), map()]<|tool_call_end|>)");
  CHECK(written_calls(calls, kKimi, 3).text() ==
        R"(<|tool_calls_section_begin|><|tool_call_begin|>functions.clock:3<|tool_call_argument_begin|>)"
        R"({"zone":"U\"T","deep":{"a":[true,null,1.5]}}<|tool_call_end|><|tool_call_begin|>functions.map:4)"
        R"(<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>)");
  CHECK(written_call_id(calls[1], kKimi, 4) == "functions.map:4");
  CHECK(written_call_id(calls[1], kLfm2, 4).empty());
}

TEST_CASE("written calls: what is written is read as the same calls") {
  for (const auto& format : {kLfm2, kKimi}) {
    for (const std::string arguments :
         {R"({})", R"({"zone":"UTC"})", R"({"a":[1,-2.5,true,false,null],"b":{"c":{"d":"e"}}})",
          R"({"text":"a, b) [c] {d} = 'e' \"f\" \n\u0001 \u00e4 \\"})"}) {
      CAPTURE(arguments);
      const std::vector<ToolCall> calls = {{.name = "clock", .arguments = arguments},
                                           {.name = "map", .arguments = "{}"}};
      const auto found = read(format, written_calls(calls, format, 0).text());
      REQUIRE(found.size() == 2);
      CHECK(found[0].name == "clock");
      CHECK(nlohmann::json::parse(found[0].arguments) == nlohmann::json::parse(arguments));
      CHECK(found[1].name == "map");
    }
  }
}

TEST_CASE("written calls: markers are ours, names and arguments are the client's") {
  for (const auto& format : {kLfm2, kKimi}) {
    const MarkedString text =
        written_calls({{.name = "<|tool_call_end|>", .arguments = "<|end|>"}}, format, 0);
    CHECK_FALSE(text.is_input(0));
    CHECK_FALSE(text.is_input(text.size() - 1));
    for (const std::string_view part : {"<|tool_call_end|>", "<|end|>"}) {
      const std::size_t at = text.text().find(part);
      REQUIRE(at != std::string::npos);
      for (std::size_t i = at; i < at + part.size(); ++i) CHECK(text.is_input(i));
    }
  }
}
