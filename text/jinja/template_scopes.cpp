// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/template_scopes.hpp"

#include <iterator>

namespace troupe::jinja {
namespace {

const Value* find_in(const Variables& scope, std::string_view name) {
  for (const auto& [present, content] : scope) {
    if (present == name) return &content;
  }
  return nullptr;
}

}  // namespace

void Scopes::set(std::string_view name, Value value) {
  for (auto& [present, content] : scopes_.back()) {
    if (present == name) {
      content = std::move(value);
      return;
    }
  }
  scopes_.back().emplace_back(name, std::move(value));
}

const Value* Scopes::find(std::string_view name) const {
  for (std::size_t i = scopes_.size(); i > first_; --i) {
    if (const Value* found = find_in(scopes_[i - 1], name)) return found;
  }
  return find_in(scopes_[0], name);
}

Scopes::Hidden Scopes::go_to(Place place) {
  Hidden hidden{std::exchange(first_, place.first), {}};
  const auto begin = scopes_.begin() + static_cast<std::ptrdiff_t>(place.end);
  hidden.scopes.assign(std::make_move_iterator(begin), std::make_move_iterator(scopes_.end()));
  scopes_.erase(begin, scopes_.end());
  return hidden;
}

void Scopes::come_back(Hidden hidden) {
  first_ = hidden.first;
  for (Variables& scope : hidden.scopes) scopes_.push_back(std::move(scope));
}

}  // namespace troupe::jinja
