// SPDX-License-Identifier: Apache-2.0
// Programs of one network by cell and shape bin, so that building one and planning its
// memory (devices keep a plan a program) happen once a bin and not once a
// batch. Bins waste at most an eighth of the tokens: up to 8 exact, then eight
// a power of two; output rows by powers of two. A batch's actual rows are at
// most the bin's; devices compute the actual ones.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "gpu/networks/network.hpp"
#include "gpu/program/program.hpp"

namespace troupe {

// The smallest bin that holds `count`, at most `max` (which is a bin itself).
std::uint32_t token_bin(std::uint32_t count, std::uint32_t max);
std::uint32_t output_row_bin(std::uint32_t count, std::uint32_t max);

// Not thread-safe: belongs to the one worker that submits. The programs it
// hands out are immutable and may be used by any thread, also after the cache
// has dropped them or is gone.
class ProgramCache {
 public:
  static constexpr std::size_t kCapacity = 256;  // programs; the least recently used is dropped

  ProgramCache(std::shared_ptr<const Network> network, DataType compute_type, ProgramShape largest);

  // Throws std::runtime_error if the batch is larger than the largest shape.
  std::shared_ptr<const Program> find(CellId cell, std::uint32_t num_tokens, std::uint32_t num_output_rows);

  std::size_t size() const { return programs_.size(); }

 private:
  struct Key {
    CellId cell = 0;
    ProgramShape shape;
    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    std::shared_ptr<const Program> program;
    std::list<Key>::iterator recency;
  };

  std::shared_ptr<const Network> network_;
  DataType compute_type_;
  ProgramShape largest_;
  std::map<Key, Entry> programs_;
  std::list<Key> recency_;  // most recently used first
};

}  // namespace troupe
