// SPDX-License-Identifier: Apache-2.0
#include "text/answer/call_grammar.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/answer/argument_grammar.hpp"
#include "text/answer/harmony_parser.hpp"
#include "text/answer/marker_grammar.hpp"
#include "text/answer/tool_schemas.hpp"
#include "text/grammar/grammar_builder.hpp"
#include "text/grammar/json_schema.hpp"
#include "text/grammar/json_text.hpp"
#include "text/grammar/marked_text.hpp"
#include "text/grammar/schema_document.hpp"

namespace troupe {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kMaxIdDigits = 6;
constexpr std::uint32_t kIdCharacters = 9;  // of ids that are no numbers: Mistral's

struct Tool {
  std::string name;
  std::string schema;  // JSON
  bool is_strict = false;
  bool must_obey = false;  // no grammar rather than arguments that are left free
};

// No member is named, and none is forbidden or bounded: arguments are any.
bool names_nothing(const Json& parameters) {
  const auto says_nothing = [](const auto& member) {
    const std::string& key = member.key();
    const Json& value = member.value();
    if (key == "type") return value == "object";
    if (key == "properties" || key == "required") return value.empty();
    return is_annotation(key);
  };
  const auto members = parameters.items();
  return parameters.contains("type") && std::all_of(members.begin(), members.end(), says_nothing);
}

constexpr const char* kAnyArguments = R"({"type": "object"})";

// By a keyword of a schema.
bool holds_values(const std::string& keyword) {
  return keyword == "const" || keyword == "enum" || keyword == "default" || keyword == "examples";
}
bool holds_names(const std::string& keyword) {
  return keyword == "properties" || keyword == "patternProperties" || keyword == "dependentSchemas" ||
         keyword == "$defs" || keyword == "definitions";
}

// Parts that are the schema itself, such as an argument that may hold what all of them may, refer to `target`
// from now on. False: there are none.
bool redirect(Json& schema, const std::string& target) {
  struct Part {
    Json* json;
    bool has_names;
  };
  std::vector<Part> parts = {{&schema, false}};
  bool has_any = false;
  while (!parts.empty()) {
    const Part part = parts.back();
    parts.pop_back();
    if (part.json->is_array())
      for (Json& inner : *part.json) parts.push_back({&inner, false});
    if (!part.json->is_object()) continue;
    for (auto member = part.json->begin(); member != part.json->end(); ++member) {
      const std::string& key = member.key();
      Json& value = member.value();
      const bool is_reference = !part.has_names && key == "$ref" && value == "#";
      has_any = has_any || is_reference;
      if (is_reference) value = target;
      if (part.has_names || !holds_values(key))
        parts.push_back({&value, !part.has_names && holds_names(key)});
    }
  }
  return has_any;
}

// Its parts that are the schema itself are so under a name of their own, whatever becomes of the schema.
void name_itself(Json& schema) {
  constexpr const char* kDefinitions = "$defs";
  if (schema.contains(kDefinitions) && !schema.at(kDefinitions).is_object()) return;
  std::string name = "itself";
  while (schema.contains(kDefinitions) && schema.at(kDefinitions).contains(name)) name += '_';
  if (!redirect(schema, std::string("#/") + kDefinitions + "/" + name)) return;
  Json itself = schema;
  for (const char* elsewhere : {kDefinitions, "definitions"}) itself.erase(elsewhere);
  schema[kDefinitions][name] = std::move(itself);
}

// Arguments are an object, also where the schema does not say so, or may be null by it. A part of them that
// is the schema itself may still be null.
Json of_objects(Json parameters) {
  if (!parameters.is_object()) return parameters;
  name_itself(parameters);
  const auto type = parameters.find("type");
  const auto allows = [&] {
    return type->is_array() ? std::find(type->begin(), type->end(), "object") != type->end()
                            : *type == "object";
  };
  if (type != parameters.end() && !allows()) return parameters;
  parameters["type"] = "object";
  parameters.erase("nullable");
  return parameters;
}

std::string schema_of(const Json& parameters, bool is_strict) {
  if (!has_constraints(parameters)) return kAnyArguments;
  const Json schema = of_objects(parameters);
  return !is_strict && names_nothing(schema) ? kAnyArguments : schema.dump();
}

std::vector<Tool> demanded_tools(std::string_view tools, const CallDemand& demand) {
  const std::string& name = demand.name;
  std::vector<Tool> out;
  for (const Json& tool : Json::parse(tools)) {
    const Json& function = tool.at("function");
    if (!name.empty() && function.at("name") != name) continue;
    const bool is_strict = function.contains("strict") && function.at("strict") == true;
    out.push_back({.name = function.at("name"),
                   .schema = schema_of(function.at("parameters"), is_strict),
                   .is_strict = is_strict,
                   .must_obey = is_strict && !demand.may_be_text});
  }
  if (out.empty())
    throw GrammarError(name.empty() ? "there are no tools" : "there is no tool \"" + name + "\"");
  return out;
}

// With any arguments of those that are not strict, or of all.
std::vector<Tool> freed(std::vector<Tool> tools, bool strict_ones_too) {
  for (Tool& tool : tools)
    if (strict_ones_too || !tool.is_strict) tool.schema = kAnyArguments;
  return tools;
}

// Arguments hold no mark of gpt-oss where one would be read.
JsonSpelling spelling_of_arguments(const CallFormat& format, const Tokenizer& tokenizer) {
  JsonSpelling spelling;
  if (format.style == CallStyle::kHarmony && !harmony::has_special_marks(tokenizer)) spelling.escaped = '<';
  if (format.spelling) spelling.separators = format.spelling->arguments;
  return spelling;
}

// The spelling of the object around name and arguments.
JsonSpelling spelling_of_object(const CallFormat& format) {
  return {.separators = format.spelling ? format.spelling->object : std::nullopt};
}

class CallGrammar {
 public:
  CallGrammar(const AnswerReading& reading, const Tokenizer& tokenizer)
      : reading_(reading),
        format_(*reading.format.calls),
        schemas_(reading.tools),
        markers_(builder_, tokenizer),
        spelling_(spelling_of_arguments(format_, tokenizer)),
        json_(builder_, spelling_),
        object_(builder_, spelling_of_object(format_)),
        arguments_(builder_, tokenizer, format_, schemas_) {}

