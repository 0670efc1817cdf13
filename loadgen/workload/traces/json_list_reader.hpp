// SPDX-License-Identifier: Apache-2.0
// The objects of one large JSON list, one at a time: files of conversations
// can be bigger than memory.
#pragma once

#include <string>
#include <utility>

#include "loadgen/workload/traces/trace_input.hpp"

namespace troupe::loadgen {

class JsonListReader {
 public:
  explicit JsonListReader(TraceInput input) : input_(std::move(input)), place_(input_.place()) {}

  // The text of the next object; false after the last. Throws
  // std::runtime_error where the list is malformed or ends too early. The
  // caller parses the inside of an object.
  bool next(std::string& object);

  const std::string& place() const { return place_; }  // where the object began: "NAME:LINE"
  [[noreturn]] void fail(const std::string& what) const;

 private:
  int next_visible();
  void read_object(std::string& object);

  TraceInput input_;
  std::string place_;
  bool has_begun_ = false;
  bool has_ended_ = false;
};

}  // namespace troupe::loadgen
