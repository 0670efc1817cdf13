// SPDX-License-Identifier: Apache-2.0
// The fields of a request that say which form its answer must have.
#include <string>
#include <utility>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "http/api/requests/generation_fields.hpp"
#include "http/json/json_text.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

void set_form(FieldReader& fields, ApiRequest& request, OutputForm form) {
  auto& known = request.generation.form;
  if (known) return fields.fail(form.field, " can't be joined with " + known->field);
  known = std::move(form);
}

// The object whose `format` says the form; none where `response_format` does.
std::string_view holder_of_format(ResponseShape shape) {
  if (shape == ResponseShape::kResponse) return "text";
  return shape == ResponseShape::kMessage ? "output_config" : "";
}

// Chats have the schema inside "json_schema", responses and messages beside the type.
void read_schema(FieldReader& format, ApiRequest& request) {
  const bool is_beside = !holder_of_format(request.shape).empty();
  const auto* holder = is_beside ? nullptr : format.find("json_schema");
  if (!is_beside && (holder == nullptr || !holder->is_object()))
    return format.fail("json_schema", " is required: an object with a schema");
  const auto* schema = holder != nullptr ? holder->get_object().if_contains("schema") : format.find("schema");
  const std::string name = holder != nullptr ? "json_schema.schema" : "schema";
  // OpenAI's clients may leave it out; any object will do then.
  if (schema == nullptr || schema->is_null())
    return set_form(format, request,
                    {.kind = OutputForm::Kind::kJsonObject, .field = format.full_name(name)});
  if (!schema->is_object()) return format.fail(name, "an object", *schema);
  set_form(format, request,
           {.kind = OutputForm::Kind::kJsonSchema,
            .text = json::serialize(*schema),
            .field = format.full_name(name)});
}

void read_format(FieldReader& fields, std::string_view name, ApiRequest& request) {
  const auto* value = fields.find(name);
  if (value == nullptr) return;
  if (!value->is_object()) return fields.fail(name, "an object", *value);
  FieldReader format(value->get_object(), fields.full_name(name) + ".");
  const auto type = format.string("type").value_or("");
  if (type == "json_schema") {
    read_schema(format, request);
  } else if (type == "json_object") {
    set_form(format, request, {.kind = OutputForm::Kind::kJsonObject, .field = fields.full_name(name)});
  } else if (type != "text") {
    format.fail("type", " must be \"text\", \"json_object\" or \"json_schema\", got \"" +
                            std::string(shorten(type, 32)) + "\"");
  }
  fields.adopt(format);
}

void read_text(FieldReader& fields, std::string_view name, OutputForm::Kind kind, ApiRequest& request) {
  auto text = fields.string(name);
  if (!text || text->empty()) return;
  set_form(fields, request, {.kind = kind, .text = std::move(*text), .field = std::string(name)});
}

}  // namespace

void read_output_form(FieldReader& fields, ApiRequest& request) {
  if (const auto name = holder_of_format(request.shape); !name.empty()) {
    // Verbosity and effort are wishes, not meanings.
    const auto* holder = fields.find(name);
    if (holder != nullptr && !holder->is_object()) return fields.fail(name, "an object", *holder);
    if (holder != nullptr) {
      FieldReader inner(holder->get_object(), std::string(name) + ".");
      read_format(inner, "format", request);
      fields.adopt(inner);
    }
  } else {
    read_format(fields, "response_format", request);
  }
  read_text(fields, "grammar", OutputForm::Kind::kGrammar, request);
  read_text(fields, "regex", OutputForm::Kind::kRegex, request);
  const GenerationRequest& generation = request.generation;
  if (!generation.form) return;
  // The form says when the answer may end.
  if (generation.min_tokens > 0) fields.fail("min_tokens", " can't be joined with " + generation.form->field);
  if (generation.ignore_eos) fields.fail("ignore_eos", " can't be joined with " + generation.form->field);
}

}  // namespace troupe
