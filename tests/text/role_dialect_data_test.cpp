// SPDX-License-Identifier: Apache-2.0
// Real chat templates outside the repository, given instructions where few expect them.
#include "text/role_dialect.hpp"

#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/text/jinja/template_input.hpp"
#include "tests/text/text_data.hpp"
#include "text/chat_template.hpp"
#include "text/template_messages.hpp"

namespace troupe {
namespace {

using Messages = std::vector<ChatMessage>;

std::optional<std::string> text_of(const ChatTemplate& chat, const Messages& given, bool adds_prompt = true) {
  const auto messages = with_shown_roles(given, chat.role_dialect());
  ChatTemplateInput input;
  input.messages = template_messages(messages, chat.tool_dialect());
  input.add_generation_prompt = adds_prompt;
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.now = {};
  auto rendered = joined(chat.render(std::move(input)));
  if (rendered.is_error) return std::nullopt;
  return std::move(rendered.text);
}

bool has_in_order(const std::string& text, const std::vector<const char*>& parts) {
  std::size_t at = 0;
  for (const char* part : parts) {
    at = text.find(part, at);
    if (at == std::string::npos) return false;
  }
  return true;
}

const ChatMessage kQuestion{.role = "user", .content = "THE QUESTION"};
const ChatMessage kInstruction{.role = "system", .content = "THE INSTRUCTION"};
const Messages kLoop = {
    kQuestion,
    {.role = "assistant", .tool_calls = {{.id = "a1b2c3d4e", .name = "look", .arguments = "{}"}}},
    {.role = "tool", .content = "THE RESULT", .tool_call_id = "a1b2c3d4e"}};

}  // namespace

TEST_CASE("template data: instructions are shown wherever they stand, and leave what is before them") {
  const auto directory = data_dir() / "chat_templates";
  if (is_data_missing(directory)) return;
  std::map<std::string, std::size_t> counts;
  for (const auto* folder : {"templates", "templates_simple"}) {
    for (const auto& entry : std::filesystem::directory_iterator(directory / folder)) {
      CAPTURE(entry.path().filename().string());
      const auto chat = ChatTemplate::parse(file_text(entry.path()));
      if (!text_of(chat, {kQuestion})) {
        ++counts["refused without instructions"];
        continue;
      }
      const auto& dialect = chat.role_dialect();
      counts["developer as system"] += dialect.shows_developer ? 0 : 1;
      counts["several as one"] += dialect.shows_several_systems ? 0 : 1;
      counts["later as text"] += dialect.shows_later_systems ? 0 : 1;
      const auto as_system = text_of(chat, {kInstruction, kQuestion});
      const auto as_developer =
          text_of(chat, {{.role = "developer", .content = "THE INSTRUCTION"}, kQuestion});
      const bool shows_system = as_system && has_in_order(*as_system, {"THE INSTRUCTION", "THE QUESTION"});
      counts["no system"] += shows_system ? 0 : 1;
      if (shows_system)
        CHECK((as_developer && has_in_order(*as_developer, {"THE INSTRUCTION", "THE QUESTION"})));

      Messages loop = kLoop;
      loop.push_back(kInstruction);
      const auto without = text_of(chat, kLoop, false);
      const auto with = text_of(chat, loop);
      if (entry.path().stem() == "MiroThinker") {  // writes into answers, which Jinja's sandbox refuses
        CHECK_FALSE(without);
        continue;
      }
      REQUIRE(without);
      REQUIRE(with);
      CHECK(has_in_order(*with, {"THE QUESTION", "THE RESULT", "THE INSTRUCTION"}));
      const auto kept = without->find("THE RESULT") + std::string("THE RESULT").size();
      CHECK(with->substr(0, kept) == without->substr(0, kept));
    }
  }
  for (const auto& [what, count] : counts) MESSAGE(what << ": " << count);
  CHECK(counts["developer as system"] >= 40);
  CHECK(counts["later as text"] >= 20);
  CHECK(counts["no system"] <= 10);
}

}  // namespace troupe
