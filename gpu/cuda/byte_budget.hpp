// SPDX-License-Identifier: Apache-2.0
// Memory that several threads take for a while, no more of it at once than is allowed: the
// tensors of a model that are opened to f32 on their way to a GPU.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace troupe::cuda {

// Any thread.
class ByteBudget {
 public:
  explicit ByteBudget(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Gives its bytes back when it goes. False: try_take() got none.
  class Share {
   public:
    ~Share();
    Share(Share&& other) noexcept;
    Share& operator=(Share&&) = delete;
    explicit operator bool() const { return budget_ != nullptr; }

   private:
    friend class ByteBudget;
    Share(ByteBudget* budget, std::uint64_t size_bytes) : budget_(budget), size_bytes_(size_bytes) {}
    ByteBudget* budget_;  // none: it holds nothing
    std::uint64_t size_bytes_;
  };

  // Waits until others leave enough. More than max_bytes is given to one that is alone.
  Share take(std::uint64_t size_bytes);
  // False for what take() would wait for.
  Share try_take(std::uint64_t size_bytes);

 private:
  bool has_room_for(std::uint64_t size_bytes) const;
  Share share_of(std::uint64_t size_bytes);

  const std::uint64_t max_bytes_;
  std::mutex mutex_;
  std::condition_variable was_given_back_;
  std::uint64_t taken_bytes_ = 0;
};

}  // namespace troupe::cuda
