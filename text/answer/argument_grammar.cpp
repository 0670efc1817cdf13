// SPDX-License-Identifier: Apache-2.0
#include "text/answer/argument_grammar.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "text/answer/python_arguments.hpp"
#include "text/grammar/json_schema.hpp"
#include "text/grammar/json_text.hpp"
#include "text/grammar/schema_compiler.hpp"

namespace troupe {
namespace {

using Kind = ToolSchemas::Kind;

constexpr std::uint32_t kMaxFreeKeyBytes = 64;
constexpr int kMaxBranchDepth = 8;  // of anyOf within anyOf

const SchemaJson kAnything = true;

// A schema that every string obeys.
bool takes_any_text(SchemaDocument& document, SchemaPlace place, int depth = 0) {
  place = document.resolved(place);
  if (place.json->is_boolean()) return *place.json == true;
  if (!place.json->is_object() || depth > kMaxBranchDepth) return false;
  if (const SchemaJson* branches = place.find("anyOf"); branches != nullptr && branches->is_array()) {
    if (has_constraints(*document.without(place, {"anyOf"}).json)) return false;
    for (std::size_t i = 0; i < branches->size(); ++i)
      if (takes_any_text(document, place / "anyOf" / i, depth + 1)) return true;
    return false;
  }
  if (!has_constraints(*place.json)) return true;
  for (const char* keyword : {"$ref", "allOf", "oneOf", "enum", "const", "pattern", "format", "minLength",
                              "maxLength", "not", "if"})
    if (place.find(keyword) != nullptr) return false;
  const SchemaJson* type = place.find("type");
  if (type == nullptr) return false;
  if (!type->is_array()) return *type == "string";
  return std::find(type->begin(), type->end(), "string") != type->end();
}

// One argument with its markers, in one builder.
class ArgumentPart {
 public:
  // markers: of the builder.
  ArgumentPart(GrammarBuilder& builder, MarkerGrammar& markers, const CallFormat& format,
               SchemaDocument& document)
      : builder_(builder), markers_(markers), format_(format), document_(document) {}

  // key: its text, told from what follows.
  GrammarExpression of(GrammarExpression key, const SchemaPlace& place, Kind kind) {
    if (format_.style == CallStyle::kPython)
      return builder_.sequence({key, builder_.text("="), schema(place, spelled({.is_python = true}))});
    const auto begin = builder_.sequence({markers_.exact(format_.key_begin), key});
    const auto text_begin = builder_.sequence({begin, markers_.exact(format_.key_end)});
    if (kind == Kind::kString) return builder_.sequence({text_begin, text_value(place)});
    const bool has_other_end = !format_.other_key_end.empty();
    const auto other_begin =
        has_other_end ? builder_.sequence({begin, markers_.exact(format_.other_key_end)}) : text_begin;
    const auto as_json = builder_.sequence({other_begin, json_value(place)});
    if (kind == Kind::kOther || !takes_any_text(document_, place)) return as_json;
    const auto as_text = has_other_end ? any_text() : text_that_is_no_json();
    return builder_.any_of({as_json, builder_.sequence({text_begin, as_text})});
  }

 private:
  GrammarExpression schema(const SchemaPlace& place, const JsonSpelling& spelling) {
    return SchemaCompiler(builder_, document_, {.spelling = spelling}).compile(place);
  }

  JsonSpelling spelled(JsonSpelling spelling) const {
    if (format_.spelling) spelling.separators = format_.spelling->arguments;
    return spelling;
  }

  // Around each value.
  GrammarExpression line() { return builder_.text(format_.has_value_lines ? "\n" : ""); }

  // Strings in it don't hold the marker behind it.
  GrammarExpression json_value(const SchemaPlace& place) {
    const auto space = format_.spelling ? line() : markers_.space();
    return builder_.sequence({space, schema(place, spelled({.escaped = format_.value_end.front()})), space,
                              markers_.exact(format_.value_end)});
  }

  // Without lines around it a reader takes it as well.
  GrammarExpression any_text() {
    if (!needs_lines()) return markers_.text_until(format_.value_end);
    return builder_.sequence({line(), markers_.text_until(format_.value_end, {}, "\n")});
  }
  bool needs_lines() const { return format_.spelling && format_.has_value_lines; }

