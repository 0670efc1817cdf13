// SPDX-License-Identifier: Apache-2.0
#include "http/api/requests/tool_fields.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/parse_options.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "actors/request/answer/answer_items.hpp"
#include "http/json/json_text.hpp"
#include "text/answer/call_header.hpp"
#include "text/answer/tool_schemas.hpp"
#include "text/client_json.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxNameBytes = 64;          // OpenAI's
constexpr std::size_t kMaxMessageNameBytes = 128;  // Anthropic's
constexpr std::size_t kMaxCallIdBytes = 256;
constexpr std::size_t kMaxShownTools = 512;  // those in namespaces among them

// OpenAI runs these itself, Anthropic the others; some have a date behind their name.
constexpr std::array<std::string_view, 11> kHostedTools = {
    "apply_patch",      "code_interpreter", "computer", "computer_use_preview", "file_search",
    "image_generation", "local_shell",      "mcp",      "tool_search",          "shell",
    "web_search"};
constexpr std::array<std::string_view, 5> kServerTools = {"advisor", "code_execution", "tool_search_tool",
                                                          "web_fetch", "web_search"};

std::string element(std::string_view name, std::size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

bool is_name(std::string_view name, std::size_t max_bytes) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= max_bytes && std::all_of(name.begin(), name.end(), is_allowed);
}

bool is_among(std::string_view type, std::span<const std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    return type == name || (type.starts_with(name) && type.substr(name.size()).starts_with('_'));
  });
}

// "function", which may be left out.
void read_type(FieldReader& fields, std::string_view what) {
  const auto type = fields.string("type").value_or("function");
  if (type == "function") return;
  fields.fail("type", " must be \"function\": " + std::string(what) + " of type \"" +
                          std::string(shorten(type, 64)) + "\" are not supported");
}

// Templates iterate over the properties, so they are there even if there are none.
json::object parameters_of(const json::value* given) {
  json::object parameters = given == nullptr ? json::object() : given->get_object();
  if (!parameters.contains("type")) parameters["type"] = "object";
  if (!parameters.contains("properties")) parameters["properties"] = json::object();
  return parameters;
}

void check_name(FieldReader& function, std::size_t max_bytes) {
  const auto name = function.string("name");
  if (!name) {
    function.fail("name", " is required");
  } else if (!is_name(*name, max_bytes)) {
    function.fail("name",
                  " must be 1 to " + std::to_string(max_bytes) + " letters, digits, underscores and hyphens");
  }
}

// The function as a template is given it: without members that are null.
json::object read_function(FieldReader& function, const json::object& given) {
  check_name(function, kMaxNameBytes);
  function.string("description");
  function.boolean("strict");
  const auto* parameters = function.find("parameters");
  if (parameters != nullptr && !parameters->is_object())
    function.fail("parameters", "an object", *parameters);
  if (function.error()) return {};
  json::object out;
  for (const auto& member : given)
    if (!member.value().is_null() && member.key() != "parameters" && member.key() != "type")
      out.emplace(member.key(), member.value());
  out["parameters"] = parameters_of(parameters);
  return out;
}

// Tools that Anthropic itself would run have a type of their own and no schema.
json::object read_messages_tool(FieldReader& tool) {
  const auto type = tool.string("type").value_or("custom");
  if (type != "custom")
    tool.fail("type", " must be \"custom\": tools of type \"" + std::string(shorten(type, 64)) +
                          "\" are not supported");
  check_name(tool, kMaxMessageNameBytes);
  const auto description = tool.string("description");
  const auto is_strict = tool.boolean("strict");
  const auto* schema = tool.find("input_schema");
  if (schema == nullptr) {
    tool.fail("input_schema", " is required");
  } else if (!schema->is_object()) {
    tool.fail("input_schema", "an object", *schema);
  }
  if (tool.error()) return {};
  json::object out{{"name", *tool.string("name")}};
  if (description) out["description"] = *description;
  if (is_strict) out["strict"] = *is_strict;
  out["parameters"] = parameters_of(schema);
  return out;
}

