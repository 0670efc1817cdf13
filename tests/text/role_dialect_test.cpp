// SPDX-License-Identifier: Apache-2.0
#include "text/role_dialect.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "text/chat_template.hpp"

namespace troupe {
namespace {

using Messages = std::vector<ChatMessage>;

constexpr const char* kShowsAll = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}";
// As Qwen3.5's.
constexpr const char* kRefuses =
    "{% for m in messages %}"
    "{% if m.role == 'system' and not loop.first %}{{ raise_exception('system must begin') }}{% endif %}"
    "{% if m.role == 'developer' %}{{ raise_exception('unexpected role') }}{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}{% endfor %}";
constexpr const char* kDrops =
    "{% for m in messages %}{% if m.role in ['user', 'assistant', 'tool'] or (m.role == 'system' and "
    "loop.first) %}<|{{ m.role }}|>{{ m.content }}{% endif %}{% endfor %}";
// As DeepSeek's.
constexpr const char* kHoists =
    "{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% endif %}{% endfor %}"
    "{% for m in messages %}{% if m.role == 'user' %}<|U|>{{ m.content }}"
    "{% elif m.role != 'system' %}<|A|>{{ m.content }}{% endif %}{% endfor %}";

RoleDialect dialect_of(const char* source) { return ChatTemplate::parse(source).role_dialect(); }

ChatMessage message(const char* role, const char* content) { return {.role = role, .content = content}; }

constexpr RoleDialect kShowsFirstSystem{
    .shows_developer = false, .shows_several_systems = false, .shows_later_systems = false};

}  // namespace

TEST_CASE("roles: a template is tried out with developers and with systems behind the beginning") {
  CHECK(dialect_of(kShowsAll) == RoleDialect{});
  CHECK(dialect_of(kRefuses) == kShowsFirstSystem);
  CHECK(dialect_of(kDrops) == kShowsFirstSystem);
  // Here a developer's message becomes an assistant's, and later systems change the beginning.
  CHECK(dialect_of(kHoists) == RoleDialect{.shows_developer = false, .shows_later_systems = false});
}

TEST_CASE("roles: a chat whose roles are shown stays as it is") {
  const Messages chat = {message("developer", "d"), message("user", "u"), message("system", "s")};
  CHECK(shows_roles({}, chat));
  CHECK(with_shown_roles(chat, {}) == chat);
  CHECK_FALSE(shows_roles(kShowsFirstSystem, chat));
  const Messages usual = {message("system", "s"), message("user", "u"), message("assistant", "a")};
  CHECK(shows_roles(kShowsFirstSystem, usual));
  CHECK(with_shown_roles(usual, kShowsFirstSystem) == usual);
}

TEST_CASE("roles: a developer's message becomes the system's, and joins one in front of it") {
  CHECK(with_shown_roles({message("developer", "d"), message("user", "u")}, kShowsFirstSystem) ==
        Messages{message("system", "d"), message("user", "u")});
  CHECK(with_shown_roles({message("system", "s"), message("developer", "d"), message("user", "u")},
                         kShowsFirstSystem) == Messages{message("system", "s\n\nd"), message("user", "u")});
  CHECK_FALSE(
      shows_roles({.shows_several_systems = false}, {message("system", "s"), message("system", "t")}));
}

TEST_CASE("roles: later instructions join the message of the user or tool before them") {
  const ChatMessage calling{.role = "assistant", .tool_calls = {{.id = "1", .name = "f", .arguments = "{}"}}};
  const ChatMessage result{.role = "tool", .content = "r", .tool_call_id = "1"};
  auto joined = result;
  joined.content = "r\n\n<system>\n9 tokens left\n</system>";
  CHECK(with_shown_roles({message("user", "u"), calling, result, message("system", "9 tokens left")},
                         kShowsFirstSystem) == Messages{message("user", "u"), calling, joined});
  CHECK(with_shown_roles({message("user", "u"), message("developer", "d"), message("system", "s")},
                         kShowsFirstSystem) ==
        Messages{message("user", "u\n\n<system>\nd\n</system>\n\n<system>\ns\n</system>")});
}

TEST_CASE("roles: instructions behind an answer begin what follows it") {
  const Messages begun = {message("user", "u"), message("assistant", "a"), message("system", "s")};
  const std::string text = "<system>\ns\n</system>";
  const auto with = [&](Messages more) {
    auto chat = begun;
    chat.insert(chat.end(), more.begin(), more.end());
    return with_shown_roles(chat, kShowsFirstSystem);
  };
  const auto expected = [&](Messages more) {
    Messages chat = {begun[0], begun[1]};
    chat.insert(chat.end(), more.begin(), more.end());
    return chat;
  };
  CHECK(with({}) == expected({{.role = "user", .content = text}}));
  CHECK(with({message("user", "v")}) == expected({{.role = "user", .content = text + "\n\nv"}}));
  CHECK(with({message("assistant", "b")}) ==
        expected({{.role = "user", .content = text}, message("assistant", "b")}));
  CHECK(with({message("tool", "r")}) == expected({{.role = "tool", .content = "r\n\n" + text}}));
}

}  // namespace troupe