  Grammar of(const std::vector<Tool>& tools, const CallDemand& demand) {
    if (reading_.format.is_harmony()) return builder_.build(harmony_messages(tools, demand.may_be_text));
    const auto calls = section_of(tools, demand.is_for_one || (demand.may_be_text && is_followed_by_text()));
    return builder_.build(demand.may_be_text ? with_thought(text_with(calls, demand.is_for_one))
                                             : builder_.sequence({reasoning(), calls}));
  }

 private:
  // Behind each call: text, in which the next one may begin, is free only where nothing else may follow.
  bool is_followed_by_text() const { return format_.section_begin.empty() && !format_.is_list; }

  GrammarExpression section_of(const std::vector<Tool>& tools, bool is_for_one) {
    const auto calls = format_.is_list ? list_of(tools, is_for_one) : calls_of(tools, is_for_one);
    return builder_.sequence({spaced(format_.section_begin, &CallSpelling::behind_section_begin), calls,
                              spaced_end(&CallSpelling::before_section_end, format_.section_end)});
  }

  GrammarExpression calls_of(const std::vector<Tool>& tools, bool is_for_one) {
    const auto one = builder_.sequence(
        {spaced(format_.call_begin, &CallSpelling::behind_call_begin), any_call(tools), end_of_call()});
    if (is_for_one) return one;
    const auto next = builder_.sequence({space(&CallSpelling::between_calls), one});
    return builder_.sequence({one, builder_.repeat(next, 0, kUnboundedCount)});
  }

  GrammarExpression list_of(const std::vector<Tool>& tools, bool is_for_one) {
    const auto one = any_call(tools);
    const auto comma = format_.spelling ? builder_.text(format_.spelling->between_calls) : json_.comma();
    const auto further =
        builder_.repeat(builder_.sequence({comma, one}), 0, is_for_one ? 0 : kUnboundedCount);
    return builder_.sequence({spaced(format_.call_begin, &CallSpelling::behind_call_begin),
                              builder_.text("["), one, further, builder_.text("]"), end_of_call()});
  }