json::object read_tool(FieldReader& tool, const json::object& given, ToolShape shape) {
  if (shape == ToolShape::kMessages) return read_messages_tool(tool);
  read_type(tool, "tools");
  if (tool.error()) return {};
  if (shape == ToolShape::kFlat) return read_function(tool, given);
  const auto* value = tool.find("function");
  if (value == nullptr) {
    tool.fail("function", " is required");
  } else if (!value->is_object()) {
    tool.fail("function", "an object", *value);
  }
  if (tool.error()) return {};
  FieldReader function(value->get_object(), tool.full_name("function") + ".");
  auto out = read_function(function, value->get_object());
  tool.adopt(function);
  return out;
}

// {"type": "custom", "name": …, "format": {…}}: a function of one text. A format is told to the model,
// and not enforced.
json::object read_custom_tool(FieldReader& tool) {
  check_name(tool, kMaxNameBytes);
  std::string description = tool.string("description").value_or("");
  if (const auto* format = tool.find("format"); format != nullptr && !format->is_object()) {
    tool.fail("format", "an object", *format);
  } else if (format != nullptr && format->get_object().contains("definition")) {
    description += "\nThe input has this form: " + json::serialize(*format);
  }
  if (tool.error()) return {};
  json::object out{{"name", *tool.string("name")}};
  if (!description.empty()) out["description"] = description;
  json::object text, properties;
  text["type"] = "string";
  properties[kCustomInput] = std::move(text);
  json::array required;
  required.emplace_back(kCustomInput);
  out["parameters"] = json::object{
      {"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
  return out;
}

// Tools as they are shown, and the names of those that their client knows by others.
struct ShownTools {
  json::array list = {};
  ToolNames names = {};
  std::set<std::string> taken = {};  // as they are shown
};

// Calls could not be told apart. field: of the name.
void note_name(FieldReader& tool, std::string_view field, const std::string& shown, ShownTools& out) {
  if (!tool.error() && !out.taken.insert(shown).second)
    tool.fail(field, " \"" + shown + "\" is the name of another tool, too");
}

void show_tool(FieldReader& tool, json::object function, ToolName name, ShownTools& out) {
  name.shown = shown_name(name.name_space, name.name);
  const bool is_renamed = name.is_custom || !name.name_space.empty();
  if (is_renamed && name.shown.size() > kMaxMessageNameBytes)
    tool.fail("name",
              " must be at most " + std::to_string(kMaxMessageNameBytes) + " bytes with its namespace");
  note_name(tool, "name", name.shown, out);
  function["name"] = name.shown;
  if (is_renamed) out.names.push_back(std::move(name));
  out.list.push_back(json::object{{"type", "function"}, {"function", std::move(function)}});
}

void read_flat_tool(FieldReader& tool, const json::object& given, const std::string& name_space,
                    ShownTools& out) {
  const bool is_custom = tool.string("type") == "custom";
  json::object function = is_custom ? read_custom_tool(tool) : read_tool(tool, given, ToolShape::kFlat);
  if (tool.error()) return;
  const std::string name = *tool.string("name");
  show_tool(tool, std::move(function), {.name_space = name_space, .name = name, .is_custom = is_custom}, out);
}

// Calls read(tool, object) for each.
template <class Read>
void for_each_tool(FieldReader& fields, const json::array& list, const Read& read) {
  for (std::size_t i = 0; i < list.size() && !fields.error(); ++i) {
    const std::string name = element("tools", i);
    if (!list[i].is_object()) return fields.fail(name, "an object", list[i]);
    FieldReader tool(list[i].get_object(), fields.full_name(name) + ".");
    read(tool, list[i].get_object());
    fields.adopt(tool);
  }
}

// {"type": "namespace", "name": …, "tools": […]}: its functions and custom tools, under its name.
void read_namespace(FieldReader& space, ShownTools& out) {
  check_name(space, kMaxNameBytes);
  const auto* tools = space.find("tools");
  if (tools == nullptr) {
    space.fail("tools", " is required");
  } else if (!tools->is_array()) {
    space.fail("tools", "a list of tools", *tools);
  } else if (tools->get_array().size() + out.list.size() > kMaxShownTools) {
    space.fail("tools", " must not bring the number of tools above " + std::to_string(kMaxShownTools));
  }
  if (space.error()) return;
  const std::string name = *space.string("name");
  for_each_tool(space, tools->get_array(), [&](FieldReader& tool, const json::object& given) {
    read_flat_tool(tool, given, name, out);
  });
}

bool is_strict(const json::value& tool) {
  const auto* strict = tool.get_object().at("function").get_object().if_contains("strict");
  return strict != nullptr && *strict == true;
}

std::string read_tool_list(FieldReader& fields, const json::array& list, ToolShape shape, ToolNames& names,
                           ChatPrompt& prompt) {
  ShownTools tools;
  for_each_tool(fields, list, [&](FieldReader& tool, const json::object& given) {
    if (is_hosted_tool(given, shape)) return;
    if (shape == ToolShape::kFlat && tool.string("type") == "namespace") return read_namespace(tool, tools);
    if (shape == ToolShape::kFlat) return read_flat_tool(tool, given, "", tools);
    json::object function = read_tool(tool, given, shape);
    if (tool.error()) return;
    const std::string field = shape == ToolShape::kMessages ? "name" : "function.name";
    note_name(tool, field, function.at("name").get_string().c_str(), tools);
    tools.list.push_back(json::object{{"type", "function"}, {"function", std::move(function)}});
  });
  names = std::move(tools.names);
  prompt.has_strict_tool = std::any_of(tools.list.begin(), tools.list.end(), is_strict);
  std::string text = tools.list.empty() ? "" : json::serialize(tools.list);
  if (!fields.error() && !text.empty() && !parse_client_json(text))
    fields.fail("tools", " must not be nested deeper than " + std::to_string(kMaxClientJsonDepth) +
                             " nor have more than " + std::to_string(kMaxClientJsonKeys) +
                             " keys in an object");
  return text;
}

// Where a demand can't be followed it is refused by name: "required", or the function.
void refuse_choice(FieldReader& fields, const json::value& choice, ToolShape shape) {
  std::string demanded = describe(choice);
  if (choice.is_string() || choice.is_object()) demanded = shorten(json::serialize(choice), 128);
  fields.fail("tool_choice",
              std::string(shape == ToolShape::kMessages
                              ? " is not supported yet except as \"auto\", \"any\", \"none\" or \"tool\""
                              : " is not supported yet except as \"auto\", \"none\", \"required\", a "
                                "function or allowed_tools") +
                  ", got " + demanded);
}

std::optional<std::string> string_member(const json::value& value, std::string_view name) {
  if (!value.is_object()) return std::nullopt;
  const auto* member = value.get_object().if_contains(json::string_view(name.data(), name.size()));
  if (member == nullptr || !member->is_string()) return std::nullopt;
  return std::string(member->get_string().c_str(), member->get_string().size());
}

enum class Choice : std::uint8_t { kAuto, kNone, kAny, kNamed };
struct ReadChoice {
  Choice choice = Choice::kAuto;
  std::string name = {};                  // of kNamed, as the model is shown it
  std::vector<std::string> allowed = {};  // so, too: no other may be called; empty: all may
};

// Chats {"type": "function", "function": {"name": …}}, responses {"type": "function" or "custom", "name": …}.
std::optional<std::string> chosen_tool(const json::value& choice, ToolShape shape) {
  const auto type = string_member(choice, "type");
  const bool is_flat = shape == ToolShape::kFlat;
  if (type != "function" && !(is_flat && type == "custom")) return std::nullopt;
  const auto* holder = is_flat ? &choice : choice.get_object().if_contains("function");
  const auto name = holder == nullptr ? std::nullopt : string_member(*holder, "name");
  if (!name || !is_flat) return name;
  return shown_name(string_member(*holder, "namespace").value_or(""), *name);
}

// Responses {"type": "allowed_tools", "mode": "auto" or "required", "tools": [a tool, …]}, chats have mode
// and tools in an object of that name.
std::optional<ReadChoice> allowed_choice(const json::value& choice, ToolShape shape) {
  const auto* holder = shape == ToolShape::kFlat ? &choice : choice.get_object().if_contains("allowed_tools");
  if (holder == nullptr || !holder->is_object()) return std::nullopt;
  const auto mode = string_member(*holder, "mode");
  const auto* tools = holder->get_object().if_contains("tools");
  if ((mode != "auto" && mode != "required") || tools == nullptr || !tools->is_array()) return std::nullopt;
  ReadChoice read{.choice = mode == "auto" ? Choice::kAuto : Choice::kAny};
  for (const auto& tool : tools->get_array()) {
    auto name = chosen_tool(tool, shape);
    if (!name) return std::nullopt;
    read.allowed.push_back(std::move(*name));
  }
  if (read.allowed.empty()) return std::nullopt;
  return read;
}

// "auto", "none", "required", a tool, or some of them.
std::optional<ReadChoice> openai_choice(const json::value& choice, ToolShape shape) {
  if (choice == "auto") return ReadChoice{};
  if (choice == "none") return ReadChoice{.choice = Choice::kNone};
  if (choice == "required") return ReadChoice{.choice = Choice::kAny};
  if (string_member(choice, "type") == "allowed_tools") return allowed_choice(choice, shape);
  auto name = chosen_tool(choice, shape);
  if (!name) return std::nullopt;
  return ReadChoice{.choice = Choice::kNamed, .name = std::move(*name)};
}

// {"type": "auto"}, "any", "none", or {"type": "tool", "name": …}.
std::optional<ReadChoice> messages_choice(const json::value& choice) {
  const auto type = string_member(choice, "type");
  if (type == "auto") return ReadChoice{};
  if (type == "none") return ReadChoice{.choice = Choice::kNone};
  if (type == "any") return ReadChoice{.choice = Choice::kAny};
  const auto name = string_member(choice, "name");
  if (type != "tool" || !name) return std::nullopt;
  return ReadChoice{.choice = Choice::kNamed, .name = *name};
}

// A function that is named is called once.
ReadChoice read_choice(FieldReader& fields, ToolShape shape, ChatPrompt& prompt) {
  const auto* given = fields.find("tool_choice");
  if (given == nullptr) return {};
  auto read = shape == ToolShape::kMessages ? messages_choice(*given) : openai_choice(*given, shape);
  if (!read) {
    refuse_choice(fields, *given, shape);
    return {};
  }
  if (shape == ToolShape::kMessages) {
    FieldReader choice(given->get_object(), "tool_choice.");
    prompt.takes_one_call = choice.boolean("disable_parallel_tool_use").value_or(false);
    fields.adopt(choice);
  }
  prompt.demands_call = read->choice == Choice::kAny || read->choice == Choice::kNamed;
  prompt.demanded_tool = read->name;
  prompt.takes_one_call = prompt.takes_one_call || read->choice == Choice::kNamed;
  prompt.allows_calls = read->choice != Choice::kNone;
  return std::move(*read);
}

json::array parsed_tools(const std::string& tools) {
  json::parse_options options;
  options.max_depth = 2 * kMaxClientJsonDepth;  // they were counted when they came
  return tools.empty() ? json::array() : json::parse(tools, {}, options).get_array();
}

// The tools that are named, of those as they are shown: a JSON array, or none.
std::string tools_named(FieldReader& fields, const std::string& tools,
                        const std::vector<std::string>& names) {
  json::array named;
  std::set<std::string> wanted(names.begin(), names.end());
  for (const auto& tool : parsed_tools(tools))
    if (const auto name = string_member(tool.at("function"), "name"); name && wanted.erase(*name) > 0)
      named.push_back(tool);
  if (!wanted.empty()) {
    fields.fail("tool_choice", " allows a function that is not among the tools: \"" +
                                   std::string(shorten(*wanted.begin(), 64)) + "\"");
    return {};
  }
  return json::serialize(named);
}

// Behind the tools, which are right. tools: as they are shown, a JSON array, or none.
void check_demand(FieldReader& fields, const std::string& tools, const ChatPrompt& prompt) {
  if (!prompt.demands_call || fields.error()) return;
  if (!tools.empty() && (prompt.demanded_tool.empty() || ToolSchemas(tools).has(prompt.demanded_tool)))
    return;
  fields.fail("tool_choice", prompt.demanded_tool.empty()
                                 ? " demands a call, but there are no tools"
                                 : " demands a function that is not among the tools");
}

}  // namespace

std::string read_call_id(FieldReader& fields, const char* name) {
  auto id = fields.string(name).value_or("");
  if (id.size() > kMaxCallIdBytes)
    fields.fail(name, " must be at most " + std::to_string(kMaxCallIdBytes) + " bytes");
  return id;
}

namespace {

std::string read_called_name(FieldReader& fields) {
  const auto name = fields.string("name");
  if (!name) {
    fields.fail("name", " is required");
  } else if (name->empty() || name->size() > kMaxCalledNameBytes) {
    fields.fail("name", " must be 1 to " + std::to_string(kMaxCalledNameBytes) + " bytes");
  }
  return name.value_or("");
}

// "{}" if there are none.
std::string read_object(FieldReader& fields, std::string_view name) {
  const auto* value = fields.find(name);
  if (value != nullptr && !value->is_object()) fields.fail(name, "an object", *value);
  return value == nullptr || fields.error() ? "{}" : json::serialize(*value);
}

ToolCall read_call(FieldReader& call, CallShape shape) {
  ToolCall out{.id = read_call_id(call, "id")};
  read_type(call, "calls");
  const auto* value = call.find("function");
  if (value == nullptr) {
    call.fail("function", " is required");
  } else if (!value->is_object()) {
    call.fail("function", "an object", *value);
  }
  if (call.error()) return out;
  FieldReader function(value->get_object(), call.full_name("function") + ".");
  out.name = read_called_name(function);
  out.arguments = shape == CallShape::kObjectArguments ? read_object(function, "arguments")
                                                       : function.string("arguments").value_or("");
  call.adopt(function);
  return out;
}

}  // namespace

bool is_hosted_tool(const json::object& tool, ToolShape shape) {
  const auto* value = tool.if_contains("type");
  if (value == nullptr || !value->is_string()) return false;
  const std::string_view type(value->get_string().data(), value->get_string().size());
  if (shape == ToolShape::kFlat) return is_among(type, kHostedTools);
  return shape == ToolShape::kMessages && is_among(type, kServerTools);
}

ToolNames read_tools(FieldReader& fields, ToolShape shape, const Limits& limits, ChatPrompt& prompt) {
  // Of messages it is part of the choice.
  const bool is_own_field = shape != ToolShape::kMessages;
  if (is_own_field) prompt.takes_one_call = !fields.boolean("parallel_tool_calls").value_or(true);
  const ReadChoice choice = read_choice(fields, shape, prompt);
  ToolNames names;
  std::string text;
  const auto* tools = fields.find("tools");
  if (tools != nullptr && (!tools->is_array() || tools->get_array().size() > limits.max_tools)) {
    fields.fail("tools", "a list of at most " + std::to_string(limits.max_tools) + " tools", *tools);
  } else if (tools != nullptr && !tools->get_array().empty()) {
    text = read_tool_list(fields, tools->get_array(), shape, names, prompt);
  }
  check_demand(fields, text, prompt);
  if (!choice.allowed.empty() && !fields.error())
    prompt.callable_tools = tools_named(fields, text, choice.allowed);
  if (!fields.error()) prompt.tools = std::move(text);
  return names;
}

void check_demand_alone(FieldReader& fields, const GenerationRequest& request) {
  const auto* prompt = std::get_if<ChatPrompt>(&request.prompt);
  if (prompt == nullptr || !prompt->demands_call) return;
  if (request.form) fields.fail("tool_choice", " can't be joined with " + request.form->field);
  if (request.min_tokens > 0) fields.fail("min_tokens", " can't be joined with a demanded call");
  if (request.ignore_eos) fields.fail("ignore_eos", " can't be joined with a demanded call");
}

namespace {

// {"type": "function", "name": …} of a tool by the name that the model is shown.
void append_tool(std::string& out, const std::string& shown, const ToolNames& names) {
  const auto found =
      std::find_if(names.begin(), names.end(), [&](const ToolName& name) { return name.shown == shown; });
  const bool is_custom = found != names.end() && found->is_custom;
  out += is_custom ? "{\"type\":\"custom\",\"name\":" : "{\"type\":\"function\",\"name\":";
  append_json_string(out, found != names.end() ? found->name : shown);
  out += "}";
}

}  // namespace

std::string tool_choice_json(const ChatPrompt& prompt, const ToolNames& names) {
  std::string out = "\"tool_choice\":";
  if (!prompt.demanded_tool.empty()) {
    append_tool(out, prompt.demanded_tool, names);
  } else if (!prompt.callable_tools.empty()) {
    out += R"({"type":"allowed_tools","mode":)";
    out += prompt.demands_call ? "\"required\",\"tools\":" : "\"auto\",\"tools\":";
    char separator = '[';
    for (const auto& tool : parsed_tools(prompt.callable_tools)) {
      out += std::exchange(separator, ',');
      append_tool(out, tool.at("function").at("name").get_string().c_str(), names);
    }
    out += "]}";
  } else if (prompt.demands_call) {
    out += "\"required\"";
  } else {
    out += prompt.tools.empty() || !prompt.allows_calls ? "\"none\"" : "\"auto\"";
  }
  return out + (prompt.takes_one_call ? ",\"parallel_tool_calls\":false" : ",\"parallel_tool_calls\":true");
}

void read_tool_calls(FieldReader& message, const Limits& limits, ChatMessage& out, CallShape shape) {
  const auto* value = message.find("tool_calls");
  if (value == nullptr || (value->is_array() && value->get_array().empty())) return;
  if (out.role != "assistant") message.fail("tool_calls", " are for messages of the assistant only");
  if (!value->is_array() || value->get_array().size() > limits.max_tools)
    return message.fail("tool_calls", "a list of at most " + std::to_string(limits.max_tools) + " calls",
                        *value);
  const auto& list = value->get_array();
  for (std::size_t i = 0; i < list.size() && !message.error(); ++i) {
    const std::string name = element("tool_calls", i);
    if (!list[i].is_object()) {
      message.fail(name, "an object", list[i]);
      break;
    }
    FieldReader call(list[i].get_object(), message.full_name(name) + ".");
    out.tool_calls.push_back(read_call(call, shape));
    message.adopt(call);
  }
}

namespace {

ToolCall read_named_call_item(FieldReader& item) {
  ToolCall call{.id = read_call_id(item, "call_id")};
  if (call.id.empty()) item.fail("call_id", " is required");
  call.name = shown_name(read_call_id(item, "namespace"), read_called_name(item));
  return call;
}

}  // namespace

ToolCall read_custom_call_item(FieldReader& item) {
  ToolCall call = read_named_call_item(item);
  const auto input = item.string("input");
  if (!input) item.fail("input", " is required");
  call.arguments = custom_arguments(input.value_or(""));
  return call;
}

ToolCall read_call_item(FieldReader& item) {
  ToolCall call = read_named_call_item(item);
  call.arguments = item.string("arguments").value_or("");
  return call;
}

ToolCall read_call_block(FieldReader& block) {
  ToolCall call{.id = read_call_id(block, "id")};
  if (call.id.empty()) block.fail("id", " is required");
  call.name = read_called_name(block);
  call.arguments = read_object(block, "input");
  return call;
}

}  // namespace troupe