  GrammarExpression text_value(const SchemaPlace& place) {
    const auto text =
        SchemaCompiler(builder_, document_, {}).compile_plain(document_.resolved(place), format_.value_end);
    if (!text) return any_text();
    return builder_.sequence({line(), *text, line(), markers_.exact(format_.value_end)});
  }

  // CallArguments takes a value of unknown kind for JSON wherever it is.
  GrammarExpression text_that_is_no_json() {
    const auto until_end = [&](const CharacterSet& not_first) {
      return markers_.text_until(format_.value_end, not_first, needs_lines() ? "\n" : "");
    };
    const CharacterSet json_begin(
        {{0, U' '}, {U'"', U'"'}, {U'-', U'-'}, {U'0', U'9'}, {U'[', U'['}, {U'{', U'{'}, {0xFEFF, 0xFEFF}});
    const CharacterSet names_begin({{U'f', U'f'}, {U'n', U'n'}, {U't', U't'}});
    std::vector<GrammarExpression> choices{until_end(json_begin.united(names_begin))};
    for (const std::string_view name : {"true", "false", "null"})
      for (std::size_t at = 1; at < name.size(); ++at)
        choices.push_back(
            builder_.sequence({builder_.text(name.substr(0, at)),
                               until_end(CharacterSet::of(static_cast<unsigned char>(name[at])))}));
    return builder_.sequence({line(), builder_.any_of(std::move(choices))});
  }

  GrammarBuilder& builder_;
  MarkerGrammar& markers_;
  const CallFormat& format_;
  SchemaDocument& document_;
};

// Else it would be read as another.
bool is_readable_key(const CallFormat& format, const std::string& key) {
  const auto holds = [&](const std::string& end) {
    return !end.empty() && (key + end).find(end) != key.size();
  };
  return format.style == CallStyle::kPython
             ? is_python_name(key)
             : !key.empty() && !holds(format.key_end) && !holds(format.other_key_end);
}

// Keywords that say something about the arguments beside which there are.
void demand_plain_object(const SchemaPlace& root) {
  constexpr std::array kKnown{"type", "properties", "required", "additionalProperties"};
  for (const auto& [keyword, value] : root.json->items())
    if (std::find(kKnown.begin(), kKnown.end(), keyword) == kKnown.end() && !is_annotation(keyword))
      root.fail(keyword.c_str(), "is not supported of arguments that are named one by one");
}

}  // namespace

ArgumentGrammar::ArgumentGrammar(GrammarBuilder& builder, const Tokenizer& tokenizer,
                                 const CallFormat& format, const ToolSchemas& schemas)
    : builder_(builder),
      tokenizer_(tokenizer),
      format_(format),
      schemas_(schemas),
      markers_(builder, tokenizer) {}

GrammarExpression ArgumentGrammar::arguments(const std::string& function, std::string_view parameters,
                                             bool is_strict) {
  SchemaDocument document(parameters);
  const SchemaPlace root = document.resolved(document.root());
  if (!root.json->is_object()) return free_arguments(document, {&kAnything, root.path});
  if (is_strict) demand_plain_object(root);
  auto arguments = arguments_of(function, root);
  std::erase_if(arguments, [&](const Argument& argument) {
    if (is_readable_key(format_, argument.key)) return false;
    if (!is_strict) return true;
    throw GrammarError("the argument \"" + argument.key + "\" can't be written in this model's calls");
  });
  const SchemaJson* other = root.find("additionalProperties");
  if (arguments.empty() && (other == nullptr || *other != false))
    return free_arguments(
        document, other == nullptr ? SchemaPlace{&kAnything, root.path} : root / "additionalProperties");
  std::vector<GrammarExpression> parts;
  for (const Argument& argument : arguments) parts.push_back(part_of(argument, document, is_strict));
  return in_order(parts, arguments);
}

std::vector<ArgumentGrammar::Argument> ArgumentGrammar::arguments_of(const std::string& function,
                                                                     const SchemaPlace& root) const {
  std::vector<std::string> required;
  if (const SchemaJson* names = root.find("required"); names != nullptr && names->is_array())
    for (const SchemaJson& name : *names)
      if (name.is_string()) required.push_back(name.get<std::string>());
  std::vector<Argument> arguments;
  const auto add = [&](const std::string& key, SchemaPlace place, bool is_required) {
    arguments.push_back({.key = key,
                         .place = std::move(place),
                         .kind = schemas_.kind_of(function, key),
                         .is_required = is_required});
  };
  if (const SchemaJson* properties = root.find("properties");
      properties != nullptr && properties->is_object())
    for (const auto& [key, schema] : properties->items())
      add(key, (root / "properties").member(key, schema),
          std::find(required.begin(), required.end(), key) != required.end());
  for (const std::string& key : required) {
    const auto is_it = [&](const Argument& argument) { return argument.key == key; };
    if (std::any_of(arguments.begin(), arguments.end(), is_it)) continue;
    const bool has_schema = root.find("additionalProperties") != nullptr;
    add(key, has_schema ? root / "additionalProperties" : SchemaPlace{&kAnything, root.path}, true);
  }
  return arguments;
}

// A rule for what may stand behind each, since Python has commas between them.
GrammarExpression ArgumentGrammar::in_order(const std::vector<GrammarExpression>& parts,
                                            const std::vector<Argument>& arguments) {
  std::vector<GrammarRule> rules;
  for (const GrammarExpression part : parts) {
    rules.push_back(builder_.declare_rule());
    builder_.define(rules.back(), part);
  }
  std::vector<GrammarExpression> tails(parts.size() + 1, builder_.empty());
  for (std::size_t i = parts.size(); i-- > 1;) {
    const auto next = builder_.sequence({separator(), builder_.call(rules[i])});
    const GrammarRule tail = builder_.declare_rule();
    builder_.define(
        tail, builder_.sequence({arguments[i].is_required ? next : builder_.optional(next), tails[i + 1]}));
    tails[i] = builder_.call(tail);
  }
  std::vector<GrammarExpression> choices;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    choices.push_back(enclosed(builder_.sequence({builder_.call(rules[i]), tails[i + 1]})));
    if (arguments[i].is_required) return builder_.any_of(std::move(choices));
  }
  choices.push_back(no_arguments());
  return builder_.any_of(std::move(choices));
}

