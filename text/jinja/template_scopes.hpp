// SPDX-License-Identifier: Apache-2.0
// The variables of a running template: a stack of scopes, of loops, macros and blocks, and which
// of them are seen.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/template_runtime.hpp"

namespace troupe::jinja {

using Variables = std::vector<std::pair<std::string, Value>>;

class Scopes {
 public:
  // A point in a template: scopes [first, end) and the template's own are seen there.
  struct Place {
    std::size_t first = 0;
    std::size_t end = 0;
  };
  // For come_back().
  struct Hidden {
    std::size_t first = 0;
    std::vector<Variables> scopes;
  };

  explicit Scopes(Variables of_template) { scopes_.push_back(std::move(of_template)); }

  void enter() { scopes_.emplace_back(); }
  void leave() { scopes_.pop_back(); }
  std::size_t size() const { return scopes_.size(); }

  // In the innermost scope.
  void set(std::string_view name, Value value);
  void clear_innermost() { scopes_.back().clear(); }
  // The innermost scope first, the template's last; nullptr where none has it.
  const Value* find(std::string_view name) const;

  Place here() const { return {first_, scopes_.size()}; }
  // Only the template's scope is seen from now on, and those that are entered.
  Hidden hide() { return {std::exchange(first_, scopes_.size()), {}}; }
  // As it was at `place`: its scopes must still be there. Scopes entered since are set aside.
  Hidden go_to(Place place);
  // Undoes hide() and go_to(), behind as many leave() as enter().
  void come_back(Hidden hidden);

 private:
  std::vector<Variables> scopes_;  // [0] is the template's
  std::size_t first_ = 0;          // the first one that is seen, besides [0]
};

}  // namespace troupe::jinja
