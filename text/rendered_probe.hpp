// SPDX-License-Identifier: Apache-2.0
// Templates are asked for their dialects by probes: a chat is rendered and its text looked through. Probes
// have these special tokens, whichever the model has.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/chat_template.hpp"

namespace troupe {

// nullopt: the template refuses.
inline std::optional<std::string> rendered_probe(const ChatTemplate& chat_template, ChatTemplateInput input) {
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  const auto rendered = chat_template.render(std::move(input));
  const auto* pieces = std::get_if<std::vector<TemplatePiece>>(&rendered);
  if (pieces == nullptr) return std::nullopt;
  std::string text;
  for (const auto& piece : *pieces) text += piece.text;
  return text;
}

}  // namespace troupe
