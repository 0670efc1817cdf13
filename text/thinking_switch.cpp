// SPDX-License-Identifier: Apache-2.0
#include "text/thinking_switch.hpp"

#include <array>
#include <optional>
#include <variant>
#include <vector>

#include "text/chat_template.hpp"

namespace troupe {
namespace {

// Qwen's and most others', and DeepSeek's.
constexpr std::array<std::string_view, 2> kNames = {"enable_thinking", "thinking"};

// nullopt: the template refuses.
std::optional<std::string> rendered(const ChatTemplate& chat_template, std::string_view name, bool value) {
  ChatTemplateInput input;
  input.messages = {chat_message("user", "A question.")};
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.extra.emplace_back(std::string(name), value);
  input.now = {};  // the same in both
  const auto pieces = chat_template.render(input);
  if (!std::holds_alternative<std::vector<TemplatePiece>>(pieces)) return std::nullopt;
  std::string text;
  for (const TemplatePiece& piece : std::get<std::vector<TemplatePiece>>(pieces)) text += piece.text;
  return text;
}

}  // namespace

std::string probe_thinking_switch(const ChatTemplate& chat_template, std::string_view source) {
  for (const std::string_view name : kNames) {
    if (source.find(name) == std::string_view::npos) continue;
    const auto on = rendered(chat_template, name, true);
    const auto off = rendered(chat_template, name, false);
    if (on && off && *on != *off) return std::string(name);
  }
  return {};
}

}  // namespace troupe