  GrammarExpression space(const std::string CallSpelling::*part) {
    return markers_.space(format_.spelling, part);
  }
  GrammarExpression spaced(std::string_view marker, const std::string CallSpelling::*behind) {
    if (marker.empty()) return builder_.empty();
    return builder_.sequence({markers_.exact(marker), space(behind)});
  }
  GrammarExpression spaced_end(const std::string CallSpelling::*before, std::string_view marker) {
    if (marker.empty()) return builder_.empty();
    return builder_.sequence({space(before), markers_.exact(marker)});
  }
  // Arguments in tags bring the white space behind them.
  GrammarExpression end_of_call() {
    return format_.style == CallStyle::kTagged ? markers_.exact(format_.call_end)
                                               : spaced_end(&CallSpelling::before_call_end, format_.call_end);
  }

  // Thoughts and preambles, each a message, then a call or the answer's text; a call ends the answer.
  GrammarExpression harmony_messages(const std::vector<Tool>& tools, bool may_be_text) {
    const auto body = free_text_without(builder_, {harmony::kEnds.begin(), harmony::kEnds.end()});
    const auto message = [&](const std::string& channel) {
      return builder_.sequence({markers_.exact(harmony::kChannel + channel + harmony::kMessage), body});
    };
    const auto end = markers_.exact(std::string(harmony::kEnd) + harmony::kStart);
    std::vector<GrammarExpression> first{builder_.sequence({message("analysis"), end})};
    if (may_be_text) first.push_back(builder_.sequence({message("commentary"), end}));
    std::vector<GrammarExpression> last;
    for (const Tool& tool : tools) last.push_back(harmony_call(tool));
    if (may_be_text)
      for (const char* channel : {"final", "analysis", "commentary"}) last.push_back(message(channel));
    return builder_.sequence({builder_.repeat(builder_.any_of(std::move(first)), 0, kUnboundedCount),
                              builder_.any_of(std::move(last))});
  }

  // The recipient behind the channel, or in front of it as the template writes it.
  GrammarExpression harmony_call(const Tool& tool) {
    const auto name = builder_.text(tool.name);
    const auto behind_channel =
        builder_.sequence({markers_.exact(format_.call_begin), name, markers_.exact(format_.name_end)});
    const auto before_channel = builder_.sequence(
        {markers_.exact(harmony::kRecipient), name,
         markers_.exact(std::string(harmony::kChannel) + "commentary json" + harmony::kMessage)});
    return builder_.sequence({builder_.any_of({behind_channel, before_channel}), arguments_of(tool),
                              builder_.optional(markers_.exact(format_.call_end))});
  }

  // Text, and behind calls text again.
  GrammarExpression text_with(GrammarExpression calls, bool is_for_one) {
    const GrammarRule text = builder_.declare_rule();
    const auto further = is_for_one ? calls : builder_.sequence({calls, builder_.call(text)});
    builder_.define(text, builder_.sequence(
                              {free_text_without(builder_, format_.triggers()), builder_.optional(further)}));
    return builder_.call(text);
  }

  GrammarExpression any_call(const std::vector<Tool>& tools) {
    std::vector<GrammarExpression> calls;
    for (const Tool& tool : tools) calls.push_back(call_of(tool));
    return builder_.any_of(std::move(calls));
  }

  GrammarExpression call_of(const Tool& tool) {
    const auto arguments = arguments_of(tool);
    const auto name = builder_.text(tool.name);
    switch (format_.style) {
      case CallStyle::kJson: return object_of(tool, arguments);
      case CallStyle::kNamedJson:
        return builder_.sequence({name, id(), name_end(), space(&CallSpelling::behind_name_end), arguments});
      case CallStyle::kTagged: return builder_.sequence({name, name_end(), arguments});
      case CallStyle::kPython: return builder_.sequence({name, json_.enclosed("(", arguments, ")")});
      case CallStyle::kHarmony: break;  // not in a section
    }
    return builder_.nothing();
  }

  // The space in front of it is drawn where a template writes it, and else only to end the name.
  GrammarExpression name_end() {
    const bool ends_name = !format_.name_end.starts_with('`');
    const std::string before = format_.spelling ? format_.spelling->behind_name : ends_name ? "" : "\n";
    return builder_.sequence({builder_.text(before), markers_.exact(format_.name_end)});
  }