GrammarExpression ArgumentGrammar::separator() {
  if (format_.style != CallStyle::kPython)
    return markers_.space(format_.spelling, &CallSpelling::between_arguments);
  return format_.spelling && format_.spelling->arguments
             ? builder_.text(format_.spelling->arguments->comma)
             : builder_.sequence({builder_.text(","), markers_.space()});
}

GrammarExpression ArgumentGrammar::enclosed(GrammarExpression arguments) {
  if (format_.style == CallStyle::kPython) return arguments;
  return builder_.sequence({markers_.space(format_.spelling, &CallSpelling::behind_name_end), arguments,
                            markers_.space(format_.spelling, &CallSpelling::before_call_end)});
}

GrammarExpression ArgumentGrammar::no_arguments() {
  if (format_.style == CallStyle::kPython) return builder_.empty();
  return markers_.space(format_.spelling, &CallSpelling::without_arguments);
}

// Names that both tags and Python have.
GrammarExpression ArgumentGrammar::free_arguments(SchemaDocument& document, const SchemaPlace& place) {
  ByteSet letters, more;
  for (unsigned char byte = 'a'; byte <= 'z'; ++byte) letters.set(byte).set(byte - 'a' + 'A');
  letters.set('_');
  more = letters;
  for (unsigned char byte = '0'; byte <= '9'; ++byte) more.set(byte);
  const auto key = builder_.sequence(
      {builder_.byte_of(letters), builder_.repeat(builder_.byte_of(more), 0, kMaxFreeKeyBytes - 1)});
  const auto part = ArgumentPart(builder_, markers_, format_, document).of(key, place, Kind::kUnknown);
  const auto further = builder_.repeat(builder_.sequence({separator(), part}), 0, kUnboundedCount);
  return builder_.any_of({enclosed(builder_.sequence({part, further})), no_arguments()});
}

GrammarExpression ArgumentGrammar::part_of(const Argument& argument, SchemaDocument& document,
                                           bool is_strict) {
  const auto part_in = [&](GrammarBuilder& builder, MarkerGrammar& markers, const SchemaPlace& place) {
    return ArgumentPart(builder, markers, format_, document)
        .of(builder.text(argument.key), place, argument.kind);
  };
  try {
    GrammarBuilder trial;
    MarkerGrammar markers(trial, tokenizer_);
    trial.build(part_in(trial, markers, argument.place));
  } catch (const GrammarError&) {
    if (is_strict) throw;
    return part_in(builder_, markers_, {&kAnything, argument.place.path});
  }
  return part_in(builder_, markers_, argument.place);
}

}  // namespace troupe
