// SPDX-License-Identifier: Apache-2.0
#include "text/history/message_chain.hpp"

#include <doctest/doctest.h>

#include <set>

namespace troupe {
namespace {

std::uint64_t key(const ChatMessage& message) { return chain_key(message, 1); }

ChatMessage calling(const std::string& arguments) {
  return {.role = "assistant", .tool_calls = {{"call_1", "clock", arguments}}};
}

}  // namespace

TEST_CASE("message chain: every message changes the keys from there on") {
  const std::vector<ChatMessage> chat = {{"user", "one"}, {"assistant", "two"}, {"user", "three"}};
  auto edited = chat;
  edited[1].content = "2";
  const auto keys = chain_keys(chat, 7), others = chain_keys(edited, 7), seeded = chain_keys(chat, 8);
  REQUIRE(keys.size() == 3);
  CHECK(keys[0] == others[0]);
  CHECK(keys[1] != others[1]);
  CHECK(keys[2] != others[2]);
  CHECK(keys[0] != seeded[0]);
}

TEST_CASE("message chain: each byte of a long text counts, wherever it is") {
  const std::string text(100, 'a');
  std::set<std::uint64_t> keys = {chain_key(text, 1)};
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string other = text;
    other[at] = 'b';
    keys.insert(chain_key(other, 1));
    keys.insert(chain_key(text.substr(at), 1));
  }
  CHECK(keys.size() == 2 * text.size());  // all of it at 0 is the text itself
}

TEST_CASE("message chain: each field counts, and no two fields run into each other") {
  const std::set<std::uint64_t> keys = {
      key({"user", "ab"}),
      key({"usera", "b"}),
      key({"user", "ab\n"}),
      key({.role = "user", .content = "ab", .name = "x"}),
      key({.role = "user", .content = "ab", .tool_call_id = "x"}),
      key({.role = "user", .content = "ab", .tool_calls = {{"i", "n", "{}"}}}),
      key({.role = "user", .content = "ab", .tool_calls = {{"in", "", "{}"}}}),
      key({"user", std::string("ab\0", 3)}),
  };
  CHECK(keys.size() == 8);
}

TEST_CASE("message chain: ids of calls, which some clients drop, do not count") {
  ChatMessage dropped = calling("{}");
  dropped.tool_calls[0].id.clear();
  CHECK(key(dropped) == key(calling("{}")));
  dropped.tool_calls[0].name = "watch";
  CHECK(key(dropped) != key(calling("{}")));
}

TEST_CASE("message chain: white space that clients change in answers does not count") {
  CHECK(key({"assistant", "\n Yes. \n"}) == key({"assistant", "Yes."}));
  CHECK(key({"assistant", "Y es."}) != key({"assistant", "Yes."}));
  CHECK(key(calling("{\"a\": 1}")) == key(calling("{\"a\":1}")));
  CHECK(key(calling("")) == key(calling("{}")));
  CHECK(key(calling("{\"a\":1}")) != key(calling("{\"a\":2}")));
}

}  // namespace troupe