  GrammarExpression object_of(const Tool& tool, GrammarExpression arguments) {
    if (format_.name_key.empty())
      return object_.enclosed("{", object_.pair(std::string_view(tool.name), arguments), "}");
    const auto name =
        object_.pair(std::string_view(format_.name_key), builder_.text("\"" + tool.name + "\""));
    const auto of_arguments = object_.pair(std::string_view(format_.arguments_key), arguments);
    return object_.enclosed("{", builder_.sequence({name, object_.comma(), of_arguments}), "}");
  }

  GrammarExpression id() {
    if (format_.id_begin.empty()) return builder_.empty();
    ByteSet characters;
    for (unsigned char byte = '0'; byte <= '9'; ++byte) characters.set(byte);
    const auto begin = markers_.exact(format_.id_begin);
    if (format_.has_numbered_ids)
      return builder_.sequence({begin, builder_.repeat(builder_.byte_of(characters), 1, kMaxIdDigits)});
    for (unsigned char byte = 'a'; byte <= 'z'; ++byte) characters.set(byte).set(byte - 'a' + 'A');
    return builder_.optional(builder_.sequence(
        {begin, builder_.repeat(builder_.byte_of(characters), kIdCharacters, kIdCharacters)}));
  }

  GrammarExpression arguments_of(const Tool& tool) {
    try {
      if (names_arguments()) return arguments_.arguments(tool.name, tool.schema, tool.must_obey);
      GrammarBuilder trial;
      trial.build(json_schema_expression(trial, tool.schema, {.spelling = spelling_}));
    } catch (const GrammarError& error) {
      if (!tool.must_obey && !names_arguments()) return json_.any_object();
      throw GrammarError("the parameters of \"" + tool.name + "\": " + error.what());
    }
    return json_schema_expression(builder_, tool.schema, {.spelling = spelling_});
  }

  // One by one, not in an object.
  bool names_arguments() const {
    return format_.style == CallStyle::kTagged || format_.style == CallStyle::kPython;
  }

  // And the white space in front of a call that is demanded.
  GrammarExpression reasoning() {
    const ReasoningFormat& format = reading_.format.reasoning;
    const auto& in_front = format_.spelling ? format_.spelling->in_front : std::nullopt;
    const auto nothing = builder_.text(in_front.value_or(""));
    if (!format.exists()) return nothing;
    const auto thought = builder_.sequence({markers_.free_text_until(format.end), markers_.space()});
    if (reading_.begins_in_reasoning) return thought;
    if (format.begin.empty()) return nothing;
    return builder_.any_of({nothing, builder_.sequence({markers_.exact(format.begin), thought})});
  }

  // An answer of text may end within its thought.
  GrammarExpression with_thought(GrammarExpression answer) {
    const ReasoningFormat& format = reading_.format.reasoning;
    if (!format.exists()) return answer;
    const auto thought = builder_.any_of({free_text_without(builder_, {format.end}),
                                          builder_.sequence({markers_.free_text_until(format.end), answer})});
    if (reading_.begins_in_reasoning) return thought;
    if (format.begin.empty()) return answer;
    return builder_.any_of({answer, builder_.sequence({markers_.exact(format.begin), thought})});
  }

  const AnswerReading& reading_;
  const CallFormat& format_;
  const ToolSchemas schemas_;
  GrammarBuilder builder_;
  MarkerGrammar markers_;
  const JsonSpelling spelling_;
  JsonText json_;
  JsonText object_;  // around name and arguments
  ArgumentGrammar arguments_;
};

}  // namespace

bool can_bind_text(const AnswerFormat& format) {
  return format.calls && format.calls->has_marker() && format.reasoning.content_begin.empty();
}

Grammar grammar_of_calls(const AnswerReading& reading, const CallDemand& demand, const Tokenizer& tokenizer) {
  if (!reading.reads_calls) throw GrammarError("the model has no format of calls");
  const auto tools = demanded_tools(reading.tools, demand);
  const bool are_all_strict =
      std::all_of(tools.begin(), tools.end(), [](const Tool& tool) { return tool.is_strict; });
  try {
    return CallGrammar(reading, tokenizer).of(tools, demand);
  } catch (const GrammarError&) {
    if (are_all_strict && !demand.may_be_text) throw;
  }
  try {
    if (!are_all_strict) return CallGrammar(reading, tokenizer).of(freed(tools, false), demand);
  } catch (const GrammarError&) {
    if (!demand.may_be_text) throw;
  }
  return CallGrammar(reading, tokenizer).of(freed(tools, true), demand);
}

}  // namespace troupe
