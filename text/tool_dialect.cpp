// SPDX-License-Identifier: Apache-2.0
#include "text/tool_dialect.hpp"

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/answer/written_calls.hpp"
#include "text/chat_template.hpp"
#include "text/client_json.hpp"
#include "text/rendered_probe.hpp"
#include "text/template_messages.hpp"

namespace troupe {
namespace {

constexpr const char* kTools =
    R"([{"type":"function","function":{"name":"probe_function","description":"A probe.","parameters":)"
    R"({"type":"object","properties":{"probe_key":{"type":"string","description":"A key."}},)"
    R"("required":["probe_key"]}}}])";
constexpr std::array<CallForm, 8> kForms = {{
    {.has_text_arguments = false, .has_short_ids = false, .has_null_content = false},
    {.has_text_arguments = false, .has_short_ids = false, .has_null_content = true},
    {.has_text_arguments = false, .has_short_ids = true, .has_null_content = false},
    {.has_text_arguments = false, .has_short_ids = true, .has_null_content = true},
    {.has_text_arguments = true, .has_short_ids = false, .has_null_content = false},
    {.has_text_arguments = true, .has_short_ids = false, .has_null_content = true},
    {.has_text_arguments = true, .has_short_ids = true, .has_null_content = false},
    {.has_text_arguments = true, .has_short_ids = true, .has_null_content = true},
}};

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// nullopt: the template refuses.
std::optional<std::string> render(const ChatTemplate& chat_template, const std::vector<ChatMessage>& messages,
                                  const ToolDialect& dialect) {
  ChatTemplateInput input;
  input.messages = template_messages(messages, dialect);
  if (dialect.shows_tools) input.tools = parse_client_json(kTools).value_or(TemplateValue());
  return rendered_probe(chat_template, std::move(input));
}

bool shows_tools(const ChatTemplate& chat_template) {
  const auto text =
      render(chat_template, {{.role = "user", .content = "A question."}}, {.shows_tools = true});
  return text && has(*text, "probe_function");
}

std::vector<ChatMessage> called(const std::string& text,
                                const std::string& arguments = R"({"probe_key":"probe_value"})") {
  return {{.role = "user", .content = "A question."},
          {.role = "assistant",
           .content = text,
           .tool_calls = {{.id = "call_0123456789", .name = "probe_function", .arguments = arguments}}},
          {.role = "tool", .content = "probe_result", .tool_call_id = "call_0123456789"}};
}

bool is_shown(const std::optional<std::string>& text) {
  return text && has(*text, "probe_function") && has(*text, "probe_key") && has(*text, "probe_value") &&
         has(*text, "probe_result");
}

// No None where there was no text, no arguments as Python spells a dict, no
// quotes within quotes.
bool is_shown_well(const std::optional<std::string>& text) {
  return is_shown(text) && !has(*text, "None") && !has(*text, "'probe_key'") && !has(*text, "\\\"probe_key");
}

}  // namespace

bool shows_written_calls(const ChatTemplate& chat_template, const CallFormat& format) {
  if (!can_be_written(format)) return false;
  const auto text = render(chat_template, called("probe_text"), {.written = format});
  return is_shown(text) && has(*text, "probe_text") && has(*text, format.call_begin.c_str());
}

ToolDialect probe_tool_dialect(const ChatTemplate& chat_template) {
  ToolDialect dialect{.shows_tools = shows_tools(chat_template)};
  for (const auto& form : kForms) {
    ToolDialect tried{.shows_tools = false, .shows_calls = true, .form = form};
    if (!is_shown_well(render(chat_template, called(""), tried))) continue;
    // Histories come with the tools and without; some templates print tools as Python does.
    tried.shows_tools = dialect.shows_tools;
    if (!is_shown(render(chat_template, called(""), tried))) continue;
    tried.shows_text_beside_calls = true;
    const auto beside_text = render(chat_template, called("probe_text"), tried);
    tried.shows_text_beside_calls = is_shown(beside_text) && has(*beside_text, "probe_text");
    tried.form.needs_object = !render(chat_template, called("", "{probe"), tried);
    return tried;
  }
  return dialect;
}

}  // namespace troupe
