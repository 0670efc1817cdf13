// SPDX-License-Identifier: Apache-2.0
#include "actors/request/answer/answer_items.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "actors/request/answer/stored_items.hpp"

using namespace troupe;

namespace {

using Kind = AnswerItem::Kind;

TextDelta text(const std::string& text) { return {.text = text, .usage = {}}; }
TextDelta calls(std::vector<CallDelta> calls) { return {.text = "", .usage = {}, .calls = std::move(calls)}; }
TextDelta thoughts(const std::string& thoughts) { return {.text = "", .usage = {}, .reasoning = thoughts}; }

// "r:…|t:…|c:id name …"
std::string shown(const AnswerItems& items) {
  std::string out;
  for (const auto& item : items.all()) {
    if (!out.empty()) out += "|";
    if (item.kind == Kind::kReasoning) out += "r:";
    if (item.kind == Kind::kText) out += "t:";
    if (item.kind == Kind::kCall) out += "c:" + item.id + " " + item.name + " ";
    out += item.text;
  }
  return out;
}

AnswerItems items_of(const std::vector<TextDelta>& deltas) {
  AnswerItems items;
  for (const auto& delta : deltas) items.add(delta);
  return items;
}

std::string kept_and_found(AnswerItems items, const ToolNames& names = {}) {
  StoredResponse response;
  keep_answer(response, std::move(items), names);
  return shown(answer_of(response));
}

}  // namespace

TEST_CASE("answer items: deltas become items in the order in which they were written") {
  const auto items = items_of(
      {thoughts("h"), thoughts("m"), text("Wait"), text("."), calls({{.index = 0, .id = "c0", .name = "f"}}),
       calls({{.index = 0, .arguments = "{\"a\""}}),
       calls({{.index = 0, .arguments = ":1}"}, {.index = 1, .id = "c1", .name = "g", .arguments = "{}"}}),
       text("Done.")});
  CHECK(shown(items) == "r:hm|t:Wait.|c:c0 f {\"a\":1}|c:c1 g {}|t:Done.");
}

TEST_CASE("answer items: within a delta the open call comes first, then text, then calls that begin") {
  const auto items = items_of({calls({{.index = 0, .id = "c0", .name = "f", .arguments = "{"}}),
                               {.text = "So",
                                .usage = {},
                                .calls = {{.index = 0, .arguments = "}"},
                                          {.index = 1, .id = "c1", .name = "g"},
                                          {.index = 1, .arguments = "{}"}}}});
  CHECK(shown(items) == "c:c0 f {}|t:So|c:c1 g {}");
}

TEST_CASE("answer items: joined they are what a chat has of the answer") {
  const auto whole =
      joined(items_of({thoughts("h"), text("a"), calls({{.id = "c0", .name = "f", .arguments = "{}"}}),
                       text("b"), calls({{.index = 1, .id = "c1", .name = "g"}})}));
  CHECK(whole.reasoning == "h");
  CHECK(whole.text == "ab");
  CHECK(whole.calls == std::vector<CallDelta>{{.index = 0, .id = "c0", .name = "f", .arguments = "{}"},
                                              {.index = 1, .id = "c1", .name = "g"}});
}

TEST_CASE("answer items: no token is lost, whatever it came with") {
  const auto token = [](const std::string& of) { return AnswerToken{.token = {.text = of, .bytes = of}}; };
  const auto whole = joined(items_of({{.text = "", .usage = {}, .tokens = {token("a")}},
                                      {.text = "ab", .usage = {}, .tokens = {token("b")}},
                                      {.text = "", .usage = {}, .tokens = {token("c")}}}));
  std::string tokens;
  for (const auto& each : whole.tokens) tokens += each.token.text;
  CHECK(tokens == "abc");
  CHECK(joined(items_of({{.text = "", .usage = {}, .tokens = {token("a")}}})).tokens.size() == 1);
}

TEST_CASE("answer items: a call is named as its client names the tool, and a custom tool's input is text") {
  const ToolNames names = {{.shown = "files__read", .name_space = "files", .name = "read"},
                           {.shown = "patch", .name = "patch", .is_custom = true}};
  auto items =
      items_of({calls({{.id = "c0", .name = "files__read", .arguments = "{}"}}),
                calls({{.index = 1, .id = "c1", .name = "patch", .arguments = R"({"input": "a\nb"})"}}),
                calls({{.index = 2, .id = "c2", .name = "patch", .arguments = R"({"input": "cut)"}}),
                calls({{.index = 3, .id = "c3", .name = "other"}})});
  items.name_calls(names);
  const auto& all = items.all();
  CHECK(all[0].name == "read");
  CHECK(all[0].name_space == "files");
  CHECK(all[1].text == "a\nb");
  CHECK(all[1].is_custom);
  CHECK(all[2].text == R"({"input": "cut)");
  CHECK(all[3].name == "other");
  CHECK(all[3].text == "{}");
}

TEST_CASE("answer items: a stored answer is found as it was, and as messages it is a chat's") {
  CHECK(kept_and_found(items_of({text("Hi")})) == "t:Hi");
  CHECK(kept_and_found({}) == "t:");
  const ToolNames names = {{.shown = "files__read", .name_space = "files", .name = "read"},
                           {.shown = "patch", .name = "patch", .is_custom = true}};
  const auto items =
      items_of({thoughts("hm"), text("Wait."),
                calls({{.id = "c0", .name = "files__read", .arguments = R"({"a": 1})"}}),
                calls({{.index = 1, .id = "c1", .name = "patch", .arguments = R"({"input":"x"})"}})});
  CHECK(kept_and_found(items, names) == "r:hm|t:Wait.|c:c0 read {\"a\": 1}|c:c1 patch x");

  StoredResponse response;
  keep_answer(response, items, names);
  CHECK(response.output.empty());
  std::vector<ChatMessage> messages = {{.role = "user", .content = "?"}};
  for (const auto& item : response.answer) append_message(messages, item);
  REQUIRE(messages.size() == 2);
  CHECK(messages[1] ==
        ChatMessage{.role = "assistant",
                    .content = "Wait.",
                    .tool_calls = {{.id = "c0", .name = "files__read", .arguments = R"({"a": 1})"},
                                   {.id = "c1", .name = "patch", .arguments = R"({"input":"x"})"}},
                    .reasoning = "hm"});
}
