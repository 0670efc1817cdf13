// SPDX-License-Identifier: Apache-2.0
// What a kernel has changed in device memory, which can be taken away again for as long as a
// block of the next kernel runs ahead of it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace troupe::simt {

class HiddenStores {
 public:
  // `before`: what was there. Memory outlives this.
  void add_changes(std::byte* memory, std::span<const std::byte> before);

  void hide();
  // What was stored by others in between is kept. False: the block has stored there.
  [[nodiscard]] bool show();

 private:
  struct Change {
    std::byte* memory;
    std::vector<std::byte> before;
    std::vector<std::byte> after;  // while it is hidden
  };
  void add_changes_of_page(std::byte* memory, std::span<const std::byte> before);

  std::vector<Change> changes_;
};

}  // namespace troupe::simt
