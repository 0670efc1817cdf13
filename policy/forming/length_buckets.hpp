// SPDX-License-Identifier: Apache-2.0
// Padded graph batching, which cellular batching is compared with (BatchMaker, Gao et al.,
// EuroSys 2018): requests are told apart by length, each bucket in turn gives an idle worker
// its oldest ones, and all of a batch are padded to the longest of them, not to the end of the
// bucket: graphs are made batch by batch here. A batch is as large as what waits; there is no
// timeout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

// The turns of buckets. A value.
class LengthBuckets {
 public:
  // Bucket i is of lengths in (width * i, width * (i + 1)], in steps of a chain; width >= 1.
  explicit LengthBuckets(std::uint32_t width = 1) : width_(width) {}

  std::uint32_t bucket_of(std::uint32_t length) const { return (length - 1) / width_; }  // length >= 1

  // The next batch: indexes into lengths, ascending, at most max_batch, all of the bucket
  // behind the last one that had its turn and has requests. lengths: of those that wait, in
  // their order. Empty: none wait.
  std::vector<std::size_t> take_turn(std::span<const std::uint32_t> lengths, std::size_t max_batch);

 private:
  std::uint32_t width_;
  std::uint32_t next_ = 0;  // bucket
};

}  // namespace troupe
