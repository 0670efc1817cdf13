// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/marked_text.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "text/utf8.hpp"

namespace troupe {
namespace {

// Aho and Corasick's automaton over characters: a state is the longest end of the text that begins a
// mark, a rule for each.
class MarkAutomaton {
 public:
  struct Kind {
    bool is_until = false;  // the first of the marks ends the text, and is part of it
    bool is_free = false;
  };
  MarkAutomaton(GrammarBuilder& builder, const std::vector<std::string>& marks, Kind kind)
      : builder_(builder), kind_(kind) {
    std::vector<CharacterRange> alphabet;
    for (const std::string& mark : marks) {
      marks_.push_back(characters_of(mark));
      for (const char32_t character : marks_.back()) alphabet.push_back({character, character});
    }
    alphabet_ = CharacterSet(std::move(alphabet));
  }

  // Where any character may be the first, the beginning is as any place amid the text.
  GrammarExpression begin(const CharacterSet& not_first = {}) {
    return not_first.is_empty() ? builder_.call(rule_of({})) : from({}, not_first);
  }

 private:
  GrammarExpression from(const std::u32string& state, const CharacterSet& excluded) {
    CharacterSet ends;
    std::map<std::u32string, CharacterSet> targets{{{}, alphabet_.complement()}};
    for (const CharacterRange& range : alphabet_.ranges())
      for (char32_t character = range.first; character <= range.last; ++character) {
        const auto next = step(state, character);
        CharacterSet& known = next ? targets[*next] : ends;
        known = known.united(CharacterSet::of(character));
      }
    std::vector<GrammarExpression> choices;
    if (!kind_.is_until) choices.push_back(builder_.empty());
    if (const CharacterSet last = ends.without(excluded); kind_.is_until && !last.is_empty())
      choices.push_back(one_character(builder_, last));
    for (const auto& [target, characters] : targets)
      if (const CharacterSet next = characters.without(excluded); !next.is_empty())
        choices.push_back(builder_.sequence({one_character(builder_, next), builder_.call(rule_of(target))}));
    return builder_.any_of(std::move(choices));
  }

  GrammarRule rule_of(const std::u32string& state) {
    const auto [known, is_new] = rules_.try_emplace(state);
    if (!is_new) return known->second;
    const GrammarRule rule = kind_.is_free ? builder_.declare_free_text() : builder_.declare_rule();
    known->second = rule;
    builder_.define(rule, from(state, {}));
    return rule;
  }

  // nullopt: a mark ends here.
  std::optional<std::u32string> step(const std::u32string& state, char32_t character) const {
    std::u32string tail = state + character;
    for (const std::u32string& mark : marks_)
      if (tail.ends_with(mark)) return std::nullopt;
    const auto begins_with_tail = [&](const std::u32string& mark) { return mark.starts_with(tail); };
    while (std::none_of(marks_.begin(), marks_.end(), begins_with_tail)) tail.erase(0, 1);
    return tail;
  }

  GrammarBuilder& builder_;
  const Kind kind_;
  std::vector<std::u32string> marks_;
  CharacterSet alphabet_;
  std::map<std::u32string, GrammarRule> rules_;
};

}  // namespace

GrammarExpression text_until(GrammarBuilder& builder, std::string_view end, const CharacterSet& not_first) {
  return MarkAutomaton(builder, {std::string(end)}, {.is_until = true}).begin(not_first);
}

GrammarExpression text_without(GrammarBuilder& builder, const std::vector<std::string>& marks,
                               const CharacterSet& not_first) {
  return MarkAutomaton(builder, marks, {}).begin(not_first);
}

GrammarExpression free_text_until(GrammarBuilder& builder, std::string_view end) {
  return MarkAutomaton(builder, {std::string(end)}, {.is_until = true, .is_free = true}).begin();
}

GrammarExpression free_text_without(GrammarBuilder& builder, const std::vector<std::string>& marks) {
  return MarkAutomaton(builder, marks, {.is_free = true}).begin();
}

}  // namespace troupe
