// SPDX-License-Identifier: Apache-2.0
#include "http/api/requests/thinking_fields.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "http/json/json_text.hpp"

namespace troupe {
namespace {

constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                      "high", "xhigh",   "max"};

// The effort in the field `name`: gateways send words of their own ("default", "auto") to every model.
void read_effort(FieldReader& fields, std::string_view name, const ServedModelInfo& model,
                 ChatPrompt& prompt) {
  const auto effort = fields.string(name);
  const bool is_known = effort && std::find(kEfforts.begin(), kEfforts.end(), *effort) != kEfforts.end();
  if (is_known && model.switches_reasoning) prompt.thinks = *effort != "none";
}

}  // namespace

void read_reasoning_effort(FieldReader& fields, const ServedModelInfo& model, ChatPrompt& prompt) {
  read_effort(fields, "reasoning_effort", model, prompt);
}

void read_reasoning(FieldReader& fields, const ServedModelInfo& model, ChatPrompt& prompt) {
  const auto* value = fields.find("reasoning");
  if (value == nullptr) return;
  if (!value->is_object()) return fields.fail("reasoning", "an object", *value);
  FieldReader reasoning(value->get_object(), "reasoning.");
  read_effort(reasoning, "effort", model, prompt);
  fields.adopt(reasoning);
}

void read_template_variables(FieldReader& fields, ChatPrompt& prompt) {
  const auto* value = fields.find("chat_template_kwargs");
  if (value == nullptr) return;
  if (!value->is_object()) return fields.fail("chat_template_kwargs", "an object", *value);
  FieldReader variables(value->get_object(), "chat_template_kwargs.");
  for (const auto& pair : value->get_object()) {
    const std::string_view name(pair.key().data(), pair.key().size());
    if (name != "enable_thinking" && name != "thinking") {
      variables.fail(shorten(name, 64), " is not supported: only enable_thinking and thinking are");
    } else if (const auto thinks = variables.boolean(name)) {
      prompt.thinks = thinks;
    }
  }
  fields.adopt(variables);
}

}  // namespace troupe
