// SPDX-License-Identifier: Apache-2.0
// A stranger's chat template and, behind a zero byte, the values it is rendered with
// as JSON: a list of messages or an object of variables.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "text/chat_template.hpp"
#include "text/client_json.hpp"

namespace troupe::fuzz {
namespace {

// In no template unless it is written with an escape or a format.
constexpr std::string_view kOfClient = "\x02ours\x03";

ChatTemplateInput input_of(std::string_view values) {
  ChatTemplateInput input;
  input.messages = {chat_message("user", std::string(kOfClient))};
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.now = {};
  if (const auto value = parse_client_json(values)) {
    if (const auto* list = std::get_if<TemplateValue::Array>(&value->variant())) {
      input.messages = *list;
    } else if (const auto* object = std::get_if<TemplateValue::Object>(&value->variant())) {
      input.extra = *object;
    }
  }
  return input;
}

void check_pieces(const std::vector<TemplatePiece>& pieces, bool can_make_marks) {
  bool was_input = false;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    require(!pieces[i].text.empty(), "a piece is empty");
    require(i == 0 || pieces[i].from_input != was_input, "neighbouring pieces are of the same kind");
    was_input = pieces[i].from_input;
    const bool has_mark = pieces[i].text.find_first_of(std::string_view("\x02\x03")) != std::string::npos;
    require(was_input || can_make_marks || !has_mark, "a client's text counts as the template's");
  }
}

}  // namespace

void fuzz_chat_template(std::string_view bytes) {
  const auto end = std::min(bytes.find('\0'), bytes.size());
  const auto source = bytes.substr(0, end);
  std::optional<ChatTemplate> chat_template;
  try {
    chat_template = ChatTemplate::parse(std::string(source));
  } catch (const std::runtime_error&) {
    return;
  }
  try {
    EncodingBudget budget;
    const auto rendered =
        chat_template->render(input_of(bytes.substr(std::min(end + 1, bytes.size()))), budget);
    if (const auto* error = std::get_if<TemplateError>(&rendered))
      return require(!error->message.empty(), "a template fails without a reason");
    const bool can_make_marks = source.find_first_of("\\%\x02\x03") != source.npos;
    check_pieces(std::get<std::vector<TemplatePiece>>(rendered), can_make_marks);
  } catch (const EncodingStopped&) {
  }
}

}  // namespace troupe::fuzz
