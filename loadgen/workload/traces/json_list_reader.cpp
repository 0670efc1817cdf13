// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/json_list_reader.hpp"

#include <stdexcept>

namespace troupe::loadgen {
namespace {

constexpr std::size_t kMaxObjectBytes = 64 << 20;

std::string shown(int c) {
  if (c < 0) return "the end of the file";
  if (c < ' ' || c > '~') return "byte " + std::to_string(c);
  return std::string("'") + static_cast<char>(c) + "'";
}

}  // namespace

bool JsonListReader::next(std::string& object) {
  if (has_ended_) return false;
  int c = next_visible();
  if (!has_begun_) {
    if (c != '[') input_.fail("expected a JSON list, got " + shown(c));
    c = next_visible();
  } else if (c == ',') {
    c = next_visible();
    if (c == ']') input_.fail("expected an object after the comma, got ']'");
  } else if (c != ']') {
    input_.fail("expected ',' or ']' after an object of the list, got " + shown(c));
  }
  has_begun_ = true;
  if (c == ']') {
    has_ended_ = true;
    if (const int after = next_visible(); after >= 0)
      input_.fail("expected the end of the file, got " + shown(after));
    return false;
  }
  if (c != '{') input_.fail("expected an object in the list, got " + shown(c));
  read_object(object);
  return true;
}

void JsonListReader::fail(const std::string& what) const { throw std::runtime_error(place_ + ": " + what); }

int JsonListReader::next_visible() {
  int c = input_.next_character();
  while (c == ' ' || c == '\t' || c == '\r' || c == '\n') c = input_.next_character();
  return c;
}

// Up to the brace that closes the one just read; braces in strings don't count.
void JsonListReader::read_object(std::string& object) {
  place_ = input_.place();
  object = "{";
  bool is_in_string = false;
  for (std::size_t depth = 1; depth > 0;) {
    const int c = input_.next_character();
    if (c < 0) fail("expected this object to end, got the end of the file");
    if (object.size() == kMaxObjectBytes) fail("expected an object of at most 64 MiB");
    object += static_cast<char>(c);
    if (c == '"') is_in_string = !is_in_string;
    if (is_in_string) {
      if (c != '\\') continue;
      const int escaped = input_.next_character();  // perhaps a quote that ends nothing
      if (escaped >= 0) object += static_cast<char>(escaped);
    } else if (c == '{') {
      ++depth;
    } else if (c == '}') {
      --depth;
    }
  }
}

}  // namespace troupe::loadgen
