// SPDX-License-Identifier: Apache-2.0
// The temporaries of all programs of a CPU device share one arena: its chunks
// are those of the largest shape, planned once, so the memory plan's figure is
// an upper bound. Smaller programs are placed in the same chunks;
// what no batch has used for a while, of a chunk or behind its beginning, goes back to the system.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu/pages/page_memory.hpp"
#include "gpu/program/planner.hpp"

namespace troupe {

// Bytes of arena that programs of these structures, run one at a time, need up to this shape.
std::uint64_t arena_bytes(std::span<const Program> largest);
inline std::uint64_t arena_bytes(const Program& largest) { return arena_bytes(std::span(&largest, 1)); }

// Not thread-safe: belongs to the executor thread.
class Arena {
 public:
  static constexpr std::uint32_t kIdleBatches = 256;  // memory that so many leave alone is released

  explicit Arena(const Program& largest) : Arena(std::span(&largest, 1)) {}
  // For the programs of several cells, one at a time, all planned for the same shape.
  explicit Arena(std::span<const Program> largest);

  // Where each tensor of the program lies. Throws std::runtime_error if the
  // program needs more than the largest one.
  std::vector<Placement> place(const Program& program) const;

  std::byte* address(Placement placement) const {
    return chunks_[placement.chunk].memory.get() + placement.offset;
  }

  // Bytes of each chunk, from its beginning, that the program uses where place() has put it.
  std::vector<std::uint64_t> used_bytes(const Program& program, std::span<const Placement> placements) const;

  // Before a batch: notes what it uses of each chunk. Every kIdleBatches batches what is behind all that
  // these used is released.
  void begin_batch(std::span<const std::uint64_t> used_bytes);

  // Fills everything with NaN; for tests.
  void poison();

  std::size_t num_chunks() const { return chunks_.size(); }
  std::uint64_t size_bytes() const;
  std::uint64_t committed_bytes() const;  // in whole large pages: used since it was released last

 private:
  struct Chunk {
    PageMemory memory;
    std::uint64_t committed_bytes = 0;
    std::uint64_t used_lately = 0;  // bytes, since num_batches_ was 0
  };

  void release_unused();

  std::vector<std::uint64_t> chunk_sizes_;
  std::vector<Chunk> chunks_;
  ProgramShape largest_;
  std::uint32_t num_batches_ = 0;  // since release_unused()
};

}  // namespace troupe
